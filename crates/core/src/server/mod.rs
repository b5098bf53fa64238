//! A parameter server. It sequences its faces and has no arithmetic of its own.
//!
//! To its workers it is the *local server*. To other data centers it is a part of its remote model. With ASP and TAP
//! this is a *mirror client*, which sends updates to them, and a *mirror server*, which receives updates from them
//! (Hsieh et al., NSDI 2017). With BSP and SSP it is an *exchange* of whole clocks, and with local steps it is
//! *rounds*.
//!
//! The room decides the order in which the faces react: a message is received, one face reacts, and the resulting
//! messages are output. It does not know which remote model runs. The models are in `remote/`, with a folder and a line
//! for each. The operations on blocks of a shard that models and copies that travel share are in `blocks/`.

mod blocks;
mod config;
mod divergence;
mod error;
mod frames;
mod guard;
mod handshake;
mod links_to_poll;
mod local_server;
mod outliers;
mod remote;
mod stats;
mod stretches;
mod traveling;

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::codec::Buffers;
use crate::node::{Lane, Probed, RowsRead, ServerInput, WorkerMessage};
use crate::persist;
use crate::store::{ShardDeltas, ShardStore};
use crate::sync::WaitReason;
use crate::types::limits::BULK_FRAME_BYTES_MAX;
use crate::types::{
    Clock, DcId, Instant, Model, ServerId, ShardLayout, SharedValues, Tightness, WorkerId,
};

pub use blocks::{Blocks, DrainMethod};
pub use config::{ExchangeRoute, LinkFacts, LongestWay, Schedule, ServerConfig};
pub use divergence::Divergence;
pub use error::PeerError;
pub use guard::GuardStats;
pub use links_to_poll::LinksToPoll;
pub use outliers::OutlierStats;
pub use stats::{BrakeStats, LinkStats, Watermark};

use guard::Guard;
use handshake::Handshake;
use local_server::LocalServer;
use outliers::Outliers;
use remote::{ClockFacts, RemoteModel, remote_model};
use stretches::Stretches;
use traveling::Traveling;

/// An action that the driver carries out for a server.
#[derive(Clone, Debug)]
pub enum ServerOutput {
    /// Send a message to a worker of the server's data center.
    ToWorker {
        /// The worker.
        worker: WorkerId,
        /// The message.
        message: RowsRead,
    },
    /// All workers of the data center, or a quorum of them, have finished a clock.
    ClockFinished {
        /// The number of finished clocks.
        clock: Clock,
    },
    /// The copy is ready for the evaluation of a clock: it has all updates of all data centers up to the clock (BSP,
    /// SSP), or those of this data center (TAP, ASP), or the values agreed at the clock (local steps).
    CopyReady {
        /// The clock.
        clock: Clock,
    },
    /// The drain is complete: the copies of all data centers are equal, and do not change again.
    Drained,
    /// A worker's update was rejected, because training has diverged. The run must end. The worker's clock counts as
    /// finished, so that no node waits for it.
    Diverged(Divergence),
    /// A worker of the data center has measured another one's copy, where the run looks whether copies part. Only the first
    /// server of a data center outputs it.
    Probed(Probed),
}

/// Why a server has a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReason {
    /// The deadline of a brake: announced parameters are missing, or a mirror is silent.
    BrakeDeadline,
    /// The grace of a round of local steps, or of a clock of the data center's workers, is over.
    Grace,
    /// Other data centers have begun a round of local steps with a quorum long ago, and this one has not.
    RoundNotBegun,
}

