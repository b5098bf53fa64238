//! TAP and ASP: updates go straight to every mirror, and copies differ by what has not left or not arrived.

mod members;
mod mirror_client;
mod mirror_server;
mod momentum_correction;
mod partition;
mod reachability;
mod rebuild;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::{Changes, decode_indexes};
use crate::node::Lane;
use crate::server::blocks::drain::{Drain, DrainMethod};
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{BrakeStats, LinkStats};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{AspConfig, Brake, Correction, Gate, OnPartition, TapConfig, WaitReason};
use crate::types::{Clock, DcId, Instant, ServerId, Staleness, Tightness};
use crate::wire::{BulkHeader, BulkKind, ControlMessage};
use mirror_client::MirrorClient;
use mirror_server::MirrorServer;
use momentum_correction::MomentumCorrection;
use reachability::Reachability;

/// The faces towards mirrors, and the drain that ends them.
#[derive(Debug)]
pub(in crate::server) struct Mirrors {
    id: ServerId,
    shards: usize,
    client: MirrorClient,
    server: MirrorServer,
    reachability: Reachability,
    /// Those that this data center sends to, clique by clique of the overlay.
    neighbours: Vec<Vec<DcId>>,
    first_hops: BTreeMap<DcId, DcId>,
    /// Where mirrors share gradients.
    momentum_correction: Option<MomentumCorrection>,
    bound: Bound,
    drain: Option<Drain>,
    model: Model,
    /// Clocks that this data center has finished, or the clock of the copy that it has taken.
    clock: Clock,
    /// From whom the copy is on its way, where it was lost.
    rebuilding: Option<DcId>,
    /// From whom it has been asked for, until it is here with all that belongs to it.
    settling: Option<DcId>,
    /// Under a guard: how tight each data center wishes all to be; all are as tight as the one that wishes for most.
    wishes: Option<BTreeMap<DcId, Tightness>>,
}

/// Which of the two models mirrors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Tap,
    /// Mirrors announce and report: the two brakes.
    Asp,
}

/// How far this data center may be ahead of its slowest mirror.
#[derive(Clone, Copy, Debug)]
enum Bound {
    None,
    Fixed(Staleness),
    /// ceil(largest RTT ÷ clock time) + links on the way: every hub forwards at its own pace.
    FromRtt(Duration, u64),
}

impl Model {
    /// The model's name in errors.
    fn name(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Asp => "asp",
        }
    }
}

/// How long reads are held back, and for whom.
struct Limits {
    bound: Bound,
    /// The deadlines of the two brakes.
    barrier: Duration,
    mirror_clock: Duration,
    on_partition: OnPartition,
}

impl Mirrors {
    pub(super) fn tap(config: &ServerConfig, tap: &TapConfig) -> Self {
        let client = MirrorClient::tap(config, tap.values);
        let limits = Limits {
            bound: Bound::None,
            barrier: FOR_EVER,
            mirror_clock: FOR_EVER,
            on_partition: OnPartition::Continue,
        };
        Self::new(config, client, limits, Model::Tap)
    }

    pub(super) fn asp(config: &ServerConfig, asp: &AspConfig) -> Self {
        let bound = match (asp.mirror_clock, asp.data_center_staleness) {
            (Brake::Off, _) => Bound::None,
            (_, Some(staleness)) => Bound::Fixed(staleness),
            (_, None) => Bound::FromRtt(config.way.rtt, config.way.hops),
        };
        let limits = Limits {
            bound,
            barrier: asp.barrier_deadline.0,
            mirror_clock: asp.mirror_clock_deadline.0,
            on_partition: asp.on_partition,
        };
        let client = MirrorClient::asp(config, asp);
        let mut mirrors = Self::new(config, client, limits, Model::Asp);
        let momentum = config.momentum_corrected(asp);
        if momentum > 0.0 {
            let delays = config.links.iter().map(|(from, link)| (*from, link.rtt / 2));
            let masked = (asp.momentum == Correction::Masked).then(|| delays.collect());
            mirrors.momentum_correction =
                Some(MomentumCorrection::new(config.layout.parameters(), momentum, masked));
        }
        mirrors
    }

