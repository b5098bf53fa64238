//! Work that keeps a thread busy, under runtimes of several threads and of one.

use std::panic::resume_unwind;
use std::thread;

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

/// Long work that the process waits for before it ends, also where nobody asks for its result.
pub(crate) struct Background<T>(Option<Work<T>>);

enum Work<T> {
    Running(thread::JoinHandle<T>),
    Done(T),
}

impl<T: Send + 'static> Background<T> {
    /// Begins the work. A runtime of one thread runs it at once, as [`beside`] does.
    pub(crate) fn begin(work: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(Some(if is_alone() { Work::Done(work()) } else { Work::Running(thread::spawn(work)) }))
    }
}

impl<T> Background<T> {
    /// Whether [`Self::wait`] would not wait.
    pub(crate) fn is_done(&self) -> bool {
        match &self.0 {
            Some(Work::Running(thread)) => thread.is_finished(),
            Some(Work::Done(_)) | None => true,
        }
    }

    /// Waits for the result.
    ///
    /// # Panics
    /// If the work has panicked.
    pub(crate) fn wait(mut self) -> T {
        match self.0.take().expect("only the end of this value takes it") {
            Work::Running(thread) => {
                in_place(|| thread.join()).unwrap_or_else(|panic| resume_unwind(panic))
            }
            Work::Done(result) => result,
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        if let Some(Work::Running(thread)) = self.0.take() {
            // Its result, or its panic, is nobody's any more.
            let _unwanted = thread.join();
        }
    }
}

fn is_alone() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_in_the_background_is_waited_for_by_whoever_asks_and_by_whoever_drops_it() {
        let (go_on, may_go_on) = channel();
        let asked = Background::begin(move || may_go_on.recv());
        assert!(!asked.is_done());
        go_on.send(7).unwrap();
        assert_eq!(asked.wait(), Ok(7));

        let (ended, has_ended) = channel();
        drop(Background::begin(move || ended.send(8)));
        assert_eq!(has_ended.try_recv(), Ok(8));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_work_of_the_background_at_once() {
        let (ended, has_ended) = channel();
        let work = Background::begin(move || ended.send(8));
        assert_eq!((work.is_done(), has_ended.try_recv()), (true, Ok(8)));
        work.wait().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    #[should_panic(expected = "as a test wants")]
    async fn a_panic_of_work_in_the_background_is_that_of_whoever_waits() {
        Background::begin(|| panic!("as a test wants")).wait();
    }
}
