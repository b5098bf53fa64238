//! What can go wrong with an object. Errors do not repeat the URL: what reads the object names it.

use std::io;

use object_store::Error;

use crate::location::Kind;

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The URL cannot be one of object storage.
    #[error("found {found}, expected {expected}")]
    Url {
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The bound of the cache is no amount of bytes.
    #[error(
        "GAIA_CACHE_BYTES is `{found}`, expected a number of bytes or an amount such as \"500 MB\", or 0 for no cache"
    )]
    CacheBytes {
        /// What was found.
        found: String,
    },
    /// There is no such object, or no such bucket.
    #[error("no such object; a folder is written with `/` at its end")]
    NotFound,
    /// The storage refuses these credentials.
    #[error("access is refused; credentials are read from {variables}")]
    Refused {
        /// The variables of the environment that give credentials.
        variables: &'static str,
    },
    /// The object is not the one that was opened.
    #[error("the object has changed since it was opened")]
    Changed,
    /// An answer has ended too early, also when it was repeated.
    #[error("the answer of the storage was cut: {reason}")]
    Cut {
        /// The last reason.
        reason: String,
    },
    /// Requests fail, also when they are repeated.
    #[error("the storage does not answer: {reason}")]
    Unavailable {
        /// The last reason.
        reason: String,
    },
}

impl StorageError {
    pub(crate) fn of(error: &Error, kind: Kind) -> Self {
        match error {
            Error::NotFound { .. } => Self::NotFound,
            Error::Precondition { .. } | Error::NotModified { .. } => Self::Changed,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                Self::Refused { variables: kind.variables() }
            }
            other => Self::Unavailable { reason: reason(other) },
        }
    }

    /// The error of an answer that has begun.
    pub(crate) fn of_answer(error: &Error, kind: Kind) -> Self {
        match Self::of(error, kind) {
            Self::Unavailable { reason } => Self::Cut { reason },
            other => other,
        }
    }
}

impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NotFound => Self::new(io::ErrorKind::NotFound, error),
            StorageError::Refused { .. } => Self::new(io::ErrorKind::PermissionDenied, error),
            other => Self::other(other),
        }
    }
}

/// The innermost reason, in one line that fits a terminal.
fn reason(error: &Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text: String = innermost.to_string().chars().take(REASON_MAX).collect();
    text.escape_debug().to_string()
}

const REASON_MAX: usize = 200;
