//! One run: every process a task, troubles beside them, and what must hold in the end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::application::Watched;
use super::certificates::{CERTIFICATES, certificates};
use super::drawn::{Drawn, FOR_GOOD, Trouble, What};
use super::flood::flood;
use super::place::{Place, Standing, World};
use gaia_checkpoint::StateFile;
use gaia_config::{LogSync, Plan};
use gaia_core::application::Application;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{RemoteSync, ValueFormat};
use gaia_core::types::{Clock, DcId, NodeId, Random, Seed, WorkerId};
use gaia_driver::Outcome;
use gaia_driver::cluster::Blueprint;
use gaia_driver::emulated::Network;
use gaia_driver::real::{NodeEnd, NodeOptions, labels, take_part};
use gaia_telemetry::MembershipChange::{Joined, Left};
use gaia_telemetry::{Observer, Progress, Telemetry};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Run {
    pub(super) lasted: Duration,
    /// Processes that were killed and came back.
    pub(super) restarts: u64,
    pub(super) wan_bytes: u64,
    /// Data centers that joined late, and that left for good.
    pub(super) joined: usize,
    pub(super) left: usize,
    /// Times that a worker was taken over by another, and that it had its work back, as coordinators have told.
    pub(super) taken_over: u64,
    pub(super) given_back: u64,
    /// Disks that servers have lost, so that they took the copies of mirrors.
    pub(super) disks_lost: u64,
    /// Whether the sum of all updates was to be found in the copies.
    pub(super) summed: bool,
}

/// Who runs what, and where.
struct Cluster {
    drawn: Drawn,
    world: Arc<World>,
    application: Arc<Watched>,
    /// The process that each of `drawn.processes` is now.
    places: Vec<RefCell<Arc<Place>>>,
    /// How long the next crash of each lasts, and whether it comes back elsewhere.
    returns: Vec<Cell<(Duration, bool)>>,
    /// How far the calendar of each one's machine is behind.
    behind: Vec<Cell<Duration>>,
    /// Which are at work, and whether they have come back.
    waits: Vec<Cell<Option<bool>>>,
    restarts: Cell<u64>,
    /// Data centers whose processes do not come back.
    left: RefCell<BTreeSet<DcId>>,
    taken_over: Cell<u64>,
    given_back: Cell<u64>,
    disks_lost: Cell<u64>,
    /// Gone with the last run that has them.
    certificates: Arc<TempDir>,
    /// Where the coordinator's state lies; logs are in memory.
    folder: TempDir,
    /// Whether the coordinator is to die as soon as a node has ended.
    dies_at_end: Cell<bool>,
    /// Whether the coordinator has ended the run.
    over: Cell<bool>,
}

/// What befalls a run beside what its seed draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    Nothing,
    /// The coordinator dies once more, as soon as a node has ended.
    LastDeath,
    /// Strangers call all nodes that listen, from before the run to its end.
    Flood,
}

/// Runs what a seed draws, in virtual time.
///
/// # Errors
/// What did not hold.
pub(super) fn run(seed: u64, besides: Besides) -> Result<Run, String> {
    run_drawn(Drawn::new(seed), seed, besides)
}

/// Runs what has been drawn; the seed is that of the world.
///
/// # Errors
/// What did not hold.
pub(super) fn run_drawn(drawn: Drawn, seed: u64, besides: Besides) -> Result<Run, String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    LocalSet::new().block_on(&runtime, async {
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
            restarts: cluster.restarts.get(),
            taken_over: cluster.taken_over.get(),
            given_back: cluster.given_back.get(),
            disks_lost: cluster.disks_lost.get(),
            wan_bytes: outcome.summary.wan_bytes,
            joined: outcome.summary.membership.iter().filter(|one| one.change == Joined).count(),
            left: outcome.summary.membership.iter().filter(|one| one.change == Left).count(),
            summed,
        })
    })
}

