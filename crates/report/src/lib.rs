//! What a run shows of itself: while it goes, when it ends, and afterwards from its directory.
//!
//! This room turns the records of `telemetry/` into lines on a terminal, pictures and pages, and owns the layout of
//! a run directory. It measures nothing and knows no protocol; where a figure is a ratio, it is made here and nowhere
//! else. What it shows are the quantities the Gaia paper judges by (Hsieh et al., NSDI 2017): time until
//! convergence, the traffic on WAN links and what that costs.

mod chart;
mod comparison;
mod directory;
mod live;
mod page;
pub mod paper;
mod terminal;
mod text;

pub use comparison::{CompareRow, ComparedRun, Comparison, ComparisonFile};
pub use directory::{ProgressLog, ReportError, RunDirectory, RunRecord};
pub use live::{DcPlan, Live, LiveMode, LivePlan, Recorder};
pub use terminal::{Paint, comparison_block, highlights_block, run_block};

use serde::Serialize;

use directory::{COMPARE, COMPARE_PAGE, HIGHLIGHTS, PAGE, PICTURE, RUN_TOML, SUMMARY};
use gaia_telemetry::{Progress, Summary};

/// Writes all of a run's files but `progress.jsonl`, which grew as the run went.
///
/// `highlights` are what the application says it has learnt, a line each; no file of them where it says nothing.
pub fn write_run(
    directory: &RunDirectory,
    run_toml: &str,
    progress: &[Progress],
    summary: &Summary,
    highlights: &[String],
) -> Result<(), ReportError> {
    directory.write(RUN_TOML, run_toml)?;
    directory.write(SUMMARY, &to_json(summary))?;
    if !highlights.is_empty() {
        directory.write(HIGHLIGHTS, &(highlights.join("\n") + "\n"))?;
    }
    write_run_pages(directory, run_toml, progress, summary, highlights)
}

/// Writes a run's picture and page alone: what `gaia report` renews.
pub fn write_run_pages(
    directory: &RunDirectory,
    run_toml: &str,
    progress: &[Progress],
    summary: &Summary,
    highlights: &[String],
) -> Result<(), ReportError> {
    directory.write(PICTURE, &page::run_plot(summary, progress).standalone())?;
    directory.write(PAGE, &page::run_page(run_toml, progress, summary, highlights))
}

/// Writes a comparison's files beside its runs' directories.
pub fn write_comparison(
    directory: &RunDirectory,
    run_toml: &str,
    comparison: &Comparison,
) -> Result<(), ReportError> {
    directory.write(RUN_TOML, run_toml)?;
    directory.write(COMPARE, &to_json(&comparison.file()))?;
    directory.write(PICTURE, &page::comparison_plot(comparison).standalone())?;
    directory.write(COMPARE_PAGE, &page::compare_page(run_toml, comparison))
}

/// Reads back the runs of a comparison's directory.
pub fn read_comparison(directory: &RunDirectory) -> Result<Comparison, ReportError> {
    let mut runs = Vec::new();
    for child in directory.children()? {
        let record = child.read()?;
        runs.push((record.summary, record.progress));
    }
    Ok(Comparison::new(runs))
}

/// A record as its file and `--json` write it.
pub fn to_json<T: Serialize>(record: &T) -> String {
    let text = serde_json::to_string_pretty(record);
    text.expect("records are plain data with string keys") + "\n"
}
