//! `gaia train`: one run from start to report.

use std::path::Path;

use super::log::name_node;
use super::training::{carry_out, carry_out_kept};
use super::{Done, Failure, Resume, Terminal, TrainFlags, signals};
use gaia_checkpoint::{Checkpoints, Keeper, Resumed};
use gaia_config::{DriverKind, Plan};
use gaia_core::application::Application;
use gaia_core::types::{NodeId, Seed};
use gaia_driver::real::labels;
use gaia_driver::{Ending, Outcome, RunError};
use gaia_report::{Paint, RunDirectory, highlights_block, run_block};

/// Trains what the run file describes.
pub(super) fn train(flags: &TrainFlags, terminal: &Terminal) -> Result<Done, Failure> {
    let TrainFlags { run, resume } = flags;
    let file = run.read()?;
    let plan = file.plan()?;
    let simulated = plan.driver == DriverKind::Simulated;

    if plan.driver == DriverKind::Real {
        // This process is the coordinator.
        name_node(&labels(&plan, &[NodeId::Coordinator]).join("+"));
    }

    if !simulated && *resume != Resume::Never {
        let driver = plan.driver.name();
        return Err(Failure::NoCheckpoints(RunError::NoCheckpoints { driver }));
    }

    let application = gaia::build(&plan).map_err(|error| Failure::data(error, &file))?;
    let from = match resume {
        Resume::From(path) => Some(checkpoints(&plan, application.as_ref(), path).read(path)?),
        Resume::Auto | Resume::Never => None,
    };
    let out = run.output.out.as_deref();
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
        let interrupted = signals::interrupted().map_err(Failure::run)?;
        let keeper = Keeper::new(checkpoints, plan.checkpoint.every, interrupted);
        let mut keeper = keeper.resuming(resumed);
        carry_out_kept(&plan, &application, &directory, &run.output, &mut keeper)?
    } else {
        terminal.note(&application.describe());
        let outcome = carry_out(&plan, &application, &directory, &run.output)?;
        Ending::Finished(Box::new(outcome))
    };

    match ending {
        Ending::Finished(outcome) => {
            show(&outcome, &directory, terminal);
            outcome.check_sound().map_err(Failure::run)?;
            Ok(Done::Whole)
        }
        Ending::Interrupted { clock, checkpoint } => {
            let (checkpoint, out) = (checkpoint.display(), directory.path().display());
            terminal.note(&format!(
                "interrupted at clock {clock}; checkpoint written to {checkpoint}; continue with --resume auto --out {out}"
            ));
            Ok(Done::Interrupted)
        }
    }
}

/// The checkpoints of a run, under a path.
fn checkpoints(plan: &Plan, application: &dyn Application, path: &Path) -> Checkpoints {
    // Files may change under the same path. So their description is part of the run's identity.
    let identity = Seed(plan.fingerprint()).child(&application.describe()).0;
    Checkpoints::new(path, identity, plan.seed, plan.checkpoint.keep)
}

fn show(outcome: &Outcome, directory: &RunDirectory, terminal: &Terminal) {
    let paint = Paint::for_stdout();
    let block = run_block(&outcome.summary, &directory.main_files(), paint)
        + &highlights_block(&outcome.highlights, paint);
    terminal.line(block.trim_end());
    terminal.result(&outcome.summary);
}
