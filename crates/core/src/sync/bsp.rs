//! Bulk synchronous parallel between data centers: each clock waits for the same clock of every other data center.

use serde::{Deserialize, Serialize};

use super::ValueFormat;

/// The settings of remote BSP. A read at clock `c` sees all updates of all data centers up to clock `c`. Of later
/// updates it sees only those of the reader's own data center.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BspConfig {
    /// The format of values on the WAN. The rounding error is added to the update of the next clock.
    pub values: ValueFormat,
}

impl Default for BspConfig {
    fn default() -> Self {
        Self { values: ValueFormat::F32 }
    }
}
