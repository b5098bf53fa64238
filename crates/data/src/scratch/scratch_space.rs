//! Where examples on disk go, and how much memory they may take.

use std::path::PathBuf;
use std::sync::Arc;

use super::scratch_file::ScratchFile;
use crate::error::DataError;
use gaia_ml::columns::DataSource;
use gaia_ml::config::{DataConfig, ExamplesOn};

/// The settings of examples on disk.
#[derive(Clone, Debug)]
pub(crate) struct ScratchSpace {
    folder: PathBuf,
    /// The bytes that all workers of the run may hold together.
    pub(super) memory: u64,
    /// The workers of the run, at least 1.
    workers: usize,
}

impl ScratchSpace {
    /// The settings of some data for a run with so many workers. `None` where examples are in memory.
    pub(crate) fn of<S: DataSource, G: Default>(
        data: &DataConfig<S, G>,
        workers: usize,
    ) -> Option<Self> {
        let (folder, memory) = (data.scratch.0.clone(), data.memory.0.0);
        let space = Self { folder, memory, workers: workers.max(1) };
        (data.examples == ExamplesOn::Disk).then_some(space)
    }

    pub(super) fn file(&self) -> Result<Arc<ScratchFile>, DataError> {
        ScratchFile::new(&self.folder)
    }

    /// How many examples a worker may hold at a time, of examples that take so many bytes: those that it visits and those
    /// that it reads ahead each take half of its share at most, however their memory has grown.
    pub(crate) fn window(&self, examples: usize, bytes: u64) -> usize {
        let share = self.memory / (4 * self.workers as u64);
        let of_one = (bytes as f64 / examples.max(1) as f64).max(1.0);
        ((share as f64 / of_one) as usize).max(1)
    }
}