/// The state machine of one parameter server.
///
/// Methods are of three kinds: `handle_*` pass in events, `poll_*` return actions, and all others are queries.
#[derive(Debug)]
pub struct Server {
    id: ServerId,
    store: ShardStore,
    local: LocalServer,
    handshake: Handshake,
    remote: Box<dyn RemoteModel>,
    /// `None` if no copies travel.
    traveling: Option<Traveling>,
    guard: Option<Guard>,
    /// `None` if updates have no limits.
    outliers: Option<Outliers>,
    drain: DrainMethod,
    draining: Draining,
    /// The first update that was rejected.
    divergence: Option<Divergence>,
    /// The share of the shard that the latest read requested, 0 to 1.
    read_fraction: f64,
    outputs: VecDeque<ServerOutput>,
    copy_ready: Clock,
    buffers: Buffers,
    stretches: Stretches,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Draining {
    No,
    /// Requested for when the workers are at these clocks, with these inactive data centers.
    AtClocks(Vec<Clock>, BTreeSet<DcId>),
    Yes,
    Done,
}

impl Server {
    /// A server at clock 0 with the initial model.
    ///
    /// # Panics
    /// If the configuration is inconsistent, or `initial` has another layout.
    pub fn new(config: ServerConfig, initial: &Model) -> Self {
        let store = ShardStore::new(config.layout.clone(), initial);
        let remote = remote_model(&config, &store);
        Self {
            id: config.id,
            store,
            local: LocalServer::new(config.id.dc, config.workers, config.local),
            handshake: Handshake::new(
                config.id,
                config.shards,
                config.layout.parameters(),
                config.plan_hash,
                config.links.keys().copied(),
            ),
            remote,
            traveling: config.remote.traveling(config.looks_at_copies).map(|traveling| {
                let data_centers = config.links.len() + 1;
                Traveling::new(config.id, traveling.due, data_centers, config.workers)
            }),
            guard: config.remote.guard().map(|guard| {
                let most = config.remote.tightness_max();
                Guard::new(guard, most)
            }),
            outliers: config
                .outliers
                .map(|limits| Outliers::new(limits, config.workers, config.layout.model())),
            drain: config.drain,
            draining: Draining::No,
            divergence: None,
            read_fraction: 0.0,
            outputs: VecDeque::new(),
            copy_ready: Clock::ZERO,
            buffers: Buffers::default(),
            stretches: Stretches::default(),
        }
    }

    /// Handles a message of a worker of this data center.
    ///
    /// # Panics
    /// If an update is of a clock that the worker has finished, or the message does not fit the shard
    /// ([`WorkerMessage::fits`]).
    pub fn handle_worker(&mut self, now: Instant, from: WorkerId, message: WorkerMessage) {
        match message {
            WorkerMessage::Read { clock, rows } => {
                let layout = self.store.layout();
                let parameters = layout.parameters().max(1);
                self.read_fraction = rows.parameters(layout) as f64 / parameters as f64;
                self.local.on_read(from, clock, rows);
            }
            WorkerMessage::Reset => self.local.forget_read(from),
            WorkerMessage::HandOver { deltas } => {
                self.stretches.on_update(false);
                self.local.forget_read(from);
                self.add(from, self.finished(from), &deltas);
            }
            WorkerMessage::Update { clock: _, at, deltas, probed, learning_rate_factor, keeps } => {
                self.stretches.on_update(keeps);
                self.local.on_learning_rate(from, learning_rate_factor);
                self.handle_update(now, from, at, &deltas, &probed);
            }
        }
        self.advance(now);
    }

    /// Handles a frame of a mirror, or an event of a link.
    ///
    /// # Errors
    /// If a mirror sent an invalid frame. No part of it was applied, and the run must end.
    pub fn handle_input(&mut self, now: Instant, input: ServerInput) -> Result<(), PeerError> {
        match input {
            ServerInput::Frame { from, lane, frame } => {
                self.handle_frame(now, from, lane, &frame)?;
                self.remote.forward(now, self.local.clock(), &self.store);
            }
            ServerInput::Drained { to, bytes, busy } => {
                self.remote.on_drained(to, bytes, busy);
                self.remote.forward(now, self.local.clock(), &self.store);
            }
            ServerInput::Disconnected { from } => {
                self.remote.on_disconnected(now, from, &self.store)?;
                self.remote.forward(now, self.local.clock(), &self.store);
            }
            ServerInput::First { from, incarnation } => {
                self.remote.on_first(from, incarnation, &self.store)?;
            }
            ServerInput::Reset { from, incarnation } => {
                self.remote.on_reset(from, incarnation, &self.store)?;
                self.handshake.repeat(from);
            }
            ServerInput::Left { from, incarnation } => {
                self.remote.on_left(from, incarnation, &self.store)?;
            }
        }

        self.advance(now);
        Ok(())
    }

