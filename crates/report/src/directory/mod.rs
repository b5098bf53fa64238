//! The directory of a run: its layout, its files and how they are read back.
//!
//! This room decides where files lie and how they are written. It does not know how a file is drawn.

mod error;
mod run_directory;

pub use error::ReportError;
pub(crate) use run_directory::{
    COMPARE, COMPARE_PAGE, HIGHLIGHTS, PAGE, PICTURE, RUN_TOML, SUMMARY,
};
pub use run_directory::{ProgressLog, RunDirectory, RunRecord};
