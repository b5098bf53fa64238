//! The face out to mirrors: decides what leaves, when, and what is said about it (Hsieh et al.,
//! NSDI 2017).
//!
//! Once per clock of the data center the filter looks at every residual; between clocks frames are cut as
//! links have room. What is said (announcements, mirror clocks) waits in the control lane, which overtakes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::rate::RateEstimate;
use super::stats::LinkStats;
use super::{Schedule, ServerConfig};
use crate::codec::{Changes, encode_indexes};
use crate::node::Lane;
use crate::outbox::{Batch, Outbox, Ranked, Residuals, Sweep};
use crate::significance::{Parameters, Scratch, Selection, TableCriteria, Take, rms, select};
use crate::store::{ShardStore, Touched};
use crate::sync::{AspConfig, Brake, Floor, Function, Goal, Policy, ValueFormat};
use crate::types::{Clock, DcId, Instant, ServerId};
use crate::wire::{BulkHeader, BulkKind, ControlMessage, encode_bulk, encode_control};

/// Everything one server keeps about what its mirrors lack.
#[derive(Debug)]
pub(super) struct MirrorClient {
    id: ServerId,
    sharing: Sharing,
    format: ValueFormat,
    /// The sum of all updates of this data center's workers, per parameter.
    local: Vec<f32>,
    /// Changed since the data center's clock last advanced.
    touched: Touched,
    peers: BTreeMap<DcId, Peer>,
    last_tick: Instant,
    /// The time between clocks of the data center, as a moving average.
    clock_time: Option<Duration>,
    scratch: Scratch,
    batch: Batch,
}

/// Which updates are shared.
#[derive(Debug)]
enum Sharing {
    /// Every one (TAP).
    Everything,
    /// ASP, `policy = "paper"`: what the one filter released to all mirrors alike.
    Released { filter: Filter, released: Vec<f32>, ranking: Selection },
    /// ASP, `policy = "link"`: each link's most significant ones.
    PerLink { filter: Filter },
}

#[derive(Debug)]
struct Filter {
    config: AspConfig,
    schedule: Arc<Schedule>,
}

#[derive(Debug)]
struct Peer {
    outbox: Outbox,
    control: VecDeque<ControlMessage>,
    /// The last sequence number sent in the data lane.
    sequence: u64,
    announcements: u64,
    rate: RateEstimate,
    stats: LinkStats,
}

impl MirrorClient {
    pub(super) fn tap(config: &ServerConfig, format: ValueFormat) -> Self {
        Self::new(config, Sharing::Everything, format, |parameters| {
            Outbox::Sweep(Sweep::new(parameters))
        })
    }

    pub(super) fn asp(config: &ServerConfig, asp: &AspConfig) -> Self {
        let filter = Filter { config: asp.clone(), schedule: config.schedule.clone() };
        let parameters = config.layout.parameters();
        match asp.policy {
            Policy::Paper => {
                let released = vec![0.0; parameters];
                let sharing = Sharing::Released { filter, released, ranking: Selection::default() };
                Self::new(config, sharing, asp.values, |parameters| {
                    Outbox::Sweep(Sweep::new(parameters))
                })
            }
            Policy::Link => {
                Self::new(config, Sharing::PerLink { filter }, asp.values, |parameters| {
                    Outbox::Ranked(Ranked::new(parameters))
                })
            }
        }
    }

    fn new(
        config: &ServerConfig,
        sharing: Sharing,
        format: ValueFormat,
        outbox: impl Fn(usize) -> Outbox,
    ) -> Self {
        let parameters = config.layout.parameters();
        let peers = config.links.iter().map(|(peer, link)| {
            let peer_state = Peer {
                outbox: outbox(parameters),
                control: VecDeque::new(),
                sequence: 0,
                announcements: 0,
                rate: RateEstimate::new(link.bandwidth),
                stats: LinkStats::default(),
            };
            (*peer, peer_state)
        });
        Self {
            id: config.id,
            sharing,
            format,
            local: vec![0.0; parameters],
            touched: Touched::none(parameters),
            peers: peers.collect(),
            last_tick: Instant::ZERO,
            clock_time: None,
            scratch: Scratch::default(),
            batch: Batch::default(),
        }
    }