    fn new(config: &ServerConfig, client: MirrorClient, limits: Limits, model: Model) -> Self {
        let Limits { bound, barrier, mirror_clock, on_partition } = limits;
        let neighbours = config.neighbours.clone();
        let is_neighbour = |dc: &DcId| neighbours.iter().any(|clique| clique.contains(dc));
        let links = config.links.keys().map(|dc| (*dc, is_neighbour(dc)));
        let mut mirrors = Self {
            id: config.id,
            shards: config.shards,
            client,
            server: MirrorServer::new(links, &config.layout, [barrier, mirror_clock], on_partition),
            reachability: Reachability::new(
                config.id.dc,
                config.cliques.clone(),
                config.links.keys().copied(),
            ),
            neighbours,
            first_hops: config.first_hops.clone(),
            momentum_correction: None,
            bound,
            drain: None,
            model,
            clock: Clock::ZERO,
            rebuilding: None,
            settling: None,
            wishes: config.remote.guard().map(|_| BTreeMap::new()),
        };
        mirrors.set_inactive(&config.inactive);
        mirrors
    }

    pub(super) fn on_change(&mut self, place: Range<usize>, change: &[f32]) {
        self.client.on_change(place, change);
    }

    pub(super) fn on_clock(
        &mut self,
        now: Instant,
        clock: Clock,
        store: &mut ShardStore,
        read_fraction: f64,
    ) {
        self.clock = clock;
        if let Some(momentum_correction) = &mut self.momentum_correction {
            momentum_correction.on_clock(store.values_mut());
        }
        if self.drain.is_none() {
            let reached = self.reached(clock);
            self.client.on_clock(now, clock, &reached, store, read_fraction);
        }
    }

    /// For each clique the clock up to which a ranking covers all that its members are to be told: this data
    /// center's and those that others have reported.
    fn reached(&self, own: Clock) -> Vec<Clock> {
        let slowest = |of: usize| {
            let others = self.neighbours.iter().enumerate().filter(|(clique, _)| *clique != of);
            let clocks = others.flat_map(|(_, members)| members);
            clocks.filter_map(|dc| self.server.counted_clock_of(*dc)).min()
        };
        let cliques = 0..self.neighbours.len();
        cliques.map(|clique| slowest(clique).map_or(own, |slowest| slowest.min(own))).collect()
    }

    /// On a hub: forwards what has come, as links have room. `own` is the data center's clock.
    pub(super) fn forward(&mut self, now: Instant, own: Clock, store: &ShardStore) {
        if self.neighbours.len() > 1 && self.drain.is_none() {
            let reached = self.reached(own);
            self.client.forward(now, &reached, store);
        }
    }

    pub(super) fn gate(&self, clock: Clock, rows: &ShardRows, store: &ShardStore) -> Gate {
        if let Some(from) = self.rebuilding {
            return Gate::Closed(WaitReason::Updates { from });
        }
        if let Some(from) = self.reachability.paused().get(&self.id.dc) {
            return Gate::Closed(WaitReason::PartialPartition { from: *from });
        }
        self.server.gate(clock, rows, self.staleness(), store.layout())
    }

    pub(super) fn on_bulk(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        self.server.check_sequence(from, header.sequence)?;
        let unexpected = |sync| {
            let found = header.kind.name();
            Err(PeerError::PeerSentUnexpectedKind { from, found, sync })
        };
        match (header.kind, &mut self.drain) {
            (BulkKind::Update | BulkKind::Backlog, _)
                if self.server.has_ended(from, header.sequence) =>
            {
                return unexpected("a drain");
            }
            (BulkKind::Update, _) if self.client.clique_of(from).is_none() => {
                return unexpected(OVERLAY);
            }
            (BulkKind::Update, _) => {
                self.server.on_update(from, header.sequence, changes, store);
                if let Some(momentum_correction) = &mut self.momentum_correction {
                    let clock_time = self.client.clock_time();
                    momentum_correction.on_received(from, clock_time, changes, store.values_mut());
                }
                if self.neighbours.len() > 1 {
                    self.client.on_received(from, changes);
                }
                self.client.enqueue(from, changes);
            }
            (BulkKind::Copy | BulkKind::CopyStep, _) => {
                self.on_copy(now, from, header, changes, store)?;
            }
            (BulkKind::Backlog, _) => self.on_backlog(from, header, changes, store)?,
            (BulkKind::DrainCopy, Some(drain)) => drain.on_copy(from, changes, header.last)?,
            (BulkKind::DrainResult, Some(drain)) if drain.is_started() => {
                drain.on_result(from, changes, header.last, store.values_mut())?;
            }
            _ => return unexpected(self.model.name()),
        }
        self.server.on_applied(from, header.sequence);
        self.catch_up(from);
        self.advance_drain(store);
        Ok(())
    }

