//! The process side of a worker: it moves the messages of one [`RecoverableWorker`] and runs its iterations.

pub(super) mod evaluating;
mod servers;
pub(super) mod standing_in;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{self, Interval, MissedTickBehavior, interval, sleep_until};

use crate::blocking::beside;
use crate::cost::CostModel;
use crate::interrupted::Interrupted;
use crate::message_of;
use crate::real::connections::message::{Order, Report};
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use crate::real::node::coordinator_client::{Begun, CoordinatorClient, addresses_of};
use crate::real::node::event_group::{EventHandler, handle_group};
use crate::real::node::measure::report_held;
use crate::real::node::node_log::NodeLog;
use crate::real::worker::evaluating::{Evaluated, Evaluating};
use crate::real::worker::servers::{FromServer, Servers};
use crate::real::{Exit, HEARTBEAT, NearServer, NextRequests, NodeConfig};
use gaia_core::application::{ApplicationError, Work};
use gaia_core::coordinator::ServerProcess;
use gaia_core::recovery::{Logging, RecoverableWorker, RecoveringWorker, RequestSeq};
use gaia_core::types::{Clock, ShardId, ShardLayout, WorkerId};
use gaia_core::worker::Worker;

/// A worker after its iteration, with what came of it or the message of its panic.
type Ran = (Box<Worker>, Result<Result<Work, ApplicationError>, String>);

/// A running worker.
struct WorkerNode {
    context: NodeContext,
    id: WorkerId,
    worker: RecoverableWorker,
    /// `None` if a crash loses the updates that the worker has not sent.
    node_log: Option<NodeLog>,
    /// The time that it takes to repeat the iterations since the last checkpoint.
    replay: Duration,
    servers: Servers,
    /// The next request of this worker to each server, if it is known and in the log.
    next_requests: watch::Sender<NextRequests>,
    /// Whether the coordinator has the report that all servers have been connected.
    ready: bool,
    beat: Interval,
    running: Option<JoinHandle<Ran>>,
    evaluating: Evaluating,
    began: time::Instant,
    /// The cost model of iterations, if the run file sets one. Otherwise an iteration takes its real time.
    cost: Option<CostModel>,
    /// The end of the charged time of the latest iteration, if it is in the future.
    padded: Option<time::Instant>,
    /// Whether this worker has reported that its task has ended.
    told_ended: bool,
    /// The clock at which this worker has reported to have stopped.
    told_stopped: Option<Clock>,
    /// Whether the coordinator has said at which clock this worker stops.
    is_stopping: bool,
    lan_bytes: u64,
    interrupted: Interrupted,
    stands_in_for: watch::Sender<BTreeSet<WorkerId>>,
}

/// An event for a worker.
enum Event {
    Order(Order),
    Beat,
    Server(ShardId, FromServer),
    Ran(Ran),
    Evaluated(Evaluated),
    /// The charged time of the latest iteration is over.
    Over,
}

/// Runs one worker until the coordinator ends the run.
pub(super) async fn work(
    context: NodeContext,
    (worker, evaluating): (Worker, Evaluating),
    layouts: Vec<ShardLayout>,
    node_config: &NodeConfig,
    cost: Option<CostModel>,
    near: Option<NearServer>,
) -> Result<Exit, RealError> {
    let NodeConfig { coordinator, interrupted, stands_in_for, .. } = node_config;
    let id = worker.id();
    let repeats = worker.repeats();
    let worker = RecoveringWorker::new(worker, layouts.len());
    let (node_log, worker) = match repeats {
        true => node_config.recover(&context, worker)?,
        false => (None, worker),
    };
    let logging = node_log.as_ref().map_or(Logging::Off, NodeLog::logging_of_worker);
    let worker = worker.begin(logging);
    let next_requests = match &near {
        Some(near) => near.next_requests.clone(),
        None => watch::Sender::new(NextRequests::new()),
    };
    next_requests.send_replace(worker.next_requests());

    let process = ServerProcess { began: 0, incarnation: 0, is_new: worker.is_new() };
    let connected = CoordinatorClient::open(&context, coordinator, None, Some(process));
    let Some(connected) = interrupted.run_until_set(connected).await else {
        return Ok(Exit::Interrupted);
    };
    let mut coordinator = connected?;

    let worked = async {
        let Some(begun) = interrupted.run_until_set(coordinator.begin()).await else {
            return Ok(Exit::Interrupted);
        };
        let Begun { servers: addresses, stand_ins, reset, .. } = begun?;
        stands_in_for.send_replace(stand_ins.lost_to(id));
        evaluating.handle_data_centers(&addresses);
        let reached = (addresses, next_requests.subscribe());
        let shards = (&layouts[..], evaluating.copy_rows());
        let servers = Servers::connect(&context, id, shards, reached, near);
        let mut node = WorkerNode::new(
            context.clone(),
            id,
            (node_log, worker, evaluating),
            servers,
            next_requests,
            cost,
            node_config,
        );
        if reset {
            node.worker.handle_back();
        }
        node.run(&mut coordinator).await
    };

    let worked = worked.await;
    coordinator.finish(worked).await
}

