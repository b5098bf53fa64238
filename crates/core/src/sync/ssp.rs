//! Stale synchronous parallel between data centers (Ho et al., NIPS 2013).

use serde::{Deserialize, Serialize};

use super::{BlockShares, ValueFormat};
use crate::types::Staleness;

/// The settings of remote SSP. A read at clock `c` sees all updates of all data centers up to clock `c - staleness`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SspConfig {
    /// How many clocks a data center may be ahead of the slowest other one. 0 is BSP.
    pub staleness: Staleness,
    /// The format of values on the WAN. The rounding error is added to the update of the next clock.
    #[serde(default = "f32")]
    pub values: ValueFormat,
    /// The sizes of the blocks of the exchange.
    #[serde(default)]
    pub blocks: BlockShares,
}

fn f32() -> ValueFormat {
    ValueFormat::F32
}
