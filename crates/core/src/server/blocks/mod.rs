//! The operations of models that divide a shard into blocks, with one data center as the home of each block.
//!
//! This room decides the bounds of blocks, which changes of a block are sent, how changes are summed over data centers,
//! rounded and cut into frames, and how copies become equal at the end of a run. It does not know when a model does any
//! of that, and which reads wait for it.

mod block;
mod drain;
mod laggard;
mod parts;
pub(super) mod sums;
mod table_part;

pub use block::Blocks;
pub use drain::DrainMethod;

pub(super) use block::check_span;
pub(super) use drain::Drain;
pub(super) use laggard::Laggard;
pub(super) use parts::{Job, Part};
pub(super) use table_part::TablePart;
