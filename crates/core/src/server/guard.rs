//! The guard against skew: sends copies to other data centers, requests measurements of received copies, and requests
//! more or less tightness (model traveling; Hsieh et al., ICML 2020, section 7).
//!
//! All servers of a data center send their shards at the same clocks to the same host, and pass received shards to the
//! same worker. The clock alone determines when and where. A copy is taken and measured at a read of the workers, so
//! that the measurement is of the values on which they train.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::blocks::{Job, Part};
use crate::codec::Changes;
use crate::node::{ProbeRequest, Probed};
use crate::persist;
use crate::sync::{GuardConfig, ValueFormat};
use crate::types::{Clock, Content, DcId, ServerId, Tightness};
use crate::wire::{BulkHeader, BulkKind};

/// One server's part of the guard.
#[derive(Debug)]
pub(super) struct Guard {
    id: ServerId,
    config: GuardConfig,
    data_centers: usize,
    workers: usize,
    /// The largest tightness that may be requested.
    most: Tightness,
    /// The clock at whose read the next copy is taken.
    next: Clock,
    /// Copies that are being sent, by host.
    leaving: BTreeMap<DcId, Job>,
    /// Copies that are being received, by data center.
    travellers: BTreeMap<DcId, Traveller>,
    /// The clock of the latest copy that each worker was asked to measure, by worker and by data center of the copy, until
    /// it has answered.
    asked: BTreeMap<(u16, DcId), Clock>,
    /// The tightness that this data center requests after its measurements.
    wish: Tightness,
    /// The tightness that all data centers apply, and since which clock of this data center.
    tightness: (Tightness, Clock),
    /// The accuracy loss of the last copy that was taken under this tightness.
    last_lost: Option<f64>,
    /// The number of consecutive measurements far below the bound, since the last loosening.
    quiet: u32,
    /// The number of such measurements after which the guard requests less tightness.
    patience: u32,
    stats: GuardStats,
}

/// The counters of a server's guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardStats {
    /// The size of the copies that this server sent, in bytes.
    pub bytes: u64,
    /// The number of copies measured in this data center.
    pub probes: u64,
    /// The number of measurements above the bound.
    pub alarms: u64,
    /// The largest accuracy loss of a copy measured here, as a share of the initial model's loss.
    pub loss_max: f64,
}

/// The received part of another data center's shard.
#[derive(Debug)]
struct Traveller {
    clock: Clock,
    values: Vec<f32>,
    whole: bool,
}

impl Guard {
    /// A guard among `data_centers` data centers, of which this one has `workers` workers. It requests at most `most`.
    pub(super) fn new(
        id: ServerId,
        config: &GuardConfig,
        data_centers: usize,
        workers: usize,
        most: Tightness,
    ) -> Self {
        Self {
            id,
            config: config.clone(),
            data_centers,
            workers,
            most,
            next: Clock(config.every),
            leaving: BTreeMap::new(),
            travellers: BTreeMap::new(),
            asked: BTreeMap::new(),
            wish: Tightness::NONE,
            tightness: (Tightness::NONE, Clock::ZERO),
            last_lost: None,
            quiet: 0,
            patience: PATIENCE,
            stats: GuardStats::default(),
        }
    }

    /// Records the tightness that all data centers apply at a worker's read at `clock`.
    pub(super) fn on_read(&mut self, clock: Clock, tightness: Tightness) {
        if tightness != self.tightness.0 {
            self.tightness = (tightness, clock);
            self.last_lost = None;
            self.quiet = 0;
        }
    }

    /// Whether a copy is due at a read at `clock`.
    pub(super) fn is_due(&self, clock: Clock) -> bool {
        self.data_centers > 1 && clock >= self.next
    }

    /// Takes a copy of the values at a read at `clock`, and schedules it to be sent.
    pub(super) fn take(&mut self, clock: Clock, values: &[f32]) {
        let number = clock.0 / self.config.every;
        self.next = Clock((number + 1).saturating_mul(self.config.every));
        let others = self.data_centers - 1;
        let step = 1 + (number % others as u64) as usize;
        let host = DcId(((self.id.dc.index() + step) % self.data_centers) as u16);
        // The rounding error is at most 1/127 of a block's largest value, far below the bound's resolution.
        let part = Part::take(&mut values.to_vec(), 0, ValueFormat::Int8);
        self.leaving.insert(host, Job::new(BulkKind::Probe, clock, Arc::new(part)));
    }

    /// The next frame of a copy for a host. If there is one, `next_sequence` assigns its sequence number on the link.
    pub(super) fn next_frame(
        &mut self,
        to: DcId,
        room: usize,
        next_sequence: impl FnOnce() -> Option<u64>,
    ) -> Option<Bytes> {
        let job = self.leaving.get_mut(&to)?;
        let sequence = next_sequence()?;
        let header = BulkHeader {
            kind: job.kind,
            origin: self.id.dc,
            shard: self.id.shard,
            sequence,
            clock: job.clock,
            last: false,
            relayed: false,
            tightness: Tightness::NONE,
        };

        let (frame, _, last) = job.next_frame(header, room);
        if last {
            self.leaving.remove(&to);
        }
        self.stats.bytes += frame.len() as u64;

        Some(frame)
    }

