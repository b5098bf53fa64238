//! A worker on its way back: the state of a checkpoint, then every entry after it.

use super::RecoveryError;
use super::durable_worker::DurableWorker;
use super::entry::{WorkerEntry, decode};
use super::worker::RecoverableWorker;
use crate::types::{Persist, State};
use crate::worker::Worker;

/// A worker made from the plan, that has yet to hear what has befallen it.
///
/// To hear again is to compute again: a worker's checkpoints should not lie many iterations apart.
pub struct RecoveringWorker {
    durable: DurableWorker,
    /// Heard so far.
    entries: u64,
}

impl RecoveringWorker {
    /// `worker` is as the plan makes it, of a data center of so many servers.
    pub fn new(worker: Worker, servers: usize) -> Self {
        Self { durable: DurableWorker::new(worker, servers), entries: 0 }
    }

    /// Takes the state of a checkpoint. To be done before any entry is heard.
    ///
    /// # Errors
    /// Where the state is of something else.
    pub fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        state.restore(|walk| self.durable.restore(walk, ()))?;
        Ok(())
    }

    /// Hears the next entry of the log again, by the body of its record, and computes what was computed.
    ///
    /// # Errors
    /// Where it is no entry, or does not follow from what was heard before.
    pub fn hear(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.entries += 1;
        let number = self.entries;
        let entry: WorkerEntry = decode(number, body)?;
        let unfit = |problem: &str| RecoveryError::Unfit { number, problem: problem.into() };
        self.durable.check(&entry).map_err(|problem| unfit(&problem))?;

        if entry.follows_iteration() {
            self.compute();
        }
        // What was said then is said again to servers that have not heard it.
        drop(self.durable.apply(entry));
        Ok(())
    }

    /// Takes the state out, as [`RecoverableWorker::state`] does.
    pub fn state(&self) -> State {
        State::of(|walk| self.durable.save(walk, ()))
    }

    /// Everything has been heard: the worker goes on, in another process. `logs` says whether entries are kept.
    pub fn begin(self, logs: bool) -> RecoverableWorker {
        RecoverableWorker::start(self.durable, logs)
    }

    /// Does what a driver does with a worker that [`RecoverableWorker::poll_compute`] gives away.
    fn compute(&mut self) {
        let worker = self.durable.worker_mut();
        worker.compute();
        // What held reads back was reported then.
        worker.take_held();
    }
}
