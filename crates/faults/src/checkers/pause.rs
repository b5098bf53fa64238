//! `on_partition = "pause"`: a server answers no read while it receives nothing from a mirror to which it has lost the
//! connection.

use std::collections::BTreeSet;

use super::{Broken, Checker, Replies, Seen, View};
use gaia_core::node::Lane;
use gaia_core::sync::{OnPartition, RemoteSync};
use gaia_core::types::{DcId, ServerId};
use gaia_core::wire::{ControlMessage, decode_control};

#[derive(Debug, Default)]
pub(super) struct Pause {
    /// The servers that were notified of a lost connection to a mirror, and have received no frame of it since.
    disconnected: BTreeSet<(ServerId, DcId)>,
    /// The data centers that have joined late.
    joined_late: BTreeSet<DcId>,
    /// The servers that were told by a data center that it takes a copy, since it joined and since they restarted. Others
    /// may not know that it is active.
    told: BTreeSet<(ServerId, DcId)>,
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
        match seen {
            Seen::Disconnected { at, from } => {
                let mut neighbours = view.overlay.neighbours(at.dc).into_iter().flatten();
                if neighbours.any(|dc| dc == from) {
                    self.disconnected.insert((at, from));
                }
            }
            Seen::Delivered { at, from, lane, frame } => {
                self.disconnected.remove(&(at, from));
                if lane == Lane::Control
                    && matches!(decode_control(frame), Ok(ControlMessage::Rebuild { .. }))
                {
                    self.told.insert((at, from));
                }
            }
            Seen::Joins { dc } => {
                self.joined_late.insert(dc);
                self.told.retain(|(_, from)| *from != dc);
            }
            // What it had not logged of its connections is lost.
            Seen::Recovered { server } | Seen::Lost { server, .. } => {
                self.disconnected.retain(|(at, _)| *at != server);
                self.told.retain(|(at, _)| *at != server);
            }
            Seen::Answered { server, worker, message }
                if self.replies.is_new(server, worker, message.clock) =>
            {
                let is_known = |from: DcId| {
                    !self.joined_late.contains(&from) || self.told.contains(&(server, from))
                };
                let mut lost = self.disconnected.iter().filter(|(at, _)| *at == server);
                if let Some((_, from)) =
                    lost.find(|(_, from)| !view.inactive.contains(from) && is_known(*from))
                {
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
