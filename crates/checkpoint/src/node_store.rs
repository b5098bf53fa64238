//! The files of one node: its last checkpoints, and the log of what it has received since.
//!
//! A checkpoint may take the place of inputs that were not written. Records that follow it then do not follow from the
//! checkpoints before. A record of its own, [`ONLY_AFTER_CHECKPOINT`], says so in the log: recovery from a checkpoint before
//! is refused there.

use std::path::{Path, PathBuf};

use tracing::info;

use super::log_disk::LogFolder;
use super::{
    Checkpoint, CheckpointError, Checkpoints, Facts, LogConfig, LogDirectory, LogDisk, Recovered,
    Resumed,
};
use gaia_core::log::Record;
use gaia_core::types::{Clock, Seed, State};

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
    /// `None` while a checkpoint is being written.
    checkpoints: Option<Checkpoints>,
    log: LogDirectory,
    /// The first record that the newest checkpoint needs.
    newest: Option<u64>,
    /// Whether the next records follow from that checkpoint alone, and the log does not say so yet.
    owes_mark: bool,
}

/// A checkpoint of a node that any thread can write, while the node goes on.
pub struct BegunCheckpoint {
    checkpoint: Checkpoint,
    checkpoints: Checkpoints,
}

/// A checkpoint of a node that was written, or not.
pub struct WrittenCheckpoint {
    written: Result<PathBuf, CheckpointError>,
    state: State,
    checkpoints: Checkpoints,
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
        let first = newest.as_ref().and_then(|resumed| resumed.facts.first_record);
        let mut state = restore(newest)?;
        let mut begins_with_mark = false;
        let replay = |record: Record<'_>| match record.body {
            ONLY_AFTER_CHECKPOINT if first == Some(record.number) => {
                begins_with_mark = true;
                Ok(())
            }
            ONLY_AFTER_CHECKPOINT => {
                let (path, number) = (log_path.clone(), record.number);
                Err(CheckpointError::LogFollowsCheckpoint { path, number }.into())
            }
            _ => replay(&mut state, record),
        };
        let from = first.unwrap_or(0);
        let (log, mut recovered) = LogDirectory::recover_on(disk, &log_path, log, from, replay)?;

        // The process before may have ended after its checkpoint and before the record that follows it.
        let owes_mark = first.is_some() && recovered.records == 0;
        recovered.records -= u64::from(begins_with_mark);
        let store = Self { checkpoints: Some(checkpoints), log, newest: first, owes_mark };
        Ok((store, state, recovered))
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

    /// The log, to look at.
    pub fn log(&self) -> &LogDirectory {
        &self.log
    }

    /// Appends a record to the log, as [`LogDirectory::append`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there, and while a checkpoint is being written [in place of inputs](Self::begin_replacing).
    pub fn append(&mut self, body: &[u8]) -> Result<u64, CheckpointError> {
        self.mark()?;
        self.log.append(body)
    }

    /// As [`LogDirectory::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&mut self) -> Result<(), CheckpointError> {
        self.log.sync()
    }

    /// As [`LogDirectory::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&mut self) -> Result<(), CheckpointError> {
        self.log.flush()
    }

    /// Begins a checkpoint of a clock. Syncs the log: the checkpoint has all that was appended so far. Until
    /// [`Self::end_checkpoint`] the log takes further records, and keeps all that the checkpoints before need: where the
    /// process ends before, recovery starts from one of these.
    ///
    /// # Errors
    /// As [`LogDirectory::sync`].
    ///
    /// # Panics
    /// Where a checkpoint that was begun has not ended.
    pub fn begin_checkpoint(
        &mut self,
        clock: Clock,
        state: State,
    ) -> Result<BegunCheckpoint, CheckpointError> {
        self.begin(clock, state, false)
    }

    /// As [`Self::begin_checkpoint`], of a checkpoint that takes the place of inputs which the log lacks. Records may only be
    /// appended once it has ended.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn begin_replacing(
        &mut self,
        clock: Clock,
        state: State,
    ) -> Result<BegunCheckpoint, CheckpointError> {
        self.begin(clock, state, true)
    }

    fn begin(
        &mut self,
        clock: Clock,
        state: State,
        replaces: bool,
    ) -> Result<BegunCheckpoint, CheckpointError> {
        // A checkpoint is named after its first record, and the log does not tell one in place of inputs from the one before.
        self.owes_mark |= replaces && self.newest == Some(self.log.next_number());
        self.mark()?;
        self.log.sync()?;

        let checkpoints = self.checkpoints.take().expect("the checkpoint before has ended");
        self.newest = Some(self.log.next_number());
        self.owes_mark = replaces;
        let facts = Facts { clock: clock.0, first_record: self.newest, ..Facts::default() };
        let checkpoint = Checkpoint { facts, model: None, state };
        Ok(BegunCheckpoint { checkpoint, checkpoints })
    }

    fn mark(&mut self) -> Result<(), CheckpointError> {
        if self.owes_mark {
            assert!(self.checkpoints.is_some(), "records wait for the checkpoint that they follow");
            self.log.append(ONLY_AFTER_CHECKPOINT)?;
            self.owes_mark = false;
        }
        Ok(())
    }

    /// Ends a checkpoint of this store: removes the segments of the log that no checkpoint needs any more. Where it took the
    /// place of inputs, the log on disk says so before anything leaves the node. Returns its state, whose memory may be used
    /// again.
    ///
    /// # Errors
    /// Where the disk has failed. The earlier checkpoints are still there, and the node may go on, unless this one took the
    /// place of inputs.
    pub fn end_checkpoint(&mut self, written: WrittenCheckpoint) -> Result<State, CheckpointError> {
        let checkpoints = self.checkpoints.insert(written.checkpoints);
        let path = written.written?;
        let oldest = checkpoints.numbers()?.first().copied();
        info!(path = %path.display(), "checkpoint written");
        if self.owes_mark {
            self.mark()?;
            self.log.sync()?;
        }
        if let Some(first) = oldest {
            self.log.drop_before(first);
        }
        Ok(written.state)
    }
}

impl BegunCheckpoint {
    /// Writes the checkpoint, and removes the oldest ones.
    pub fn write(mut self) -> WrittenCheckpoint {
        let written = self.checkpoints.write(&self.checkpoint);
        WrittenCheckpoint { written, state: self.checkpoint.state, checkpoints: self.checkpoints }
    }
}

const CHECKPOINTS: &str = "checkpoints";

/// The body of a record that says: what follows does so from the checkpoint that begins with this record, and from none
/// before. No MessagePack begins with this byte.
const ONLY_AFTER_CHECKPOINT: &[u8] = &[0xc1];