    /// Adds a local change to what the mirrors lack.
    pub(super) fn on_change(&mut self, place: Range<usize>, change: &[f32]) {
        for (local, change) in self.local[place.clone()].iter_mut().zip(change) {
            *local += change;
        }
        self.touched.insert_range(place);
    }

    /// The data center has finished `clock`: filters, announces, reports.
    ///
    /// `read_fraction` is the part of the shard that a worker of this data center reads in a clock.
    pub(super) fn on_clock(
        &mut self,
        now: Instant,
        clock: Clock,
        store: &ShardStore,
        read_fraction: f64,
    ) {
        self.measure_clock_time(now);
        for peer in self.peers.values_mut() {
            peer.stats.changes += self.touched.len() as u64;
        }
        match &mut self.sharing {
            Sharing::Everything => {
                for peer in self.peers.values_mut() {
                    peer.outbox.mark(&self.touched, clock);
                }
            }
            Sharing::Released { filter, released, ranking } => {
                let criteria = filter.criteria(clock, store);
                let parameters =
                    Parameters { values: store.values(), local: &self.local, shared: released };
                select(&parameters, &criteria, Take::Hard, clock.0, &mut self.scratch, ranking);
                let mut significant = Touched::none(self.local.len());
                for &index in &ranking.indexes[..ranking.hard] {
                    released[index as usize] = self.local[index as usize];
                    significant.insert(index as usize);
                }
                for peer in self.peers.values_mut() {
                    peer.outbox.mark(&significant, clock);
                }
            }
            Sharing::PerLink { filter } => {
                let criteria = filter.criteria(clock, store);
                let residuals =
                    Residuals { values: store.values(), source: &self.local, criteria: &criteria };
                for peer in self.peers.values_mut() {
                    let take = filter.take(peer.rate, self.clock_time, self.format);
                    peer.outbox.rank(residuals, take, clock, &mut self.scratch);
                }
            }
        }
        self.touched.clear();
        self.announce(clock, read_fraction);
        self.report();
    }

