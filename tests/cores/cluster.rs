//! A few parameter servers, stepped by a test, so that a guarantee can be tested in the situation that could break it.
//!
//! One server per data center, in virtual time, over lanes that deliver a frame only on request: a frame can be
//! held for as long as a test likes and overtaken by the other lane, but never leaves the order of its own. The
//! model is one of small integers, so that sums of `f32` are exact and an invariant can be checked to the bit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gaia_core::codec::{Buffers, Changes};
use gaia_core::node::{Lane, ProbeRequest, Probed, RowsRead, ServerInput, WorkerMessage};
use gaia_core::server::{
    Blocks, Divergence, DrainMethod, ExchangeRoute, LinkFacts, LongestWay, PeerError, Schedule,
    Server, ServerConfig, ServerOutput,
};
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::sync::{LocalSync, OutlierConfig, RemoteSync};
use gaia_core::topology::first_hops;
use gaia_core::types::{
    Bandwidth, Clock, DcId, Deltas, Instant, Model, ModelLayout, RowSet, ServerId, ShardId,
    ShardLayout, TableDeltas, TableId, TableLayout, TableRows, WorkerId,
};
use gaia_core::wire::{BulkKind, decode_bulk, is_control};

/// What a cluster is made of. Every row has one parameter.
#[derive(Clone, Debug)]
pub struct Setup {
    pub data_centers: usize,
    pub workers: usize,
    /// What servers are told of their number in a data center, of which the cluster has the first.
    pub servers: usize,
    pub parameters: usize,
    /// What every parameter starts from.
    pub initial: f32,
    /// Whether workers add initial values.
    pub is_initialized_by_workers: bool,
    pub local: LocalSync,
    pub remote: RemoteSync,
    /// The limits on workers' updates.
    pub outliers: Option<OutlierConfig>,
    pub drain: DrainMethod,
    /// Whether copies travel without a guard.
    pub looks_at_copies: bool,
    /// The way of BSP's changes.
    pub route: ExchangeRoute,
    /// The share of each data center's block; equal where empty.
    pub shares: Vec<u64>,
    /// The configured properties of each link.
    pub bandwidth: Bandwidth,
    pub rtt: Duration,
    /// The application's.
    pub momentum: f64,
    pub deltas_are_shares: bool,
    /// Who sends to whom; everyone to everyone where empty.
    pub cliques: Vec<Vec<u16>>,
    /// Who has yet to join.
    pub inactive: BTreeSet<DcId>,
}

pub struct Cluster {
    pub now: Instant,
    pub servers: Vec<Server>,
    /// Frames on their way, by link and lane.
    pub lanes: BTreeMap<(DcId, DcId, Lane), VecDeque<Bytes>>,
    /// The sum of what each data center's workers changed.
    pub sources: Vec<Vec<f32>>,
    /// The sum of the updates that each link took, and of those that it delivered.
    pub sent: BTreeMap<(DcId, DcId), Vec<f32>>,
    pub delivered: BTreeMap<(DcId, DcId), Vec<f32>>,
    /// Every clock that a copy came to hold, with the copy at that moment.
    pub copies: Vec<(DcId, Clock, Vec<f32>)>,
    pub drained: usize,
    /// What servers have refused as diverged.
    pub diverged: Vec<Divergence>,
    /// What workers find that a copy loses away from home.
    pub lost: f64,
    /// The copies that they were asked to measure, and at which data center.
    pub probes: Vec<(DcId, ProbeRequest)>,
    /// What servers have passed on of their measurements.
    pub probed: Vec<(DcId, Probed)>,
    setup: Setup,
    layout: ShardLayout,
    workers: BTreeMap<WorkerId, ManualWorker>,
}

/// A worker that a test steps.
#[derive(Clone, Debug, Default)]
struct ManualWorker {
    clock: Clock,
    asked: bool,
    reply: Option<RowsRead>,
}

