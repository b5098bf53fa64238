//! Model traveling: sends copies of the shard to other data centers, and requests measurements of received ones (Hsieh et
//! al., ICML 2020, section 7).
//!
//! All servers of a data center send their shards at the same clocks to the same host, and pass received shards to the
//! same worker. The clock alone determines when and where. A copy is taken and measured at a read of the workers, so
//! that the measurement is of the values on which they train.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::blocks::{Job, Part};
use crate::codec::Changes;
use crate::node::{ProbeRequest, Probed};
use crate::persist;
use crate::sync::{CopiesDue, ValueFormat};
use crate::types::{Clock, Content, DcId, ServerId, Tightness};
use crate::wire::{BulkHeader, BulkKind};

/// One server's part in the copies that travel.
#[derive(Debug)]
pub(super) struct Traveling {
    id: ServerId,
    due: CopiesDue,
    data_centers: usize,
    workers: usize,
    /// The clock at whose read the next copy is taken.
    next: Clock,
    /// The last copy that was taken here, until another data center's copy of about that clock is measured beside it. Kept
    /// only where the copies of a few clocks decide: a later one is better by what it has learned since.
    own: Option<Copy>,
    /// Copies that are being sent, by host.
    leaving: BTreeMap<DcId, Job>,
    /// Copies that are being received, by data center.
    travellers: BTreeMap<DcId, Traveller>,
    /// The clock of the latest copy that each worker was asked to measure, by worker and by data center of the copy, until
    /// it has answered.
    asked: BTreeMap<(u16, DcId), Clock>,
    /// The size of the copies that were sent.
    bytes: u64,
}

/// The values of the shard at a clock, as they travel.
#[derive(Debug)]
struct Copy {
    clock: Clock,
    values: Vec<f32>,
}

/// The received part of another data center's shard.
#[derive(Debug)]
struct Traveller {
    copy: Copy,
    whole: bool,
}