impl Cluster {
    fn new(drawn: Drawn, seed: Seed) -> Self {
        let topology = &drawn.plan.topology;
        let world = World::new(topology, seed);
        for link in &topology.links {
            world.network.set_disorder(link.from, link.to, drawn.disorder);
        }
        let place = |nodes: &Vec<NodeId>| world.place(dc_of(nodes[0]), Duration::ZERO).into();

        Self {
            places: drawn.processes.iter().map(place).collect(),
            returns: drawn.processes.iter().map(|_| (Duration::ZERO, false).into()).collect(),
            behind: drawn.processes.iter().map(|_| Duration::ZERO.into()).collect(),
            waits: drawn.processes.iter().map(|_| Some(false).into()).collect(),
            application: Arc::new(Watched::new(drawn.model)),
            restarts: 0.into(),
            left: RefCell::default(),
            taken_over: 0.into(),
            given_back: 0.into(),
            disks_lost: 0.into(),
            certificates: certificates(&drawn.plan),
            folder: tempfile::tempdir().unwrap(),
            dies_at_end: false.into(),
            over: false.into(),
            world,
            drawn,
        }
    }

    async fn conduct(self: Rc<Self>) -> Result<Outcome, String> {
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for (number, trouble) in self.drawn.troubles.clone().into_iter().enumerate() {
            let cluster = self.clone();
            tasks.spawn_local(async move {
                let chance = Seed(number as u64).child("tails").random();
                cluster.befall(began, trouble, chance).await;
                Ok(None)
            });
        }

        for process in 0..self.drawn.processes.len() {
            let cluster = self.clone();
            tasks.spawn_local(async move { cluster.keep(process).await });
        }

        let mut outcome = None;
        loop {
            let patience = if outcome.is_some() { HEARS_MAX } else { LASTS_MAX };
            let Ok(ended) = timeout(patience, tasks.join_next()).await else { break };
            let Some(ended) = ended else { break };
            let ended = ended.map_err(|error| format!("a task failed: {error}"))?;
            outcome = outcome.or(ended?);
        }

        // Who came back too late to hear that the run is over waits for its coordinator.
        let goes_on = |process: &usize| self.waits[*process].get() == Some(false);
        match (outcome, (0..self.places.len()).find(goes_on)) {
            (Some(outcome), None) => Ok(outcome),
            (Some(_), Some(process)) => {
                Err(format!("{:?} has not heard of the end", self.drawn.processes[process]))
            }
            (None, _) => Err(format!("not over after {LASTS_MAX:?}")),
        }
    }

    /// Runs a process, and starts it again whenever it has been killed. The coordinator's has an outcome.
    async fn keep(&self, process: usize) -> Result<Option<Outcome>, String> {
        let nodes = &self.drawn.processes[process];
        let mut port = PORT_MIN + process as u16;
        if let Some((dc, at)) = self.drawn.joins
            && nodes[0].dc() == Some(dc)
        {
            sleep(at).await;
        }

        loop {
            let place = self.places[process].borrow().clone();
            let ended = tokio::select! {
                biased;
                () = place.died() => None,
                ended = self.part(nodes, &place, port) => Some(ended),
            };
            match ended {
                Some(Ok(NodeEnd::Over)) => {
                    self.waits[process].set(None);
                    if self.dies_at_end.take() {
                        let coordinator = self.places.len() - 1;
                        self.returns[coordinator].set((Duration::from_secs(1), false));
                        self.places[coordinator].borrow().die();
                    }
                    return Ok(None);
                }
                Some(Ok(NodeEnd::Conducted(outcome))) => {
                    self.waits[process].set(None);
                    self.over.set(true);
                    return Ok(Some(*outcome));
                }
                Some(Err(reason)) if reason.starts_with(DISMISSED) => {
                    self.waits[process].set(Some(true));
                    return Ok(None);
                }
                // Once copies become equal nobody can leave, and whoever does ends the run.
                Some(Err(reason)) if reason.contains(GIVEN_UP) && self.may_end_early() => {
                    self.over.set(true);
                    return Err(GIVEN_UP.into());
                }
                // So does a server that has lost its disk while nobody can give it a copy.
                Some(Err(reason)) if reason.contains(COPY_LOST) && self.disks_lost.get() > 0 => {
                    self.over.set(true);
                    return Err(COPY_LOST.into());
                }
                Some(_) | None if place.is_gone() => {}
                other => return Err(format!("{nodes:?} ended with {other:?}")),
            }
            if nodes[0].dc().is_some_and(|dc| self.left.borrow().contains(&dc)) {
                self.waits[process].set(Some(true));
                return Ok(None);
            }
            let (after, moves) = self.returns[process].get();
            if after == FOR_GOOD {
                self.waits[process].set(Some(true));
                return Ok(None);
            }
            sleep(after).await;
            if self.over.get() {
                self.waits[process].set(None);
                return Ok(None);
            }
            if moves && nodes[0] != NodeId::Coordinator {
                port = self.world.port();
            }
            self.restarts.set(self.restarts.get() + 1);
            self.waits[process].set(Some(true));
            let behind = self.behind[process].get();
            self.places[process].replace(self.world.place(dc_of(nodes[0]), behind));
        }
    }

