//! `gaia train`: one run from start to report.

use super::training::carry_out;
use super::{Failure, RunFlags, Terminal};
use crate::data;
use crate::report::{Paint, RunDirectory, run_block};

/// Trains what the run file describes.
pub(super) fn train(flags: &RunFlags, terminal: &Terminal) -> Result<(), Failure> {
    let file = flags.read()?;
    let plan = file.plan()?;
    let application = data::build(&plan.app, &plan.topology.workers_per_dc(), plan.seed)
        .map_err(|error| Failure::data(error, &file))?;
    let directory = RunDirectory::create(flags.output.out.as_deref(), &plan.name)?;
    terminal.note(&application.describe());
    let (summary, _) = carry_out(&plan, &application, &directory, &flags.output)?;
    let block = run_block(&summary, Some(&directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&summary);
    Ok(())
}
