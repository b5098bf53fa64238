//! Conducts an emulated run: starts the data centers, listens to them, judges their copies, ends the run.
//!
//! Copies are judged beside the run, which goes on meanwhile: rules that need an objective stop it one judgement
//! late. Where an evaluation takes longer than the clocks between evaluations, fewer copies are judged.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{self, MissedTickBehavior, interval, sleep_until};

use super::data_center::{Command, DataCenter, Remains, Report, ServerReport};
use super::transport::Wan;
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::judge::{Verdict, highlights, judge, judge_values};
use crate::recorder::{AllLinkCounters, LinkCounters, RunRecorder};
use crate::run_loop::{Carrier, Evaluation, carry_out, record_clocks};
use crate::server_stats::ServerStats;
use crate::{Outcome, RunError, RunOptions, message_of};
use gaia_config::{ComputeModel, Plan};
use gaia_core::application::Application;
use gaia_core::coordinator::{Coordinator, NodeOrder, Recipients, StopReason};
use gaia_core::types::{Clock, DcId, Instant, ShardLayout};
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
    let (wan, transports) = Wan::start(topology, cluster.shards, plan.seed.child("links"))
        .await
        .map_err(RunError::Transport)?;
    let (reports, incoming) = channel(REPORTS_MAX);
    let pool = compute_pool()?;

    let mut commands = Vec::new();
    let mut data_centers = DataCenters::default();
    let origin = time::Instant::now();
    let mut servers = std::mem::take(&mut cluster.servers).into_iter();
    let mut workers = std::mem::take(&mut cluster.workers).into_iter();

    for transport in transports {
        let dc = transport.dc();
        let own_servers = servers.by_ref().take(cluster.shards).collect();
        let own_workers = workers.by_ref().take(topology.dc(dc).workers).collect();
        let cost = (plan.compute.model == ComputeModel::Cost)
            .then(|| CostModel::new(&plan.compute, topology.workers(), plan.seed));
        let (reports, pool) = (reports.clone(), pool.clone());
        let data_center =
            DataCenter::new(topology, dc, own_servers, own_workers, transport, cost, pool, reports);
        let (command, command_in) = channel(COMMANDS_MAX);
        commands.push(command);
        data_centers.spawn(&topology.dc(dc).name, data_center.run(command_in, origin));
    }

    drop(reports);
    let base = link_counters(&wan);
    let mut conductor = Conductor {
        plan,
        application,
        observer,
        cluster,
        recorder: RunRecorder::new(plan),
        commands,
        data_centers,
        wan: &wan,
        base,
        origin,
        pending_evaluation: None,
        due: None,
        orders: Vec::new(),
        finished: false,
    };

    let listened = conductor.listen(incoming).await;
    let Conductor { mut cluster, mut recorder, commands, mut data_centers, base, .. } = conductor;

    // Without commands to come, data centers end.
    drop(commands);
    let mut remains = Vec::new();
    let mut result = listened;

    while let Some(ended) = data_centers.ended().await {
        match ended {
            Ok(ended) => remains.push(ended),
            // What failed first is what the run failed of.
            Err(error) => result = result.and(Err(error)),
        }
    }

    result?;
    let carried = since(&link_counters(&wan), &base);
    wan.close().await.map_err(RunError::Transport)?;
    remains.sort_by_key(|remains| remains.dc);

    for remains in remains {
        cluster.servers.extend(remains.servers);
        cluster.workers.extend(remains.workers);
        recorder.lan_bytes += remains.lan_bytes;
    }

    let verdict = judge(&cluster.servers, cluster.shards, application);
    let highlights = highlights(&cluster.servers, cluster.shards, application);
    let wall = started.elapsed();
    let all_server_stats = ServerStats::all(&cluster.servers, topology.data_centers.len());
    let summary =
        recorder.summary(&all_server_stats, application.as_ref(), &verdict, &carried, wall);

    Ok(Outcome { summary, progress: recorder.into_progress(), highlights })
}

