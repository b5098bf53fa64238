//! Checkpoints and logs: the state of a run or a node on disk, whole or not at all.
//!
//! This room decides how a state becomes files, which files are believed, and when a run is to write some. It does not
//! know what a state or a record of a log means: machines take theirs out and put it back ([`gaia_core::types::Walk`]), a driver says when.
//! The paper has no checkpoints.
//!
//! A checkpoint is a directory `checkpoints/clock-NNNN/`, or of one node `checkpoints/record-NNNN/`:
//!
//! | file | |
//! |---|---|
//! | `model.safetensors` | for people, and not of one node: the first data center's copy, each table under its name as rows × width |
//! | `values.safetensors` | values that servers hold, by server |
//! | `residuals.safetensors` | sums of changes, made and carried: what links have yet to carry is their difference |
//! | `optimizer.safetensors` | momentum of tasks and servers, and what homes remember of data centers |
//! | `state.msgpack` | everything else by name, each record as MessagePack |
//! | `manifest.json` | version, plan, clocks, watermarks of links; length and CRC-32 of each file, and its own |
//!
//! The files are written into a directory of another name and synced one by one, the manifest last; then the directory
//! is synced and renamed. So under its name a checkpoint is whole, unless the disk has lost some of it: then a length or
//! a checksum says so. Checksums find accidents, not forgers: a checkpoint is to be trusted like the program that reads it.
//!
//! A node that must survive its process has a directory `nodes/NAME/` with its `checkpoints/` and a `log/` of what has come
//! to it since ([`NodeStore`]). The log is made of segments, files named after their first record ([`LogDirectory`]); what
//! is in them is [`gaia_core::log`]'s business. Each checkpoint names the first record that is to be replayed on it, and
//! segments go when no checkpoint that is kept needs them.

mod directory;
mod disk;
mod error;
mod keeper;
mod log_directory;
mod log_disk;
mod manifest;
mod marked_file;
mod node_store;
mod state_file;
mod tensors;

use std::path::PathBuf;

use gaia_core::types::{Model, State};

pub use directory::Checkpoints;
pub use disk::{Disk, Filesystem};
pub use error::CheckpointError;
pub use keeper::{Due, Keeper};
pub use log_directory::{LogConfig, LogDirectory, Recovered};
pub use log_disk::{LogDisk, LogFolder};
pub use manifest::{ClockOf, Facts, LinkMark};
pub use node_store::{NodeStore, NodeStoreConfig};
pub use state_file::StateFile;

/// What a driver saves.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub facts: Facts,
    /// The first data center's copy; none where one node alone is saved.
    pub model: Option<Model>,
    pub state: State,
}

/// What a driver goes on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumed {
    /// Where it was read, for errors.
    pub path: PathBuf,
    pub facts: Facts,
    pub state: State,
}

const MANIFEST: &str = "manifest.json";
const MODEL: &str = "model.safetensors";
const RECORDS: &str = "state.msgpack";
