//! What can be wrong with a checkpoint or a log.

use std::io;
use std::path::{Path, PathBuf};

use gaia_core::log::LogError;
use gaia_core::types::StateError;

/// A checkpoint or a log that could not be written, or is not to be believed. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{} {problem}: {source}", path.display())]
    Io { path: PathBuf, problem: &'static str, source: io::Error },
    #[error("{} is {found} bytes long where its manifest says {expected}", path.display())]
    WrongLength { path: PathBuf, found: u64, expected: u64 },
    #[error("{} is damaged: its checksum is {found:08x} where its manifest says {expected:08x}", path.display())]
    WrongChecksum { path: PathBuf, found: u32, expected: u32 },
    #[error("{} cannot be read: {problem}", path.display())]
    Unreadable { path: PathBuf, problem: String },
    #[error("{} is of checkpoint version {found}, this program reads version {expected}", path.display())]
    OtherVersion { path: PathBuf, found: String, expected: String },
    #[error("{} is of another run: its plan and data have hash {found}, this run's {expected}", path.display())]
    OtherPlan { path: PathBuf, found: String, expected: String },
    #[error("{} does not fit this run: {error}", path.display())]
    OtherState { path: PathBuf, error: StateError },
    #[error("{} holds no whole checkpoint: {newest}", path.display())]
    NoneWhole { path: PathBuf, newest: Box<Self> },
    #[error("{} is used by another process", path.display())]
    InUse { path: PathBuf },
    #[error("{} {error}", path.display())]
    Log { path: PathBuf, error: LogError },
    #[error("{} begins with record {found} where record {expected} is next", path.display())]
    LogGap { path: PathBuf, found: u64, expected: u64 },
    #[error("{} lacks record {needed}: {}", path.display(), first.map_or_else(
        || "it holds no log".to_owned(),
        |first| format!("its first is record {first}"),
    ))]
    LogBeginsLate { path: PathBuf, first: Option<u64>, needed: u64 },
    #[error("{} lacks record {needed}: record {next} is the next to be written", path.display())]
    LogEndsEarly { path: PathBuf, next: u64, needed: u64 },
    #[error("{} takes no record of {bytes} bytes, {most} are the most", path.display())]
    OversizedRecord { path: PathBuf, bytes: usize, most: usize },
    #[error("{} takes no more: the disk has failed before", path.display())]
    LogStopped { path: PathBuf },
}

impl CheckpointError {
    pub(super) fn io(path: &Path, problem: &'static str) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, problem, source }
    }

    pub(super) fn unreadable(path: &Path, problem: impl ToString) -> Self {
        Self::Unreadable { path: path.to_owned(), problem: shown(&problem.to_string()) }
    }

    /// Whether what is wrong is what was given, and not the disk.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::LogStopped { .. } => false,
            _ => true,
        }
    }
}

/// Text from a file as it may be printed: a line at most, and nothing that a terminal would obey.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS_MAX) {
        match character {
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

const SHOWN_CHARS_MAX: usize = 200;
