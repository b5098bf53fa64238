//! What one node has on disk: its last checkpoints, and the log of what has come to it since.

use std::path::{Path, PathBuf};

use tracing::info;

use super::log_disk::LogFolder;
use super::{
    Checkpoint, CheckpointError, Checkpoints, LogConfig, LogDirectory, LogDisk, Recovered, Resumed,
};
use gaia_core::log::Record;
use gaia_core::types::Seed;

/// What a store must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStoreConfig {
    pub log: LogConfig,
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
    /// Opens the directory of a node, or makes it. `restore` makes the node's state of the newest checkpoint that is
    /// whole, if there is any, and `replay` brings it up to date, record by record.
    ///
    /// # Errors
    /// Where another process has the directory, its checkpoints or its log are damaged or another's, or the disk fails;
    /// or the first of `restore` and `replay`.
    pub fn recover<S, E: From<CheckpointError>>(
        path: &Path,
        config: NodeStoreConfig,
        restore: impl FnOnce(Option<Resumed>) -> Result<S, E>,
        replay: impl FnMut(&mut S, Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, S, Recovered), E> {
        // Its lock is that of the checkpoints too.
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

    /// Whether a directory has a checkpoint, whole or not: [`Self::recover`] then begins with one, or fails.
    pub fn has_checkpoint(path: &Path) -> bool {
        let entries = Checkpoints::new(&path.join(CHECKPOINTS), 0, Seed(0), 1).by_records();
        entries.numbers().is_ok_and(|numbers| !numbers.is_empty())
    }

    /// Where the log of a node's directory lies.
    pub fn log_path(path: &Path) -> PathBuf {
        path.join("log")
    }

    /// Where records go.
    pub fn log(&mut self) -> &mut LogDirectory {
        &mut self.log
    }

    /// Writes a checkpoint, lets the oldest go, and of the log what none needs.
    ///
    /// # Errors
    /// Where the disk fails. The node has what it had before and may go on.
    ///
    /// # Panics
    /// Where the checkpoint does not name its first record, or holds what was not synced before.
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
