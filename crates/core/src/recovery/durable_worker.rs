//! What the log of a worker replays into, and the one function that changes it.
//!
//! [`DurableWorker::apply`] makes the step that an entry leads to, live and in replay, as that of `DurableServer` does.
//! Two things lie outside it. A driver runs the iteration elsewhere, and replay runs it before an entry that follows
//! one. When a server reports what it has taken, the live worker drops those messages without an entry. A worker that
//! was replayed still has them, and drops them when the server reports that again.

use std::collections::VecDeque;

use super::entry::WorkerEntry;
use super::worker_session::RequestSeq;
use crate::node::{RowsRead, WorkerMessage};
use crate::persist;
use crate::types::{Clock, ShardId};
use crate::worker::{Worker, WorkerOutput};

/// A worker and what is kept beside it: all that its log determines.
pub(super) struct DurableWorker {
    /// `None` while its iteration runs elsewhere.
    pub(super) worker: Option<Box<Worker>>,
    /// By server, the messages that it may not have received or has not answered, oldest first: an update and the read
    /// after it at most.
    pub(super) unacknowledged: Vec<VecDeque<WorkerMessage>>,
    pub(super) started: bool,
    /// Servers that have not answered since the worker took up its work, and may have taken requests that it does not
    /// know of.
    pub(super) ahead: Vec<bool>,
    /// The clock of its latest read.
    pub(super) clock: Clock,
    /// Whether all rows have been received, and the iteration has to run.
    pub(super) to_compute: bool,
    /// The clock at which it has stopped, if it has.
    pub(super) stopped: Option<Clock>,
    /// The clock at which its task has ended, if it waits there for a stop.
    pub(super) ended: Option<Clock>,
}

impl DurableWorker {
    /// A worker as the plan makes it. `servers` is the number of servers of its data center.
    pub(super) fn new(worker: Worker, servers: usize) -> Self {
        Self {
            worker: Some(Box::new(worker)),
            unacknowledged: vec![VecDeque::new(); servers],
            started: false,
            ahead: vec![false; servers],
            clock: Clock::ZERO,
            to_compute: false,
            stopped: None,
            ended: None,
        }
    }

    /// Checks that an entry can follow the entries so far.
    ///
    /// # Errors
    /// The reason, if it cannot.
    pub(super) fn check(&self, entry: &WorkerEntry) -> Result<(), String> {
        match entry {
            WorkerEntry::Start | WorkerEntry::TakeUp { .. } if self.started => {
                Err("the worker was started already".into())
            }
            WorkerEntry::Rows { from, rows } if !self.expects(*from, rows) => {
                Err(format!("rows of clock {} were not requested", rows.clock))
            }
            WorkerEntry::Outrun { .. } if !self.started => Err("the worker was not started".into()),
            _ if entry.follows_iteration() && !self.to_compute => {
                Err("no iteration was due".into())
            }
            _ => Ok(()),
        }
    }

    /// Makes the step that an entry leads to, and returns the messages for servers.
    ///
    /// An iteration that the entry [follows](WorkerEntry::follows_iteration) has run.
    ///
    /// # Panics
    /// If the worker is away.
    pub(super) fn apply(&mut self, entry: WorkerEntry) -> Vec<(ShardId, WorkerMessage)> {
        match entry {
            WorkerEntry::Start => {
                self.started = true;
                self.worker_mut().handle_start();
            }
            WorkerEntry::TakeUp { clock, owed } => {
                self.started = true;
                self.ahead.fill(true);
                self.worker_mut().handle_take_up(clock, owed);
            }
            WorkerEntry::Outrun { .. } => {
                self.started = false;
                self.unacknowledged.iter_mut().for_each(VecDeque::clear);
                self.ahead.fill(false);
                (self.to_compute, self.stopped, self.ended) = (false, None, None);
                self.worker_mut().handle_outrun();
            }
            WorkerEntry::Rows { from, rows } => {
                self.ahead[from.index()] = false;
                // A server that answers has taken the read and what came before it.
                self.forget(from, RequestSeq { clock: rows.clock, updates: true });
                self.worker_mut().handle_rows(from, rows);
            }
            WorkerEntry::Computed => {
                self.to_compute = false;
                self.worker_mut().handle_computed();
            }
            WorkerEntry::Stop { last } => {
                self.stopped = self.stopped.filter(|at| *at >= last);
                self.ended = None;
                self.worker_mut().handle_stop(last);
            }
        }

        self.poll_worker()
    }

