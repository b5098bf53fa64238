//! The errors of handling frames of a mirror.

use crate::types::limits::CHANGE_MAX;
use crate::types::{Clock, DcId, ShardId};
use crate::wire::FrameError;

/// Why a frame or an event of a mirror was rejected. No part of it was applied, except that the mirror counts as heard.
///
/// In all variants `from` is the mirror's data center.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// The bytes are not a valid frame.
    #[error("{from} sent a frame that cannot be read: {error}")]
    PeerSentBadFrame {
        /// The mirror's data center.
        from: DcId,
        /// Why the frame cannot be decoded.
        error: FrameError,
    },
    /// The sequence number does not follow that of the frame before.
    #[error("{from} sent update {found}, expected {expected}")]
    PeerSentWrongSequence {
        /// The mirror's data center.
        from: DcId,
        /// The sequence number.
        found: u64,
        /// The sequence number that was due.
        expected: u64,
    },
    /// The origin in the frame is not the data center of the connection.
    #[error("{from} sent a frame of {origin}, expected one of its own")]
    PeerSentForeignOrigin {
        /// The mirror's data center.
        from: DcId,
        /// The origin in the frame.
        origin: DcId,
    },
    /// The synchronisation model does not use this kind of frame or message.
    #[error("{from} sent a {found} frame, which {sync} does not use")]
    PeerSentUnexpectedKind {
        /// The mirror's data center.
        from: DcId,
        /// The kind of frame or message.
        found: &'static str,
        /// The name of the model or lane.
        sync: &'static str,
    },
    /// The frame is not of the clock that was due.
    #[error("{from} sent clock {found}, expected {expected}")]
    PeerSentWrongClock {
        /// The mirror's data center.
        from: DcId,
        /// The clock of the frame.
        found: Clock,
        /// The clock that was due.
        expected: Clock,
    },
    /// The frame is of a clock that the mirror cannot have finished.
    #[error("{from} sent clock {found}, expected one below {below}")]
    PeerSentEarlyClock {
        /// The mirror's data center.
        from: DcId,
        /// The clock of the frame.
        found: Clock,
        /// The smallest clock that the mirror cannot have finished.
        below: Clock,
    },
    /// The frame is of another shard.
    #[error("{from} sent a frame of shard {}, expected shard {}", found.0, expected.0)]
    PeerSentForeignShard {
        /// The mirror's data center.
        from: DcId,
        /// The shard of the frame.
        found: ShardId,
        /// The shard of this server.
        expected: ShardId,
    },
    /// A mirror says that a data center has changed a number of consecutive parameters that it cannot have changed.
    #[error(
        "a frame of {from} has {found} changed parameters from parameter {first} on, expected a whole number from 1 to {most}"
    )]
    PeerSentWrongRun {
        /// The mirror's data center.
        from: DcId,
        /// The first parameter of the run.
        first: usize,
        /// The number in the frame.
        found: f32,
        /// The number of parameters from `first` to the end of the block.
        most: usize,
    },
    /// A mirror says that a total does not include a number of parts that this data center cannot have sent.
    #[error("a total of {from} lacks {found} parts, expected a whole number from 1 to {most}")]
    PeerSentWrongCount {
        /// The mirror's data center.
        from: DcId,
        /// The number in the frame.
        found: f32,
        /// The number of parts that no total includes.
        most: usize,
    },
    /// The frame changes a parameter of a block that it must not change.
    #[error("{from} sent parameter {index}, expected one of {expected}")]
    PeerSentForeignParameter {
        /// The mirror's data center.
        from: DcId,
        /// The parameter of the shard.
        index: usize,
        /// The range of parameters that the frame may change.
        expected: String,
    },
    /// A change exceeds [`CHANGE_MAX`], is infinite or not a number.
    #[error(
        "diverged: {from} sent a change of {value} to row {row} of table `{table}`, expected at most {CHANGE_MAX:e}"
    )]
    PeerSentDivergedChange {
        /// The mirror's data center.
        from: DcId,
        /// The name of the table.
        table: String,
        /// The model row.
        row: usize,
        /// The change.
        value: f32,
    },
    /// The part of a block is not the next one.
    #[error("{from} sent {found} of a block, expected {expected}")]
    PeerSentWrongPart {
        /// The mirror's data center.
        from: DcId,
        /// The part.
        found: String,
        /// The part that was due.
        expected: String,
    },
    /// The mirror's hello differs from this server's.
    #[error("{from} has {what} {found}, expected {expected}: it takes part in another run")]
    PeerRunsOtherPlan {
        /// The mirror's data center.
        from: DcId,
        /// The name of the field that differs.
        what: &'static str,
        /// The mirror's value.
        found: u64,
        /// This server's value.
        expected: u64,
    },
    /// The data center has no mirror of this server.
    #[error("{from} is not a mirror of this server")]
    UnknownPeer {
        /// The data center.
        from: DcId,
    },
    /// The mirror has lost its copy or has left, which the synchronisation model does not support.
    #[error("{from} has lost its copy, which {sync} cannot rebuild")]
    PeerLostCopy {
        /// The mirror's data center.
        from: DcId,
        /// The name of the model.
        sync: &'static str,
    },
}

impl PeerError {
    /// Whether the run cannot continue with the mirror: it takes part in another run, has lost a copy that cannot be
    /// rebuilt, or shows that training has diverged. After any other error the caller closes the connection, and the run
    /// continues as without it.
    pub fn ends_run(&self) -> bool {
        matches!(
            self,
            Self::PeerRunsOtherPlan { .. }
                | Self::PeerLostCopy { .. }
                | Self::PeerSentDivergedChange { .. }
        )
    }

    /// The data center of the mirror that caused the error.
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
            | Self::PeerSentWrongRun { from, .. }
            | Self::PeerSentWrongCount { from, .. }
            | Self::PeerSentDivergedChange { from, .. }
            | Self::PeerSentWrongPart { from, .. }
            | Self::PeerRunsOtherPlan { from, .. }
            | Self::UnknownPeer { from }
            | Self::PeerLostCopy { from, .. } => *from,
        }
    }
}
