//! What a server knows of one mirror: how far its frames and its clock are, whether it counts, and what it has announced.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::{Clock, Instant};

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
    /// Whether it has lost what it had, or taken no part, and has yet to report a clock.
    pub(super) returning: bool,
    /// Whether it takes no part in the run: it has left, or has yet to join.
    pub(super) inactive: bool,
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
            returning: false,
            inactive: false,
            announced: BTreeMap::new(),
            deadlines: VecDeque::new(),
            end: None,
        }
    }

    /// Whether its clock holds anybody back: it sends here itself, and is not lost.
    pub(super) fn counts(&self) -> bool {
        self.neighbour && !self.lost
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
}

persist! {
    /// Of a shard of so many parameters.
    impl Persist<usize> for Mirror {
        fn walk(
            Self {
                neighbour: _,
                applied,
                updated,
                clock,
                reported,
                heard,
                lost,
                parted,
                returning,
                inactive,
                announced,
                deadlines,
                end,
            },
            walk,
            parameters,
        ) {
            walk.record("applied", applied)?;
            walk.record("updated", updated)?;
            walk.record("clock", clock)?;
            walk.record("reported", reported)?;
            walk.record("heard", heard)?;
            walk.record("lost", lost)?;
            walk.record("parted", parted)?;
            walk.record("returning", returning)?;
            walk.record("inactive", inactive)?;
            walk.record_that("announced", announced, |found, _| {
                found.keys().all(|place| (*place as usize) < parameters)
            })?;
            walk.record("deadlines", deadlines)?;
            walk.record("end", end)
        }
    }
}
