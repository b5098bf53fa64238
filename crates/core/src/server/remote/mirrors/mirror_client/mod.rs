//! The mirror client: decides which updates are sent and when, and sends announcements and mirror clocks (Hsieh et al.,
//! NSDI 2017).
//!
//! At each clock of the data center the filter evaluates all residuals. Between clocks frames are cut when links have
//! room. Announcements and mirror clocks are sent in the control lane, which overtakes the data lane.

mod budget;
mod catch_up;
mod catch_up_backlog;
mod copying;
mod filter;
mod peer;
mod rate;
mod rebuild;
mod rebuilding;
mod sources;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::{Changes, encode_indexes};
use crate::link::Train;
use crate::node::Lane;
use crate::outbox::{Batch, Outbox, Ranked, Residuals, Room, Sweep};
use crate::persist;
use crate::server::config::ServerConfig;
use crate::server::remote::ClockFacts;
use crate::server::stats::LinkStats;
use crate::significance::{Parameters, Scratch, Selection, Take, select};
use crate::store::{ShardStore, Touched};
use crate::sync::{AspConfig, Brake, Policy, ValueFormat};
use crate::types::{Clock, Content, DcId, Instant, Numbers, ServerId, ShardLayout, Tightness};
use crate::wire::{
    BULK_HEADER_BYTES, BulkHeader, BulkKind, ControlMessage, encode_bulk, encode_control,
};

use budget::{Budget, entries_in, update_bytes};
use filter::Filter;
use peer::{Peer, Route};
use rate::RateEstimate;
use sources::Sources;

/// One server's state for the updates that its mirrors lack.
#[derive(Debug)]
pub(super) struct MirrorClient {
    id: ServerId,
    sharing: Sharing,
    format: ValueFormat,
    sources: Sources,
    /// The parameters changed since the data center's clock last advanced.
    touched: Touched,
    peers: BTreeMap<DcId, Peer>,
    /// The peers with a route, ascending. Most peers have none if there are many data centers and an overlay.
    neighbours: Vec<DcId>,
    last_tick: Instant,
    /// The time between clocks of the data center, as a moving average.
    clock_time: Option<Duration>,
    /// Whether updates have ended.
    closed: bool,
    scratch: Scratch,
    batch: Batch,
}

/// Which updates are sent.
#[derive(Debug)]
enum Sharing {
    /// TAP: all updates.
    Everything,
    /// ASP, `policy = "paper"`: the updates that one filter has selected for all mirrors.
    Released { filter: Filter, released: Vec<f32>, ranking: Selection },
    /// ASP, `policy = "link"`: the most significant updates of each link.
    PerLink { filter: Filter },
}

/// Why residuals are ranked.
#[derive(Clone, Copy, Debug)]
enum Occasion {
    /// The data center has finished a clock.
    Clock,
    /// Other data centers have finished a clock, and a hub forwards their updates.
    Forward,
}

impl Sharing {
    /// Whether mirrors are told the clocks whose significant updates were all sent.
    fn has_mirror_clocks(&self) -> bool {
        !matches!(self, Self::Everything)
    }
}

impl MirrorClient {
    pub(super) fn tap(config: &ServerConfig, format: ValueFormat) -> Self {
        Self::new(config, Sharing::Everything, format, |parameters| {
            Outbox::Sweep(Sweep::new(parameters))
        })
    }

    pub(super) fn asp(config: &ServerConfig, asp: &AspConfig) -> Self {
        let filter = Filter::new(asp, config.significance.clone(), config.schedule.clone());
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
        let cliques = &config.neighbours;
        let peers = config.links.iter().map(|(to, link)| {
            let clique = cliques.iter().position(|members| members.contains(to));
            let route = clique.map(|clique| {
                let forwarded = (cliques.len() > 1).then(|| Touched::none(parameters));
                let budget = Budget::new(update_bytes(format));
                Box::new(Route::new(clique, outbox(parameters), budget, forwarded))
            });
            (*to, Peer::new(route, RateEstimate::new(link.bandwidth)))
        });

        let peers: BTreeMap<DcId, Peer> = peers.collect();
        let neighbours = peers.iter().filter(|(_, peer)| peer.route.is_some());
        let momentum = match &sharing {
            Sharing::PerLink { filter } => config.momentum_corrected(&filter.config),
            _ => 0.0,
        };
        Self {
            id: config.id,
            sharing,
            format,
            sources: Sources::new(parameters, cliques.len(), momentum),
            touched: Touched::none(parameters),
            neighbours: neighbours.map(|(to, _)| *to).collect(),
            peers,
            last_tick: Instant::ZERO,
            clock_time: None,
            closed: false,
            scratch: Scratch::default(),
            batch: Batch::default(),
        }
    }