    async fn part(
        &self,
        nodes: &[NodeId],
        place: &Arc<Place>,
        port: u16,
    ) -> Result<NodeEnd, String> {
        let options = NodeOptions {
            nodes: nodes.to_vec(),
            certificates: self.certificates.path().join(CERTIFICATES),
            listen: Some(Network::address(dc_of(nodes[0]), port)),
            coordinator: self.coordinator_address().to_string().parse().ok(),
            state: Some(self.folder.path().to_owned()),
            interrupted: None,
            ends_with_stdin: false,
            telemetry: Telemetry::new(),
        };

        let application: Arc<dyn Application> = self.application.clone();
        let environment = Arc::new(Standing(place.clone()));
        let mut told = Told { taken_over: &self.taken_over, given_back: &self.given_back };
        let ended =
            take_part(&self.drawn.plan, &application, &options, &mut told, environment).await;

        ended.map_err(|error| error.to_string())
    }

    /// Where processes listen until they move.
    fn listening(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let processes = self.drawn.processes.iter().enumerate();
        processes
            .map(|(process, nodes)| Network::address(dc_of(nodes[0]), PORT_MIN + process as u16))
    }

    fn coordinator_address(&self) -> SocketAddr {
        Network::address(DcId(0), PORT_MIN + self.drawn.processes.len() as u16 - 1)
    }