    pub(super) fn on_control(
        &mut self,
        now: Instant,
        from: DcId,
        message: ControlMessage,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        let unexpected = |sync| {
            let found = message.name();
            Err(PeerError::PeerSentUnexpectedKind { from, found, sync })
        };
        match message {
            ControlMessage::MirrorClock { .. } | ControlMessage::Announce { .. }
                if self.model == Model::Tap =>
            {
                return unexpected(self.model.name());
            }
            ControlMessage::Tightness { steps } => {
                match (&mut self.wishes, Tightness::new(steps)) {
                    (Some(wishes), Some(wish)) => {
                        wishes.insert(from, wish);
                        self.client.tighten(self.tightness());
                    }
                    _ => return unexpected("a run without a guard"),
                }
            }
            ControlMessage::MirrorClock { clock, sequence } => {
                self.server.on_mirror_clock(from, clock, sequence);
            }
            ControlMessage::Announce { sequence, indexes, .. } => {
                let mut places = Vec::new();
                decode_indexes(&indexes, store.layout().parameters(), &mut places)
                    .map_err(|error| PeerError::PeerSentBadFrame { from, error: error.into() })?;
                self.server.on_announce(now, from, sequence, &places, store.layout());
            }
            ControlMessage::EndOfUpdates { sequence } => self.server.on_end(from, sequence)?,
            ControlMessage::Rebuild { from: source, incarnation } => {
                self.server.set_absent(from, false);
                self.judge_partition();
                self.on_rebuild(from, source, incarnation, store);
            }
            ControlMessage::Unheard { by, version, silent, behind } => {
                if !self.reachability.knows(by) {
                    return Err(PeerError::PeerSentForeignOrigin { from, origin: by });
                }
                let own = self.id.dc;
                if by == from && (silent.contains(&own) || behind.contains(&own)) {
                    self.client.on_missed(from, version);
                }
                self.reachability.on_unheard(from, (by, version), [silent, behind]);
                self.judge_partition();
            }
            ControlMessage::CaughtUp { version, sequence } => {
                self.server.on_caught_up(from, version, sequence);
                self.catch_up(from);
            }
            ControlMessage::Fork { .. } => return unexpected("the control lane"),
            ControlMessage::Hello(_) => {}
        }
        self.advance_drain(store);
        Ok(())
    }

    pub(super) fn on_disconnected(&mut self, from: DcId) -> Result<(), PeerError> {
        self.server.on_disconnected(from)?;
        self.miss(from);
        Ok(())
    }

    pub(super) fn on_heard(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        if self.server.on_heard(now, from)? {
            self.reachability.on_heard(from);
            self.judge_partition();
        }
        Ok(())
    }

    pub(super) fn on_drained(&mut self, to: DcId, bytes: u64, busy: Duration) {
        self.client.on_drained(to, bytes, busy, self.shards);
    }

    pub(super) fn begin_drain(
        &mut self,
        method: DrainMethod,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) {
        self.agree_on(inactive, store);
        self.client.close();
        let parameters = store.values().len();
        self.drain = Some(Drain::new(method, self.id.dc, self.server.present(), parameters));
        let ends: Vec<(DcId, u64)> =
            self.client.sequences().filter(|(to, _)| !inactive.contains(to)).collect();
        for (to, sequence) in ends {
            self.client.push_control(to, ControlMessage::EndOfUpdates { sequence });
        }
        self.advance_drain(store);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drain.as_ref().is_some_and(Drain::is_done)
    }

