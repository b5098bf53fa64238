//! Entries that are not on disk, and which of a node's results wait for them.
//!
//! Most entries are *prompt*: nothing leaves the node before they are on disk. With [`Logging::Deferred`] bulky entries of a
//! data center's own workers and servers are not, and entries of these that come after a bulky one are not either. They
//! are on disk before the next entry that depends on them is, since a log has all of these in order.
//!
//! Where they become too many, they are left out, with all local ones after them, until a checkpoint takes the place of all. Of
//! this *gap* nothing has left the node. An entry that depends on none of it is written meanwhile: where data centers exchange
//! changes in rounds, a frame depends on what workers have sent before the round began. A node that crashes then replays what was
//! written, and receives what is in the gap after that, from workers that repeat it.

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

/// The most bytes of an entry that a log takes. A checkpoint is in the place of a longer one of a data center's own nodes, where
/// entries may be left out.
pub const ENTRY_BYTES_MAX: u64 = 1 << 31;

/// What may wait for an entry to be on disk, and what it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// It depends on all entries before it, and nothing leaves before it is on disk.
    Prompt,
    /// Nothing leaves before it is on disk. Of [local](Self::Local) entries it depends on those up to the latest that is
    /// [needed](LogBuffer::need).
    Independent,
    /// Nothing leaves because of it, and who has sent it can repeat it.
    Local,
}

/// The place of an entry among all of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(u64);

/// The entries of a node that are not on disk.
#[derive(Debug)]
pub(super) struct LogBuffer {
    logging: Logging,
    entry_bytes_max: u64,
    /// The entries to write: up to the latest prompt one, and those after it.
    waiting: Vec<Bytes>,
    /// How many of these are up to the latest prompt one.
    prompt_count: usize,
    /// The bytes of those after it.
    deferred_bytes: u64,
    /// The entry after which the gap begins, if there is one.
    gap_after: Option<Position>,
    /// Whether anything was left out since it began.
    has_left_out: bool,
    /// Whether an entry depends on some in the gap.
    needs_gap: bool,
    /// The bytes of local entries since the latest that is needed.
    local_bytes: u64,
    /// Whether these are left out from the first bulky one on: they were too many the last time.
    leaves_out: bool,
    pushed: Position,
    /// The latest prompt entry.
    prompt: Position,
    /// The latest prompt entry that a data center's own nodes wait for, too. In a gap they do not wait for what leaves.
    prompt_nearby: Position,
    /// The latest entry that a later one may depend on, whatever its kind.
    needed: Position,
    /// The latest entry that is being written, or has been left out.
    taken: Position,
    /// The latest entry that was being written, or left out, at the last sync.
    settled: Position,
    /// The latest entry that is on disk, with all before it.
    durable: Position,
}

impl LogBuffer {
    pub(super) fn new(logging: Logging) -> Self {
        Self {
            logging,
            entry_bytes_max: ENTRY_BYTES_MAX,
            waiting: Vec::new(),
            prompt_count: 0,
            deferred_bytes: 0,
            gap_after: None,
            has_left_out: false,
            needs_gap: false,
            local_bytes: 0,
            leaves_out: false,
            pushed: Position::default(),
            prompt: Position::default(),
            prompt_nearby: Position::default(),
            needed: Position::default(),
            taken: Position::default(),
            settled: Position::default(),
            durable: Position::default(),
        }
    }

    /// Adds an entry of about so many bytes, as far as is known.
    pub(super) fn push<T: Serialize>(&mut self, entry: &T, kind: EntryKind, bytes: u64) {
        if self.logging == Logging::Off {
            return;
        }
        let whole = self.whole();
        self.pushed.0 += 1;

        let needs_all = match kind {
            EntryKind::Local => return self.push_local(entry, bytes, whole),
            EntryKind::Independent => self.needed > whole,
            EntryKind::Prompt => true,
        };
        self.prompt = self.pushed;
        if kind == EntryKind::Prompt && self.gap_after.is_some() {
            // Others like it may follow at any time. With a gap each of them would need a checkpoint.
            self.leaves_out = false;
            if !self.has_left_out {
                self.gap_after = None;
            }
        }
        if kind == EntryKind::Prompt || self.gap_after.is_none() {
            self.prompt_nearby = self.pushed;
        }
        if needs_all && self.gap_after.is_some() {
            self.needs_gap = true;
        } else {
            self.waiting.push(encode(entry));
            (self.prompt_count, self.deferred_bytes) = (self.waiting.len(), 0);
        }
    }

