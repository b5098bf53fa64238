//! The answer to "may this read go now?".

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{DcId, WorkerId};

/// Whether a read may go, and if not, what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    Closed(WaitReason),
}

/// What a read that was held back waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitReason {
    /// A worker of the same data center is too many clocks behind.
    LocalWorker { worker: WorkerId },
    /// Updates of a clock that BSP or SSP must see have not all come; the last are due from `from`.
    Updates { from: DcId },
    /// ASP's mirror clock: `from` is too many clocks behind.
    MirrorClock { from: DcId },
    /// ASP's selective barrier: `from` announced a parameter of the row and has not yet sent it.
    Announced { from: DcId, row: u32 },
    /// This data center and `from`, which trains on, share no updates, and a third one shares with both: what both
    /// trained would not add up.
    PartialPartition { from: DcId },
}

impl WaitReason {
    /// Every cause's name.
    pub const NAMES: [&str; 5] =
        ["local", "bandwidth", "mirror_clock", "barrier", "partial_partition"];

    /// The cause's name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::LocalWorker { .. } => "local",
            Self::Updates { .. } => "bandwidth",
            Self::MirrorClock { .. } => "mirror_clock",
            Self::Announced { .. } => "barrier",
            Self::PartialPartition { .. } => "partial_partition",
        }
    }

    /// The data center that is waited for, where it is another one.
    pub fn from(self) -> Option<DcId> {
        match self {
            Self::LocalWorker { .. } => None,
            Self::Updates { from }
            | Self::MirrorClock { from }
            | Self::Announced { from, .. }
            | Self::PartialPartition { from } => Some(from),
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LocalWorker { worker } => write!(f, "{worker} is behind"),
            Self::Updates { from } => write!(f, "updates of {from} are due"),
            Self::MirrorClock { from } => write!(f, "the mirror clock of {from} is behind"),
            Self::Announced { from, row } => write!(f, "{from} announced row {row}"),
            Self::PartialPartition { from } => {
                write!(f, "updates do not pass to and from {from}, which trains on")
            }
        }
    }
}