    pub(super) fn on_drained(&mut self, to: DcId, bytes: u64, busy: Duration, shards: usize) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.rate.on_drained(bytes / shards as u64, busy);
        }
    }

    /// The next frame for a lane, of about `room` bytes at most.
    pub(super) fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        match lane {
            Lane::Control => self.next_control(to),
            Lane::Data => self.next_data(to, room),
        }
    }

    /// Queues a control message behind those already waiting.
    pub(super) fn push_control(&mut self, to: DcId, message: ControlMessage) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.control.push_back(message);
        }
    }

    /// The last sequence number sent to each mirror.
    pub(super) fn sequences(&self) -> impl Iterator<Item = (DcId, u64)> + '_ {
        self.peers.iter().map(|(peer, state)| (*peer, state.sequence))
    }

    /// Takes the next sequence number of a link.
    pub(super) fn next_sequence(&mut self, to: DcId) -> u64 {
        let peer = self.peers.get_mut(&to).expect("a frame is cut for a mirror");
        peer.sequence += 1;
        peer.sequence
    }

    /// Stops sharing: what has not left stays at home for the drain.
    pub(super) fn close(&mut self) {
        for peer in self.peers.values_mut() {
            peer.outbox.close();
        }
    }

    /// What one link has not carried, for a range of parameters.
    pub(super) fn residual(&self, to: DcId, range: Range<usize>) -> Vec<f32> {
        let shared = self.peers[&to].outbox.shared();
        self.local[range.clone()]
            .iter()
            .zip(&shared[range])
            .map(|(local, shared)| local - shared)
            .collect()
    }

    pub(super) fn clock_time(&self) -> Option<Duration> {
        self.clock_time
    }

    pub(super) fn stats(&self, to: DcId) -> LinkStats {
        self.peers[&to].stats
    }

    pub(super) fn stats_mut(&mut self, to: DcId) -> &mut LinkStats {
        &mut self.peers.get_mut(&to).expect("statistics are kept for mirrors").stats
    }

    fn next_control(&mut self, to: DcId) -> Option<Bytes> {
        let peer = self.peers.get_mut(&to)?;
        let mut frame = Vec::new();
        encode_control(&peer.control.pop_front()?, &mut frame);
        let frame = Bytes::from(frame);
        peer.stats.control_bytes += frame.len() as u64;
        Some(frame)
    }

    fn next_data(&mut self, to: DcId, room: usize) -> Option<Bytes> {
        let quantum = self.quantum(to).min(room);
        let source = match &self.sharing {
            Sharing::Released { released, .. } => released,
            Sharing::Everything | Sharing::PerLink { .. } => &self.local,
        };
        let peer = self.peers.get_mut(&to)?;
        let most = entries_in(quantum, self.format);
        loop {
            peer.outbox.take(source, self.format, most, &mut self.batch);
            if !self.batch.is_empty() {
                break;
            }
            if peer.outbox.waiting() == 0 {
                self.report();
                return None;
            }
        }
        peer.sequence += 1;
        let header = BulkHeader {
            kind: BulkKind::Update,
            origin: self.id.dc,
            shard: self.id.shard,
            sequence: peer.sequence,
            clock: Clock::ZERO,
            last: false,
            relayed: false,
        };
        let changes = Changes::Sparse { indexes: &self.batch.indexes, values: &self.batch.values };
        let mut frame = Vec::with_capacity(quantum);
        encode_bulk(&header, changes, self.format, &mut frame);
        let updates = self.batch.values.iter().filter(|value| **value != 0.0).count() as u64;
        peer.stats.frames += 1;
        peer.stats.data_bytes += frame.len() as u64;
        peer.stats.updates += updates;
        peer.stats.carried += updates;
        self.report();
        Some(Bytes::from(frame))
    }

    /// A tenth of a clock at the link's rate: the most that a later, more significant update waits behind.
    fn quantum(&self, to: DcId) -> usize {
        let time = match (&self.sharing, self.clock_time) {
            (Sharing::PerLink { .. }, Some(clock_time)) => clock_time / 10,
            _ => QUANTUM_TIME,
        };
        let bytes = self.peers.get(&to).map_or(0.0, |peer| peer.rate.bytes_in(time));
        (bytes as usize).clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX)
    }

    /// Announces what will not clear a link within one clock: the selective barrier.
    fn announce(&mut self, clock: Clock, read_fraction: f64) {
        let config = match &self.sharing {
            Sharing::Everything => return,
            Sharing::Released { filter, .. } | Sharing::PerLink { filter } => &filter.config,
        };
        let wanted = match config.selective_barrier {
            Brake::On => true,
            Brake::Off => false,
            Brake::Auto => read_fraction < BARRIER_READ_FRACTION_MAX,
        };
        let Some(clock_time) = self.clock_time.filter(|_| wanted) else { return };
        for peer in self.peers.values_mut() {
            let fitting = entries_in(peer.rate.bytes_in(clock_time) as usize, self.format);
            let places = peer.outbox.announce(fitting);
            peer.stats.announced += places.len() as u64;
            for places in places.chunks(ANNOUNCED_MAX) {
                peer.announcements += 1;
                let mut indexes = Vec::new();
                encode_indexes(places, &mut indexes);
                peer.control.push_back(ControlMessage::Announce {
                    announcement: peer.announcements,
                    clock,
                    sequence: peer.sequence + 1,
                    indexes: indexes.into(),
                });
            }
        }
    }

    /// Reports a clock on each link that has carried everything significant up to it: the mirror clock.
    fn report(&mut self) {
        for peer in self.peers.values_mut() {
            let Some(clock) = peer.outbox.covered() else { continue };
            if !matches!(self.sharing, Sharing::Everything) {
                peer.report(clock);
            }
        }
    }

    fn measure_clock_time(&mut self, now: Instant) {
        let latest = now.since(self.last_tick);
        self.last_tick = now;
        self.clock_time = Some(match self.clock_time {
            None => latest,
            Some(average) => {
                average.mul_f64(1.0 - CLOCK_TIME_GAIN) + latest.mul_f64(CLOCK_TIME_GAIN)
            }
        });
    }
}

