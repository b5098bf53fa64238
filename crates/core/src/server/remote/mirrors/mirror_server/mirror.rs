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
    /// Whether the driver has reported that nothing is received from it, and no frame was received since.
    pub(super) disconnected: bool,
    /// While updates of it are missing: the version of this server's link report whose answer names the last of them.
    pub(super) missed: Option<u64>,
    /// Its last answer to a link report: the version of that report, and the sequence number of the last missed update.
    pub(super) caught_up: Option<(u64, u64)>,
    /// Whether it has lost its state, or was inactive, and has reported no clock since.
    pub(super) returning: bool,
    /// Whether it takes no part in the run: it has left, or has not joined.
    pub(super) inactive: bool,
    /// Whether its data center pauses under a partial partition.
    pub(super) paused: bool,
    /// By how many clocks it was behind this data center's when it was disconnected or paused, whichever was first. `None` once
    /// it does not pause and its missed updates are applied, and while that is unknown.
    pub(super) behind_before: Option<u64>,
    /// The number of clocks that reads do not wait for the mirror to make up: those by which it fell behind this data
    /// center's in pauses, and while its server had no state.
    pub(super) excused: u64,
    /// Whether more is to be excused, and is not measured yet.
    pub(super) is_unmeasured: bool,
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
            behind_before: None,
            excused: 0,
            is_unmeasured: false,
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

    /// Notes by how many clocks it is behind `own`, the clock of this data center, when it is disconnected or pauses.
    pub(super) fn begin_absence(&mut self, own: Clock) {
        if self.reports_clocks() && !self.is_unmeasured {
            self.behind_before.get_or_insert_with(|| own.ahead_of(self.clock));
        }
    }

    /// Measures by how many clocks it has fallen behind `own` while it was not waited for, and excuses it from them.
    ///
    /// Where it is not known by how many it was behind before, these are the clocks beyond the `bound`: this data center would
    /// have waited otherwise.
    pub(super) fn measure(&mut self, own: Clock, bound: u64) {
        if self.paused || self.missed.is_some() || !self.reports_clocks() {
            return;
        }
        let before = self.behind_before.take();
        if std::mem::take(&mut self.is_unmeasured) {
            let behind = own.ahead_of(self.clock);
            self.excused = match before {
                Some(before) => self.excused + behind.saturating_sub(before),
                None => self.excused.max(behind.saturating_sub(bound)),
            };
        }
    }

    /// Whether reads wait for its clock: it counts, and no excuse of it is still to be measured.
    pub(super) fn is_waited_for(&self) -> bool {
        self.counts() && !(self.is_unmeasured && self.reports_clocks())
    }

    /// Whether a clock of it has counted, of this incarnation of its server.
    fn reports_clocks(&self) -> bool {
        !self.returning && self.clock > Clock::ZERO
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
                behind_before,
                excused,
                is_unmeasured,
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
            walk.record("behind_before", behind_before)?;
            walk.record("excused", excused)?;
            walk.record("is_unmeasured", is_unmeasured)?;
            walk.record_that("announced", announced, |found, _| {
                found.keys().all(|place| (*place as usize) < parameters)
            })?;
            walk.record("deadlines", deadlines)?;
            walk.record("end", end)
        }
    }
}
