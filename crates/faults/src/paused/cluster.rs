//! One run: a task for each process, the faults, and the checks at the end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::application::Watched;
use super::certificates::{CERTIFICATES, certificates};
use super::drawn::{ClusterFault, Drawn, FOR_GOOD, What};
use super::environment::{ProcessEnvironment, SharedEnvironment, World};
use super::flood::flood;
use crate::scenario::fault::Moment;
use gaia_checkpoint::StateFile;
use gaia_config::{LogSync, Plan};
use gaia_core::application::Application;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{RemoteSync, ValueFormat};
use gaia_core::types::{Clock, DcId, NodeId, Random, Seed, WorkerId, messagepack};
use gaia_driver::Outcome;
use gaia_driver::cluster::Blueprint;
use gaia_driver::emulated::Network;
use gaia_driver::real::{NodeEnd, NodeOptions, RunData, labels, take_part};
use gaia_telemetry::MembershipChange::{Joined, Left};
use gaia_telemetry::{Observer, Progress, Telemetry};

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Run {
    pub(super) lasted: Duration,
    /// The clocks that all data centers have finished.
    pub(super) clocks: u64,
    /// The number of killed processes that restarted.
    pub(super) restarts: u64,
    pub(super) wan_bytes: u64,
    /// The number of data centers that joined late, and that left permanently.
    pub(super) joined: usize,
    pub(super) left: usize,
    /// How often another worker took over for a worker, and how often the worker took its work back, by the
    /// coordinators.
    pub(super) taken_over: u64,
    pub(super) given_back: u64,
    /// The number of disks that servers have lost, so that they took the copies of mirrors.
    pub(super) disks_lost: u64,
    /// The number of processes that ended because a later one of the same nodes had started.
    pub(super) replaced: u64,
    /// Whether the copies had to be the sum of all updates.
    pub(super) summed: bool,
}

/// The processes of a run.
struct Cluster {
    drawn: Drawn,
    world: Arc<World>,
    application: Arc<Watched>,
    /// The process that each of `drawn.processes` is now.
    environments: Vec<RefCell<Arc<ProcessEnvironment>>>,
    /// The folder of the state of each. Logs are in memory.
    folders: Vec<RefCell<PathBuf>>,
    /// Notified when a second process of the same nodes starts.
    duplicates: Vec<Notify>,
    /// How long the next crash of each lasts, and whether it restarts at another address.
    returns: Vec<Cell<(Duration, bool)>>,
    /// How far the calendar of each machine is behind.
    behind: Vec<Cell<Duration>>,
    /// `Some` until a process has ended, with whether it has been restarted.
    waits: Vec<Cell<Option<bool>>>,
    restarts: Cell<u64>,
    /// Data centers whose processes do not restart.
    left: RefCell<BTreeSet<DcId>>,
    taken_over: Cell<u64>,
    given_back: Cell<u64>,
    disks_lost: Cell<u64>,
    replaced: Cell<u64>,
    /// How a replaced process has ended, if it should not have.
    wrong: RefCell<Option<String>>,
    /// Deleted with the last run that uses them.
    certificates: Arc<TempDir>,
    /// The folder of all states.
    folder: TempDir,
    /// Whether the coordinator is killed as soon as a node has ended.
    dies_at_end: Cell<bool>,
    /// Whether the coordinator has ended the run.
    over: Cell<bool>,
}

/// An additional fault besides those of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    Nothing,
    /// The coordinator is killed once more, as soon as a node has ended.
    LastDeath,
    /// Unauthenticated peers connect to all listening nodes during the whole run.
    Flood,
}

/// Runs the cluster of a seed, in virtual time.
///
/// # Errors
/// The first check that failed.
pub(super) fn run(seed: u64, besides: Besides) -> Result<Run, String> {
    run_drawn(Drawn::new(seed), seed, besides)
}

