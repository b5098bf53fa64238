//! What can go wrong with the file of a model.

use std::path::{Path, PathBuf};

/// Why the file of a model cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The operating system refused to read it.
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// The operating system refused to write it.
    #[error("{}: the model cannot be written: {reason}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// It is not the file of such a model.
    #[error("{}: found {found}, expected {expected}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
}

impl ModelError {
    pub(super) fn broken(
        file: &Path,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Broken { file: file.into(), found: found.into(), expected: expected.into() }
    }
}

/// Text from a file in quotation marks, made safe to print and cut to a part of a line.
pub(super) fn shown(text: &str) -> String {
    format!("\"{}\"", plain(text))
}

/// Text from a file, made safe to print and cut to a part of a line.
pub(super) fn plain(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", start.escape_debug())
}

const SHOWN: usize = 40;
