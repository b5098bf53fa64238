//! Work that keeps a thread busy, under runtimes of several threads and of one.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinHandle, block_in_place, spawn_blocking};

/// Runs long work in parallel. A runtime of one thread runs it at once, because no other task is delayed there, and
/// so that the order in which tasks end does not depend on the machine.
pub(crate) fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    if is_alone() {
        let done = work();
        tokio::spawn(async { done })
    } else {
        spawn_blocking(work)
    }
}

/// Waits for a disk without delaying other tasks, if there are other threads.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    if is_alone() { work() } else { block_in_place(work) }
}

fn is_alone() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}