/// Runs a drawn cluster. `seed` is that of the simulated network and disks.
///
/// # Errors
/// The first check that failed.
pub(super) fn run_drawn(drawn: Drawn, seed: u64, besides: Besides) -> Result<Run, String> {
    in_virtual_time(async {
        let cluster = Rc::new(Cluster::new(drawn, Seed(seed).child("world")));
        cluster.dies_at_end.set(besides == Besides::LastDeath);
        let mut floods = JoinSet::new();
        if besides == Besides::Flood {
            for at in cluster.listening() {
                floods.spawn_local(flood(cluster.world.clone(), at));
            }
        }
        let began = Instant::now();
        BEGAN.with(|at| at.replace(Some(began)));
        let outcome = match cluster.clone().conduct().await {
            Err(reason) if reason == GIVEN_UP || reason == COPY_LOST => return Ok(Run::default()),
            outcome => outcome?,
        };
        let summed = cluster.check(&outcome)?;
        Ok(Run {
            lasted: began.elapsed(),
            clocks: outcome.summary.clocks,
            restarts: cluster.restarts.get(),
            taken_over: cluster.taken_over.get(),
            given_back: cluster.given_back.get(),
            disks_lost: cluster.disks_lost.get(),
            replaced: cluster.replaced.get(),
            wan_bytes: outcome.summary.wan_bytes,
            joined: outcome.summary.membership.iter().filter(|one| one.change == Joined).count(),
            left: outcome.summary.membership.iter().filter(|one| one.change == Left).count(),
            summed,
        })
    })
}

/// Runs one process of a cluster without any other. Returns how it has ended, and after how long.
pub(super) fn run_alone(drawn: Drawn, process: usize) -> (Result<NodeEnd, String>, Duration) {
    in_virtual_time(async {
        let cluster = Rc::new(Cluster::new(drawn, Seed(0).child("world")));
        let environment = cluster.environments[process].borrow().clone();
        let began = Instant::now();
        let ended = cluster.part(process, environment, PORT_MIN + process as u16).await;
        (ended, began.elapsed())
    })
}

fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    LocalSet::new().block_on(&runtime.unwrap(), run)
}

impl Cluster {
    fn new(drawn: Drawn, seed: Seed) -> Self {
        let topology = &drawn.plan.topology;
        let world = World::new(topology, seed);
        for link in &topology.links {
            world.network.set_disorder(link.from, link.to, drawn.disorder);
        }
        let environment =
            |nodes: &Vec<NodeId>| world.new_process(dc_of(nodes[0]), Duration::ZERO).into();

        let folder = tempfile::tempdir().unwrap();
        Self {
            folders: drawn.processes.iter().map(|_| folder.path().to_owned().into()).collect(),
            duplicates: drawn.processes.iter().map(|_| Notify::new()).collect(),
            environments: drawn.processes.iter().map(environment).collect(),
            returns: drawn.processes.iter().map(|_| (Duration::ZERO, false).into()).collect(),
            behind: drawn.processes.iter().map(|_| Duration::ZERO.into()).collect(),
            waits: drawn.processes.iter().map(|_| Some(false).into()).collect(),
            application: Arc::new(Watched::new(drawn.model)),
            restarts: 0.into(),
            left: RefCell::default(),
            taken_over: 0.into(),
            given_back: 0.into(),
            disks_lost: 0.into(),
            replaced: 0.into(),
            wrong: RefCell::default(),
            certificates: certificates(&drawn.plan),
            folder,
            dies_at_end: false.into(),
            over: false.into(),
            world,
            drawn,
        }
    }

    async fn conduct(self: Rc<Self>) -> Result<Outcome, String> {
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for (number, fault) in self.drawn.faults.clone().into_iter().enumerate() {
            let cluster = self.clone();
            tasks.spawn_local(async move {
                let chance = Seed(number as u64).child("tails").random();
                cluster.inject(began, fault, chance).await;
                Ok(None)
            });
        }

        for process in 0..self.drawn.processes.len() {
            let cluster = self.clone();
            tasks.spawn_local(async move { cluster.keep(process).await });
        }

        let mut outcome = None;
        loop {
            let patience = if outcome.is_some() { SHUTDOWN_MAX } else { LASTS_MAX };
            let Ok(ended) = timeout(patience, tasks.join_next()).await else { break };
            let Some(ended) = ended else { break };
            let ended = ended.map_err(|error| format!("a task failed: {error}"))?;
            outcome = outcome.or(ended?);
        }

        // A process that restarted after the end of the run waits for its coordinator.
        let still_runs = |process: &usize| self.waits[*process].get() == Some(false);
        match (outcome, (0..self.environments.len()).find(still_runs)) {
            (Some(outcome), None) => Ok(outcome),
            (Some(_), Some(process)) => {
                Err(format!("{:?} was not notified of the end", self.drawn.processes[process]))
            }
            (None, _) => Err(format!("not over after {LASTS_MAX:?}")),
        }
    }

