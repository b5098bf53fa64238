//! Whether the user has interrupted a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// A flag that a signal sets, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupted(pub(crate) Option<Arc<AtomicBool>>);

impl Interrupted {
    pub(crate) fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Waits until the flag is set, by polling.
    pub(crate) async fn set(&self) {
        while !self.is_set() {
            sleep(POLL_EVERY).await;
        }
    }

    /// Waits for a future until the flag is set. `None` if it is set first.
    pub(crate) async fn run_until_set<T>(&self, waited: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = waited => Some(done),
            () = self.set() => None,
        }
    }
}

const POLL_EVERY: Duration = Duration::from_millis(500);
