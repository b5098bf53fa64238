//! What can be wrong with a directory that is to be written or read back.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{}: not empty; expected a new or an empty directory for a run's files", path.display())]
    NotEmpty { path: PathBuf },
    #[error("{}: not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("{}: no such directory; expected one that a run or a comparison has written", path.display())]
    NoSuchDirectory { path: PathBuf },
    #[error(
        "{}: no summary.json, compare.json or paper.json; expected the directory of a finished run or comparison",
        path.display()
    )]
    NotFinished { path: PathBuf },
    #[error("{}:{line}:{column}: {problem}; expected {expected}", path.display())]
    Broken { path: PathBuf, line: usize, column: usize, problem: String, expected: &'static str },
    #[error("{}: {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
}

impl ReportError {
    /// Whether the caller named a wrong directory or file, as opposed to a disk that failed.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), doing, source }
    }
}
