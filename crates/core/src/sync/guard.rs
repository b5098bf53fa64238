//! The guard against skew: how much a data center's own model may lose on the data of others.

use serde::{Deserialize, Serialize};

/// Model traveling (Hsieh, Phanishayee, Mutlu and Gibbons, ICML 2020, section 7): now and then each data center's copy
/// is sent to another, which measures it on its own examples. Where it does worse there than the copy that is at home,
/// by more than a bound, all data centers keep their copies closer together; where it does not for long, less close.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// Clocks between two copies that a data center sends, at least 1.
    pub every: u64,
    /// What a copy may lose away from home, above 0: its loss less that of the copy at home, on the same examples, as a
    /// share of what the model lost before training.
    pub bound: f64,
    /// Examples that a copy is measured on, at least 1.
    pub examples: usize,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { every: 20, bound: 0.1, examples: 100 }
    }
}
