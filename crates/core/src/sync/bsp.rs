//! Bulk synchronous parallel between data centers: each clock waits for the same clock of every other data center.

use serde::{Deserialize, Serialize};

use super::{BlockShares, ExchangeKind, ValueFormat};

/// The settings of remote BSP. A read at clock `c` sees all updates of all data centers up to clock `c`. Of later
/// updates it sees only those of the reader's own data center.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BspConfig {
    /// The format of values on the WAN. The rounding error is added to the update of the next clock.
    pub values: ValueFormat,
    /// The sizes of the blocks of `exchange = "homes"`.
    pub blocks: BlockShares,
    /// The way of changes to their sum and back.
    pub exchange: ExchangeKind,
    /// With `exchange = "ring"`: the names of all data centers, each of which sends to the next. `None` for the ring whose
    /// slowest link is the fastest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Vec<String>>,
}

impl Default for BspConfig {
    fn default() -> Self {
        Self {
            values: ValueFormat::F32,
            blocks: BlockShares::default(),
            exchange: ExchangeKind::default(),
            ring: None,
        }
    }
}
