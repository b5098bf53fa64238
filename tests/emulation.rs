//! Whole runs over real QUIC in this process, small enough for a few seconds in all.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the emulated driver runs in real time"
)]

mod clusters;
mod real_data;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use clusters::{app_of, plan, triangle, two_groups};
use gaia_config::{ComputeModel, DriverKind, Plan};
use gaia_core::application::{Application, ApplicationError, EvaluationSums, Metric, Task, Work};
use gaia_core::coordinator::StopRules;
use gaia_core::sync::{
    AspConfig, BlockShares, LocalSync, OverlayKind, RemoteSync, SspConfig, ValueFormat,
};
use gaia_core::types::{
    Clock, DcId, Deltas, Model, ModelLayout, Restorer, RowSet, Saved, Saver, Seed, Staleness,
    StateError,
};
use gaia_driver::{Outcome, RunError, RunOptions, run_with};
use gaia_ml::apps::{AppConfig, ImageSource, SoftmaxRegressionConfig};
use gaia_ml::optimizer::Optimizer;
use gaia_telemetry::{Observer, Progress};
use real_data::real_data;

#[test]
fn every_remote_model_reaches_its_target_and_ends_with_equal_copies() {
    for remote in remotes() {
        let mut plan = plan(triangle(20.0, 10), remote);
        plan.stop = StopRules { objective: Some(0.7), clocks: Some(300), ..StopRules::default() };
        let summary = run(&plan).summary;
        let name = plan.remote.name();
        assert_eq!(summary.stopped_by, "objective", "{name}");
        assert!(summary.time_to_target_s.is_some() && summary.objective < 0.71, "{name}");
        assert!(summary.copies_equal, "{name}");
    }
}

#[test]
fn data_centers_of_several_servers_and_workers_agree_over_a_lossy_wan() {
    for remote in [RemoteSync::Bsp(Default::default()), RemoteSync::Asp(Default::default())] {
        let mut topology = triangle(20.0, 10);
        topology.data_centers.iter_mut().for_each(|dc| (dc.servers, dc.workers) = (3, 3));
        topology.data_centers[1].workers = 1;
        topology.links.iter_mut().for_each(|link| link.loss = 0.01);
        let mut plan = plan(topology, remote);
        plan.local = LocalSync::Ssp { staleness: Staleness(1) };
        plan.stop.clocks = Some(30);
        let summary = run(&plan).summary;
        assert!(summary.copies_equal);
        assert!(summary.clocks >= 30 && summary.objective < 1.0, "{}", summary.objective);
        assert_eq!((summary.servers, summary.workers), (9, 7));
    }
}

#[test]
fn data_centers_in_groups_agree_though_only_hubs_cross_over() {
    const HUBS: [&str; 2] = ["oregon", "ireland"];
    const CLIQUES: [[&str; 2]; 3] = [["oregon", "california"], ["ireland", "frankfurt"], HUBS];
    let asp = AspConfig { overlay: OverlayKind::Groups, ..AspConfig::default() };
    let plan = plan(two_groups(20.0, 10), RemoteSync::Asp(asp));
    let summary = run(&plan).summary;
    assert!(summary.copies_equal && summary.objective < 1.0, "{}", summary.objective);
    for link in &summary.links {
        let ends = [link.from.as_str(), link.to.as_str()];
        let neighbours = CLIQUES.iter().any(|clique| ends.iter().all(|end| clique.contains(end)));
        assert_eq!(link.updates > 0, neighbours, "{ends:?}");
        assert_eq!(link.relayed_bytes > 0, neighbours && HUBS.contains(&ends[0]), "{ends:?}");
    }
}

#[test]
fn one_data_center_needs_no_wan() {
    for remote in remotes() {
        let mut plan = plan(triangle(20.0, 10).collapsed(), remote);
        plan.compute.clock_overhead.0 = Duration::ZERO;
        plan.stop.clocks = Some(100);
        let summary = run(&plan).summary;
        assert_eq!((summary.wan_bytes, summary.data_centers.len()), (0, 1));
        assert!(summary.lan_bytes > 0 && summary.copies_equal && summary.clocks >= 100);
    }
}

