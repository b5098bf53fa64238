//! One data center of an emulated run: its servers and workers, in one task.
//!
//! Nodes of a data center share memory, so messages are passed as values. Iterations run on a thread pool. All else is
//! done in this task, in the order of the inputs.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rayon::ThreadPool;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{self, sleep_until};

use crate::cost::CostModel;
use crate::run_loop::NodeReport;
use crate::{RunError, message_of};
use gaia_core::application::{ApplicationError, Work};
use gaia_core::link::quantum;
use gaia_core::node::{Lane, ServerInput};
use gaia_core::server::{Server, ServerOutput};
use gaia_core::topology::Topology;
use gaia_core::types::{Clock, DcId, Instant, ServerId, ShardId};
use gaia_core::worker::{Worker, WorkerOutput};
use gaia_quic::{DcTransport, Event};

/// A command of the conductor to a data center. The data center's task ends when the channel of commands closes.
pub(super) enum Command {
    Start,
    Stop {
        last: Clock,
    },
    Drain {
        clocks: Vec<Clock>,
        inactive: BTreeSet<DcId>,
    },
    /// Reply with the copies of all servers, by shard.
    Copies {
        ticket: u64,
    },
}

/// A report of a data center to the conductor.
pub(super) enum Report {
    /// What a node of it reports.
    Node(NodeReport),
    /// The copy of a server, which was requested with this ticket.
    Copy { server: ServerId, ticket: u64, values: Vec<f32> },
}

/// The result of a data center's task.
pub(super) struct Remains {
    pub(super) dc: DcId,
    pub(super) servers: Vec<Server>,
    pub(super) workers: Vec<Worker>,
    pub(super) lan_bytes: u64,
}

/// An iteration that has run: what came of it, or the message of its panic.
struct Computed {
    worker: Box<Worker>,
    work: Result<Result<Work, ApplicationError>, String>,
    asked: time::Instant,
}

/// The task of one data center.
pub(super) struct DataCenter {
    dc: DcId,
    servers: Vec<Server>,
    /// `None` while a worker's iteration runs.
    workers: Vec<Option<Box<Worker>>>,
    first_worker: usize,
    transport: DcTransport,
    /// The largest frame size that keeps the control lane prompt, per peer.
    rooms: Vec<usize>,
    origin: time::Instant,
    /// The cost model of the run file. `None` if iterations take the time that they need.
    cost: Option<CostModel>,
    pool: Arc<ThreadPool>,
    computed: UnboundedSender<Computed>,
    computed_in: UnboundedReceiver<Computed>,
    /// Iterations that ran faster than their charged time, with the end of that time.
    padded: Vec<(time::Instant, Box<Worker>)>,
    stop: Option<Clock>,
    reports: Sender<Report>,
    lan_bytes: u64,
}

impl DataCenter {
    #[allow(clippy::too_many_arguments, reason = "each is one part of a data center, given once")]
    pub(super) fn new(
        topology: &Topology,
        dc: DcId,
        servers: Vec<Server>,
        workers: Vec<Worker>,
        transport: DcTransport,
        cost: Option<CostModel>,
        pool: Arc<ThreadPool>,
        reports: Sender<Report>,
    ) -> Self {
        let room = |to: DcId| if to == dc { 0 } else { quantum(topology.link(dc, to).bandwidth).0 };
        let (computed, computed_in) = unbounded_channel();
        Self {
            dc,
            servers,
            workers: workers.into_iter().map(|worker| Some(Box::new(worker))).collect(),
            first_worker: topology.first_worker(dc),
            transport,
            rooms: topology.dc_ids().map(|to| room(to) as usize).collect(),
            origin: time::Instant::now(),
            cost,
            pool,
            computed,
            computed_in,
            padded: Vec::new(),
            stop: None,
            reports,
            lan_bytes: 0,
        }
    }

