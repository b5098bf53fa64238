//! `gaia train`: one run from start to report.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::advice::advise;
use super::deciding::decided;
use super::directory_lock::{DirectoryLock, check_is_of};
use super::ended::lacks_evaluations;
use super::log::name_node;
use super::memory::check_memory;
use super::out::Claim;
use super::reading::waiting_for_data;
use super::seeds::train_seeds;
use super::training::{Shown, carry_out, carry_out_kept, show_result};
use super::{Done, Failure, Resume, Terminal, TrainFlags, signals};
use crate::applications::{Applications, build_with};
use gaia_checkpoint::{Checkpoints, Keeper, Resumed};
use gaia_config::{DriverKind, KeepModel, Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::coordinator::StopReason;
use gaia_core::types::{NodeId, Seed};
use gaia_driver::real::labels;
use gaia_driver::{Ending, RunError, identity_with_data};
use gaia_model::MODEL;
use gaia_report::{RunDirectory, RunRecord, write_run_pages};

/// Trains what the run file describes.
pub(super) fn train(
    flags: &TrainFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let TrainFlags { run, resume, seeds, live } = flags;
    if *seeds > 1 {
        if let Resume::From(_) = resume {
            return Err(Failure::usage(NO_CHECKPOINT_OF_SEEDS));
        }
        return train_seeds(flags, *seeds, applications, terminal);
    }
    let file = run.read(applications)?;
    let plan = file.plan()?;
    if plan.driver == DriverKind::Real {
        // This process is the coordinator.
        name_node(&labels(&plan, &[NodeId::Coordinator]).join("+"));
    }

    check_resume(resume, plan.driver)?;
    let out = run.output.out.as_deref();
    // A choice takes a while, and so does reading the data.
    let _claim = Claim::of(out, resume)?;
    let page = live.serve(terminal)?;
    let plan = decided(plan, &file, run, applications, terminal)?;

    let before = match (resume, out) {
        (Resume::Auto, Some(out)) => Before::of(out, &plan)?,
        _ => Before::Unfinished,
    };
    if let Before::Finished(directory, record) = &before {
        return show_again(directory, record, terminal);
    }

    let application = waiting_for_data(&run.output, || application_of(&plan, &file, applications))?;
    check_memory(&[&plan], application.as_ref(), run, terminal)?;
    let from = match resume {
        Resume::From(path) => Some(checkpoints(&plan, application.as_ref(), path).read(path)?),
        Resume::Auto | Resume::Never => None,
    };
    let directory = match (resume, out) {
        (_, Some(out)) if matches!(before, Before::Lost(_)) => {
            RunDirectory::reopen_with(out, &plan.to_toml())?
        }
        (Resume::Auto | Resume::From(_), Some(out)) => RunDirectory::reopen(out)?,
        _ => RunDirectory::create(out, &plan.name)?,
    };
    let _lock = DirectoryLock::acquire(&directory)?;

    let is_simulated = plan.driver == DriverKind::Simulated;
    let resumed = match resume {
        Resume::Auto if is_simulated => {
            checkpoints(&plan, application.as_ref(), &directory.checkpoints()).newest()?
        }
        _ => from,
    };
    // A checkpoint of another run has been refused. A run that was killed before its first one has its settings only.
    check_is_of(&directory, &plan)?;
    terminal.note(&application.describe());
    if let Some(Resumed { path, facts, .. }) = &resumed {
        terminal.note(&format!("resumes from {} (clock {})", path.display(), facts.clock));
    }
    let path = directory.path().display();
    match before {
        Before::Lost(file) => terminal.note(&format!(
            "the run in {path} has finished, and {file} is lost: trains again, and writes all files anew"
        )),
        _ if directory.is_run() => terminal.note(&format!(
            "removes the summary and the report of the interrupted part in {path}: those of the whole run are written at its end"
        )),
        _ => {}
    }
    if !is_simulated && *resume == Resume::Auto && directory.node_states().is_dir() {
        terminal.note("continues from the states of its nodes");
    }

    let interrupted = interrupted(applications)?;
    let started = Started {
        plan: &plan,
        application: &application,
        directory: &directory,
        shown: Shown { page: page.as_ref(), ..Shown::alone(&run.output) },
        interrupted: interrupted.clone(),
        program: applications.program(),
    };
    let ending = started.carry_out(resumed)?;
    let summary = match &ending {
        Ending::Finished(outcome) | Ending::Interrupted { outcome, .. } => outcome.summary.clone(),
    };
    let done = end(ending, &directory, terminal)?;
    if done == Done::Whole && plan.driver != DriverKind::Real {
        let from = (run.file.as_path(), &file);
        let shown = (&run.output, terminal);
        advise(from, &plan, &application, &summary, interrupted, shown);
    }
    Ok(done)
}

/// The application of a plan, with the data of the workers that run in this process.
pub(super) fn application_of(
    plan: &Plan,
    file: &RunFile,
    applications: &dyn Applications,
) -> Result<Arc<dyn Application>, Failure> {
    // With the real driver this process is the coordinator.
    let is_real = plan.driver == DriverKind::Real;
    let workers = 0..if is_real { 0 } else { plan.topology.workers() };
    build_with(applications, plan, workers).map_err(|error| Failure::data(error, file))
}

/// A run that is about to begin.
pub(super) struct Started<'a> {
    pub(super) plan: &'a Plan,
    pub(super) application: &'a Arc<dyn Application>,
    pub(super) directory: &'a RunDirectory,
    pub(super) shown: Shown<'a>,
    pub(super) interrupted: Arc<AtomicBool>,
    /// The command that starts nodes, if it is not the running program.
    pub(super) program: Option<Vec<OsString>>,
}

