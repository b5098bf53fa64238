//! What can be wrong with a checkpoint or a log.

use std::io;
use std::path::{Path, PathBuf};

use gaia_core::log::LogError;
use gaia_core::types::StateError;
use gaia_model::HeaderTooLong;

/// Why a checkpoint or a log cannot be written or read. Each error names the file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused to read or write.
    #[error("{} {problem}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What failed, such as `cannot be written`.
        problem: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Something else has the name of a file that this program writes.
    #[error("{} is {found}, expected a file", path.display())]
    NotAFile {
        /// Where it is.
        path: PathBuf,
        /// What it is, such as `a symbolic link`.
        found: &'static str,
    },
    /// A file has not the length that its manifest or header names.
    #[error("{} is {found} bytes long, expected {expected} as in its manifest", path.display())]
    WrongLength {
        /// The file or directory.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The length that it should have.
        expected: u64,
    },
    /// A file is damaged.
    #[error("{} is damaged: found checksum {found:08x}, expected {expected:08x} as in its manifest", path.display())]
    WrongChecksum {
        /// The file or directory.
        path: PathBuf,
        /// The CRC-32 of its bytes.
        found: u32,
        /// The CRC-32 that they should have.
        expected: u32,
    },
    /// A file is not what this program writes.
    #[error("{} cannot be read: {problem}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// A state has more tensors than a file has room for.
    #[error("{} cannot be written: {error}: expected fewer data centers or no checkpoints", path.display())]
    TooManyTensors {
        /// The file or directory.
        path: PathBuf,
        /// What does not fit.
        error: HeaderTooLong,
    },
    /// A checkpoint was written by another version of the program.
    #[error("{} is of checkpoint version {found}, expected {expected}", path.display())]
    OtherVersion {
        /// The file or directory.
        path: PathBuf,
        /// The version of the file.
        found: String,
        /// The version of this program.
        expected: String,
    },
    /// A file belongs to another run.
    #[error("{} is of another run: found hash {found} of plan and data, expected {expected}", path.display())]
    OtherPlan {
        /// The file or directory.
        path: PathBuf,
        /// The hash in the file.
        found: String,
        /// The hash of this run.
        expected: String,
    },
    /// A state does not fit the machines of this run.
    #[error("{} does not fit this run: {error}", path.display())]
    OtherState {
        /// The file or directory.
        path: PathBuf,
        /// What does not fit.
        error: StateError,
    },
    /// There are checkpoints, and none is whole.
    #[error("{} has no complete checkpoint: {newest}", path.display())]
    NoneWhole {
        /// The file or directory.
        path: PathBuf,
        /// The error of the newest one.
        newest: Box<Self>,
    },
    /// Another process has locked the directory.
    #[error("{} is used by another process", path.display())]
    InUse {
        /// The file or directory.
        path: PathBuf,
    },
    /// A segment of a log is damaged or belongs to another node.
    #[error("{} {error}", path.display())]
    Log {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        error: LogError,
    },
    /// Records are missing between two segments.
    #[error("{} begins with record {found}, expected record {expected}", path.display())]
    LogGap {
        /// The file or directory.
        path: PathBuf,
        /// The first record of the later segment.
        found: u64,
        /// The record after the last of the earlier one.
        expected: u64,
    },
    /// The log starts after the record from which it is to be replayed.
    #[error("{} lacks record {needed}: {}", path.display(), first.map_or_else(
        || "it has no records".to_owned(),
        |first| format!("its first is record {first}"),
    ))]
    LogBeginsLate {
        /// The file or directory.
        path: PathBuf,
        /// The first record of the log, if there is any.
        first: Option<u64>,
        /// The record from which it is to be replayed.
        needed: u64,
    },
    /// The log goes on from a checkpoint that took the place of some inputs, and that checkpoint cannot be used.
    #[error(
        "{} goes on from checkpoint record-{number:04} alone, expected that checkpoint whole",
        path.display()
    )]
    LogFollowsCheckpoint {
        /// The file or directory.
        path: PathBuf,
        /// The first record after that checkpoint.
        number: u64,
    },
    /// The log ends before the record from which it is to be replayed.
    #[error("{} lacks record {needed}: its next record is {next}", path.display())]
    LogEndsEarly {
        /// The file or directory.
        path: PathBuf,
        /// The number after the last record.
        next: u64,
        /// The record from which it is to be replayed.
        needed: u64,
    },
    /// A record is too long to be appended.
    #[error("{} cannot store a record of {bytes} bytes, expected at most {most}", path.display())]
    OversizedRecord {
        /// The file or directory.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The longest that is allowed.
        most: usize,
    },
    /// A log takes no more records after a failure of its disk.
    #[error("{} stores no more records: an earlier write has failed", path.display())]
    LogStopped {
        /// The file or directory.
        path: PathBuf,
    },
}

impl CheckpointError {
    pub(super) fn io(path: &Path, problem: &'static str) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, problem, source }
    }

    pub(super) fn unreadable(path: &Path, problem: impl ToString) -> Self {
        Self::Unreadable { path: path.to_owned(), problem: shown(&problem.to_string()) }
    }

    /// Whether the caller gave a wrong directory or file. False where a disk failed.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::LogStopped { .. } => false,
            _ => true,
        }
    }
}

/// Text from a file, made safe to print: one line at most, control characters escaped.
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
