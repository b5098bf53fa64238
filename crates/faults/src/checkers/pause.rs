//! `on_partition = "pause"`: a server answers no read while it receives nothing from a mirror to which it has lost the
//! connection.

use std::collections::BTreeSet;

use super::{Broken, Checker, Replies, Seen, View};
use gaia_core::sync::{OnPartition, RemoteSync};
use gaia_core::types::{DcId, ServerId};

#[derive(Debug, Default)]
pub(super) struct Pause {
    /// The servers that were notified of a lost connection to a mirror, and have received no frame of it since.
    disconnected: BTreeSet<(ServerId, DcId)>,
    /// The data centers that were inactive at some time. Servers learn at different times that they are active again.
    inactive_before: BTreeSet<DcId>,
    replies: Replies,
}

impl Checker for Pause {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        let RemoteSync::Asp(asp) = &view.plan.remote else { return Ok(()) };
        if asp.on_partition != OnPartition::Pause {
            return Ok(());
        }
        self.inactive_before.extend(view.inactive);
        match seen {
            Seen::Disconnected { at, from } => {
                let mut neighbours = view.overlay.neighbours(at.dc).into_iter().flatten();
                if neighbours.any(|dc| dc == from) {
                    self.disconnected.insert((at, from));
                }
            }
            Seen::Delivered { at, from, .. } => {
                self.disconnected.remove(&(at, from));
            }
            // What it had not logged of its connections is lost.
            Seen::Recovered { server } | Seen::Lost { server, .. } => {
                self.disconnected.retain(|(at, _)| *at != server);
            }
            Seen::Answered { server, worker, message }
                if self.replies.is_new(server, worker, message.clock) =>
            {
                let is_awaited = |from: &DcId| !self.inactive_before.contains(from);
                let mut lost = self.disconnected.iter();
                if let Some((_, from)) = lost.find(|(at, from)| *at == server && is_awaited(from)) {
                    return Err(format!(
                        "{server} answers a read, but has lost its connection to {from}, and a run with \
                         on_partition = \"pause\" waits for it"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
