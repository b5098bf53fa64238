//! A server during recovery: it restores the state of a checkpoint and replays each entry after it.

use std::collections::BTreeMap;

use super::RecoveryError;
use super::durable_server::DurableServer;
use super::entry::{Entry, Input, decode};
use super::log_buffer::Logging;
use super::server::RecoverableServer;
use crate::server::Server;
use crate::session::Incarnation;
use crate::types::{DcId, Instant, Persist, State, WorkerId};

/// A server that is made from the plan, restored and replayed. A server without checkpoint and log does neither.
#[derive(Debug)]
pub struct RecoveringServer {
    durable: DurableServer,
    /// The number of replayed entries.
    entries: u64,
}

impl RecoveringServer {
    /// A server that has restored and replayed nothing. `server` is as the plan makes it. `workers` are those of its
    /// data center. `windows` holds for each mirror the bytes that may be in flight, the same in both directions
    /// ([`crate::session::SessionConfig`]).
    pub fn new(
        server: Server,
        workers: impl IntoIterator<Item = WorkerId>,
        windows: BTreeMap<DcId, usize>,
    ) -> Self {
        Self { durable: DurableServer::new(server, workers, windows), entries: 0 }
    }

    /// Restores the state of a checkpoint. Call it before any entry is replayed.
    ///
    /// # Errors
    /// If the state does not fit this server. The server must not be used then.
    pub fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        state.restore(|walk| self.durable.restore(walk, ()))?;
        Ok(())
    }

    /// Replays the next entry of the log, given as the body of its record.
    ///
    /// # Errors
    /// If it is not an entry, or cannot follow the entries before it. The server must not be used then.
    pub fn replay(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.entries += 1;
        let number = self.entries;
        let Entry { at, input } = decode(number, body)?;
        let reached = self.durable.now();
        if at < reached {
            return Err(RecoveryError::Backwards { number, found: at, reached });
        }
        let unfit = |problem: String| RecoveryError::Unfit { number, problem };
        self.durable.check(&input).map_err(unfit)?;

        let expected = match &input {
            Input::Cut { to, lane, came, .. } => Some((*to, *lane, *came)),
            _ => None,
        };
        let at = self.durable.reach(at);
        // The outputs are not repeated here: a node that connects requests what it has not received.
        let is_frame = matches!(input, Input::Frame { .. });
        let effects = match self.durable.apply(at, input) {
            // The process before has refused the frame and continued.
            Err(error) if is_frame && !error.ends_run() => return Ok(()),
            effects => effects.map_err(|error| RecoveryError::Refused { number, error })?,
        };

        let found = effects.frame.is_some();
        if let Some((to, lane, came)) = expected
            && found != came
        {
            let one_or_none = |one: bool| if one { "a" } else { "no" };
            let (found, came, lane) = (one_or_none(found), one_or_none(came), lane.name());
            return Err(unfit(format!("found {found} {lane} frame for {to}, expected {came}")));
        }
        Ok(())
    }

    /// The incarnation in which the server continues. `None` if there was neither a checkpoint nor a log. The caller of
    /// [`Self::begin`] then provides an incarnation above all that mirrors may have met.
    pub fn next_incarnation(&self) -> Option<Incarnation> {
        self.durable.incarnation.map(Incarnation::next)
    }

    /// Ends the recovery: the server continues in this process.
    ///
    /// # Panics
    /// If the incarnation is not above those that this server has had.
    pub fn begin(self, logging: Logging, incarnation: Incarnation) -> RecoverableServer {
        RecoverableServer::start(self.durable, logging, incarnation)
    }

    /// The time of the latest entry. The clock of a driver continues from there.
    pub fn now(&self) -> Instant {
        self.durable.now()
    }

    /// The server, in the state that the restored and replayed entries have made.
    pub fn server(&self) -> &Server {
        &self.durable.server
    }

    /// The state, as [`RecoverableServer::state`] returns it.
    pub fn state(&self) -> State {
        State::of(|walk| self.durable.save(walk, ()))
    }
}
