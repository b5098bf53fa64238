//! When a run writes a checkpoint, and when it stops.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{info, warn};

use super::{Checkpoint, CheckpointError, Checkpoints, Resumed};
use gaia_core::types::Clock;

/// Writes the checkpoints of one run.
pub struct Keeper {
    checkpoints: Checkpoints,
    every: Option<u64>,
    interrupted: Arc<AtomicBool>,
    resumed: Option<Resumed>,
}

/// What a driver does after every data center has finished a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Go on.
    Nothing,
    /// Write a checkpoint and go on.
    Checkpoint,
    /// Write a checkpoint and stop.
    Stop,
}

impl Keeper {
    /// Writes a checkpoint every `every` clocks, at least 1; with `None` only where the run is interrupted. The run stops at
    /// the end of the clock in which `interrupted` becomes true.
    ///
    /// # Panics
    /// Where `every` is 0.
    pub fn new(checkpoints: Checkpoints, every: Option<u64>, interrupted: Arc<AtomicBool>) -> Self {
        assert!(every != Some(0), "checkpoints are some clocks apart");
        Self { checkpoints, every, interrupted, resumed: None }
    }

    /// Makes the run resume from a checkpoint instead of starting.
    #[must_use]
    pub fn resuming(self, resumed: Option<Resumed>) -> Self {
        Self { resumed, ..self }
    }

    /// The checkpoint to resume from. Later calls return `None`.
    pub fn take_resumed(&mut self) -> Option<Resumed> {
        self.resumed.take()
    }

    /// What is due now that the run has come from one clock to another, which may be the same.
    pub fn due(&self, before: Clock, clock: Clock) -> Due {
        if clock == before {
            Due::Nothing
        } else if self.interrupted.load(Ordering::Relaxed) {
            Due::Stop
        } else if self.every.is_some_and(|every| clock.0 / every > before.0 / every) {
            Due::Checkpoint
        } else {
            Due::Nothing
        }
    }

    /// Writes a checkpoint, and returns its directory.
    ///
    /// # Errors
    /// As [`Checkpoints::write`].
    pub fn keep(&mut self, checkpoint: &Checkpoint) -> Result<PathBuf, CheckpointError> {
        let path = self.checkpoints.write(checkpoint)?;
        info!(clock = checkpoint.facts.clock, path = %path.display(), "checkpoint written");
        Ok(path)
    }

    /// Writes a checkpoint. Where the disk fails, a warning is logged and the run continues.
    pub fn keep_if_possible(&mut self, checkpoint: &Checkpoint) {
        if let Err(error) = self.keep(checkpoint) {
            warn!(%error, "cannot write the checkpoint of clock {}", checkpoint.facts.clock);
        }
    }
}
