//! TAP and ASP: updates are sent directly to all mirrors, and copies differ by unsent updates and those in flight.
//!
//! The room sequences its parts. [`mirror_client`] decides what is sent. [`mirror_server`] applies received updates and
//! holds back reads. [`reachability`] decides whether this data center pauses while links are dead.
//! [`momentum_correction`] applies momentum to mirrors' gradients. The room knows neither the meaning of an update nor
//! the workers. It is the model of the paper (Hsieh et al., NSDI 2017, sections 3 and 4).

mod draining;
mod limits;
mod members;
mod mirror_client;
mod mirror_server;
mod momentum_correction;
mod partition;
mod reachability;
mod rebuild;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::{ClockFacts, RemoteModel};
use crate::codec::{Changes, decode_indexes};
use crate::node::Lane;
use crate::persist;
use crate::server::LinksToPoll;
use crate::server::TimeoutReason;
use crate::server::blocks::{Blocks, Drain, DrainMethod};
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{BrakeStats, LinkStats, Watermark};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{AspConfig, Correction, Gate, TapConfig, WaitReason};
use crate::types::{Clock, DcId, Instant, ServerId, ShardLayout, Staleness, Tightness};
use crate::wire::{BulkHeader, BulkKind, ControlMessage};

use limits::{Bound, FOR_EVER, Limits};
use mirror_client::MirrorClient;
use mirror_server::MirrorServer;
use momentum_correction::MomentumCorrection;
use reachability::Reachability;

/// The faces towards mirrors, and the drain at their end.
#[derive(Debug)]
pub(super) struct Mirrors {
    id: ServerId,
    shards: usize,
    client: MirrorClient,
    server: MirrorServer,
    reachability: Reachability,
    /// The data centers that this one sends to, for each clique of the overlay.
    neighbours: Vec<Vec<DcId>>,
    first_hops: BTreeMap<DcId, DcId>,
    /// Present if mirrors send gradients.
    momentum_correction: Option<MomentumCorrection>,
    bound: Bound,
    /// The blocks of the drain.
    blocks: Blocks,
    drain: Option<Drain>,
    model: Model,
    /// The number of clocks that this data center has finished, or the clock of the copy that it has taken.
    clock: Clock,
    /// The mirror whose copy is being received, after this data center has lost its own.
    rebuilding: Option<DcId>,
    /// The mirror whose copy was requested, until the copy and its backlog are received.
    settling: Option<DcId>,
    /// Under a guard: the tightness that each data center requests. All apply the largest.
    wishes: Option<BTreeMap<DcId, Tightness>>,
    /// The links that may have further frames.
    to_poll: LinksToPoll,
}

/// The two models of this room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Tap,
    /// With selective barriers and mirror clocks.
    Asp,
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

impl Mirrors {
    /// TAP: all updates are sent, and no read waits.
    pub(super) fn tap(config: &ServerConfig, tap: &TapConfig) -> Self {
        let client = MirrorClient::tap(config, tap.values);
        Self::new(config, client, Limits::tap(), Model::Tap)
    }

    /// ASP: significant updates are sent, with the two brakes.
    pub(super) fn asp(config: &ServerConfig, asp: &AspConfig) -> Self {
        let client = MirrorClient::asp(config, asp);
        let mut mirrors = Self::new(config, client, Limits::asp(config, asp), Model::Asp);

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
        let neighbours = config.neighbours.clone();
        let is_neighbour = |dc: &DcId| neighbours.iter().any(|clique| clique.contains(dc));
        let links = config.links.keys().map(|dc| (*dc, is_neighbour(dc)));

        let mut mirrors = Self {
            id: config.id,
            shards: config.shards,
            client,
            server: MirrorServer::new(links, &config.layout, &limits),
            reachability: Reachability::new(config.id.dc, neighbours.clone()),
            neighbours,
            first_hops: config.first_hops.clone(),
            momentum_correction: None,
            bound: limits.bound,
            blocks: config.blocks.clone(),
            drain: None,
            model,
            clock: Clock::ZERO,
            rebuilding: None,
            settling: None,
            wishes: config.remote.guard().map(|_| BTreeMap::new()),
            to_poll: LinksToPoll::All,
        };
        mirrors.set_inactive(&config.inactive);
        mirrors
    }