    /// Runs a process, and restarts it each time it is killed. The coordinator's process returns the outcome.
    async fn keep(self: Rc<Self>, process: usize) -> Result<Option<Outcome>, String> {
        let nodes = &self.drawn.processes[process];
        let mut port = PORT_MIN + process as u16;
        if let Some((dc, at)) = self.drawn.joins
            && nodes[0].dc() == Some(dc)
        {
            sleep(at).await;
        }

        loop {
            let environment = self.environments[process].borrow().clone();
            let mut part = Box::pin(self.clone().part(process, environment.clone(), port));
            let ended = tokio::select! {
                biased;
                () = environment.killed() => None,
                () = self.duplicates[process].notified() => {
                    spawn_local(self.clone().end_replaced(part));
                    port = self.world.port();
                    continue;
                }
                ended = &mut part => Some(ended),
            };
            drop(part);
            if let ControlFlow::Break(last) = self.on_end(process, ended, &environment) {
                return last;
            }

            let Some(moves) = self.wait_to_restart(process).await else { return Ok(None) };
            if moves && nodes[0] != NodeId::Coordinator {
                port = self.world.port();
            }
            self.restarts.set(self.restarts.get() + 1);
            self.waits[process].set(Some(true));
            let behind = self.behind[process].get();
            self.environments[process].replace(self.world.new_process(dc_of(nodes[0]), behind));
        }
    }

    /// Handles the end of a process, which was killed if there is no result. Returns `Break` with the result of its
    /// task if the process does not restart.
    fn on_end(
        &self,
        process: usize,
        ended: Option<Result<NodeEnd, String>>,
        environment: &ProcessEnvironment,
    ) -> ControlFlow<Result<Option<Outcome>, String>> {
        let last = match ended {
            Some(Ok(NodeEnd::Over)) => {
                self.waits[process].set(None);
                if self.dies_at_end.take() {
                    let coordinator = self.environments.len() - 1;
                    self.returns[coordinator].set((Duration::from_secs(1), false));
                    self.environments[coordinator].borrow().kill();
                }
                Ok(None)
            }
            Some(Ok(NodeEnd::Conducted(outcome))) => {
                self.waits[process].set(None);
                self.over.set(true);
                Ok(Some(*outcome))
            }
            Some(Err(reason)) if reason.starts_with(DISMISSED) => {
                self.waits[process].set(Some(true));
                Ok(None)
            }
            // It restarted after the end of the run.
            Some(Err(reason)) if self.over.get() && reason.contains(MAY_HAVE_ENDED) => Ok(None),
            // During the drain no data center can leave. One that does ends the run.
            Some(Err(reason)) if reason.contains(GIVEN_UP) && self.may_end_early() => {
                self.over.set(true);
                Err(GIVEN_UP.into())
            }
            // A server that has lost its disk while no mirror can provide a copy ends the run, too.
            Some(Err(reason)) if reason.contains(COPY_LOST) && self.disks_lost.get() > 0 => {
                self.over.set(true);
                Err(COPY_LOST.into())
            }
            Some(_) | None if environment.is_killed() => return ControlFlow::Continue(()),
            other => {
                let nodes = &self.drawn.processes[process];
                Err(format!("{nodes:?} ended with {other:?}"))
            }
        };
        ControlFlow::Break(last)
    }

    /// Waits until a killed process restarts. Returns whether it moves, and `None` if it does not restart.
    async fn wait_to_restart(&self, process: usize) -> Option<bool> {
        let dc = self.drawn.processes[process][0].dc();
        let (after, moves) = self.returns[process].get();
        if after == FOR_GOOD || dc.is_some_and(|dc| self.left.borrow().contains(&dc)) {
            self.waits[process].set(Some(true));
            return None;
        }

        sleep(after).await;
        if self.over.get() {
            self.waits[process].set(None);
            return None;
        }
        Some(moves)
    }