    /// Runs until the conductor closes the channel of commands.
    ///
    /// # Errors
    /// If a node rejects a frame, a peer is lost, or an iteration panics.
    pub(super) async fn run(
        mut self,
        mut commands: Receiver<Command>,
        origin: time::Instant,
    ) -> Result<Remains, RunError> {
        self.origin = origin;
        loop {
            let wake = self.next_wake();
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command).await,
                    None => break,
                },
                Some(computed) = self.computed_in.recv() => self.on_computed(computed)?,
                event = self.transport.event() => self.on_event(event)?,
                () = sleep_until(wake) => self.on_wake(),
            }
            self.settle().await?;
        }

        let workers = self.workers.into_iter().flatten().map(|worker| *worker).collect();
        Ok(Remains { dc: self.dc, servers: self.servers, workers, lan_bytes: self.lan_bytes })
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Start => self.idle_workers().for_each(Worker::handle_start),
            Command::Stop { last } => {
                self.stop = Some(last);
                self.idle_workers().for_each(|worker| worker.handle_stop(last));
                self.padded.iter_mut().for_each(|(_, worker)| worker.handle_stop(last));
            }
            Command::Drain { clocks, inactive } => {
                let now = self.now();
                for server in &mut self.servers {
                    server.handle_drain(now, clocks.clone(), inactive.clone());
                }
            }
            Command::Copies { ticket } => {
                for index in 0..self.servers.len() {
                    let server = &self.servers[index];
                    let (server, values) = (server.id(), server.copy().to_vec());
                    self.report(Report::Copy { server, ticket, values }).await;
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), RunError> {
        let (shard, input) = match event {
            Event::Frame(incoming) => {
                let (from, lane, frame) = (incoming.from, incoming.lane, incoming.frame);
                (incoming.shard, ServerInput::Frame { from, lane, frame })
            }
            Event::Room { to, shard, lane: Lane::Data, bytes, busy } => {
                (shard, ServerInput::Drained { to, bytes, busy })
            }
            Event::Silent { peer } => return self.on_silent(peer),
            Event::Room { .. } | Event::Left { .. } => return Ok(()),
            Event::Lost { error, .. } => return Err(RunError::Transport(error)),
        };
        self.handle_input(shard, input)
    }

    /// Tells all servers that they receive nothing from a data center, because they share the connection to it.
    fn on_silent(&mut self, peer: DcId) -> Result<(), RunError> {
        let shards: Vec<ShardId> = self.servers.iter().map(|server| server.id().shard).collect();
        shards.into_iter().try_for_each(|shard| {
            self.handle_input(shard, ServerInput::Disconnected { from: peer })
        })
    }

    fn handle_input(&mut self, shard: ShardId, input: ServerInput) -> Result<(), RunError> {
        let now = self.now();
        let server = &mut self.servers[shard.index()];
        let at = server.id();
        server
            .handle_input(now, input)
            .map_err(|error| RunError::Peer { at: at.to_string(), error })
    }

    fn on_computed(&mut self, computed: Computed) -> Result<(), RunError> {
        let Computed { mut worker, work, asked } = computed;
        let id = worker.id();
        let work = work.map_err(|message| RunError::Panicked { part: id.to_string(), message })?;
        let work = work.map_err(|reason| RunError::Task { worker: id.to_string(), reason })?;
        let number = self.first_worker + usize::from(id.index);
        if let Some(last) = self.stop {
            worker.handle_stop(last);
        }
        let over = self.cost.as_mut().map(|cost| asked + cost.time(id, number, work));
        match over {
            Some(over) if over > time::Instant::now() => self.padded.push((over, worker)),
            _ => self.finish_iteration(worker),
        }
        Ok(())
    }

    fn on_wake(&mut self) {
        let moment = time::Instant::now();
        while let Some(index) = self.padded.iter().position(|(over, _)| *over <= moment) {
            let (_, worker) = self.padded.swap_remove(index);
            self.finish_iteration(worker);
        }
        let now = self.now();
        for server in &mut self.servers {
            if server.poll_timeout().is_some_and(|(at, _)| at <= now) {
                server.handle_timeout(now);
            }
        }
    }

    fn finish_iteration(&mut self, mut worker: Box<Worker>) {
        worker.handle_computed();
        let index = usize::from(worker.id().index);
        self.workers[index] = Some(worker);
    }

    /// Carries out the outputs of nodes until there are none, then fills the lanes.
    async fn settle(&mut self) -> Result<(), RunError> {
        loop {
            let mut moved = false;
            for index in 0..self.workers.len() {
                moved |= self.settle_worker(index).await;
            }
            for index in 0..self.servers.len() {
                moved |= self.settle_server(index).await;
            }
            if !moved {
                moved = self.transmit()?;
            }
            if !moved {
                return Ok(());
            }
        }
    }

    async fn settle_worker(&mut self, index: usize) -> bool {
        let now = self.now();
        let mut moved = false;
        while let Some(mut worker) = self.workers[index].take() {
            let Some(output) = worker.poll_output() else {
                self.workers[index] = Some(worker);
                break;
            };
            moved = true;
            match output {
                WorkerOutput::ToServer { shard, message } => {
                    let server = &mut self.servers[shard.index()];
                    self.lan_bytes += message.lan_bytes(server.layout());
                    server.handle_worker(now, worker.id(), message);
                    self.workers[index] = Some(worker);
                }
                WorkerOutput::Compute => {
                    let held = worker.take_held();
                    if !held.is_empty() {
                        self.report_node(NodeReport::Held { dc: self.dc, held }).await;
                    }
                    self.compute(worker);
                }
                WorkerOutput::Ended { .. } => {
                    self.report_node(NodeReport::Ended { worker: worker.id() }).await;
                    self.workers[index] = Some(worker);
                }
                WorkerOutput::Stopped { clock } => {
                    let id = worker.id();
                    self.report_node(NodeReport::Stopped { worker: id, clock }).await;
                    self.workers[index] = Some(worker);
                }
            }
        }

        moved
    }

    async fn settle_server(&mut self, index: usize) -> bool {
        let mut moved = false;
        while let Some(output) = self.servers[index].poll_output() {
            moved = true;
            let server = self.servers[index].id();
            let report = match output {
                ServerOutput::ToWorker { worker, message } => {
                    self.lan_bytes += message.lan_bytes();
                    let worker = self.workers[usize::from(worker.index)].as_mut();
                    worker
                        .expect("a worker waits while it reads")
                        .handle_rows(server.shard, message);
                    continue;
                }
                ServerOutput::ClockFinished { clock } => {
                    NodeReport::ClockFinished { server, clock }
                }
                ServerOutput::CopyReady { clock } => NodeReport::CopyReady { server, clock },
                ServerOutput::Drained => NodeReport::Drained { server },
                ServerOutput::Diverged(divergence) => NodeReport::Diverged(divergence),
                ServerOutput::Probed(probed) => NodeReport::Probed { dc: server.dc, probed },
            };
            self.report_node(report).await;
        }

        moved
    }

    fn transmit(&mut self) -> Result<bool, RunError> {
        let now = self.now();
        let mut moved = false;
        let peers: Vec<DcId> = self.transport.peers().collect();
        for to in peers {
            let room = self.rooms[to.index()];
            for index in 0..self.servers.len() {
                let shard = ShardId(index as u16);
                for (lane, room) in [(Lane::Control, usize::MAX), (Lane::Data, room)] {
                    while self.transport.has_room(to, shard, lane) {
                        let frame = self.servers[index].poll_transmit(now, to, lane, room);
                        let Some(frame) = frame else { break };
                        moved = true;
                        self.transport.send(to, shard, lane, frame).map_err(RunError::Transport)?;
                    }
                }
            }
        }

        Ok(moved)
    }

    /// Runs an iteration on the thread pool. If its time is charged, the wait for a thread is included.
    fn compute(&self, mut worker: Box<Worker>) {
        let done = self.computed.clone();
        let asked = time::Instant::now();
        self.pool.spawn(move || {
            // A worker whose iteration has panicked is not used again.
            let work = catch_unwind(AssertUnwindSafe(|| worker.compute()));
            let work = work.map_err(|panic| message_of(&*panic));
            // The data center's task may have ended.
            let _ = done.send(Computed { worker, work, asked });
        });
    }

    async fn report_node(&mut self, report: NodeReport) {
        self.report(Report::Node(report)).await;
    }

    async fn report(&mut self, report: Report) {
        // The conductor may have ended. Then this task ends, too.
        let _ = self.reports.send(report).await;
    }

    fn idle_workers(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.workers.iter_mut().flatten().map(AsMut::as_mut)
    }

    fn next_wake(&self) -> time::Instant {
        let timeouts = self.servers.iter().filter_map(Server::poll_timeout);
        let timeouts = timeouts.map(|(at, _)| self.origin + Duration::from_nanos(at.as_nanos()));
        let padded = self.padded.iter().map(|(over, _)| *over);
        timeouts.chain(padded).min().unwrap_or_else(|| time::Instant::now() + IDLE)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

/// How long a data center sleeps without a timeout.
const IDLE: Duration = Duration::from_secs(3600);
