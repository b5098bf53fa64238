//! The values of one shard: a parameter server's part of its data center's copy of the model.
//!
//! The store adds deltas and answers reads. It does not know who may read when, nor what is sent to other data centers.
//! In the paper this is the parameter store of a server, without the accumulated updates. Those are in the outboxes.

mod shard;
mod touched;

pub(crate) use shard::LAN_HEADER_BYTES;
pub use shard::{ShardDeltas, ShardRows, ShardStore};
pub use touched::Touched;
