//! Conducts an emulated run: starts the data centers, handles their events, evaluates their copies, and ends the run.
//!
//! Evaluations run concurrently with training. So a stop rule that needs an objective takes effect one evaluation
//! late. If an evaluation takes longer than the clocks between two of them, fewer copies are evaluated.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{self, MissedTickBehavior, interval, sleep_until};

use super::data_center::{Command, DataCenter, Remains, Report};
use super::evaluating::{Evaluated, Evaluating};
use super::transport::EmulatedWan;
use crate::cluster::Cluster;
use crate::copies::EvaluationData;
use crate::cost::CostModel;
use crate::in_parallel::processors;
use crate::interrupted::Interrupted;
use crate::recorder::{AllLinkCounters, LinkCounters};
use crate::run_loop::{Ended, Evaluation, RunDriver, RunMonitor, execute_outputs};
use crate::{Outcome, RunError, RunOptions, message_of};
use gaia_config::{ComputeModel, Plan};
use gaia_core::application::Application;
use gaia_core::coordinator::{Coordinator, NodeOrder, Recipients, StopReason};
use gaia_core::types::{Clock, Instant, ShardLayout};
use gaia_quic::DcTransport;
use gaia_telemetry::Observer;

/// Runs a plan over QUIC in this process, in real time.
pub(crate) fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .thread_name("gaia-network")
        .enable_time()
        .build()
        .map_err(RunError::Runtime)?;
    let outcome = runtime.block_on(conduct(plan, application, options, observer));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn conduct(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let started = std::time::Instant::now();
    let topology = &plan.topology;
    let mut cluster = Cluster::new(&options.blueprint(plan, application));
    let (wan, transports) = EmulatedWan::start(topology, cluster.shards, plan.seed.child("links"))
        .await
        .map_err(RunError::Transport)?;
    let (reports, incoming) = channel(REPORTS_MAX);
    let pool = compute_pool()?;
    let origin = time::Instant::now();
    let (data_centers, commands) =
        DataCenters::start(plan, &mut cluster, transports, &pool, &reports, origin);

    drop(reports);
    let base = link_counters(&wan);
    let layouts = ShardLayout::all(application.layout(), cluster.shards);
    let mut conductor = Conductor {
        plan,
        evaluating: Evaluating::new(layouts, application.clone(), EvaluationData::of(plan)),
        monitor: RunMonitor::new(plan, observer),
        cluster,
        commands,
        data_centers,
        wan: &wan,
        base,
        origin,
        tickets: 0,
        orders: Vec::new(),
        finished: false,
        interrupted: Interrupted(options.interrupted.clone()),
    };

    let listened = conductor.listen(incoming).await;
    let Conductor { mut cluster, mut monitor, commands, data_centers, base, .. } = conductor;

    // Data centers end when their command channel is closed.
    drop(commands);
    let remains = data_centers.all_ended(listened).await?;
    let carried = since(&link_counters(&wan), &base);
    wan.close().await.map_err(RunError::Transport)?;

    for remains in remains {
        cluster.servers.extend(remains.servers);
        cluster.workers.extend(remains.workers);
        monitor.recorder.lan_bytes += remains.lan_bytes;
    }

    let ended = Ended::of(&cluster, application, &EvaluationData::of(plan))?;
    let wall = started.elapsed();

    Ok(monitor.outcome(application.as_ref(), ended, &carried, wall))
}

struct Conductor<'a, 'w> {
    plan: &'a Plan,
    cluster: Cluster,
    monitor: RunMonitor<'a>,
    evaluating: Evaluating,
    /// The number of evaluations so far. Copies are requested and sent under this number.
    tickets: u64,
    commands: Vec<Sender<Command>>,
    data_centers: DataCenters,
    wan: &'w EmulatedWan,
    /// The traffic of links before training began, which is that of handshakes.
    base: AllLinkCounters,
    origin: time::Instant,
    /// Orders that are sent to nodes next.
    orders: Vec<(Recipients, NodeOrder)>,
    finished: bool,
    /// Ends the run in order.
    interrupted: Interrupted,
}

/// The tasks of all data centers.
#[derive(Default)]
struct DataCenters {
    tasks: JoinSet<Result<Remains, RunError>>,
    names: BTreeMap<Id, String>,
}

