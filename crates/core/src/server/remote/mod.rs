//! Remote synchronisation: how this data center shares updates with the others, and when it waits for them.
//!
//! A remote model is one folder with an implementation of [`RemoteModel`], and one line in [`remote_model`]. It decides
//! what is sent to each mirror, how a mirror's frame changes the copy, which reads must wait, and how all copies become
//! equal at the end. It does not know workers and their clocks, the handshake, and replies to workers. The server does
//! these.
//!
//! [`exchange`] has BSP and SSP, [`mirrors`] TAP and ASP (Hsieh et al., NSDI 2017, section 3), [`local_steps`] DiLoCo
//! and its successors.

mod exchange;
mod local_steps;
mod mirrors;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::Changes;
use crate::node::{Lane, Stretch};
use crate::server::blocks::DrainMethod;
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{BrakeStats, LinkStats, Watermark};
use crate::server::{LinksToPoll, TimeoutReason};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{Gate, RemoteSync};
use crate::types::{Clock, DcId, Instant, Persist, ShardLayout, Tightness};
use crate::wire::{BulkHeader, ControlMessage};

use exchange::Exchange;
use local_steps::LocalSteps;
use mirrors::Mirrors;

/// The remote model that the configuration names. `store` has the initial values.
pub(super) fn remote_model(config: &ServerConfig, store: &ShardStore) -> Box<dyn RemoteModel> {
    match &config.remote {
        RemoteSync::Bsp(bsp) => Box::new(Exchange::bsp(config, bsp, store)),
        RemoteSync::Ssp(ssp) => Box::new(Exchange::ssp(config, ssp, store)),
        RemoteSync::Tap(tap) => Box::new(Mirrors::tap(config, tap)),
        RemoteSync::Asp(asp) => Box::new(Mirrors::asp(config, asp)),
        RemoteSync::LocalSteps(steps) => Box::new(LocalSteps::new(config, steps, store)),
    }
}

/// What the workers of a data center have done in a clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockFacts {
    /// The number of clocks whose changes have been received since the clock before. 0 if a worker keeps them.
    pub(super) clocks: u64,
    /// The share of the shard, 0 to 1, that a worker reads in a clock.
    pub(super) read_fraction: f64,
    /// The learning rate divided by the largest so far, 0 to 1, if workers report it.
    pub(super) learning_rate_factor: Option<f64>,
}

/// Iterations whose changes a remote model needs together.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteStretch {
    pub(super) stretch: Stretch,
    /// How often others than this data center's workers have changed its copy.
    pub(super) changes_of_others: u64,
}

