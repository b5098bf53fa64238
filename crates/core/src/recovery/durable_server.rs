//! What the log of a server replays into, and the one function that changes it.
//!
//! [`DurableServer::apply`] makes the step that an input leads to. A live server calls it for each input that it has
//! noted, and replay calls it for each entry of the log. So a server that was replayed has run the code that the live
//! server ran: its sessions, its ledgers and the sessions of its workers included.
//!
//! `apply` relies on what [`DurableServer::check`] checks. A live server ensures that before it notes an input. Replay
//! calls `check`, because entries come from a file.
//!
//! The entry of a cut is the only one that is noted after its step. It records whether the cut made a frame, and this
//! is known only after the server was asked. No message leaves in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::entry::Input;
use super::ledger::Ledger;
use super::worker_session::{RequestOrder, RequestSeq, WorkerSession};
use crate::node::{Probed, RowsRead, ServerInput, WorkerMessage};
use crate::server::{Divergence, PeerError, Server, ServerOutput};
use crate::session::{HelloKind, Incarnation, PeerHello, Session, SessionConfig, SessionState};
use crate::types::{
    Clock, DcId, Instant, Lane, Persist, Restorer, Saved, Saver, SharedValues, StateError, WorkerId,
};

/// A server and what is kept beside it: all that its log determines.
///
/// Of each [`Session`] that is what [`Session::state`] returns. The rest of it belongs to a connection, and no input
/// depends on it.
#[derive(Debug)]
pub(super) struct DurableServer {
    pub(super) server: Server,
    pub(super) sessions: BTreeMap<DcId, Session>,
    pub(super) ledgers: BTreeMap<DcId, Ledger>,
    pub(super) worker_sessions: BTreeMap<WorkerId, WorkerSession>,
    /// The incarnation of the latest process. `None` before the first.
    pub(super) incarnation: Option<Incarnation>,
    /// The time of the latest input.
    now: Instant,
    /// Bytes that may be in flight to each mirror, and as many from it.
    windows: BTreeMap<DcId, usize>,
}

/// An action that the driver carries out for a server once its entries are on disk.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send the answer to a read to a worker.
    ToWorker {
        /// The worker.
        worker: WorkerId,
        /// The answer.
        message: Arc<RowsRead>,
    },
    /// Notify a worker that has sent a reset which request is due from it. No answer to an earlier request follows.
    Due {
        /// The worker.
        worker: WorkerId,
        /// The request that is due.
        due: RequestSeq,
        /// Whether the request is a guess by the clock of this server's copy.
        guessed: bool,
    },
    /// All workers of the data center have finished a clock.
    ClockFinished {
        /// The number of finished clocks.
        clock: Clock,
    },
    /// The copy is ready for the evaluation of a clock ([`ServerOutput::CopyReady`]).
    CopyReady {
        /// The clock.
        clock: Clock,
    },
    /// The drain is complete: the copies of all data centers are equal, and do not change again.
    Drained,
    /// A worker's update was rejected, because training has diverged. The run must end.
    Diverged(Divergence),
    /// A worker has measured another data center's copy ([`ServerOutput::Probed`]). A crash can lose it.
    Probed(Probed),
}

impl Output {
    /// Whether it is for a worker of the data center.
    pub(super) fn is_for_worker(&self) -> bool {
        matches!(self, Self::ToWorker { .. } | Self::Due { .. })
    }
}

/// The results of an input.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The actions to carry out once the input is on disk.
    pub(super) outputs: Vec<Output>,
    /// The frame of an [`Input::Cut`], if there was one. The session has it, too.
    pub(super) frame: Option<Bytes>,
}

impl DurableServer {
    /// A server as the plan makes it, before the first process runs it.
    pub(super) fn new(
        server: Server,
        workers: impl IntoIterator<Item = WorkerId>,
        windows: BTreeMap<DcId, usize>,
    ) -> Self {
        let session = |(peer, window): (&DcId, &usize)| {
            (*peer, resume(*window, Incarnation::FIRST, &SessionState::new(Incarnation::FIRST)))
        };
        let worker_session = |worker| (worker, WorkerSession::default());

        Self {
            server,
            sessions: windows.iter().map(session).collect(),
            ledgers: windows.keys().map(|peer| (*peer, Ledger::default())).collect(),
            worker_sessions: workers.into_iter().map(worker_session).collect(),
            incarnation: None,
            now: Instant::ZERO,
            windows,
        }
    }