    /// Adds a local change to the updates that the mirrors lack. In a run without mirrors that is nobody, and a change costs
    /// nothing here.
    pub(super) fn on_change(&mut self, place: Range<usize>, change: &[f32]) {
        if self.peers.is_empty() {
            return;
        }
        self.sources.on_change(place.clone(), change);
        self.touched.insert_range(place);
    }

    /// The data center has finished `clock`: filters the residuals, announces and reports.
    ///
    /// `facts` is what its workers have done in the clock. `reached` is the
    /// clock of each clique that is reported once all significant updates of this ranking were sent.
    pub(super) fn on_clock(
        &mut self,
        now: Instant,
        clock: Clock,
        reached: &[Clock],
        store: &ShardStore,
        facts: ClockFacts,
    ) {
        self.measure_clock_time(now);
        if self.peers.is_empty() {
            return;
        }
        self.sources.on_clock();

        let neighbours = &self.neighbours;
        for to in neighbours {
            let Some(peer) = self.peers.get_mut(to) else { continue };
            peer.stats.changes += self.touched.len() as u64;
        }

        match &mut self.sharing {
            Sharing::Everything => mark(&mut self.peers, neighbours, &self.touched, clock),
            Sharing::Released { filter, released, ranking } => {
                let local = self.sources.local();
                let factor = facts.learning_rate_factor;
                filter.on_clock(clock, factor, 1.0, local, store);
                let shared = Numbers::Plain(released);
                let parameters = Parameters { values: store.values(), local, shared };
                let scratch = &mut self.scratch;
                select(&parameters, filter.criteria(), Take::Hard, clock.0, scratch, ranking);
                let mut significant = Touched::none(local.len());
                for &index in ranking.indexes() {
                    released[index as usize] = local[index as usize];
                    significant.insert(index as usize);
                }
                mark(&mut self.peers, neighbours, &significant, clock);
            }
            Sharing::PerLink { filter } => {
                let (factor, scale) = (facts.learning_rate_factor, self.sources.scale());
                filter.on_clock(clock, factor, scale, self.sources.local(), store);
                for (clique, reached) in reached.iter().enumerate() {
                    self.rank(now, clique, *reached, Occasion::Clock, store);
                }
            }
        }

        self.touched.clear();
        self.announce(clock, facts.read_fraction);
        self.report();
    }

    /// Adds updates of a member of a clique. A hub forwards them to its other cliques.
    pub(super) fn on_received(&mut self, from: DcId, changes: Changes<'_>) {
        let Some(clique) = self.clique_of(from) else { return };
        self.sources.on_received(clique, changes);
        for to in &self.neighbours {
            let route = self.peers.get_mut(to).and_then(|peer| peer.route.as_mut());
            let Some(route) = route.filter(|route| route.clique != clique) else { continue };
            if let Some(forwarded) = &mut route.forwarded {
                changes.for_each(|index, _| {
                    forwarded.insert(index);
                });
            }
        }
    }

