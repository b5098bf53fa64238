//! What stands between this data center and the others: one of three ways, behind one face.

mod exchange;
mod local_steps;
mod mirrors;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::Changes;
use crate::node::Lane;
use crate::server::blocks::drain::DrainMethod;
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::state::Watermark;
use crate::server::stats::{BrakeStats, LinkStats};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{Gate, RemoteSync};
use crate::types::{Clock, DcId, Instant, ShardLayout, Staleness, StateError, Tightness, Walk};
use crate::wire::{BulkHeader, ControlMessage};
use exchange::Exchange;
use local_steps::LocalSteps;
use mirrors::Mirrors;

#[derive(Debug)]
pub(super) enum Remote {
    /// BSP, SSP.
    Exchange(Box<Exchange>),
    /// TAP, ASP.
    Mirrors(Box<Mirrors>),
    LocalSteps(Box<LocalSteps>),
}

impl Remote {
    pub(super) fn new(config: &ServerConfig, store: &ShardStore) -> Self {
        let exchange = |staleness, values| {
            Self::Exchange(Box::new(Exchange::new(config, staleness, values, store)))
        };
        match &config.remote {
            RemoteSync::Bsp(bsp) => exchange(Staleness(0), bsp.values),
            RemoteSync::Ssp(ssp) => exchange(ssp.staleness, ssp.values),
            RemoteSync::Tap(tap) => Self::Mirrors(Box::new(Mirrors::tap(config, tap))),
            RemoteSync::Asp(asp) => Self::Mirrors(Box::new(Mirrors::asp(config, asp))),
            RemoteSync::LocalSteps(local_steps) => {
                Self::LocalSteps(Box::new(LocalSteps::new(config, local_steps, store)))
            }
        }
    }

    /// A worker that started at `clock` has changed the parameters at `place`, whose `values` in the store hold that.
    pub(super) fn on_change(
        &mut self,
        clock: Clock,
        place: Range<usize>,
        change: &[f32],
        values: &mut [f32],
    ) {
        match self {
            Self::Exchange(exchange) => exchange.on_change(clock, place, change),
            Self::Mirrors(mirrors) => mirrors.on_change(place, change),
            Self::LocalSteps(local_steps) => local_steps.on_change(place, change, values),
        }
    }

    /// All workers of this data center have finished `finished`.
    ///
    /// `read_fraction` is the part of the shard that a worker of this data center reads in a clock.
    pub(super) fn on_clock(
        &mut self,
        now: Instant,
        finished: Clock,
        store: &mut ShardStore,
        read_fraction: f64,
    ) {
        match self {
            Self::Exchange(exchange) => exchange.on_clock(Clock(finished.0 - 1), store),
            Self::Mirrors(mirrors) => mirrors.on_clock(now, finished, store, read_fraction),
            Self::LocalSteps(local_steps) => local_steps.on_clock(finished, store),
        }
    }

