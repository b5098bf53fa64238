//! A worker during recovery: it restores the state of a checkpoint and replays each entry after it.

use super::RecoveryError;
use super::durable_worker::DurableWorker;
use super::entry::{WorkerEntry, decode};
use super::log_buffer::Logging;
use super::worker::RecoverableWorker;
use crate::types::{Persist, State};
use crate::worker::Worker;

/// A worker that is made from the plan, restored and replayed.
///
/// Replay runs each iteration again, so checkpoints of a worker should not lie many iterations apart.
pub struct RecoveringWorker {
    durable: DurableWorker,
    /// The number of replayed entries.
    entries: u64,
}

impl RecoveringWorker {
    /// A worker that has restored and replayed nothing. `worker` is as the plan makes it, and `servers` is the number
    /// of servers of its data center.
    pub fn new(worker: Worker, servers: usize) -> Self {
        Self { durable: DurableWorker::new(worker, servers), entries: 0 }
    }

    /// Restores the state of a checkpoint. Call it before any entry is replayed.
    ///
    /// # Errors
    /// If the state does not fit this worker. The worker must not be used then.
    pub fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        state.restore(|walk| self.durable.restore(walk, ()))?;
        Ok(())
    }

    /// Replays the next entry of the log, given as the body of its record. An iteration that ran before the entry is
    /// run again.
    ///
    /// # Errors
    /// If it is not an entry, or cannot follow the entries before it. The worker must not be used then.
    pub fn replay(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.entries += 1;
        let number = self.entries;
        let entry: WorkerEntry = decode(number, body)?;
        let unfit = |problem: &str| RecoveryError::Unfit { number, problem: problem.into() };
        self.durable.check(&entry).map_err(|problem| unfit(&problem))?;

        if entry.follows_iteration() {
            self.compute()?;
        }
        // The messages are not sent here: servers that have not taken them receive them when they connect.
        drop(self.durable.apply(entry));
        Ok(())
    }

    /// The state, as [`RecoverableWorker::begin_checkpoint`] returns it.
    pub fn state(&self) -> State {
        State::of(|walk| self.durable.save(walk, ()))
    }

    /// Ends the recovery: the worker continues in this process.
    pub fn begin(self, logging: Logging) -> RecoverableWorker {
        RecoverableWorker::start(self.durable, logging)
    }

    /// Runs the iteration, as a driver does with the worker that [`RecoverableWorker::poll_compute`] returns.
    fn compute(&mut self) -> Result<(), RecoveryError> {
        let number = self.entries;
        let worker = self.durable.worker_mut();
        let computed = worker.compute();
        computed.map_err(|error| RecoveryError::Task { number, reason: error.to_string() })?;
        // The driver has reported the waits of reads when the iteration ran first.
        worker.take_held();
        Ok(())
    }
}
