//! `gaia train`: one run from start to report.

use super::training::carry_out;
use super::{Failure, RunFlags, Terminal};
use crate::data;
use crate::report::{Paint, RunDirectory, highlights_block, run_block};

/// Trains what the run file describes.
pub(super) fn train(flags: &RunFlags, terminal: &Terminal) -> Result<(), Failure> {
    let file = flags.read()?;
    let plan = file.plan()?;
    let application = data::build(&plan.app, &plan.topology.workers_per_dc(), plan.seed)
        .map_err(|error| Failure::data(error, &file))?;
    let directory = RunDirectory::create(flags.output.out.as_deref(), &plan.name)?;
    terminal.note(&application.describe());
    let outcome = carry_out(&plan, &application, &directory, &flags.output)?;
    let paint = Paint::for_stdout();
    let block = run_block(&outcome.summary, Some(&directory.page()), paint)
        + &highlights_block(&outcome.highlights, paint);
    terminal.line(block.trim_end());
    terminal.result(&outcome.summary);
    Ok(())
}
