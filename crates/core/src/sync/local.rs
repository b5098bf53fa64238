//! Local synchronisation: the workers of one data center.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quorum_of;
use crate::types::{Clock, DurationSetting, Staleness};

/// How far the workers of one data center may drift apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum LocalSync {
    /// A read at clock `c` waits until the data center has finished clock `c`.
    Bsp(LocalBspConfig),
    /// A read at clock `c` waits until every worker has finished clock `c - staleness` (Ho et al., NIPS 2013).
    Ssp {
        /// How many clocks a worker may be ahead of the slowest.
        staleness: Staleness,
    },
}

/// The settings of BSP among the workers of one data center.
///
/// With a quorum nobody waits for the slowest workers, and no change is lost: synchronous training with backup workers
/// (Chen et al., 2016) discards the late changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalBspConfig {
    /// The share of the workers whose updates finish a clock, above 0 and at most 1. An update that comes later joins the
    /// clock that has not ended, and its worker goes on at that clock. At 1 a clock waits for all workers.
    pub quorum: f64,
    /// How long a clock waits for the other updates once a quorum is in. Used by a `quorum` below 1.
    pub grace: DurationSetting,
}

impl LocalBspConfig {
    const ALL: Self = Self { quorum: 1.0, grace: DurationSetting(Duration::ZERO) };
}

/// A clock waits for all workers.
impl Default for LocalBspConfig {
    fn default() -> Self {
        Self::ALL
    }
}

impl LocalSync {
    /// BSP that waits for all workers.
    pub const BSP: Self = Self::Bsp(LocalBspConfig::ALL);

    /// Whether a worker at `clock` may read while its data center is at `finished`.
    pub fn admits(self, clock: Clock, finished: Clock) -> bool {
        clock.ahead_of(finished) <= self.staleness().0
    }

    /// The model's name, as configuration files and reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bsp(_) => "bsp",
            Self::Ssp { .. } => "ssp",
        }
    }

    /// How many clocks a worker may be ahead of its data center. 0 for BSP.
    pub fn staleness(self) -> Staleness {
        match self {
            Self::Bsp(_) => Staleness(0),
            Self::Ssp { staleness } => staleness,
        }
    }

    /// Whether clocks end without the updates of all workers.
    pub fn has_quorum(self) -> bool {
        matches!(self, Self::Bsp(bsp) if bsp.quorum < 1.0)
    }

    /// The number of workers, of this many, whose updates finish a clock.
    pub fn quorum_of(self, workers: usize) -> usize {
        match self {
            Self::Bsp(bsp) => quorum_of(bsp.quorum, workers),
            Self::Ssp { .. } => workers,
        }
    }

    /// How long a clock waits for the other workers once a quorum has finished it.
    pub fn grace(self) -> Duration {
        match self {
            Self::Bsp(bsp) => bsp.grace.0,
            Self::Ssp { .. } => Duration::ZERO,
        }
    }
}
