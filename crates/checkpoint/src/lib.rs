//! Checkpoints and logs: the state of a run or a node on disk, whole or not at all.
//!
//! This crate decides how a state becomes files, which files are valid, and when a run writes them. It does not know what
//! a state or a record of a log means: state machines save and load themselves ([`gaia_core::types::Persist`]), and a driver
//! decides when. The paper has no checkpoints.
//!
//! A checkpoint is a directory `checkpoints/clock-NNNN/`, or of one node `checkpoints/record-NNNN/`:
//!
//! | file | |
//! |---|---|
//! | `model.safetensors` | for other tools, and not in the checkpoints of one node: the first data center's copy, each table under its name as rows × width |
//! | `values.safetensors` | values that servers hold, by server |
//! | `residuals.safetensors` | sums of changes, made and carried; the difference is what links have not carried yet |
//! | `optimizer.safetensors` | momentum of tasks and servers, and what the homes of blocks keep for each data center |
//! | `state.msgpack` | everything else by name, each record as MessagePack |
//! | `manifest.json` | version, plan, clocks, watermarks of links; length and CRC-32 of each file, and its own |
//!
//! In the safetensors files of a state, numbers are `F32`, or `BF16` where that represents all of a tensor exactly.
//!
//! The files are written into a directory of another name and synced one by one, the manifest last. Then the directory is
//! synced and renamed. So a checkpoint under its own name is whole, unless the disk has lost a part of it, which a length
//! or a checksum detects. Checksums detect accidents and not forgeries: read a checkpoint only from a source that you
//! trust as much as the program.
//!
//! A node of the real driver has a directory `nodes/NAME/` with its `checkpoints/` and a `log/` of what it has received
//! since ([`NodeStore`]). The log consists of segments, which are files named after their first record
//! ([`LogDirectory`]); [`gaia_core::log`] defines their contents. Each checkpoint names the first record that is to be
//! replayed on it, and a segment is removed when no checkpoint that is kept needs it.

#![warn(missing_docs)]

mod checkpoint;
mod directory;
mod disk;
mod error;
mod keeper;
mod log_directory;
mod log_disk;
mod manifest;
mod marked_file;
mod node_store;
#[cfg(test)]
#[cfg(unix)]
mod power_loss;
mod state_file;
mod tensors;
mod uncached;

pub use checkpoint::{Checkpoint, Resumed};
pub use directory::Checkpoints;
pub use disk::{Disk, Filesystem, Syncer, SystemSyncer};
pub use error::CheckpointError;
pub use keeper::{Due, Keeper};
pub use log_directory::{LogConfig, LogDirectory, Recovered};
pub use log_disk::{LogDisk, LogFolder};
pub use manifest::{ClockOf, Facts, LinkMark};
pub use node_store::{BegunCheckpoint, NodeStore, NodeStoreConfig, WrittenCheckpoint};
pub use state_file::StateFile;
