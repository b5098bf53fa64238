//! `[evaluate]`: when the model is evaluated.

use serde::{Deserialize, Serialize};

/// When the model is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateConfig {
    /// Clocks between evaluations, at least 1.
    pub every: u64,
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self { every: 1 }
    }
}
