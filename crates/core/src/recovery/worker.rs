//! A live worker: it notes each input for the log, applies it, and keeps each message until its server has taken it.
//!
//! **A worker that has lost its state** continues where its servers know it. It sends [`WorkerMessage::Reset`]. Each
//! server then drops the read that waits, and reports which request is due. Some servers may have taken an update of a
//! clock that others have not. So the worker starts at the least clock, reads there from all servers, and runs that
//! iteration again. A server that has the update of the clock does not apply the new one, so each server counts one
//! update per clock. The shards may then hold changes of two different iterations of that clock. Momentum and whatever
//! else the task keeps start as at the start of a run. Which examples are next follows from the clock.
//!
//! The same is done in other cases, in which the task keeps its state. The worker has a state that is older than
//! what its servers have taken, such as one from a backup. Or another process in its place has taken a server back to a
//! clock that this worker has left. Or the worker comes back with a log whose last entries may not have been written
//! ([`Logging::Deferred`]), from a bulky answer on: what servers have taken from it, or have told it, may not be what it
//! knows.

use std::collections::VecDeque;

use bytes::Bytes;

use super::durable_worker::{DurableWorker, is_read};
use super::entry::WorkerEntry;
use super::log_buffer::{EntryKind, LogBuffer, Logging};
use super::worker_session::RequestSeq;
use crate::node::{RowsRead, WorkerMessage};
use crate::types::{Clock, Persist, ShardId, State};
use crate::worker::Worker;

/// A worker that can be recovered.
///
/// [`super::RecoveringWorker`] makes one. An input that a `handle_*` method takes becomes an entry. The results that
/// `poll_*` methods return follow from synced entries.
pub struct RecoverableWorker {
    /// The worker in it is away while an iteration runs.
    durable: DurableWorker,
    /// Whether an iteration has run whose computation time has not elapsed.
    ran: bool,
    /// A stop that arrived while an iteration ran, or before the first.
    stop: Option<Clock>,
    /// The latest stop. A worker that goes back before it stops there again.
    ordered: Option<Clock>,
    /// Whether it may start once it knows which requests are due.
    starts: bool,
    /// The clock at which an earlier process stopped, as far as the coordinator knows.
    stopped_before: Option<Clock>,
    /// By server, the request that is due, and whether that is a guess. Used until the worker has started.
    dues: Vec<Option<(RequestSeq, bool)>>,
    /// By server, whether it has reported to this process which request is due.
    met: Vec<bool>,
    /// Whether this process took up the work of an earlier one.
    took_up: bool,
    /// The clock of the latest iteration that was started.
    computing: Clock,
    /// Whether a server has taken requests beyond the iteration that runs.
    outrun: bool,
    log: LogBuffer,
    outputs: VecDeque<(ShardId, WorkerMessage)>,
}

impl RecoverableWorker {
    /// A worker that continues in a process.
    pub(super) fn start(durable: DurableWorker, logging: Logging) -> Self {
        let servers = durable.unacknowledged.len();
        let mut worker = Self {
            durable,
            ran: false,
            stop: None,
            ordered: None,
            starts: false,
            stopped_before: None,
            dues: vec![None; servers],
            met: vec![false; servers],
            took_up: false,
            computing: Clock::ZERO,
            outrun: false,
            log: LogBuffer::new(logging),
            outputs: VecDeque::new(),
        };
        // Servers may have taken what followed from entries that are not on disk. The first of these is a bulky answer.
        if let Logging::Deferred { bulky, .. } = logging
            && worker.durable.may_await(bulky)
        {
            worker.go_back();
        }
        worker
    }

    /// Starts the worker once all servers have reported which request is due, unless it has started. `stopped` is the
    /// clock at which it has stopped, as far as the coordinator knows. If all servers only guess, the worker continues
    /// at that clock.
    pub fn handle_start(&mut self, stopped: Option<Clock>) {
        (self.starts, self.stopped_before) = (true, stopped);
        self.start_once_known();
    }

    /// Takes rows from a server, and returns whether the worker had requested them. If not, such as rows that arrive
    /// twice, nothing changes.
    pub fn handle_rows(&mut self, from: ShardId, rows: RowsRead) -> bool {
        let expected = self.durable.expects(from, &rows);
        if expected {
            self.handle(WorkerEntry::Rows { from, rows });
        }
        expected
    }

    /// The coordinator has ordered the worker to stop at a clock. A worker that has stopped before continues to it.
    pub fn handle_stop(&mut self, last: Clock) {
        self.ordered = Some(last);
        if self.durable.worker.is_some() && self.durable.started {
            self.handle(WorkerEntry::Stop { last });
        } else {
            self.stop = Some(last);
        }
    }