struct Conductor<'a> {
    plan: &'a Plan,
    application: &'a Arc<dyn Application>,
    observer: &'a mut dyn Observer,
    cluster: Cluster,
    recorder: RunRecorder,
    commands: Vec<Sender<Command>>,
    data_centers: DataCenters,
    wan: &'a Wan,
    /// What links had carried before training began: handshakes.
    base: AllLinkCounters,
    origin: time::Instant,
    /// The evaluation at work.
    pending_evaluation: Option<PendingEvaluation>,
    /// The latest evaluation that was asked for while another was at work. It replaces those before it, so that
    /// a slow judge sees fewer copies and never old ones.
    due: Option<Clock>,
    /// What nodes are to be told next.
    orders: Vec<(Recipients, NodeOrder)>,
    finished: bool,
}

/// An evaluation under way, and the task that judges its copies.
struct PendingEvaluation {
    evaluation: Evaluation,
    verdict: JoinHandle<Option<Verdict>>,
}

/// The tasks of all data centers.
#[derive(Default)]
struct DataCenters {
    tasks: JoinSet<Result<Remains, RunError>>,
    names: BTreeMap<Id, String>,
}

impl DataCenters {
    fn spawn(
        &mut self,
        name: &str,
        task: impl Future<Output = Result<Remains, RunError>> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name.to_owned());
    }

    /// Waits for the next to end, until none is left.
    async fn ended(&mut self) -> Option<Result<Remains, RunError>> {
        Some(match self.tasks.join_next_with_id().await? {
            Ok((_, ended)) => ended,
            Err(error) => {
                let part = self.names.get(&error.id()).cloned().unwrap_or_default();
                Err(RunError::Panicked { part, message: message_of_join(error) })
            }
        })
    }
}

impl Conductor<'_> {
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
                    // Data centers end when they are told to, or because something broke.
                    ended?;
                }
                verdict = verdict_of(&mut self.pending_evaluation) => {
                    self.on_verdict(verdict)?;
                    self.take_copies().await;
                }
                () = sleep_until(deadline.unwrap_or(self.origin)), if deadline.is_some() => {
                    self.cluster.coordinator.handle_timeout(self.now());
                }
                _ = tick.tick() => self.on_tick(),
            }
            self.settle().await;
        }

        while self.pending_evaluation.is_some() {
            let verdict = verdict_of(&mut self.pending_evaluation).await;
            self.on_verdict(verdict)?;
        }

        Ok(())
    }

    fn on_report(&mut self, report: Report) {
        let coordinator = &mut self.cluster.coordinator;
        match report {
            Report::Server { server, output } => match output {
                ServerReport::ClockFinished(clock) => {
                    coordinator.handle_clock_finished(server, clock);
                    record_clocks(&mut self.recorder, coordinator);
                }
                ServerReport::CopyReady(clock) => coordinator.handle_copy_ready(server, clock),
                ServerReport::Drained => coordinator.handle_drained(server),
                ServerReport::Diverged(divergence) => {
                    self.recorder.on_diverged(divergence);
                    coordinator.handle_diverged();
                }
            },
            Report::Held { dc, held } => self.recorder.on_held(dc, &held),
            Report::Stopped { worker, clock } => coordinator.handle_worker_stopped(worker, clock),
        }
    }

    /// Carries out what the coordinator has decided: copies are taken before workers hear that the run stops.
    async fn settle(&mut self) {
        let Ok(()) = carry_out(self);
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
                // A data center that has failed says so when it ends.
                let _ = self.commands[dc.index()].send(command).await;
            }
        }
    }

    /// Takes every copy as it is and has it judged beside the run, where an evaluation is due and none at work.
    async fn take_copies(&mut self) {
        if self.pending_evaluation.is_some() {
            return;
        }
        let Some(clock) = self.due.take() else { return };
        let clocks = self.plan.topology.dc_ids().zip(self.clocks()).collect();
        let link_counters = since(&link_counters(self.wan), &self.base);
        let evaluation = Evaluation { at: self.now(), clock, clocks, link_counters };
        let mut answers = Vec::new();
        for command in &self.commands {
            let (answer, answer_in) = oneshot::channel();
            // A data center that has failed says so when it ends.
            let _ = command.send(Command::Copies { answer }).await;
            answers.push(answer_in);
        }
        let verdict = tokio::spawn(judged(answers, self.application.clone(), self.cluster.shards));
        self.pending_evaluation = Some(PendingEvaluation { evaluation, verdict });
    }

    fn on_verdict(&mut self, verdict: Result<Option<Verdict>, JoinError>) -> Result<(), RunError> {
        let pending_evaluation =
            self.pending_evaluation.take().expect("a verdict follows an evaluation");
        let verdict = verdict.map_err(|error| RunError::Panicked {
            part: "the evaluation".into(),
            message: message_of_join(error),
        })?;
        // Without one, a data center has failed and says so when it ends.
        let Some(verdict) = verdict else { return Ok(()) };
        let (now, coordinator) = (self.now(), &mut self.cluster.coordinator);
        let evaluation = pending_evaluation.evaluation;
        evaluation.conclude(now, &verdict, coordinator, &mut self.recorder, self.observer);
        Ok(())
    }

    fn on_tick(&mut self) {
        let carried = since(&link_counters(self.wan), &self.base);
        let links = &self.plan.topology.links;
        let sent = |dc: DcId| {
            let own = links.iter().zip(&carried).filter(|(link, _)| link.from == dc);
            own.map(|(_, counters)| counters.bytes).sum()
        };
        let sent: Vec<u64> = self.plan.topology.dc_ids().map(sent).collect();
        let clocks: Vec<Option<u64>> = self.clocks().iter().map(|clock| Some(clock.0)).collect();
        self.observer.on_tick(self.now().as_secs_f64(), &clocks, &sent);
    }

    fn clocks(&self) -> Vec<Clock> {
        let coordinator = &self.cluster.coordinator;
        self.plan.topology.dc_ids().map(|dc| coordinator.clock_of(dc)).collect()
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

impl Carrier for Conductor<'_> {
    type Error = Infallible;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.cluster.coordinator
    }

    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Infallible> {
        self.orders.push((to, order));
        Ok(())
    }

    fn evaluate(&mut self, clock: Clock) {
        self.due = Some(clock);
    }

    fn on_stop(&mut self, reason: StopReason) {
        self.recorder.on_stop(self.now(), reason);
    }

    fn finish(&mut self) -> Result<(), Infallible> {
        self.finished = true;
        Ok(())
    }
}