/// One server's part of a remote model.
///
/// The server calls it from one thread. It passes in events with the time, and then queries the actions. Every model
/// implements the methods without a body. The default bodies are correct for a model in which all data centers take
/// part from the first clock to the last, and each waits for all others.
///
/// # Errors
/// Methods that handle frames of a mirror return an error if a frame is invalid. No part of it was applied then.
pub(super) trait RemoteModel:
    fmt::Debug + Send + Sync + for<'l> Persist<&'l ShardLayout>
{
    // Events of this data center.

    /// A worker has changed the parameters of the range `place` by `change`, in the iteration that started at `clock`.
    /// Their `values` in the store include the change.
    fn on_change(&mut self, clock: Clock, place: Range<usize>, change: &[f32], values: &mut [f32]);

    /// All workers of this data center, or a quorum, have finished clock `finished`, which is at least 1.
    fn on_clock(
        &mut self,
        now: Instant,
        finished: Clock,
        store: &mut ShardStore,
        facts: ClockFacts,
    );

    /// Whether a read of `rows` by a worker at `clock` may be answered, and if not, what it waits for. `waited` is how
    /// long it has waited for announced parameters.
    fn gate(&self, clock: Clock, rows: &ShardRows, waited: Duration, store: &ShardStore) -> Gate;

    /// Whether this data center may end the iteration of its workers that starts at `clock`, once enough of them have. A
    /// quorum of workers that have skipped clocks can have done so before this server would answer a read at it.
    fn may_finish(&self, _clock: Clock) -> bool {
        true
    }

    // Frames of mirrors, and frames for them.

    /// A frame of any kind was received. Called before the method that handles the frame.
    fn on_received(&mut self, now: Instant, from: DcId) -> Result<(), PeerError>;

    /// Handles the changes of a data frame. The caller has checked origin, shard and the bounds of values. The model
    /// checks sequence number, clock and parameters.
    fn on_bulk(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError>;

    /// The next frame for a mirror, of at most about `room` bytes. `None` if nothing waits in the lane.
    fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes>;

    /// The links for which [`Self::poll_transmit`] may return a frame that was not there when they were polled last, since
    /// the last call of this method. At first these are all links.
    fn take_links_to_poll(&mut self) -> LinksToPoll {
        LinksToPoll::All
    }

    /// Handles a message of the control lane. A model that sends none rejects all.
    fn on_control(
        &mut self,
        _now: Instant,
        from: DcId,
        message: ControlMessage,
        _store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.unexpected(from, message.name()))
    }

    /// Whether updates wait in the outbox of a link. `false` for a model without outboxes.
    fn has_updates_for(&self, _to: DcId) -> bool {
        false
    }

    /// A link has carried `bytes` while it was busy for `busy`.
    fn on_drained(&mut self, _to: DcId, _bytes: u64, _busy: Duration) {}

    /// Forwards updates of other cliques, on a hub of an overlay. `own` is the data center's clock.
    fn forward(&mut self, _now: Instant, _own: Clock, _store: &ShardStore) {}

    // Time.

    /// Does what has waited until its deadline. `waiting_since` is the time since which the longest-held read has
    /// waited for a mirror's clock, if one does.
    fn handle_timeout(
        &mut self,
        _now: Instant,
        _waiting_since: Option<Instant>,
        _store: &mut ShardStore,
    ) {
    }

    /// When [`Self::handle_timeout`] must be called, and why. `waiting_since` is as there, and `announced_since` the time
    /// since which the longest-held read has waited for announced parameters, if one does.
    fn poll_timeout(
        &self,
        _waiting_since: Option<Instant>,
        _announced_since: Option<Instant>,
    ) -> Option<(Instant, TimeoutReason)> {
        None
    }

    // The end of the run.

    /// Begins the drain. All workers have stopped, at the same clocks in all data centers. With a quorum, late changes may
    /// have joined the clock after that. `inactive` data centers take
    /// no part. A model whose exchange leaves all copies equal does nothing.
    fn begin_drain(
        &mut self,
        _method: DrainMethod,
        _inactive: &BTreeSet<DcId>,
        _store: &mut ShardStore,
    ) {
    }

    /// Whether the drain is complete, with this data center's workers at `clock`: no frame is still to be sent or
    /// received.
    fn is_drained(&mut self, clock: Clock) -> bool;

    /// Ends the drain: writes the common values to the store, unless they are there.
    fn end_drain(&self, _store: &mut ShardStore) {}

    // Mirrors that join, fail or leave. A model that needs all data centers in each clock cannot continue without one.

    /// Nothing is received from a mirror, until its next frame. A model that needs the mirror's updates waits for them.
    fn on_disconnected(
        &mut self,
        now: Instant,
        from: DcId,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        self.on_received(now, from)
    }

    /// This data center has lost its copy. It begins a new incarnation and takes the copy of the mirror `from`.
    fn begin_rebuild(
        &mut self,
        from: DcId,
        _incarnation: u64,
        _inactive: &BTreeSet<DcId>,
        _store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.lost_copy(from))
    }

    /// The first hello of a mirror was received, in this incarnation of the mirror.
    fn on_first(
        &mut self,
        _from: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Ok(())
    }

    /// A mirror has lost its state and begins this incarnation.
    fn on_reset(
        &mut self,
        from: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.lost_copy(from))
    }

    /// A mirror has left permanently, in this incarnation of the mirror.
    fn on_left(
        &mut self,
        from: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.lost_copy(from))
    }

    /// The marker of a fork was received in a mirror's data lane: this link has carried all that the mirror's link to
    /// `to` counts as sent.
    fn on_fork(
        &mut self,
        from: DcId,
        _to: DcId,
        _incarnation: u64,
        _store: &ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.unexpected(from, "fork"))
    }

    /// Whether the copy of a mirror is being received.
    fn is_rebuilding(&self) -> bool {
        false
    }

    /// Whether no part of a requested copy is missing.
    fn is_whole(&self) -> bool {
        true
    }

    /// The clock of the copy received from a mirror, until a clock is finished. 0 otherwise.
    fn rebuilt_at(&self) -> Clock {
        Clock::ZERO
    }

    /// Whether this model counts on frames of a mirror: it is active, and not disconnected. `false` if the model does not
    /// track that.
    fn may_receive_from(&self, _from: DcId) -> bool {
        false
    }

    /// The mirror whose updates are missing, while this data center pauses under a partial partition. Always `None` for
    /// a model that waits for all mirrors.
    fn pauses_for(&self) -> Option<DcId> {
        None
    }

    // The guard against skew. Called only for a model whose configuration has a guard.

    /// Assigns the next sequence number of a link to a frame of the guard. `None` if the model supports no such frames.
    fn next_sequence(&mut self, _to: DcId) -> Option<u64> {
        None
    }

    /// Records such a frame of a mirror.
    fn on_probe(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        _store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        Err(self.unexpected(from, header.kind.name()))
    }

    /// Requests a tightness for all data centers.
    fn wish(&mut self, _wish: Tightness) {}

    /// The tightness that all data centers apply, as far as this one knows.
    fn tightness(&self) -> Tightness {
        Tightness::NONE
    }

    /// Whether copies differ most at a read at `clock`.
    fn is_loosest_at(&self, _clock: Clock) -> bool {
        true
    }

    // Queries.

    /// The iterations whose changes this model needs together, where no other data center needs them before. `None` if it
    /// needs those of each iteration.
    fn stretch(&self) -> Option<RemoteStretch> {
        None
    }

    /// How many rounds this process of the data center has begun, where other data centers receive nothing but the changes
    /// that were taken for one, and what follows from those of several data centers. `None` where they receive others.
    fn rounds_begun(&self) -> Option<u64> {
        None
    }

    /// The model's name in errors.
    fn name(&self) -> &'static str;

    /// The clock up to which the copy has all updates, with this data center's workers at `clock`.
    fn copy_clock(&self, clock: Clock) -> Clock {
        clock
    }

    /// The values that all data centers agree on. `None` if they are this data center's copy.
    fn agreed(&self) -> Option<&[f32]> {
        None
    }

    /// The clock up to which the updates of a mirror were received. `None` if the model has no such clock.
    fn mirror_clock(&self, _of: DcId) -> Option<Clock> {
        None
    }

    /// The clocks of a mirror that reads do not wait for, since it has missed them in a pause or while its link was dead.
    fn excused_clocks(&self, _of: DcId) -> u64 {
        0
    }

    /// The mirrors that reads do not wait for, since they send frames and their clocks do not advance. A model without mirror
    /// clocks has none.
    fn stalled_mirrors(&self) -> BTreeSet<DcId> {
        BTreeSet::new()
    }

    /// The residual of one link for a range of parameters. Zeros if the model has no residuals.
    fn residual(&self, _to: DcId, range: Range<usize>) -> Vec<f32> {
        vec![0.0; range.len()]
    }

    /// The frames that were sent to a mirror.
    ///
    /// # Panics
    /// If `to` is not a mirror of this server.
    fn stats(&self, to: DcId) -> LinkStats;

    /// How often deadlines have passed. A model without deadlines counts none.
    fn brakes(&self) -> BrakeStats {
        BrakeStats::default()
    }

    /// The sequence numbers of the last frames of each link, in the order of mirrors.
    fn watermarks(&self) -> Vec<Watermark>;

    /// The error for a frame or message that this model does not use.
    fn unexpected(&self, from: DcId, found: &'static str) -> PeerError {
        PeerError::PeerSentUnexpectedKind { from, found, sync: self.name() }
    }

    /// The error for a data center that has lost its copy or left, if the model cannot continue without it.
    fn lost_copy(&self, from: DcId) -> PeerError {
        PeerError::PeerLostCopy { from, sync: self.name() }
    }
}
