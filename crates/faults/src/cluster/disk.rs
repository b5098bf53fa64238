//! The disk of one simulated node: a log whose end a crash may tear, and the last checkpoint.
//!
//! The bytes have the real format (`log/`), so that the real code reads them after a crash. Synced bytes survive a
//! crash. Of the other bytes all, some or none survive.

use bytes::Bytes;

use crate::scenario::draws::within;
use gaia_core::log::{Appender, LogError, Owner, Scan};
use gaia_core::types::{Random, State};

#[derive(Debug)]
pub(crate) struct Disk {
    owner: Owner,
    /// The only segment of the log.
    segment: Vec<u8>,
    /// The number of bytes that survive a crash.
    synced_bytes: usize,
    appender: Appender,
    checkpoint: Option<(u64, State)>,
    chance: Random,
    bug: Option<DiskBug>,
}

/// A planted bug of the code that writes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskBug {
    /// [`Bug::LeavesTornTail`](crate::Bug::LeavesTornTail).
    LeavesTornTail,
    /// [`Bug::LeavesSegmentUnsynced`](crate::Bug::LeavesSegmentUnsynced).
    LeavesSegmentUnsynced,
    /// [`Bug::DropsLogTooFar`](crate::Bug::DropsLogTooFar).
    DropsLogTooFar,
}

/// The contents of a node's disk at its start.
#[derive(Debug)]
pub(crate) struct Found {
    /// The state of the last checkpoint, and the number of the first record that it does not include.
    pub(crate) checkpoint: Option<(u64, State)>,
    /// All whole records with their numbers, including those before the checkpoint that were kept.
    pub(crate) records: Vec<(u64, Bytes)>,
    /// Whether a torn tail was truncated.
    pub(crate) torn: bool,
}

/// What a node's log holds.
pub(crate) struct Log {
    /// All whole records with their numbers.
    pub(crate) records: Vec<(u64, Bytes)>,
    /// Whether a torn tail was truncated.
    torn: bool,
}

/// Which of the bytes that were not synced survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survives {
    /// A random part.
    ByChance,
    /// Some bytes of the last write, but not all.
    Torn,
}

impl Disk {
    pub(crate) fn new(node: String, plan: u64, chance: Random, bug: Option<DiskBug>) -> Self {
        let owner = Owner { plan, node };
        let mut segment = Vec::new();
        let appender = Appender::begin(&owner, 0, &mut segment);
        let synced_bytes = segment.len();
        Self { owner, segment, synced_bytes, appender, checkpoint: None, chance, bug }
    }

    /// Replaces the disk, with equal probability by an empty one or by one with the last checkpoint. Returns the
    /// checkpoint in the latter case.
    pub(crate) fn replace(&mut self) -> Option<State> {
        if within(&mut self.chance, 0, 1) == 0 {
            self.checkpoint = None;
        }
        let next = self.checkpoint.as_ref().map_or(0, |(next, _)| *next);
        self.segment.clear();
        self.appender = Appender::begin(&self.owner, next, &mut self.segment);
        self.synced_bytes = self.segment.len();
        self.checkpoint.as_ref().map(|(_, state)| state.clone())
    }

    /// Writes records.
    pub(crate) fn append(&mut self, bodies: &[Bytes]) {
        for body in bodies {
            self.appender.push(body, &mut self.segment);
        }
    }

    /// Syncs all bytes written so far.
    pub(crate) fn sync(&mut self) {
        self.synced_bytes = self.segment.len();
        self.appender.push_mark(&mut self.segment);
    }

    /// Writes a checkpoint of all records so far, which must be synced. `rotates` is whether the older records are then
    /// deleted. The node may crash before that.
    pub(crate) fn write_checkpoint(&mut self, state: State, rotates: bool) {
        let next = self.appender.next_number();
        if !rotates || self.bug != Some(DiskBug::DropsLogTooFar) {
            self.checkpoint = Some((next, state));
        }
        if rotates {
            self.segment.clear();
            self.appender = Appender::begin(&self.owner, next, &mut self.segment);
        }
        let is_synced = !rotates || self.bug != Some(DiskBug::LeavesSegmentUnsynced);
        self.synced_bytes = if is_synced { self.segment.len() } else { 0 };
    }

    /// The machine crashes. Of the bytes that were not synced a part survives, and the rest is missing or zero.
    pub(crate) fn crash(&mut self, survives: Survives) {
        let written = self.segment.len() - self.synced_bytes;
        let (least, most) = match survives {
            Survives::ByChance => (0, written),
            Survives::Torn => (written.min(1), written.saturating_sub(1)),
        };
        // None and all are as probable as any part between.
        let kept = match within(&mut self.chance, 0, 3) {
            0 => least,
            1 => most,
            _ => within(&mut self.chance, least as u64, most.max(least) as u64) as usize,
        };
        let whole = self.synced_bytes + kept;
        if within(&mut self.chance, 0, 3) == 0 {
            self.segment[whole..].fill(0);
        } else {
            self.segment.truncate(whole);
        }
    }

    /// Reads the disk and truncates a torn tail.
    ///
    /// # Errors
    /// If a synced record is damaged.
    pub(crate) fn recover(&mut self) -> Result<Found, LogError> {
        let Log { records, torn } = self.read_log()?;
        Ok(Found { checkpoint: self.checkpoint.clone(), records, torn })
    }

    /// Reads the log and truncates a torn tail.
    ///
    /// # Errors
    /// If a synced record is damaged.
    pub(crate) fn read_log(&mut self) -> Result<Log, LogError> {
        let mut scan = Scan::new(&self.segment, &self.owner, RECORD_BYTES_MAX)?;
        let mut records = Vec::new();
        for record in scan.by_ref() {
            let record = record?;
            records.push((record.number, Bytes::copy_from_slice(record.body)));
        }
        let end = scan.finish()?;
        if self.bug != Some(DiskBug::LeavesTornTail) {
            self.segment.truncate(end.whole_bytes);
        }
        self.synced_bytes = end.whole_bytes;
        self.appender = end.appender;
        Ok(Log { records, torn: end.torn.is_some() })
    }

    /// The number of the next record.
    pub(crate) fn next_number(&self) -> u64 {
        self.appender.next_number()
    }
}

const RECORD_BYTES_MAX: usize = 1 << 24;