impl Traveling {
    /// Copies among `data_centers` data centers, of which this one has `workers` workers.
    pub(super) fn new(id: ServerId, due: CopiesDue, data_centers: usize, workers: usize) -> Self {
        Self {
            id,
            due,
            data_centers,
            workers,
            next: due.after(Clock::ZERO),
            own: None,
            leaving: BTreeMap::new(),
            travellers: BTreeMap::new(),
            asked: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Whether a copy is due at a read at `clock`.
    pub(super) fn is_due(&self, clock: Clock) -> bool {
        self.data_centers > 1 && clock >= self.next
    }

    /// Takes a copy of the values at a read at `clock`, and schedules it to be sent.
    pub(super) fn take(&mut self, clock: Clock, values: &[f32]) {
        let number = self.due.number(clock);
        self.next = self.due.after(clock);
        let others = self.data_centers - 1;
        let step = 1 + (number % others as u64) as usize;
        let host = DcId(((self.id.dc.index() + step) % self.data_centers) as u16);

        // The rounding error is at most 1/127 of a block's largest value, far below the resolution of a measurement.
        let part = Part::take(&mut values.to_vec(), 0, ValueFormat::Int8);
        if self.due == CopiesDue::Doubling {
            let mut values = vec![0.0; values.len()];
            part.changes().for_each(|index, value| values[index] = value);
            self.own = Some(Copy { clock, values });
        }
        self.leaving.insert(host, Job::new(BulkKind::Probe, clock, Arc::new(part)));
    }

    /// The data centers to which copies are being sent.
    pub(super) fn hosts(&self) -> impl Iterator<Item = DcId> + '_ {
        self.leaving.keys().copied()
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
        self.bytes += frame.len() as u64;

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
        let fresh = || Traveller {
            copy: Copy { clock: header.clock, values: vec![0.0; parameters] },
            whole: false,
        };
        let traveller = self.travellers.entry(from).or_insert_with(fresh);
        if traveller.copy.clock != header.clock || traveller.whole {
            *traveller = fresh();
        }
        changes.for_each(|index, value| traveller.copy.values[index] = value);
        traveller.whole = header.last;
    }

    /// The copies that a worker measures at a read of `values`.
    pub(super) fn requests(&mut self, worker: u16, values: &[f32]) -> Vec<ProbeRequest> {
        let ready = self.travellers.iter().filter(|(_, one)| self.is_ready(one, worker));
        let of: Vec<DcId> = ready.map(|(of, _)| *of).collect();
        let taken = of.into_iter().filter_map(|of| {
            let Traveller { copy: Copy { clock, values: away }, .. } =
                self.travellers.remove(&of)?;
            let home = match self.due {
                CopiesDue::Every(_) => values.to_vec(),
                // The copy of an earlier clock is not compared with a later one.
                CopiesDue::Doubling => {
                    self.own
                        .take_if(|own| self.due.number(own.clock) == self.due.number(clock))?
                        .values
                }
            };
            self.asked.insert((worker, of), clock);
            Some(ProbeRequest { of, clock, away, home })
        });
        taken.collect()
    }

    /// Whether a copy can be measured, or is outdated, at a read of this worker.
    fn is_ready(&self, traveller: &Traveller, worker: u16) -> bool {
        let number = self.due.number(traveller.copy.clock);
        let has_home = match self.due {
            CopiesDue::Every(_) => true,
            CopiesDue::Doubling => {
                self.own.as_ref().is_some_and(|own| self.due.number(own.clock) >= number)
            }
        };
        traveller.whole && has_home && number % self.workers as u64 == u64::from(worker)
    }

    /// Whether a worker was asked for this measurement, and has not answered before.
    pub(super) fn is_answer(&mut self, worker: u16, probed: &Probed) -> bool {
        let question = (worker, probed.of);
        let is_asked = self.asked.get(&question) == Some(&probed.clock);
        if is_asked {
            self.asked.remove(&question);
        }
        is_asked
    }

    /// Stops sending copies.
    pub(super) fn close(&mut self) {
        self.next = Clock(u64::MAX);
        self.own = None;
        self.leaving.clear();
    }

    /// The size of the copies that this server has sent, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

persist! {
    /// Of a shard of so many parameters.
    impl Persist<usize> for Traveling {
        fn walk(
            Self {
                id: _,
                due: _,
                data_centers: _,
                workers: _,
                next,
                own,
                leaving,
                travellers,
                asked,
                bytes,
            },
            walk,
            parameters,
        ) {
            walk.record("next", next)?;
            walk.record("bytes", bytes)?;
            let fresh = || Some(Copy { clock: Clock::ZERO, values: vec![0.0; parameters] });
            walk.option("own", own, fresh, |copy, walk| {
                let Copy { clock, values } = copy;
                walk.record("clock", clock)?;
                walk.tensor("values", Content::Values, values)
            })?;
            walk.entries(
                "leaving",
                leaving,
                |_| Some(Job::none()),
                |job, walk| walk.flatten(job, parameters),
            )?;

            let fresh = |_: &DcId| {
                let copy = Copy { clock: Clock::ZERO, values: vec![0.0; parameters] };
                Some(Traveller { copy, whole: false })
            };
            walk.entries("travellers", travellers, fresh, |traveller, walk| {
                let Traveller { copy: Copy { clock, values }, whole } = traveller;
                walk.record("clock", clock)?;
                walk.tensor("values", Content::Values, values)?;
                walk.record("whole", whole)
            })?;

            walk.record("asked", asked)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ShardId;

    fn traveling(due: CopiesDue) -> Traveling {
        Traveling::new(ServerId { dc: DcId(0), shard: ShardId(0) }, due, 3, 1)
    }

    /// The whole copy of data center 1 at a clock arrives.
    fn arrive(traveling: &mut Traveling, clock: u64, value: f32) {
        let header = BulkHeader {
            kind: BulkKind::Probe,
            origin: DcId(1),
            shard: ShardId(0),
            sequence: 1,
            clock: Clock(clock),
            last: true,
            relayed: false,
            tightness: Tightness::NONE,
        };
        let changes = Changes::Dense { start: 0, values: &[value] };
        traveling.on_frame(DcId(1), &header, changes, 1);
    }

    fn probed(of: u16, clock: u64) -> Probed {
        Probed { of: DcId(of), clock: Clock(clock), away: 1.0, home: 1.0, untrained: 2.0 }
    }

    #[test]
    fn a_measurement_counts_once_and_only_of_the_worker_and_the_copy_that_it_was_asked_for() {
        let mut traveling = traveling(CopiesDue::Every(10));
        assert!(!traveling.is_answer(0, &probed(1, 10)), "nobody was asked");
        arrive(&mut traveling, 10, 1.0);
        assert_eq!(traveling.requests(0, &[0.0]).len(), 1);

        for (worker, probed) in [(1, probed(1, 10)), (0, probed(2, 10)), (0, probed(1, 20))] {
            assert!(!traveling.is_answer(worker, &probed), "{worker} {probed:?}");
        }
        assert!(traveling.is_answer(0, &probed(1, 10)));
        assert!(!traveling.is_answer(0, &probed(1, 10)), "the answer counts once");
    }

    #[test]
    fn under_the_guard_a_copy_is_measured_beside_the_latest_values() {
        let mut traveling = traveling(CopiesDue::Every(10));
        traveling.take(Clock(10), &[4.0]);
        arrive(&mut traveling, 10, 1.0);
        let [ProbeRequest { away, home, .. }] = &traveling.requests(0, &[8.0])[..] else {
            panic!("one copy is whole");
        };
        assert_eq!((&away[..], &home[..]), (&[1.0][..], &[8.0][..]));
    }

    #[test]
    fn copies_that_are_looked_at_are_measured_beside_those_of_the_same_clock() {
        let mut traveling = traveling(CopiesDue::Doubling);
        arrive(&mut traveling, 10, 1.0);
        assert!(traveling.requests(0, &[3.0]).is_empty(), "this data center is behind");
        traveling.take(Clock(10), &[4.0]);
        let [ProbeRequest { clock, away, home, .. }] = &traveling.requests(0, &[8.0])[..] else {
            panic!("both copies are there");
        };
        assert_eq!((*clock, &away[..], &home[..]), (Clock(10), &[1.0][..], &[4.0][..]));

        // A copy that comes after the next one was taken here has no counterpart, and waits for none.
        traveling.take(Clock(20), &[5.0]);
        traveling.take(Clock(40), &[6.0]);
        arrive(&mut traveling, 20, 2.0);
        assert!(traveling.requests(0, &[8.0]).is_empty());
        assert!(traveling.travellers.is_empty());
        arrive(&mut traveling, 41, 3.0);
        let requests = traveling.requests(0, &[8.0]);
        assert_eq!(requests.iter().map(|one| &one.home[..]).collect::<Vec<_>>(), [&[6.0][..]]);
    }
}
