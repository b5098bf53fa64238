//! A parameter server: conducts its faces, owns no arithmetic.
//!
//! To its workers it is the *local server*; to other data centers it is what its remote model makes of it. With ASP and
//! TAP that is a *mirror client*, out to them, and a *mirror server*, in from them (Hsieh et al., NSDI 2017); with BSP and
//! SSP an *exchange* of whole clocks; with local steps *rounds*.
//!
//! The room decides the order in which these react: a message comes in, one face reacts, and what that opens goes out. It
//! refuses to know which remote model runs: that is `remote/`, where each model has a folder and a line. What several
//! models and the guard share about blocks of a shard is in `blocks/`.

mod blocks;
mod config;
mod divergence;
mod error;
mod frames;
mod guard;
mod handshake;
mod local_server;
mod remote;
mod stats;

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::codec::Buffers;
use crate::node::{Lane, Probed, RowsRead, ServerInput, WorkerMessage};
use crate::store::{ShardDeltas, ShardStore};
use crate::sync::WaitReason;
use crate::types::limits::BULK_FRAME_BYTES_MAX;
use crate::types::{
    Clock, DcId, Instant, Model, ServerId, ShardLayout, StateError, Tightness, Walk, WorkerId,
};

pub use blocks::DrainMethod;
pub use config::{LinkFacts, LongestWay, Schedule, ServerConfig};
pub use divergence::Divergence;
pub use error::PeerError;
pub use guard::GuardStats;
pub use stats::{BrakeStats, LinkStats, Watermark};

use guard::Guard;
use handshake::Handshake;
use local_server::LocalServer;
use remote::{RemoteModel, remote_model};

/// What a server wants done.
#[derive(Clone, Debug)]
pub enum ServerOutput {
    ToWorker {
        worker: WorkerId,
        message: RowsRead,
    },
    /// The data center's workers have all finished these clocks.
    ClockFinished {
        clock: Clock,
    },
    /// The copy holds every data center's updates up to this clock (BSP, SSP), or this one's (TAP, ASP), or what was
    /// agreed by then (local steps).
    CopyReady {
        clock: Clock,
    },
    /// The copy equals every other data center's, for good.
    Drained,
    /// A worker's update was refused: training has diverged, and the run is to end. The worker's clock counts as finished,
    /// so that nobody waits for it meanwhile.
    Diverged(Divergence),
}

/// Why a server wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReason {
    /// A brake's deadline: announced parameters or a silent mirror.
    BrakeDeadline,
}

