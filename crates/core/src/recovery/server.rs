//! A parameter server with its sessions and its workers' turns, whose inputs become entries of a log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::MessageError;
use super::entry::{Input, encode};
use super::ledger::Ledger;
use super::recovering::{Kept, greet, place, settle};
use super::worker_session::{Due, RequestSeq, WorkerSession};
use crate::node::{RowsRead, ServerInput, WorkerMessage};
use crate::server::{Divergence, PeerError, Server};
use crate::session::{Incarnation, Meeting, Message, Session};
use crate::types::{Clock, DcId, Instant, Lane, State, WorkerId};

/// A parameter server that can come back.
///
/// [`super::RecoveringServer`] makes one. What `handle_*` methods take becomes entries; what `poll_*` methods give has
/// waited until the entries behind it were synced.
#[derive(Debug)]
pub struct RecoverableServer {
    pub(super) server: Server,
    pub(super) sessions: BTreeMap<DcId, Session>,
    pub(super) ledgers: BTreeMap<DcId, Ledger>,
    pub(super) worker_sessions: BTreeMap<WorkerId, WorkerSession>,
    pub(super) incarnation: Incarnation,
    /// The latest time told.
    pub(super) now: Instant,
    pub(super) log: Log,
    pub(super) outputs: VecDeque<Output>,
}

/// What a server wants done, once it may.
#[derive(Clone, Debug)]
pub enum Output {
    ToWorker {
        worker: WorkerId,
        message: Arc<RowsRead>,
    },
    /// A worker that begins anew is to hear what is due from it, as far as this server knows or guesses. No answer to what
    /// it said before comes later.
    Due {
        worker: WorkerId,
        due: RequestSeq,
        guessed: bool,
    },
    ClockFinished {
        clock: Clock,
    },
    CopyReady {
        clock: Clock,
    },
    Drained,
    /// A worker's update was refused: training has diverged, and the run is to end.
    Diverged(Divergence),
}

/// Entries on their way to the disk.
#[derive(Debug)]
pub(super) struct Log {
    /// Whether entries are kept at all.
    kept: bool,
    waiting: Vec<Bytes>,
    writing: bool,
}

impl Log {
    pub(super) fn new(kept: bool) -> Self {
        Self { kept, waiting: Vec::new(), writing: false }
    }

    pub(super) fn push<T: serde::Serialize>(&mut self, entry: &T) {
        if self.kept {
            self.waiting.push(encode(entry));
        }
    }

    /// Whether all that was put in is on disk.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && !self.writing
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.writing |= !self.waiting.is_empty();
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn synced(&mut self) {
        self.writing = false;
    }
}

impl RecoverableServer {
    /// Takes a message from a worker of this data center, if it is its turn.
    pub fn handle_worker(&mut self, now: Instant, from: WorkerId, message: WorkerMessage) -> Due {
        let finished = self.server.finished(from);
        let worker_session =
            self.worker_sessions.get_mut(&from).expect("a worker of this data center");
        let due = worker_session.judge(&message, finished);

        match due {
            Due::Now | Due::Known => {
                let learned = worker_session.hear(&message);
                let (anew, next, guessed) =
                    (worker_session.anew, worker_session.next, worker_session.guessed);
                let input = Input::Worker { from, message };
                let now = self.note(now, &input);
                if let Some(clock) = learned {
                    self.server.place_worker(now, from, clock);
                }
                if let Input::Worker { message, .. } = input
                    && due == Due::Now
                {
                    self.server.handle_worker(now, from, message);
                }
                self.settle();
                if anew {
                    self.outputs.push_back(Output::Due { worker: from, due: next, guessed });
                }
            }
            // Its connection may have broken before it heard the answer.
            Due::Repeated => self.answer_again(from),
            Due::Ahead => {}
        }

        due
    }

    /// A worker has a new connection: what is due from it, which it is to be told once everything is on disk. What it
    /// has been answered and may not have heard is said again. `at` is what the worker itself says that it will say
    /// next, if it knows; it counts where this server has lost what it knew.
    ///
    /// `None` where this server cannot know yet, since its copy is on its way: the worker waits.
    pub fn handle_worker_joined(
        &mut self,
        now: Instant,
        worker: WorkerId,
        at: Option<RequestSeq>,
    ) -> Option<RequestSeq> {
        if self.is_rebuilding() {
            return None;
        }
        if self.worker_sessions[&worker].learns_from(at) {
            let now = self.note(now, &Input::Placed { worker, at });
            place(&mut self.server, &mut self.worker_sessions, (now, worker, at));
            self.settle();
        }
        self.answer_again(worker);
        Some(self.worker_sessions[&worker].next)
    }