    pub(super) fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        self.client.poll_transmit(to, lane, room).or_else(|| match lane {
            Lane::Control => self.next_word(to),
            Lane::Data => self.next_drain_frame(to, room),
        })
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        waiting_since: Option<Instant>,
        store: &ShardStore,
    ) {
        self.server.handle_timeout(now, waiting_since, store.layout());
    }

    pub(super) fn poll_timeout(&self, waiting_since: Option<Instant>) -> Option<Instant> {
        self.server.poll_timeout(waiting_since).filter(|at| *at < Instant::ZERO + FOR_EVER)
    }

    pub(super) fn clock_of(&self, mirror: DcId) -> Option<Clock> {
        self.server.clock_of(mirror)
    }

    pub(super) fn has_updates_for(&self, to: DcId) -> bool {
        self.client.has_updates_for(to)
    }

    pub(super) fn stats(&self, to: DcId) -> LinkStats {
        self.client.stats(to)
    }

    pub(super) fn brakes(&self) -> BrakeStats {
        self.server.stats()
    }

    /// Takes the next sequence number of a link.
    pub(super) fn next_sequence(&mut self, to: DcId) -> u64 {
        self.client.next_sequence(to)
    }

    /// Notes a frame of a copy that a mirror has sent.
    pub(super) fn on_probe(&mut self, from: DcId, sequence: u64) -> Result<(), PeerError> {
        self.server.check_sequence(from, sequence)?;
        if self.server.has_ended(from, sequence) {
            let found = BulkKind::Probe.name();
            return Err(PeerError::PeerSentUnexpectedKind { from, found, sync: "a drain" });
        }
        self.server.on_applied(from, sequence);
        self.catch_up(from);
        Ok(())
    }

    /// Wishes all to be so tight, and tells all where that is new.
    pub(super) fn wish(&mut self, wish: Tightness) {
        let Some(wishes) = &mut self.wishes else { return };
        if wishes.insert(self.id.dc, wish) == Some(wish) {
            return;
        }
        let peers: Vec<DcId> = self.client.sequences().map(|(peer, _)| peer).collect();
        for peer in peers {
            self.client.push_control(peer, ControlMessage::Tightness { steps: wish.steps() });
        }
        self.client.tighten(self.tightness());
    }

    /// How tight all are to be, as far as this data center has heard.
    pub(super) fn tightness(&self) -> Tightness {
        self.wishes.iter().flat_map(BTreeMap::values).copied().max().unwrap_or_default()
    }

    /// What one link has not carried, for a range of parameters.
    pub(super) fn residual(&self, to: DcId, range: Range<usize>) -> Vec<f32> {
        self.client.residual(to, range)
    }

    /// The staleness in force, in clocks; `None` where nothing bounds it.
    fn staleness(&self) -> Option<Staleness> {
        let clocks = match self.bound {
            Bound::None => return None,
            Bound::Fixed(staleness) => staleness.0,
            Bound::FromRtt(rtt, hops) => {
                let clocks = self
                    .client
                    .clock_time()
                    .map_or(1.0, |time| (rtt.as_secs_f64() / time.as_secs_f64().max(1e-9)).ceil());
                clocks.min(STALENESS_FROM_RTT_MAX) as u64 + hops
            }
        };
        Some(Staleness(self.tightness().of_clocks(clocks)))
    }

    fn advance_drain(&mut self, store: &mut ShardStore) {
        let Some(drain) = &mut self.drain else { return };
        if !drain.is_started() && self.server.all_ended() {
            // What a mirror lacks of this data center is what the first link on the way there has not carried: what the
            // links behind it have not is told by those that they start from.
            let (client, hops) = (&self.client, &self.first_hops);
            drain.start(store.values(), |to, range| client.residual(hops[&to], range));
        }
        if drain.is_started() {
            drain.conclude(store.values_mut());
        }
    }

    fn next_drain_frame(&mut self, to: DcId, room: usize) -> Option<Bytes> {
        let client = &mut self.client;
        let drain = self.drain.as_mut()?;
        let frame = drain.next_frame(to, self.id, room, || client.next_sequence(to))?;
        let stats = self.client.stats_mut(to);
        stats.frames += 1;
        stats.data_bytes += frame.len() as u64;
        Some(frame)
    }
}

/// What errors call an update that took a way of its own.
const OVERLAY: &str = "an overlay of other links";

/// A deadline that never comes.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Clocks shorter than a thousandth of the RTT say that nothing was computed yet.
const STALENESS_FROM_RTT_MAX: f64 = 1000.0;
