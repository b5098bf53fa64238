//! What can be wrong with the certificates of a run, or with a request to change them.

use std::io;
use std::path::{Path, PathBuf};

use super::Identity;

/// Why certificates cannot be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A directory that must be empty is not.
    #[error("{}: found certificates, expected a new or an empty directory", path.display())]
    Exists {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file does not exist.
    #[error("{}: no such file, expected {expected}", path.display())]
    Missing {
        /// The file or directory.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
    /// A file does not hold what it should.
    #[error("{}: found {found}, expected {expected}", path.display())]
    Wrong {
        /// The file or directory.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// Bytes that do not come from a file are not what they should be.
    #[error("found {found}, expected {expected}")]
    Unfit {
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The node has no certificate of the run.
    #[error(
        "{identity} has no certificate of this run, expected a node that gaia certs show lists"
    )]
    UnknownNode {
        /// The node.
        identity: Identity,
    },
    /// The node is of another run.
    #[error("found {identity}, expected a node of run `{run}`")]
    OtherRun {
        /// The node.
        identity: Identity,
        /// The name of the run of this authority.
        run: String,
    },
    /// The authority is being replaced already.
    #[error(
        "the authority is being replaced already, expected gaia certs rotate --end-overlap first"
    )]
    Overlap,
    /// The authority is not being replaced.
    #[error("found one authority, expected two, as after gaia certs rotate --authority")]
    NoOverlap,
    /// A certificate cannot be made.
    #[error("cannot make {what}: {reason}")]
    Making {
        /// What was to be made.
        what: String,
        /// The library's reason.
        reason: String,
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

impl CertificateError {
    /// Whether the caller gave a wrong name or a wrong file. False where a disk failed.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Making { .. })
    }

    /// The same error, with the file that it is about.
    pub(super) fn at(self, path: &Path) -> Self {
        match self {
            Self::Unfit { found, expected } => Self::Wrong { path: path.into(), found, expected },
            other => other,
        }
    }

    pub(super) fn unfit(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Unfit { found: found.into(), expected: expected.into() }
    }

    pub(super) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), doing, source }
    }

    pub(super) fn making(what: impl Into<String>) -> impl FnOnce(rcgen::Error) -> Self {
        move |error| Self::Making { what: what.into(), reason: error.to_string() }
    }
}
