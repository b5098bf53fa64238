//! Orders of the coordinator: a data center is drained at one set of clocks, no worker continues beyond its own, and a
//! restarted coordinator knows its orders.

use std::collections::BTreeMap;

use super::{Broken, Checker, Seen, View};
use gaia_core::node::WorkerMessage;
use gaia_core::recovery::RequestSeq;
use gaia_core::types::{Clock, DcId, WorkerId};

#[derive(Debug, Default)]
pub(super) struct Orders {
    stop: Option<Clock>,
    drains: BTreeMap<DcId, Vec<Clock>>,
    /// The clock by which each worker must have stopped, since it was ordered to.
    stops_by: BTreeMap<WorkerId, Clock>,
}

impl Checker for Orders {
    fn name(&self) -> &'static str {
        "orders"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Stops { last } => {
                self.stop = Some(last);
                Ok(())
            }
            Seen::StopReceived { worker, last, finished } => {
                // It ends the iteration that it runs. The update of the one before may not be sent yet.
                let by = last.max(Clock(finished.0 + 1));
                let before = self.stops_by.entry(worker).or_insert(by);
                *before = by.max(*before);
                Ok(())
            }
            Seen::LostState { worker } => {
                self.stops_by.remove(&worker);
                Ok(())
            }
            Seen::Drains { dc, clocks } => match self.drains.insert(dc, clocks.to_vec()) {
                Some(before) if before != clocks => Err(format!(
                    "{dc} is ordered to drain at {clocks:?}, and was at {before:?} before"
                )),
                _ => Ok(()),
            },
            Seen::WorkerSent { worker, message, .. } => {
                if let WorkerMessage::Update { clock, .. } = message
                    && let Some(by) = self.stops_by.get(&worker).filter(|by| clock >= *by)
                    && !is_owed(view, worker, *clock)
                {
                    return Err(format!(
                        "{worker} was ordered to stop by clock {by}, but runs an iteration at clock {clock}"
                    ));
                }
                let clocks = self.drains.get(&worker.dc);
                let stopped = clocks.map(|clocks| clocks[usize::from(worker.index)]);
                let sent = RequestSeq::of(message);
                match (stopped, sent) {
                    (Some(clock), Some(sent)) if sent > (RequestSeq { clock, updates: false }) => {
                        Err(format!(
                            "{worker} has stopped at clock {clock}, but sends request {sent}"
                        ))
                    }
                    _ => Ok(()),
                }
            }
            Seen::CoordinatorBack { stop, drains } => {
                if stop < self.stop {
                    let ordered = self.stop;
                    return Err(format!(
                        "the coordinator restarts with stop {stop:?}, but has ordered stop {ordered:?}"
                    ));
                }
                let mut ordered = self.drains.iter();
                let lost = ordered.find(|(dc, clocks)| drains.get(dc) != Some(*clocks));
                if let Some((dc, clocks)) = lost {
                    return Err(format!(
                        "the coordinator restarts without its order that {dc} drains at {clocks:?}"
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

/// Whether a server has the update of a clock: a worker that has lost its state runs the iteration again for the others.
fn is_owed(view: &View<'_>, worker: WorkerId, clock: Clock) -> bool {
    let mut servers = view.nodes.servers().filter(|server| server.id().dc == worker.dc);
    servers.any(|server| server.finished(worker) > clock)
}