    /// Waits until a process has ended that has been replaced by a later one of the same nodes.
    async fn end_replaced(self: Rc<Self>, part: impl Future<Output = Result<NodeEnd, String>>) {
        match part.await {
            // The coordinator, or a mirror that the later process has reached, refuses it.
            Err(reason) if REPLACED.iter().any(|replaced| reason.contains(replaced)) => {
                self.replaced.set(self.replaced.get() + 1);
            }
            // It may not have connected again before the end of the run.
            _ if self.over.get() => {}
            ended => {
                let wrong = format!("a replaced process ended with {ended:?}");
                self.wrong.replace(Some(wrong));
            }
        }
    }

    async fn part(
        self: Rc<Self>,
        process: usize,
        environment: Arc<ProcessEnvironment>,
        port: u16,
    ) -> Result<NodeEnd, String> {
        let nodes = &self.drawn.processes[process];
        let options = NodeOptions {
            nodes: nodes.to_vec(),
            certificates: self.certificates.path().join(CERTIFICATES),
            listen: Some(Network::address(dc_of(nodes[0]), port)),
            coordinator: self.coordinator_address().to_string().parse().ok(),
            state: Some(self.folders[process].borrow().clone()),
            interrupted: None,
            models: None,
            ends_with_stdin: false,
            telemetry: Telemetry::new(),
        };

        let application: Arc<dyn Application> = self.application.clone();
        let environment = Arc::new(SharedEnvironment(environment));
        let mut events =
            MemberEvents { taken_over: &self.taken_over, given_back: &self.given_back };
        let ended = take_part(
            &self.drawn.plan,
            RunData::Whole(application),
            &options,
            &mut events,
            environment,
        )
        .await;

        ended.map_err(|error| error.to_string())
    }

    /// The addresses at which processes listen until they move.
    fn listening(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let processes = self.drawn.processes.iter().enumerate();
        processes
            .map(|(process, nodes)| Network::address(dc_of(nodes[0]), PORT_MIN + process as u16))
    }

    fn coordinator_address(&self) -> SocketAddr {
        Network::address(DcId(0), PORT_MIN + self.drawn.processes.len() as u16 - 1)
    }

    /// Injects a fault at its time, and ends it.
    async fn inject(&self, began: Instant, fault: ClusterFault, mut chance: Random) {
        let ClusterFault { at, lasts, what } = fault;
        sleep_until(began + at).await;
        let network = &self.world.network;
        match what {
            What::Cut { from, to, one_way } => {
                let sever = |severed| match one_way {
                    true => network.sever_one_way(from, to, severed),
                    false => network.sever(from, to, severed),
                };
                sever(true);
                self.expect_no_notice(from, to);
                sleep(lasts).await;
                sever(false);
            }
            What::Reset { one, other } => self.world.streams.reset(one, other),
            What::Slow { from, to, times } => {
                let bandwidth = self.drawn.plan.topology.link(from, to).bandwidth;
                network.set_bandwidth(from, to, bandwidth.scaled(1.0 / times));
                sleep(lasts).await;
                network.set_bandwidth(from, to, bandwidth);
            }
            What::Kill { .. } | What::LoseDisk { .. } | What::Duplicate { .. }
                if self.over.get() => {}
            What::LoseDisk { process, behind } => self.lose_disk(process, lasts, behind).await,
            What::Duplicate { process } => self.start_duplicate(process).await,
            What::Leave { dc } => self.leave(dc).await,
            What::Silence { process } => {
                // No node may be left that notifies it of the end.
                self.waits[process].set(self.waits[process].get().map(|_| true));
                let environment = self.environments[process].borrow().clone();
                environment.disconnect_from(Some(self.coordinator_address()));
                sleep(lasts).await;
                environment.disconnect_from(None);
            }
            What::Kill { process, write, moves } => {
                self.await_work(process, lasts).await;
                self.returns[process].set((lasts, moves));
                self.kill(process, write, lasts, &mut chance).await;
            }
        }
    }

    /// A data center that joins late and cannot reach the coordinator may begin after the run is over. No node may be left
    /// that notifies it of the end.
    fn expect_no_notice(&self, from: DcId, to: DcId) {
        let coordinator = dc_of(NodeId::Coordinator);
        let Some((dc, _)) = self.drawn.joins else { return };
        if (from, to) != (coordinator, dc) && (from, to) != (dc, coordinator) {
            return;
        }
        for (nodes, waits) in self.drawn.processes.iter().zip(&self.waits) {
            if nodes[0].dc() == Some(dc) {
                waits.set(waits.get().map(|_| true));
            }
        }
    }

