//! The pages of the paper's evaluation: one record file, and what is drawn from it.
//!
//! This room reads a [`PaperFile`] and nothing else. It measures nothing. Where a page holds a figure beside the one
//! that the Gaia paper printed (Hsieh et al., NSDI 2017), the printed one comes from the file or, for the
//! paper's Table 1, from `pages/shipping.rs`. A run that did not reach its target, or was not run, keeps its row.

mod grid;
mod markdown;
mod pages;
mod rates;
mod records;
mod systems;
mod terminal;

pub use rates::{RateRow, RateRun};
pub use records::{
    AblationRow, CellRow, CurveRow, HubRow, InsignificantRow, PaperFile, ScaleRow, SkewRow,
    SpeedRow, SystemFigure, SystemRow, SystemUnit, SystemVerdict,
};
pub use terminal::paper_block;

use crate::directory::{
    PAPER, PAPER_ELSEWHERE_PAGE, PAPER_MARKDOWN, PAPER_PAGE, ReportError, RunDirectory, to_json,
};

/// The name of the file of records in its directory.
pub const FILE: &str = PAPER;

/// Writes the records of an evaluation into a directory, and the pages drawn from them.
///
/// # Errors
/// [`ReportError::Io`] where a file cannot be written.
pub fn write(directory: &RunDirectory, file: &PaperFile) -> Result<(), ReportError> {
    directory.write(FILE, to_json(file))?;
    write_pages(directory, file)
}

/// Writes the pages alone: `paper.html` for the paper's own applications and WANs, `paper-elsewhere.html` for
/// other WANs, and `paper.md` with the tables of both.
///
/// # Errors
/// [`ReportError::Io`] where a file cannot be written.
pub fn write_pages(directory: &RunDirectory, file: &PaperFile) -> Result<(), ReportError> {
    directory.write(PAPER_PAGE, pages::first(file))?;
    directory.write(PAPER_ELSEWHERE_PAGE, pages::elsewhere(file))?;
    directory.write(PAPER_MARKDOWN, markdown::page(file))
}

impl RunDirectory {
    /// Reads the records of the paper's evaluation.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the file is missing or cannot be read, [`ReportError::Broken`] where it is not
    /// what [`write()`] writes.
    pub fn read_paper(&self) -> Result<PaperFile, ReportError> {
        self.read_record(FILE, "the records of the paper's evaluation")
    }
}