/// A stop is decided on what has been reported and reaches data centers while they go on. Those that must all end at
/// one clock had stopped at different ones, and their drain waited for ever for clocks that never came.
#[test]
fn a_late_stop_ends_where_the_furthest_worker_is() {
    let (values, blocks) = (ValueFormat::F32, BlockShares::default());
    let ssp = SspConfig { staleness: Staleness(2), values, blocks };
    for remote in [RemoteSync::Ssp(ssp), RemoteSync::Bsp(Default::default())] {
        let mut plan = plan(triangle(100.0, 2), remote);
        plan.local = LocalSync::Ssp { staleness: Staleness(1) };
        plan.compute.slowdown.set(&plan.topology, DcId(2), 2.0);
        plan.evaluate.every = 1 << 40;
        // The second tick comes after 0.25 s and keeps the conductor beyond the end.
        plan.stop = StopRules { seconds: Some(0.3), ..StopRules::default() };
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let mut watch = Watch { tick_time: Duration::from_millis(200), ..Watch::default() };
            let outcome = gaia_driver::run(&plan, &app_of(&plan), &mut watch);
            ended.send(outcome).expect("the test waits");
        });
        let outcome = end.recv_timeout(Duration::from_secs(60)).expect("the drain ends");
        let summary = outcome.expect("a run").summary;
        assert_eq!((summary.stopped_by.as_str(), summary.copies_equal), ("seconds", true));
    }
}

#[test]
fn a_run_ends_when_its_seconds_are_over() {
    let mut plan = plan(triangle(20.0, 10), RemoteSync::Asp(Default::default()));
    plan.stop = StopRules { seconds: Some(0.5), ..StopRules::default() };
    let summary = run(&plan).summary;
    assert_eq!((summary.stopped_by.as_str(), summary.converged), ("seconds", false));
    assert!(summary.time_s >= 0.5 && summary.copies_equal);
}

/// Interrupts the run at its first evaluation.
struct Interrupts(Arc<AtomicBool>);

