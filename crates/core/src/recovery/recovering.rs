//! A server on its way back: the state of a checkpoint, then every entry after it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::RecoveryError;
use super::entry::{Entry, Input, decode};
use super::ledger::Ledger;
use super::server::{Log, Output, RecoverableServer};
use super::worker_session::{Due, RequestSeq, WorkerSession};
use crate::node::ServerInput;
use crate::server::{PeerError, Server, ServerOutput};
use crate::session::{Incarnation, Meeting, Met, Session, SessionConfig, SessionState};
use crate::types::{DcId, Instant, Lane, State, StateError, Walk, WorkerId};

/// A server made from the plan, that has yet to hear what has befallen it: nothing, where it is the first of its kind.
#[derive(Debug)]
pub struct RecoveringServer {
    server: Server,
    kept: Kept,
    windows: BTreeMap<DcId, usize>,
    /// Heard so far.
    entries: u64,
}

/// What is kept beside the server itself.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) sessions: BTreeMap<DcId, SessionState>,
    pub(super) ledgers: BTreeMap<DcId, Ledger>,
    pub(super) worker_sessions: BTreeMap<WorkerId, WorkerSession>,
    /// Of the latest process.
    pub(super) incarnation: Option<Incarnation>,
    pub(super) now: Instant,
}

impl RecoveringServer {
    /// `server` is as the plan makes it; `workers` are those of its data center; `windows` says for each mirror how
    /// many bytes may be under way, as [`SessionConfig`] has it.
    pub fn new(
        server: Server,
        workers: impl IntoIterator<Item = WorkerId>,
        windows: BTreeMap<DcId, usize>,
    ) -> Self {
        let worker_sessions =
            workers.into_iter().map(|worker| (worker, WorkerSession::default())).collect();
        let state = |peer: &DcId| (*peer, SessionState::new(Incarnation::FIRST));
        let sessions = windows.keys().map(state).collect();
        let ledgers = windows.keys().map(|peer| (*peer, Ledger::default())).collect();
        let kept =
            Kept { sessions, ledgers, worker_sessions, incarnation: None, now: Instant::ZERO };
        Self { server, kept, windows, entries: 0 }
    }