    /// Begins an incarnation without a state: requests the copy of the mirror in `from`. The `inactive` data centers
    /// take no part. Reads are held back until the copy is received.
    ///
    /// # Errors
    /// If the synchronisation model, or this data center's position in the overlay, does not support it.
    pub fn handle_rebuild(
        &mut self,
        from: DcId,
        incarnation: u64,
        inactive: &BTreeSet<DcId>,
    ) -> Result<(), PeerError> {
        self.remote.begin_rebuild(from, incarnation, inactive, &mut self.store)
    }

    /// Whether a copy was requested and is not completely received.
    pub fn is_rebuilding(&self) -> bool {
        self.remote.is_rebuilding()
    }

    /// Whether the copy is complete. After a rebuild this includes the updates that mirrors had sent to the source of
    /// the copy only. Until then no other server of the shard may take this server's copy.
    pub fn is_whole(&self) -> bool {
        self.remote.is_whole()
    }

    /// The clock of the copy that a rebuild has received, until a clock is finished. A worker without a state begins at
    /// this clock.
    pub fn rebuilt_at(&self) -> Clock {
        self.remote.rebuilt_at()
    }

    /// Sets the clock of a worker after a rebuild.
    ///
    /// # Panics
    /// If the worker is not of this data center.
    pub fn place_worker(&mut self, now: Instant, worker: WorkerId, clock: Clock) {
        self.local.place(worker, clock);
        self.advance(now);
    }

    /// Releases all reads whose brake has reached its deadline, and closes the rounds whose grace is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        let waiting_since = self.waits_for_mirror_clocks_since();
        self.remote.handle_timeout(now, waiting_since, &mut self.store);
        self.advance(now);
    }

    /// Begins the drain once the workers have finished `clocks`, one for each worker of this data center. A worker that has
    /// finished more before this call has said a wrong clock, and nobody waits for it. At its end
    /// all copies are equal. The driver must call this in all data centers except those that are `inactive`.
    ///
    /// # Panics
    /// If it was called before.
    pub fn handle_drain(&mut self, now: Instant, clocks: Vec<Clock>, inactive: BTreeSet<DcId>) {
        assert!(self.draining == Draining::No, "a run is drained once");
        self.draining = Draining::AtClocks(clocks, inactive);
        self.advance(now);
    }

    /// The next action to carry out. `None` if there is none.
    pub fn poll_output(&mut self) -> Option<ServerOutput> {
        self.outputs.pop_front()
    }

