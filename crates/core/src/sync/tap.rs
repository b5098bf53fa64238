//! Totally asynchronous parallel between data centers: every update is sent, nobody waits.

use serde::{Deserialize, Serialize};

use super::ValueFormat;

/// Remote TAP. Updates that a link has not yet carried merge with the next ones for the same parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TapConfig {
    /// How values cross the WAN; what rounding loses stays in the residual.
    pub values: ValueFormat,
}

impl Default for TapConfig {
    fn default() -> Self {
        Self { values: ValueFormat::F32 }
    }
}