    /// Kills all processes of a data center, which do not restart.
    async fn leave(&self, dc: DcId) {
        // Before a run has begun, the coordinator waits for all nodes.
        while !self.application.has_begun() {
            sleep(LOOK_EVERY).await;
        }

        self.left.borrow_mut().insert(dc);
        for (nodes, environment) in self.drawn.processes.iter().zip(&self.environments) {
            if nodes[0].dc() == Some(dc) {
                environment.borrow().kill();
            }
        }
    }

    /// Waits until a worker has computed, if it is killed permanently. Otherwise the coordinator would wait for a data
    /// center that has never started.
    async fn await_work(&self, process: usize, lasts: Duration) {
        if let NodeId::Worker(worker) = self.drawn.processes[process][0]
            && lasts == FOR_GOOD
        {
            while !self.application.has_worked(&self.drawn.plan, worker) {
                sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Kills a process: at once, or at a step of one of its next writes.
    async fn kill(
        &self,
        process: usize,
        write: Option<(u64, Moment)>,
        lasts: Duration,
        chance: &mut Random,
    ) {
        let environment = self.environments[process].borrow().clone();
        match (write, environment.disks().first()) {
            (Some((writes, moment)), Some(files)) => {
                files.lock().unwrap().kill_at_write(writes, moment);
                sleep(lasts).await;
                files.lock().unwrap().cancel_kill();
            }
            _ => {
                environment.kill();
                for files in environment.disks() {
                    if self.drawn.plan.log.sync == LogSync::Always {
                        files.lock().unwrap().crash(chance);
                    }
                }
            }
        }
    }

    /// Whether a process has a state to lose, once the run has begun: not if its data center has left or joins late.
    async fn has_state(&self, process: usize) -> bool {
        while !self.application.has_begun() {
            sleep(LOOK_EVERY).await;
        }
        let dc = self.drawn.processes[process][0].dc();
        let joins_late = self.drawn.joins.is_some_and(|(late, _)| dc == Some(late));
        !joins_late && !dc.is_some_and(|dc| self.left.borrow().contains(&dc))
    }

    /// Starts another process of the same nodes, with empty disks.
    async fn start_duplicate(&self, process: usize) {
        if !self.has_state(process).await || self.environments[process].borrow().is_killed() {
            return;
        }
        let duplicate =
            self.world.new_process(dc_of(self.drawn.processes[process][0]), Duration::ZERO);
        self.environments[process].replace(duplicate);
        self.folders[process].replace(self.folder.path().join(DUPLICATE));
        self.disks_lost.set(self.disks_lost.get() + 1);
        self.duplicates[process].notify_one();
    }

    /// Kills a process, which restarts with an empty disk.
    async fn lose_disk(&self, process: usize, lasts: Duration, behind: Duration) {
        if !self.has_state(process).await {
            return;
        }

        let nodes = &self.drawn.processes[process];
        self.returns[process].set((lasts, false));
        self.behind[process].set(behind);
        self.environments[process].borrow().kill();
        if nodes[0] == NodeId::Coordinator {
            std::fs::remove_file(self.folder.path().join(COORDINATOR)).unwrap();
        }
        for label in labels(&self.drawn.plan, nodes) {
            let folder = self.folders[process].borrow().join(label);
            self.world.lose_disks(&folder);
            // Without a checkpoint there is no folder.
            let _none = std::fs::remove_dir_all(folder);
        }
        self.disks_lost.set(self.disks_lost.get() + 1);
    }

    /// Whether a drawn fault may end the run early.
    fn may_end_early(&self) -> bool {
        self.drawn.faults.iter().any(|fault| matches!(fault.what, What::Leave { .. }))
    }

    /// The clocks at which workers have stopped, by the coordinator's file.
    fn stopped(&self) -> Result<BTreeMap<WorkerId, Clock>, String> {
        let application: Arc<dyn Application> = self.application.clone();
        let hash = Blueprint::new(&self.drawn.plan, &application).plan_hash;
        let file = StateFile::new(&self.folder.path().join(COORDINATOR), hash);
        let state = file.and_then(|file| file.read()).map_err(|error| error.to_string())?;
        let record = state.as_ref().and_then(|state| state.records.get("coordinator.stopped"));
        let record = record
            .ok_or("the coordinator's file does not contain the clocks of stopped workers")?;
        messagepack::decode(record).map_err(|error| error.to_string())
    }

    /// Checks the copies. Returns whether they had to be the sum of all updates.
    fn check(&self, outcome: &Outcome) -> Result<bool, String> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        if !outcome.summary.copies_equal {
            return Err("copies differ after the drain".into());
        }

        // Unsent updates are lost with a data center or a disk, and the first clock of one that joined is unknown. So are
        // the clocks that workers skip.
        let is_whole = outcome.summary.membership.is_empty()
            && self.disks_lost.get() == 0
            && !self.drawn.plan.local.has_quorum();
        let Some(tolerance) = tolerance(&self.drawn.plan).filter(|_| is_whole) else {
            return Ok(false);
        };
        let total = self.application.total(&self.drawn.plan, &self.stopped()?);
        let values = outcome.highlights.iter().map(|value| value.parse::<f64>());

        for (place, (value, due)) in values.zip(total).enumerate() {
            let value = value.map_err(|error| error.to_string())?;
            if (value - due).abs() > tolerance * (1.0 + value.abs().max(due.abs())) {
                let remote = self.drawn.plan.remote.name();
                return Err(format!("{remote}: parameter {place} is {value} instead of {due}"));
            }
        }

        Ok(true)
    }
}

/// The tolerance of copies against the sum of all updates. `None` if they need not be the sum.
fn tolerance(plan: &Plan) -> Option<f64> {
    // An exchange may end with one rounding error of the changes of a clock.
    let of = |values| if values == ValueFormat::F32 { ROUNDING } else { 0.05 };
    let residuals = plan.drain.method == DrainMethod::Residuals;
    match &plan.remote {
        RemoteSync::Tap(_) | RemoteSync::Asp(_) => residuals.then_some(ROUNDING),
        RemoteSync::Bsp(config) => Some(of(config.values)),
        RemoteSync::Ssp(config) => Some(of(config.values)),
        RemoteSync::LocalSteps(config) => {
            (config.adds_up() && residuals).then_some(of(config.values))
        }
    }
}

/// The data center of a process. The coordinator runs in the first one.
fn dc_of(node: NodeId) -> DcId {
    node.dc().unwrap_or(DcId(0))
}

/// The timestamps of logs.
pub(super) struct VirtualTime;

impl FormatTime for VirtualTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let began = BEGAN.with(|began| *began.borrow());
        write!(writer, "{:.3}", began.map_or(0.0, |began| began.elapsed().as_secs_f64()))
    }
}

