//! Rejection: a diverged update is reported to the coordinator by the name of its worker, by each server that has
//! rejected it, and again whenever the coordinator or the server may have lost the report.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Checker, Seen, View};
use crate::cluster::undone::Undone;
use gaia_core::types::{Clock, ServerId, WorkerId};

#[derive(Debug, Default)]
pub(super) struct Rejection {
    /// The rejected updates of each server since it last had no state.
    rejected: BTreeMap<ServerId, BTreeSet<(WorkerId, Clock)>>,
    /// The servers that have reported one since they and the coordinator last started.
    reported: BTreeSet<ServerId>,
}

impl Checker for Rejection {
    fn name(&self) -> &'static str {
        "rejection"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Rejected { server, worker, clock } => {
                self.rejected.entry(server).or_default().insert((worker, clock));
            }
            Seen::Diverged { server, found } => {
                let rejected = self.rejected.get(&server);
                if !rejected.is_some_and(|of| of.contains(&(found.worker, found.clock))) {
                    return Err(format!(
                        "{server} reports {found:?}, but has rejected {rejected:?}"
                    ));
                }
                self.reported.insert(server);
            }
            Seen::Recovered { server } => drop(self.reported.remove(&server)),
            Seen::CoordinatorBack { .. } => self.reported.clear(),
            Seen::Lost { server, .. } => {
                self.rejected.remove(&server);
                self.reported.remove(&server);
            }
            Seen::End => {
                let present: BTreeSet<_> = view.present().collect();
                let mut rejected =
                    self.rejected.iter().filter(|(server, _)| present.contains(&server.dc));
                let silent = rejected
                    .find(|(server, of)| !of.is_empty() && !self.reported.contains(*server));
                if let Some((server, of)) = silent {
                    return Err(format!(
                        "{server} has rejected {of:?}, and the coordinator may not know it"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn undo(&mut self, undone: &Undone) {
        if let Undone::Rejected { server, worker, clock } = undone
            && let Some(rejected) = self.rejected.get_mut(server)
        {
            rejected.remove(&(*worker, *clock));
        }
    }
}
