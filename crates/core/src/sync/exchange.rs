//! The ways in which BSP adds up changes over data centers.

use serde::{Deserialize, Serialize};

/// The way of changes to their sum, and of the total back to all data centers. All compute the same sums, up to the
/// order of their terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// Each data center is home to one block and exchanges it with all others.
    #[default]
    Homes,
    /// Each data center sends to the next one in a ring, as in a ring all-reduce.
    Ring,
    /// Each data center sends to its parent and its children in a tree.
    Tree,
}

impl ExchangeKind {
    /// The name in run files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Homes => "homes",
            Self::Ring => "ring",
            Self::Tree => "tree",
        }
    }
}
