//! The files of one node: its last checkpoints, and the log of what it has received since.

use std::path::{Path, PathBuf};

use tracing::info;

use super::log_disk::LogFolder;
use super::{
    Checkpoint, CheckpointError, Checkpoints, LogConfig, LogDirectory, LogDisk, Recovered, Resumed,
};
use gaia_core::log::Record;
use gaia_core::types::Seed;

/// The settings of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStoreConfig {
    /// The settings of the log.
    pub log: LogConfig,
    /// The seed of the run.
    pub seed: Seed,
    /// How many checkpoints are kept, at least 1.
    pub keep: usize,
}

/// The directory of one node, with `checkpoints/` and `log/`.
pub struct NodeStore {
    checkpoints: Checkpoints,
    log: LogDirectory,
}

impl NodeStore {
    /// Opens the directory of a node, or makes it, and rebuilds the node's state.
    ///
    /// `restore` makes the state from the newest checkpoint that is whole, or from nothing where there is none. `replay`
    /// applies each record of the log since then, in order. The directory is locked until the store is dropped.
    ///
    /// # Errors
    /// Where another process has locked the directory; where the checkpoints or the log are damaged or belong to another
    /// run; where the disk fails; and the first error of `restore` or `replay`.
    pub fn recover<S, E: From<CheckpointError>>(
        path: &Path,
        config: NodeStoreConfig,
        restore: impl FnOnce(Option<Resumed>) -> Result<S, E>,
        replay: impl FnMut(&mut S, Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, S, Recovered), E> {
        // The lock of the log covers the checkpoints too.
        let folder = LogFolder::open(&Self::log_path(path))?;
        Self::recover_on(Box::new(folder), path, config, restore, replay)
    }

    /// As [`Self::recover`], with the log on another disk.
    ///
    /// # Errors
    /// As [`Self::recover`].
    pub fn recover_on<S, E: From<CheckpointError>>(
        disk: Box<dyn LogDisk>,
        path: &Path,
        config: NodeStoreConfig,
        restore: impl FnOnce(Option<Resumed>) -> Result<S, E>,
        mut replay: impl FnMut(&mut S, Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, S, Recovered), E> {
        let NodeStoreConfig { log, seed, keep } = config;
        let log_path = Self::log_path(path);
        let checkpoints = Checkpoints::new(&path.join(CHECKPOINTS), log.owner.plan, seed, keep);
        let checkpoints = checkpoints.by_records();
        let newest = checkpoints.newest()?;
        let from = newest.as_ref().and_then(|resumed| resumed.facts.first_record).unwrap_or(0);
        let mut state = restore(newest)?;
        let replay = |record: Record<'_>| replay(&mut state, record);
        let (log, recovered) = LogDirectory::recover_on(disk, &log_path, log, from, replay)?;
        Ok((Self { checkpoints, log }, state, recovered))
    }

    /// Whether a directory has a checkpoint, whole or not. If so, [`Self::recover`] starts from one or fails.
    pub fn has_checkpoint(path: &Path) -> bool {
        let entries = Checkpoints::new(&path.join(CHECKPOINTS), 0, Seed(0), 1).by_records();
        entries.numbers().is_ok_and(|numbers| !numbers.is_empty())
    }

    /// The folder of the log in a node's directory.
    pub fn log_path(path: &Path) -> PathBuf {
        path.join("log")
    }

    /// The log, which takes the records.
    pub fn log(&mut self) -> &mut LogDirectory {
        &mut self.log
    }

    /// Writes a checkpoint, and removes the oldest ones and the segments of the log that none of the others needs.
    ///
    /// # Errors
    /// Where the disk fails. The earlier checkpoints are still there, and the node may go on.
    ///
    /// # Panics
    /// Where the checkpoint does not name its first record, or contains records that are not synced.
    pub fn keep(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let first = checkpoint.facts.first_record;
        let synced = self.log.synced();
        assert!(first.is_some_and(|first| first <= synced), "{first:?}, {synced} are synced");
        let path = self.checkpoints.write(checkpoint)?;
        info!(path = %path.display(), "checkpoint written");
        if let Some(first) = self.checkpoints.numbers()?.first() {
            self.log.drop_before(*first);
        }
        Ok(())
    }
}

const CHECKPOINTS: &str = "checkpoints";
