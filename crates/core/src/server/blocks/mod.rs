//! What models share that cut a shard into blocks, one home each.
//!
//! Decides how changes of a block are summed over data centers, rounded and cut into frames, and how copies become equal at
//! the end of a run. Refuses to know when a model does any of that, and what it means for reads.

pub(super) mod drain;
pub(super) mod parts;
pub(super) mod sums;
