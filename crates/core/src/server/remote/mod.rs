//! Remote synchronisation: how this data center shares updates with the others, and when it waits for them.
//!
//! A remote model is one folder with an implementation of [`RemoteModel`], and one line in [`remote_model`]. It decides what
//! leaves for each mirror, what a frame from a mirror does to the copy, which reads must wait, and how all copies become
//! equal at the end. It refuses to know the workers and their clocks, the handshake, and what a worker is answered: the
//! server asks the model, and does the rest.
//!
//! [`exchange`] has BSP and SSP, [`mirrors`] TAP and ASP (Hsieh et al., NSDI 2017, section 3), [`local_steps`] DiLoCo and
//! what came after it.

mod exchange;
mod local_steps;
mod mirrors;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::Changes;
use crate::node::Lane;
use crate::server::blocks::DrainMethod;
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{BrakeStats, LinkStats, Watermark};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{Gate, RemoteSync};
use crate::types::{Clock, DcId, Instant, ShardLayout, StateError, Tightness, Walk};
use crate::wire::{BulkHeader, ControlMessage};

use exchange::Exchange;
use local_steps::LocalSteps;
use mirrors::Mirrors;

/// The remote model that the configuration names, over the values that all data centers begin with.
pub(super) fn remote_model(config: &ServerConfig, store: &ShardStore) -> Box<dyn RemoteModel> {
    match &config.remote {
        RemoteSync::Bsp(bsp) => Box::new(Exchange::bsp(config, bsp, store)),
        RemoteSync::Ssp(ssp) => Box::new(Exchange::ssp(config, ssp, store)),
        RemoteSync::Tap(tap) => Box::new(Mirrors::tap(config, tap)),
        RemoteSync::Asp(asp) => Box::new(Mirrors::asp(config, asp)),
        RemoteSync::LocalSteps(steps) => Box::new(LocalSteps::new(config, steps, store)),
    }
}

/// One server's part in a remote model.
///
/// The server calls it in one thread, with what has happened and the time, and then asks what is to be done. The methods
/// without a body are what every model decides. Those with one are for models that do more, and their body is right for
/// a model in which all data centers take part from the first clock to the last, and each waits for all others.
///
/// # Errors
/// Methods that take what a mirror sent return an error where it sent what it must not. Nothing of that was applied then.
pub(super) trait RemoteModel: fmt::Debug + Send + Sync {
    // What happens at home.

    /// A worker in the iteration that started at `clock` has changed the parameters at `place` by `change`. Their `values`
    /// in the store hold the change already.
    fn on_change(&mut self, clock: Clock, place: Range<usize>, change: &[f32], values: &mut [f32]);

    /// All workers of this data center have finished their clocks up to `finished`, which is at least 1.
    ///
    /// `read_fraction` is the part of the shard, 0 to 1, that a worker of this data center reads in a clock.
    fn on_clock(
        &mut self,
        now: Instant,
        finished: Clock,
        store: &mut ShardStore,
        read_fraction: f64,
    );

    /// Whether a read of `rows` by a worker at `clock` may go, and if not, what it waits for.
    fn gate(&self, clock: Clock, rows: &ShardRows, store: &ShardStore) -> Gate;

    // What comes from mirrors, and what leaves for them.

    /// A frame came, of whatever kind. Called before any other method takes the frame.
    fn on_heard(&mut self, now: Instant, from: DcId) -> Result<(), PeerError>;

    /// Takes the changes of a data frame. Its origin and shard, and the bounds of its values, are checked already; its
    /// sequence number, clock and parameters are not.
    fn on_bulk(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError>;

    /// The next frame for a mirror, of about `room` bytes at most; `None` where nothing waits in this lane.
    fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes>;

    /// Takes a message of the control lane. A model that sends none refuses all.
    fn on_control(
        &mut self,
        _now: Instant,
        from: DcId,
        message: ControlMessage,
        _store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.unexpected(from, message.name()))
    }

    /// Whether updates wait in the outbox of a link. Without an outbox there are none.
    fn has_updates_for(&self, _to: DcId) -> bool {
        false
    }

    /// A link has carried so many `bytes` in the time that it was `busy`.
    fn on_drained(&mut self, _to: DcId, _bytes: u64, _busy: Duration) {}

    /// Passes on what has come from others, on a hub of an overlay. `own` is the data center's clock.
    fn forward(&mut self, _now: Instant, _own: Clock, _store: &ShardStore) {}

    // Time.

    /// Lets pass what has waited until its deadline. `waiting_since` is since when the longest-held read waits for a
    /// mirror's clock, if one does.
    fn handle_timeout(
        &mut self,
        _now: Instant,
        _waiting_since: Option<Instant>,
        _store: &ShardStore,
    ) {
    }

    /// When [`Self::handle_timeout`] may have something to do.
    fn poll_timeout(&self, _waiting_since: Option<Instant>) -> Option<Instant> {
        None
    }

    // The end of the run.