    /// Takes the state of a checkpoint. To be done before any entry is heard.
    ///
    /// # Errors
    /// Where the state is of something else.
    pub fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        state.restore(|walk| self.kept.state(&mut self.server, walk))?;
        Ok(())
    }

    /// Hears the next entry of the log again, by the body of its record.
    ///
    /// # Errors
    /// Where it is no entry, or does not follow from what was heard before.
    pub fn hear(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.entries += 1;
        let number = self.entries;
        let Entry { at, input } = decode(number, body)?;
        let reached = self.kept.now;
        if at < reached {
            return Err(RecoveryError::Backwards { number, found: at, reached });
        }
        self.kept.now = at;
        self.apply(at, input).map_err(|fault| match fault {
            Fault::Unfit(problem) => RecoveryError::Unfit { number, problem },
            Fault::Refused(error) => RecoveryError::Refused { number, error },
        })?;
        // What was said then is said again to whoever comes back and asks.
        settle(&mut self.server, &mut self.kept.worker_sessions, &mut VecDeque::new());
        Ok(())
    }

    /// The incarnation that the server goes on as. `None` where it has nothing to go on from: then whoever begins it has to
    /// know one that is above all that mirrors may have met.
    pub fn goes_on_as(&self) -> Option<Incarnation> {
        self.kept.incarnation.map(Incarnation::next)
    }

    /// Everything has been heard: the server goes on, in another process. `logs` says whether entries are kept.
    ///
    /// # Panics
    /// Where the incarnation is not above those that this server has been.
    pub fn begin(mut self, logs: bool, incarnation: Incarnation) -> RecoverableServer {
        assert!(self.kept.incarnation < Some(incarnation), "incarnations rise");
        self.kept.start(incarnation);
        let Self { server, kept, windows, .. } = self;
        let session = |(peer, state): (DcId, SessionState)| {
            let (sent_bytes_max, early_bytes_max) = (windows[&peer], windows[&peer]);
            let config = SessionConfig { incarnation, sent_bytes_max, early_bytes_max };
            (peer, Session::resume(config, &state))
        };

        let mut recovered = RecoverableServer {
            server,
            sessions: kept.sessions.into_iter().map(session).collect(),
            ledgers: kept.ledgers,
            worker_sessions: kept.worker_sessions,
            incarnation,
            now: kept.now,
            log: Log::new(logs),
            outputs: VecDeque::new(),
        };

        recovered.note(kept.now, &Input::Started { incarnation });
        recovered
    }

    /// The time that was reached: a driver's clock goes on from there.
    pub fn now(&self) -> Instant {
        self.kept.now
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Takes the state out, as [`RecoverableServer::state`] does.
    pub fn state(&mut self) -> State {
        State::of(|walk| self.kept.state(&mut self.server, walk))
    }

    fn apply(&mut self, at: Instant, input: Input) -> Result<(), Fault> {
        let unfit = |problem: String| Err(Fault::Unfit(problem));
        match input {
            Input::Started { incarnation } => {
                if self.kept.incarnation.is_some_and(|known| known >= incarnation) {
                    return unfit(format!("incarnation {incarnation} is not above those before"));
                }
                self.kept.start(incarnation);
            }
            Input::Worker { from, message } => {
                let fits = message.fits(self.server.layout());
                let Some(worker_session) =
                    self.kept.worker_sessions.get_mut(&from).filter(|_| fits)
                else {
                    return unfit(format!("{from} said what does not fit this server"));
                };
                match worker_session.judge(&message, self.server.finished(from)) {
                    Due::Now => {
                        if let Some(clock) = worker_session.hear(&message) {
                            self.server.place_worker(at, from, clock);
                        }
                        self.server.handle_worker(at, from, message);
                    }
                    Due::Known => drop(worker_session.hear(&message)),
                    Due::Repeated | Due::Ahead => {
                        let said = RequestSeq::of(&message).unwrap_or_default();
                        return unfit(format!(
                            "{from} said {said} where {} was due",
                            worker_session.next
                        ));
                    }
                }
            }
            Input::Met { from, met } => {
                let meeting = self.session(from)?.meet(met);
                if matches!(meeting, Meeting::Reset { .. }) {
                    self.kept.ledgers.insert(from, Ledger::default());
                }
                let greeted = greet(&mut self.server, at, from, (meeting, met));
                greeted.map_err(Fault::Refused)?;
            }
            Input::Frame { from, lane, frame } => {
                self.session(from)?.receive(lane);
                let booked = (lane == Lane::Data).then(|| frame.clone());
                let input = ServerInput::Frame { from, lane, frame };
                self.server.handle_input(at, input).map_err(Fault::Refused)?;
                if let Some(frame) = booked {
                    self.kept.ledgers.entry(from).or_default().applied.enter(&frame);
                }
            }
            Input::Acknowledged { by, counts } => self.session(by)?.acknowledge(counts),
            Input::Cut { to, lane, room, came } => {
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                self.session(to)?;
                match self.server.poll_transmit(at, to, lane, room) {
                    Some(frame) if came => {
                        if lane == Lane::Data {
                            self.kept.ledgers.entry(to).or_default().cut.enter(&frame);
                        }
                        self.session(to)?.push(lane, frame);
                    }
                    None if !came => {}
                    found => {
                        let (there, lane) = (if found.is_some() { "a" } else { "no" }, lane.name());
                        return unfit(format!("there is {there} {lane} frame for {to}"));
                    }
                }
            }
            Input::Drained { to, bytes, busy } => {
                self.session(to)?;
                let input = ServerInput::Drained { to, bytes, busy };
                self.server.handle_input(at, input).map_err(Fault::Refused)?;
            }
            Input::Disconnected { from } => {
                self.session(from)?;
                let input = ServerInput::Disconnected { from };
                self.server.handle_input(at, input).map_err(Fault::Refused)?;
            }
            Input::Timeout => self.server.handle_timeout(at),
            Input::Left { from, incarnation } => {
                self.session(from)?;
                let input = ServerInput::Left { from, incarnation };
                self.server.handle_input(at, input).map_err(Fault::Refused)?;
            }
            Input::Rebuild { from, inactive } => {
                self.session(from)?;
                let Some(incarnation) = self.kept.incarnation else {
                    return unfit("it has not been started".into());
                };
                self.kept
                    .worker_sessions
                    .values_mut()
                    .for_each(|worker_session| *worker_session = WorkerSession::lost());
                let rebuilt = self.server.handle_rebuild(from, incarnation.number(), &inactive);
                rebuilt.map_err(Fault::Refused)?;
            }
            Input::Placed { worker, at: turn } => {
                let worker_session = self.kept.worker_sessions.get(&worker);
                if !worker_session.is_some_and(|worker_session| worker_session.learns_from(turn)) {
                    return unfit(format!("{worker} had its place"));
                }
                place(&mut self.server, &mut self.kept.worker_sessions, (at, worker, turn));
            }
            Input::Drain { clocks, inactive } => {
                if self.server.is_draining() {
                    return unfit("it was told to drain before".into());
                }
                self.server.handle_drain(at, clocks, inactive);
            }
        }

        Ok(())
    }

    fn session(&mut self, peer: DcId) -> Result<&mut SessionState, Fault> {
        let unknown = || Fault::Unfit(format!("{peer} is not a mirror of this server"));
        self.kept.sessions.get_mut(&peer).ok_or_else(unknown)
    }
}