impl WorkerNode {
    /// A worker at the beginning of its part in the run.
    fn new(
        context: NodeContext,
        id: WorkerId,
        (node_log, worker, evaluating): (Option<NodeLog>, RecoverableWorker, Evaluating),
        servers: Servers,
        next_requests: watch::Sender<NextRequests>,
        cost: Option<CostModel>,
        node_config: &NodeConfig,
    ) -> Self {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            context,
            id,
            worker,
            node_log,
            replay: Duration::ZERO,
            servers,
            next_requests,
            ready: false,
            beat,
            running: None,
            evaluating,
            began: time::Instant::now(),
            cost,
            padded: None,
            told_ended: false,
            is_stopping: false,
            told_stopped: None,
            lan_bytes: 0,
            interrupted: node_config.interrupted.clone(),
            stands_in_for: node_config.stands_in_for.clone(),
        }
    }

    async fn run(&mut self, coordinator: &mut CoordinatorClient) -> Result<Exit, RealError> {
        loop {
            self.context.meter.on_turn();
            if let ControlFlow::Break(exit) = handle_group(self, coordinator).await? {
                return Ok(exit);
            }

            self.settle(coordinator).await?;
            let interrupted = self.interrupted.is_set();
            // Without a log there is nothing to write after the iteration, which may be long or never end.
            if interrupted && self.node_log.is_none() {
                return Ok(Exit::Interrupted);
            }
            if self.running.is_some() || self.padded.is_some() {
                continue;
            }
            self.keep(interrupted)?;
            if interrupted {
                return Ok(Exit::Interrupted);
            }
        }
    }
}

impl EventHandler for WorkerNode {
    type Event = Event;

    async fn next(&mut self, coordinator: &mut CoordinatorClient) -> Result<Event, RealError> {
        let event = tokio::select! {
            biased;
            order = coordinator.order() => Event::Order(order?),
            _ = self.beat.tick() => Event::Beat,
            (shard, from) = self.servers.next() => Event::Server(shard, from),
            ran = ran(&mut self.running) => Event::Ran(ran),
            evaluated = self.evaluating.evaluated() => Event::Evaluated(evaluated),
            () = due(self.padded) => Event::Over,
        };
        Ok(event)
    }

    async fn handle(
        &mut self,
        event: Event,
        coordinator: &CoordinatorClient,
    ) -> Result<ControlFlow<Exit>, RealError> {
        match event {
            Event::Order(Order::End) => {
                self.evaluating.finish();
                return Ok(ControlFlow::Break(Exit::Over));
            }
            Event::Order(order) => self.on_order(order)?,
            Event::Beat => {
                let lan_bytes = self.lan_bytes;
                self.context.meter.on_lan(lan_bytes);
                coordinator.report(&Report::Alive { links: Vec::new(), lan_bytes }).await;
            }
            Event::Server(shard, from) => self.on_server(shard, from)?,
            Event::Ran(ran) => self.on_ran(ran)?,
            Event::Evaluated(evaluated) => self.on_evaluated(evaluated, coordinator).await?,
            Event::Over => self.finish_iteration(),
        }

        Ok(ControlFlow::Continue(()))
    }
}

