//! One training run as the verbs see it: from a plan to a directory that holds everything about it.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::breakdown::breakdown;
use super::initial::initial;
use super::trivial::trivial;
use super::{Failure, LogFormat, OutputFlags, Terminal};
use gaia_checkpoint::{Keeper, LogFolder};
use gaia_config::{DriverKind, Plan};
use gaia_core::application::Application;
use gaia_driver::real::NodeFiles;
use gaia_driver::{Ending, Outcome, RunError, RunOptions};
use gaia_report::{
    Comparison, DcPlan, Live, LiveMode, LivePage, LivePlan, Paint, Recorder, ReportError,
    RunDirectory, RunsView, comparison_block, highlights_block, run_block, write_run,
};
use gaia_telemetry::{InitialRecord, Observer, Summary};
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

/// Shows the result of a comparison that its directory holds.
pub(super) fn show_comparison(
    comparison: &Comparison,
    directory: &RunDirectory,
    terminal: &Terminal,
) {
    let block = comparison_block(comparison, Some(&directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&comparison.file());
}

/// Runs a plan, shows how it goes, and writes its files. A first signal to end makes it end in order. `program` is the
/// command that starts nodes, if it is not the running program.
///
/// Where the run fails, `progress.jsonl` keeps what it had reached.
pub(super) fn carry_out(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    shown: Shown<'_>,
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
        json: shown.output.verbosity.log == LogFormat::Json,
    };

    let outcome = carry_out_with(plan, application, directory, shown, |observer| {
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
    shown: Shown<'_>,
    run: impl FnOnce(&mut dyn Observer) -> Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let initial = initial(plan, application.as_ref());
    let mut recorder = begin(plan, application.as_ref(), directory, shown, initial)?;
    let outcome = run(&mut recorder);
    finish(directory, plan, application.as_ref(), recorder, initial, outcome)
}

/// As [`carry_out`], with checkpoints. If the run continues from one, `progress.jsonl` is rewritten from its contents.
pub(super) fn carry_out_kept(
    plan: &Plan,
    application: &Arc<dyn Application>,
    directory: &RunDirectory,
    shown: Shown<'_>,
    keeper: &mut Keeper,
) -> Result<Ending, Failure> {
    let initial = initial(plan, application.as_ref());
    let mut recorder = begin(plan, application.as_ref(), directory, shown, initial)?;
    let end = |recorder, outcome| {
        finish(directory, plan, application.as_ref(), recorder, initial, Ok(outcome)).map(Box::new)
    };
    match gaia_driver::run_kept(plan, application, &mut recorder, keeper) {
        Ok(Ending::Finished(outcome)) => Ok(Ending::Finished(end(recorder, *outcome)?)),
        Ok(Ending::Interrupted { clock, checkpoint, outcome }) => {
            let outcome = end(recorder, *outcome)?;
            Ok(Ending::Interrupted { clock, checkpoint, outcome })
        }
        Err(error) => {
            recorder.finish().1.map_or(Ok(()), Err)?;
            Err(Failure::run(error))
        }
    }
}

/// Readies the directory, from which the results of an earlier part are removed, and the view of the run.
fn begin(
    plan: &Plan,
    application: &dyn Application,
    directory: &RunDirectory,
    shown: Shown<'_>,
    initial: Option<InitialRecord>,
) -> Result<Recorder, Failure> {
    directory.write("run.toml", plan.to_toml())?;
    directory.remove_results()?;
    if let Some(page) = shown.page {
        let summary = gaia_driver::summary_before(plan, application);
        page.begin(&plan.to_toml(), Summary { initial, ..summary });
    }
    let title = title(plan, shown);
    let plan = live_plan(plan, application, title);
    let live = match shown.among {
        Some(runs) => Live::among(runs, plan),
        None => Live::new(live_mode(shown.output), plan),
    };
    Ok(Recorder::new(directory, live.on_page(shown.page.cloned()), initial.as_ref())?)
}

/// How a run in progress is shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) output: &'a OutputFlags,
    /// The page that is served.
    pub(super) page: Option<&'a LivePage>,
    /// The runs that go on beside it.
    pub(super) among: Option<&'a RunsView>,
    /// The seed that tells it from other runs.
    pub(super) seed: Option<u64>,
}

impl<'a> Shown<'a> {
    /// A run that is the only one.
    pub(super) fn alone(output: &'a OutputFlags) -> Self {
        Self { output, page: None, among: None, seed: None }
    }
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
    initial: Option<InitialRecord>,
    outcome: Result<Outcome, RunError>,
) -> Result<Outcome, Failure> {
    let (progress, unwritten) = recorder.finish();
    let mut outcome = Outcome { progress, ..outcome.map_err(Failure::run)? };
    outcome.summary.initial = initial;
    directory.write_model(&outcome.model_files(plan))?;
    let model = outcome.model.as_ref().filter(|_| !application.layout().has_sparse_tables());
    outcome.summary.breakdown = model.and_then(|model| breakdown(application, model));
    outcome.summary.trivial = trivial(application, outcome.summary.metric.value);
    let Outcome { summary, progress, highlights, .. } = &outcome;
    let written = write_run(directory, &plan.to_toml(), progress, summary, highlights);
    let written = written.and_then(|()| unwritten.map_or(Ok(()), Err));
    written.map_err(|error| unreported(directory, error))?;
    outcome.check().map_err(Failure::run)?;
    Ok(outcome)
}

/// Checks that none of several runs has diverged. `name` says which run a summary is of.
///
/// # Errors
/// Where some have, with the name of each and whose changes showed it.
pub(super) fn check_sound<'s>(
    runs: impl Iterator<Item = &'s Summary>,
    name: impl Fn(&Summary) -> String,
) -> Result<(), Failure> {
    let named = |run: &Summary| run.diverged.as_ref().map(|why| format!("{}: {why}", name(run)));
    let diverged: Vec<String> = runs.filter_map(named).collect();
    match diverged.is_empty() {
        true => Ok(()),
        false => Err(Failure::run(RunError::Diverged { reason: diverged.join("; ") })),
    }
}

/// The name of a run among others of the same comparison, such as `asp over three-regions`.
pub(super) fn name_among(run: &Summary) -> String {
    format!("{} over {}", run.remote_sync, run.wan)
}

/// The failure to write the report of runs that have ended, with what is kept of them.
pub(super) fn unreported(directory: &RunDirectory, error: ReportError) -> Failure {
    match directory.holds_results() {
        true => Failure::Unreported { error, directory: directory.path().to_owned() },
        false => error.into(),
    }
}

/// The headline of a run; one that goes on among others has one line for everything.
fn title(plan: &Plan, shown: Shown<'_>) -> String {
    let (remote, wan) = (plan.remote.name(), &plan.topology.name);
    let alone = || format!("{}: {remote} over {wan}, {}", plan.name, plan.driver.name());
    match (shown.seed, shown.among) {
        (Some(seed), Some(_)) => format!("seed {seed}  {remote} over {wan}"),
        (Some(seed), None) => format!("{}, seed {seed}", alone()),
        (None, _) => alone(),
    }
}

fn live_plan(plan: &Plan, application: &dyn Application, title: String) -> LivePlan {
    let data_centers = plan.topology.data_centers.iter();
    LivePlan {
        title,
        target_objective: plan.stop.objective,
        metric: application.metric().name.into(),
        data_centers: data_centers
            .map(|dc| DcPlan { name: dc.name.clone(), workers: dc.workers })
            .collect(),
    }
}
