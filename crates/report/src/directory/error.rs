//! What can be wrong with a directory that is to be written or read.

use std::io;
use std::path::{Path, PathBuf};

use gaia_model::ModelError;

/// Why a directory, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A new run was to be written where there are files.
    #[error("{}: not empty, expected a new or an empty directory for the files of a run", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A comparison lacks directories of its runs, which its records name.
    #[error("{}: {noted} runs, found {found} of them beside it, expected the directories of all", path.display())]
    MissingRuns {
        /// The records of the comparison.
        path: PathBuf,
        /// The number of runs that are there.
        found: usize,
        /// The number of runs that the records have.
        noted: usize,
    },
    /// Runs were to go on where others are.
    #[error("{}: other settings, expected those of these runs: go on with the same run file, flags and seed", path.display())]
    OtherSettings {
        /// The `run.toml` of the others.
        path: PathBuf,
    },
    /// A directory of one seed has a run of another.
    #[error("{}: a run of seed {found}, expected one of seed {expected}, which the directory is named after", path.display())]
    OtherSeed {
        /// The directory.
        path: PathBuf,
        /// The seed of the run.
        found: u64,
        /// The seed in the name.
        expected: u64,
    },
    /// The path names a file.
    #[error("{}: not a directory, expected one", path.display())]
    NotADirectory {
        /// The file.
        path: PathBuf,
    },
    /// A directory that is to be read does not exist.
    #[error("{}: no such directory, expected one that a run or a comparison has written", path.display())]
    NoSuchDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A directory that is to be read has no summary and no records.
    #[error(
        "{}: no summary.json, compare.json or paper.json, expected the directory of a finished run or comparison",
        path.display()
    )]
    NotFinished {
        /// The directory.
        path: PathBuf,
    },
    /// Something in a run's directory is not what a run writes there, such as a symbolic link.
    #[error("{}: found {found}, expected {expected} of the run itself", path.display())]
    NotOwn {
        /// Where it is.
        path: PathBuf,
        /// What it is, such as `a symbolic link`.
        found: &'static str,
        /// What it should be: a file or a directory.
        expected: &'static str,
    },
    /// A model cannot be written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file is not what this program writes.
    #[error("{}:{line}:{column}: {problem}, expected {expected}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in bytes; 0 where the line is empty.
        column: usize,
        /// What the parser found.
        problem: String,
        /// What the file should hold.
        expected: &'static str,
    },
    /// The operating system refused to read or write.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What failed, such as `cannot be written`.
        doing: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl ReportError {
    /// Whether the caller named a wrong directory or file. False where a disk failed.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Model(_))
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), doing, source }
    }
}
