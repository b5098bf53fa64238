//! What a server knows of one mirror: how far its frames and its clock are, whether it counts, and what it has announced.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::types::{Clock, Instant, StateError, Walk};

/// One mirror, as far as this server has heard of it.
#[derive(Debug)]
pub(super) struct Mirror {
    /// Whether it speaks for itself, or a hub for it.
    pub(super) neighbour: bool,
    /// The last sequence number applied.
    pub(super) applied: u64,
    /// The last one that was an update's.
    pub(super) updated: u64,
    /// The latest clock that counts: reported, and covered by what was applied.
    pub(super) clock: Clock,
    /// Clocks reported ahead of the updates that cover them.
    pub(super) reported: VecDeque<(Clock, u64)>,
    pub(super) heard: Instant,
    pub(super) lost: bool,
    /// Whether nothing can come from it, as its driver says.
    pub(super) parted: bool,
    /// Since it last was so, until it has sent what was missed: the version of this server's word on that.
    pub(super) missed: Option<u64>,
    /// The version of the word that it has answered, and the update that is the last of what was missed.
    pub(super) caught_up: Option<(u64, u64)>,
    /// Whether it has lost what it had, or taken no part, and has yet to report a clock.
    pub(super) returning: bool,
    /// Whether it takes no part in the run: it has left, or has yet to join.
    pub(super) inactive: bool,
    /// Whether its data center pauses, since updates do not pass between it and one that trains.
    pub(super) paused: bool,
    /// Clocks that this data center finished while that one was paused: nobody waits for it to make them up.
    pub(super) excused: u64,
    pub(super) announced: BTreeMap<u32, Awaited>,
    /// When announced parameters are due, ascending.
    pub(super) deadlines: VecDeque<Instant>,
    /// The last sequence number this mirror will send, once it has said so.
    pub(super) end: Option<u64>,
}

/// What an announced parameter waits for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Awaited {
    /// The first update that may bring it.
    pub(super) sequence: u64,
    /// When reads go on without it.
    pub(super) due: Instant,
}

impl Mirror {
    /// A mirror that nothing has come from.
    pub(super) fn new(neighbour: bool) -> Self {
        Self {
            neighbour,
            applied: 0,
            updated: 0,
            clock: Clock::ZERO,
            reported: VecDeque::new(),
            heard: Instant::ZERO,
            lost: false,
            parted: false,
            missed: None,
            caught_up: None,
            returning: false,
            inactive: false,
            paused: false,
            excused: 0,
            announced: BTreeMap::new(),
            deadlines: VecDeque::new(),
            end: None,
        }
    }

    /// Whether its clock holds anybody back: it sends here itself, and is neither lost nor paused.
    pub(super) fn counts(&self) -> bool {
        self.neighbour && !self.lost && !self.paused
    }

    /// The clock that it is taken for: its own, and those that it is excused from.
    pub(super) fn counted(&self) -> Clock {
        Clock(self.clock.0.saturating_add(self.excused))
    }

    /// When this mirror is to be left out if nothing is heard of it, which is once a read has waited for the
    /// whole deadline and heard nothing.
    pub(super) fn silent_at(
        &self,
        waiting_since: Option<Instant>,
        deadline: Duration,
    ) -> Option<Instant> {
        let since = waiting_since.filter(|_| self.counts())?;
        Some(since.max(self.heard) + deadline)
    }

    /// Lets the reported clocks count whose updates have been applied.
    pub(super) fn count_reports(&mut self) {
        while let Some((clock, sequence)) = self.reported.front() {
            if *sequence > self.applied {
                break;
            }
            self.clock = self.clock.max(*clock);
            self.reported.pop_front();
        }
    }

    /// Walks over what changes as time goes on; the shard has so many `parameters`.
    pub(super) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        parameters: usize,
    ) -> Result<(), StateError> {
        walk.record("applied", &mut self.applied)?;
        walk.record("updated", &mut self.updated)?;
        walk.record("clock", &mut self.clock)?;
        walk.record("reported", &mut self.reported)?;
        walk.record("heard", &mut self.heard)?;
        walk.record("lost", &mut self.lost)?;
        walk.record("parted", &mut self.parted)?;
        walk.record("missed", &mut self.missed)?;
        walk.record("caught_up", &mut self.caught_up)?;
        walk.record("returning", &mut self.returning)?;
        walk.record("inactive", &mut self.inactive)?;
        walk.record("paused", &mut self.paused)?;
        walk.record("excused", &mut self.excused)?;
        walk.record_that("announced", &mut self.announced, |found, _| {
            found.keys().all(|place| (*place as usize) < parameters)
        })?;
        walk.record("deadlines", &mut self.deadlines)?;

        walk.record("end", &mut self.end)
    }
}
