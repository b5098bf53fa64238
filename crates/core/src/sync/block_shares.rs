//! How the blocks of a shard are shared out among their homes.

use serde::{Deserialize, Serialize};

/// The size of the block that each data center is home to.
///
/// A home receives its block from every data center and sends the result back. So the home with the slowest link decides
/// how long this takes, unless its block is smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockShares {
    /// In proportion to the slowest link of the data center, in either direction, as the topology gives its bandwidth.
    /// Blocks are equal where all slowest links are.
    #[default]
    Bandwidth,
    /// Every data center has a block of the same size.
    Equal,
}
