//! What can be wrong with the certificates of a run on disk, or with what is asked of them.

use std::io;
use std::path::{Path, PathBuf};

use super::Identity;

/// Why certificates cannot be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{}: there are certificates here already, expected a new or an empty directory", path.display())]
    Exists { path: PathBuf },
    #[error("{}: no such file, expected {expected}", path.display())]
    Missing { path: PathBuf, expected: &'static str },
    #[error("{}: found {found}, expected {expected}", path.display())]
    Wrong { path: PathBuf, found: String, expected: String },
    #[error("found {found}, expected {expected}")]
    Unfit { found: String, expected: String },
    #[error(
        "{identity} has no certificate of this run, expected one of its nodes: gaia certs show lists them"
    )]
    UnknownNode { identity: Identity },
    #[error("found {identity}, expected a node of run `{run}`")]
    OtherRun { identity: Identity, run: String },
    #[error(
        "the authority is being replaced already, expected that to be ended first with --end-overlap"
    )]
    Overlap,
    #[error("there is one authority, expected two of which the older is to go")]
    NoOverlap,
    #[error("making {what}: {reason}")]
    Making { what: String, reason: String },
    #[error("{}: {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
}

impl CertificateError {
    /// Whether the caller named or wrote something wrong, as opposed to a disk that failed.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Making { .. })
    }

    /// The same error as one of a file.
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
