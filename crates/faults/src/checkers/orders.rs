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
                Some(before) if before != clocks => Err(format!(
                    "{dc} is ordered to drain at {clocks:?}, and was at {before:?} before"
                )),
                _ => Ok(()),
            },
            Seen::WorkerSent { worker, message, .. } => {
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