    /// Checks that an input can follow the inputs so far.
    ///
    /// # Errors
    /// The reason, if it cannot.
    pub(super) fn check(&self, input: &Input) -> Result<(), String> {
        match input {
            Input::Started { incarnation, .. } => {
                if self.incarnation.is_some_and(|known| known >= *incarnation) {
                    return Err(format!("incarnation {incarnation} is not above the one before"));
                }
            }
            Input::Worker { from, message } => self.check_worker(*from, message)?,
            Input::Hello { from: peer, .. }
            | Input::Frame { from: peer, .. }
            | Input::Acknowledged { by: peer, .. }
            | Input::Cut { to: peer, .. }
            | Input::Drained { to: peer, .. }
            | Input::Disconnected { from: peer }
            | Input::Left { from: peer, .. } => self.check_mirror(*peer)?,
            Input::Timeout => {}
            Input::Rebuild { from, .. } => {
                self.check_mirror(*from)?;
                if self.incarnation.is_none() {
                    return Err("the server was not started".into());
                }
            }
            Input::Placed { worker, at } => {
                let session = self.worker_sessions.get(worker);
                if !session.is_some_and(|session| session.learns_from(*at)) {
                    return Err(format!("{worker} has a place already"));
                }
            }
            Input::Drain { .. } => {
                if self.server.is_draining() {
                    return Err("the drain has already begun".into());
                }
            }
        }

        Ok(())
    }

    /// Makes the step that an input leads to.
    ///
    /// The time is [that of the input](Self::reach), except for a cut that is not noted. Whether a cut made a frame is
    /// a result: `apply` does not read it.
    ///
    /// # Errors
    /// If a mirror sent an invalid frame, or requires something that the synchronisation model does not support. The
    /// run must end if [`PeerError::ends_run`] says so.
    ///
    /// # Panics
    /// May panic, or leave an inconsistent state, if [`Self::check`] rejects the input.
    pub(super) fn apply(&mut self, at: Instant, input: Input) -> Result<Effects, PeerError> {
        let mut effects = Effects::default();
        match input {
            Input::Started { incarnation, defers } => self.on_started(at, incarnation, defers),
            Input::Worker { from, message } => self.on_worker(at, from, message, &mut effects),
            Input::Hello { from, hello } => {
                let kind = self.session_mut(from).accept_hello(hello);
                if matches!(kind, HelloKind::Reset { .. }) {
                    *self.ledger_mut(from) = Ledger::default();
                }
                greet(&mut self.server, at, from, (kind, hello))?;
            }
            Input::Frame { from, lane, frame } => self.on_frame(at, from, lane, frame)?,
            Input::Acknowledged { by, counts } => self.session_mut(by).acknowledge(counts),
            Input::Cut { to, lane, room, came: _ } => {
                effects.frame = self.on_cut(at, to, lane, room);
            }
            Input::Drained { to, bytes, busy } => {
                self.server.handle_input(at, ServerInput::Drained { to, bytes, busy })?;
            }
            Input::Disconnected { from } => {
                self.server.handle_input(at, ServerInput::Disconnected { from })?;
            }
            Input::Timeout => self.server.handle_timeout(at),
            Input::Rebuild { from, inactive } => {
                // Mirrors know the state by the process that began it, which may have crashed before it asked for a copy.
                let incarnation = self.began().expect("a server is rebuilt by its process");
                let sessions = self.worker_sessions.values_mut();
                sessions.for_each(|session| *session = WorkerSession::lost());
                self.server.handle_rebuild(from, incarnation.number(), &inactive)?;
            }
            Input::Left { from, incarnation } => {
                self.server.handle_input(at, ServerInput::Left { from, incarnation })?;
            }
            Input::Placed { worker, at: next_request } => self.on_placed(at, worker, next_request),
            Input::Drain { clocks, inactive } => self.server.handle_drain(at, clocks, inactive),
        }

        self.poll_server(&mut effects);
        Ok(effects)
    }

