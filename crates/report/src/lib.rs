//! What a run shows of itself: while it goes, when it ends, and afterwards from its directory.
//!
//! This crate turns the records of `gaia-telemetry` into lines on a terminal, pictures and pages, and decides the
//! layout of a run directory. It measures nothing and knows no protocol; ratios of figures are computed here and
//! nowhere else. It shows the quantities that the Gaia paper judges by (Hsieh et al., NSDI 2017): time until
//! convergence, the traffic on WAN links and its cost.
//!
//! The rooms, from the bottom up: `text/`, `directory/`, `tensorboard/`, `comparison`, `seeds/`, `chart/`, `terminal/` and
//! `live/`,
//! `page/`, [`paper`], [`plan`].

#![warn(missing_docs)]

mod chart;
mod comparison;
mod directory;
mod live;
mod page;
pub mod paper;
pub mod plan;
mod seeds;
mod slowdown;
mod tensorboard;
mod terminal;
mod text;
mod verdicts;

pub use comparison::{CompareRow, ComparedRun, Comparison, ComparisonFile, held, held_at_the_end};
pub use directory::{
    EVENTS, EndedRun, EndedRuns, ProgressLog, ReportError, RunDirectory, RunRecord, to_json,
};
pub use live::{
    DcPlan, Live, LiveMode, LivePage, LivePlan, Recorder, RunsView, StandardError, Waiting,
};
pub use page::LIVE_SCRIPT;
pub use seeds::{SeededComparison, SeedsFile, Spread, SpreadRow};
pub use slowdown::Slowdown;
pub use tensorboard::EventLog;
pub use terminal::{
    Paint, TrainedEvaluation, comparison_block, evaluation_block, highlights_block, run_block,
    seeds_block,
};

/// Figures as every page and every line shows them.
pub mod figures {
    pub use crate::text::numbers::{bytes, dollars, objective, seconds, times};
    pub use crate::text::phrases::seeds;
}

use directory::{COMPARE, COMPARE_PAGE, HIGHLIGHTS, PAGE, PICTURE, RUN_TOML, SUMMARY};
use gaia_telemetry::{Progress, Summary};

/// Writes every file of a finished run but `progress.jsonl` and [`EVENTS`], which a [`ProgressLog`] and an [`EventLog`]
/// write during the run.
///
/// `run_toml` is the resolved settings, `progress` every evaluation. `highlights` is what the application has
/// learnt, one entry a line; where it is empty, no file of highlights is written.
///
/// # Errors
/// [`ReportError::Io`] where a file cannot be written. Files written before it stay: the pages are the last.
pub fn write_run(
    directory: &RunDirectory,
    run_toml: &str,
    progress: &[Progress],
    summary: &Summary,
    highlights: &[String],
) -> Result<(), ReportError> {
    directory.write(RUN_TOML, run_toml)?;
    if !highlights.is_empty() {
        directory.write(HIGHLIGHTS, highlights.join("\n") + "\n")?;
    }
    // A directory with a summary counts as that of a finished run, whose pages can be written again.
    directory.write(SUMMARY, to_json(summary))?;
    write_run_pages(directory, run_toml, progress, summary, highlights)
}

/// Writes the picture and the page of a run, and nothing else: what `gaia report` renews.
///
/// # Errors
/// [`ReportError::Io`] where a file cannot be written.
pub fn write_run_pages(
    directory: &RunDirectory,
    run_toml: &str,
    progress: &[Progress],
    summary: &Summary,
    highlights: &[String],
) -> Result<(), ReportError> {
    directory.write(PICTURE, page::run_plot(summary, progress).standalone())?;
    directory.write(PAGE, page::run_page(run_toml, progress, summary, highlights))
}

