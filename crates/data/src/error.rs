//! What can be wrong with a data file.

use std::fmt;
use std::path::{Path, PathBuf};

use gaia_ml::ConfigError;
use gaia_model::ModelError;

/// Why an application cannot be built from its data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A setting does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operating system refused to read a file.
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// The operating system refused to write a file.
    #[error("{}: cannot be written: {reason}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// Examples cannot be written to the folder for examples on disk.
    #[error(
        "app.data.scratch is {}, which cannot be written: {reason}; expected a folder on a disk with room for twice the \
         examples", folder.display()
    )]
    Scratch {
        /// The folder.
        folder: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// A file is not what its format says.
    #[error("{}{place}: found {found}, expected {expected}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// Where in the file.
        place: FilePosition,
        /// What was found there.
        found: String,
        /// What was expected there.
        expected: String,
    },
    /// The file of a model cannot be used.
    #[error(transparent)]
    Model(ModelError),
    /// The data of two data centers does not go together.
    #[error("the data of {0}: found {found}, expected {expected}, as in the data of {1}", data_centers[0], data_centers[1])]
    Disagreement {
        /// The data centers.
        data_centers: [String; 2],
        /// What the first has.
        found: String,
        /// What the second has.
        expected: String,
    },
    /// The data of a data center is not what the run file declares.
    #[error(
        "the data of {data_center}: found {found}, expected {expected}, as app.data.declared.{key} says"
    )]
    Undeclared {
        /// The data center.
        data_center: String,
        /// The key that declares it.
        key: &'static str,
        /// What was found.
        found: String,
        /// What was declared.
        expected: String,
    },
    /// An application that a program hands in cannot be built.
    #[error(transparent)]
    Application(Box<dyn std::error::Error + Send + Sync>),
    /// A summary of data that another process has sent cannot be one.
    #[error(
        "the summary of the data of {data_center}: found sizes that do not fit together, expected those of data of \
             the run's application"
    )]
    BrokenSummary {
        /// The data center.
        data_center: String,
    },
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// A line, counted from 1.
    Row(u64),
    /// A byte of the decompressed file, counted from 0.
    Byte(u64),
    /// The file as a whole.
    Whole,
}

impl DataError {
    pub(super) fn broken(
        file: &Path,
        place: FilePosition,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Broken { file: file.into(), place, found: found.into(), expected: expected.into() }
    }
}

impl From<ModelError> for DataError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Unreadable { file, reason } => Self::Unreadable { file, reason },
            other => Self::Model(other),
        }
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(f, ", row {row}"),
            Self::Byte(byte) => write!(f, ", byte {byte}"),
            Self::Whole => Ok(()),
        }
    }
}

/// Bytes from a file, made safe to print and cut to a part of a line.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    let mut shown = format!("\"{}\"", text.escape_debug());
    if bytes.len() > SHOWN_BYTES {
        shown.push('…');
    }
    shown
}

const SHOWN_BYTES: usize = 40;
