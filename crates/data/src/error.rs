//! What can be wrong with a data file.

use std::fmt;
use std::path::{Path, PathBuf};

use gaia_ml::ConfigError;

/// Why there is no data to train on.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: std::io::Error },
    #[error("{}{place}: found {found}, expected {expected}", file.display())]
    Broken { file: PathBuf, place: Place, found: String, expected: String },
}

/// Where in a file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Row(u64),
    /// A byte of the decompressed file, counted from 0.
    Byte(u64),
    Whole,
}

impl DataError {
    pub(super) fn broken(
        file: &Path,
        place: Place,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Broken { file: file.into(), place, found: found.into(), expected: expected.into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(f, ", row {row}"),
            Self::Byte(byte) => write!(f, ", byte {byte}"),
            Self::Whole => Ok(()),
        }
    }
}

/// Bytes from a file as they may be shown: printable, and no more than a line holds.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    let mut shown = format!("\"{}\"", text.escape_debug());
    if bytes.len() > SHOWN_BYTES {
        shown.push('…');
    }
    shown
}

const SHOWN_BYTES: usize = 40;
