//! What a worker that can come back keeps beside itself: what servers may not have heard, and how far it is.

use std::collections::VecDeque;

use crate::node::WorkerMessage;
use crate::recovery::entry::WorkerEntry;
use crate::recovery::worker_session::RequestSeq;
use crate::types::{Clock, ShardId, StateError, Walk};
use crate::worker::{Worker, WorkerOutput};

/// What is kept beside the worker itself.
pub(super) struct Kept {
    /// By server, what it may not have heard or has not answered, oldest first: an update and the read after it at most.
    pub(super) unheard: Vec<VecDeque<WorkerMessage>>,
    pub(super) started: bool,
    /// Servers that have not answered since it took up its work, and may know more of it than it does itself.
    pub(super) ahead: Vec<bool>,
    /// The clock that it reads at, or has read at.
    pub(super) clock: Clock,
    /// Everything is read, and the iteration has to run.
    pub(super) to_compute: bool,
    /// At which clock it has stopped, if it has.
    pub(super) stopped: Option<Clock>,
}

impl Kept {
    pub(super) fn apply(
        &mut self,
        worker: &mut Worker,
        entry: WorkerEntry,
        outputs: &mut VecDeque<(ShardId, WorkerMessage)>,
    ) {
        match entry {
            WorkerEntry::Start => {
                self.started = true;
                worker.handle_start();
            }
            WorkerEntry::TakeUp { clock, owed } => {
                self.started = true;
                self.ahead.fill(true);
                worker.handle_take_up(clock, owed);
            }
            WorkerEntry::Outrun { .. } => {
                self.started = false;
                self.unheard.iter_mut().for_each(VecDeque::clear);
                self.ahead.fill(false);
                (self.to_compute, self.stopped) = (false, None);
                worker.handle_outrun();
            }
            WorkerEntry::Rows { from, rows } => {
                self.ahead[from.index()] = false;
                // Who answers has heard the read, and what came before it.
                self.forget(from, RequestSeq { clock: rows.clock, updates: true });
                worker.handle_rows(from, rows);
            }
            WorkerEntry::Computed => {
                self.to_compute = false;
                worker.handle_computed();
            }
            WorkerEntry::Stop { last } => {
                self.stopped = self.stopped.filter(|at| *at >= last);
                worker.handle_stop(last);
            }
        }
        while let Some(output) = worker.poll_output() {
            match output {
                WorkerOutput::ToServer { shard, message } => {
                    if let WorkerMessage::Read { clock, .. } = &message {
                        self.clock = *clock;
                    }
                    self.unheard[shard.index()].push_back(message.clone());
                    outputs.push_back((shard, message));
                }
                WorkerOutput::Compute => self.to_compute = true,
                WorkerOutput::Stopped { clock } => self.stopped = Some(clock),
            }
        }
    }

    /// The first that can still be said to a server.
    pub(super) fn first_for(&self, server: ShardId) -> RequestSeq {
        let unheard = self.unheard[server.index()].front().and_then(RequestSeq::of);
        let next = match self.stopped {
            Some(clock) => RequestSeq { clock, updates: false },
            None => RequestSeq { clock: self.clock, updates: true },
        };
        unheard.unwrap_or(next)
    }

    /// A server has heard everything before this turn.
    pub(super) fn forget(&mut self, server: ShardId, due: RequestSeq) {
        self.unheard[server.index()].retain(|message| RequestSeq::of(message) >= Some(due));
    }

    /// Walks over what changes as time goes on.
    pub(super) fn state(
        &mut self,
        worker: &mut Worker,
        walk: &mut Walk<'_>,
    ) -> Result<(), StateError> {
        worker.state(&mut walk.at("worker"))?;
        walk.record_that("unheard", &mut self.unheard, |found, made| found.len() == made.len())?;
        walk.record("started", &mut self.started)?;
        walk.record_that("ahead", &mut self.ahead, |found, made| found.len() == made.len())?;
        walk.record("clock", &mut self.clock)?;
        walk.record("stopped", &mut self.stopped)?;
        walk.record("to_compute", &mut self.to_compute)
    }
}

pub(super) fn is_read(message: &WorkerMessage) -> bool {
    matches!(message, WorkerMessage::Read { .. })
}