impl WorkerNode {
    fn on_order(&mut self, order: Order) -> Result<(), RealError> {
        match order {
            Order::Begin { servers, stand_ins } => {
                let addresses = addresses_of(servers)?;
                self.evaluating.handle_data_centers(&addresses);
                self.servers.reach(addresses);
                self.stands_in_for.send_replace(stand_ins.lost_to(self.id));
            }
            Order::Start { stopped } => {
                self.context.meter.on_begun();
                self.worker.handle_start(stopped);
            }
            Order::Reset => self.worker.handle_back(),
            Order::Stop { last } => {
                self.is_stopping = true;
                self.worker.handle_stop(last);
            }
            Order::Alive => {}
            other => return Err(CoordinatorClient::unexpected(&other)),
        }
        Ok(())
    }

    fn on_server(&mut self, shard: ShardId, from: FromServer) -> Result<(), RealError> {
        match from {
            FromServer::Lost(error) => return Err(error),
            FromServer::Rows(rows) => {
                self.lan_bytes += rows.lan_bytes();
                // Rows that arrive again were not requested.
                self.worker.handle_rows(shard, Arc::unwrap_or_clone(rows));
            }
            FromServer::Due((due, guessed)) => {
                self.may_begin(due, guessed)?;
                self.worker.handle_due(shard, due, guessed);
            }
            FromServer::Copy { ticket, copy } => {
                self.lan_bytes += 4 * copy.len() as u64;
                self.evaluating.handle_copy(shard, ticket, &copy);
            }
            FromServer::Joined(due) => {
                self.write()?;
                if let Some(rows) = self.evaluating.rows_of(shard) {
                    self.servers.send_copy_rows(shard, rows);
                }
                for message in self.worker.handle_joined(shard, due) {
                    self.lan_bytes += self.servers.send(shard, message);
                }
            }
        }
        Ok(())
    }

    /// Reports what the data center's copy is worth on the examples of this worker.
    async fn on_evaluated(
        &self,
        evaluated: Evaluated,
        coordinator: &CoordinatorClient,
    ) -> Result<(), RealError> {
        let Evaluated { ticket, found } = evaluated;
        let part = format!("the evaluation at {}", self.context.name());
        let (sums, digest) = match found {
            Ok(found) => found.map_err(|reason| RealError::Evaluation { part, reason })?,
            Err(message) => return Err(RealError::Panicked { part, message }),
        };
        coordinator.report(&Report::Evaluated { ticket, sums, digest }).await;
        Ok(())
    }

    /// Checks that the worker counts nothing twice if it begins at the request that a server expects. A worker of a
    /// data center that joins has made no changes yet, and the initial model has the counts of all workers.
    fn may_begin(&self, due: RequestSeq, guessed: bool) -> Result<(), RealError> {
        let plan = &self.context.run_context.plan;
        let joins = guessed && plan.late().contains(&self.id.dc);
        if !plan.deltas_are_counts() || due == RequestSeq::default() || joins {
            return Ok(());
        }
        let (node, app) = (self.context.name(), plan.app_name());
        Err(RealError::CountsLost { node, app })
    }

    fn on_ran(&mut self, ran: Ran) -> Result<(), RealError> {
        let (worker, work) = ran;
        self.running = None;
        self.replay += self.began.elapsed();
        self.context.meter.on_iteration(self.began.elapsed());
        let part = self.context.name();
        let work = work
            .map_err(|message| RealError::Panicked { part, message })?
            .map_err(|reason| RealError::Task { worker: self.context.name(), reason })?;
        self.worker.handle_ran(worker);
        let topology = &self.context.run_context.plan.topology;
        let number = topology.first_worker(self.id.dc) + usize::from(self.id.index);
        let over = self.cost.as_mut().map(|cost| self.began + cost.time(self.id, number, work));
        match over {
            Some(over) if over > time::Instant::now() => self.padded = Some(over),
            _ => self.finish_iteration(),
        }
        Ok(())
    }

    fn finish_iteration(&mut self) {
        self.padded = None;
        self.worker.handle_computed();
    }