    /// Forwards a further clock of other data centers to a hub's cliques at once, independent of the hub's own clock.
    ///
    /// Returns the cliques for which there was one. `reached` is as for [`Self::on_clock`]. Residuals above the hard
    /// threshold are sent. Those below it wait for the hub's own clock and merge, because they would be sent in many
    /// small frames.
    pub(super) fn forward(
        &mut self,
        now: Instant,
        reached: &[Clock],
        store: &ShardStore,
    ) -> Vec<usize> {
        let mut ranked = Vec::new();
        for (clique, reached) in reached.iter().enumerate() {
            let routes = self.neighbours.iter().filter_map(|to| self.peers[to].route.as_ref());
            let mut routes = routes.filter(|route| route.clique == clique);
            if routes.any(|route| *reached > route.ranked) {
                self.rank(now, clique, *reached, Occasion::Forward, store);
                ranked.push(clique);
            }
        }
        self.report();
        ranked
    }

    /// The mirrors that this server sends updates to, ascending.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = DcId> + '_ {
        self.neighbours.iter().copied()
    }

    /// Whether messages wait in the control lane, or will once the updates that a mirror has missed are sent.
    pub(super) fn has_reports_for(&self, to: DcId) -> bool {
        self.peers.get(&to).is_some_and(|peer| !peer.control.is_empty() || peer.catch_up.is_some())
    }

    /// The clique of the overlay that a mirror shares with this data center.
    pub(super) fn clique_of(&self, peer: DcId) -> Option<usize> {
        self.peers.get(&peer)?.route.as_ref().map(|route| route.clique)
    }

    pub(super) fn on_drained(&mut self, to: DcId, bytes: u64, busy: Duration, shards: usize) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.rate.on_drained(bytes / shards as u64, busy);
        }
    }

    /// The next frame for a lane, of at most about `room` bytes.
    pub(super) fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        match lane {
            Lane::Control => self.next_control(to),
            Lane::Data => self.next_data(to, room),
        }
    }

    /// Queues a control message behind those that wait.
    pub(super) fn push_control(&mut self, to: DcId, message: ControlMessage) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.control.push_back(message);
        }
    }

    /// The last sequence number sent to each mirror.
    pub(super) fn sequences(&self) -> impl Iterator<Item = (DcId, u64)> + '_ {
        self.peers.iter().map(|(peer, state)| (*peer, state.sequence))
    }

    /// Applies a tightness to the thresholds, from the next clock on.
    pub(super) fn tighten(&mut self, tightness: Tightness) {
        match &mut self.sharing {
            Sharing::Everything => {}
            Sharing::Released { filter, .. } | Sharing::PerLink { filter } => {
                filter.tightness = tightness;
            }
        }
    }

    /// Assigns the next sequence number of a link.
    pub(super) fn next_sequence(&mut self, to: DcId) -> u64 {
        let peer = self.peers.get_mut(&to).expect("a frame is cut for a mirror");
        peer.sequence += 1;
        peer.sequence
    }

    /// Ends updates: what was not sent stays in the residual for the drain.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.keep_backlogs();
        for route in self.peers.values_mut().filter_map(|peer| peer.route.as_mut()) {
            route.outbox.close();
        }
    }

    /// The residual of one link for a range of parameters. Zeros if hubs forward the updates to the mirror.
    pub(super) fn residual(&self, to: DcId, range: Range<usize>) -> Vec<f32> {
        match &self.peers[&to].route {
            None => vec![0.0; range.len()],
            Some(route) => self.sources.residual(route.clique, route.outbox.shared(), range),
        }
    }

    /// Whether updates wait in the outbox of a link.
    pub(super) fn has_updates_for(&self, to: DcId) -> bool {
        self.peers.get(&to).is_some_and(|peer| {
            let waiting = peer.route.as_ref().map_or(0, |route| route.outbox.waiting());
            peer.takes_updates() && waiting > 0
        })
    }

    pub(super) fn clock_time(&self) -> Option<Duration> {
        self.clock_time
    }

    /// How long the smallest frame that is worth its packet takes on the slowest link. Zero where that is less than the tenth
    /// of a clock for which frames are cut.
    pub(super) fn frame_time(&self) -> Duration {
        let values = self.sources.parameters() as f64 * self.format.bytes_per_value();
        let frame = BULK_HEADER_BYTES + (values as usize).min(QUANTUM_BYTES_MIN);
        let bytes = Train::of(frame as u64).bytes;
        let times = self.neighbours.iter().map(|to| self.peers[to].rate.time_of(bytes));
        let slowest = times.max().unwrap_or_default();
        match self.clock_time {
            Some(clock_time) if slowest > clock_time / QUANTA_PER_CLOCK => slowest,
            _ => Duration::ZERO,
        }
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
        if peer.control.is_empty() {
            peer.control.shrink_to_fit();
        }
        let frame = Bytes::from(frame);
        peer.stats.control_bytes += frame.len() as u64;
        Some(frame)
    }

    fn next_data(&mut self, to: DcId, room: usize) -> Option<Bytes> {
        if let Some(frame) = self.next_before_updates(to, room) {
            return Some(frame);
        }

        let quantum = self.quantum(to).min(room);
        let peer = self.peers.get_mut(&to).filter(|peer| peer.takes_updates())?;
        let route = peer.route.as_mut()?;
        let source = match &self.sharing {
            Sharing::Released { released, .. } => released,
            Sharing::Everything | Sharing::PerLink { .. } => self.sources.of(route.clique),
        };

        let fitting = peer.rate.bytes_in(self.clock_time.unwrap_or(QUANTUM_TIME));
        let clock = entries_in(fitting as usize, self.format);
        let outgoing = Room { frame: entries_in(quantum, self.format), clock };
        let catch_up = peer.catch_up.as_ref();
        let missed = catch_up.map(|one| one.left.unwrap_or_else(|| route.outbox.ahead()));
        let mut come = 0;
        loop {
            let (batch, scratch) = (&mut self.batch, &mut self.scratch);
            come += route.outbox.take(source, self.format, outgoing, batch, scratch);
            if !self.batch.is_empty() {
                break;
            }
            if route.outbox.waiting() == 0 {
                peer.report(self.sharing.has_mirror_clocks());
                return None;
            }
        }

        let relayed = route.forwarded.as_mut().map_or(0, |forwarded| {
            let indexes = self.batch.indexes.iter();
            indexes.filter(|index| forwarded.remove(**index as usize)).count()
        });

        peer.sequence += 1;
        let header = update_header(self.id, peer.sequence, relayed > 0);
        let changes = Changes::Sparse { indexes: &self.batch.indexes, values: &self.batch.values };
        let mut frame = Vec::with_capacity(quantum);
        encode_bulk(&header, changes, self.format, &mut frame);

        route.budget.spend(frame.len(), self.batch.indexes.len());
        let updates = self.batch.values.iter().filter(|value| **value != 0.0).count() as u64;
        // Only a frame changes this: a poll without one leaves no entry in the log.
        if let (Some(catch_up), Some(missed)) = (&mut peer.catch_up, missed) {
            catch_up.left = Some(missed.saturating_sub(come));
        }

        peer.stats.frames += 1;
        peer.stats.data_bytes += frame.len() as u64;
        peer.stats.updates += updates;
        peer.stats.carried += updates;
        peer.stats.relayed_bytes += (frame.len() * relayed / self.batch.indexes.len()) as u64;
        peer.report(self.sharing.has_mirror_clocks());
        Some(Bytes::from(frame))
    }

    /// Ranks the residuals of a clique's links.
    fn rank(
        &mut self,
        now: Instant,
        clique: usize,
        clock: Clock,
        occasion: Occasion,
        store: &ShardStore,
    ) {
        let Sharing::PerLink { filter } = &self.sharing else { return };
        let residuals = Residuals {
            values: store.values(),
            source: self.sources.of(clique),
            criteria: filter.criteria(),
        };

        let parameters = self.sources.parameters();
        for to in &self.neighbours {
            let Some(peer) = self.peers.get_mut(to) else { continue };
            let missed = peer.missed_first();
            let ranks = |route: &&mut Box<Route>| route.clique == clique && !route.waits;
            let Some(route) = peer.route.as_mut().filter(ranks) else { continue };
            let take = match occasion {
                Occasion::Forward if route.outbox.waiting() == 0 => Take::Hard,
                _ => filter.take(now, &mut route.budget, peer.rate, self.clock_time, parameters),
            };
            match missed {
                0 => route.outbox.rank(residuals, take, clock, &mut self.scratch),
                _ => route.outbox.rank_behind(missed, residuals, take, clock, &mut self.scratch),
            }
            route.ranked = clock;
        }
    }

    /// The largest size of a frame: a tenth of a clock at the link's rate. A later, more significant update waits for
    /// at most one frame.
    fn quantum(&self, to: DcId) -> usize {
        let time = match (&self.sharing, self.clock_time) {
            (Sharing::PerLink { .. }, Some(clock_time)) => clock_time / QUANTA_PER_CLOCK,
            _ => QUANTUM_TIME,
        };
        let bytes = self.peers.get(&to).map_or(0.0, |peer| peer.rate.bytes_in(time));
        (bytes as usize).clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX)
    }

    /// The selective barrier: announces the updates that a link cannot send within one clock.
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
        for to in &self.neighbours {
            let Some(peer) = self.peers.get_mut(to) else { continue };
            let Some(route) = peer.route.as_mut().filter(|route| !route.waits) else { continue };
            let fitting = entries_in(peer.rate.bytes_in(clock_time) as usize, self.format);
            let places = route.outbox.announce(fitting, &mut self.scratch);
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

    /// Reports the mirror clock on each link.
    fn report(&mut self) {
        for to in &self.neighbours {
            if let Some(peer) = self.peers.get_mut(to) {
                peer.report(self.sharing.has_mirror_clocks());
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

persist! {
    impl Persist<&ShardLayout> for MirrorClient {
        fn walk(
            Self {
                id: _,
                sharing,
                format: _,
                sources,
                touched,
                peers,
                neighbours: _,
                last_tick,
                clock_time,
                closed,
                scratch: _,
                batch: _,
            },
            walk,
            layout,
        ) {
            match sharing {
                Sharing::Everything => {}
                Sharing::Released { filter, released, .. } => {
                    walk.part("filter", filter, layout)?;
                    walk.tensor("released", Content::Changes, released)?;
                }
                Sharing::PerLink { filter } => walk.part("filter", filter, layout)?,
            }

            walk.part("sources", sources, ())?;
            walk.flatten(touched, ("touched", layout.parameters()))?;
            walk.parts(peers, layout.parameters())?;
            walk.record("last_tick", last_tick)?;
            walk.record("closed", closed)?;
            walk.record("clock_time", clock_time)
        }
    }
}

/// Marks on all links the parameters that must be sent.
fn mark(peers: &mut BTreeMap<DcId, Peer>, neighbours: &[DcId], parameters: &Touched, clock: Clock) {
    for to in neighbours {
        let route = peers.get_mut(to).and_then(|peer| peer.route.as_mut());
        if let Some(route) = route.filter(|route| !route.waits) {
            route.outbox.mark(parameters, clock);
        }
    }
}

/// The header of a frame of updates.
fn update_header(server: ServerId, sequence: u64, relayed: bool) -> BulkHeader {
    BulkHeader {
        kind: BulkKind::Update,
        origin: server.dc,
        shard: server.shard,
        sequence,
        clock: Clock::ZERO,
        last: false,
        relayed,
        tightness: Tightness::NONE,
    }
}

/// The number of frames in one clock at the link's rate. It bounds how long a later, more significant update waits.
const QUANTA_PER_CLOCK: u32 = 10;

/// The time that a frame takes on a link if no clock was measured, or the model has no clocks.
const QUANTUM_TIME: Duration = Duration::from_millis(50);
const QUANTUM_BYTES_MIN: usize = 2 << 10;
const QUANTUM_BYTES_MAX: usize = 256 << 10;

/// The largest number of parameters in one announcement. At five bytes each it fits a control frame.
const ANNOUNCED_MAX: usize = 1 << 19;

/// The weight of the newest clock in the average.
const CLOCK_TIME_GAIN: f64 = 0.2;

/// The share of the model that workers read in a clock above which no barrier is applied. A barrier would hold back
/// nearly all reads, like BSP. Residuals that wait until the link has room have the same effect without the cost.
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