/// Writes the files of a comparison into the directory that holds its runs' directories.
///
/// # Errors
/// [`ReportError::Io`] where a file cannot be written.
pub fn write_comparison(
    directory: &RunDirectory,
    run_toml: &str,
    comparison: &Comparison,
) -> Result<(), ReportError> {
    directory.write(RUN_TOML, run_toml)?;
    directory.write(COMPARE, to_json(&comparison.file()))?;
    directory.write(PICTURE, page::comparison_plot(comparison).standalone())?;
    directory.write(COMPARE_PAGE, page::compare_page(run_toml, comparison))
}

/// Writes the files of runs over several seeds into the directory that holds a directory for each seed.
///
/// # Errors
/// [`ReportError::Io`] where a file cannot be written.
pub fn write_seeds(
    directory: &RunDirectory,
    run_toml: &str,
    seeds: &SeededComparison,
) -> Result<(), ReportError> {
    directory.write(RUN_TOML, run_toml)?;
    directory.write(COMPARE, to_json(&seeds.file()))?;
    directory.write(PICTURE, page::seeds_plot(seeds).standalone())?;
    directory.write(COMPARE_PAGE, page::seeds_page(run_toml, seeds))
}

/// Reads the directories of several seeds, and compares their runs again.
///
/// # Errors
/// As [`RunDirectory::read`], for any of the runs.
pub fn read_seeds(directory: &RunDirectory) -> Result<SeededComparison, ReportError> {
    let mut comparisons = Vec::new();
    for (seed, child) in directory.seeds()? {
        let comparison = read_comparison(&child)?;
        check_seed(&child, seed, comparison.runs.iter().map(|run| &run.row.summary))?;
        comparisons.push((seed, comparison));
    }
    Ok(SeededComparison::new(comparisons))
}

/// Reads the runs in the directory of one seed, as comparisons take them.
///
/// # Errors
/// As [`read_runs`]; [`ReportError::OtherSeed`] where one is of another seed.
pub fn read_runs_of_seed(
    directory: &RunDirectory,
    seed: u64,
) -> Result<Vec<(Summary, Vec<Progress>)>, ReportError> {
    let runs = read_runs(&directory.members()?)?;
    check_seed(directory, seed, runs.iter().map(|(summary, _)| summary))?;
    Ok(runs)
}

/// Checks that runs are of the seed after which their directory is named: it may have been copied under another name.
fn check_seed<'s>(
    directory: &RunDirectory,
    seed: u64,
    mut runs: impl Iterator<Item = &'s Summary>,
) -> Result<(), ReportError> {
    match runs.find(|run| run.seed != seed) {
        None => Ok(()),
        Some(other) => Err(ReportError::OtherSeed {
            path: directory.path().to_owned(),
            found: other.seed,
            expected: seed,
        }),
    }
}

/// Reads the runs below a comparison's directory, or the run that the directory holds, and compares them again. The WANs
/// keep the order of its records.
///
/// # Errors
/// As [`RunDirectory::read`], for any of the runs.
pub fn read_comparison(directory: &RunDirectory) -> Result<Comparison, ReportError> {
    let mut runs = read_runs(&directory.members()?)?;
    let (slowdown, wans) = directory.noted()?;
    if runs.len() < wans.len() {
        let (path, found, noted) = (directory.path().join(COMPARE), runs.len(), wans.len());
        return Err(ReportError::MissingRuns { path, found, noted });
    }
    runs.sort_by_key(|(summary, _)| {
        wans.iter().position(|wan| *wan == summary.wan).unwrap_or(wans.len())
    });
    Ok(Comparison { slowdown, ..Comparison::new(runs) })
}

/// Reads the run that each directory holds, as comparisons take them.
///
/// # Errors
/// As [`RunDirectory::read`], for any of the runs.
pub fn read_runs(
    directories: &[RunDirectory],
) -> Result<Vec<(Summary, Vec<Progress>)>, ReportError> {
    let read = |directory: &RunDirectory| {
        let record = directory.read()?;
        Ok((record.summary, record.progress))
    };
    directories.iter().map(read).collect()
}