    /// Ends a group: writes the log, and sends the worker's outputs.
    async fn settle(&mut self, coordinator: &CoordinatorClient) -> Result<(), RealError> {
        self.write()?;
        while let Some((shard, message)) = self.worker.poll_message() {
            self.lan_bytes += self.servers.send(shard, message);
        }

        // While its iteration is charged, the worker has already run.
        if self.padded.is_none()
            && self.goes_on(coordinator)
            && let Some(mut worker) = self.worker.poll_compute()
        {
            let held = worker.take_held();
            report_held(&self.context, &held);
            if !held.is_empty() {
                coordinator.report(&Report::Held(held)).await;
            }
            self.compute(worker);
        }

        if self.worker.has_ended() && !std::mem::replace(&mut self.told_ended, true) {
            coordinator.report(&Report::Ended).await;
        }
        let stopped = self.worker.stopped();
        if stopped != self.told_stopped {
            self.told_stopped = stopped;
            if let Some(clock) = stopped {
                let lan_bytes = self.lan_bytes;
                coordinator.report(&Report::Alive { links: Vec::new(), lan_bytes }).await;
                coordinator.report(&Report::Stopped(clock)).await;
            }
        }

        if !self.ready && self.servers.are_joined() {
            self.ready = true;
            coordinator.report(&Report::Ready).await;
        }

        Ok(())
    }

    /// Whether another iteration may begin. Training needs no coordinator, but only the coordinator ends it: while it is away,
    /// workers go no further than the clocks that the run asks for.
    fn goes_on(&mut self, coordinator: &CoordinatorClient) -> bool {
        let clocks = self.context.run_context.plan.stop.clocks;
        let clock = self.worker.worker_mut().map(|worker| worker.clock());
        let has_all = clocks.zip(clock).is_some_and(|(clocks, clock)| clock >= Clock(clocks));
        coordinator.is_connected() || self.is_stopping || !has_all
    }

    /// Writes the log, so that the outputs that follow from its entries may be sent.
    fn write(&mut self) -> Result<(), RealError> {
        if let Some(node_log) = &mut self.node_log
            && self.worker.must_write()
        {
            node_log.write(&self.worker.take_entries())?;
            self.worker.handle_synced();
        }
        let next_requests = self.worker.next_requests();
        self.next_requests.send_if_modified(|known| {
            let is_new = *known != next_requests;
            *known = next_requests;
            is_new
        });
        Ok(())
    }

    /// Writes a checkpoint if repeating iterations would take long, or if `must` is true. Does nothing while an
    /// iteration runs.
    fn keep(&mut self, must: bool) -> Result<(), RealError> {
        let Some(node_log) = &mut self.node_log else { return Ok(()) };
        let Some(clock) = self.worker.worker_mut().map(|worker| worker.clock()) else {
            return Ok(());
        };
        let is_writing = node_log.is_writing()?;
        let long = self.replay > REPLAY_MIN.max(CHECKPOINTS_PER_REPLAY * node_log.took());
        if !must && (is_writing || (!long && !node_log.is_due(clock))) {
            return Ok(());
        }
        let has_dropped = !self.worker.is_settled();
        let Some(state) = self.worker.begin_checkpoint(node_log.spare()?) else { return Ok(()) };
        self.worker.handle_synced();
        self.replay = Duration::ZERO;
        match has_dropped {
            true => node_log.replace(clock, state)?,
            false => node_log.keep(clock, state)?,
        }
        if must { node_log.wait() } else { Ok(()) }
    }

    fn compute(&mut self, mut worker: Box<Worker>) {
        self.began = time::Instant::now();
        self.running = Some(beside(move || {
            // The worker is not used after a panic of its iteration.
            let work = catch_unwind(AssertUnwindSafe(|| worker.compute()));
            let work = work.map_err(|panic| message_of(&*panic));
            (worker, work)
        }));
    }
}

/// Waits for the running iteration. Waits forever if there is none.
async fn ran(running: &mut Option<JoinHandle<Ran>>) -> Ran {
    match running {
        Some(running) => running.await.expect("an iteration's panic is caught within it"),
        None => std::future::pending().await,
    }
}

async fn due(at: Option<time::Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The smallest replay time that makes a checkpoint due. A recovered worker repeats iterations for about a second,
/// for twenty times the duration of a checkpoint, or for one clock. So checkpoints take at most a twentieth of its
/// time.
const REPLAY_MIN: Duration = Duration::from_secs(1);
const CHECKPOINTS_PER_REPLAY: u32 = 20;
