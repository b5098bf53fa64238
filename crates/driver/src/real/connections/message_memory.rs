//! Memory of received messages, for those that follow.

use std::sync::{Arc, Mutex, MutexGuard};

use gaia_core::types::ReusedValues;
use gaia_core::wire::ReceivedBody;

/// The memory of messages of several connections. A message of a whole model has as many bytes, and fresh memory is given by
/// the system page by page.
#[derive(Clone, Debug, Default)]
pub(in crate::real) struct MessageMemory(Arc<Mutex<ReusedValues>>);

impl MessageMemory {
    /// The memory of an earlier message that nobody holds any more.
    pub(super) fn take(&self) -> Vec<f32> {
        self.reused().take_largest()
    }

    /// Uses the memory of a message again, once nobody holds the message or values of it.
    pub(super) fn remember(&self, body: &ReceivedBody) {
        self.reused().remember(body.memory().clone());
    }

    fn reused(&self) -> MutexGuard<'_, ReusedValues> {
        self.0.lock().expect("memory is never left half changed")
    }
}
