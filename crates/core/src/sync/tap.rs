//! Totally asynchronous parallel between data centers: every update is sent, and no read waits.

use serde::{Deserialize, Serialize};

use super::{BlockShares, ValueFormat};

/// The settings of remote TAP. Updates that have not been sent merge with later ones of the same parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TapConfig {
    /// The format of values on the WAN. The rounding error stays in the residual.
    pub values: ValueFormat,
    /// The sizes of the blocks of the drain at the end.
    pub blocks: BlockShares,
}

impl Default for TapConfig {
    fn default() -> Self {
        Self { values: ValueFormat::F32, blocks: BlockShares::default() }
    }
}
