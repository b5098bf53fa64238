//! Mirror clocks count when their updates do: a server counts a reported clock of a mirror no earlier than the last
//! frame that the report covers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Checker, Seen, View};
use gaia_core::node::Lane;
use gaia_core::types::{Clock, DcId, ServerId};
use gaia_core::wire::{ControlMessage, decode_control};

/// The clocks that each end has received, with the sequence number of the last frame that each covers.
#[derive(Debug, Default)]
pub(super) struct MirrorClock {
    reports: BTreeMap<(ServerId, DcId), Vec<(Clock, u64)>>,
    /// Links of which an end has lost its state or was inactive: its sequence numbers and clocks begin with a copy.
    renewed: BTreeSet<(ServerId, DcId)>,
}

impl Checker for MirrorClock {
    fn name(&self) -> &'static str {
        "mirror clock"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Delivered { at, from, lane: Lane::Control, frame } => {
                if let Ok(ControlMessage::MirrorClock { clock, sequence }) = decode_control(frame) {
                    self.reports.entry((at, from)).or_default().push((clock, sequence));
                }
                Ok(())
            }
            Seen::Lost { server, .. } => {
                for dc in view.plan.topology.dc_ids().filter(|dc| *dc != server.dc) {
                    let mirror = ServerId { dc, shard: server.shard };
                    self.renewed.extend([(server, dc), (mirror, server.dc)]);
                }
                Ok(())
            }
            Seen::Reset { at, from } => {
                self.renewed.insert((at, from));
                Ok(())
            }
            Seen::Taken { at } => self.check_counted(view, at),
            _ => Ok(()),
        }
    }
}

impl MirrorClock {
    fn check_counted(&self, view: &View<'_>, at: ServerId) -> Result<(), Broken> {
        let server = view.server(at);
        for mark in server.watermarks() {
            let link = (at, mark.peer);
            let Some(counted) = server.mirror_clock(mark.peer) else { continue };
            let Some(reports) = self.reports.get(&link).filter(|_| !self.renewed.contains(&link))
            else {
                continue;
            };
            let covered = reports.iter().filter(|(_, sequence)| *sequence <= mark.received);
            let most = covered.map(|(clock, _)| *clock).max().unwrap_or_default();
            if counted > most {
                return Err(format!(
                    "{at} counts clock {counted} of {}, but has frames of clock {most}",
                    mark.peer
                ));
            }
        }
        Ok(())
    }
}