    /// The next frame for a mirror, of at most about `room` bytes. `None` if nothing waits in the lane.
    ///
    /// Call it only when the link has room: updates that are not in a frame can still merge with later ones.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        to: DcId,
        lane: Lane,
        room: usize,
    ) -> Option<Bytes> {
        if lane == Lane::Control
            && let Some(hello) = self.handshake.next(to)
        {
            return Some(hello);
        }
        let room = room.min(ROOM_MAX);
        let frame = self.remote.poll_transmit(to, lane, room).or_else(|| {
            let traveling = self.traveling.as_mut().filter(|_| lane == Lane::Data)?;
            traveling.next_frame(to, room, || self.remote.next_sequence(to))
        });

        if frame.is_some() && self.draining == Draining::Yes {
            self.advance(now);
        }
        frame
    }

    /// The links for which [`Self::poll_transmit`] may return a frame that was not there when they were polled last, since
    /// the last call of this method. At first these are all links.
    pub fn take_links_to_poll(&mut self) -> LinksToPoll {
        let mut links = self.remote.take_links_to_poll();
        if let Some(traveling) = &self.traveling {
            links.extend(traveling.hosts());
        }
        links
    }

    /// How many rounds this process has begun, if other data centers receive nothing from this one but the changes that were taken
    /// for a round, and what follows from those of several data centers.
    pub fn rounds_begun(&self) -> Option<u64> {
        let has_others = self.traveling.is_some() || self.is_draining();
        if has_others { None } else { self.remote.rounds_begun() }
    }

    /// Whether updates wait for a mirror. [`Self::poll_transmit`] then returns a data frame, unless the updates have
    /// cancelled each other out.
    pub fn has_updates_for(&self, to: DcId) -> bool {
        self.remote.has_updates_for(to)
    }

    /// The time of the next timeout, at which the driver calls [`Self::handle_timeout`], and its reason.
    pub fn poll_timeout(&self) -> Option<(Instant, TimeoutReason)> {
        let announced_since = self.local.waits_for_announced_since();
        let of_mirrors =
            self.remote.poll_timeout(self.waits_for_mirror_clocks_since(), announced_since);
        let of_workers = self.local.grace_ends().map(|end| (end, TimeoutReason::Grace));
        of_mirrors.into_iter().chain(of_workers).min_by_key(|(end, _)| *end)
    }

    /// Whether a worker may still finish the clock that starts at `at`. Once the drain is ordered, a worker finishes no clock
    /// after the one at which it has said to have stopped: the copies of other data centers would not become equal to one
    /// that it changes.
    pub fn accepts_update(&self, worker: WorkerId, at: Clock) -> bool {
        match &self.draining {
            Draining::No => true,
            Draining::AtClocks(clocks, _) => {
                clocks.get(usize::from(worker.index)).is_some_and(|stopped| at < *stopped)
            }
            Draining::Yes | Draining::Done => false,
        }
    }

    /// Whether [`Self::handle_drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.draining != Draining::No
    }

    /// Whether the drain is complete: the copies of all data centers are equal, and do not change again.
    pub fn is_drained(&self) -> bool {
        self.draining == Draining::Done
    }

    /// The first [`ServerOutput::Diverged`]. A driver that restarts a server must report it again: the process before
    /// may have ended before it did.
    pub fn divergence(&self) -> Option<Divergence> {
        self.divergence
    }

    /// The clock of the last [`ServerOutput::CopyReady`].
    pub fn copy_ready(&self) -> Clock {
        self.copy_ready
    }

    /// The identifier of the server.
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// The number of clocks that all workers of this data center, or a quorum of them, have finished.
    pub fn clock(&self) -> Clock {
        self.local.clock()
    }

    /// The number of clocks that a worker of this data center has finished.
    ///
    /// # Panics
    /// If the worker is not of this data center.
    pub fn finished(&self, worker: WorkerId) -> Clock {
        self.local.clocks()[usize::from(worker.index)]
    }

    /// Whether a read of a worker is held back.
    pub fn holds_read_of(&self, worker: WorkerId) -> bool {
        self.local.holds_read_of(worker)
    }

    /// Whether workers of this data center can skip clocks that end without them: a clock ends once a quorum has finished
    /// it.
    pub fn skips_clocks(&self) -> bool {
        self.local.skips_clocks()
    }

    /// The values that are evaluated. For BSP, SSP and local steps these are the values that all data centers agree on,
    /// as far as this one has received them. For TAP and ASP they are this data center's copy.
    pub fn copy(&self) -> &[f32] {
        match self.remote.agreed() {
            Some(agreed) if self.draining != Draining::Done => agreed,
            _ => self.store.values(),
        }
    }

    /// The values that this data center's workers read: the copy, including their own latest updates.
    pub fn values(&self) -> &[f32] {
        self.store.values()
    }

    /// The layout of the shard.
    pub fn layout(&self) -> &ShardLayout {
        self.store.layout()
    }

    /// The reason why the first held read waits. `None` if no read is held back.
    pub fn waiting(&self) -> Option<WaitReason> {
        self.local.waiting()
    }

    /// The clock up to which the updates of a mirror were received. `None` if the model has no such clock, or the
    /// mirror is lost.
    pub fn mirror_clock(&self, of: DcId) -> Option<Clock> {
        self.remote.mirror_clock(of)
    }

    /// The clocks of a mirror that reads do not wait for, since it has missed them in a pause or while its link was dead.
    /// `u64::MAX` for a mirror that reads do not wait for at all. 0 if the model has no mirror clocks.
    pub fn excused_clocks(&self, of: DcId) -> u64 {
        self.remote.excused_clocks(of)
    }

    /// The mirrors that reads do not wait for, since they send frames and their clocks do not advance. They count again
    /// once their clocks do.
    pub fn stalled_mirrors(&self) -> BTreeSet<DcId> {
        self.remote.stalled_mirrors()
    }

    /// Whether this server counts on frames of a mirror: it is active, and not disconnected. A driver that receives nothing
    /// from it must then say so. Always `false` under BSP, SSP and local steps: they wait for the updates that they
    /// need, and make no use of such a report.
    pub fn may_receive_from(&self, from: DcId) -> bool {
        self.remote.may_receive_from(from)
    }

    /// The mirror whose updates are missing, while this server holds back all reads under a partial partition: the link
    /// between the two is dead, and a third data center exchanges updates with both. `None` otherwise.
    pub fn pauses_for(&self) -> Option<DcId> {
        self.remote.pauses_for()
    }

    /// The frames that were sent to a mirror.
    ///
    /// # Panics
    /// If `to` is not a mirror of this server.
    pub fn link_stats(&self, to: DcId) -> LinkStats {
        self.remote.stats(to)
    }

    /// How often deadlines of brakes have passed.
    pub fn brake_stats(&self) -> BrakeStats {
        self.remote.brakes()
    }

    /// The counters of this server's guard against skew. `None` if it has no guard.
    pub fn guard_stats(&self) -> Option<GuardStats> {
        let bytes = self.traveling.as_ref().map_or(0, Traveling::bytes);
        self.guard.as_ref().map(|guard| GuardStats { bytes, ..guard.stats() })
    }

    /// The updates above the limit, for each worker of the data center. Empty if updates have no limits.
    pub fn outlier_stats(&self) -> &[OutlierStats] {
        self.outliers.as_ref().map_or(&[], Outliers::stats)
    }

    /// The tightness that this server applies.
    pub fn tightness(&self) -> Tightness {
        self.remote.tightness()
    }

    /// The residual of the link to a mirror, per parameter. Zeros if the model has no filter.
    pub fn residual(&self, to: DcId) -> Vec<f32> {
        self.remote.residual(to, 0..self.store.values().len())
    }

    /// The sequence numbers of the last frames of each link.
    pub fn watermarks(&self) -> Vec<Watermark> {
        self.remote.watermarks()
    }

    /// Applies a worker's changes of the iteration that started at clock `at`, and passes on its measurements.
    fn handle_update(
        &mut self,
        now: Instant,
        from: WorkerId,
        at: Clock,
        deltas: &ShardDeltas,
        probed: &[Probed],
    ) {
        self.add(from, at, deltas);
        self.local.on_update(from, at);
        self.finish_clocks(now);

        for probed in probed {
            self.handle_probed(from, probed);
        }
    }

    /// Passes a worker's measurement of a copy to the guard, or to whoever looks at copies. One that the worker was not asked
    /// for, or has sent before, counts for nothing.
    fn handle_probed(&mut self, from: WorkerId, probed: &Probed) {
        let is_answer = |traveling: &mut Traveling| traveling.is_answer(from.index, probed);
        if !self.traveling.as_mut().is_some_and(is_answer) {
            return;
        }
        match &mut self.guard {
            Some(guard) => self.remote.wish(guard.on_probed(probed)),
            // All servers of the data center are told the same.
            None if self.id.shard.0 == 0 => self.outputs.push_back(ServerOutput::Probed(*probed)),
            None => {}
        }
    }

    /// Ends the clocks that enough workers have finished. With a quorum several can end at once, and each only after the
    /// remote model lets this data center begin it.
    fn finish_clocks(&mut self, now: Instant) {
        while self.local.is_next_due(now)
            && (!self.local.skips_clocks() || self.remote.may_finish(self.local.clock()))
        {
            let finished = self.local.finish_next();
            let facts = ClockFacts {
                clocks: self.stretches.take_clocks(),
                read_fraction: self.read_fraction,
                learning_rate_factor: self.local.learning_rate_factor(),
            };
            self.remote.on_clock(now, finished, &mut self.store, facts);
            self.outputs.push_back(ServerOutput::ClockFinished { clock: finished });
        }
    }

    /// Adds a worker's changes to the copy, within the limits. Adds none if they show that training has diverged.
    fn add(&mut self, from: WorkerId, at: Clock, deltas: &ShardDeltas) {
        if let Some(divergence) = Divergence::find(from, at, deltas, self.store.layout()) {
            self.divergence.get_or_insert(divergence);
            self.outputs.push_back(ServerOutput::Diverged(divergence));
            return;
        }
        let admitted = match &mut self.outliers {
            Some(outliers) => outliers.admit(from, deltas),
            None => Some(Cow::Borrowed(deltas)),
        };
        let Some(deltas) = admitted else { return };

        let (remote, joined) = (&mut self.remote, self.local.joins(at));
        self.store.add(&deltas, |place, change, values| {
            remote.on_change(joined, place, change, values);
        });
    }

    /// Carries out what the last event has made possible: the end of clocks, reads, the output of a ready copy, the drain
    /// and its end.
    fn advance(&mut self, now: Instant) {
        self.finish_clocks(now);
        self.answer_reads(now);

        let ready = self.remote.copy_clock(self.local.clock());
        if ready > self.copy_ready {
            self.copy_ready = ready;
            self.outputs.push_back(ServerOutput::CopyReady { clock: ready });
        }

        self.advance_drain();
    }

    /// Answers the reads that are not held back. A copy that travels is taken at a read.
    fn answer_reads(&mut self, now: Instant) {
        let (remote, store) = (&self.remote, &mut self.store);
        let is_shared =
            self.local.clocks().len() > 1 || self.traveling.is_some() || self.outliers.is_some();
        let gate = |clock, rows: &_, waited| remote.gate(clock, rows, waited, store);
        for read in self.local.admit(now, gate) {
            if let Some(guard) = &mut self.guard {
                guard.on_read(read.at, remote.tightness());
            }
            let probes = self.traveling.as_mut().map_or_else(Vec::new, |traveling| {
                if traveling.is_due(read.at) && remote.is_loosest_at(read.at) {
                    traveling.take(read.at, store.values());
                }
                traveling.requests(read.worker.index, store.values())
            });

            // Other workers and copies that travel need the changes of each iteration, and limits apply to each.
            let found = if is_shared { None } else { remote.stretch() };
            let values = if self.stretches.answers_without_values(found) {
                SharedValues::default()
            } else {
                store.read(&read.rows)
            };
            let (clock, at, held) = (read.clock, read.at, read.held);
            let (keeps, stretch) =
                (self.stretches.worker_keeps(), found.map(|found| found.stretch));
            let message = RowsRead { clock, at, values, held, probes, keeps, stretch };
            self.outputs.push_back(ServerOutput::ToWorker { worker: read.worker, message });
        }
    }

    /// Begins the drain once the workers are at the requested clocks and keep no changes, and ends it once the model is
    /// drained. Workers that stopped in their first iteration are at their clocks before a lost copy is received again.
    fn advance_drain(&mut self) {
        if let Draining::AtClocks(clocks, inactive) = &self.draining
            && self.local.have_reached(clocks)
            && !self.local.is_next_awaited()
            && !self.is_rebuilding()
            && !self.stretches.worker_keeps()
        {
            if let Some(traveling) = &mut self.traveling {
                traveling.close();
            }
            self.remote.begin_drain(self.drain, inactive, &mut self.store);
            self.draining = Draining::Yes;
        }

        if self.draining == Draining::Yes && self.remote.is_drained(self.local.clock()) {
            self.draining = Draining::Done;
            self.remote.end_drain(&mut self.store);
            self.outputs.push_back(ServerOutput::Drained);
        }
    }

    fn waits_for_mirror_clocks_since(&self) -> Option<Instant> {
        self.local.waits_since(|reason| matches!(reason, WaitReason::MirrorClock { .. }))
    }
}

