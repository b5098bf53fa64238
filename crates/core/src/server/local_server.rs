//! The local server: the clocks of this data center's workers, and the reads that are held back.
//!
//! The data center's clock is the number of clocks that all its workers have finished, or with a quorum that share of
//! them. With a quorum a worker can be behind it. Its update then joins the clock that has not ended, and its next read
//! is answered at that clock, so that it skips those that ended without it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::store::ShardRows;
use crate::sync::{Gate, LocalSync, WaitReason};
use crate::types::{Clock, DcId, Instant, ShardLayout, WorkerId};

/// The clocks of workers and the held reads of one server.
#[derive(Debug)]
pub(super) struct LocalServer {
    dc: DcId,
    sync: LocalSync,
    /// The number of finished clocks, per worker.
    clocks: Vec<Clock>,
    /// The number of finished clocks of the data center.
    clock: Clock,
    /// The wait for the other workers once a quorum has finished the next clock.
    grace: Grace,
    /// The learning rate of each worker's latest iteration, divided by its largest so far, if the worker reports it.
    learning_rate_factors: Vec<Option<f64>>,
    held: Vec<HeldRead>,
}

/// The wait of a clock for the workers beyond a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Grace {
    /// No quorum has finished the clock.
    Before,
    /// The clock ends then, whatever is missing.
    Until(Instant),
    Over,
}

/// A read that may be answered, and how long it was held back for each reason.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) worker: WorkerId,
    pub(super) clock: Clock,
    /// The clock of the values.
    pub(super) at: Clock,
    pub(super) rows: ShardRows,
    pub(super) held: Vec<(WaitReason, Duration)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeldRead {
    worker: WorkerId,
    clock: Clock,
    rows: ShardRows,
    /// The current reason and since when it holds. `None` before the first check.
    waiting: Option<(WaitReason, Instant)>,
    held: Vec<(WaitReason, Duration)>,
}

impl LocalServer {
    pub(super) fn new(dc: DcId, workers: usize, sync: LocalSync) -> Self {
        assert!(workers > 0, "a data center has a worker");
        let (clocks, learning_rate_factors) = (vec![Clock::ZERO; workers], vec![None; workers]);
        let (clock, grace) = (Clock::ZERO, Grace::Before);
        Self { dc, sync, clocks, clock, grace, learning_rate_factors, held: Vec::new() }
    }

    pub(super) fn on_read(&mut self, worker: WorkerId, clock: Clock, rows: ShardRows) {
        self.held.push(HeldRead { worker, clock, rows, waiting: None, held: Vec::new() });
    }

    /// Whether a read of a worker is held back.
    pub(super) fn holds_read_of(&self, worker: WorkerId) -> bool {
        self.held.iter().any(|read| read.worker == worker)
    }

    /// Discards a worker's read without a reply.
    pub(super) fn forget_read(&mut self, worker: WorkerId) {
        self.held.retain(|read| read.worker != worker);
    }

    /// Records the learning rate of a worker's iteration, divided by its largest so far.
    pub(super) fn on_learning_rate(&mut self, worker: WorkerId, factor: Option<f64>) {
        self.learning_rate_factors[usize::from(worker.index)] = factor;
    }

    /// Records that a worker has finished the clock that starts at `at`.
    pub(super) fn on_update(&mut self, worker: WorkerId, at: Clock) {
        let finished = &mut self.clocks[usize::from(worker.index)];
        assert!(*finished <= at, "a worker finishes a clock once");
        *finished = at.next();
    }

    /// The clock that an update of a worker joins, whose iteration started at `at`: that one, unless it has ended.
    pub(super) fn joins(&self, at: Clock) -> Clock {
        at.max(self.clock)
    }

    /// Whether workers can skip clocks that end without them.
    pub(super) fn skips_clocks(&self) -> bool {
        self.sync.has_quorum()
    }