impl DataCenters {
    /// Starts all data centers, with the nodes of the cluster. Returns the sender of each one's commands, too.
    fn start(
        plan: &Plan,
        cluster: &mut Cluster,
        transports: Vec<DcTransport>,
        pool: &Arc<ThreadPool>,
        reports: &Sender<Report>,
        origin: time::Instant,
    ) -> (Self, Vec<Sender<Command>>) {
        let topology = &plan.topology;
        let mut servers = std::mem::take(&mut cluster.servers).into_iter();
        let mut workers = std::mem::take(&mut cluster.workers).into_iter();
        let (mut data_centers, mut commands) = (Self::default(), Vec::new());

        for transport in transports {
            let dc = transport.dc();
            let own_servers = servers.by_ref().take(cluster.shards).collect();
            let own_workers = workers.by_ref().take(topology.dc(dc).workers).collect();
            let cost = (plan.compute.model == ComputeModel::Cost)
                .then(|| CostModel::new(&plan.compute, topology.workers(), plan.seed));
            let (reports, pool) = (reports.clone(), pool.clone());
            let data_center = DataCenter::new(
                topology,
                dc,
                own_servers,
                own_workers,
                transport,
                cost,
                pool,
                reports,
            );

            let (command, command_in) = channel(COMMANDS_MAX);
            commands.push(command);
            data_centers.spawn(&topology.dc(dc).name, data_center.run(command_in, origin));
        }

        (data_centers, commands)
    }

    fn spawn(
        &mut self,
        name: &str,
        task: impl Future<Output = Result<Remains, RunError>> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name.to_owned());
    }

    /// Waits until the next data center has ended. `None` if none is left.
    async fn ended(&mut self) -> Option<Result<Remains, RunError>> {
        Some(match self.tasks.join_next_with_id().await? {
            Ok((_, ended)) => ended,
            Err(error) => {
                let part = self.names.get(&error.id()).cloned().unwrap_or_default();
                Err(RunError::Panicked { part, message: message_of_join(error) })
            }
        })
    }

    /// Waits until all data centers have ended. Returns their remains, in their order.
    ///
    /// # Errors
    /// The first error: that of the run until now, or of a data center.
    async fn all_ended(
        mut self,
        mut result: Result<(), RunError>,
    ) -> Result<Vec<Remains>, RunError> {
        let mut remains = Vec::new();
        while let Some(ended) = self.ended().await {
            match ended {
                Ok(ended) => remains.push(ended),
                Err(error) => result = result.and(Err(error)),
            }
        }

        remains.sort_by_key(|remains| remains.dc);
        result.map(|()| remains)
    }
}

impl Conductor<'_, '_> {
    async fn listen(&mut self, mut reports: Receiver<Report>) -> Result<(), RunError> {
        self.cluster.coordinator.handle_start();
        self.settle().await;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);

        while !self.finished {
            let deadline = self.cluster.coordinator.poll_timeout();
            let deadline = deadline.map(|at| self.origin + Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                Some(report) = reports.recv() => self.on_report(report),
                Some(ended) = self.data_centers.ended() => {
                    // A data center ends when it is ordered to, or after an error.
                    ended?;
                }
                evaluated = self.evaluating.evaluated() => {
                    self.on_evaluated(evaluated)?;
                    self.take_copies().await;
                }
                () = sleep_until(deadline.unwrap_or(self.origin)), if deadline.is_some() => {
                    self.cluster.coordinator.handle_timeout(self.now());
                }
                _ = tick.tick() => self.on_tick(),
            }
            self.settle().await;
        }

        while self.evaluating.evaluations.is_at_work() {
            tokio::select! {
                Some(report) = reports.recv() => self.on_report(report),
                Some(ended) = self.data_centers.ended() => {
                    ended?;
                }
                evaluated = self.evaluating.evaluated() => self.on_evaluated(evaluated)?,
            }
        }

