//! The directory of a run: its layout, its files, and how they are read back.
//!
//! This room decides where files lie and how they are written. Whole files are written beside their place and
//! renamed into it, so that a reader never sees half of one; `progress.jsonl` and `ended-runs.jsonl` grow, a line at a
//! time, and what TensorBoard reads, a record at a time. The room does not know what a picture or a page looks like.

mod ended_runs;
mod error;
mod files;
mod json;
mod line_file;
mod name;
mod own;
mod progress;
mod run_directory;

pub use ended_runs::{EndedRun, EndedRuns};
pub use error::ReportError;
pub use files::EVENTS;
pub(crate) use files::{
    COMPARE, COMPARE_PAGE, HIGHLIGHTS, PAGE, PAPER, PAPER_ELSEWHERE_PAGE, PAPER_MARKDOWN,
    PAPER_PAGE, PICTURE, RUN_TOML, SUMMARY,
};
pub use json::to_json;
pub use progress::ProgressLog;
pub use run_directory::{RunDirectory, RunRecord};