impl Observer for Interrupts {
    fn on_progress(&mut self, _: &Progress) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_interrupted_run_ends_in_order_in_this_process() {
    for driver in [DriverKind::Emulated, DriverKind::Simulated] {
        for remote in remotes() {
            let mut plan = plan(triangle(20.0, 10), remote);
            plan.driver = driver;
            plan.stop = StopRules { clocks: Some(1_000_000), ..StopRules::default() };
            let interrupted = Arc::new(AtomicBool::new(false));
            let options =
                RunOptions { interrupted: Some(interrupted.clone()), ..RunOptions::default() };
            let outcome =
                run_with(&plan, &app_of(&plan), &options, &mut Interrupts(interrupted)).unwrap();
            let summary = outcome.summary;
            let name = plan.remote.name();
            assert_eq!((summary.stopped_by.as_str(), summary.converged), ("interrupted", false));
            assert!(summary.copies_equal && summary.clocks > 0, "{driver:?} {name}");
        }
    }
}

#[test]
fn a_slow_judge_neither_stops_the_run_nor_misses_its_last_clock() {
    let mut plan = plan(triangle(20.0, 10), RemoteSync::Asp(Default::default()));
    plan.evaluate.every = 1;
    plan.stop.clocks = Some(40);
    let application =
        Arc::new(Spoilt { evaluation: Duration::from_millis(70), ..Spoilt::of(&plan) });
    let outcome = run_of(&plan, application).expect("a run");
    let judged: Vec<u64> = outcome.progress.iter().map(|progress| progress.clock).collect();
    assert!(judged.len() < 40 && judged.last() >= Some(&40), "{judged:?}");
    assert!(judged.windows(2).all(|pair| pair[0] < pair[1]), "{judged:?}");
    assert_eq!(outcome.summary.stopped_by, "clocks");
}

#[test]
fn an_iteration_that_panics_fails_the_run_with_its_message() {
    let plan = plan(triangle(20.0, 10), RemoteSync::Bsp(Default::default()));
    let application = Arc::new(Spoilt { panics_at: Some(Clock(3)), ..Spoilt::of(&plan) });
    let started = Instant::now();
    let error = run_of(&plan, application.clone()).expect_err("a panic");
    assert!(matches!(error, RunError::Panicked { .. }), "{error}");
    assert_eq!(error.to_string(), "dc1/worker0 panicked: the data is spoilt");
    assert!(started.elapsed() < Duration::from_secs(20));
    // Whatever holds a node of the run holds the application too.
    let deadline = Instant::now() + Duration::from_secs(10);
    while Arc::strong_count(&application) > 1 {
        assert!(Instant::now() < deadline, "a part of the run goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// In every driver of one process.
#[test]
fn a_task_that_cannot_go_on_ends_the_run_with_its_reason() {
    for driver in [DriverKind::Emulated, DriverKind::Simulated] {
        let mut plan = plan(triangle(20.0, 10), RemoteSync::Asp(Default::default()));
        plan.driver = driver;
        let application = Arc::new(Spoilt { fails_at: Some(Clock(3)), ..Spoilt::of(&plan) });
        let application: Arc<dyn Application> = application;
        let run = gaia_driver::run(&plan, &application, &mut Watch::default());
        let error = run.expect_err("a failure");
        assert!(matches!(error, RunError::Task { .. }), "{error}");
        assert_eq!(error.to_string(), "dc1/worker0: the data is gone");
    }
}

/// In every driver of one process.
#[test]
fn an_evaluation_that_fails_ends_the_run_with_its_reason() {
    for driver in [DriverKind::Emulated, DriverKind::Simulated] {
        let mut plan = plan(triangle(20.0, 10), RemoteSync::Asp(Default::default()));
        plan.driver = driver;
        let application: Arc<dyn Application> =
            Arc::new(Spoilt { judge_fails: true, ..Spoilt::of(&plan) });
        let run = gaia_driver::run(&plan, &application, &mut Watch::default());
        let error = run.expect_err("a failure");
        assert!(matches!(error, RunError::Evaluation(_)), "{error}");
        assert_eq!(error.to_string(), "evaluating the copies: the data is gone");
    }
}

#[test]
fn an_evaluation_that_panics_fails_the_run_with_its_message() {
    let plan = plan(triangle(20.0, 10), RemoteSync::Asp(Default::default()));
    let application = Spoilt { judge_panics: true, ..Spoilt::of(&plan) };
    let error = run_of(&plan, Arc::new(application)).expect_err("a panic");
    assert_eq!(error.to_string(), "the evaluation panicked: no verdict");
}

#[test]
fn what_an_observer_sees_goes_forward_and_adds_up() {
    let mut plan = plan(triangle(5.0, 20), RemoteSync::Bsp(Default::default()));
    plan.stop.clocks = Some(20);
    let mut watch = Watch::default();
    let application = app_of(&plan);
    let outcome = gaia_driver::run(&plan, &application, &mut watch).expect("a run");
    assert_eq!(watch.progress, outcome.progress);
    assert!(watch.ticks.len() >= 2);
    assert!(watch.ticks.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", watch.ticks);
    let key = |progress: &Progress| (progress.time_s, progress.clock, progress.wan_bytes);
    let keys: Vec<_> = outcome.progress.iter().map(key).collect();
    assert!(keys.windows(2).all(|pair| pair[0] <= pair[1]), "{keys:?}");
    let summary = outcome.summary;
    let by_link: u64 = summary.links.iter().map(|link| link.bytes).sum();
    assert_eq!(summary.wan_bytes, by_link);
    let model = 4 * summary.parameters as u64;
    // Every clock crosses every link once, in and out of the data center that adds it up.
    let least = model * summary.clocks * 3;
    assert!(summary.wan_bytes > least, "{} {least}", summary.wan_bytes);
    assert!(summary.links.iter().all(|link| link.bytes > 0 && link.utilisation > 0.0));
}

#[test]
fn no_data_center_is_further_ahead_than_its_staleness() {
    let asp = AspConfig { data_center_staleness: Some(Staleness(3)), ..AspConfig::default() };
    let mut plan = plan(triangle(2.0, 30), RemoteSync::Asp(asp));
    plan.compute.slowdown.set(&plan.topology, DcId(1), 4.0);
    plan.stop.clocks = Some(20);
    let summary = run(&plan).summary;
    assert!(summary.blocked_s.mirror_clock > 0.0);
    assert!((1..=3).contains(&summary.clock_lag_max), "{}", summary.clock_lag_max);
}

#[test]
fn handwritten_digits_are_recognised_as_well_over_the_wan_as_on_the_lan() {
    let Some(path) = real_data("mnist") else { return };
    let mut config = SoftmaxRegressionConfig {
        optimizer: Some(Optimizer::Sgd),
        batch: Some(64),
        ..Default::default()
    };
    config.data.source = ImageSource::Idx;
    config.data.path = Some(path);
    let mut plan = plan(triangle(20.0, 30), RemoteSync::Asp(Default::default()));
    plan.app = Some(AppConfig::SoftmaxRegression(config));
    plan.compute.clock_overhead.0 = Duration::from_millis(8);
    plan.stop.clocks = Some(600);
    plan.evaluate.every = 600;
    let application = app_of(&plan);
    let mut lan = Plan { driver: DriverKind::Simulated, ..plan.on_lan() };
    lan.remote = RemoteSync::Bsp(Default::default());
    let wan = gaia_driver::run(&plan, &application, &mut Watch::default()).expect("a run").summary;
    let lan = gaia_driver::run(&lan, &application, &mut Watch::default()).expect("a run").summary;
    println!("accuracy {} over the WAN, {} on the LAN", wan.metric.value, lan.metric.value);
    assert!(lan.metric.value > 0.9);
    assert!((wan.metric.value - lan.metric.value).abs() <= 0.005);
}

fn remotes() -> [RemoteSync; 5] {
    let (values, blocks) = (ValueFormat::F32, BlockShares::default());
    let ssp = SspConfig { staleness: Staleness(1), values, blocks };
    [
        RemoteSync::Bsp(Default::default()),
        RemoteSync::Ssp(ssp),
        RemoteSync::Tap(Default::default()),
        RemoteSync::Asp(Default::default()),
        RemoteSync::LocalSteps(Default::default()),
    ]
}

fn run(plan: &Plan) -> Outcome {
    run_of(plan, app_of(plan)).expect("a run")
}

fn run_of(plan: &Plan, application: Arc<dyn Application>) -> Result<Outcome, RunError> {
    assert_eq!((plan.driver, plan.compute.model), (DriverKind::Emulated, ComputeModel::Cost));
    gaia_driver::run(plan, &application, &mut Watch::default())
}

/// An observer that keeps what it saw.
#[derive(Default)]
struct Watch {
    progress: Vec<Progress>,
    ticks: Vec<(f64, Vec<u64>, Vec<u64>)>,
    /// How long it looks at a tick.
    tick_time: Duration,
}

impl Observer for Watch {
    fn on_progress(&mut self, progress: &Progress) {
        self.progress.push(progress.clone());
    }

    fn on_tick(&mut self, time_s: f64, clocks: &[Option<u64>], wan_sent_bytes: &[u64]) {
        self.ticks.push((
            time_s,
            clocks.iter().flatten().copied().collect(),
            wan_sent_bytes.to_vec(),
        ));
        std::thread::sleep(self.tick_time);
    }
}

/// An application with something wrong.
struct Spoilt {
    sound: Arc<dyn Application>,
    /// Every evaluation takes this much longer.
    evaluation: Duration,
    judge_panics: bool,
    judge_fails: bool,
    /// The clock at which the third worker of the run panics.
    panics_at: Option<Clock>,
    /// The clock at which it cannot go on.
    fails_at: Option<Clock>,
}

struct SpoiltTask {
    sound: Box<dyn Task>,
    panics_at: Option<Clock>,
    fails_at: Option<Clock>,
}

impl Spoilt {
    fn of(plan: &Plan) -> Self {
        let sound = app_of(plan);
        let (panics_at, fails_at) = (None, None);
        let (judge_panics, judge_fails) = (false, false);
        Self { sound, evaluation: Duration::ZERO, judge_panics, judge_fails, panics_at, fails_at }
    }
}

impl Application for Spoilt {
    fn layout(&self) -> &Arc<ModelLayout> {
        self.sound.layout()
    }

    fn initial_model(&self, seed: Seed) -> Model {
        self.sound.initial_model(seed)
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let [panics_at, fails_at] =
            [self.panics_at, self.fails_at].map(|at| at.filter(|_| worker == 2));
        Box::new(SpoiltTask { sound: self.sound.task(worker, seed), panics_at, fails_at })
    }

    fn workers(&self) -> usize {
        self.sound.workers()
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        assert!(!self.judge_panics, "no verdict");
        if self.judge_fails {
            return Err(ApplicationError::new("the data is gone"));
        }
        std::thread::sleep(self.evaluation);
        self.sound.sums(model, workers)
    }

    fn metric(&self) -> Metric {
        self.sound.metric()
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.sound.learning_rate_factor(clock)
    }

    fn clocks_per_pass(&self) -> u64 {
        self.sound.clocks_per_pass()
    }

    fn describe(&self) -> String {
        self.sound.describe()
    }
}

impl Task for SpoiltTask {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.sound.rows(clock)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        assert!(self.panics_at != Some(clock), "the data is spoilt");
        if self.fails_at == Some(clock) {
            return Err(ApplicationError::new("the data is gone"));
        }
        self.sound.iterate(clock, model)
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        self.sound.probe(model, examples)
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        self.sound.save(walk)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        self.sound.restore(walk)
    }
}
