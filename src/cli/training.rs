//! One training run as the verbs see it: from a plan to a directory that holds everything about it.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::trivial::trivial;
use super::{Failure, LogFormat, OutputFlags, Terminal};
use gaia_checkpoint::{Keeper, LogFolder};
use gaia_config::{DriverKind, Plan};
use gaia_core::application::Application;
use gaia_driver::real::NodeFiles;
use gaia_driver::{Ending, Outcome, RunError, RunOptions};
use gaia_report::{
    DcPlan, Live, LiveMode, LivePlan, Paint, Recorder, RunDirectory, highlights_block, run_block,
    write_run,
};
use gaia_telemetry::{Observer, Summary};
use tracing::warn;

/// Shows the result of a run: its figures, its main files and what the model has learnt.
pub(super) fn show_result(
    summary: &Summary,
    highlights: &[String],
    directory: &RunDirectory,
    terminal: &Terminal,
) {
    let paint = Paint::for_stdout();
    let block =
        run_block(summary, &directory.main_files(), paint) + &highlights_block(highlights, paint);
    terminal.line(block.trim_end());
    terminal.result(summary);
}

/// Runs a plan, shows how it goes, and writes its files. A first signal to end makes it end in order. `program` is the
/// command that starts nodes, if it is not the running program.
///
/// Where the run fails, `progress.jsonl` keeps what it had reached.
pub(super) fn carry_out(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    output: &OutputFlags,
    interrupted: Arc<AtomicBool>,
    program: Option<Vec<OsString>>,
) -> Result<Outcome, Failure> {
    // Two processes must not write the same files.
    let states = (plan.driver == DriverKind::Real).then(|| directory.node_states());
    let _locked = states.map(|states| LogFolder::open(&states)).transpose()?;

    let options = RunOptions { interrupted: Some(interrupted), program, ..RunOptions::default() };
    let files = NodeFiles {
        states: directory.node_states(),
        logs: directory.node_logs(),
        models: directory.kept_models(),
        json: output.verbosity.log == LogFormat::Json,
    };

    let outcome = carry_out_with(plan, application, directory, output, |observer| {
        gaia_driver::run_logged(plan, application, &options, observer, &files)
    })?;
    // Until its files are written, a run can be continued.
    if let Err(error) = directory.remove_node_states() {
        warn!("{error}");
    }
    Ok(outcome)
}

/// The same, with something else that runs the plan.
pub(super) fn carry_out_with(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    output: &OutputFlags,
    run: impl FnOnce(&mut dyn Observer) -> Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    directory.write("run.toml", plan.to_toml())?;
    let mut recorder = recorder(plan, application.as_ref(), directory, output)?;
    let outcome = run(&mut recorder);
    finish(directory, plan, application.as_ref(), recorder, outcome)
}

/// As [`carry_out`], with checkpoints. If the run continues from one, `progress.jsonl` is rewritten from its contents.
pub(super) fn carry_out_kept(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    output: &OutputFlags,
    keeper: &mut Keeper,
) -> Result<Ending, Failure> {
    directory.write("run.toml", plan.to_toml())?;
    let mut recorder = recorder(plan, application.as_ref(), directory, output)?;
    match gaia_driver::run_kept(plan, application, &mut recorder, keeper) {
        Ok(Ending::Finished(outcome)) => {
            let outcome = finish(directory, plan, application.as_ref(), recorder, Ok(*outcome))?;
            Ok(Ending::Finished(Box::new(outcome)))
        }
        Ok(Ending::Interrupted { clock, checkpoint, outcome }) => {
            let outcome =
                Box::new(finish(directory, plan, application.as_ref(), recorder, Ok(*outcome))?);
            Ok(Ending::Interrupted { clock, checkpoint, outcome })
        }
        Err(error) => {
            recorder.finish()?;
            Err(Failure::run(error))
        }
    }
}

fn recorder(
    plan: &Plan,
    application: &dyn Application,
    directory: &RunDirectory,
    output: &OutputFlags,
) -> Result<Recorder, Failure> {
    let live = Live::new(live_mode(output), live_plan(plan, application));
    Ok(Recorder::new(directory, live)?)
}

/// How progress is shown. A log that machines read is not mixed with lines for people.
pub(super) fn live_mode(output: &OutputFlags) -> LiveMode {
    LiveMode::detect(output.verbosity.quiet || output.verbosity.log == LogFormat::Json)
}

/// Ends the view of a run that is over, and writes its files where it came to its end.
fn finish(
    directory: &RunDirectory,
    plan: &Plan,
    application: &dyn Application,
    recorder: Recorder,
    outcome: Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let progress = recorder.finish()?;
    let mut outcome = Outcome { progress, ..outcome.map_err(Failure::run)? };
    outcome.summary.trivial = trivial(application, outcome.summary.metric.value);
    let Outcome { summary, progress, highlights, .. } = &outcome;
    directory.write_model(&outcome.model_files(plan))?;
    write_run(directory, &plan.to_toml(), progress, summary, highlights)?;
    outcome.check().map_err(Failure::run)?;
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
