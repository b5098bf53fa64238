//! Runs whose training diverges: they end, say so, and name the worker whose changes showed it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod clusters;

use std::ops::Range;
use std::sync::Arc;

use clusters::{app_of, plan, triangle, two_groups};
use gaia_config::{DriverKind, Plan};
use gaia_core::application::{Application, ApplicationError, EvaluationSums, Metric, Task, Work};
use gaia_core::sync::{
    AspConfig, BspConfig, OutlierAction, OutlierConfig, OverlayKind, RemoteSync,
};
use gaia_core::topology::Topology;
use gaia_core::types::{
    Clock, Deltas, Model, ModelLayout, Restorer, RowSet, Saved, Saver, Seed, StateError,
};
use gaia_driver::{Outcome, RunError, run};
use gaia_telemetry::{Observer, Progress};

/// What goes wrong.
#[derive(Clone, Copy)]
enum Spoilt {
    /// The last worker's change to a parameter, at clock 7.
    Change(f32),
    /// The objective, at every evaluation.
    Objective,
}

/// An application in which something goes wrong.
struct Spoiling {
    inner: Arc<dyn Application>,
    workers: usize,
    spoilt: Spoilt,
}

struct SpoilingTask {
    inner: Box<dyn Task>,
    value: Option<f32>,
}

impl Application for Spoiling {
    fn layout(&self) -> &Arc<ModelLayout> {
        self.inner.layout()
    }

    fn initial_model(&self, seed: Seed) -> Model {
        self.inner.initial_model(seed)
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let value = match self.spoilt {
            Spoilt::Change(value) if worker + 1 == self.workers => Some(value),
            _ => None,
        };
        Box::new(SpoilingTask { inner: self.inner.task(worker, seed), value })
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        let mut found = self.inner.sums(model, workers)?;
        if let Spoilt::Objective = self.spoilt {
            found.objective.sum = f64::NAN;
        }
        Ok(found)
    }

    fn metric(&self) -> Metric {
        self.inner.metric()
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.inner.learning_rate_factor(clock)
    }

    fn clocks_per_pass(&self) -> u64 {
        self.inner.clocks_per_pass()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl Task for SpoilingTask {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.inner.rows(clock)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let (mut deltas, work) = self.inner.iterate(clock, model)?;
        if let Some(value) = self.value.filter(|_| clock == Clock(7)) {
            deltas.tables[0].values[0] = value;
        }
        Ok((deltas, work))
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        self.inner.probe(model, examples)
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        self.inner.save(walk)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        self.inner.restore(walk)
    }
}

struct Nobody;

impl Observer for Nobody {
    fn on_progress(&mut self, _: &Progress) {}
}

fn outcome(driver: DriverKind, topology: Topology, remote: RemoteSync, spoilt: Spoilt) -> Outcome {
    let plan = Plan { driver, ..plan(topology, remote) };
    outcome_of(&plan, spoilt)
}

fn outcome_of(plan: &Plan, spoilt: Spoilt) -> Outcome {
    let workers = plan.topology.workers();
    let application: Arc<dyn Application> =
        Arc::new(Spoiling { inner: app_of(plan), workers, spoilt });
    run(plan, &application, &mut Nobody).unwrap()
}

fn asp(overlay: OverlayKind) -> RemoteSync {
    RemoteSync::Asp(AspConfig { overlay, ..AspConfig::default() })
}

#[test]
fn a_run_ends_with_the_name_of_the_worker_whose_changes_diverge() {
    let (simulated, mesh) = (DriverKind::Simulated, OverlayKind::Mesh);
    let bsp = RemoteSync::Bsp(BspConfig::default());
    let three = || triangle(50.0, 20);
    let runs = [
        (simulated, three(), asp(mesh), "tokyo"),
        (simulated, three(), bsp, "tokyo"),
        (simulated, two_groups(50.0, 20), asp(OverlayKind::Groups), "frankfurt"),
        (DriverKind::Emulated, three(), asp(mesh), "tokyo"),
    ];
    for (driver, topology, remote, last) in runs {
        for value in [f32::NAN, 1e38] {
            let spoilt = Spoilt::Change(value);
            let outcome = outcome(driver, topology.clone(), remote.clone(), spoilt);
            let summary = &outcome.summary;
            assert_eq!(summary.stopped_by, "diverged");
            assert!(summary.clocks < 50, "the run ends early: {}", summary.clocks);
            assert!(summary.copies_equal && summary.objective.is_finite(), "nobody is poisoned");

            let refused = outcome.check_sound();
            let Err(RunError::Diverged { reason }) = refused else { panic!("{refused:?}") };
            let named = reason.starts_with(&format!("worker 1 of {last} changed row 0 of table"));
            assert!(named && reason.ends_with("at clock 7"), "{reason}");
        }
    }
}

#[test]
fn a_run_whose_objective_is_no_number_is_not_sound() {
    let outcome = outcome(
        DriverKind::Simulated,
        triangle(50.0, 20),
        asp(OverlayKind::Mesh),
        Spoilt::Objective,
    );
    assert_eq!(outcome.summary.stopped_by, "diverged");
    let refused = outcome.check_sound().unwrap_err();
    assert_eq!(refused.to_string(), "training has diverged: the objective is not finite");
}

/// One change of a million in a million spoils a model, and is no divergence.
#[test]
fn a_run_with_limits_learns_what_it_learns_without_the_outlier_and_names_its_worker() {
    let spoilt = Spoilt::Change(1e6);
    let plan = plan(triangle(50.0, 20), asp(OverlayKind::Mesh));
    let honest = run(&plan, &app_of(&plan), &mut Nobody).unwrap().summary;
    assert!(outcome_of(&plan, spoilt).summary.objective > 10.0 * honest.objective);

    for driver in [DriverKind::Simulated, DriverKind::Emulated] {
        for action in [OutlierAction::Clip, OutlierAction::Refuse] {
            for (norm_max, median_times) in [(Some(3.0), None), (None, Some(20.0))] {
                let outliers = Some(OutlierConfig { norm_max, median_times, action });
                let limited = Plan { driver, outliers, ..plan.clone() };
                let summary = outcome_of(&limited, spoilt).summary;
                let [found] = summary.outliers.as_slice() else {
                    panic!("{:?} of {outliers:?}", summary.outliers)
                };
                assert_eq!((found.worker.as_str(), found.updates), ("tokyo/worker-1", 1));
                assert!(found.norm_max >= 1e6 && summary.copies_equal, "{found:?}");
                let objective = summary.objective;
                assert!(objective < 1.5 * honest.objective, "{objective} of {outliers:?}");
            }
        }
    }
}