impl Started<'_> {
    /// Runs to the end and writes all files. A simulated run begins where it is resumed from, and keeps checkpoints.
    pub(super) fn carry_out(self, resumed: Option<Resumed>) -> Result<Ending, Failure> {
        let Self { plan, application, directory, shown, interrupted, program } = self;
        if plan.driver == DriverKind::Simulated {
            let checkpoints = checkpoints(plan, application.as_ref(), &directory.checkpoints());
            let keeper = Keeper::new(checkpoints, plan.checkpoint.every, interrupted);
            let mut keeper = keeper.resuming(resumed);
            return carry_out_kept(plan, application, directory, shown, &mut keeper);
        }
        let outcome = carry_out(plan, application, directory, shown, interrupted, program)?;
        Ok(Ending::Finished(Box::new(outcome)))
    }
}

/// What ends the run in order.
pub(super) fn interrupted(applications: &dyn Applications) -> Result<Arc<AtomicBool>, Failure> {
    match applications.interrupted() {
        Some(interrupted) => Ok(interrupted),
        None => signals::interrupted().map_err(Failure::run),
    }
}

/// Checks that the driver can continue a run in this way.
fn check_resume(resume: &Resume, driver: DriverKind) -> Result<(), Failure> {
    match (resume, driver) {
        (Resume::Never, _) | (_, DriverKind::Simulated) | (Resume::Auto, DriverKind::Real) => {
            Ok(())
        }
        (Resume::From(_), DriverKind::Real) => Err(Failure::usage(NO_CHECKPOINT)),
        (_, DriverKind::Emulated) => {
            Err(Failure::NoCheckpoints(RunError::NoCheckpoints { driver: driver.name() }))
        }
    }
}

/// Shows how a run has ended.
fn end(ending: Ending, directory: &RunDirectory, terminal: &Terminal) -> Result<Done, Failure> {
    let (outcome, checkpoint) = match ending {
        Ending::Finished(outcome) => (outcome, None),
        Ending::Interrupted { clock, checkpoint, outcome } => (outcome, Some((clock, checkpoint))),
    };
    show_result(&outcome.summary, &outcome.highlights, directory, terminal);
    outcome.check_sound().map_err(Failure::run)?;
    if !outcome.summary.was_stopped_by(StopReason::Interrupted) {
        return Ok(Done::Whole);
    }

    if let Some((clock, checkpoint)) = checkpoint {
        let (checkpoint, out) = (checkpoint.display(), directory.path().display());
        terminal.note(&format!(
            "interrupted at clock {clock}; checkpoint written to {checkpoint}; continue with --resume auto --out {out}"
        ));
    }
    Ok(Done::Interrupted)
}

/// The checkpoints of a run, under a path.
pub(super) fn checkpoints(plan: &Plan, application: &dyn Application, path: &Path) -> Checkpoints {
    let identity = identity_with_data(Seed(plan.fingerprint()), application);
    Checkpoints::new(path, identity, plan.seed, plan.checkpoint.keep)
}

