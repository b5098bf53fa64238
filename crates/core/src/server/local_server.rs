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
        Self { dc, sync, clocks: vec![Clock::ZERO; workers], held: Vec::new() }
    }

    pub(super) fn on_read(&mut self, worker: WorkerId, clock: Clock, rows: ShardRows) {
        self.held.push(HeldRead { worker, clock, rows, waiting: None, held: Vec::new() });
    }

    /// Discards a worker's read without a reply.
    pub(super) fn forget_read(&mut self, worker: WorkerId) {
        self.held.retain(|read| read.worker != worker);
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
    /// once the local model admits a read.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        remote: impl Fn(Clock, &ShardRows) -> Gate,
    ) -> Vec<Admitted> {
        let (slowest, slowest_clock) = self.slowest();
        let mut admitted = Vec::new();
        let mut index = 0;
        while index < self.held.len() {
            let read = &mut self.held[index];
            let gate = if self.sync.admits(read.clock, slowest_clock) {
                remote(read.clock, &read.rows)
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

    /// The reason why the first held read waits.
    pub(super) fn waiting(&self) -> Option<WaitReason> {
        self.held.iter().find_map(|read| read.waiting.map(|(reason, _)| reason))
    }

    /// Since when a read has waited for a reason that `matches`, for the longest of them.
    pub(super) fn waits_since(&self, matches: impl Fn(WaitReason) -> bool) -> Option<Instant> {
        let waits = self.held.iter().filter_map(|read| read.waiting);
        waits.filter(|(reason, _)| matches(*reason)).map(|(_, since)| since).min()
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
        fn walk(Self { dc, sync: _, clocks, held }, walk, layout) {
            let (dc, workers) = (*dc, clocks.len());
            let fits = |read: &HeldRead| {
                let worker = read.worker;
                worker.dc == dc && usize::from(worker.index) < workers && read.rows.fits(layout)
            };
            walk.record_that("clocks", clocks, |found, _| found.len() == workers)?;
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