    /// Handles a frame of another data center's copy. The shard has `parameters` parameters.
    pub(super) fn on_frame(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        parameters: usize,
    ) {
        let fresh =
            || Traveller { clock: header.clock, values: vec![0.0; parameters], whole: false };
        let traveller = self.travellers.entry(from).or_insert_with(fresh);
        if traveller.clock != header.clock || traveller.whole {
            *traveller = fresh();
        }
        changes.for_each(|index, value| traveller.values[index] = value);
        traveller.whole = header.last;
    }

    /// The copies that a worker measures at a read of the values `home`.
    pub(super) fn requests(&mut self, worker: u16, home: &[f32]) -> Vec<ProbeRequest> {
        let turn = |clock: Clock| (clock.0 / self.config.every) % self.workers as u64;
        let ready =
            |traveller: &Traveller| traveller.whole && turn(traveller.clock) == u64::from(worker);
        let of: Vec<DcId> =
            self.travellers.iter().filter(|(_, one)| ready(one)).map(|(of, _)| *of).collect();
        let taken = of.into_iter().filter_map(|of| {
            let Traveller { clock, values, .. } = self.travellers.remove(&of)?;
            self.asked.insert((worker, of), clock);
            Some(ProbeRequest { of, clock, away: values, home: home.to_vec() })
        });
        taken.collect()
    }

    /// Handles a worker's measurement, and returns the tightness that this data center requests from here on. A measurement
    /// that the worker was not asked for, or has sent before, changes nothing.
    ///
    /// A copy that was taken before the present tightness had an effect does not count. Otherwise the mean of two
    /// consecutive measurements counts, because a hundred examples have a large variance. A single measurement far
    /// above the bound counts by itself.
    pub(super) fn on_probed(&mut self, worker: u16, probed: &Probed) -> Tightness {
        let question = (worker, probed.of);
        if self.asked.get(&question) != Some(&probed.clock) {
            return self.wish;
        }
        self.asked.remove(&question);

        let lost = probed.lost();
        self.stats.probes += 1;
        self.stats.loss_max = self.stats.loss_max.max(lost);
        let (now, since) = self.tightness;
        let settled = now == Tightness::NONE || probed.clock.ahead_of(since) >= self.config.every;

        if !settled {
            return self.wish;
        }
        let bound = self.config.bound;
        let mean = self.last_lost.replace(lost).map(|last| f64::midpoint(last, lost));
        let counts = if lost > FAR * bound { Some(lost) } else { mean };

        match counts {
            Some(lost) if lost > bound => {
                self.stats.alarms += 1;
                let steps = (lost / bound).log(FAR).ceil().clamp(1.0, f64::from(STEPS_MAX));
                self.wish = self.wish.max(now.tighter(steps as u8).min(self.most));
                self.patience = (self.patience * 2).min(PATIENCE_MAX);
                self.quiet = 0;
            }
            Some(lost) if lost < bound / FAR => {
                self.quiet += 1;
                if self.quiet >= self.patience {
                    self.wish = self.wish.min(now).looser();
                    self.quiet = 0;
                }
            }
            _ => {}
        }

        self.wish
    }

    /// Stops sending copies.
    pub(super) fn close(&mut self) {
        self.next = Clock(u64::MAX);
        self.leaving.clear();
    }

    pub(super) fn stats(&self) -> GuardStats {
        self.stats
    }
}

persist! {
    impl Persist<usize> for Guard {
        fn walk(
            Self {
                id: _,
                config: _,
                data_centers: _,
                workers: _,
                most: _,
                next,
                leaving,
                travellers,
                asked,
                wish,
                tightness,
                last_lost,
                quiet,
                patience,
                stats,
            },
            walk,
            parameters,
        ) {
            walk.record("next", next)?;
            walk.entries(
                "leaving",
                leaving,
                |_| Some(Job::none()),
                |job, walk| walk.flatten(job, parameters),
            )?;

            let fresh = |_: &DcId| {
                let values = vec![0.0; parameters];
                Some(Traveller { clock: Clock::ZERO, values, whole: false })
            };
            walk.entries("travellers", travellers, fresh, |traveller, walk| {
                let Traveller { clock, values, whole } = traveller;
                walk.record("clock", clock)?;
                walk.tensor("values", Content::Values, values)?;
                walk.record("whole", whole)
            })?;

            walk.record("asked", asked)?;
            walk.record("wish", wish)?;
            walk.record("tightness", tightness)?;
            walk.record("last_lost", last_lost)?;
            walk.record("quiet", quiet)?;
            walk.record("patience", patience)?;
            walk.record("stats", stats)
        }
    }
}

