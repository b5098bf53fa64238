//! A worker that can come back: its inputs become entries, and what it says is kept until it was heard.
//!
//! **Without its state** a worker comes back too, where its servers know it. It says that it begins anew, whereupon each
//! server forgets the read that waits and says what is due. Some may have heard an update of a clock that others have
//! not: the worker begins at the least clock, asks all servers for what it reads there, and goes through that iteration
//! again. Who has heard the clock's update passes the new one over, so that each server counts one update for each clock;
//! of that clock, shards may hold the changes of two different iterations. Momentum and whatever else the task keeps
//! begin as at the start of a run, and which examples are next follows from the clock. Where a state is there that is older
//! than what servers know, such as one from a backup, the same is done, and the task keeps what it has. So it is where
//! another process that began anew in the meantime has taken a server back to a clock that this one has behind it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::durable_worker::{DurableWorker, is_read};
use super::entry::WorkerEntry;
use super::log_buffer::LogBuffer;
use super::worker_session::RequestSeq;
use crate::node::{RowsRead, WorkerMessage};
use crate::types::{Clock, Persist, ShardId, State};
use crate::worker::Worker;

/// A worker that can come back.
pub struct RecoverableWorker {
    /// Its worker is away while an iteration runs.
    durable: DurableWorker,
    /// Whether the iteration has run whose time is not over.
    ran: bool,
    /// A stop that came while an iteration ran, or before the first.
    stop: Option<Clock>,
    /// Whether it may begin once it knows what is due.
    starts: bool,
    /// The clock at which the coordinator knows a process before this one to have stopped.
    stopped_before: Option<Clock>,
    /// What is due at each server, and whether that is a guess, until it has begun.
    dues: Vec<Option<(RequestSeq, bool)>>,
    /// Servers that have told this process what is due.
    met: Vec<bool>,
    /// Whether it was this process that took up the work.
    took_up: bool,
    /// The clock of the iteration that runs, if one does.
    computing: Clock,
    /// Whether a server has turned out to know of more than the iteration that runs.
    outrun: bool,
    log: LogBuffer,
    outputs: VecDeque<(ShardId, WorkerMessage)>,
}

impl RecoverableWorker {
    /// A worker that goes on in a process. `logs` says whether entries are kept.
    pub(super) fn start(durable: DurableWorker, logs: bool) -> Self {
        let servers = durable.unheard.len();
        Self {
            durable,
            ran: false,
            stop: None,
            starts: false,
            stopped_before: None,
            dues: vec![None; servers],
            met: vec![false; servers],
            took_up: false,
            computing: Clock::ZERO,
            outrun: false,
            log: LogBuffer::new(logs),
            outputs: VecDeque::new(),
        }
    }

    /// Begins, unless it has begun: once all servers have said what is due. `stopped` is the clock at which the
    /// coordinator knows this worker to have stopped, if it does: further it must not go, whatever servers guess.
    pub fn handle_start(&mut self, stopped: Option<Clock>) {
        (self.starts, self.stopped_before) = (true, stopped);
        self.begin_once_known();
    }

    /// Takes rows from a server. What was not asked for, as rows that come again were not, changes nothing; says
    /// whether they were.
    pub fn handle_rows(&mut self, from: ShardId, rows: RowsRead) -> bool {
        let expected = self.durable.expects(from, &rows);
        if expected {
            self.handle(WorkerEntry::Rows { from, rows });
        }
        expected
    }

    /// Is to stop at a clock, or go on until there.
    pub fn handle_stop(&mut self, last: Clock) {
        if self.durable.worker.is_some() && self.durable.started {
            self.handle(WorkerEntry::Stop { last });
        } else {
            self.stop = Some(last);
        }
    }

    /// Gives the worker away for an iteration, where one has to run and what it read is on disk.
    pub fn poll_compute(&mut self) -> Option<Box<Worker>> {
        let due = self.durable.to_compute && !self.ran && self.log.is_settled();
        let worker = if due { self.durable.worker.take() } else { None };
        self.computing = worker.as_ref().map_or(self.computing, |worker| worker.clock());
        worker
    }

    /// Takes the worker back, whose iteration has run.
    pub fn handle_ran(&mut self, worker: Box<Worker>) {
        (self.durable.worker, self.ran) = (Some(worker), true);
        if self.outrun {
            self.begin_anew();
        } else if let Some(last) = self.stop.take() {
            self.handle(WorkerEntry::Stop { last });
        }
    }

    /// The time of the iteration that has run is over. One that was let go meanwhile changes nothing.
    pub fn handle_computed(&mut self) {
        if std::mem::take(&mut self.ran) {
            self.handle(WorkerEntry::Computed);
        }
    }

    /// What this worker will say next to a server that has lost what it had heard, if it knows: its read, where it has
    /// not been answered, or the update after that. An update whose fate is unknown is not said again, since the copy
    /// that the server has from elsewhere may hold it.
    pub fn next_request(&self, server: ShardId) -> Option<RequestSeq> {
        let DurableWorker { unheard, started, clock, stopped, .. } = &self.durable;
        let reads = unheard[server.index()].iter().find(|message| is_read(message));
        let reads = reads.and_then(RequestSeq::of);
        let updates = RequestSeq { clock: *clock, updates: true };
        let stopped = stopped.map(|clock| RequestSeq { clock, updates: false });
        started.then(|| stopped.or(reads).unwrap_or(updates))
    }

    /// [`Self::next_request`] to each server.
    pub fn next_requests(&self) -> Vec<Option<RequestSeq>> {
        let servers = 0..self.durable.unheard.len() as u16;
        servers.map(|server| self.next_request(ShardId(server))).collect()
    }

