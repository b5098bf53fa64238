//! A parameter server with its sessions and its workers' turns, whose inputs become entries of a log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::MessageError;
use super::durable_server::{DurableServer, Effects, Output};
use super::entry::Input;
use super::ledger::Ledger;
use super::log_buffer::LogBuffer;
use super::worker_session::{Due, RequestSeq, WorkerSession};
use crate::node::WorkerMessage;
use crate::server::{PeerError, Server};
use crate::session::{CheckedMessage, Incarnation, Meeting, Message, Session};
use crate::types::{Clock, DcId, Instant, Lane, Persist, State, WorkerId};

/// A parameter server that can come back.
///
/// [`super::RecoveringServer`] makes one. What `handle_*` methods take becomes entries; what `poll_*` methods give has
/// waited until the entries behind it were synced.
#[derive(Debug)]
pub struct RecoverableServer {
    durable: DurableServer,
    log: LogBuffer,
    outputs: VecDeque<Output>,
}

impl RecoverableServer {
    /// A server that goes on in a process. `logs` says whether entries are kept.
    ///
    /// # Panics
    /// Where the incarnation is not above those before.
    pub(super) fn start(durable: DurableServer, logs: bool, incarnation: Incarnation) -> Self {
        assert!(durable.incarnation < Some(incarnation), "incarnations rise");
        let now = durable.now();
        let mut server = Self { durable, log: LogBuffer::new(logs), outputs: VecDeque::new() };
        server.handle_own(now, Input::Started { incarnation });
        server
    }

    /// Takes a message from a worker of this data center, if it is its turn.
    pub fn handle_worker(&mut self, now: Instant, from: WorkerId, message: WorkerMessage) -> Due {
        let finished = self.server().finished(from);
        let due = self.durable.worker_sessions[&from].judge(&message, finished);

        match due {
            Due::Now | Due::Known => self.handle_own(now, Input::Worker { from, message }),
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
        if self.durable.worker_sessions[&worker].learns_from(at) {
            self.handle_own(now, Input::Placed { worker, at });
        }
        self.answer_again(worker);
        Some(self.due(worker))
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
        self.handle(now, Input::Rebuild { from, inactive: inactive.clone() })
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
        self.handle(now, Input::Left { from, incarnation })
    }

    /// Whether nothing has befallen this server: it has met nobody, and knows of no loss.
    pub fn is_new(&self) -> bool {
        let untouched = |worker_session: &WorkerSession| {
            !worker_session.lost && worker_session.next == RequestSeq::default()
        };
        !self.is_rebuilding()
            && self.durable.sessions.values().all(|session| session.met().is_none())
            && self.durable.worker_sessions.values().all(untouched)
    }

    /// Whether its copy is on its way from a mirror.
    pub fn is_rebuilding(&self) -> bool {
        self.server().is_rebuilding()
    }

    /// A connection to a mirror begins, in place of any before. The hello must be the first message on it; it
    /// acknowledges, so that it leaves once everything is on disk.
    pub fn connect(&mut self, peer: DcId) -> Message {
        self.durable.session_mut(peer).connect()
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
        let session = self.durable.session_mut(from);
        let before = session.acknowledged_by_lane();
        let CheckedMessage { hello, received } = session.check_message(message)?;

        if let Some((meeting, met)) = hello
            && meeting != Meeting::Again
        {
            self.handle(now, Input::Met { from, met })?;
        }

        // Of counts that cross on their way the higher holds.
        let reached = self.session(from).acknowledged_by_lane();
        let counts = Lane::ALL.map(Lane::index).map(|lane| reached[lane].max(received[lane]));
        if counts != before {
            self.handle_own(now, Input::Acknowledged { by: from, counts });
        }

        Ok(hello.map(|(meeting, _)| meeting))
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
        let Some((lane, frame)) = self.session(from).next_frame() else { return Ok(None) };
        self.handle(now, Input::Frame { from, lane, frame: frame.clone() })?;
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
        self.handle(now, Input::Drained { to, bytes, busy })
    }

    /// The connection to a mirror is lost, and nothing will come until there is another.
    ///
    /// # Errors
    /// None that an honest driver can see: the mirror is one of this server's.
    pub fn handle_disconnected(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        self.handle(now, Input::Disconnected { from })
    }

    /// Lets pass whatever has waited until its deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_own(now, Input::Timeout);
    }

