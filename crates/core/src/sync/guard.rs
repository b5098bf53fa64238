//! The guard against skew: how much worse a data center's copy may be on the data of others.

use serde::{Deserialize, Serialize};

/// The settings of model traveling (Hsieh, Phanishayee, Mutlu and Gibbons, ICML 2020, section 7).
///
/// Periodically each data center sends its copy to another one, which measures the copy on its own examples. If the
/// received copy is worse than the local one by more than the bound, all data centers keep their copies closer
/// together. If it has not been for long, they relax.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// Clocks between two copies that a data center sends, at least 1.
    pub every: u64,
    /// The largest accepted accuracy loss, above 0: the loss of the received copy minus the loss of the local copy, on
    /// the same examples, as a share of the initial model's loss.
    pub bound: f64,
    /// The number of examples that a copy is measured on, at least 1.
    pub examples: usize,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { every: 20, bound: 0.1, examples: 100 }
    }
}
