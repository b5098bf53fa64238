//! The decision whether a read may be answered.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{DcId, WorkerId};

/// Whether a read may be answered, and if not, what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The read may be answered.
    Open,
    /// The read is held back for this reason.
    Closed(WaitReason),
}

/// The reason why a read is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitReason {
    /// A worker of the same data center is too many clocks behind.
    LocalWorker {
        /// The slowest worker.
        worker: WorkerId,
    },
    /// Updates that the read must see are missing: those of a clock with BSP, SSP or a round of local steps, or the
    /// copy that a server of TAP or ASP rebuilds from a mirror.
    Updates {
        /// A data center whose updates are missing.
        from: DcId,
    },
    /// ASP's mirror clock: a mirror is too many clocks behind. Or reads pause because a mirror cannot be reached.
    MirrorClock {
        /// The mirror's data center.
        from: DcId,
    },
    /// ASP's selective barrier: a mirror announced a parameter of the row, and its update has not arrived.
    Announced {
        /// The announcing mirror's data center.
        from: DcId,
        /// The shard-wide number of the row.
        row: u32,
    },
    /// A partial partition: no updates pass between this data center and a mirror, and a third one exchanges updates
    /// with both. Copies would diverge if both trained.
    PartialPartition {
        /// The mirror's data center.
        from: DcId,
    },
}

impl WaitReason {
    /// The names of all reasons, in the order of the variants.
    pub const NAMES: [&str; 5] =
        ["local", "bandwidth", "mirror_clock", "barrier", "partial_partition"];

    /// The reason's name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::LocalWorker { .. } => "local",
            Self::Updates { .. } => "bandwidth",
            Self::MirrorClock { .. } => "mirror_clock",
            Self::Announced { .. } => "barrier",
            Self::PartialPartition { .. } => "partial_partition",
        }
    }

    /// Whether the read waits for an announced parameter.
    pub fn is_announced(self) -> bool {
        matches!(self, Self::Announced { .. })
    }

    /// The other data center that the read waits for. `None` if it waits for a worker of its own data center.
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
            Self::Updates { from } => write!(f, "updates of {from} have not arrived"),
            Self::MirrorClock { from } => write!(f, "the mirror clock of {from} is behind"),
            Self::Announced { from, row } => write!(f, "{from} announced row {row}"),
            Self::PartialPartition { from } => {
                write!(
                    f,
                    "{from} continues to train and exchanges no updates with this data center"
                )
            }
        }
    }
}