    /// Counts a data frame of a mirror as applied. Whatever it held, it can be the last that was missed, or the last before the
    /// drain, and arrive after the message that says so.
    fn on_applied(&mut self, from: DcId, sequence: u64, store: &mut ShardStore) {
        self.server.on_applied(from, sequence);
        self.catch_up(from);
        self.advance_drain(store);
    }
}

impl RemoteModel for Mirrors {
    fn on_change(&mut self, _: Clock, place: Range<usize>, change: &[f32], _: &mut [f32]) {
        self.client.on_change(place, change);
    }

    fn on_clock(
        &mut self,
        now: Instant,
        finished: Clock,
        store: &mut ShardStore,
        facts: ClockFacts,
    ) {
        self.clock = finished;
        self.server.on_clock(finished);
        if let Some(momentum_correction) = &mut self.momentum_correction {
            momentum_correction.on_clock(store.values_mut());
        }
        if self.drain.is_none() {
            let reached = self.reached(finished);
            self.client.on_clock(now, finished, &reached, store, facts);
            self.to_poll.extend(self.client.neighbours());
        }
        // After the client, which measures the time of a clock, from which the staleness follows.
        self.server.measure_excuses(finished, self.staleness());
    }

    fn gate(&self, clock: Clock, rows: &ShardRows, waited: Duration, store: &ShardStore) -> Gate {
        if let Some(from) = self.rebuilding {
            return Gate::Closed(WaitReason::Updates { from });
        }
        if let Some(pause) = self.reachability.pause() {
            return Gate::Closed(WaitReason::PartialPartition { from: pause.missed });
        }
        self.server.gate(clock, rows, waited, self.staleness(), store.layout())
    }

    fn on_received(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        if self.server.on_received(now, from)? {
            self.on_heard_again(from);
            self.to_poll = LinksToPoll::All;
        }
        Ok(())
    }

