//! A run, or a comparison, written into a directory.

use gaia_config::Plan;
use gaia_driver::Outcome;
use gaia_report::{Comparison, ReportError, RunDirectory};

/// Writes all of a run's files: `run.toml`, `progress.jsonl`, `events.out.tfevents.gaia`, `summary.json`,
/// `convergence.svg`, `report.html`, `model.safetensors` where the run has not diverged, and `highlights.txt` where the application tells what it has
/// learnt.
///
/// `gaia report` and [`RunDirectory::read`] read them back. `run.toml` holds the plan; what was handed in from code is not
/// in it.
///
/// # Errors
/// Where a file cannot be written.
pub fn write_run(
    directory: &RunDirectory,
    plan: &Plan,
    outcome: &Outcome,
) -> Result<(), ReportError> {
    let Outcome { summary, progress, highlights, .. } = outcome;
    directory.write_logs(&summary.metric.name, summary.initial.as_ref(), progress)?;
    directory.write_model(&outcome.model_files(plan))?;
    gaia_report::write_run(directory, &plan.to_toml(), progress, summary, highlights)
}

/// Writes a comparison's files: `run.toml`, `compare.json`, `convergence.svg` and `compare.html`.
///
/// Its runs are not among them: [`RunDirectory::create_child`] makes a directory for each, which [`write_run`] fills.
///
/// # Errors
/// Where a file cannot be written.
pub fn write_comparison(
    directory: &RunDirectory,
    plan: &Plan,
    comparison: &Comparison,
) -> Result<(), ReportError> {
    gaia_report::write_comparison(directory, &plan.to_toml(), comparison)
}