    /// Later entries may depend on the latest one, and on all before it.
    pub(super) fn need(&mut self) {
        self.needed = self.pushed;
        let local_bytes = std::mem::take(&mut self.local_bytes);
        self.leaves_out = self.bytes_max().is_some_and(|most| local_bytes > most);
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

    /// Whether every prompt entry is on disk, and all that it depends on.
    pub(super) fn is_prompt_settled(&self) -> bool {
        self.prompt <= self.settled
    }

    /// Whether every prompt entry is on disk that a data center's own nodes wait for, and all that it depends on. They repeat
    /// what is in a gap, and what followed from it.
    pub(super) fn is_settled_nearby(&self) -> bool {
        self.prompt_nearby <= self.settled
    }

    /// Whether only a checkpoint can take the place of some entries.
    pub(super) fn has_gap(&self) -> bool {
        self.gap_after.is_some()
    }

    /// Whether prompt entries depend on some in whose place only a checkpoint can be.
    pub(super) fn needs_checkpoint(&self) -> bool {
        self.needs_gap
    }

    /// The number of entries that are not on disk.
    pub(super) fn waiting(&self) -> u64 {
        self.pushed.0 - self.durable.0
    }

    /// The number of entries that [`Self::take`] would return, if the latest entry is one of them.
    pub(super) fn entries_up_to_latest(&self) -> Option<u64> {
        let is_last = self.gap_after.is_none() || !self.needs_gap && self.prompt == self.pushed;
        is_last.then_some(self.waiting.len() as u64)
    }

    /// The entries to write: all but those in the gap.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        assert!(!self.needs_checkpoint(), "a checkpoint takes the place of these entries");
        self.taken = self.pushed;
        (self.prompt_count, self.deferred_bytes) = (0, 0);
        std::mem::take(&mut self.waiting)
    }

    /// A checkpoint takes the place of the entries that wait. Where one will take that of the entries that follow, too, none of
    /// the local ones waits for this one.
    pub(super) fn replace(&mut self) {
        (self.taken, self.needs_gap) = (self.pushed, false);
        (self.gap_after, self.has_left_out) = (self.leaves_out.then_some(self.pushed), false);
        (self.prompt_count, self.deferred_bytes) = (0, 0);
        self.waiting.clear();
    }

    /// What was taken or replaced is on disk.
    pub(super) fn synced(&mut self) {
        self.settled = self.taken;
        let durable = self.gap_after.map_or(self.taken, |gap| gap.min(self.taken));
        self.durable = self.durable.max(durable);
    }

    /// The latest entry up to which all are on disk before anything leaves.
    fn whole(&self) -> Position {
        let prompt = self.prompt.max(self.taken);
        self.gap_after.unwrap_or(prompt)
    }

    fn push_local<T: Serialize>(&mut self, entry: &T, bytes: u64, whole: Position) {
        let (logging, follows) = (self.logging, self.pushed.0 > whole.0 + 1);
        let is_deferred = |bytes: u64| match logging {
            Logging::Deferred { bulky, .. } => follows || bytes >= bulky,
            Logging::Off | Logging::Each => false,
        };
        let deferred_bytes = self.deferred_bytes;
        let room = self.bytes_max().map_or(u64::MAX, |most| most.saturating_sub(deferred_bytes));
        let room = room.min(self.entry_bytes_max);
        // What is left out is not encoded.
        let is_too_much = is_deferred(bytes) && (self.leaves_out || bytes > room);
        if self.gap_after.is_some() || is_too_much {
            self.local_bytes += bytes;
            return self.leave_gap_after(whole);
        }

        let entry = encode(entry);
        let bytes = entry.len() as u64;
        self.local_bytes += bytes;
        self.waiting.push(entry);
        if !is_deferred(bytes) {
            (self.prompt, self.prompt_nearby) = (self.pushed, self.pushed);
            self.prompt_count = self.waiting.len();
            return;
        }
        self.deferred_bytes += bytes;
        if bytes > room {
            self.leave_gap_after(whole);
        }
    }