        Ok(())
    }

    fn on_report(&mut self, report: Report) {
        match report {
            Report::Node(report) => {
                let now = self.now();
                self.monitor.handle_report(now, &mut self.cluster.coordinator, report);
            }
            Report::Copy { server, ticket, values } => {
                self.evaluating.handle_copy(server, ticket, values);
            }
        }
    }

    /// Executes the coordinator's outputs. Copies are taken before workers are stopped.
    async fn settle(&mut self) {
        let Ok(()) = execute_outputs(self);
        self.take_copies().await;

        for (to, order) in std::mem::take(&mut self.orders) {
            let command = |dc| match &order {
                NodeOrder::Start { .. } => Some((dc, Command::Start)),
                NodeOrder::Stop { last } => Some((dc, Command::Stop { last: *last })),
                NodeOrder::Drain { clocks, inactive } if to == Recipients::ServersOf(dc) => {
                    let (clocks, inactive) = (clocks.clone(), inactive.clone());
                    Some((dc, Command::Drain { clocks, inactive }))
                }
                NodeOrder::Drain { .. } | NodeOrder::Left { .. } => None,
            };
            for (dc, command) in self.plan.topology.dc_ids().filter_map(command) {
                // A data center that has failed returns its error when it ends.
                let _ = self.commands[dc.index()].send(command).await;
            }
        }
    }

    /// Takes all copies and starts an evaluation, if one is due and none is in progress.
    async fn take_copies(&mut self) {
        let Some(clock) = self.evaluating.evaluations.poll_due() else { return };
        self.tickets += 1;
        let ticket = self.tickets;
        let link_counters = since(&link_counters(self.wan), &self.base);
        let evaluation =
            Evaluation::new(self.now(), clock, &self.cluster.coordinator, link_counters);
        let with_model = self.monitor.is_snapshot_due(clock);
        let look = self.monitor.recorder.look_due(clock);
        self.evaluating.begin(ticket, evaluation, with_model, look);

        for command in &self.commands {
            // A data center that has failed returns its error when it ends.
            let _ = command.send(Command::Copies { ticket }).await;
        }
    }

    fn on_evaluated(
        &mut self,
        evaluated: Result<(Evaluation, Evaluated), RunError>,
    ) -> Result<(), RunError> {
        let (evaluation, (results, model)) = evaluated?;
        let (now, coordinator) = (self.now(), &mut self.cluster.coordinator);
        let clock = evaluation.clock;
        self.monitor.handle_results(now, coordinator, evaluation, &results);
        if let Some(model) = model {
            self.monitor.handle_model(self.evaluating.application(), clock, &model);
        }
        Ok(())
    }

    fn on_tick(&mut self) {
        if self.interrupted.is_set() {
            self.cluster.coordinator.handle_interrupted();
        }
        let carried = since(&link_counters(self.wan), &self.base);
        self.monitor.show(self.now(), &self.cluster.coordinator, &carried);
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

impl RunDriver for Conductor<'_, '_> {
    type Error = Infallible;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.cluster.coordinator
    }

    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Infallible> {
        self.orders.push((to, order));
        Ok(())
    }

    fn evaluate(&mut self, clock: Clock) {
        self.evaluating.evaluations.request(clock);
    }

    fn on_stop(&mut self, reason: StopReason) {
        let now = self.now();
        self.monitor.handle_stop(now, reason);
    }

    fn finish(&mut self) -> Result<(), Infallible> {
        self.finished = true;
        Ok(())
    }
}

fn message_of_join(error: JoinError) -> String {
    error.try_into_panic().map_or_else(|error| error.to_string(), |panic| message_of(&*panic))
}

fn link_counters(wan: &EmulatedWan) -> AllLinkCounters {
    let traffic = wan.meter().traffic();
    traffic
        .iter()
        .map(|link| LinkCounters {
            bytes: link.stats.carried.bytes,
            control_bytes: link.control.wire_bytes,
            frames: link.control.frames + link.data.frames,
            busy: link.stats.carried.busy,
        })
        .collect()
}

fn since(link_counters: &AllLinkCounters, base: &AllLinkCounters) -> AllLinkCounters {
    link_counters
        .iter()
        .zip(base)
        .map(|(link, base)| LinkCounters {
            bytes: link.bytes - base.bytes,
            control_bytes: link.control_bytes - base.control_bytes,
            frames: link.frames - base.frames,
            busy: link.busy.saturating_sub(base.busy),
        })
        .collect()
}

/// Threads for iterations. One processor is left to the network, if there are several.
fn compute_pool() -> Result<Arc<ThreadPool>, RunError> {
    let threads = processors().saturating_sub(1).max(1);
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "gaia-compute".into());
    pool.build().map(Arc::new).map_err(|error| RunError::Runtime(std::io::Error::other(error)))
}

const NETWORK_THREADS: usize = 2;
const REPORTS_MAX: usize = 1024;
const COMMANDS_MAX: usize = 64;

/// How often the observer receives clocks and bytes between evaluations.
const TICK: Duration = Duration::from_millis(250);