    /// The worker whose iteration the driver runs, if one has to run and the rows that it has read are on disk. The
    /// driver returns it by [`Self::handle_ran`].
    pub fn poll_compute(&mut self) -> Option<Box<Worker>> {
        let due = self.durable.to_compute && !self.ran && self.log.is_prompt_settled();
        let worker = if due { self.durable.worker.take() } else { None };
        self.computing = worker.as_ref().map_or(self.computing, |worker| worker.clock());
        worker
    }

    /// Takes the worker back after its iteration.
    pub fn handle_ran(&mut self, worker: Box<Worker>) {
        (self.durable.worker, self.ran) = (Some(worker), true);
        if self.outrun {
            self.reset();
        } else if let Some(last) = self.stop.take() {
            self.handle(WorkerEntry::Stop { last });
        }
    }

    /// The computation time of the iteration has elapsed. An iteration that was dropped meanwhile changes nothing.
    pub fn handle_computed(&mut self) {
        if std::mem::take(&mut self.ran) {
            self.handle(WorkerEntry::Computed);
        }
    }

    /// The next request to a server that has lost its state, if the worker knows it: its read, if that was not
    /// answered, or the update after it. An update that the server may have taken is not sent again, since the copy
    /// that the server takes from a mirror may hold it.
    pub fn next_request(&self, server: ShardId) -> Option<RequestSeq> {
        let DurableWorker { unacknowledged, started, clock, .. } = &self.durable;
        let reads = unacknowledged[server.index()].iter().find(|message| is_read(message));
        let reads = reads.and_then(RequestSeq::of);
        let updates = RequestSeq { clock: *clock, updates: true };
        let rests = self.durable.rests_at().map(|clock| RequestSeq { clock, updates: false });
        started.then(|| rests.or(reads).unwrap_or(updates))
    }

    /// [`Self::next_request`] to each server.
    pub fn next_requests(&self) -> Vec<Option<RequestSeq>> {
        let servers = 0..self.durable.unacknowledged.len() as u16;
        servers.map(|server| self.next_request(ShardId(server))).collect()
    }

    /// A server has connected and reports which request is due. Drops the messages that it has taken. Returns the
    /// others, in order, which the caller sends. The caller calls this when everything is synced.
    pub fn handle_joined(&mut self, server: ShardId, due: RequestSeq) -> Vec<WorkerMessage> {
        self.met[server.index()] = true;
        if self.is_at_odds(server, due) {
            if self.durable.worker.is_none() {
                self.outrun = true;
                return Vec::new();
            }
            self.reset();
        }

        self.outputs.retain(|(to, _)| *to != server);
        if !self.durable.started {
            // A request is due once no answer to an earlier process can arrive.
            self.dues[server.index()] = None;
            return vec![WorkerMessage::Reset];
        }

        let unacknowledged = &mut self.durable.unacknowledged[server.index()];
        if self.durable.ahead[server.index()] {
            return unacknowledged.iter().cloned().collect();
        }

        // A read is kept until it is answered: the server may still lose it.
        unacknowledged.retain(|message| RequestSeq::of(message) >= Some(due) || is_read(message));
        unacknowledged
            .iter()
            .filter(|message| RequestSeq::of(message) >= Some(due))
            .cloned()
            .collect()
    }

    /// Another process may have done the work of this worker meanwhile. The worker resets: it continues at the request
    /// that its servers report, and has not stopped.
    pub fn handle_back(&mut self) {
        if self.durable.worker.is_some() {
            self.reset();
        } else {
            self.outrun = true;
        }
    }

    /// A server has reported, after a reset, which request is due. `guessed` is whether it only guesses it by the clock
    /// of its copy.
    pub fn handle_due(&mut self, server: ShardId, due: RequestSeq, guessed: bool) {
        self.met[server.index()] = true;
        self.dues[server.index()] = Some((due, guessed));
        self.start_once_known();
    }

    /// The next message for a server. `None` if there is none, or waits for an entry to be on disk.
    pub fn poll_message(&mut self) -> Option<(ShardId, WorkerMessage)> {
        if self.log.is_prompt_settled() { self.outputs.pop_front() } else { None }
    }

    /// Whether results wait for entries that have to be on disk first.
    pub fn must_write(&self) -> bool {
        !self.log.is_prompt_settled()
    }

    /// Takes the bodies of the entries to write, in order. The results of those that [have to be on disk](Self::must_write)
    /// wait for [`Self::handle_synced`].
    ///
    /// # Panics
    /// If nothing has to be written, since entries may have been dropped then.
    pub fn take_entries(&mut self) -> Vec<Bytes> {
        self.log.take()
    }

    /// The entries that were taken, or the state of [`Self::begin_checkpoint`], are on disk.
    pub fn handle_synced(&mut self) {
        self.log.synced();
    }