/// What a directory has of a run before a command goes on with it.
pub(super) enum Before {
    /// The run has finished: its directory and what is in it.
    Finished(RunDirectory, Box<RunRecord>),
    /// The run has finished, and this file of it is lost. A simulation makes it again.
    Lost(&'static str),
    /// No such run, or one that can continue.
    Unfinished,
}

impl Before {
    /// What the directory `out` has of the run of this plan. A simulated run that was interrupted can continue.
    pub(super) fn of(out: &Path, plan: &Plan) -> Result<Self, Failure> {
        let Ok(directory) = RunDirectory::open(out) else { return Ok(Self::Unfinished) };
        if !directory.is_run() || directory.read_run_toml()? != plan.to_toml() {
            return Ok(Self::Unfinished);
        }
        let record = directory.read()?;
        if plan.driver != DriverKind::Simulated {
            return Ok(Self::Finished(directory, record.into()));
        }

        Ok(match () {
            () if record.summary.was_stopped_by(StopReason::Interrupted) => Self::Unfinished,
            () if lacks_evaluations(&record, plan) => Self::Lost("progress.jsonl"),
            () if lacks_model(&directory, &record, plan) => Self::Lost("its model"),
            () => Self::Finished(directory, record.into()),
        })
    }
}

/// Whether the model of a run is not where the run has written it.
fn lacks_model(directory: &RunDirectory, record: &RunRecord, plan: &Plan) -> bool {
    let is_there = match plan.model.keep {
        KeepModel::Coordinator => directory.path().join(MODEL).is_file(),
        KeepModel::Home => {
            let kept = directory.kept_models();
            plan.topology.data_centers.iter().all(|dc| kept.join(&dc.name).is_dir())
        }
    };
    record.summary.diverged.is_none() && !is_there
}

/// Shows a run that has finished before.
pub(super) fn show_again(
    directory: &RunDirectory,
    record: &RunRecord,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let RunRecord { run_toml, progress, summary, highlights, .. } = record;
    // The page is what a full disk has kept from being written last.
    if !directory.page().is_file() {
        write_run_pages(directory, run_toml, progress, summary, highlights)?;
    }
    terminal.note(&format!("the run in {} has finished", directory.path().display()));
    show_result(summary, highlights, directory, terminal);
    match &summary.diverged {
        Some(reason) => Err(Failure::run(RunError::Diverged { reason: reason.clone() })),
        None => Ok(Done::Whole),
    }
}

const NO_CHECKPOINT: &str = "--resume DIR continues a simulated run from a checkpoint, expected --resume auto --out DIR \
                             with the real driver, which continues from the states of its nodes";

const NO_CHECKPOINT_OF_SEEDS: &str =
    "--resume DIR continues one run, expected --resume auto --out DIR with --seeds";

pub(super) const TRAIN_HELP: &str = "\
Examples:
  gaia train config/run/quickstart.toml
  gaia train config/run/quickstart.toml --driver simulated --seed 7 --out runs/seven
  gaia train config/run/movielens.toml --set app.data.path=ratings.csv --set sync.remote.model=bsp
  gaia train config/run/quickstart.toml --driver simulated --set checkpoint.every=10 --out runs/long --resume auto
  gaia train config/run/quickstart.toml --driver real        (a process for each node, on this machine)
  gaia train config/run/quickstart.toml --live               (shows the report while the run goes on)

A path in a file is relative to that file. A path in --set is relative to the working directory. \
A --set that chooses another `model` or `kind` drops the settings of the previous one.

The run directory contains run.toml (which repeats the run), progress.jsonl, summary.json, \
convergence.svg, report.html and events.out.tfevents.gaia (for TensorBoard). With --driver real it also contains the log of each node, in logs/.

On a first SIGTERM or Ctrl-C the run ends in order, with its report and its model so far, and the exit code is 75. \
A second signal ends it at once.

--resume auto --out DIR continues a run that was killed, starts it if there is nothing to continue, and shows its \
result if it has finished. A simulated run continues from the newest complete checkpoint in DIR: it writes one to \
checkpoints/clock-NNNN every `checkpoint.every` clocks, and when it is interrupted. The result has the same bytes as \
that of a run that was not stopped. With --driver real the run continues from the states of its nodes. With \
--driver emulated nothing is kept. The default is never: a directory with files of another run is refused.

--seeds N trains with N seeds: that of the run, the next, and so on. Simulated runs go on in parallel, as many as there are \
processors and as memory holds; runs of the other drivers go on one at a time. Each has its directory, seed-SEED, in the run's \
directory; compare.json and compare.html there have the medians and ranges. Ctrl-C keeps the runs that have ended. The same \
command with --resume auto --out DIR takes what has ended in DIR, continues simulated runs from their checkpoints, and runs the \
others; with a larger N it adds seeds.

With --driver real the certificates of the nodes are in a temporary folder that only its owner can open. The folder \
is deleted when the run ends, unless the process is killed.";
