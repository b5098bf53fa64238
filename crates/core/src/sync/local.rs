//! Local synchronisation: the workers of one data center.

use serde::{Deserialize, Serialize};

use crate::types::{Clock, Staleness};

/// How far the workers of one data center may drift apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LocalSync {
    /// A read at clock `c` waits until every worker has finished clock `c`.
    Bsp,
    /// A read at clock `c` waits until every worker has finished clock `c - staleness` (Ho et al., NIPS 2013).
    Ssp {
        /// How many clocks a worker may be ahead of the slowest.
        staleness: Staleness,
    },
}

impl LocalSync {
    /// Whether a worker at `clock` may read while the slowest worker of its data center is at `slowest`.
    pub fn admits(self, clock: Clock, slowest: Clock) -> bool {
        clock.ahead_of(slowest) <= self.staleness().0
    }

    /// The model's name, as configuration files and reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bsp => "bsp",
            Self::Ssp { .. } => "ssp",
        }
    }

    /// How many clocks a worker may be ahead of the slowest. 0 for BSP.
    pub fn staleness(self) -> Staleness {
        match self {
            Self::Bsp => Staleness(0),
            Self::Ssp { staleness } => staleness,
        }
    }
}