    async fn befall(&self, began: Instant, trouble: Trouble, mut chance: Random) {
        let Trouble { at, lasts, what } = trouble;
        sleep_until(began + at).await;
        let network = &self.world.network;
        match what {
            What::Cut { from, to, one_way } => {
                let sever = |severed| match one_way {
                    true => network.sever_one_way(from, to, severed),
                    false => network.sever(from, to, severed),
                };
                sever(true);
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
            What::Kill { .. } | What::LoseDisk { .. } if self.over.get() => {}
            What::LoseDisk { process, behind } => self.lose_disk(process, lasts, behind).await,
            What::Leave { dc } => {
                // Before a run has begun, whoever is not there is waited for.
                while !self.application.has_begun() {
                    sleep(LOOK_EVERY).await;
                }
                self.left.borrow_mut().insert(dc);
                for (nodes, place) in self.drawn.processes.iter().zip(&self.places) {
                    if nodes[0].dc() == Some(dc) {
                        place.borrow().die();
                    }
                }
            }
            What::Silence { process } => {
                // It may find nobody any more who tells it of the end.
                self.waits[process].set(self.waits[process].get().map(|_| true));
                let place = self.places[process].borrow().clone();
                place.part_from(Some(self.coordinator_address()));
                sleep(lasts).await;
                place.part_from(None);
            }
            What::Kill { process, write, moves } => {
                if let NodeId::Worker(worker) = self.drawn.processes[process][0]
                    && lasts == FOR_GOOD
                {
                    // One that never came would be waited for.
                    while !self.application.has_worked(&self.drawn.plan, worker) {
                        sleep(LOOK_EVERY).await;
                    }
                }
                self.returns[process].set((lasts, moves));
                let place = self.places[process].borrow().clone();
                match (write, place.disks().first()) {
                    (Some((writes, moment)), Some(files)) => {
                        files.lock().unwrap().doom(writes, moment);
                        sleep(lasts).await;
                        files.lock().unwrap().spare();
                    }
                    _ => {
                        place.die();
                        for files in place.disks() {
                            if self.drawn.plan.log.sync == LogSync::Always {
                                files.lock().unwrap().crash(&mut chance);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Kills a process, which comes back with an empty disk, unless its data center has left or joins late.
    async fn lose_disk(&self, process: usize, lasts: Duration, behind: Duration) {
        let nodes = &self.drawn.processes[process];
        let joins_late = self.drawn.joins.is_some_and(|(dc, _)| nodes[0].dc() == Some(dc));

        // Before a run has begun there is nothing to lose.
        while !self.application.has_begun() {
            sleep(LOOK_EVERY).await;
        }
        if joins_late || nodes[0].dc().is_some_and(|dc| self.left.borrow().contains(&dc)) {
            return;
        }

        self.returns[process].set((lasts, false));
        self.behind[process].set(behind);
        self.places[process].borrow().die();
        if nodes[0] == NodeId::Coordinator {
            std::fs::remove_file(self.folder.path().join(COORDINATOR)).unwrap();
        }
        for label in labels(&self.drawn.plan, nodes) {
            let folder = self.folder.path().join(label);
            self.world.lose_disks(&folder);
            // Where no checkpoint was written there is none.
            let _none = std::fs::remove_dir_all(folder);
        }
        self.disks_lost.set(self.disks_lost.get() + 1);
    }

    /// Whether it has been drawn that a data center leaves.
    fn may_end_early(&self) -> bool {
        self.drawn.troubles.iter().any(|trouble| matches!(trouble.what, What::Leave { .. }))
    }

    /// The clocks at which workers have stopped, as the coordinator has written down.
    fn stopped(&self) -> Result<BTreeMap<WorkerId, Clock>, String> {
        let application: Arc<dyn Application> = self.application.clone();
        let hash = Blueprint::new(&self.drawn.plan, &application).plan_hash;
        let file = StateFile::new(&self.folder.path().join(COORDINATOR), hash);
        let state = file.and_then(|file| file.read()).map_err(|error| error.to_string())?;
        let record = state.as_ref().and_then(|state| state.records.get("coordinator.stopped"));
        let record = record.ok_or("the coordinator has not written down who stopped")?;
        rmp_serde::from_slice(record).map_err(|error| error.to_string())
    }

    /// Whether the copies are what they must be; says whether there is a sum that they must be.
    fn check(&self, outcome: &Outcome) -> Result<bool, String> {
        if !outcome.summary.copies_equal {
            return Err("copies differ after the drain".into());
        }

        // What was not sent is gone with a data center or a disk, and nobody saw when one began that joined.
        let is_whole = outcome.summary.membership.is_empty() && self.disks_lost.get() == 0;
        let Some(tolerance) = tolerance(&self.drawn.plan).filter(|_| is_whole) else {
            return Ok(false);
        };
        let total = self.application.total(&self.drawn.plan, &self.stopped()?);
        let values = outcome.highlights.iter().map(|value| value.parse::<f64>());

        for (place, (value, due)) in values.zip(total).enumerate() {
            let value = value.map_err(|error| error.to_string())?;
            if (value - due).abs() > tolerance * (1.0 + value.abs().max(due.abs())) {
                let remote = self.drawn.plan.remote.name();
                return Err(format!("{remote}: parameter {place} is {value} where {due} was due"));
            }
        }

        Ok(true)
    }
}

/// How far copies may be from the sum of all updates; nothing where they are something else.
fn tolerance(plan: &Plan) -> Option<f64> {
    // What an exchange may still keep at the end: one rounding of what changes in a clock.
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

/// Where a process runs: the coordinator beside the first data center.
fn dc_of(node: NodeId) -> DcId {
    node.dc().unwrap_or(DcId(0))
}

/// What logs say of the time.
pub(super) struct VirtualTime;

impl FormatTime for VirtualTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let began = BEGAN.with(|began| *began.borrow());
        write!(writer, "{:.3}", began.map_or(0.0, |began| began.elapsed().as_secs_f64()))
    }
}

thread_local! {
    /// When the run of this thread did.
    static BEGAN: RefCell<Option<Instant>> = const { RefCell::new(None) };
}

/// Counts what coordinators tell of workers.
struct Told<'a> {
    taken_over: &'a Cell<u64>,
    given_back: &'a Cell<u64>,
}

impl Observer for Told<'_> {
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

/// What a process says that takes no part any more, and a coordinator that cannot do without one.
const DISMISSED: &str = "this node takes no part";
const GIVEN_UP: &str = "was away for 12 s";
const COPY_LOST: &str = "cannot take another's";
const LOOK_EVERY: Duration = Duration::from_millis(10);

const PORT_MIN: u16 = 5_000;

/// No run takes longer in virtual time.
const LASTS_MAX: Duration = Duration::from_secs(60);

/// How long after the coordinator everyone else has ended.
const HEARS_MAX: Duration = Duration::from_secs(30);

/// Of sums of single precision.
const ROUNDING: f64 = 1e-4;