/// Why an entry cannot be heard again.
enum Fault {
    Unfit(String),
    Refused(PeerError),
}

impl Kept {
    /// Another process has begun; the first begins the numbers of sessions.
    fn start(&mut self, incarnation: Incarnation) {
        if self.incarnation.replace(incarnation).is_none() {
            let sessions = self.sessions.values_mut();
            sessions.for_each(|session| *session = SessionState::new(incarnation));
        }
    }

    /// Walks over what changes as time goes on.
    pub(super) fn state(
        &mut self,
        server: &mut Server,
        walk: &mut Walk<'_>,
    ) -> Result<(), StateError> {
        server.state(&mut walk.at("server"))?;
        walk.record_that("sessions", &mut self.sessions, |found, made| {
            found.keys().eq(made.keys()) && found.values().all(SessionState::is_sound)
        })?;
        walk.record_that("ledgers", &mut self.ledgers, |found, made| found.keys().eq(made.keys()))?;
        walk.record_that("worker_sessions", &mut self.worker_sessions, |found, made| {
            found.keys().eq(made.keys())
        })?;
        walk.record("incarnation", &mut self.incarnation)?;
        walk.record("now", &mut self.now)
    }
}

/// Tells a server of a mirror that it has not met in this incarnation of it.
pub(super) fn greet(
    server: &mut Server,
    now: Instant,
    from: DcId,
    (meeting, met): (Meeting, Met),
) -> Result<(), PeerError> {
    let incarnation = met.began().number();
    match meeting {
        Meeting::First => server.handle_input(now, ServerInput::First { from, incarnation }),
        Meeting::Reset { .. } => server.handle_input(now, ServerInput::Reset { from, incarnation }),
        Meeting::Again | Meeting::Resumed => Ok(()),
    }
}

/// Takes what a server wants done, and keeps answers until they have served.
pub(super) fn settle(
    server: &mut Server,
    worker_sessions: &mut BTreeMap<WorkerId, WorkerSession>,
    outputs: &mut VecDeque<Output>,
) {
    while let Some(output) = server.poll_output() {
        outputs.push_back(match output {
            ServerOutput::ToWorker { worker, message } => {
                let message = Arc::new(message);
                if let Some(worker_session) = worker_sessions.get_mut(&worker) {
                    worker_session.answer = Some(message.clone());
                }
                Output::ToWorker { worker, message }
            }
            ServerOutput::ClockFinished { clock } => Output::ClockFinished { clock },
            ServerOutput::CopyReady { clock } => Output::CopyReady { clock },
            ServerOutput::Drained => Output::Drained,
            ServerOutput::Diverged(divergence) => Output::Diverged(divergence),
        });
    }
}

/// A worker of which the server has lost what it knew is on the line, and says this next, if it knows. One that does not
/// is told the clock of the copy, and says by its read at which clock it is.
pub(super) fn place(
    server: &mut Server,
    worker_sessions: &mut BTreeMap<WorkerId, WorkerSession>,
    (now, worker, next_request): (Instant, WorkerId, Option<RequestSeq>),
) {
    let guess = RequestSeq { clock: server.rebuilt_at(), updates: false };
    worker_sessions
        .insert(worker, WorkerSession::at(next_request.unwrap_or(guess), next_request.is_none()));
    if let Some(next) = next_request {
        server.place_worker(now, worker, next.clock);
    }
}
