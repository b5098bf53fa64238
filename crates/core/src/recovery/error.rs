//! What a log can have wrong, though its records are whole.

use crate::server::PeerError;
use crate::session::SessionError;
use crate::types::{Instant, StateError};

/// What is wrong with a message of a mirror.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The mirror sent what it must not. Nothing of it was taken.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The mirror has lost what cannot be made again.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Why a node cannot go on from what it had written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecoveryError {
    #[error("entry {number} of the log cannot be read: {problem}")]
    Unreadable { number: u64, problem: String },
    #[error("entry {number} of the log does not follow from those before: {problem}")]
    Unfit { number: u64, problem: String },
    #[error("entry {number} of the log is of {found}, before {reached} that was reached already")]
    Backwards { number: u64, found: Instant, reached: Instant },
    #[error("entry {number} of the log is a frame that was refused: {error}")]
    Refused { number: u64, error: PeerError },
    #[error(transparent)]
    State(#[from] StateError),
}
