//! The pages of the paper's evaluation: one record file, and what is drawn from it.
//!
//! This room reads a [`PaperFile`] and nothing else. It measures nothing: where a page holds a figure beside the one
//! that the Gaia paper printed (Hsieh et al., NSDI 2017), the printed one comes from the file or, for the
//! paper's Table 1, stands in `pages/shipping.rs`. What did not reach its target, or was not run, keeps its row.

mod grid;
mod markdown;
mod pages;
mod records;
mod terminal;

pub use records::{
    AblationRow, CellRow, CurveRow, HubRow, InsignificantRow, PaperFile, ScaleRow, SkewRow,
    SpeedRow,
};
pub use terminal::paper_block;

use crate::directory::{ReportError, RunDirectory};
use crate::to_json;

/// Writes all files of an evaluation into its directory.
pub fn write(directory: &RunDirectory, file: &PaperFile) -> Result<(), ReportError> {
    directory.write(FILE, &to_json(file))?;
    write_pages(directory, file)
}

/// Writes what is drawn from the records: `paper.html`, the paper's own applications and WANs,
/// `paper-elsewhere.html`, all others, and `paper.md`, the tables of both.
pub fn write_pages(directory: &RunDirectory, file: &PaperFile) -> Result<(), ReportError> {
    directory.write(FIRST_PAGE, &pages::first(file))?;
    directory.write(SECOND_PAGE, &pages::elsewhere(file))?;
    directory.write(MARKDOWN, &markdown::page(file))
}

/// Where the evaluation's records lie in its directory.
pub const FILE: &str = "paper.json";
pub(super) const FIRST_PAGE: &str = "paper.html";
const SECOND_PAGE: &str = "paper-elsewhere.html";
const MARKDOWN: &str = "paper.md";