    /// All workers have stopped, at the same clocks in all data centers: begins to make all copies equal. The data centers
    /// that are `inactive` take no part. A model whose exchange leaves all copies equal has nothing to begin.
    fn begin_drain(
        &mut self,
        _method: DrainMethod,
        _inactive: &BTreeSet<DcId>,
        _store: &mut ShardStore,
    ) {
    }

    /// Whether the drain is over, with this data center's workers at `clock`: nothing more is to come or to leave.
    fn is_drained(&self, clock: Clock) -> bool;

    /// The drain is over: leaves the common values in the store, where they are not there already.
    fn end_drain(&self, _store: &mut ShardStore) {}

    // Mirrors that come and go. A model that needs every data center in every clock cannot go on without one.

    /// Nothing can come from a mirror until it is heard again. A model that needs its updates waits for them.
    fn on_disconnected(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        self.on_heard(now, from)
    }

    /// This data center has lost its copy, begins its `incarnation` of this number, and takes the copy of a mirror.
    fn begin_rebuild(
        &mut self,
        from: DcId,
        _incarnation: u64,
        _inactive: &BTreeSet<DcId>,
        _store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.lost_copy(from))
    }

    /// A mirror has said hello for the first time, in this incarnation of it.
    fn on_first(
        &mut self,
        _from: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Ok(())
    }

    /// A mirror has lost all that it had, and begins this incarnation.
    fn on_reset(
        &mut self,
        from: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.lost_copy(from))
    }

    /// A mirror has left for good, in this incarnation of it.
    fn on_left(
        &mut self,
        from: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.lost_copy(from))
    }

    /// A mirror's data lane says that it has carried what the mirror's link to `to` begins with.
    fn on_fork(
        &mut self,
        from: DcId,
        _to: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.unexpected(from, "fork"))
    }

    /// Whether the copy of a mirror is on its way.
    fn is_rebuilding(&self) -> bool {
        false
    }

    /// Whether nothing of a copy that was asked for is still to come.
    fn is_whole(&self) -> bool {
        true
    }

    /// The clock of the copy that came from a mirror, where one has come and no clock has been finished since.
    fn rebuilt_at(&self) -> Clock {
        Clock::ZERO
    }

    /// Whether something may come from a mirror, as far as this model keeps note of that.
    fn may_hear(&self, _from: DcId) -> bool {
        false
    }

    /// The mirror whose updates are missed, where this data center pauses under a partial partition. A model that waits for
    /// all never does.
    fn pauses_for(&self) -> Option<DcId> {
        None
    }

    // The guard against skew. Only a model whose configuration has a guard is asked.

    /// Takes the next sequence number of a link, for a frame of the guard; `None` where the model's links carry none.
    fn next_sequence(&mut self, _to: DcId) -> Option<u64> {
        None
    }

    /// Takes note of such a frame from a mirror.
    fn on_probe(&mut self, from: DcId, header: &BulkHeader) -> Result<(), PeerError> {
        Err(self.unexpected(from, header.kind.name()))
    }

    /// This data center wishes all copies to be kept together so tightly.
    fn wish(&mut self, _wish: Tightness) {}

    /// How tight all are, as far as this data center knows.
    fn tightness(&self) -> Tightness {
        Tightness::NONE
    }

    /// Whether copies are as far apart at a read of `clock` as they come to be.
    fn is_loosest_at(&self, _clock: Clock) -> bool {
        true
    }

    // What others ask.

    /// What errors call the model.
    fn name(&self) -> &'static str;

    /// Clocks that the copy holds, with this data center's workers at `clock`.
    fn copy_clock(&self, clock: Clock) -> Clock {
        clock
    }

    /// The values that all data centers agree on, where they are not this data center's copy.
    fn agreed(&self) -> Option<&[f32]> {
        None
    }

    /// Up to which clock the updates of a mirror are here, where the model says.
    fn mirror_clock(&self, _of: DcId) -> Option<Clock> {
        None
    }

    /// What one link has not carried, for a range of parameters; zeros where nothing is kept for a link.
    fn residual(&self, _to: DcId, range: Range<usize>) -> Vec<f32> {
        vec![0.0; range.len()]
    }

    /// What was sent to a mirror.
    ///
    /// # Panics
    /// Where `to` is not a mirror of this server.
    fn stats(&self, to: DcId) -> LinkStats;

    /// What deadlines have made it give up. A model without a deadline gives up nothing.
    fn brakes(&self) -> BrakeStats {
        BrakeStats::default()
    }

    /// How far the frames of each link have come, in the order of mirrors.
    fn watermarks(&self) -> Vec<Watermark>;

    /// Walks over what changes as time goes on.
    fn state(&mut self, walk: &mut Walk<'_>, layout: &ShardLayout) -> Result<(), StateError>;

    /// A mirror sent what this model does not use.
    fn unexpected(&self, from: DcId, found: &'static str) -> PeerError {
        PeerError::PeerSentUnexpectedKind { from, found, sync: self.name() }
    }

    /// A data center has lost its copy, or gone, and this model cannot do without it.
    fn lost_copy(&self, from: DcId) -> PeerError {
        PeerError::PeerLostCopy { from, sync: self.name() }
    }
}