persist! {
    impl Persist<()> for Server {
        fn walk(
            Self {
                id: _,
                store,
                local,
                handshake,
                remote,
                traveling,
                guard,
                outliers,
                drain: _,
                draining,
                divergence,
                read_fraction,
                outputs,
                copy_ready,
                buffers: _,
                stretches: _,
            },
            walk,
            (),
        ) {
            assert!(outputs.is_empty(), "a state is whole once outputs are polled");
            walk.flatten(store, ())?;
            let layout = store.layout();
            walk.part("local", local, layout)?;
            walk.flatten(handshake, ())?;
            walk.part("remote", remote, layout)?;
            if let Some(traveling) = traveling {
                walk.part("traveling", traveling, layout.parameters())?;
            }
            if let Some(guard) = guard {
                walk.part("guard", guard, ())?;
            }
            if let Some(outliers) = outliers {
                walk.part("outliers", outliers, ())?;
            }
            walk.record("draining", draining)?;
            walk.record("divergence", divergence)?;
            walk.record("read_fraction", read_fraction)?;
            walk.record("copy_ready", copy_ready)
        }
    }
}

/// The largest room for which a frame is cut, so that no frame exceeds its limit.
const ROOM_MAX: usize = BULK_FRAME_BYTES_MAX / 4;
