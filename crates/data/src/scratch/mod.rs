//! Examples on disk: for data that is larger than memory.
//!
//! A reader hands examples on as it finds them ([`ExampleSet`]), and they go to a file without a name ([`ScratchFile`]).
//! Once all are there, they are held out, divided among workers and shuffled by way of buckets that fit in memory
//! ([`deal`]). The examples of each worker are then in a random order on disk ([`ScratchPart`]), so that it can read long
//! runs of them and never one here and one there.

mod buckets;
mod dealing;
mod encoding;
mod example_set;
mod scratch_file;
mod scratch_part;
mod scratch_space;
mod spool;
mod spool_writer;

pub(crate) use buckets::deal;
pub(crate) use dealing::{Dealing, least_loaded, skewed_count};
pub(crate) use encoding::Encoded;
pub(crate) use example_set::{ExampleSet, Gathered};
pub(crate) use scratch_part::{ScratchPart, changed};
pub(crate) use scratch_space::ScratchSpace;