    /// Whether the data center's next clock ends: all workers have finished it, or a quorum has and its grace is over.
    pub(super) fn is_next_due(&mut self, now: Instant) -> bool {
        let next = self.clock.next();
        let finished = self.clocks.iter().filter(|clock| **clock >= next).count();
        if finished == self.clocks.len() {
            return true;
        }
        if finished < self.sync.quorum_of(self.clocks.len()) {
            return false;
        }
        if self.grace == Grace::Before {
            self.grace = Grace::Until(now + self.sync.grace());
        }
        if matches!(self.grace, Grace::Until(end) if now >= end) {
            self.grace = Grace::Over;
        }
        self.grace == Grace::Over
    }

    /// Ends the next clock, and returns the number of finished clocks.
    pub(super) fn finish_next(&mut self) -> Clock {
        (self.clock, self.grace) = (self.clock.next(), Grace::Before);
        self.clock
    }

    /// Whether a quorum has finished a clock that has not ended.
    pub(super) fn is_next_awaited(&self) -> bool {
        self.reached() > self.clock
    }

    /// When the grace of the next clock is over, if it runs.
    pub(super) fn grace_ends(&self) -> Option<Instant> {
        match self.grace {
            Grace::Until(end) => Some(end),
            Grace::Before | Grace::Over => None,
        }
    }

    /// Removes and returns all held reads that may be answered. `remote` is the gate of the remote model, and is asked
    /// once the local model admits a read: of its clock, its rows, and how long it has waited for announced parameters.
    /// A read of a worker that is behind its data center is of the data center's clock.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        remote: impl Fn(Clock, &ShardRows, Duration) -> Gate,
    ) -> Vec<Admitted> {
        let slowest = self.slowest();
        let mut admitted = Vec::new();
        let mut index = 0;
        while index < self.held.len() {
            let at = self.goes_on_at(&self.held[index]);
            let read = &mut self.held[index];
            let gate = if self.sync.admits(at, self.clock) {
                remote(at, &read.rows, read.waited_for_announced(now))
            } else {
                Gate::Closed(WaitReason::LocalWorker { worker: slowest })
            };
            match gate {
                Gate::Open => {
                    read.settle(now);
                    let read = self.held.remove(index);
                    admitted.push(Admitted {
                        worker: read.worker,
                        clock: read.clock,
                        at,
                        rows: read.rows,
                        held: read.held,
                    });
                }
                Gate::Closed(reason) => {
                    read.wait_for(reason, now);
                    index += 1;
                }
            }
        }

        admitted
    }

    /// Sets the clock of a worker. The data center is at what a quorum has finished.
    pub(super) fn place(&mut self, worker: WorkerId, clock: Clock) {
        self.clocks[usize::from(worker.index)] = clock;
        (self.clock, self.grace) = (self.reached(), Grace::Before);
    }

    /// The data center's clock: the number of clocks that all its workers, or a quorum, have finished.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// The number of finished clocks, per worker.
    pub(super) fn clocks(&self) -> &[Clock] {
        &self.clocks
    }

    /// Whether each worker has finished its clock of these.
    pub(super) fn have_reached(&self, clocks: &[Clock]) -> bool {
        self.clocks.len() == clocks.len()
            && self.clocks.iter().zip(clocks).all(|(finished, clock)| finished >= clock)
    }

    /// The largest of the workers' learning rates, each divided by its largest so far. `None` if no worker reports one.
    pub(super) fn learning_rate_factor(&self) -> Option<f64> {
        self.learning_rate_factors.iter().flatten().copied().reduce(f64::max)
    }

    /// The reason why the first held read waits.
    pub(super) fn waiting(&self) -> Option<WaitReason> {
        self.held.iter().find_map(|read| read.waiting.map(|(reason, _)| reason))
    }

    /// Since when a read has waited for a reason that `matches`, for the longest of them.
    pub(super) fn waits_since(&self, matches: impl Fn(WaitReason) -> bool) -> Option<Instant> {
        let waits = self.held.iter().filter_map(|read| read.waiting);
        waits.filter(|(reason, _)| matches(*reason)).map(|(_, since)| since).min()
    }

    /// Since when a read has waited for announced parameters, for the longest of them. Its earlier waits for such
    /// parameters count as if they had directly preceded the current one.
    pub(super) fn waits_for_announced_since(&self) -> Option<Instant> {
        self.held.iter().filter_map(HeldRead::waits_for_announced_since).min()
    }

    /// The clock at which the worker of a read goes on. One that is reset can read at a clock that it has finished here,
    /// for a server that lacks its update.
    fn goes_on_at(&self, read: &HeldRead) -> Clock {
        let is_behind = self.clocks[usize::from(read.worker.index)] < self.clock;
        if is_behind { self.joins(read.clock) } else { read.clock }
    }

    /// The number of clocks that a quorum of the workers has finished, ended or not.
    fn reached(&self) -> Clock {
        let mut clocks = self.clocks.clone();
        clocks.sort_unstable_by(|one, other| other.cmp(one));
        clocks[self.sync.quorum_of(clocks.len()) - 1]
    }

    fn slowest(&self) -> WorkerId {
        let slowest = self.clocks.iter().enumerate().min_by_key(|(_, clock)| **clock);
        let (index, _) = slowest.expect("a data center has a worker");
        WorkerId { dc: self.dc, index: index as u16 }
    }
}

