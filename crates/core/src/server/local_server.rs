//! The local server: the clocks of this data center's workers, and the reads that are held back.

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
    /// The learning rate of each worker's latest iteration, divided by its largest so far, if the worker reports it.
    learning_rate_factors: Vec<Option<f64>>,
    held: Vec<HeldRead>,
}

/// A read that may be answered, and how long it was held back for each reason.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) worker: WorkerId,
    pub(super) clock: Clock,
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
        Self { dc, sync, clocks, learning_rate_factors, held: Vec::new() }
    }

    pub(super) fn on_read(&mut self, worker: WorkerId, clock: Clock, rows: ShardRows) {
        self.held.push(HeldRead { worker, clock, rows, waiting: None, held: Vec::new() });
    }

    /// Discards a worker's read without a reply.
    pub(super) fn forget_read(&mut self, worker: WorkerId) {
        self.held.retain(|read| read.worker != worker);
    }

    /// Records the learning rate of a worker's iteration, divided by its largest so far.
    pub(super) fn on_learning_rate(&mut self, worker: WorkerId, factor: Option<f64>) {
        self.learning_rate_factors[usize::from(worker.index)] = factor;
    }

    /// Records that a worker has finished the iteration that started at `clock`. Returns the data center's clock if it
    /// has advanced.
    pub(super) fn on_update(&mut self, worker: WorkerId, clock: Clock) -> Option<Clock> {
        let before = self.clock();
        let finished = &mut self.clocks[usize::from(worker.index)];
        assert_eq!(*finished, clock, "a worker finishes its clocks in turn");
        *finished = clock.next();
        let after = self.clock();
        (after > before).then_some(after)
    }

    /// Removes and returns all held reads that may be answered. `remote` is the gate of the remote model, and is asked
    /// once the local model admits a read: of its clock, its rows, and how long it has waited for announced parameters.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        remote: impl Fn(Clock, &ShardRows, Duration) -> Gate,
    ) -> Vec<Admitted> {
        let (slowest, slowest_clock) = self.slowest();
        let mut admitted = Vec::new();
        let mut index = 0;
        while index < self.held.len() {
            let read = &mut self.held[index];
            let gate = if self.sync.admits(read.clock, slowest_clock) {
                remote(read.clock, &read.rows, read.waited_for_announced(now))
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

    /// Sets the clock of a worker.
    pub(super) fn place(&mut self, worker: WorkerId, clock: Clock) {
        self.clocks[usize::from(worker.index)] = clock;
    }

    /// The data center's clock: the number of clocks that all its workers have finished.
    pub(super) fn clock(&self) -> Clock {
        self.slowest().1
    }

    /// The number of finished clocks, per worker.
    pub(super) fn clocks(&self) -> &[Clock] {
        &self.clocks
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

    fn slowest(&self) -> (WorkerId, Clock) {
        let (index, clock) = self
            .clocks
            .iter()
            .enumerate()
            .min_by_key(|(_, clock)| **clock)
            .expect("a data center has a worker");
        (WorkerId { dc: self.dc, index: index as u16 }, *clock)
    }
}

persist! {
    impl Persist<&ShardLayout> for LocalServer {
        fn walk(Self { dc, sync: _, clocks, learning_rate_factors, held }, walk, layout) {
            let (dc, workers) = (*dc, clocks.len());
            let fits = |read: &HeldRead| {
                let worker = read.worker;
                worker.dc == dc && usize::from(worker.index) < workers && read.rows.fits(layout)
            };
            walk.record_that("clocks", clocks, |found, _| found.len() == workers)?;
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
        let mut local = LocalServer::new(DcId(0), 2, LocalSync::Bsp);
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
