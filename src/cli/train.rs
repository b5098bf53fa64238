//! `gaia train`: one run from start to report.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::deciding::decided;
use super::log::name_node;
use super::memory::check_memory;
use super::training::{carry_out, carry_out_kept, live_mode, show_result};
use super::{Done, Failure, Resume, Terminal, TrainFlags, signals};
use crate::applications::{Applications, build_with};
use gaia_checkpoint::{Checkpoints, Keeper, Resumed};
use gaia_config::{DriverKind, Plan};
use gaia_core::application::Application;
use gaia_core::coordinator::StopReason;
use gaia_core::types::{NodeId, Seed};
use gaia_driver::real::labels;
use gaia_driver::{Ending, RunError};
use gaia_report::{RunDirectory, RunRecord, Waiting};

/// Trains what the run file describes.
pub(super) fn train(
    flags: &TrainFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let TrainFlags { run, resume } = flags;
    let file = run.read(applications)?;
    let plan = decided(file.plan()?, &file, run, applications, terminal)?;
    let simulated = plan.driver == DriverKind::Simulated;

    if plan.driver == DriverKind::Real {
        // This process is the coordinator.
        name_node(&labels(&plan, &[NodeId::Coordinator]).join("+"));
    }

    check_resume(resume, plan.driver)?;
    let out = run.output.out.as_deref();
    if let (Resume::Auto, Some(out)) = (resume, out)
        && let Some((directory, record)) = finished(out, &plan)?
    {
        return show_again(&directory, &record, terminal);
    }

    let application = {
        let _line = Waiting::new(live_mode(&run.output), "reads the data");
        // With the real driver this process is the coordinator.
        let is_real = plan.driver == DriverKind::Real;
        let workers = 0..if is_real { 0 } else { plan.topology.workers() };
        build_with(applications, &plan, workers).map_err(|error| Failure::data(error, &file))?
    };
    check_memory(&[&plan], application.as_ref(), terminal)?;
    let from = match resume {
        Resume::From(path) => Some(checkpoints(&plan, application.as_ref(), path).read(path)?),
        Resume::Auto | Resume::Never => None,
    };
    let directory = match (resume, out) {
        (Resume::Auto | Resume::From(_), Some(out)) => RunDirectory::reopen(out)?,
        _ => RunDirectory::create(out, &plan.name)?,
    };

    let ending = if simulated {
        let checkpoints = checkpoints(&plan, application.as_ref(), &directory.checkpoints());
        let resumed = if *resume == Resume::Auto { checkpoints.newest()? } else { from };
        terminal.note(&application.describe());
        if let Some(Resumed { path, facts, .. }) = &resumed {
            terminal.note(&format!("resumes from {} (clock {})", path.display(), facts.clock));
        }
        let interrupted = interrupted(applications)?;
        let keeper = Keeper::new(checkpoints, plan.checkpoint.every, interrupted);
        let mut keeper = keeper.resuming(resumed);
        carry_out_kept(&plan, &application, &directory, &run.output, &mut keeper)?
    } else {
        terminal.note(&application.describe());
        if *resume == Resume::Auto && directory.node_states().is_dir() {
            terminal.note("continues from the states of its nodes");
        }
        let interrupted = interrupted(applications)?;
        let program = applications.program();
        let outcome =
            carry_out(&plan, &application, &directory, &run.output, interrupted, program)?;
        Ending::Finished(Box::new(outcome))
    };

    end(ending, &directory, terminal)
}

/// What ends the run in order.
fn interrupted(applications: &dyn Applications) -> Result<Arc<AtomicBool>, Failure> {
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
    if outcome.summary.stopped_by != StopReason::Interrupted.name() {
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
fn checkpoints(plan: &Plan, application: &dyn Application, path: &Path) -> Checkpoints {
    // Files may change under the same path. So their description is part of the run's identity.
    let identity = Seed(plan.fingerprint()).child(&application.describe()).0;
    Checkpoints::new(path, identity, plan.seed, plan.checkpoint.keep)
}

/// The directory of this run at `out` and what is in it, if the run has finished. A simulated run that was interrupted
/// can continue.
fn finished(out: &Path, plan: &Plan) -> Result<Option<(RunDirectory, RunRecord)>, Failure> {
    let Ok(directory) = RunDirectory::open(out) else { return Ok(None) };
    if !directory.is_run() || directory.read_run_toml()? != plan.to_toml() {
        return Ok(None);
    }
    let record = directory.read()?;
    let was_interrupted = record.summary.stopped_by == StopReason::Interrupted.name();
    let continues = was_interrupted && plan.driver == DriverKind::Simulated;
    Ok((!continues).then_some((directory, record)))
}

/// Shows a run that has finished before.
fn show_again(
    directory: &RunDirectory,
    record: &RunRecord,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let RunRecord { summary, highlights, .. } = record;
    terminal.note(&format!("the run in {} has finished", directory.path().display()));
    show_result(summary, highlights, directory, terminal);
    match &summary.diverged {
        Some(reason) => Err(Failure::run(RunError::Diverged { reason: reason.clone() })),
        None => Ok(Done::Whole),
    }
}

const NO_CHECKPOINT: &str = "--resume DIR continues a simulated run from a checkpoint, expected --resume auto --out DIR \
                             with the real driver, which continues from the states of its nodes";