persist! {
    impl Persist<&ShardLayout> for LocalServer {
        fn walk(
            Self { dc, sync: _, clocks, clock, grace, learning_rate_factors, held },
            walk,
            layout,
        ) {
            let (dc, workers) = (*dc, clocks.len());
            let fits = |read: &HeldRead| {
                let worker = read.worker;
                worker.dc == dc && usize::from(worker.index) < workers && read.rows.fits(layout)
            };
            walk.record_that("clocks", clocks, |found, _| found.len() == workers)?;
            walk.record("clock", clock)?;
            walk.record("grace", grace)?;
            walk.record_that("learning_rate_factors", learning_rate_factors, |found, _| {
                found.len() == workers && found.iter().flatten().all(|one| (0.0..=1.0).contains(one))
            })?;
            walk.record_that("held", held, |found, _| found.iter().all(fits))
        }
    }
}

impl HeldRead {
    fn wait_for(&mut self, reason: WaitReason, now: Instant) {
        if self.waiting.is_some_and(|(current, _)| current == reason) {
            return;
        }
        self.settle(now);
        self.waiting = Some((reason, now));
    }

    /// How long it has waited for announced parameters in total, whatever parameters these were.
    fn waited_for_announced(&self, now: Instant) -> Duration {
        self.waits_for_announced_since()
            .map_or_else(|| self.earlier_waits_for_announced(), |since| now.since(since))
    }

    /// As [`LocalServer::waits_for_announced_since`], of this read.
    fn waits_for_announced_since(&self) -> Option<Instant> {
        let (_, since) = self.waiting.filter(|(reason, _)| reason.is_announced())?;
        let earlier = Instant::ZERO + self.earlier_waits_for_announced();
        Some(Instant::ZERO + since.since(earlier))
    }

    fn earlier_waits_for_announced(&self) -> Duration {
        let waits = self.held.iter().filter(|(reason, _)| reason.is_announced());
        waits.map(|(_, time)| *time).sum()
    }

    /// Adds the time spent on the current reason to the read's record.
    fn settle(&mut self, now: Instant) {
        if let Some((reason, since)) = self.waiting.take() {
            let time = now.since(since);
            if !time.is_zero() {
                self.held.push((reason, time));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_is_that_of_the_worker_whose_share_is_largest() {
        let mut local = LocalServer::new(DcId(0), 2, LocalSync::BSP);
        let worker = |index| WorkerId { dc: DcId(0), index };
        assert_eq!(local.learning_rate_factor(), None);

        for (index, factor, expected) in [
            (0, Some(0.25), Some(0.25)),
            (1, Some(0.5), Some(0.5)),
            (1, Some(0.125), Some(0.25)),
            (0, None, Some(0.125)),
        ] {
            local.on_learning_rate(worker(index), factor);
            assert_eq!(local.learning_rate_factor(), expected);
        }
    }
}
