//! A server on its way back: the state of a checkpoint, then every entry after it.

use std::collections::BTreeMap;

use super::RecoveryError;
use super::durable_server::DurableServer;
use super::entry::{Entry, Input, decode};
use super::server::RecoverableServer;
use crate::server::Server;
use crate::session::Incarnation;
use crate::types::{DcId, Instant, Persist, State, WorkerId};

/// A server made from the plan, that has yet to hear what has befallen it: nothing, where it is the first of its kind.
#[derive(Debug)]
pub struct RecoveringServer {
    durable: DurableServer,
    /// Heard so far.
    entries: u64,
}

impl RecoveringServer {
    /// `server` is as the plan makes it; `workers` are those of its data center; `windows` says for each mirror how
    /// many bytes may be under way, as [`crate::session::SessionConfig`] has it.
    pub fn new(
        server: Server,
        workers: impl IntoIterator<Item = WorkerId>,
        windows: BTreeMap<DcId, usize>,
    ) -> Self {
        Self { durable: DurableServer::new(server, workers, windows), entries: 0 }
    }

    /// Takes the state of a checkpoint. To be done before any entry is heard.
    ///
    /// # Errors
    /// Where the state is of something else.
    pub fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        state.restore(|walk| self.durable.restore(walk, ()))?;
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
        // What was said then is said again to whoever comes back and asks.
        let effects = self.durable.apply(at, input);
        let effects = effects.map_err(|error| RecoveryError::Refused { number, error })?;

        let found = effects.frame.is_some();
        if let Some((to, lane, came)) = expected
            && found != came
        {
            let (there, lane) = (if found { "a" } else { "no" }, lane.name());
            return Err(unfit(format!("there is {there} {lane} frame for {to}")));
        }
        Ok(())
    }

    /// The incarnation that the server goes on as. `None` where it has nothing to go on from: then whoever begins it has to
    /// know one that is above all that mirrors may have met.
    pub fn goes_on_as(&self) -> Option<Incarnation> {
        self.durable.incarnation.map(Incarnation::next)
    }

    /// Everything has been heard: the server goes on, in another process. `logs` says whether entries are kept.
    ///
    /// # Panics
    /// Where the incarnation is not above those that this server has been.
    pub fn begin(self, logs: bool, incarnation: Incarnation) -> RecoverableServer {
        RecoverableServer::start(self.durable, logs, incarnation)
    }

    /// The time that was reached: a driver's clock goes on from there.
    pub fn now(&self) -> Instant {
        self.durable.now()
    }

    pub fn server(&self) -> &Server {
        &self.durable.server
    }

    /// Takes the state out, as [`RecoverableServer::state`] does.
    pub fn state(&self) -> State {
        State::of(|walk| self.durable.save(walk, ()))
    }
}