impl Peer {
    /// Queues a report, in place of one that nothing has been queued behind: a link that carries nothing must
    /// not gather one for every clock.
    fn report(&mut self, clock: Clock) {
        if matches!(self.control.back(), Some(ControlMessage::MirrorClock { .. })) {
            self.control.pop_back();
        }
        let sequence = self.sequence;
        self.control.push_back(ControlMessage::MirrorClock { clock, sequence });
    }
}

impl Filter {
    /// What each table's residuals are measured against at `clock`.
    fn criteria(&self, clock: Clock, store: &ShardStore) -> Vec<TableCriteria> {
        let threshold =
            self.config.threshold * self.schedule.threshold_factor(self.config.decay, clock);
        let layout = store.layout();
        let tables = layout.model().table_ids();
        tables
            .map(|table| {
                let range = layout.table_range(table);
                let floor = match (self.config.function, self.config.floor) {
                    (Function::Absolute, _) | (_, Floor::Zero) => 0.0,
                    (_, Floor::TableRms) => rms(&store.values()[range.clone()]),
                };
                TableCriteria {
                    range,
                    width: layout.width_of(table),
                    function: self.config.function,
                    floor,
                    threshold: threshold as f32,
                }
            })
            .collect()
    }

    /// What a link's share carries in one clock; where only the hard threshold counts, that.
    fn take(&self, rate: RateEstimate, clock_time: Option<Duration>, format: ValueFormat) -> Take {
        match (self.config.goal, clock_time) {
            (Goal::Speed, Some(time)) => {
                let share = rate.bytes_in(time) * self.config.link_share;
                Take::Most(entries_in(share as usize, format))
            }
            _ => Take::Hard,
        }
    }
}

/// How many sparse updates a frame of `bytes` holds, and no fewer than one.
fn entries_in(bytes: usize, format: ValueFormat) -> usize {
    ((bytes as f64 / (format.bytes_per_value() + INDEX_BYTES)) as usize).max(1)
}

/// Bytes of an index among scattered ones, one of a hundred (benches/codec.rs).
const INDEX_BYTES: f64 = 1.03;

/// What a link carries in this time is one quantum, where no clock has been measured or none matters.
const QUANTUM_TIME: Duration = Duration::from_millis(50);
const QUANTUM_BYTES_MIN: usize = 2 << 10;
const QUANTUM_BYTES_MAX: usize = 256 << 10;

/// Parameters in one announcement: at most five bytes each keep it below the longest control frame.
const ANNOUNCED_MAX: usize = 1 << 19;

/// The weight of the newest clock in the average.
const CLOCK_TIME_GAIN: f64 = 0.2;

/// Where workers read more of the model than this each clock, a barrier stops nearly every read: it is BSP by
/// another name, and holding residuals back until the link has room is what helps.
const BARRIER_READ_FRACTION_MAX: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::limits::{CONTROL_FRAME_BYTES_MAX, MODEL_PARAMETERS_MAX};

    #[test]
    fn the_longest_announcement_fits_into_a_control_frame() {
        let apart = MODEL_PARAMETERS_MAX / ANNOUNCED_MAX;
        let places: Vec<u32> = (0..ANNOUNCED_MAX).map(|at| (at * apart + at % 7) as u32).collect();
        let mut indexes = Vec::new();
        encode_indexes(&places, &mut indexes);
        assert!(indexes.len() + 1024 < CONTROL_FRAME_BYTES_MAX, "{}", indexes.len());
    }
}
