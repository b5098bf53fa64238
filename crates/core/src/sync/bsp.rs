//! Bulk synchronous parallel between data centers: each clock waits for the same clock of every other data center.

use serde::{Deserialize, Serialize};

use super::{BlockShares, ValueFormat};

/// The settings of remote BSP. A read at clock `c` sees all updates of all data centers up to clock `c`. Of later
/// updates it sees only those of the reader's own data center.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BspConfig {
    /// The format of values on the WAN. The rounding error is added to the update of the next clock.
    pub values: ValueFormat,
    /// The sizes of the blocks of the exchange.
    pub blocks: BlockShares,
}

impl Default for BspConfig {
    fn default() -> Self {
        Self { values: ValueFormat::F32, blocks: BlockShares::default() }
    }
}