    /// A server is on the line and says what is due from this worker: what it has heard is forgotten, the rest is to
    /// be said, in order. To be asked for when everything is synced.
    pub fn handle_joined(&mut self, server: ShardId, due: RequestSeq) -> Vec<WorkerMessage> {
        self.met[server.index()] = true;
        if self.is_at_odds(server, due) {
            if self.durable.worker.is_none() {
                self.outrun = true;
                return Vec::new();
            }
            self.begin_anew();
        }

        self.outputs.retain(|(to, _)| *to != server);
        if !self.durable.started {
            // What is due counts once no answer to what another process said can come any more.
            self.dues[server.index()] = None;
            return vec![WorkerMessage::Reset];
        }

        let unheard = &mut self.durable.unheard[server.index()];
        if self.durable.ahead[server.index()] {
            return unheard.iter().cloned().collect();
        }

        // A read is kept until it is answered: the server may yet lose that it has heard it.
        unheard.retain(|message| RequestSeq::of(message) >= Some(due) || is_read(message));
        unheard.iter().filter(|message| RequestSeq::of(message) >= Some(due)).cloned().collect()
    }

    /// Another may have done this worker's work in the meantime: it goes on where its servers say, and has not stopped.
    pub fn handle_back(&mut self) {
        if self.durable.worker.is_some() {
            self.begin_anew();
        } else {
            self.outrun = true;
        }
    }

    /// A server says what is due from this worker now that it begins anew, or guesses that by the clock of its copy.
    pub fn handle_due(&mut self, server: ShardId, due: RequestSeq, guessed: bool) {
        self.met[server.index()] = true;
        self.dues[server.index()] = Some((due, guessed));
        self.begin_once_known();
    }

    /// The next message for a server, once what led to it is on disk.
    pub fn poll_message(&mut self) -> Option<(ShardId, WorkerMessage)> {
        if self.log.is_settled() { self.outputs.pop_front() } else { None }
    }

    /// The bodies of the entries that wait to be written, in order. Nothing leaves before [`Self::handle_synced`].
    pub fn take_entries(&mut self) -> Vec<Bytes> {
        self.log.take()
    }

    /// What was taken is on disk.
    pub fn handle_synced(&mut self) {
        self.log.synced();
    }

    /// Whether all that has come is on disk.
    pub fn is_settled(&self) -> bool {
        self.log.is_settled()
    }

    /// Whether it has nothing behind it.
    pub fn is_new(&self) -> bool {
        !self.durable.started
    }

    /// The clock at which it has stopped, if it has, and that is for good: each server has told this process what is due,
    /// so that none knows of more than it does itself.
    pub fn stopped(&self) -> Option<Clock> {
        self.durable.stopped.filter(|_| self.met.iter().all(|met| *met))
    }

    /// The worker, unless its iteration runs.
    pub fn worker_mut(&mut self) -> Option<&mut Worker> {
        self.durable.worker.as_deref_mut()
    }

    /// Takes the state out, for a checkpoint from which only later entries need be heard; nothing while an iteration
    /// runs or has run. To be asked for when everything is synced and no message is left.
    pub fn state(&self) -> Option<State> {
        assert!(self.is_settled() && self.outputs.is_empty(), "a state is whole between groups");
        if self.durable.worker.is_none() || self.durable.to_compute {
            return None;
        }
        Some(State::of(|walk| self.durable.save(walk, ())))
    }

    /// Whether another process has said what is beyond this one, or has gone back before what this one can still say.
    /// A server that was ahead when a process before this one took up its work may have heard more of that since.
    fn is_at_odds(&self, server: ShardId, due: RequestSeq) -> bool {
        let clock = self.durable.worker.as_ref().map_or(self.computing, |worker| worker.clock());
        let knows = self.durable.started && !(self.took_up && self.durable.ahead[server.index()]);
        knows && (due > RequestSeq { clock, updates: true } || due < self.durable.first_for(server))
    }

    /// Lets go of everything, and asks all servers where it is to go on.
    fn begin_anew(&mut self) {
        let ran = std::mem::take(&mut self.ran);
        self.outrun = false;
        self.outputs.clear();
        self.dues.fill(None);
        if self.durable.started {
            self.handle(WorkerEntry::Outrun { ran });
        }
        for shard in (0..self.dues.len()).map(|shard| ShardId(shard as u16)) {
            self.outputs.push_back((shard, WorkerMessage::Reset));
        }
    }

    /// Begins where it has nothing behind it: at the first clock, or where the process before it was.
    fn begin_once_known(&mut self) {
        let dues: Option<Vec<(RequestSeq, bool)>> = self.dues.iter().copied().collect();
        let Some(dues) = dues.filter(|_| self.starts && !self.durable.started) else { return };
        // Where no server knows, the coordinator may; otherwise the furthest copy does: what is behind it, others have
        // long had.
        let known = dues.iter().filter(|(_, guessed)| !guessed).map(|(due, _)| due.clock);
        let furthest = dues.iter().map(|(due, _)| due.clock).max().unwrap_or_default();
        let guess = self.stopped_before.unwrap_or(furthest);
        let (clock, owed) = (known.clone().min().unwrap_or(guess), known.max().unwrap_or(guess));
        self.took_up = true;
        self.handle(if dues.iter().all(|due| *due == (RequestSeq::default(), false)) {
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
        self.log.push(&entry);
        self.outputs.extend(self.durable.apply(entry));
    }
}
