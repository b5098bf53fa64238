//! Why a message of a mirror, or an entry of a log whose records are complete, is rejected.

use crate::server::PeerError;
use crate::session::SessionError;
use crate::types::{Instant, StateError};

/// Why a message of a mirror was rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The message is invalid. No part of it was taken. The driver closes the connection, and the run continues.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The mirror has lost a state that cannot be restored. The run must end.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Why a node cannot continue from its checkpoint and its log.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecoveryError {
    /// The entry cannot be decoded.
    #[error("entry {number} of the log cannot be read: {problem}")]
    Unreadable {
        /// The number of the replayed entry, from 1.
        number: u64,
        /// The problem that the decoder reported.
        problem: String,
    },
    /// The entry cannot follow the entries before it.
    #[error("entry {number} of the log does not follow from those before: {problem}")]
    Unfit {
        /// The number of the replayed entry, from 1.
        number: u64,
        /// Why it cannot follow.
        problem: String,
    },
    /// The task cannot repeat an iteration.
    #[error("the iteration before entry {number} of the log cannot be repeated: {reason}")]
    Task {
        /// The number of the replayed entry, from 1.
        number: u64,
        /// The reason of the task.
        reason: String,
    },
    /// The time of the entry is before that of an earlier entry.
    #[error("entry {number} of the log has time {found}, expected at least {reached}")]
    Backwards {
        /// The number of the replayed entry, from 1.
        number: u64,
        /// The time of the entry.
        found: Instant,
        /// The time of the entry before.
        reached: Instant,
    },
    /// The server rejected the entry's input.
    #[error("entry {number} of the log is a frame that the server refuses: {error}")]
    Refused {
        /// The number of the replayed entry, from 1.
        number: u64,
        /// Why the server rejected it.
        error: PeerError,
    },
    /// The state of the checkpoint does not fit the node.
    #[error(transparent)]
    State(#[from] StateError),
}
