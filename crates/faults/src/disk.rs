//! The disk of one simulated node: a log whose end a crash may tear, and the last checkpoint.
//!
//! The bytes are those that real nodes write (`log/`), so that the true code tells records from what a crash has left
//! of them. What was synced stays; of what was not, a crash leaves all, some or nothing.

use bytes::Bytes;

use super::draws::within;
use gaia_core::log::{Appender, LogError, Owner, Scan};
use gaia_core::types::{Random, State};

#[derive(Debug)]
pub(super) struct Disk {
    owner: Owner,
    /// The one segment that there is.
    segment: Vec<u8>,
    /// What a crash leaves alone.
    synced_bytes: usize,
    appender: Appender,
    checkpoint: Option<(u64, State)>,
    chance: Random,
}

/// What a node finds on its disk when it starts.
#[derive(Debug)]
pub(super) struct Found {
    /// The state of the last checkpoint, and the number of the first record that is not in it.
    pub(super) checkpoint: Option<(u64, State)>,
    /// All whole records with their numbers, those in the checkpoint too where they were kept.
    pub(super) records: Vec<(u64, Bytes)>,
    /// Whether something torn was cut off.
    pub(super) torn: bool,
}

/// When within a write a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survives {
    /// Of what was not synced, whatever chance leaves.
    ByChance,
    /// Some bytes of the last write, not all.
    Torn,
}

impl Disk {
    pub(super) fn new(node: String, plan: u64, chance: Random) -> Self {
        let owner = Owner { plan, node };
        let mut segment = Vec::new();
        let appender = Appender::begin(&owner, 0, &mut segment);
        let synced_bytes = segment.len();
        Self { owner, segment, synced_bytes, appender, checkpoint: None, chance }
    }

    /// Puts another disk in its place: as often as not an empty one, otherwise one that has the last checkpoint, which it
    /// answers with.
    pub(super) fn replace(&mut self) -> Option<State> {
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
    pub(super) fn append(&mut self, bodies: &[Bytes]) {
        for body in bodies {
            self.appender.push(body, &mut self.segment);
        }
    }

    /// Everything written so far stays.
    pub(super) fn sync(&mut self) {
        self.synced_bytes = self.segment.len();
        self.appender.push_mark(&mut self.segment);
    }

    /// Writes a checkpoint of all records so far, which must be synced; with it older records go, unless the node dies
    /// before they do: `rotates` says so.
    pub(super) fn write_checkpoint(&mut self, state: State, rotates: bool) {
        let next = self.appender.next_number();
        self.checkpoint = Some((next, state));
        if rotates {
            self.segment.clear();
            self.appender = Appender::begin(&self.owner, next, &mut self.segment);
        }
        self.synced_bytes = self.segment.len();
    }

    /// The machine dies. What was not synced may be there in part, its rest missing or zeros.
    pub(super) fn crash(&mut self, survives: Survives) {
        let written = self.segment.len() - self.synced_bytes;
        let (least, most) = match survives {
            Survives::ByChance => (0, written),
            Survives::Torn => (written.min(1), written.saturating_sub(1)),
        };
        // At the ends as often as anywhere between.
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

    /// Reads what there is and cuts off what is torn.
    ///
    /// # Errors
    /// Where what was synced is not whole.
    pub(super) fn recover(&mut self) -> Result<Found, LogError> {
        let mut scan = Scan::new(&self.segment, &self.owner, RECORD_BYTES_MAX)?;
        let mut records = Vec::new();
        for record in scan.by_ref() {
            let record = record?;
            records.push((record.number, Bytes::copy_from_slice(record.body)));
        }
        let end = scan.finish()?;
        self.segment.truncate(end.whole_bytes);
        self.synced_bytes = end.whole_bytes;
        self.appender = end.appender;
        let torn = end.torn.is_some();
        Ok(Found { checkpoint: self.checkpoint.clone(), records, torn })
    }

    /// The number of the next record.
    pub(super) fn next_number(&self) -> u64 {
        self.appender.next_number()
    }
}

const RECORD_BYTES_MAX: usize = 1 << 24;