    /// Advances the time to that of an input, and returns it. Time does not run backwards, whatever the driver's clock
    /// does.
    pub(super) fn reach(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// The time of the latest input.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// The incarnation that began this state. `None` before the first process.
    pub(super) fn began(&self) -> Option<Incarnation> {
        let began = self.sessions.values().next().map(Session::began);
        began.filter(|_| self.incarnation.is_some()).or(self.incarnation)
    }

    pub(super) fn session_mut(&mut self, peer: DcId) -> &mut Session {
        self.sessions.get_mut(&peer).expect("mirrors have a session")
    }

    fn check_mirror(&self, peer: DcId) -> Result<(), String> {
        if self.sessions.contains_key(&peer) {
            Ok(())
        } else {
            Err(format!("{peer} is not a mirror of this server"))
        }
    }

    fn check_worker(&self, from: WorkerId, message: &WorkerMessage) -> Result<(), String> {
        let session = self.worker_sessions.get(&from);
        let Some(session) = session.filter(|_| message.fits(self.server.layout())) else {
            return Err(format!("{from} sent a message that does not fit this server"));
        };

        match self.order_of(from, message) {
            RequestOrder::Due | RequestOrder::AlreadyApplied => Ok(()),
            order => {
                let said = RequestSeq::of(message).unwrap_or_default();
                Err(format!("{from} sent {said}, expected {}: {order:?}", session.next))
            }
        }
    }

    /// The position of a worker's message relative to the request that is due from it.
    ///
    /// # Panics
    /// If the worker is not of this data center.
    pub(super) fn order_of(&self, from: WorkerId, message: &WorkerMessage) -> RequestOrder {
        let session = &self.worker_sessions[&from];
        let order = session.order_of(message, self.server.finished(from));
        let is_due = matches!(order, RequestOrder::Due | RequestOrder::AlreadyApplied);
        match message {
            WorkerMessage::Update { clock, at, .. } if is_due => {
                if order == RequestOrder::Due && !self.server.accepts_update(from, *at) {
                    RequestOrder::Stopped
                } else if self.server.holds_read_of(from) {
                    RequestOrder::Unanswered
                } else if at != clock && !self.server.skips_clocks() {
                    RequestOrder::Skipping
                } else {
                    order
                }
            }
            _ => order,
        }
    }

    /// A process has begun. The first one begins the frame numbers of the sessions.
    fn on_started(&mut self, at: Instant, incarnation: Incarnation, defers: bool) {
        let is_first = self.incarnation.replace(incarnation).is_none();
        for (peer, session) in &mut self.sessions {
            let state = if is_first { SessionState::new(incarnation) } else { session.state() };
            *session = resume(self.windows[peer], incarnation, &state);
        }
        for (worker, session) in &mut self.worker_sessions {
            if defers && self.server.holds_read_of(*worker) {
                session.accept(&WorkerMessage::Reset);
                self.server.handle_worker(at, *worker, WorkerMessage::Reset);
            }
        }
    }

    /// Takes the request that was due from a worker. An update that the server has from an earlier process of the
    /// worker is not applied again.
    fn on_worker(
        &mut self,
        at: Instant,
        from: WorkerId,
        message: WorkerMessage,
        effects: &mut Effects,
    ) {
        let order = self.order_of(from, &message);
        assert!(
            matches!(order, RequestOrder::Due | RequestOrder::AlreadyApplied),
            "what is not due is no input: {order:?}"
        );

        let session = self.worker_sessions.get_mut(&from).expect("a worker of this data center");
        let learned = session.accept(&message);
        let (is_reset, next, guessed) = (session.is_reset, session.next, session.guessed);
        if let Some(clock) = learned {
            self.server.place_worker(at, from, clock);
        }
        if order == RequestOrder::Due {
            self.server.handle_worker(at, from, message);
        }

        self.poll_server(effects);
        if is_reset {
            effects.outputs.push(Output::Due { worker: from, due: next, guessed });
        }
    }

    /// Applies the next frame of a mirror and counts it. A frame that is refused does not count as received: the mirror
    /// sends it again on its next connection.
    fn on_frame(
        &mut self,
        at: Instant,
        from: DcId,
        lane: Lane,
        frame: Bytes,
    ) -> Result<(), PeerError> {
        self.server.handle_input(at, ServerInput::Frame { from, lane, frame: frame.clone() })?;
        self.session_mut(from).pass_on(lane);
        if lane == Lane::Data {
            self.ledger_mut(from).applied.enter(&frame);
        }
        Ok(())
    }

    /// Cuts a frame for a mirror, counts it and gives it to the session.
    fn on_cut(&mut self, at: Instant, to: DcId, lane: Lane, room: u64) -> Option<Bytes> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let frame = self.server.poll_transmit(at, to, lane, room)?;
        if lane == Lane::Data {
            self.ledger_mut(to).cut.enter(&frame);
        }
        self.session_mut(to).push(lane, frame.clone());
        Some(frame)
    }

    /// A worker has connected whose next request the server has lost. If the worker does not know it either, the server
    /// guesses it by the clock of its copy. The next read then has the worker's clock.
    fn on_placed(&mut self, at: Instant, worker: WorkerId, next_request: Option<RequestSeq>) {
        let guess = RequestSeq { clock: self.server.rebuilt_at(), updates: false };
        let next = next_request.unwrap_or(guess);
        self.worker_sessions.insert(worker, WorkerSession::at(next, next_request.is_none()));
        if let Some(next) = next_request {
            self.server.place_worker(at, worker, next.clock);
        }
    }

