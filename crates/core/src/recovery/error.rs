//! Why a message of a mirror, or an entry of a log whose records are whole, is refused.

use crate::server::PeerError;
use crate::session::SessionError;
use crate::types::{Instant, StateError};

/// Why a message of a mirror was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The mirror sent what it must not. Nothing of it was taken: the connection is to be broken, and the run goes on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The mirror has lost what cannot be restored, and the run cannot go on.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Why a node cannot continue from its checkpoint and its log.
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
