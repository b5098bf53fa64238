//! `[checkpoint]`: when the state of a run is written, and how many states are kept.

use serde::{Deserialize, Serialize};

use super::DriverKind;
use crate::document::Problem;
use crate::range::{self, Checks};

/// When the state of a run is written, and how many states are kept. It does not change the results of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Clocks between checkpoints, at least 1. `None`: the state is written only where the run is interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// How many of the newest checkpoints are kept, at least 1.
    pub keep: usize,
}

impl CheckpointConfig {
    /// Checks the keys, and that the driver keeps checkpoints.
    pub(crate) fn check(self, checks: &Checks<'_>, driver: DriverKind) -> Result<(), Problem> {
        if let Some(every) = self.every {
            checks.clocks("checkpoint.every", every, 1)?;
            if driver == DriverKind::Emulated {
                let expected = format!(
                    "no such key: the {} driver keeps no checkpoints, `simulated` and `real` do",
                    driver.name()
                );
                return Err(checks.wrong("checkpoint.every", every, expected));
            }
        }
        checks.count("checkpoint.keep", self.keep, range::CHECKPOINTS_MAX)
    }
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: None, keep: 3 }
    }
}
