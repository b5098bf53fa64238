//! Bulk synchronous parallel between data centers: every clock waits for every other data center's clock.

use serde::{Deserialize, Serialize};

use super::ValueFormat;

/// Remote BSP. A read at clock `c` sees every update of every data center up to clock `c`, and none later
/// but the reader's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BspConfig {
    /// How values cross the WAN; what rounding loses is added to the next clock's update.
    pub values: ValueFormat,
}

impl Default for BspConfig {
    fn default() -> Self {
        Self { values: ValueFormat::F32 }
    }
}