    /// Makes all copies equal, once every worker has finished the clock it stopped at. To be told so twice is to be
    /// told once.
    pub fn handle_drain(&mut self, now: Instant, clocks: Vec<Clock>, inactive: BTreeSet<DcId>) {
        if !self.server().is_draining() {
            self.handle_own(now, Input::Drain { clocks, inactive });
        }
    }

    /// Has the server cut a frame for a mirror, of about `room` bytes at most, where its session has room and the
    /// mirror has said hello; says which it was. What has not been cut can still be improved.
    pub fn cut(&mut self, now: Instant, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        let session = self.session(to);
        let room = room.min(session.room(lane));
        if room == 0 || !session.has_met() {
            return None;
        }
        let waited = lane == Lane::Data && self.server().has_updates_for(to);

        // Whether there is a frame is known once the server was asked. If not, and if nothing waited either, then
        // nothing has changed and there is no entry.
        let cut = |came| Input::Cut { to, lane, room: room as u64, came };
        let at = self.durable.now().max(now);
        let Effects { outputs, frame } = self.durable.apply(at, cut(true)).expect(NOT_OF_A_MIRROR);
        if frame.is_some() || waited {
            self.note(now, &cut(frame.is_some()));
        }
        self.outputs.extend(outputs);

        frame
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
        self.durable.now()
    }

    /// The next message or event, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.is_settled() { self.outputs.pop_front() } else { None }
    }

    /// The next message to a mirror.
    pub fn poll_message(&mut self, to: DcId, lane: Lane) -> Option<Message> {
        let settled = self.is_settled();
        let session = self.durable.session_mut(to);
        if settled { session.poll_transmit(lane) } else { None }
    }

    /// An acknowledgement by itself, where there is something that a mirror has not been told.
    pub fn poll_acknowledgement(&mut self, to: DcId) -> Option<Message> {
        let settled = self.is_settled();
        let session = self.durable.session_mut(to);
        if settled { session.poll_acknowledgement() } else { None }
    }

    /// When this server wants [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.server().poll_timeout().map(|(at, _)| at)
    }

    /// Takes the state out, for a checkpoint from which only later entries need be heard.
    ///
    /// `None` where entries have yet to be synced or outputs to be polled: neither is part of a state. The caller writes
    /// and lets out what there is, and asks again.
    pub fn state(&self) -> Option<State> {
        if !self.is_settled() || !self.outputs.is_empty() {
            return None;
        }
        Some(State::of(|walk| self.durable.save(walk, ())))
    }

    pub fn server(&self) -> &Server {
        &self.durable.server
    }

    /// The session with a mirror.
    pub fn session(&self, peer: DcId) -> &Session {
        &self.durable.sessions[&peer]
    }

    /// What has been booked of each mirror.
    pub fn ledgers(&self) -> &BTreeMap<DcId, Ledger> {
        &self.durable.ledgers
    }

    pub fn incarnation(&self) -> Incarnation {
        self.durable.incarnation.expect("a process runs this server")
    }

    /// The incarnation that began what this server knows.
    pub fn began(&self) -> Incarnation {
        self.durable.sessions.values().next().map_or_else(|| self.incarnation(), Session::began)
    }

    /// What is due from a worker.
    pub fn due(&self, worker: WorkerId) -> RequestSeq {
        self.durable.worker_sessions[&worker].next
    }

    fn answer_again(&mut self, worker: WorkerId) {
        if let Some(message) = self.durable.worker_sessions[&worker].answer.clone() {
            self.outputs.push_back(Output::ToWorker { worker, message });
        }
    }

    /// Notes an input and applies it.
    ///
    /// # Errors
    /// Those of [`DurableServer::apply`].
    fn handle(&mut self, now: Instant, input: Input) -> Result<(), PeerError> {
        let at = self.note(now, &input);
        let effects = self.durable.apply(at, input)?;
        self.outputs.extend(effects.outputs);
        Ok(())
    }

    /// As [`Self::handle`], of an input for which no mirror can be blamed.
    fn handle_own(&mut self, now: Instant, input: Input) {
        self.handle(now, input).expect(NOT_OF_A_MIRROR);
    }

    /// Notes an input, and says when it came.
    fn note(&mut self, now: Instant, input: &Input) -> Instant {
        let at = self.durable.reach(now);
        self.log.push(&(at, input));
        at
    }
}

const NOT_OF_A_MIRROR: &str = "only what a mirror sends or needs can be refused";