thread_local! {
    /// When the run of this thread began.
    static BEGAN: RefCell<Option<Instant>> = const { RefCell::new(None) };
}

/// Counts the events of workers that coordinators report.
struct MemberEvents<'a> {
    taken_over: &'a Cell<u64>,
    given_back: &'a Cell<u64>,
}

impl Observer for MemberEvents<'_> {
    fn on_progress(&mut self, _: &Progress) {}

    fn on_taken_over(&mut self, _: &str, _: &str) {
        self.taken_over.set(self.taken_over.get() + 1);
    }

    fn on_given_back(&mut self, _: &str, _: &str) {
        self.given_back.set(self.given_back.get() + 1);
    }
}

/// The file of the coordinator's state.
const COORDINATOR: &str = "coordinator";

/// The folder of the states of processes that were started a second time.
const DUPLICATE: &str = "duplicate";

/// The errors of a process after which another of the same node has connected.
const REPLACED: [&str; 2] = ["expected only one", "so one of them has lost its state"];

/// The errors of a process that has left, and of a coordinator that cannot continue without one.
const DISMISSED: &str = "this node takes no part in the run";
const GIVEN_UP: &str = "was disconnected for 12 s";
const MAY_HAVE_ENDED: &str = "the run may have ended without this node";
const COPY_LOST: &str = "has lost its copy and cannot rebuild it";
const LOOK_EVERY: Duration = Duration::from_millis(10);

const PORT_MIN: u16 = 5_000;

/// The longest run in virtual time.
const LASTS_MAX: Duration = Duration::from_secs(60);

/// The longest time from the coordinator's end to that of all other processes.
const SHUTDOWN_MAX: Duration = Duration::from_secs(30);

/// The tolerance for sums in single precision.
const ROUNDING: f64 = 1e-4;
