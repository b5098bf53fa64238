//! Limits on the norm of workers' updates (`[sync.outliers]`): robust aggregation at the server that receives them.
//!
//! Clipping by norm bounds what one update can do to each table of the model. The bound is a fixed norm, a multiple of the median of
//! recent norms (as Blanchard et al., NIPS 2017, and Sun et al., 2019, discuss robust aggregation), or the smaller of
//! both. It does not tell whether an update within the bound is honest.

use serde::{Deserialize, Serialize};

/// The limits on the changes of one update to one table of one shard. At least one of the two is set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutlierConfig {
    /// The largest L2 norm of the changes, above 0. It does not apply to statistics
    /// ([`crate::types::ModelLayout::is_statistics`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_max: Option<f64>,
    /// The largest L2 norm of the changes, divided by the median norm of recent changes of the data center; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_times: Option<f64>,
    /// What happens to an update above the limit.
    #[serde(default)]
    pub action: OutlierAction,
}

/// What happens to an update above the limit. The worker's clock counts as finished in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutlierAction {
    /// Tables whose changes are above the limit are scaled down to it.
    #[default]
    Clip,
    /// No part of it is applied.
    Refuse,
}