/// The factor above or below the bound that counts as far. It is the factor of one step of tightness.
const FAR: f64 = 4.0;

/// The largest number of steps that one alarm requests.
const STEPS_MAX: u8 = 3;

/// The number of measurements far below the bound before the guard first loosens. Each alarm doubles it, so that the
/// guard returns ever more rarely to a tightness that has caused an alarm.
const PATIENCE: u32 = 4;
const PATIENCE_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ShardId;

    fn guard() -> Guard {
        let id = ServerId { dc: DcId(0), shard: ShardId(0) };
        let config = GuardConfig { every: 10, bound: 0.1, examples: 1 };
        Guard::new(id, &config, 3, 1, Tightness::MOST)
    }

    fn probed(clock: u64, lost: f64) -> Probed {
        Probed {
            of: DcId(1),
            clock: Clock(clock),
            away: 1.0 + 2.0 * lost,
            home: 1.0,
            untrained: 2.0,
        }
    }

    /// What is wished for after a worker has measured the copy that it was asked to.
    fn answer(guard: &mut Guard, clock: u64, lost: f64) -> Tightness {
        guard.asked.insert((0, DcId(1)), Clock(clock));
        guard.on_probed(0, &probed(clock, lost))
    }

    /// What is wished for after measurements, while all become as tight as is wished at clock 10.
    fn wishes(measured: &[(u64, f64)]) -> Vec<u8> {
        let mut guard = guard();
        let wish = |(clock, lost): &(u64, f64)| {
            let wish = answer(&mut guard, *clock, *lost);
            if *clock == 10 {
                guard.on_read(Clock(12), wish);
            }
            wish.steps()
        };
        measured.iter().map(wish).collect()
    }

    #[test]
    fn one_far_alarm_counts_and_two_near_ones_do_and_one_that_scatters_does_not() {
        assert_eq!(wishes(&[(10, 0.15), (20, 0.02), (30, 0.15)]), [0, 0, 0]);
        assert_eq!(wishes(&[(10, 0.08), (20, 0.15)]), [0, 1]);
        assert_eq!(wishes(&[(10, 0.5)]), [2]);
        assert_eq!(wishes(&[(10, 100.0)]), [3]);
        assert_eq!(wishes(&[(10, f64::NAN)]), [2], "a copy that has diverged");
    }

    #[test]
    fn a_measurement_counts_once_and_only_of_the_worker_and_the_copy_that_it_was_asked_for() {
        let mut guard = guard();
        let frame = BulkHeader {
            kind: BulkKind::Probe,
            origin: DcId(1),
            shard: ShardId(0),
            sequence: 1,
            clock: Clock(10),
            last: true,
            relayed: false,
            tightness: Tightness::NONE,
        };
        let bad = probed(10, 100.0);
        assert_eq!(guard.on_probed(0, &bad), Tightness::NONE, "nobody was asked");
        guard.on_frame(DcId(1), &frame, Changes::Dense { start: 0, values: &[1.0] }, 1);
        assert_eq!(guard.requests(0, &[0.0]).len(), 1);

        for (worker, probed) in
            [(1, bad), (0, Probed { of: DcId(2), ..bad }), (0, probed(20, 100.0))]
        {
            assert_eq!(guard.on_probed(worker, &probed), Tightness::NONE, "{worker} {probed:?}");
        }
        assert_eq!(guard.stats().probes, 0);
        assert_eq!(guard.on_probed(0, &bad).steps(), 3);
        let before = guard.stats();
        guard.on_probed(0, &bad);
        assert_eq!((guard.stats(), before.probes), (before, 1), "the answer counts once");
    }

    #[test]
    fn what_was_taken_before_the_tightening_shows_is_not_held_against_it() {
        assert_eq!(wishes(&[(10, 0.5), (10, 0.5), (20, 0.5), (30, 0.5)]), [2, 2, 2, 4]);
    }

    #[test]
    fn a_bound_that_was_passed_again_is_tried_again_more_rarely() {
        let mut guard = guard();
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(answer(&mut guard, u64::MAX, 1.0).steps(), 2);
            guard.on_read(Clock(12), Tightness::NONE.tighter(2));
            let mut wait = 0;
            while answer(&mut guard, u64::MAX, 0.0).steps() == 2 {
                wait += 1;
            }
            waits.push(wait + 1);
            guard.on_read(Clock(12), Tightness::NONE.tighter(1));
            while answer(&mut guard, u64::MAX, 0.0).steps() == 1 {}
            guard.on_read(Clock(12), Tightness::NONE);
        }
        // The first measurement alone does not count.
        assert_eq!(waits, [9, 17, 33, 65, 65, 65]);
    }
}