impl Setup {
    pub fn new(remote: RemoteSync) -> Self {
        Self {
            data_centers: 3,
            workers: 1,
            servers: 1,
            parameters: 8,
            initial: 0.0,
            is_initialized_by_workers: false,
            local: LocalSync::BSP,
            outliers: None,
            remote,
            drain: DrainMethod::Mean,
            looks_at_copies: false,
            route: ExchangeRoute::Homes,
            shares: Vec::new(),
            bandwidth: Bandwidth::from_mbit(100.0),
            rtt: Duration::from_millis(100),
            momentum: 0.0,
            deltas_are_shares: false,
            cliques: Vec::new(),
            inactive: BTreeSet::new(),
        }
    }

    /// The neighbours of a data center, clique by clique.
    pub fn neighbours(&self, of: DcId) -> Vec<Vec<DcId>> {
        let cliques = self.all_cliques();
        let own = cliques.iter().filter(|clique| clique.contains(&of) || self.cliques.is_empty());
        own.map(|clique| clique.iter().copied().filter(|dc| *dc != of).collect()).collect()
    }

    fn all_cliques(&self) -> Vec<Vec<DcId>> {
        if self.cliques.is_empty() {
            return vec![self.dcs().collect()];
        }
        self.cliques.iter().map(|clique| clique.iter().map(|dc| DcId(*dc)).collect()).collect()
    }

    pub fn layout(&self) -> ShardLayout {
        let table = TableLayout { name: "integers".into(), rows: self.parameters, width: 1 };
        let model = ModelLayout::new(vec![table]);
        let initialized = self.is_initialized_by_workers.then_some(TableId(0));
        let model = Arc::new(model.with_initialized_by_workers(initialized));
        ShardLayout::new(model, ShardId(0), 1)
    }

    pub fn server(&self, dc: DcId) -> Server {
        let layout = self.layout();
        let mut initial = Model::zeros(layout.model().clone());
        initial.values.fill(self.initial);
        let facts = LinkFacts { bandwidth: self.bandwidth, rtt: self.rtt };
        let config = ServerConfig {
            id: ServerId { dc, shard: ShardId(0) },
            workers: self.workers,
            all_workers: vec![self.workers; self.data_centers],
            shards: self.servers,
            local: self.local,
            remote: self.remote.clone(),
            outliers: self.outliers,
            layout,
            links: self.dcs().filter(|to| *to != dc).map(|to| (to, facts)).collect(),
            neighbours: self.neighbours(dc),
            first_hops: first_hops(&self.all_cliques(), dc),
            way: LongestWay { rtt: facts.rtt, hops: self.cliques.len().max(1) as u64 },
            schedule: Arc::new(Schedule {
                learning_rate_factor: Box::new(|_| 1.0),
                clocks_per_pass: 1,
                momentum: self.momentum,
            }),
            significance: None,
            route: self.route.clone(),
            blocks: self.blocks(),
            looks_at_copies: self.looks_at_copies,
            drain: self.drain,
            deltas_are_shares: self.deltas_are_shares,
            inactive: self.inactive.clone(),
            give_up_after: GIVE_UP_AFTER,
            plan_hash: 7,
        };
        Server::new(config, &initial)
    }

    fn blocks(&self) -> Blocks {
        match self.shares.as_slice() {
            [] => Blocks::equal(self.data_centers),
            shares => Blocks::weighted(shares[..self.data_centers].iter().copied()),
        }
    }

    fn dcs(&self) -> impl Iterator<Item = DcId> + use<> {
        (0..self.data_centers as u16).map(DcId)
    }
}

