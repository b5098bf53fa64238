//! A server's state of one mirror: its last frame, its clock, whether it counts, and its announcements.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::{Clock, Instant};

/// The received state of one mirror.
#[derive(Debug)]
pub(super) struct Mirror {
    /// Whether it is a neighbour in the overlay. Otherwise a hub forwards its updates.
    pub(super) neighbour: bool,
    /// The last sequence number applied.
    pub(super) applied: u64,
    /// The last sequence number of an update.
    pub(super) updated: u64,
    /// The latest clock that counts: it was reported, and the updates that it covers were applied.
    pub(super) clock: Clock,
    /// Reported clocks whose updates were not applied, each with the sequence number of the last of them.
    pub(super) reported: VecDeque<(Clock, u64)>,
    pub(super) last_received: Instant,
    /// When its clock last advanced.
    pub(super) advanced: Instant,
    pub(super) lost: bool,
    /// Whether frames of it were received and its clock has not advanced for as long as reads wait for that.
    pub(super) stalled: bool,
    /// Whether the driver has reported that the connection to it failed, and nothing was received since.
    pub(super) disconnected: bool,
    /// While updates of it are missing: the version of this server's link report that first named it.
    pub(super) missed: Option<u64>,
    /// Its last answer to a link report: the version of that report, and the sequence number of the last missed update.
    pub(super) caught_up: Option<(u64, u64)>,
    /// Whether it has lost its state, or was inactive, and has reported no clock since.
    pub(super) returning: bool,
    /// Whether it takes no part in the run: it has left, or has not joined.
    pub(super) inactive: bool,
    /// Whether its data center pauses under a partial partition.
    pub(super) paused: bool,
    /// The number of clocks that this data center finished while the mirror's was paused. Reads do not wait for the
    /// mirror to make them up.
    pub(super) excused: u64,
    pub(super) announced: BTreeMap<u32, Awaited>,
    /// The deadlines of announced parameters, ascending.
    pub(super) deadlines: VecDeque<Instant>,
    /// The sequence number of the mirror's last update, once it is received.
    pub(super) end: Option<u64>,
}

/// An announced parameter whose update was not received.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Awaited {
    /// The sequence number of the first frame that can bring its update.
    pub(super) sequence: u64,
    /// When reads continue without it.
    pub(super) due: Instant,
}

/// How long reads wait for a mirror that is silent, and for one that is stalled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    pub(super) silent: Duration,
    pub(super) stalled: Duration,
}

/// When reads stop waiting for a mirror, by what it does not do. `None` if they do not wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftOut {
    pub(super) silent: Option<Instant>,
    pub(super) stalled: Option<Instant>,
}

impl Mirror {
    /// A mirror from which nothing was received.
    pub(super) fn new(neighbour: bool) -> Self {
        Self {
            neighbour,
            applied: 0,
            updated: 0,
            clock: Clock::ZERO,
            reported: VecDeque::new(),
            last_received: Instant::ZERO,
            advanced: Instant::ZERO,
            lost: false,
            stalled: false,
            disconnected: false,
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

    /// Whether its clock holds back reads: it is a neighbour, active, neither lost nor stalled, and not paused.
    pub(super) fn counts(&self) -> bool {
        self.neighbour && !self.lost && !self.stalled && !self.paused
    }

    /// The clock that reads compare with: its own, plus the clocks that it is excused from.
    pub(super) fn counted(&self) -> Clock {
        Clock(self.clock.0.saturating_add(self.excused))
    }

    /// When reads stop waiting for this mirror if nothing is received: once one has waited for the whole deadline. A mirror
    /// is *silent* without a frame of it, and *stalled* if its clock does not advance, whatever else it sends.
    pub(super) fn left_out_at(&self, waiting_since: Instant, deadlines: Deadlines) -> LeftOut {
        let after = |last: Instant, deadline: Duration| {
            self.counts().then(|| waiting_since.max(last) + deadline)
        };
        LeftOut {
            silent: after(self.last_received, deadlines.silent),
            stalled: after(self.advanced, deadlines.stalled),
        }
    }

    /// Counts the reported clocks whose updates were applied. A mirror whose clock advances counts again.
    pub(super) fn count_reports(&mut self) {
        while let Some((clock, sequence)) = self.reported.front() {
            if *sequence > self.applied {
                break;
            }
            if *clock > self.clock {
                (self.clock, self.advanced, self.stalled) = (*clock, self.last_received, false);
            }
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
                last_received,
                advanced,
                lost,
                stalled,
                disconnected,
                missed,
                caught_up,
                returning,
                inactive,
                paused,
                excused,
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
            walk.record("last_received", last_received)?;
            walk.record("advanced", advanced)?;
            walk.record("lost", lost)?;
            walk.record("stalled", stalled)?;
            walk.record("disconnected", disconnected)?;
            walk.record("missed", missed)?;
            walk.record("caught_up", caught_up)?;
            walk.record("returning", returning)?;
            walk.record("inactive", inactive)?;
            walk.record("paused", paused)?;
            walk.record("excused", excused)?;
            walk.record_that("announced", announced, |found, _| {
                found.keys().all(|place| (*place as usize) < parameters)
            })?;
            walk.record("deadlines", deadlines)?;
            walk.record("end", end)
        }
    }
}