    /// Leaves out the entries after a position, unless there is a gap.
    fn leave_gap_after(&mut self, last: Position) {
        self.has_left_out = true;
        if self.gap_after.is_none() {
            self.gap_after = Some(last);
            self.waiting.truncate(self.prompt_count);
            self.deferred_bytes = 0;
        }
    }

    fn bytes_max(&self) -> Option<u64> {
        match self.logging {
            Logging::Deferred { bytes_max, .. } => Some(bytes_max),
            Logging::Off | Logging::Each => None,
        }
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
        log.push(&"small", EntryKind::Local, 0);
        assert!(!log.is_prompt_settled());
        assert_eq!(log.take().len(), 1);
        log.synced();
        assert!(log.is_settled());

        // What follows a bulky entry waits with it, and is written before what may leave.
        log.push(&bulky(), EntryKind::Local, 0);
        log.push(&"small", EntryKind::Local, 0);
        assert!(log.is_prompt_settled() && !log.is_settled());
        log.push(&"leaves", EntryKind::Prompt, 0);
        assert!(!log.is_prompt_settled());
        assert_eq!((log.take().len(), log.waiting()), (3, 3));
        log.synced();
        assert!(log.is_settled());
        log.push(&bulky(), EntryKind::Prompt, 0);
        assert!(!log.is_prompt_settled(), "what may leave is prompt, whatever its size");
    }

    #[test]
    fn a_checkpoint_takes_the_place_of_too_many_bytes() {
        let mut log = buffer(300);
        log.push(&bulky(), EntryKind::Local, 0);
        assert!(!log.needs_checkpoint());
        log.push(&bulky(), EntryKind::Local, 0);
        log.push(&"small", EntryKind::Local, 0);
        assert!(!log.needs_checkpoint() && log.is_prompt_settled() && log.take().is_empty());
        log.synced();
        assert!(log.is_prompt_settled() && !log.is_settled());
        log.push(&"leaves", EntryKind::Prompt, 0);
        assert!(log.needs_checkpoint() && !log.is_prompt_settled());
        log.replace();
        // What comes while the checkpoint is written is not in it.
        log.push(&"small", EntryKind::Local, 0);
        assert!(!log.is_prompt_settled());
        log.synced();
        assert!(!log.is_settled() && !log.needs_checkpoint());
        assert_eq!((log.take().len(), log.waiting()), (1, 1));
    }

    #[test]
    fn a_checkpoint_takes_the_place_of_an_entry_that_is_too_long_for_a_log() {
        for known_bytes in [0, 200] {
            let mut log = LogBuffer { entry_bytes_max: 199, ..buffer(1 << 20) };
            log.push(&"a".repeat(150), EntryKind::Local, 0);
            assert!(!log.has_gap());
            log.push(&bulky(), EntryKind::Local, known_bytes);
            assert!(log.has_gap() && log.take().is_empty());
            log.push(&"leaves", EntryKind::Prompt, 0);
            assert!(log.needs_checkpoint());
        }
    }

    #[test]
    fn what_comes_before_a_bulky_entry_is_written_though_that_is_dropped() {
        let mut log = buffer(0);
        log.push(&"small", EntryKind::Local, 0);
        log.push(&bulky(), EntryKind::Local, 0);
        assert!(!log.is_prompt_settled() && !log.needs_checkpoint());
        assert_eq!((log.take().len(), log.waiting()), (1, 2));
        log.synced();
        assert!(log.is_prompt_settled() && log.waiting() == 1);
        log.push(&"small", EntryKind::Local, 0);
        assert!(log.is_prompt_settled() && log.take().is_empty());
    }

    #[test]
    fn what_depends_on_nothing_in_a_gap_is_written_without_it() {
        let mut log = buffer(300);
        let push = |log: &mut LogBuffer, kind| log.push(&bulky(), kind, 200);
        let write = |log: &mut LogBuffer| {
            let entries = log.take().len();
            log.synced();
            entries
        };

        // Without a gap it is as any prompt entry.
        push(&mut log, EntryKind::Local);
        log.need();
        push(&mut log, EntryKind::Independent);
        assert_eq!((write(&mut log), log.is_settled()), (2, true));

        (0..2).for_each(|_| push(&mut log, EntryKind::Local));
        let left_out = log.pushed();
        assert!(log.has_gap() && log.entries_up_to_latest().is_none());
        push(&mut log, EntryKind::Independent);
        assert_eq!(log.entries_up_to_latest(), Some(1));
        assert!(!log.is_prompt_settled() && !log.needs_checkpoint());
        assert_eq!(write(&mut log), 1);
        assert!(log.is_prompt_settled() && !log.is_settled() && !log.is_durable(left_out));

        // What is needed is in the gap.
        log.need();
        push(&mut log, EntryKind::Independent);
        assert!(log.needs_checkpoint() && !log.is_prompt_settled());
        log.replace();
        assert!(!log.is_durable(left_out), "the checkpoint is not on disk");
        log.synced();
        assert!(log.is_settled());
    }