impl Cluster {
    pub fn new(setup: &Setup) -> Self {
        let pairs: Vec<(DcId, DcId)> = setup
            .dcs()
            .flat_map(|from| setup.dcs().map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        let nothing: BTreeMap<_, _> =
            pairs.iter().map(|pair| (*pair, vec![0.0; setup.parameters])).collect();
        let workers = setup.dcs().flat_map(|dc| {
            (0..setup.workers as u16)
                .map(move |index| (WorkerId { dc, index }, ManualWorker::default()))
        });
        let mut cluster = Self {
            now: Instant::ZERO,
            servers: setup.dcs().map(|dc| setup.server(dc)).collect(),
            lanes: BTreeMap::new(),
            sources: vec![vec![0.0; setup.parameters]; setup.data_centers],
            sent: nothing.clone(),
            delivered: nothing,
            copies: Vec::new(),
            drained: 0,
            diverged: Vec::new(),
            lost: 0.0,
            probes: Vec::new(),
            probed: Vec::new(),
            layout: setup.layout(),
            workers: workers.collect(),
            setup: setup.clone(),
        };
        for (from, to) in pairs {
            let frame = cluster.first_hello(from, to);
            cluster.give(from.0, to.0, Lane::Control, frame).expect("mirrors run the same plan");
        }
        cluster
    }

    /// The first frame of a control lane.
    fn first_hello(&mut self, from: DcId, to: DcId) -> Bytes {
        let server = &mut self.servers[from.index()];
        let frame = server.poll_transmit(self.now, to, Lane::Control, usize::MAX);
        frame.expect("a server says hello first")
    }

    pub fn dcs(&self) -> impl Iterator<Item = DcId> + use<> {
        self.setup.dcs()
    }

    pub fn pairs(&self) -> Vec<(DcId, DcId)> {
        self.sent.keys().copied().collect()
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// A data center's only worker asks for rows, all of them where none are listed.
    pub fn ask(&mut self, dc: u16, rows: &[u32]) {
        self.ask_as(WorkerId { dc: DcId(dc), index: 0 }, rows);
    }

    pub fn ask_as(&mut self, worker: WorkerId, rows: &[u32]) {
        let rows = match rows {
            [] => TableRows::All,
            rows => TableRows::listed(rows.to_vec()),
        };
        let rows = ShardRows::of(&RowSet { tables: vec![rows] }, &self.layout);
        let state = self.workers.get_mut(&worker).unwrap();
        assert!(!state.asked, "{worker} waits for its last read");
        state.asked = true;
        let message = WorkerMessage::Read { clock: state.clock, rows };
        self.servers[worker.dc.index()].handle_worker(self.now, worker, message);
        self.collect(worker.dc);
    }

    /// What a data center's only worker has read, if it waits no longer.
    pub fn answer(&self, dc: u16) -> Option<&[f32]> {
        self.answer_to(WorkerId { dc: DcId(dc), index: 0 }).map(|reply| &reply.values[..])
    }

    pub fn answer_to(&self, worker: WorkerId) -> Option<&RowsRead> {
        self.workers[&worker].reply.as_ref()
    }

    pub fn has_asked(&self, worker: WorkerId) -> bool {
        self.workers[&worker].asked
    }

    pub fn clock_of(&self, worker: WorkerId) -> Clock {
        self.workers[&worker].clock
    }

    /// A worker that has its rows changes some parameters, by ascending number, and finishes the clock.
    pub fn finish(&mut self, dc: u16, changes: &[(u32, f32)]) {
        self.finish_as(WorkerId { dc: DcId(dc), index: 0 }, changes);
    }

    pub fn finish_as(&mut self, worker: WorkerId, changes: &[(u32, f32)]) {
        let state = self.workers.get_mut(&worker).unwrap();
        let reply = state.reply.take().expect("a worker computes on what it has read");
        state.asked = false;
        let (clock, at) = (state.clock, reply.at);
        state.clock = at.next();
        for (parameter, change) in changes {
            self.sources[worker.dc.index()][*parameter as usize] += change;
        }
        let deltas = self.split(changes);
        let measure = |probe: &ProbeRequest| Probed {
            of: probe.of,
            clock: probe.clock,
            away: self.lost,
            home: 0.0,
            untrained: 1.0,
        };
        let probed = reply.probes.iter().map(measure).collect();
        self.probes.extend(reply.probes.into_iter().map(|probe| (worker.dc, probe)));
        self.say_finished(worker, (clock, at), deltas, probed, false);
    }

    /// A worker that has its rows runs no iteration, and finishes the clocks before those of its values.
    pub fn finish_clocks_as(&mut self, worker: WorkerId) {
        let state = self.workers.get_mut(&worker).unwrap();
        let reply = state.reply.take().expect("a worker has read");
        let clocks = (state.clock, Clock(reply.at.0 - 1));
        (state.asked, state.clock) = (false, reply.at);
        let deltas = self.split(&[]);
        self.say_finished(worker, clocks, deltas, Vec::new(), false);
    }

    /// As [`Self::step_as`], of a worker that stops at a clock.
    pub fn stop_step_as(&mut self, worker: WorkerId, last: Clock, changes: &[(u32, f32)]) {
        if !self.workers[&worker].asked {
            self.ask_as(worker, &[]);
        }
        match self.workers[&worker].reply.as_ref().map(|reply| reply.at) {
            Some(at) if at >= last => self.finish_clocks_as(worker),
            Some(_) => self.finish_as(worker, changes),
            None => {}
        }
    }

    /// A data center's only worker finishes a clock, and keeps what it has changed.
    pub fn finish_keeping(&mut self, dc: u16) {
        let worker = WorkerId { dc: DcId(dc), index: 0 };
        let state = self.workers.get_mut(&worker).unwrap();
        state.reply.take().expect("a worker computes on what it has read");
        let clock = state.clock;
        (state.asked, state.clock) = (false, clock.next());
        let deltas = self.split(&[]);
        self.say_finished(worker, (clock, clock), deltas, Vec::new(), true);
    }

    /// A worker says that it has finished the second clock, on what it has read at the first.
    fn say_finished(
        &mut self,
        worker: WorkerId,
        (clock, at): (Clock, Clock),
        deltas: ShardDeltas,
        probed: Vec<Probed>,
        keeps: bool,
    ) {
        let learning_rate_factor = None;
        let message =
            WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps };
        self.servers[worker.dc.index()].handle_worker(self.now, worker, message);
        self.collect(worker.dc);
    }

    /// A data center's only worker hands over what it has kept, and gives up its read.
    pub fn hand_over(&mut self, dc: u16, changes: &[(u32, f32)]) {
        let worker = WorkerId { dc: DcId(dc), index: 0 };
        let state = self.workers.get_mut(&worker).unwrap();
        (state.asked, state.reply) = (false, None);
        let message = WorkerMessage::HandOver { deltas: self.split(changes) };
        self.servers[worker.dc.index()].handle_worker(self.now, worker, message);
        self.collect(worker.dc);
    }

    fn split(&self, changes: &[(u32, f32)]) -> ShardDeltas {
        let (rows, values) = changes.iter().copied().unzip();
        let deltas = Deltas { tables: vec![TableDeltas::listed(rows, values)] };
        ShardDeltas::split(deltas, std::slice::from_ref(&self.layout)).remove(0)
    }

    /// Reads everything and finishes a clock, unless the read is held back; says whether it did.
    pub fn step(&mut self, dc: u16, changes: &[(u32, f32)]) -> bool {
        self.step_as(WorkerId { dc: DcId(dc), index: 0 }, changes)
    }

    pub fn step_as(&mut self, worker: WorkerId, changes: &[(u32, f32)]) -> bool {
        if !self.workers[&worker].asked {
            self.ask_as(worker, &[]);
        }
        let answered = self.workers[&worker].reply.is_some();
        if answered {
            self.finish_as(worker, changes);
        }
        answered
    }

    /// Lets one frame of about `room` bytes onto a lane; says whether there was one.
    pub fn send(&mut self, from: u16, to: u16, lane: Lane, room: usize) -> bool {
        let (from, to) = (DcId(from), DcId(to));
        let server = &mut self.servers[from.index()];
        let Some(frame) = server.poll_transmit(self.now, to, lane, room) else { return false };
        if lane == Lane::Data {
            add_updates(&frame, self.sent.get_mut(&(from, to)).unwrap());
        }
        self.lanes.entry((from, to, lane)).or_default().push_back(frame);
        self.collect(from);
        true
    }

    /// Delivers the oldest frame of a lane; says whether there was one.
    pub fn deliver(&mut self, from: u16, to: u16, lane: Lane) -> bool {
        let key = (DcId(from), DcId(to), lane);
        let Some(frame) = self.lanes.get_mut(&key).and_then(VecDeque::pop_front) else {
            return false;
        };
        if lane == Lane::Data {
            add_updates(&frame, self.delivered.get_mut(&(DcId(from), DcId(to))).unwrap());
        }
        self.give(from, to, lane, frame).unwrap();
        true
    }

    /// A server comes back with nothing, in its next incarnation, and asks a mirror for its copy; all mirrors meet it.
    pub fn lose(&mut self, dc: u16, source: u16) {
        let (lost, incarnation) = (DcId(dc), 1);
        self.begin_incarnation(dc, incarnation, source);
        for mirror in self.dcs().filter(|mirror| *mirror != lost) {
            self.handle_input(mirror.0, ServerInput::Reset { from: lost, incarnation });
        }
    }

    /// A server begins an incarnation with nothing, and asks a mirror for its copy. What was on its way from and to it is gone; no
    /// mirror has met it.
    pub fn begin_incarnation(&mut self, dc: u16, incarnation: u64, source: u16) {
        let lost = DcId(dc);
        self.lanes.retain(|(from, to, _), _| *from != lost && *to != lost);
        let mut server = self.setup.server(lost);
        server.handle_rebuild(DcId(source), incarnation, &BTreeSet::new()).unwrap();
        self.servers[lost.index()] = server;
    }

    /// A server loses its connection to a mirror.
    pub fn part(&mut self, at: u16, from: u16) {
        self.handle_input(at, ServerInput::Disconnected { from: DcId(from) });
    }

    /// Gives a server an event of a mirror or of the link to it.
    pub fn handle_input(&mut self, at: u16, input: ServerInput) {
        self.servers[usize::from(at)].handle_input(self.now, input).unwrap();
        self.collect(DcId(at));
    }

    /// Gives a server any frame at all.
    pub fn give(&mut self, from: u16, to: u16, lane: Lane, frame: Bytes) -> Result<(), PeerError> {
        let input = ServerInput::Frame { from: DcId(from), lane, frame };
        let given = self.servers[usize::from(to)].handle_input(self.now, input);
        self.collect(DcId(to));
        given
    }

    /// Sends and delivers everything there is on one lane.
    pub fn carry(&mut self, from: u16, to: u16, lane: Lane) {
        while self.send(from, to, lane, ROOM) {}
        while self.deliver(from, to, lane) {}
    }

    /// Sends and delivers everything there is, control before data.
    pub fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for (from, to) in self.pairs() {
                for lane in [Lane::Control, Lane::Data] {
                    quiet &= !self.send(from.0, to.0, lane, ROOM);
                    quiet &= !self.deliver(from.0, to.0, lane);
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// Passes time until a server wants to be woken, and wakes it; says whether it wanted that.
    pub fn wake(&mut self, dc: u16) -> bool {
        let server = &mut self.servers[usize::from(dc)];
        let Some((at, _)) = server.poll_timeout() else { return false };
        self.now = self.now.max(at);
        server.handle_timeout(self.now);
        self.collect(DcId(dc));
        true
    }

    /// Ends training where it stands and makes all copies equal.
    pub fn drain(&mut self) {
        for dc in self.dcs() {
            let own = self.workers.iter().filter(|(worker, _)| worker.dc == dc);
            let clocks: Vec<Clock> = own.map(|(_, worker)| worker.clock).collect();
            self.begin_drain(dc.0, clocks);
        }
        self.settle();
        assert_eq!(self.drained, self.servers.len(), "every server says once that it has drained");
    }

    /// Orders one server to drain once its workers are at these clocks.
    pub fn begin_drain(&mut self, dc: u16, clocks: Vec<Clock>) {
        self.servers[usize::from(dc)].handle_drain(self.now, clocks, BTreeSet::new());
        self.collect(DcId(dc));
    }

    /// Per link and parameter: what was sent and the residual are what the workers changed, and on a hub what came
    /// from its other cliques; and a copy is what its own workers changed and what has arrived, each once.
    pub fn assert_conserved(&self) {
        for ((from, to), sent) in &self.sent {
            let residual = self.servers[from.index()].residual(*to);
            let sum: Vec<f32> =
                sent.iter().zip(&residual).map(|(sent, rest)| sent + rest).collect();
            assert_eq!(sum, self.source(*from, *to), "{from} to {to}: sent + residual = source");
        }
        for dc in self.dcs() {
            let mut expected = vec![self.setup.initial; self.setup.parameters];
            add(&mut expected, &self.sources[dc.index()]);
            for ((_, to), delivered) in &self.delivered {
                if *to == dc {
                    add(&mut expected, delivered);
                }
            }
            assert_eq!(self.servers[dc.index()].values(), expected, "the copy of {dc}");
        }
    }

    /// What a link is to carry in all.
    fn source(&self, from: DcId, to: DcId) -> Vec<f32> {
        let cliques = self.setup.neighbours(from);
        let mut source = vec![0.0; self.setup.parameters];
        if !cliques.iter().any(|clique| clique.contains(&to)) {
            return source;
        }
        add(&mut source, &self.sources[from.index()]);
        for clique in cliques.iter().filter(|clique| !clique.contains(&to)) {
            clique.iter().for_each(|other| add(&mut source, &self.delivered[&(*other, from)]));
        }
        source
    }

    /// Every worker's changes, added to what the model started from.
    pub fn everything(&self) -> Vec<f32> {
        let mut all = vec![self.setup.initial; self.setup.parameters];
        self.sources.iter().for_each(|source| add(&mut all, source));
        all
    }

    fn collect(&mut self, dc: DcId) {
        let server = &mut self.servers[dc.index()];
        while let Some(output) = server.poll_output() {
            match output {
                ServerOutput::ToWorker { worker, message } => {
                    let state = self.workers.get_mut(&worker).unwrap();
                    assert_eq!(state.clock, message.clock, "a reply answers the clock that asked");
                    state.reply = Some(message);
                }
                ServerOutput::CopyReady { clock } => {
                    self.copies.push((dc, clock, server.copy().to_vec()));
                }
                ServerOutput::ClockFinished { .. } => {}
                ServerOutput::Drained => self.drained += 1,
                ServerOutput::Diverged(divergence) => self.diverged.push(divergence),
                ServerOutput::Probed(probed) => self.probed.push((dc, probed)),
            }
        }
    }
}

/// Adds what a frame's updates change; frames of another kind change nothing by themselves.
fn add_updates(frame: &[u8], sum: &mut [f32]) {
    if is_control(frame) {
        return;
    }
    let mut buffers = Buffers::default();
    let (header, changes) = decode_bulk(frame, sum.len(), &mut buffers).unwrap();
    if header.kind != BulkKind::Update {
        return;
    }
    match changes {
        Changes::Dense { start, values } => add(&mut sum[start as usize..], values),
        Changes::Sparse { indexes, values } => {
            for (index, value) in indexes.iter().zip(values) {
                sum[*index as usize] += value;
            }
        }
    }
}

pub fn add(sum: &mut [f32], more: &[f32]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// How long reads wait for a mirror that is heard and reports no clock.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(30 * 60);

/// Room for a frame where a test does not care.
pub const ROOM: usize = 1 << 12;