    fn on_bulk(
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
                self.on_update(from, header.sequence, changes, store);
            }
            (BulkKind::Copy | BulkKind::CopyStep, _) => {
                self.to_poll = LinksToPoll::All;
                self.on_copy(now, from, header, changes, store)?;
            }
            (BulkKind::Backlog, _) => {
                self.to_poll = LinksToPoll::All;
                self.on_backlog(from, header, changes, store)?;
            }
            (BulkKind::DrainCopy, Some(drain)) => drain.on_copy(from, changes, header.last)?,
            (BulkKind::DrainResult, Some(drain)) if drain.is_started() => {
                drain.on_result(from, changes, header.last, store.values_mut())?;
            }
            _ => return unexpected(self.model.name()),
        }

        self.on_applied(from, header.sequence, store);
        Ok(())
    }

    fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        let frame = self.client.poll_transmit(to, lane, room).or_else(|| match lane {
            Lane::Control => self.next_link_frame(to),
            Lane::Data => self.next_drain_frame(to, room),
        });
        // What has left, or turned out to be nothing, may be reported in the control lane.
        if lane == Lane::Data && (frame.is_some() || self.client.has_reports_for(to)) {
            self.to_poll.extend([to]);
        }
        frame
    }

    fn take_links_to_poll(&mut self) -> LinksToPoll {
        std::mem::replace(&mut self.to_poll, LinksToPoll::NONE)
    }

    fn on_control(
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
                self.to_poll = LinksToPoll::All;
                self.activate(from);
                self.on_rebuild(from, source, incarnation, store);
            }
            ControlMessage::LinkReport(report) => {
                self.to_poll = LinksToPoll::All;
                self.on_link_report(from, report);
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

    fn has_updates_for(&self, to: DcId) -> bool {
        self.client.has_updates_for(to)
    }

    fn on_drained(&mut self, to: DcId, bytes: u64, busy: Duration) {
        self.client.on_drained(to, bytes, busy, self.shards);
    }

    fn forward(&mut self, now: Instant, own: Clock, store: &ShardStore) {
        if self.neighbours.len() > 1 && self.drain.is_none() {
            let reached = self.reached(own);
            let ranked = self.client.forward(now, &reached, store);
            for clique in ranked {
                self.to_poll.extend(self.neighbours[clique].iter().copied());
            }
        }
    }

    fn handle_timeout(
        &mut self,
        now: Instant,
        waiting_since: Option<Instant>,
        store: &mut ShardStore,
    ) {
        self.server.handle_timeout(now, waiting_since, store.layout());
        self.to_poll.extend(self.client.neighbours());
    }

    fn poll_timeout(
        &self,
        waiting_since: Option<Instant>,
        announced_since: Option<Instant>,
    ) -> Option<(Instant, TimeoutReason)> {
        let at = self.server.poll_timeout(waiting_since, announced_since);
        let at = at.filter(|at| *at < Instant::ZERO + FOR_EVER);
        at.map(|at| (at, TimeoutReason::BrakeDeadline))
    }

    fn begin_drain(
        &mut self,
        method: DrainMethod,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) {
        self.to_poll = LinksToPoll::All;
        self.start_drain(method, inactive, store);
    }

    fn is_drained(&mut self, _: Clock) -> bool {
        self.drain.as_mut().is_some_and(Drain::is_done)
    }

    fn on_disconnected(
        &mut self,
        _: Instant,
        from: DcId,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.to_poll = LinksToPoll::All;
        self.server.on_disconnected(from, self.clock, store.layout())?;
        self.on_link_failed(from);
        Ok(())
    }

    fn begin_rebuild(
        &mut self,
        from: DcId,
        incarnation: u64,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        self.to_poll = LinksToPoll::All;
        self.take_copy_of(from, incarnation, inactive, store)
    }

    fn on_first(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.to_poll = LinksToPoll::All;
        self.on_incarnation(from, incarnation, store)
    }

    fn on_reset(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.to_poll = LinksToPoll::All;
        self.reset_with(from, incarnation, store)
    }

    /// Ignored if the mirror has begun a later incarnation since, because it has returned.
    fn on_left(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.to_poll = LinksToPoll::All;
        if self.client.incarnation_of(from) <= incarnation {
            self.leave(from, incarnation, store);
        }
        Ok(())
    }

    fn on_fork(
        &mut self,
        from: DcId,
        to: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.to_poll = LinksToPoll::All;
        self.copy_for(to, incarnation, store);
        self.client.on_fork(from, to, incarnation);
        Ok(())
    }

    fn is_rebuilding(&self) -> bool {
        self.rebuilding.is_some()
    }

    fn is_whole(&self) -> bool {
        self.settling.is_none()
    }

    fn rebuilt_at(&self) -> Clock {
        self.clock
    }

    fn may_receive_from(&self, from: DcId) -> bool {
        self.server.may_receive_from(from)
    }

    fn pauses_for(&self) -> Option<DcId> {
        self.reachability.pause().map(|pause| pause.missed)
    }

    fn next_sequence(&mut self, to: DcId) -> Option<u64> {
        Some(self.client.next_sequence(to))
    }

    fn on_probe(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        let sequence = header.sequence;
        self.server.check_sequence(from, sequence)?;
        if self.server.has_ended(from, sequence) {
            let found = BulkKind::Probe.name();
            return Err(PeerError::PeerSentUnexpectedKind { from, found, sync: "a drain" });
        }
        self.on_applied(from, sequence, store);
        Ok(())
    }

    /// Sends the request to all mirrors if it has changed.
    fn wish(&mut self, wish: Tightness) {
        let Some(wishes) = &mut self.wishes else { return };
        if wishes.insert(self.id.dc, wish) == Some(wish) {
            return;
        }
        self.to_poll = LinksToPoll::All;
        let peers: Vec<DcId> = self.client.sequences().map(|(peer, _)| peer).collect();
        for peer in peers {
            self.client.push_control(peer, ControlMessage::Tightness { steps: wish.steps() });
        }
        self.client.tighten(self.tightness());
    }

    fn tightness(&self) -> Tightness {
        self.wishes.iter().flat_map(BTreeMap::values).copied().max().unwrap_or_default()
    }

    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn mirror_clock(&self, of: DcId) -> Option<Clock> {
        self.server.clock_of(of)
    }

    fn excused_clocks(&self, of: DcId) -> u64 {
        self.server.excused_clocks(of)
    }

    fn stalled_mirrors(&self) -> BTreeSet<DcId> {
        self.server.stalled()
    }

    fn residual(&self, to: DcId, range: Range<usize>) -> Vec<f32> {
        self.client.residual(to, range)
    }

    fn stats(&self, to: DcId) -> LinkStats {
        self.client.stats(to)
    }

    fn brakes(&self) -> BrakeStats {
        self.server.stats()
    }

    fn watermarks(&self) -> Vec<Watermark> {
        let links = self.client.sequences();
        links
            .map(|(peer, sent)| Watermark { peer, sent, received: self.server.applied(peer) })
            .collect()
    }
}

