//! Stale synchronous parallel between data centers (Ho et al., NIPS 2013).

use serde::{Deserialize, Serialize};

use super::ValueFormat;
use crate::types::Staleness;

/// Remote SSP. A read at clock `c` sees every update of every data center up to clock `c - staleness`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SspConfig {
    pub staleness: Staleness,
    /// How values cross the WAN; what rounding loses is added to the next clock's update.
    #[serde(default = "f32")]
    pub values: ValueFormat,
}

fn f32() -> ValueFormat {
    ValueFormat::F32
}