    /// Takes the outputs of the server. An answer to a worker is kept until the update that follows from it is
    /// received.
    fn poll_server(&mut self, effects: &mut Effects) {
        while let Some(output) = self.server.poll_output() {
            effects.outputs.push(match output {
                ServerOutput::ToWorker { worker, message } => {
                    let message = Arc::new(message);
                    if let Some(session) = self.worker_sessions.get_mut(&worker) {
                        session.answer = Some(message.clone());
                    }
                    Output::ToWorker { worker, message }
                }
                ServerOutput::ClockFinished { clock } => Output::ClockFinished { clock },
                ServerOutput::CopyReady { clock } => Output::CopyReady { clock },
                ServerOutput::Drained => Output::Drained,
                ServerOutput::Diverged(divergence) => Output::Diverged(divergence),
                ServerOutput::Probed(probed) => Output::Probed(probed),
            });
        }
    }

    /// The sessions with workers as a checkpoint has them, and those whose last answer is what the server stores. Such an
    /// answer is as long as the model, and a checkpoint has the values once.
    fn shortened_worker_sessions(&self) -> (BTreeMap<WorkerId, WorkerSession>, BTreeSet<WorkerId>) {
        let stored = bytemuck::cast_slice::<f32, u8>(self.server.values());
        let is_stored = |session: &WorkerSession| {
            let values =
                session.answer.as_ref().map(|answer| bytemuck::cast_slice(&answer.values[..]));
            values.is_some_and(|values: &[u8]| !values.is_empty() && values == stored)
        };

        let mut sessions = self.worker_sessions.clone();
        let mut answered_as_stored = BTreeSet::new();
        for (worker, session) in sessions.iter_mut().filter(|(_, session)| is_stored(session)) {
            session.replace_values(SharedValues::default());
            answered_as_stored.insert(*worker);
        }
        (sessions, answered_as_stored)
    }

    fn ledger_mut(&mut self, peer: DcId) -> &mut Ledger {
        self.ledgers.get_mut(&peer).expect("mirrors have a ledger")
    }
}

/// By hand, since of a session only what outlives a restart is saved.
impl Persist for DurableServer {
    fn save(&self, walk: &mut Saver<'_>, (): ()) -> Saved {
        walk.part("server", &self.server, ())?;
        let states = self.sessions.iter().map(|(peer, session)| (*peer, session.state()));
        let states: BTreeMap<DcId, SessionState> = states.collect();
        walk.record("sessions", &states)?;
        walk.record("ledgers", &self.ledgers)?;
        let (sessions, answered_as_stored) = self.shortened_worker_sessions();
        walk.record("worker_sessions", &sessions)?;
        walk.record("answered_as_stored", &answered_as_stored)?;
        walk.record("incarnation", &self.incarnation)?;
        walk.record("now", &self.now)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, (): ()) -> Result<(), StateError> {
        walk.part("server", &mut self.server, ())?;
        let mut states: BTreeMap<DcId, SessionState> = BTreeMap::new();
        walk.record_that("sessions", &mut states, |found, _| {
            found.keys().eq(self.sessions.keys()) && found.values().all(SessionState::is_sound)
        })?;
        for (peer, session) in &mut self.sessions {
            // The process that continues gives the session its incarnation.
            let state = &states[peer];
            *session = resume(self.windows[peer], state.began(), state);
        }

        walk.record_that("ledgers", &mut self.ledgers, |found, made| found.keys().eq(made.keys()))?;
        walk.record_that("worker_sessions", &mut self.worker_sessions, |found, made| {
            found.keys().eq(made.keys())
        })?;
        let mut answered_as_stored: BTreeSet<WorkerId> = BTreeSet::new();
        walk.record_that("answered_as_stored", &mut answered_as_stored, |found, _| {
            found.iter().all(|worker| {
                let session = self.worker_sessions.get(worker);
                session.is_some_and(WorkerSession::has_answer_without_values)
            })
        })?;
        if !answered_as_stored.is_empty() {
            let stored = SharedValues::from(self.server.values().to_vec());
            let sessions = self.worker_sessions.iter_mut();
            for (_, session) in sessions.filter(|(worker, _)| answered_as_stored.contains(worker)) {
                session.replace_values(stored.clone());
            }
        }
        walk.record("incarnation", &mut self.incarnation)?;
        walk.record("now", &mut self.now)
    }
}

/// Notifies the server of a mirror's incarnation that is new to it.
fn greet(
    server: &mut Server,
    now: Instant,
    from: DcId,
    (kind, hello): (HelloKind, PeerHello),
) -> Result<(), PeerError> {
    let incarnation = hello.began().number();
    match kind {
        HelloKind::First => server.handle_input(now, ServerInput::First { from, incarnation }),
        HelloKind::Reset { .. } => {
            server.handle_input(now, ServerInput::Reset { from, incarnation })
        }
        HelloKind::Reconnected | HelloKind::Resumed => Ok(()),
    }
}

/// A session with a mirror that continues in an incarnation of this server.
fn resume(window: usize, incarnation: Incarnation, state: &SessionState) -> Session {
    let config = SessionConfig { incarnation, sent_bytes_max: window, early_bytes_max: window };
    Session::resume(config, state)
}