    /// Whether the worker is not away and has requested these rows.
    pub(super) fn expects(&self, from: ShardId, rows: &RowsRead) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.expects(from, rows))
    }

    /// Whether a read was not answered whose answer may have so many bytes.
    ///
    /// # Panics
    /// If the worker is away.
    pub(super) fn may_await(&self, bytes: u64) -> bool {
        let worker = self.worker.as_ref().expect("a worker is here unless it computes");
        (0_u16..).map(ShardId).zip(&self.unacknowledged).any(|(shard, messages)| {
            messages.iter().any(|message| match message {
                WorkerMessage::Read { rows, .. } => worker.answer_bytes_max(shard, rows) >= bytes,
                _ => false,
            })
        })
    }

    /// The worker.
    ///
    /// # Panics
    /// If the worker is away.
    pub(super) fn worker_mut(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("a worker is here unless it computes")
    }

    /// The first request that can still be sent to a server.
    pub(super) fn first_for(&self, server: ShardId) -> RequestSeq {
        let unacknowledged = self.unacknowledged[server.index()].front().and_then(RequestSeq::of);
        let next = match self.rests_at() {
            Some(clock) => RequestSeq { clock, updates: false },
            None => RequestSeq { clock: self.clock, updates: true },
        };
        unacknowledged.unwrap_or(next)
    }

    /// The clock at which it waits without a read: it has stopped, or its task has ended.
    pub(super) fn rests_at(&self) -> Option<Clock> {
        self.stopped.or(self.ended)
    }

    /// Drops the messages that a server has taken: every request before `due`.
    pub(super) fn forget(&mut self, server: ShardId, due: RequestSeq) {
        self.unacknowledged[server.index()].retain(|message| RequestSeq::of(message) >= Some(due));
    }

    /// Takes the outputs of the worker, and returns the messages. A message is kept until its server has taken it.
    fn poll_worker(&mut self) -> Vec<(ShardId, WorkerMessage)> {
        let worker = self.worker.as_mut().expect("a worker is here unless it computes");
        let mut messages = Vec::new();
        while let Some(output) = worker.poll_output() {
            match output {
                WorkerOutput::ToServer { shard, message } => {
                    if let WorkerMessage::Read { clock, .. } = &message {
                        self.clock = *clock;
                    }
                    self.unacknowledged[shard.index()].push_back(message.clone());
                    messages.push((shard, message));
                }
                WorkerOutput::Compute => self.to_compute = true,
                WorkerOutput::Ended { clock } => self.ended = Some(clock),
                WorkerOutput::Stopped { clock } => self.stopped = Some(clock),
            }
        }
        messages
    }
}

persist! {
    /// # Panics
    /// If the worker is away.
    impl Persist<()> for DurableWorker {
        fn walk(
            Self { worker, unacknowledged, started, ahead, clock, to_compute, stopped, ended },
            walk,
            (),
        ) {
            let Some(worker) = worker else { panic!("a worker is here unless it computes") };
            walk.part("worker", worker, ())?;
            walk.record_that("unacknowledged", unacknowledged, |found, made| found.len() == made.len())?;
            walk.record("started", started)?;
            walk.record_that("ahead", ahead, |found, made| found.len() == made.len())?;
            walk.record("clock", clock)?;
            walk.record("stopped", stopped)?;
            walk.record("ended", ended)?;
            walk.record("to_compute", to_compute)
        }
    }
}

pub(super) fn is_read(message: &WorkerMessage) -> bool {
    matches!(message, WorkerMessage::Read { .. })
}