    /// Whether every input so far is on disk.
    pub fn is_settled(&self) -> bool {
        self.log.is_settled()
    }

    /// The number of entries that are not on disk.
    pub fn entries_waiting(&self) -> u64 {
        self.log.waiting()
    }

    /// Whether the worker has not started.
    pub fn is_new(&self) -> bool {
        !self.durable.started
    }

    /// The clock at which the worker has stopped for good, if it has. Each server has then reported to this process
    /// which request is due, so no server has taken one that the worker does not know of.
    pub fn stopped(&self) -> Option<Clock> {
        self.durable.stopped.filter(|_| self.met.iter().all(|met| *met))
    }

    /// Whether the task has no more to do, and the worker waits for a stop.
    pub fn has_ended(&self) -> bool {
        self.durable.ended.is_some()
    }

    /// The worker. `None` while its iteration runs.
    pub fn worker_mut(&mut self) -> Option<&mut Worker> {
        self.durable.worker.as_deref_mut()
    }

    /// The state, for a checkpoint after which only later entries are replayed: it takes the place of those that wait. Until
    /// [`Self::handle_synced`], no entries are taken. It is in the memory of `spare`, a state that nobody needs. `None` while
    /// an iteration runs or has run.
    ///
    /// # Panics
    /// If a result waits for an entry, or a message was not polled.
    pub fn begin_checkpoint(&mut self, spare: State) -> Option<State> {
        let is_whole = !self.must_write() && self.outputs.is_empty();
        assert!(is_whole, "a state is whole between groups");
        if self.durable.worker.is_none() || self.durable.to_compute {
            return None;
        }
        self.log.replace();
        Some(State::in_memory_of(spare, |walk| self.durable.save(walk, ())))
    }

    /// Whether a server has taken requests of another process that are beyond this one, or has gone back before what
    /// this one can still send. A server that was ahead when an earlier process took up the work may have taken more
    /// since.
    fn is_at_odds(&self, server: ShardId, due: RequestSeq) -> bool {
        let clock = self.durable.worker.as_ref().map_or(self.computing, |worker| worker.clock());
        let knows = self.durable.started && !(self.took_up && self.durable.ahead[server.index()]);
        knows && (due > RequestSeq { clock, updates: true } || due < self.durable.first_for(server))
    }

    /// Drops everything, and asks all servers which request is due.
    fn reset(&mut self) {
        self.go_back();
        for shard in (0..self.dues.len()).map(|shard| ShardId(shard as u16)) {
            self.outputs.push_back((shard, WorkerMessage::Reset));
        }
    }

    /// Drops everything. The worker does not know which requests are due, and each server is asked when it connects.
    fn go_back(&mut self) {
        let ran = std::mem::take(&mut self.ran);
        self.outrun = false;
        self.stop = self.stop.or(self.ordered);
        self.stopped_before = self.stopped_before.max(self.durable.stopped);
        self.outputs.clear();
        self.dues.fill(None);
        if self.durable.started {
            self.handle(WorkerEntry::Outrun { ran });
        }
    }

    /// Starts a worker that has not started: at the first clock, or where an earlier process was.
    fn start_once_known(&mut self) {
        let dues: Option<Vec<(RequestSeq, bool)>> = self.dues.iter().copied().collect();
        let Some(dues) = dues.filter(|_| self.starts && !self.durable.started) else { return };
        // If no server knows the clock, the coordinator may. If it does not, the clock of the furthest copy is taken:
        // the updates before it are in the copies.
        let known = dues.iter().filter(|(_, guessed)| !guessed).map(|(due, _)| due.clock);
        let furthest = dues.iter().map(|(due, _)| due.clock).max().unwrap_or_default();
        let guess = self.stopped_before.unwrap_or(furthest);
        let (clock, owed) = (known.clone().min().unwrap_or(guess), known.max().unwrap_or(guess));
        self.took_up = true;
        let nobody_knows = dues.iter().all(|due| *due == (RequestSeq::default(), false));
        // Servers may have gone back, even to the start. A worker that has said that it has stopped goes on to there.
        let is_new = self.durable.worker_mut().clock() == Clock::ZERO;
        let owed = owed.max(self.stopped_before.unwrap_or_default());
        self.handle(if nobody_knows && is_new && owed == Clock::ZERO {
            WorkerEntry::Start
        } else {
            WorkerEntry::TakeUp { clock, owed }
        });
        if let Some(last) = self.stop.take() {
            self.handle(WorkerEntry::Stop { last });
        }
    }

    /// Notes an entry and applies it.
    fn handle(&mut self, entry: WorkerEntry) {
        self.log.push(&entry, EntryKind::Local, entry.rows_bytes());
        self.outputs.extend(self.durable.apply(entry));
    }
}
