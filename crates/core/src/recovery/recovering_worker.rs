//! A worker during recovery: it restores the state of a checkpoint and replays each entry after it.

use super::RecoveryError;
use super::durable_worker::DurableWorker;
use super::entry::{WorkerEntry, decode};
use super::worker::RecoverableWorker;
use crate::types::{Persist, State};
use crate::worker::Worker;

/// A worker that is made from the plan, restored and replayed.
///
/// Replay runs each iteration again, so checkpoints of a worker should not lie many iterations apart.
pub struct RecoveringWorker {
    durable: DurableWorker,
    /// Replayed so far.
    entries: u64,
}

impl RecoveringWorker {
    /// `worker` is as the plan makes it, of a data center of so many servers.
    pub fn new(worker: Worker, servers: usize) -> Self {
        Self { durable: DurableWorker::new(worker, servers), entries: 0 }
    }

    /// Restores the state of a checkpoint. Call it before any entry is replayed.
    ///
    /// # Errors
    /// Where the state does not fit this worker, which is then of no use.
    pub fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        state.restore(|walk| self.durable.restore(walk, ()))?;
        Ok(())
    }

    /// Replays the next entry of the log, given as the body of its record. An iteration that ran before the entry is
    /// run again.
    ///
    /// # Errors
    /// Where it is no entry, or cannot follow the entries before it. The worker is then of no use.
    pub fn replay(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.entries += 1;
        let number = self.entries;
        let entry: WorkerEntry = decode(number, body)?;
        let unfit = |problem: &str| RecoveryError::Unfit { number, problem: problem.into() };
        self.durable.check(&entry).map_err(|problem| unfit(&problem))?;

        if entry.follows_iteration() {
            self.compute();
        }
        // What the worker wanted to send then is sent again to servers that have not taken it.
        drop(self.durable.apply(entry));
        Ok(())
    }

    /// The state, as [`RecoverableWorker::state`] has it.
    pub fn state(&self) -> State {
        State::of(|walk| self.durable.save(walk, ()))
    }

    /// Ends the recovery: the worker continues in this process. `logs` says whether its entries are kept.
    pub fn begin(self, logs: bool) -> RecoverableWorker {
        RecoverableWorker::start(self.durable, logs)
    }

    /// Runs the iteration, as a driver does with the worker that [`RecoverableWorker::poll_compute`] gives away.
    fn compute(&mut self) {
        let worker = self.durable.worker_mut();
        worker.compute();
        // The driver reported then what had held reads back.
        worker.take_held();
    }
}
