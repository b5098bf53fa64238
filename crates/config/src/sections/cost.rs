//! `[cost]`: what machines cost.

use serde::{Deserialize, Serialize};

/// The costs of a run besides the WAN prices of its topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostConfig {
    /// US dollars for each hour of each server and each worker.
    pub usd_per_machine_hour: f64,
}