persist! {
    impl Persist<&ShardLayout> for Mirrors {
        fn walk(
            Self {
                id,
                shards: _,
                client,
                server,
                reachability,
                neighbours: _,
                first_hops,
                momentum_correction,
                bound: _,
                blocks,
                drain,
                model: _,
                clock,
                rebuilding,
                settling,
                wishes,
                to_poll: _,
            },
            walk,
            layout,
        ) {
            walk.part("client", client, layout)?;
            walk.part("server", server, layout)?;
            walk.part("reachability", reachability, ())?;
            if let Some(momentum_correction) = momentum_correction {
                walk.part("momentum_correction", momentum_correction, ())?;
            }

            let fresh = || {
                let present = server.present();
                Some(Drain::new(DrainMethod::Mean, id.dc, present, blocks, layout.parameters()))
            };
            walk.option("drain", drain, fresh, |one, walk| walk.flatten(one, ()))?;
            walk.record("clock", clock)?;

            let is_mirror = |dc: &DcId| first_hops.contains_key(dc);
            walk.record_that("rebuilding", rebuilding, |found, _| {
                found.as_ref().is_none_or(is_mirror)
            })?;
            walk.record_that("settling", settling, |found, _| {
                found.as_ref().is_none_or(is_mirror)
            })?;
            walk.record_that("wishes", wishes, |found, made| found.is_some() == made.is_some())
        }
    }
}

impl Mirrors {
    /// For each clique, the clock up to which a ranking covers all updates for its members: the smallest of this data
    /// center's clock and those that members of the other cliques have reported.
    fn reached(&self, own: Clock) -> Vec<Clock> {
        let slowest = |of: usize| {
            let others = self.neighbours.iter().enumerate().filter(|(clique, _)| *clique != of);
            let clocks = others.flat_map(|(_, members)| members);
            clocks.filter_map(|dc| self.server.counted_clock_of(*dc)).min()
        };
        let cliques = 0..self.neighbours.len();
        cliques.map(|clique| slowest(clique).map_or(own, |slowest| slowest.min(own))).collect()
    }

    /// Adds a mirror's updates to the copy, and enqueues them for the data centers to which this one forwards them.
    fn on_update(
        &mut self,
        from: DcId,
        sequence: u64,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) {
        self.server.on_update(from, sequence, changes, store);
        self.reachability.on_update();
        if let Some(momentum_correction) = &mut self.momentum_correction {
            let clock_time = self.client.clock_time();
            momentum_correction.on_received(from, clock_time, changes, store.values_mut());
        }

        if self.neighbours.len() > 1 {
            self.client.on_received(from, changes);
        }
        if self.client.enqueue(from, changes) {
            self.to_poll = LinksToPoll::All;
        }
    }

    /// The staleness in force, in clocks. `None` if there is no bound.
    fn staleness(&self) -> Option<Staleness> {
        let clocks = self.bound.clocks(self.client.clock_time(), || self.client.frame_time())?;
        Some(Staleness(self.tightness().of_clocks(clocks)))
    }
}

/// The name in errors for an update from a data center that is not a neighbour.
const OVERLAY: &str = "an overlay of other links";