/// One parameter server.
///
/// Methods are of three kinds: `handle_*` takes what arrives, `poll_*` gives what is to be done, the rest asks.
#[derive(Debug)]
pub struct Server {
    id: ServerId,
    store: ShardStore,
    local: LocalServer,
    handshake: Handshake,
    remote: Box<dyn RemoteModel>,
    guard: Option<Guard>,
    drain: DrainMethod,
    draining: Draining,
    /// The part of the shard that the latest read asked for, 0 to 1.
    read_fraction: f64,
    outputs: VecDeque<ServerOutput>,
    copy_ready: Clock,
    buffers: Buffers,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Draining {
    No,
    /// Asked for, once the workers are at these clocks, of all data centers but these.
    AtClocks(Vec<Clock>, BTreeSet<DcId>),
    Yes,
    Done,
}

impl Server {
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
            guard: config.remote.guard().map(|guard| {
                let most = config.remote.tightness_max();
                Guard::new(config.id, guard, config.links.len() + 1, config.workers, most)
            }),
            drain: config.drain,
            draining: Draining::No,
            read_fraction: 0.0,
            outputs: VecDeque::new(),
            copy_ready: Clock::ZERO,
            buffers: Buffers::default(),
        }
    }

    /// Takes a message from a worker of this data center.
    pub fn handle_worker(&mut self, now: Instant, from: WorkerId, message: WorkerMessage) {
        match message {
            WorkerMessage::Read { clock, rows } => {
                let layout = self.store.layout();
                let parameters = layout.parameters().max(1);
                self.read_fraction = rows.parameters(layout) as f64 / parameters as f64;
                self.local.on_read(from, clock, rows);
            }
            WorkerMessage::Reset => self.local.forget_read(from),
            WorkerMessage::Update { clock, deltas, probed } => {
                self.handle_update(now, from, clock, &deltas, &probed);
            }
        }
        self.advance(now);
    }

    /// Takes a frame from a mirror, or news of a link.
    ///
    /// # Errors
    /// Where a mirror sent what it must not. Nothing of the frame was applied, and the run cannot go on.
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
                self.remote.on_disconnected(now, from)?;
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

    /// Begins an incarnation of this number with nothing but a mirror's copy, which is asked for, and these data centers taking no
    /// part. Until the copy has come, nothing is read.
    ///
    /// # Errors
    /// Where the synchronisation model, or this place in the overlay, does not allow it.
    pub fn handle_rebuild(
        &mut self,
        from: DcId,
        incarnation: u64,
        inactive: &BTreeSet<DcId>,
    ) -> Result<(), PeerError> {
        self.remote.begin_rebuild(from, incarnation, inactive, &mut self.store)
    }

    /// Whether the copy has been asked for, and not all of it has come.
    pub fn is_rebuilding(&self) -> bool {
        self.remote.is_rebuilding()
    }

    /// Whether nothing of a copy that was asked for is still to come: neither of itself, nor what mirrors had sent to its
    /// source alone. Until then no other server of the shard is to take a copy.
    pub fn is_whole(&self) -> bool {
        self.remote.is_whole()
    }

    /// After a rebuild, until a clock is finished: the clock of the copy that has come. A worker that knows of none
    /// begins there.
    pub fn rebuilt_at(&self) -> Clock {
        self.remote.rebuilt_at()
    }

    /// After a rebuild: a worker is at this clock.
    ///
    /// # Panics
    /// Where it is no worker of this data center.
    pub fn place_worker(&mut self, now: Instant, worker: WorkerId, clock: Clock) {
        self.local.place(worker, clock);
        self.advance(now);
    }

    /// Lets pass whatever has waited until its deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        let waiting_since = self.waits_for_mirror_clocks_since();
        self.remote.handle_timeout(now, waiting_since, &self.store);
        self.advance(now);
    }

    /// Makes all copies equal, once every worker has finished the clock it stopped at. Every data center must be
    /// told, but for those that are `inactive`: they take no part.
    pub fn handle_drain(&mut self, now: Instant, clocks: Vec<Clock>, inactive: BTreeSet<DcId>) {
        assert!(self.draining == Draining::No, "a run is drained once");
        self.draining = Draining::AtClocks(clocks, inactive);
        self.advance(now);
    }

    /// The next message or event, until there is none.
    pub fn poll_output(&mut self) -> Option<ServerOutput> {
        self.outputs.pop_front()
    }

    /// The next frame for a mirror, of about `room` bytes at most.
    ///
    /// Ask only when the link has room: what has not left can still be improved.
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
            let guard = self.guard.as_mut().filter(|_| lane == Lane::Data)?;
            guard.next_frame(to, room, || self.remote.next_sequence(to))
        });

        if frame.is_some() && self.draining == Draining::Yes {
            self.advance(now);
        }
        frame
    }

    /// Whether updates wait for a mirror. Asked for a data frame it gives one, or finds that they have come to nothing
    /// and goes on from that.
    pub fn has_updates_for(&self, to: DcId) -> bool {
        self.remote.has_updates_for(to)
    }

    /// When and why this server wants [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<(Instant, TimeoutReason)> {
        let at = self.remote.poll_timeout(self.waits_for_mirror_clocks_since())?;
        Some((at, TimeoutReason::BrakeDeadline))
    }

    /// Whether it has been told to make copies equal.
    pub fn is_draining(&self) -> bool {
        self.draining != Draining::No
    }

    /// Whether its copy equals every other data center's, for good.
    pub fn is_drained(&self) -> bool {
        self.draining == Draining::Done
    }

    /// The clock up to which its copy is ready, as [`ServerOutput::CopyReady`] last said.
    pub fn copy_ready(&self) -> Clock {
        self.copy_ready
    }

    pub fn id(&self) -> ServerId {
        self.id
    }

    /// Clocks that all workers of this data center have finished.
    pub fn clock(&self) -> Clock {
        self.local.clock()
    }

    /// Clocks that a worker of this data center has finished.
    pub fn finished(&self, worker: WorkerId) -> Clock {
        self.local.clocks()[usize::from(worker.index)]
    }

    /// The values that the model's quality is judged by: for BSP, SSP and local steps what all data centers agree on,
    /// as far as this one has heard, for TAP and ASP this data center's copy.
    pub fn copy(&self) -> &[f32] {
        match self.remote.agreed() {
            Some(agreed) if self.draining != Draining::Done => agreed,
            _ => self.store.values(),
        }
    }

    /// What this data center's workers read: the copy with their own latest updates.
    pub fn values(&self) -> &[f32] {
        self.store.values()
    }

    pub fn layout(&self) -> &ShardLayout {
        self.store.layout()
    }

    /// What the first of the reads that are held back waits for.
    pub fn waiting(&self) -> Option<WaitReason> {
        self.local.waiting()
    }

    /// Up to which clock a mirror's share has come, where the model says; `None` where it does not, or the mirror is lost.
    pub fn mirror_clock(&self, of: DcId) -> Option<Clock> {
        self.remote.mirror_clock(of)
    }

    /// Whether this server takes it that something may come from a mirror, so that a driver which has no connection to
    /// it should say so. BSP, SSP and local steps wait for what they need, and never want to be told.
    pub fn may_hear(&self, from: DcId) -> bool {
        self.remote.may_hear(from)
    }

    /// The mirror whose updates this server misses, where it holds back all reads for that: no updates pass between the two,
    /// and a third data center exchanges updates with both.
    pub fn pauses_for(&self) -> Option<DcId> {
        self.remote.pauses_for()
    }

    pub fn link_stats(&self, to: DcId) -> LinkStats {
        self.remote.stats(to)
    }

    pub fn brake_stats(&self) -> BrakeStats {
        self.remote.brakes()
    }

    /// What this server's guard against skew has done, where there is one.
    pub fn guard_stats(&self) -> Option<GuardStats> {
        self.guard.as_ref().map(Guard::stats)
    }

    /// How much tighter than its settings this server keeps copies together.
    pub fn tightness(&self) -> Tightness {
        self.remote.tightness()
    }

    /// What the link to a mirror has not carried, per parameter; zeros where nothing is filtered.
    pub fn residual(&self, to: DcId) -> Vec<f32> {
        self.remote.residual(to, 0..self.store.values().len())
    }

    /// Walks over what changes as time goes on, once all outputs are polled.
    pub fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        assert!(self.outputs.is_empty(), "a state is whole once outputs are polled");
        self.store.state(walk)?;
        let layout = self.store.layout();
        self.local.state(&mut walk.at("local"), layout)?;
        self.handshake.state(walk)?;
        self.remote.state(&mut walk.at("remote"), layout)?;
        if let Some(guard) = &mut self.guard {
            guard.state(&mut walk.at("guard"), layout.parameters())?;
        }
        walk.record("draining", &mut self.draining)?;
        walk.record("read_fraction", &mut self.read_fraction)?;
        walk.record("copy_ready", &mut self.copy_ready)
    }

    /// How far the frames of each link have come.
    pub fn watermarks(&self) -> Vec<Watermark> {
        self.remote.watermarks()
    }

    /// Takes what a worker changed in the iteration that started at `clock`, and what it measured for the guard.
    fn handle_update(
        &mut self,
        now: Instant,
        from: WorkerId,
        clock: Clock,
        deltas: &ShardDeltas,
        probed: &[Probed],
    ) {
        if let Some(divergence) = Divergence::find(from, clock, deltas) {
            self.outputs.push_back(ServerOutput::Diverged(divergence));
        } else {
            let remote = &mut self.remote;
            self.store.add(deltas, |place, change, values| {
                remote.on_change(clock, place, change, values);
            });
        }

        if let Some(finished) = self.local.on_update(from, clock) {
            self.remote.on_clock(now, finished, &mut self.store, self.read_fraction);
            self.outputs.push_back(ServerOutput::ClockFinished { clock: finished });
        }

        if let Some(guard) = &mut self.guard {
            for probed in probed {
                self.remote.wish(guard.on_probed(probed));
            }
        }
    }

    /// Lets go what the last event has opened: reads, the news of a copy that is ready, the drain and its end.
    fn advance(&mut self, now: Instant) {
        self.answer_reads(now);

        let ready = self.remote.copy_clock(self.local.clock());
        if ready > self.copy_ready {
            self.copy_ready = ready;
            self.outputs.push_back(ServerOutput::CopyReady { clock: ready });
        }

        self.advance_drain();
    }

    /// Answers the reads that may go. A copy for the guard is taken as it is read.
    fn answer_reads(&mut self, now: Instant) {
        let (remote, store) = (&self.remote, &self.store);
        for read in self.local.admit(now, |clock, rows| remote.gate(clock, rows, store)) {
            let probes = self.guard.as_mut().map_or_else(Vec::new, |guard| {
                guard.on_read(read.clock, remote.tightness());
                if guard.is_due(read.clock) && remote.is_loosest_at(read.clock) {
                    guard.take(read.clock, store.values());
                }
                guard.requests(read.worker.index, store.values())
            });

            let (clock, held) = (read.clock, read.held);
            let message = RowsRead { clock, values: store.read(&read.rows), held, probes };
            self.outputs.push_back(ServerOutput::ToWorker { worker: read.worker, message });
        }
    }

    /// Begins the drain once the workers are at the clocks it was asked for at, and ends it once the model says so.
    fn advance_drain(&mut self) {
        if let Draining::AtClocks(clocks, inactive) = &self.draining
            && clocks == self.local.clocks()
        {
            if let Some(guard) = &mut self.guard {
                guard.close();
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

/// No frame is cut longer than about this, however much room there is, so that none breaks the limit.
const ROOM_MAX: usize = BULK_FRAME_BYTES_MAX / 4;