    /// This server has lost all that it had, or joins late, and takes the copy of a mirror; these data centers take no
    /// part.
    ///
    /// # Errors
    /// Where the synchronisation model does not allow it, and the run cannot go on.
    ///
    /// # Panics
    /// Where the server [is not new](Self::is_new).
    pub fn handle_rebuild(
        &mut self,
        now: Instant,
        from: DcId,
        inactive: &BTreeSet<DcId>,
    ) -> Result<(), PeerError> {
        assert!(self.is_new(), "who has a copy keeps it");
        self.note(now, &Input::Rebuild { from, inactive: inactive.clone() });
        self.worker_sessions
            .values_mut()
            .for_each(|worker_session| *worker_session = WorkerSession::lost());
        self.server.handle_rebuild(from, self.incarnation.number(), inactive)
    }

    /// A data center has left for good, in this incarnation of its server. No message of that incarnation is to be handed over after
    /// this. To be told so twice is to be told once.
    ///
    /// # Errors
    /// Where the synchronisation model does not allow it, and the run cannot go on.
    pub fn handle_left(
        &mut self,
        now: Instant,
        from: DcId,
        incarnation: u64,
    ) -> Result<(), PeerError> {
        let now = self.note(now, &Input::Left { from, incarnation });
        self.server.handle_input(now, ServerInput::Left { from, incarnation })?;
        self.settle();
        Ok(())
    }

    /// Whether nothing has befallen this server: it has met nobody, and knows of no loss.
    pub fn is_new(&self) -> bool {
        let untouched = |worker_session: &WorkerSession| {
            !worker_session.lost && worker_session.next == RequestSeq::default()
        };
        !self.is_rebuilding()
            && self.sessions.values().all(|session| session.met().is_none())
            && self.worker_sessions.values().all(untouched)
    }

    /// Whether its copy is on its way from a mirror.
    pub fn is_rebuilding(&self) -> bool {
        self.server.is_rebuilding()
    }

    /// A connection to a mirror begins, in place of any before. The hello must be the first message on it; it
    /// acknowledges, so that it leaves once everything is on disk.
    pub fn connect(&mut self, peer: DcId) -> Message {
        self.session_mut(peer).connect()
    }

    /// Takes a message from a mirror. The frames that it puts in turn come with [`Self::deliver`].
    ///
    /// # Errors
    /// Where the mirror sent what it must not; nothing of it was taken. The connection is to be broken. Or where it has
    /// lost what cannot be made again.
    pub fn handle_message(
        &mut self,
        now: Instant,
        from: DcId,
        message: &Bytes,
    ) -> Result<Option<Meeting>, MessageError> {
        let session = self.sessions.get_mut(&from).expect("mirrors have a session");
        let acknowledged = |session: &Session| Lane::ALL.map(|lane| session.acknowledged(lane));
        let before = acknowledged(session);
        let meeting = session.handle_message(message)?;
        let (met, counts) = (session.met(), acknowledged(session));

        if matches!(meeting, Some(Meeting::Reset { .. })) {
            *self.ledger_mut(from) = Ledger::default();
        }
        if let (Some(meeting), Some(met)) = (meeting, met)
            && meeting != Meeting::Again
        {
            let now = self.note(now, &Input::Met { from, met });
            greet(&mut self.server, now, from, (meeting, met))?;
            self.settle();
        }

        if counts != before {
            self.note(now, &Input::Acknowledged { by: from, counts });
        }
        Ok(meeting)
    }

    /// Hands the server the next frame of a mirror that is in turn, and says which it was.
    ///
    /// # Errors
    /// Where the mirror sent what it must not, and the run cannot go on.
    pub fn deliver(
        &mut self,
        now: Instant,
        from: DcId,
    ) -> Result<Option<(Lane, Bytes)>, PeerError> {
        let Some((lane, frame)) = self.session_mut(from).poll_frame() else { return Ok(None) };
        let now = self.note(now, &Input::Frame { from, lane, frame: frame.clone() });
        self.server.handle_input(now, ServerInput::Frame { from, lane, frame: frame.clone() })?;
        if lane == Lane::Data {
            self.ledger_mut(from).applied.enter(&frame);
        }
        self.settle();
        Ok(Some((lane, frame)))
    }

    /// Bytes of data frames towards a mirror have left, having kept the link busy for `busy`.
    ///
    /// # Errors
    /// None that an honest driver can see: the mirror is one of this server's.
    pub fn handle_drained(
        &mut self,
        now: Instant,
        to: DcId,
        bytes: u64,
        busy: Duration,
    ) -> Result<(), PeerError> {
        let now = self.note(now, &Input::Drained { to, bytes, busy });
        self.server.handle_input(now, ServerInput::Drained { to, bytes, busy })?;
        self.settle();
        Ok(())
    }

    /// The connection to a mirror is lost, and nothing will come until there is another.
    ///
    /// # Errors
    /// None that an honest driver can see: the mirror is one of this server's.
    pub fn handle_disconnected(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        let now = self.note(now, &Input::Disconnected { from });
        self.server.handle_input(now, ServerInput::Disconnected { from })?;
        self.settle();
        Ok(())
    }

