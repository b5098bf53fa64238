//! A live parameter server: it notes each input for the log, applies it, and holds back the results until the input is
//! on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::MessageError;
use super::durable_server::{DurableServer, Effects, Output};
use super::entry::Input;
use super::ledger::Ledger;
use super::log_buffer::{LogBuffer, Logging, Position};
use super::worker_session::{RequestOrder, RequestSeq, WorkerSession};
use crate::node::WorkerMessage;
use crate::server::{PeerError, Server};
use crate::session::{CheckedMessage, HelloKind, Incarnation, Message, Session};
use crate::types::{Clock, DcId, Instant, Lane, Persist, State, WorkerId};

/// A parameter server that can be recovered.
///
/// [`super::RecoveringServer`] makes one. An input that a `handle_*` method takes becomes an entry. The results that
/// `poll_*` methods return follow from synced entries.
#[derive(Debug)]
pub struct RecoverableServer {
    durable: DurableServer,
    log: LogBuffer,
    /// Each with the latest entry that it follows from.
    outputs: VecDeque<(Position, Output)>,
}

impl RecoverableServer {
    /// A server that continues in a process.
    ///
    /// # Panics
    /// If the incarnation is not above those before.
    pub(super) fn start(
        durable: DurableServer,
        logging: Logging,
        incarnation: Incarnation,
    ) -> Self {
        assert!(durable.incarnation < Some(incarnation), "incarnations rise");
        let now = durable.now();
        let mut server = Self { durable, log: LogBuffer::new(logging), outputs: VecDeque::new() };
        let defers = matches!(logging, Logging::Deferred { .. });
        server.handle_own(now, Input::Started { incarnation, defers });
        server
    }

    /// Takes a message from a worker of this data center if it is due, and returns its position relative to the request
    /// that is due. A request that was taken before is answered again, if its answer is kept.
    ///
    /// # Panics
    /// If the worker is not of this data center.
    pub fn handle_worker(
        &mut self,
        now: Instant,
        from: WorkerId,
        message: WorkerMessage,
    ) -> RequestOrder {
        let order = self.durable.order_of(from, &message);

        match order {
            RequestOrder::Due | RequestOrder::AlreadyApplied => {
                self.handle_own(now, Input::Worker { from, message });
            }
            // Its connection may have broken before the answer arrived.
            RequestOrder::Repeated => self.resend_answer(from),
            RequestOrder::Early
            | RequestOrder::Unanswered
            | RequestOrder::Skipping
            | RequestOrder::Stopped => {}
        }

        order
    }

