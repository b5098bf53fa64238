//! One training run as the verbs see it: from a plan to a directory that holds everything about it.

use std::sync::Arc;

use super::{Failure, OutputFlags};
use crate::config::Plan;
use crate::driver::{self, Outcome, RunError};
use crate::ml::Application;
use crate::report::{DcPlan, Live, LiveMode, LivePlan, Recorder, RunDirectory, write_run};
use crate::telemetry::Observer;

/// Runs a plan, shows how it goes, and writes its files.
///
/// Where the run fails, `progress.jsonl` keeps what it had reached.
pub(super) fn carry_out(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    output: &OutputFlags,
) -> Result<Outcome, Failure> {
    carry_out_with(plan, application, directory, output, |observer| {
        driver::run(plan, application, observer)
    })
}

/// The same, with something else that runs the plan.
pub(super) fn carry_out_with(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    output: &OutputFlags,
    run: impl FnOnce(&mut dyn Observer) -> Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let run_toml = plan.to_toml();
    directory.write("run.toml", &run_toml)?;
    let live = Live::new(LiveMode::detect(output.quiet), live_plan(plan, application.as_ref()));
    let mut recorder = Recorder::new(directory.progress_log()?, live);
    let outcome = run(&mut recorder);
    let progress = recorder.finish()?;
    let outcome = Outcome { progress, ..outcome.map_err(Failure::run)? };
    let Outcome { summary, progress, highlights } = &outcome;
    write_run(directory, &run_toml, progress, summary, highlights)?;
    Ok(outcome)
}

fn live_plan(plan: &Plan, application: &dyn Application) -> LivePlan {
    let data_centers = plan.topology.data_centers.iter();
    LivePlan {
        title: format!(
            "{}: {} over {}, {}",
            plan.name,
            plan.remote.name(),
            plan.topology.name,
            plan.driver.name()
        ),
        target_objective: plan.stop.objective,
        metric: application.metric().name.into(),
        data_centers: data_centers
            .map(|dc| DcPlan { name: dc.name.clone(), workers: dc.workers })
            .collect(),
    }
}
