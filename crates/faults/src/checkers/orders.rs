//! Orders of the coordinator: a data center is drained at one set of clocks, no worker continues beyond its own, and a
//! restarted coordinator knows its orders.

use std::collections::BTreeMap;

use super::{Broken, Checker, Seen, View};
use gaia_core::recovery::RequestSeq;
use gaia_core::types::{Clock, DcId};

#[derive(Debug, Default)]
pub(super) struct Orders {
    stop: Option<Clock>,
    drains: BTreeMap<DcId, Vec<Clock>>,
}

impl Checker for Orders {
    fn name(&self) -> &'static str {
        "orders"
    }

    fn check(&mut self, _view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Stops { last } => {
                self.stop = Some(last);
                Ok(())
            }
            Seen::Drains { dc, clocks } => match self.drains.insert(dc, clocks.to_vec()) {
                Some(before) if before != clocks => {
                    Err(format!("{dc} is to drain at {clocks:?} and was to drain at {before:?}"))
                }
                _ => Ok(()),
            },
            Seen::Spoke { worker, message, .. } => {
                let clocks = self.drains.get(&worker.dc);
                let stopped = clocks.map(|clocks| clocks[usize::from(worker.index)]);
                let said = RequestSeq::of(message);
                match (stopped, said) {
                    (Some(clock), Some(said)) if said > (RequestSeq { clock, updates: false }) => {
                        Err(format!("{worker} has stopped at clock {clock} and says {said}"))
                    }
                    _ => Ok(()),
                }
            }
            Seen::CoordinatorBack { stop, drains } => {
                if stop < self.stop {
                    let said = self.stop;
                    return Err(format!(
                        "a stop at {said:?} is {stop:?} to the coordinator that is back"
                    ));
                }
                let forgotten = self.drains.iter().find(|(dc, said)| drains.get(dc) != Some(*said));
                if let Some((dc, said)) = forgotten {
                    return Err(format!(
                        "the coordinator is back and has forgotten that {dc} drains at {said:?}"
                    ));
                }
                // It repeats all its orders.
                (self.stop, self.drains) = (stop, drains.clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
