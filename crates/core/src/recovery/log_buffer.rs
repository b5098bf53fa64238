//! Entries that are not on disk, and which of a node's results wait for them.
//!
//! Most entries are *prompt*: nothing leaves the node before they are on disk. With [`Logging::Deferred`] bulky entries of a
//! data center's own workers and servers are not, and entries of these that come after a bulky one are not either. They
//! are on disk before the next prompt entry is, since a log has all entries in order. Where they have become too many, a
//! checkpoint takes their place.

use bytes::Bytes;
use serde::Serialize;

use super::entry::encode;

/// What a node keeps of its inputs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// Nothing: a node that crashes has lost its state.
    Off,
    /// Each input, before any result of it leaves.
    Each,
    /// As [`Self::Each`], but no result waits for a bulky input from another node of the data center. A node that crashes
    /// has lost those that were not on disk, and what came after them. A server's workers repeat these clocks, and a worker
    /// continues where its servers expect it.
    Deferred {
        /// The bytes from which on an input is bulky.
        bulky: u64,
        /// The most bytes of bulky inputs that wait in memory. Beyond that none of them is kept, and a checkpoint is written in
        /// their place.
        bytes_max: u64,
    },
}

/// The place of an entry among all of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(u64);

/// The entries of a node that are not on disk.
#[derive(Debug)]
pub(super) struct LogBuffer {
    logging: Logging,
    /// The entries to write: up to the latest prompt one, and those after it.
    waiting: Vec<Bytes>,
    /// How many of these are up to the latest prompt one.
    prompt_count: usize,
    /// The bytes of those after it.
    deferred_bytes: u64,
    /// The entry after which all were dropped, if some were.
    dropped_after: Option<Position>,
    pushed: Position,
    /// The latest prompt entry.
    prompt: Position,
    /// The latest entry that is being written.
    taken: Position,
    /// The latest entry that is on disk, with all before it.
    durable: Position,
}

impl LogBuffer {
    pub(super) fn new(logging: Logging) -> Self {
        Self {
            logging,
            waiting: Vec::new(),
            prompt_count: 0,
            deferred_bytes: 0,
            dropped_after: None,
            pushed: Position::default(),
            prompt: Position::default(),
            taken: Position::default(),
            durable: Position::default(),
        }
    }

    /// Adds an entry. `is_local` is whether it can be deferred.
    pub(super) fn push<T: Serialize>(&mut self, entry: &T, is_local: bool) {
        if self.logging == Logging::Off {
            return;
        }
        let before = self.prompt.max(self.taken);
        let mut is_deferred = is_local && self.pushed > before;
        self.pushed.0 += 1;

        if self.dropped_after.is_none() {
            let entry = encode(entry);
            let bytes = entry.len() as u64;
            self.waiting.push(entry);
            if let Logging::Deferred { bulky, bytes_max } = self.logging {
                is_deferred |= is_local && bytes >= bulky;
                if is_deferred {
                    self.deferred_bytes += bytes;
                }
                if self.deferred_bytes > bytes_max {
                    self.waiting.truncate(self.prompt_count);
                    self.dropped_after = Some(before);
                }
            }
        }
        if !is_deferred {
            self.prompt = self.pushed;
            (self.prompt_count, self.deferred_bytes) = (self.waiting.len(), 0);
        }
    }

    /// The latest entry.
    pub(super) fn pushed(&self) -> Position {
        self.pushed
    }

    /// Whether an entry and all before it are on disk.
    pub(super) fn is_durable(&self, position: Position) -> bool {
        position <= self.durable
    }

    /// Whether every entry is on disk.
    pub(super) fn is_settled(&self) -> bool {
        self.is_durable(self.pushed)
    }

    /// Whether every prompt entry is on disk, and all before it.
    pub(super) fn is_prompt_settled(&self) -> bool {
        self.is_durable(self.prompt)
    }

    /// Whether some of the entries that wait were dropped, and only a checkpoint can take their place.
    pub(super) fn has_dropped(&self) -> bool {
        self.dropped_after.is_some()
    }