    pub(super) fn on_bulk(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Exchange(exchange) => exchange.on_bulk(from, header, changes, store),
            Self::Mirrors(mirrors) => mirrors.on_bulk(now, from, header, changes, store),
            Self::LocalSteps(local_steps) => local_steps.on_bulk(from, header, changes, store),
        }
    }

    /// Takes the next sequence number of a link, for a frame that is not the remote model's own.
    pub(super) fn next_sequence(&mut self, to: DcId) -> u64 {
        match self {
            Self::Exchange(_) => unreachable!("an exchange has no guard"),
            Self::Mirrors(mirrors) => mirrors.next_sequence(to),
            Self::LocalSteps(local_steps) => local_steps.next_sequence(to),
        }
    }

    /// Takes note of such a frame.
    pub(super) fn on_probe(&mut self, from: DcId, header: &BulkHeader) -> Result<(), PeerError> {
        match self {
            Self::Exchange(_) => unreachable!("an exchange has no guard"),
            Self::Mirrors(mirrors) => mirrors.on_probe(from, header.sequence),
            Self::LocalSteps(local_steps) => local_steps.on_probe(from, header),
        }
    }

    /// This data center wishes all to be so tight.
    pub(super) fn wish(&mut self, wish: Tightness) {
        match self {
            Self::Exchange(_) => {}
            Self::Mirrors(mirrors) => mirrors.wish(wish),
            Self::LocalSteps(local_steps) => local_steps.wish(wish),
        }
    }

    /// How tight all are, as far as this data center knows.
    pub(super) fn tightness(&self) -> Tightness {
        match self {
            Self::Exchange(_) => Tightness::NONE,
            Self::Mirrors(mirrors) => mirrors.tightness(),
            Self::LocalSteps(local_steps) => local_steps.tightness(),
        }
    }

    /// Whether copies are as far apart at a read of `clock` as they come to be.
    pub(super) fn is_loosest_at(&self, clock: Clock) -> bool {
        match self {
            Self::Exchange(_) | Self::Mirrors(_) => true,
            Self::LocalSteps(local_steps) => local_steps.is_last_before_round(clock),
        }
    }

    pub(super) fn on_control(
        &mut self,
        now: Instant,
        from: DcId,
        message: ControlMessage,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Exchange(exchange) => exchange.on_control(from, &message),
            Self::Mirrors(mirrors) => mirrors.on_control(now, from, message, store),
            Self::LocalSteps(local_steps) => local_steps.on_control(from, &message),
        }
    }

    pub(super) fn on_heard(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        match self {
            Self::Exchange(exchange) => exchange.on_heard(from),
            Self::Mirrors(mirrors) => mirrors.on_heard(now, from),
            Self::LocalSteps(local_steps) => local_steps.on_heard(from),
        }
    }

    /// Nothing can come from a mirror until it is heard again. Where its updates are needed, they are waited for.
    pub(super) fn on_disconnected(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        match self {
            Self::Mirrors(mirrors) => mirrors.on_disconnected(from),
            Self::Exchange(_) | Self::LocalSteps(_) => self.on_heard(now, from),
        }
    }

    /// Whether something may come from a mirror, as far as this model keeps note of that.
    pub(super) fn may_hear(&self, from: DcId) -> bool {
        matches!(self, Self::Mirrors(mirrors) if mirrors.may_hear(from))
    }

    /// The data centers that must not train, each with one that trains and that it exchanges no updates with.
    pub(super) fn paused(&self) -> Option<&BTreeMap<DcId, DcId>> {
        match self {
            Self::Mirrors(mirrors) => Some(mirrors.paused()),
            // These wait for all in any case.
            Self::Exchange(_) | Self::LocalSteps(_) => None,
        }
    }

    /// Clocks that a mirror has missed while its data center was paused.
    pub(super) fn excused(&self, mirror: DcId) -> u64 {
        match self {
            Self::Mirrors(mirrors) => mirrors.excused(mirror),
            Self::Exchange(_) | Self::LocalSteps(_) => 0,
        }
    }

    /// This data center has lost its copy, and takes that of a mirror.
    pub(super) fn begin_rebuild(
        &mut self,
        from: DcId,
        incarnation: u64,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Mirrors(mirrors) => mirrors.begin_rebuild(from, incarnation, inactive, store),
            Self::Exchange(_) | Self::LocalSteps(_) => Err(self.lost(from)),
        }
    }

    /// Whether the copy of a mirror is on its way.
    pub(super) fn is_rebuilding(&self) -> bool {
        matches!(self, Self::Mirrors(mirrors) if mirrors.is_rebuilding())
    }

    /// Whether nothing of a copy that was asked for is still to come.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Mirrors(mirrors) => mirrors.is_whole(),
            Self::Exchange(_) | Self::LocalSteps(_) => true,
        }
    }

    /// The clock of the copy that came from a mirror, where one has come and no clock has been finished since.
    pub(super) fn rebuilt_at(&self) -> Clock {
        match self {
            Self::Mirrors(mirrors) => mirrors.rebuilt_at(),
            Self::Exchange(_) | Self::LocalSteps(_) => Clock::ZERO,
        }
    }

    /// A mirror has said hello for the first time, in this incarnation of it.
    pub(super) fn on_first(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Mirrors(mirrors) => mirrors.on_first(from, incarnation, store),
            Self::Exchange(_) | Self::LocalSteps(_) => Ok(()),
        }
    }

    /// A mirror has lost all that it had.
    pub(super) fn on_reset(
        &mut self,
        from: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Mirrors(mirrors) => mirrors.on_reset(from, incarnation, store),
            Self::Exchange(_) | Self::LocalSteps(_) => Err(self.lost(from)),
        }
    }

    /// A mirror has left for good, in this incarnation of it.
    pub(super) fn on_left(
        &mut self,
        dc: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Mirrors(mirrors) => {
                mirrors.on_left(dc, incarnation, store);
                Ok(())
            }
            Self::Exchange(_) | Self::LocalSteps(_) => Err(self.lost(dc)),
        }
    }

    /// A mirror's data lane says that it has carried what its link to another one begins with.
    pub(super) fn on_fork(
        &mut self,
        from: DcId,
        to: DcId,
        incarnation: u64,
        store: &ShardStore,
    ) -> Result<(), PeerError> {
        match self {
            Self::Mirrors(mirrors) => {
                mirrors.on_fork(from, to, incarnation, store);
                Ok(())
            }
            Self::Exchange(_) | Self::LocalSteps(_) => {
                let (found, sync) = ("fork", self.name());
                Err(PeerError::PeerSentUnexpectedKind { from, found, sync })
            }
        }
    }

    fn lost(&self, from: DcId) -> PeerError {
        PeerError::PeerLostCopy { from, sync: self.name() }
    }

    /// What errors call it.
    fn name(&self) -> &'static str {
        match self {
            Self::Exchange(_) => exchange::NAME,
            Self::Mirrors(_) => "an exchange of updates",
            Self::LocalSteps(_) => local_steps::NAME,
        }
    }

    pub(super) fn on_drained(&mut self, to: DcId, bytes: u64, busy: Duration) {
        if let Self::Mirrors(mirrors) = self {
            mirrors.on_drained(to, bytes, busy);
        }
    }

    /// On a hub of an overlay: passes on what has come. `own` is the data center's clock.
    pub(super) fn forward(&mut self, now: Instant, own: Clock, store: &ShardStore) {
        if let Self::Mirrors(mirrors) = self {
            mirrors.forward(now, own, store);
        }
    }

    pub(super) fn gate(&self, clock: Clock, rows: &ShardRows, store: &ShardStore) -> Gate {
        match self {
            Self::Exchange(exchange) => exchange.gate(clock),
            Self::Mirrors(mirrors) => mirrors.gate(clock, rows, store),
            Self::LocalSteps(local_steps) => local_steps.gate(clock),
        }
    }

    pub(super) fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        match self {
            Self::Exchange(exchange) => exchange.poll_transmit(to, lane, room),
            Self::Mirrors(mirrors) => mirrors.poll_transmit(to, lane, room),
            Self::LocalSteps(local_steps) => local_steps.poll_transmit(to, lane, room),
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        waiting_since: Option<Instant>,
        store: &ShardStore,
    ) {
        if let Self::Mirrors(mirrors) = self {
            mirrors.handle_timeout(now, waiting_since, store);
        }
    }

    pub(super) fn poll_timeout(&self, waiting_since: Option<Instant>) -> Option<Instant> {
        match self {
            Self::Exchange(_) | Self::LocalSteps(_) => None,
            Self::Mirrors(mirrors) => mirrors.poll_timeout(waiting_since),
        }
    }

    /// `inactive` are the data centers that take no part: none but under TAP and ASP.
    pub(super) fn begin_drain(
        &mut self,
        method: DrainMethod,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) {
        match self {
            Self::Exchange(_) => {}
            Self::Mirrors(mirrors) => mirrors.begin_drain(method, inactive, store),
            Self::LocalSteps(local_steps) => local_steps.begin_drain(method, store),
        }
    }

    /// Whether the drain is over, with this data center's workers at `clock`.
    pub(super) fn is_drained(&self, clock: Clock) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.is_settled(clock),
            Self::Mirrors(mirrors) => mirrors.is_drained(),
            Self::LocalSteps(local_steps) => local_steps.is_drained(),
        }
    }

    /// Clocks that the copy holds, with this data center's workers at `clock`.
    pub(super) fn copy_clock(&self, clock: Clock) -> Clock {
        match self {
            Self::Exchange(exchange) => exchange.shared_clock(),
            Self::Mirrors(_) | Self::LocalSteps(_) => clock,
        }
    }

    /// The values that all data centers agree on, where a model has such.
    pub(super) fn agreed(&self) -> Option<&[f32]> {
        match self {
            Self::Exchange(exchange) => Some(exchange.global()),
            Self::Mirrors(_) => None,
            Self::LocalSteps(local_steps) => local_steps.agreed(),
        }
    }

    /// The drain is over: leaves the common state in the store.
    pub(super) fn end_drain(&self, store: &mut ShardStore) {
        match self {
            Self::Exchange(exchange) => store.values_mut().copy_from_slice(exchange.global()),
            Self::Mirrors(_) | Self::LocalSteps(_) => {}
        }
    }

    /// Up to which clock what `of` sends is here, where it says.
    pub(super) fn mirror_clock(&self, of: DcId) -> Option<Clock> {
        match self {
            Self::Exchange(exchange) => Some(exchange.clock_of(of)),
            Self::Mirrors(mirrors) => mirrors.clock_of(of),
            Self::LocalSteps(_) => None,
        }
    }

    /// Whether updates wait in the outbox of a link, where there is one.
    pub(super) fn has_updates_for(&self, to: DcId) -> bool {
        match self {
            Self::Mirrors(mirrors) => mirrors.has_updates_for(to),
            Self::Exchange(_) | Self::LocalSteps(_) => false,
        }
    }

    pub(super) fn stats(&self, to: DcId) -> LinkStats {
        match self {
            Self::Exchange(exchange) => exchange.stats(to),
            Self::Mirrors(mirrors) => mirrors.stats(to),
            Self::LocalSteps(local_steps) => local_steps.stats(to),
        }
    }

    pub(super) fn brakes(&self) -> BrakeStats {
        match self {
            Self::Exchange(_) | Self::LocalSteps(_) => BrakeStats::default(),
            Self::Mirrors(mirrors) => mirrors.brakes(),
        }
    }

    /// What one link has not carried, for a range of parameters; zeros where nothing is kept for a link.
    pub(super) fn residual(&self, to: DcId, range: Range<usize>) -> Vec<f32> {
        match self {
            Self::Exchange(_) | Self::LocalSteps(_) => vec![0.0; range.len()],
            Self::Mirrors(mirrors) => mirrors.residual(to, range),
        }
    }

    pub(super) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        layout: &ShardLayout,
    ) -> Result<(), StateError> {
        match self {
            Self::Exchange(exchange) => exchange.state(walk),
            Self::Mirrors(mirrors) => mirrors.state(walk, layout),
            Self::LocalSteps(local_steps) => local_steps.state(walk),
        }
    }

    /// How far the frames of each link have come.
    pub(super) fn watermarks(&self) -> Vec<Watermark> {
        match self {
            Self::Exchange(exchange) => exchange.watermarks(),
            Self::Mirrors(mirrors) => mirrors.watermarks(),
            Self::LocalSteps(local_steps) => local_steps.watermarks(),
        }
    }
}