    #[test]
    fn bulky_entries_that_were_too_many_are_left_out_the_next_time() {
        let mut log = buffer(300);
        let round = |log: &mut LogBuffer, bulky_entries: usize| {
            (0..bulky_entries).for_each(|_| log.push(&bulky(), EntryKind::Local, 200));
            let found = (log.has_gap(), log.waiting.len());
            log.need();
            log.push(&"leaves", EntryKind::Independent, 0);
            match log.needs_checkpoint() {
                true => log.replace(),
                false => drop(log.take()),
            }
            log.synced();
            found
        };
        assert_eq!(round(&mut log, 2), (true, 0));
        assert_eq!(round(&mut log, 1), (true, 0));
        assert_eq!(round(&mut log, 1), (false, 1), "one was not too many");
    }

    #[test]
    fn what_depends_on_everything_needs_no_second_checkpoint() {
        let mut log = buffer(300);
        (0..2).for_each(|_| log.push(&bulky(), EntryKind::Local, 200));
        log.need();
        log.push(&"of the drain", EntryKind::Prompt, 0);
        assert!(log.needs_checkpoint());
        log.replace();
        log.synced();
        assert!(log.is_settled() && !log.has_gap());
        log.push(&bulky(), EntryKind::Local, 200);
        log.push(&"of the drain", EntryKind::Prompt, 0);
        assert_eq!((log.needs_checkpoint(), log.take().len()), (false, 2));
    }

    #[test]
    fn what_depends_on_everything_needs_no_checkpoint_where_nothing_was_left_out_since_the_last() {
        let mut log = buffer(300);
        let mut round = |is_more_left_out: bool| {
            (0..2).for_each(|_| log.push(&bulky(), EntryKind::Local, 200));
            log.need();
            log.push(&"leaves", EntryKind::Independent, 0);
            log.replace();
            if is_more_left_out {
                log.push(&bulky(), EntryKind::Local, 200);
            }
            log.push(&"of the drain", EntryKind::Prompt, 0);
            assert!(!log.is_prompt_settled() && !log.is_settled_nearby());
            log.synced();
            assert_eq!(
                (log.needs_checkpoint(), log.has_gap()),
                (is_more_left_out, is_more_left_out)
            );
            match is_more_left_out {
                true => log.replace(),
                false => assert_eq!(log.take().len(), 1),
            }
            assert!(!log.is_prompt_settled());
            log.synced();
            assert!(log.is_settled() && !log.has_gap());
        };
        round(false);
        round(true);
    }

    #[test]
    fn nodes_nearby_do_not_wait_for_what_leaves_while_a_checkpoint_is_written() {
        let mut log = buffer(300);
        let mut round = || {
            (0..2).for_each(|_| log.push(&bulky(), EntryKind::Local, 200));
            log.need();
            log.push(&"leaves", EntryKind::Independent, 0);
            assert!(log.needs_checkpoint() && log.is_settled_nearby());
            log.replace();
            // It follows a checkpoint that is not on disk, and is left out as it is.
            log.push(&"small", EntryKind::Local, 0);
            assert!(log.is_settled_nearby() && !log.is_prompt_settled());
            log.synced();
            assert!(log.is_prompt_settled() && !log.is_settled());
        };
        round();
        round();

        log.push(&"of the run", EntryKind::Prompt, 0);
        assert!(log.needs_checkpoint() && !log.is_settled_nearby());
    }

    #[test]
    fn nothing_is_deferred_unless_asked_for() {
        let mut log = LogBuffer::new(Logging::Each);
        log.push(&bulky(), EntryKind::Local, 0);
        assert!(!log.is_prompt_settled());
        let mut off = LogBuffer::new(Logging::Off);
        off.push(&bulky(), EntryKind::Local, 0);
        assert!(off.is_settled() && off.take().is_empty());
    }
}
