//! The parallel execution of runs, with notifications.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "people wait for these runs"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::EvaluationError;
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_report::paper::SpeedRow;
use gaia_report::{EndedRun, EndedRuns};
use gaia_telemetry::{Progress, Summary, Unobserved};

/// A receiver of the progress of an evaluation. It is called from several threads.
pub trait Watch: Sync {
    /// Called when a run has ended.
    fn on_run(&self, step: &Step<'_>);
}

/// The progress of an evaluation when a run has ended.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The name of the run that has ended.
    pub run: &'a str,
    /// The results of that run.
    pub summary: &'a Summary,
    /// The number of runs that have ended.
    pub done: usize,
    /// The number of all runs that are known so far.
    pub expected: usize,
    /// The time since the evaluation began.
    pub elapsed: Duration,
}

impl Step<'_> {
    /// The estimated remaining time, at the rate so far.
    pub fn left(&self) -> Duration {
        let rest = self.expected.saturating_sub(self.done) as f64;
        self.elapsed.mul_f64(rest / self.done.max(1) as f64)
    }
}

/// A run that has ended, with its plan.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) plan: Plan,
    pub(super) summary: Summary,
    pub(super) progress: Vec<Progress>,
}

/// Executes runs and notifies the receiver.
pub(super) struct Bench<'w> {
    watch: &'w dyn Watch,
    /// The runs that need not be executed again. `None` where nothing is kept.
    ended: Option<&'w EndedRuns>,
    /// Applications by their configuration and number of workers, because many runs share them.
    applications: Mutex<BTreeMap<String, Arc<dyn Application>>>,
    expected: AtomicUsize,
    done: AtomicUsize,
    began: Instant,
}

impl<'w> Bench<'w> {
    pub(super) fn new(watch: &'w dyn Watch, ended: Option<&'w EndedRuns>) -> Self {
        Self {
            watch,
            ended,
            applications: Mutex::default(),
            expected: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    /// Adds a number of runs to those that are expected.
    pub(super) fn expect(&self, runs: usize) {
        self.expected.fetch_add(runs, Ordering::Relaxed);
    }

    /// The application of a plan, with its data partitioned over the plan's workers.
    pub(super) fn application(&self, plan: &Plan) -> Result<Arc<dyn Application>, EvaluationError> {
        let homes = plan.topology.data_homes();
        let key = format!("{} {} {:?}", plan.seed.0, plan.topology.workers(), plan.app);
        // Locked while the data is generated: a second run of the same application waits for it.
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(application) = known.get(&key) {
            return Ok(application.clone());
        }
        let built = gaia_data::build(plan.app.as_ref(), &homes, plan.seed);
        let application =
            built.map_err(|error| EvaluationError::Data { run: plan.name.clone(), error })?;
        known.insert(key, application.clone());
        Ok(application)
    }

    /// Executes a run and notifies the receiver.
    pub(super) fn run(&self, plan: &Plan) -> Result<Finished, EvaluationError> {
        let finished = self.probe(plan)?;
        self.announce(&finished);
        Ok(finished)
    }

    /// Executes a run of an application and notifies the receiver. Nothing of it is kept.
    pub(super) fn run_of(
        &self,
        plan: &Plan,
        application: &Arc<dyn Application>,
    ) -> Result<Finished, EvaluationError> {
        let finished = execute(plan, application)?;
        self.announce(&finished);
        Ok(finished)
    }

    /// Executes a run without a notification, unless it has ended in an earlier evaluation.
    pub(super) fn probe(&self, plan: &Plan) -> Result<Finished, EvaluationError> {
        let application = self.application(plan)?;
        if let Some(finished) = self.ended_before(plan, application.as_ref()) {
            return Ok(finished);
        }
        let finished = execute(plan, &application)?;
        if let Some(ended) = self.ended {
            let Finished { summary, progress, .. } = finished.clone();
            ended.add(&EndedRun { run_toml: plan.to_toml(), summary, progress })?;
        }
        Ok(finished)
    }

    /// What the run of this plan came to in an earlier evaluation by the same version of the program, with the same data.
    fn ended_before(&self, plan: &Plan, application: &dyn Application) -> Option<Finished> {
        let EndedRun { summary, progress, .. } = self.ended?.of(&plan.to_toml())?;
        let is_same = summary.version == env!("CARGO_PKG_VERSION")
            && summary.trained_on == application.describe()
            && summary.data_digest == gaia_driver::data_digest(application);
        is_same.then(|| Finished {
            plan: plan.clone(),
            summary: summary.clone(),
            progress: progress.clone(),
        })
    }

    fn announce(&self, finished: &Finished) {
        let done = 1 + self.done.fetch_add(1, Ordering::Relaxed);
        self.watch.on_run(&Step {
            run: &finished.plan.name,
            summary: &finished.summary,
            done,
            expected: self.expected.load(Ordering::Relaxed).max(done),
            elapsed: self.began.elapsed(),
        });
    }
}

fn execute(plan: &Plan, application: &Arc<dyn Application>) -> Result<Finished, EvaluationError> {
    let outcome = gaia_driver::run(plan, application, &mut Unobserved);
    let outcome =
        outcome.map_err(|error| EvaluationError::Run { run: plan.name.clone(), error })?;
    let (summary, progress) = (outcome.summary, outcome.progress);
    Ok(Finished { plan: plan.clone(), summary, progress })
}

impl Finished {
    pub(super) fn speed(&self) -> SpeedRow {
        SpeedRow {
            run: self.plan.name.clone(),
            virtual_seconds: self.summary.time_s,
            wall_seconds: self.summary.wall_s,
            frames: self.summary.links.iter().map(|link| link.frames).sum(),
        }
    }

    /// The time in seconds and the objective of the worst copy, at each evaluation.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        self.progress.iter().map(|progress| (progress.time_s, progress.objective)).collect()
    }
}

/// Calls `work` for each job, on as many threads as there are processors, and returns the results in the order of the
/// jobs. After a failure no further job begins.
pub(super) fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R, EvaluationError> + Sync,
) -> Result<Vec<R>, EvaluationError> {
    gaia_driver::in_parallel(jobs, gaia_driver::processors(), work)
}
