//! Entries that have not been synced to the disk.

use bytes::Bytes;
use serde::Serialize;

use super::entry::encode;

/// The entries of a node that have not been synced.
#[derive(Debug)]
pub(super) struct LogBuffer {
    /// Whether entries are kept at all.
    kept: bool,
    waiting: Vec<Bytes>,
    writing: bool,
}

impl LogBuffer {
    pub(super) fn new(kept: bool) -> Self {
        Self { kept, waiting: Vec::new(), writing: false }
    }

    pub(super) fn push<T: Serialize>(&mut self, entry: &T) {
        if self.kept {
            self.waiting.push(encode(entry));
        }
    }

    /// Whether every entry is on disk.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && !self.writing
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.writing |= !self.waiting.is_empty();
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn synced(&mut self) {
        self.writing = false;
    }
}
