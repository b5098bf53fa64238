//! `[drain]`: how all copies become equal at the end.

use serde::{Deserialize, Serialize};

use gaia_core::server::DrainMethod;

/// How all copies become equal at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DrainConfig {
    /// Whether copies become their mean, or receive every residual.
    pub method: DrainMethod,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self { method: DrainMethod::Mean }
    }
}