    /// Lets pass whatever has waited until its deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.note(now, &Input::Timeout);
        self.server.handle_timeout(now);
        self.settle();
    }

    /// Makes all copies equal, once every worker has finished the clock it stopped at. To be told so twice is to be
    /// told once.
    pub fn handle_drain(&mut self, now: Instant, clocks: Vec<Clock>, inactive: BTreeSet<DcId>) {
        if self.server.is_draining() {
            return;
        }
        let now =
            self.note(now, &Input::Drain { clocks: clocks.clone(), inactive: inactive.clone() });
        self.server.handle_drain(now, clocks, inactive);
        self.settle();
    }

    /// Has the server cut a frame for a mirror, of about `room` bytes at most, where its session has room and the
    /// mirror has said hello; says which it was. What has not been cut can still be improved.
    pub fn cut(&mut self, now: Instant, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        let session = self.sessions.get(&to).expect("mirrors have a session");
        let room = room.min(session.room(lane));
        if room == 0 || !session.has_met() {
            return None;
        }
        let waited = lane == Lane::Data && self.server.has_updates_for(to);
        let frame = self.server.poll_transmit(self.now.max(now), to, lane, room);
        let came = frame.is_some();

        if came || waited {
            self.note(now, &Input::Cut { to, lane, room: room as u64, came });
        }
        let frame = frame?;

        if lane == Lane::Data {
            self.ledger_mut(to).cut.enter(&frame);
        }
        self.session_mut(to).push(lane, frame.clone());
        self.settle();

        Some(frame)
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

    /// How many entries wait to be taken.
    pub fn entries_waiting(&self) -> usize {
        self.log.waiting()
    }

    /// What wants to leave once everything is on disk.
    pub fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.outputs.iter()
    }

    /// The latest time told.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The next message or event, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.is_settled() { self.outputs.pop_front() } else { None }
    }

    /// The next message to a mirror.
    pub fn poll_message(&mut self, to: DcId, lane: Lane) -> Option<Message> {
        let settled = self.is_settled();
        let session = self.session_mut(to);
        if settled { session.poll_transmit(lane) } else { None }
    }

    /// An acknowledgement by itself, where there is something that a mirror has not been told.
    pub fn poll_acknowledgement(&mut self, to: DcId) -> Option<Message> {
        let settled = self.is_settled();
        let session = self.session_mut(to);
        if settled { session.poll_acknowledgement() } else { None }
    }

    /// When this server wants [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.server.poll_timeout().map(|(at, _)| at)
    }

    /// Takes the state out, for a checkpoint from which only later entries need be heard.
    ///
    /// `None` where entries have yet to be synced or outputs to be polled: neither is part of a state. The caller writes
    /// and lets out what there is, and asks again.
    pub fn state(&mut self) -> Option<State> {
        if !self.is_settled() || !self.outputs.is_empty() {
            return None;
        }

        let mut kept = Kept {
            sessions: self.sessions.iter().map(|(peer, one)| (*peer, one.state())).collect(),
            ledgers: self.ledgers.clone(),
            worker_sessions: self.worker_sessions.clone(),
            incarnation: Some(self.incarnation),
            now: self.now,
        };
        Some(State::of(|walk| kept.state(&mut self.server, walk)))
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The session with a mirror.
    pub fn session(&self, peer: DcId) -> &Session {
        &self.sessions[&peer]
    }

    /// What has been booked of each mirror.
    pub fn ledgers(&self) -> &BTreeMap<DcId, Ledger> {
        &self.ledgers
    }

    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The incarnation that began what this server knows.
    pub fn began(&self) -> Incarnation {
        self.sessions.values().next().map_or(self.incarnation, Session::began)
    }

    /// What is due from a worker.
    pub fn due(&self, worker: WorkerId) -> RequestSeq {
        self.worker_sessions[&worker].next
    }

    fn session_mut(&mut self, peer: DcId) -> &mut Session {
        self.sessions.get_mut(&peer).expect("mirrors have a session")
    }

    fn ledger_mut(&mut self, peer: DcId) -> &mut Ledger {
        self.ledgers.get_mut(&peer).expect("mirrors have a ledger")
    }

    fn answer_again(&mut self, worker: WorkerId) {
        if let Some(message) = self.worker_sessions[&worker].answer.clone() {
            self.outputs.push_back(Output::ToWorker { worker, message });
        }
    }

    /// Notes an input, and says when it came: time does not run backwards, whatever the driver's clock does.
    pub(super) fn note(&mut self, now: Instant, input: &Input) -> Instant {
        self.now = self.now.max(now);
        self.log.push(&(self.now, input));
        self.now
    }

    fn settle(&mut self) {
        settle(&mut self.server, &mut self.worker_sessions, &mut self.outputs);
    }
}