    /// Whether a checkpoint has to be written now: entries before a prompt one were dropped.
    fn needs_checkpoint(&self) -> bool {
        self.dropped_after.is_some_and(|last| self.prompt > last)
    }

    /// The number of entries that are not on disk.
    pub(super) fn waiting(&self) -> u64 {
        self.pushed.0 - self.durable.0
    }

    /// The entries to write: all, or those before the dropped ones.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        assert!(!self.needs_checkpoint(), "a checkpoint takes the place of these entries");
        self.taken = self.dropped_after.unwrap_or(self.pushed);
        (self.prompt_count, self.deferred_bytes) = (0, 0);
        std::mem::take(&mut self.waiting)
    }

    /// A checkpoint takes the place of the entries that wait.
    pub(super) fn replace(&mut self) {
        (self.taken, self.dropped_after) = (self.pushed, None);
        (self.prompt_count, self.deferred_bytes) = (0, 0);
        self.waiting.clear();
    }

    /// What was taken or replaced is on disk.
    pub(super) fn synced(&mut self) {
        self.durable = self.taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes_max: u64) -> LogBuffer {
        LogBuffer::new(Logging::Deferred { bulky: 100, bytes_max })
    }

    fn bulky() -> String {
        "a".repeat(200)
    }

    #[test]
    fn small_entries_are_prompt_and_bulky_ones_wait_for_them() {
        let mut log = buffer(1 << 20);
        log.push(&"small", true);
        assert!(!log.is_prompt_settled());
        assert_eq!(log.take().len(), 1);
        log.synced();
        assert!(log.is_settled());

        // What follows a bulky entry waits with it, and is written before what may leave.
        log.push(&bulky(), true);
        log.push(&"small", true);
        assert!(log.is_prompt_settled() && !log.is_settled());
        log.push(&"leaves", false);
        assert!(!log.is_prompt_settled());
        assert_eq!((log.take().len(), log.waiting()), (3, 3));
        log.synced();
        assert!(log.is_settled());
        log.push(&bulky(), false);
        assert!(!log.is_prompt_settled(), "what may leave is prompt, whatever its size");
    }

    #[test]
    fn a_checkpoint_takes_the_place_of_too_many_bytes() {
        let mut log = buffer(300);
        log.push(&bulky(), true);
        assert!(!log.needs_checkpoint());
        log.push(&bulky(), true);
        log.push(&"small", true);
        assert!(!log.needs_checkpoint() && log.is_prompt_settled() && log.take().is_empty());
        log.synced();
        assert!(log.is_prompt_settled() && !log.is_settled());
        log.push(&"leaves", false);
        assert!(log.needs_checkpoint() && !log.is_prompt_settled());
        log.replace();
        // What comes while the checkpoint is written is not in it.
        log.push(&"small", true);
        assert!(!log.is_prompt_settled());
        log.synced();
        assert!(!log.is_settled() && !log.needs_checkpoint());
        assert_eq!((log.take().len(), log.waiting()), (1, 1));
    }

    #[test]
    fn what_comes_before_a_bulky_entry_is_written_though_that_is_dropped() {
        let mut log = buffer(0);
        log.push(&"small", true);
        log.push(&bulky(), true);
        assert!(!log.is_prompt_settled() && !log.needs_checkpoint());
        assert_eq!((log.take().len(), log.waiting()), (1, 2));
        log.synced();
        assert!(log.is_prompt_settled() && log.waiting() == 1);
        log.push(&"small", true);
        assert!(log.is_prompt_settled() && log.take().is_empty());
    }

    #[test]
    fn nothing_is_deferred_unless_asked_for() {
        let mut log = LogBuffer::new(Logging::Each);
        log.push(&bulky(), true);
        assert!(!log.is_prompt_settled());
        let mut off = LogBuffer::new(Logging::Off);
        off.push(&bulky(), true);
        assert!(off.is_settled() && off.take().is_empty());
    }
}