    /// A worker has a new connection. Returns the request that is due from it, which the caller sends to it once
    /// everything is on disk. An answer that the worker may not have received is sent again. `at` is the next request
    /// as the worker knows it. The server adopts it if it has lost its own record.
    ///
    /// Returns `None` while the server takes the copy of a mirror, since it does not know the request then. The worker
    /// waits.
    ///
    /// # Panics
    /// If the worker is not of this data center.
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
        self.resend_answer(worker);
        Some(self.due(worker))
    }

    /// The server has lost its state, or joins late, and takes the copy of the mirror in `from`. The `inactive` data
    /// centers take no part.
    ///
    /// # Errors
    /// If the synchronisation model does not support it. The run must end.
    ///
    /// # Panics
    /// If the server [is not new](Self::is_new).
    pub fn handle_rebuild(
        &mut self,
        now: Instant,
        from: DcId,
        inactive: &BTreeSet<DcId>,
    ) -> Result<(), PeerError> {
        assert!(self.is_new(), "who has a copy keeps it");
        self.handle(now, Input::Rebuild { from, inactive: inactive.clone() })
    }

    /// The mirror in `from` has left for good. `incarnation` is the number of the one that began the state with which
    /// it took part. The caller passes in no message of that state after this. Idempotent.
    ///
    /// # Errors
    /// If the synchronisation model does not support it. The run must end.
    pub fn handle_left(
        &mut self,
        now: Instant,
        from: DcId,
        incarnation: u64,
    ) -> Result<(), PeerError> {
        self.handle(now, Input::Left { from, incarnation })
    }

    /// Whether the server has no history: it has met no mirror, taken no request of a worker and requested no copy.
    pub fn is_new(&self) -> bool {
        let untouched = |worker_session: &WorkerSession| {
            !worker_session.lost && worker_session.next == RequestSeq::default()
        };
        !self.is_rebuilding()
            && self.durable.sessions.values().all(|session| session.peer_hello().is_none())
            && self.durable.worker_sessions.values().all(untouched)
    }

    /// Whether the server takes the copy of a mirror, and has not received all of it.
    pub fn is_rebuilding(&self) -> bool {
        self.server().is_rebuilding()
    }

    /// A connection to a mirror begins, and replaces any before. Returns the hello, which must be the first message on
    /// it. A hello acknowledges frames, so the caller sends it once everything is on disk.
    ///
    /// # Panics
    /// If `peer` is not a mirror of this server.
    pub fn connect(&mut self, peer: DcId) -> Message {
        self.durable.session_mut(peer).connect()
    }

    /// Takes a message from a mirror. Returns the [`HelloKind`] if it is a hello. The frames that are then in turn are
    /// applied by [`Self::deliver`].
    ///
    /// # Errors
    /// [`MessageError::Session`] if the message is invalid. No part of it was taken, and the caller closes the
    /// connection. [`MessageError::Peer`] if the mirror has lost a state that cannot be restored. The run must end.
    ///
    /// # Panics
    /// If `from` is not a mirror of this server.
    pub fn handle_message(
        &mut self,
        now: Instant,
        from: DcId,
        message: &Bytes,
    ) -> Result<Option<HelloKind>, MessageError> {
        let session = self.durable.session_mut(from);
        let before = session.acknowledged_by_lane();
        let CheckedMessage { hello: found, received } = session.check_message(message)?;

        if let Some((kind, hello)) = found
            && kind != HelloKind::Reconnected
        {
            self.handle(now, Input::Hello { from, hello })?;
        }

        // Messages of two connections may arrive out of order: the higher count holds.
        let reached = self.session(from).acknowledged_by_lane();
        let counts = Lane::ALL.map(Lane::index).map(|lane| reached[lane].max(received[lane]));
        if counts != before {
            self.handle_own(now, Input::Acknowledged { by: from, counts });
        }

        Ok(found.map(|(kind, _)| kind))
    }

    /// Applies the next frame of a mirror that is in turn, and returns it. `None` if there is none.
    ///
    /// # Errors
    /// If the mirror sent an invalid frame. No part of it was applied, and the frames of the mirror that were not applied
    /// are dropped. The run must end if [`PeerError::ends_run`] says so. Otherwise the caller closes the connection, and
    /// the mirror sends those frames again on the next one.
    ///
    /// # Panics
    /// If `from` is not a mirror of this server.
    pub fn deliver(
        &mut self,
        now: Instant,
        from: DcId,
    ) -> Result<Option<(Lane, Bytes)>, PeerError> {
        let Some((lane, frame)) = self.session(from).next_frame() else { return Ok(None) };
        let handled = self.handle(now, Input::Frame { from, lane, frame: frame.clone() });
        if handled.is_err() {
            self.durable.session_mut(from).forget_early();
        }
        handled.map(|()| Some((lane, frame)))
    }

    /// `bytes` bytes of data frames for a mirror were sent, and the link was busy with them for `busy`.
    ///
    /// # Errors
    /// Never, if `to` is a mirror of this server.
    pub fn handle_drained(
        &mut self,
        now: Instant,
        to: DcId,
        bytes: u64,
        busy: Duration,
    ) -> Result<(), PeerError> {
        self.handle(now, Input::Drained { to, bytes, busy })
    }

    /// Nothing is received from a mirror: the connection to it is lost, or no packet of it has arrived for a while.
    ///
    /// # Errors
    /// Never, if `from` is a mirror of this server.
    pub fn handle_disconnected(&mut self, now: Instant, from: DcId) -> Result<(), PeerError> {
        self.handle(now, Input::Disconnected { from })
    }

    /// The deadline of [`Self::poll_timeout`] has passed: releases what has waited for it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_own(now, Input::Timeout);
    }

    /// The coordinator has ordered the drain, in which all copies become equal. It begins once every worker has
    /// finished its clock of `clocks`. The `inactive` data centers take no part. Idempotent.
    pub fn handle_drain(&mut self, now: Instant, clocks: Vec<Clock>, inactive: BTreeSet<DcId>) {
        if !self.server().is_draining() {
            self.handle_own(now, Input::Drain { clocks, inactive });
        }
    }

    /// Cuts a frame for a mirror, of about `room` bytes at most, and returns it. `None` if the session has no room, no
    /// hello of the mirror was received on this connection, or there is nothing to send. A driver cuts as late as
    /// possible, since updates that wait still merge with later ones.
    ///
    /// # Panics
    /// If `to` is not a mirror of this server.
    pub fn cut(&mut self, now: Instant, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        let session = self.session(to);
        let room = room.min(session.room(lane));
        if room == 0 || !session.has_hello() {
            return None;
        }
        let waited = lane == Lane::Data && self.server().has_updates_for(to);

        // Only the server can determine whether there is a frame. If there is none and no updates had waited, nothing
        // has changed, and there is no entry.
        let cut = |came| Input::Cut { to, lane, room: room as u64, came };
        let at = self.durable.now().max(now);
        let Effects { outputs, frame } = self.durable.apply(at, cut(true)).expect(NOT_OF_A_MIRROR);
        if frame.is_some() || waited {
            self.note(now, &cut(frame.is_some()));
        }
        self.put(outputs);

        frame
    }

    /// Whether results wait for entries that have to be on disk first.
    pub fn must_write(&self) -> bool {
        !self.log.is_prompt_settled()
    }

    /// Whether [`Self::begin_checkpoint`] has to take the place of [`Self::take_entries`], so that results may leave.
    pub fn needs_checkpoint(&self) -> bool {
        self.log.needs_checkpoint()
    }

    /// Whether entries were left out, so that only [`Self::begin_checkpoint`] [settles](Self::is_settled) every input.
    pub fn lacks_entries(&self) -> bool {
        self.log.has_gap()
    }

    /// Takes the bodies of the entries to write, in order. What follows from them waits for [`Self::handle_synced`].
    ///
    /// # Panics
    /// If a checkpoint [is needed](Self::needs_checkpoint).
    pub fn take_entries(&mut self) -> Vec<Bytes> {
        self.log.take()
    }

    /// The state, for a checkpoint that takes the place of the entries that wait: these need not be written. What follows
    /// from them waits for [`Self::handle_synced`]. Until then, no entries are taken. It is in the memory of `spare`, a state
    /// that nobody needs.
    ///
    /// Outputs are no part of a state. Those for workers are made again when a worker joins, and the others are reported by
    /// the next process.
    pub fn begin_checkpoint(&mut self, spare: State) -> State {
        self.log.replace();
        State::in_memory_of(spare, |walk| self.durable.save(walk, ()))
    }

    /// The entries that were taken, or the checkpoint in their place, are on disk.
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

    /// The number of entries that [`Self::take_entries`] would return up to that of the latest input. `None` if that was left
    /// out.
    pub fn entries_up_to_latest(&self) -> Option<u64> {
        self.log.entries_up_to_latest()
    }

    /// The outputs that [`Self::poll_output`] has not returned.
    pub fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.outputs.iter().map(|(_, output)| output)
    }

    /// The time of the latest input.
    pub fn now(&self) -> Instant {
        self.durable.now()
    }

    /// The next message or event that does not wait for an entry to be on disk.
    pub fn poll_output(&mut self) -> Option<Output> {
        let is_free = |(position, output): &(Position, Output)| {
            self.log.is_durable(*position) || self.log.is_settled_nearby() && output.is_for_worker()
        };
        let first = self.outputs.iter().position(is_free)?;
        self.outputs.remove(first).map(|(_, output)| output)
    }

    /// Whether answers to workers wait for entries to be on disk.
    pub fn delays_answers(&self) -> bool {
        !self.log.is_settled_nearby()
    }

    /// Whether events for the coordinator wait for entries to be on disk.
    pub fn delays_events(&self) -> bool {
        self.outputs.iter().any(|(position, _)| !self.log.is_durable(*position))
    }

    /// The next message for a mirror. `None` if there is none, or an entry that it may follow from is not on disk.
    ///
    /// # Panics
    /// If `to` is not a mirror of this server.
    pub fn poll_message(&mut self, to: DcId, lane: Lane) -> Option<Message> {
        let settled = self.log.is_prompt_settled();
        let session = self.durable.session_mut(to);
        if settled { session.poll_transmit(lane) } else { None }
    }

    /// A message with acknowledgements alone, if frames were received that no message to the mirror has acknowledged.
    /// `None` if there are none, or an entry that it may follow from is not on disk.
    ///
    /// # Panics
    /// If `to` is not a mirror of this server.
    pub fn poll_acknowledgement(&mut self, to: DcId) -> Option<Message> {
        let settled = self.log.is_prompt_settled();
        let session = self.durable.session_mut(to);
        if settled { session.poll_acknowledgement() } else { None }
    }

    /// When the driver must call [`Self::handle_timeout`], if there is a deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.server().poll_timeout().map(|(at, _)| at)
    }

    /// The state, for a checkpoint after which only later entries are replayed, in the memory of `spare`.
    ///
    /// `None` if an entry is not on disk or an output was not polled, since neither is part of a state.
    pub fn state(&self, spare: State) -> Option<State> {
        if !self.is_settled() || !self.outputs.is_empty() {
            return None;
        }
        Some(State::in_memory_of(spare, |walk| self.durable.save(walk, ())))
    }

    /// The server, in the state that all inputs so far have made, synced or not.
    pub fn server(&self) -> &Server {
        &self.durable.server
    }

    /// The session with a mirror.
    ///
    /// # Panics
    /// If `peer` is not a mirror of this server.
    pub fn session(&self, peer: DcId) -> &Session {
        &self.durable.sessions[&peer]
    }

    /// The counts of data frames, by the data center of the mirror.
    pub fn ledgers(&self) -> &BTreeMap<DcId, Ledger> {
        &self.durable.ledgers
    }

    /// The incarnation of this process.
    pub fn incarnation(&self) -> Incarnation {
        self.durable.incarnation.expect("a process runs this server")
    }

    /// The incarnation that began this server's state.
    pub fn began(&self) -> Incarnation {
        self.durable.began().expect("a process runs this server")
    }

    /// The request that is due from a worker.
    ///
    /// # Panics
    /// If the worker is not of this data center.
    pub fn due(&self, worker: WorkerId) -> RequestSeq {
        self.durable.worker_sessions[&worker].next
    }

    fn resend_answer(&mut self, worker: WorkerId) {
        if let Some(message) = self.durable.worker_sessions[&worker].answer.clone() {
            self.put([Output::ToWorker { worker, message }]);
        }
    }

    /// Notes an input and applies it.
    ///
    /// # Errors
    /// As [`DurableServer::apply`].
    fn handle(&mut self, now: Instant, input: Input) -> Result<(), PeerError> {
        let at = self.note(now, &input);
        let before = self.server().rounds_begun();
        let effects = self.durable.apply(at, input)?;
        if self.server().rounds_begun() != before {
            self.log.need();
        }
        self.put(effects.outputs);
        Ok(())
    }

    fn put(&mut self, outputs: impl IntoIterator<Item = Output>) {
        let position = self.log.pushed();
        self.outputs.extend(outputs.into_iter().map(|output| (position, output)));
    }

    /// As [`Self::handle`], for an input that no mirror has caused.
    fn handle_own(&mut self, now: Instant, input: Input) {
        self.handle(now, input).expect(NOT_OF_A_MIRROR);
    }

    /// Notes an input, and returns its time.
    fn note(&mut self, now: Instant, input: &Input) -> Instant {
        let at = self.durable.reach(now);
        let server = self.server();
        let kind = input.kind(server.rounds_begun().is_some());
        let bytes = input.worker_bytes(server.layout());
        self.log.push(&(at, input), kind, bytes);
        at
    }
}

const NOT_OF_A_MIRROR: &str = "only what a mirror sends or needs can be refused";
