//! What a mirror may do wrong.

use crate::types::limits::CHANGE_MAX;
use crate::types::{Clock, DcId, ShardId};
use crate::wire::FrameError;

/// A frame that this server cannot act on. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerError {
    #[error("{from} sent a frame that cannot be read: {error}")]
    PeerSentBadFrame { from: DcId, error: FrameError },
    #[error("{from} sent update {found} where {expected} was due")]
    PeerSentWrongSequence { from: DcId, found: u64, expected: u64 },
    #[error("{from} sent a frame of {origin}")]
    PeerSentForeignOrigin { from: DcId, origin: DcId },
    #[error("{from} sent a {found} frame, which {sync} does not use")]
    PeerSentUnexpectedKind { from: DcId, found: &'static str, sync: &'static str },
    #[error("{from} sent clock {found} where {expected} was due")]
    PeerSentWrongClock { from: DcId, found: Clock, expected: Clock },
    #[error("{from} sent clock {found} where only clocks below {below} can have been finished")]
    PeerSentEarlyClock { from: DcId, found: Clock, below: Clock },
    #[error("{from} sent a frame of shard {}, this is shard {}", found.0, expected.0)]
    PeerSentForeignShard { from: DcId, found: ShardId, expected: ShardId },
    #[error("{from} sent parameter {index} outside of the {expected} it may send")]
    PeerSentForeignParameter { from: DcId, index: usize, expected: String },
    #[error(
        "diverged: {from} sent a change of {value} to row {row} of table `{table}`, at most {CHANGE_MAX:e} is sound"
    )]
    PeerSentDivergedChange { from: DcId, table: String, row: usize, value: f32 },
    #[error("{from} sent {found} of a block of which {expected} was due")]
    PeerSentWrongPart { from: DcId, found: String, expected: String },
    #[error("{from} has {what} {found} where this server has {expected}: not the same run")]
    PeerRunsOtherPlan { from: DcId, what: &'static str, found: u64, expected: u64 },
    #[error("{from} is not a mirror of this server")]
    UnknownPeer { from: DcId },
    #[error("{from} has lost its copy, which {sync} cannot rebuild")]
    PeerLostCopy { from: DcId, sync: &'static str },
}

impl PeerError {
    /// Whose frame it was.
    pub fn peer(&self) -> DcId {
        match self {
            Self::PeerSentBadFrame { from, .. }
            | Self::PeerSentWrongSequence { from, .. }
            | Self::PeerSentForeignOrigin { from, .. }
            | Self::PeerSentUnexpectedKind { from, .. }
            | Self::PeerSentWrongClock { from, .. }
            | Self::PeerSentEarlyClock { from, .. }
            | Self::PeerSentForeignShard { from, .. }
            | Self::PeerSentForeignParameter { from, .. }
            | Self::PeerSentDivergedChange { from, .. }
            | Self::PeerSentWrongPart { from, .. }
            | Self::PeerRunsOtherPlan { from, .. }
            | Self::UnknownPeer { from }
            | Self::PeerLostCopy { from, .. } => *from,
        }
    }
}