/// Waits for the evaluation at work; for ever where there is none.
async fn verdict_of(
    pending_evaluation: &mut Option<PendingEvaluation>,
) -> Result<Option<Verdict>, JoinError> {
    match pending_evaluation {
        Some(pending_evaluation) => (&mut pending_evaluation.verdict).await,
        None => std::future::pending().await,
    }
}

/// Judges copies once all of them are here; `None` where one does not come.
async fn judged(
    answers: Vec<oneshot::Receiver<Vec<Vec<f32>>>>,
    application: Arc<dyn Application>,
    shards: usize,
) -> Option<Verdict> {
    let mut copies = Vec::new();
    for answer in answers {
        copies.push(answer.await.ok()?);
    }
    let layouts = ShardLayout::all(application.layout(), shards);
    let judge = move || judge_values(&copies, &layouts, &application);
    match spawn_blocking(judge).await {
        Ok(verdict) => Some(verdict),
        Err(error) => resume_unwind(error.into_panic()),
    }
}

fn message_of_join(error: JoinError) -> String {
    error.try_into_panic().map_or_else(|error| error.to_string(), |panic| message_of(&*panic))
}

fn link_counters(wan: &Wan) -> AllLinkCounters {
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

/// Threads for iterations: one processor is left to the network where there are several.
fn compute_pool() -> Result<Arc<ThreadPool>, RunError> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = processors.saturating_sub(1).max(1);
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "gaia-compute".into());
    pool.build().map(Arc::new).map_err(|error| RunError::Runtime(std::io::Error::other(error)))
}

const NETWORK_THREADS: usize = 2;
const REPORTS_MAX: usize = 1024;
const COMMANDS_MAX: usize = 64;

/// How often the observer hears of clocks and bytes between evaluations.
const TICK: Duration = Duration::from_millis(250);
