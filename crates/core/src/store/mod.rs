//! The values of one shard: what a parameter server holds of its data center's copy of the model.
//!
//! The store adds deltas and answers reads. It does not know who may read when, nor what leaves the data center. In the
//! paper this is the parameter store of a server, without the accumulated updates: those are the outboxes' business.

mod shard;
mod touched;

pub(crate) use shard::LAN_HEADER_BYTES;
pub use shard::{ShardDeltas, ShardRows, ShardStore};
pub use touched::Touched;
