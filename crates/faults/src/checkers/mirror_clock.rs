//! Mirror clocks count when their updates do: a server counts a reported clock of a mirror no earlier than the last
//! frame that the report covers.

use std::collections::BTreeMap;

use super::{Broken, Checker, Seen, View};
use gaia_core::node::Lane;
use gaia_core::sync::RemoteSync;
use gaia_core::types::{Clock, DcId, ServerId};
use gaia_core::wire::{BulkKind, ControlMessage, decode_control, peek_bulk};

#[derive(Debug, Default)]
pub(super) struct MirrorClock {
    /// The clocks that each end has received since the sequence numbers of its link began at 1, each with that of the last frame
    /// that it covers.
    reports: BTreeMap<(ServerId, DcId), Vec<(Clock, u64)>>,
    /// The latest clock whose updates each end has had: what it counts stays counted when its mirror loses its state.
    most: BTreeMap<(ServerId, DcId), Clock>,
}

impl Checker for MirrorClock {
    fn name(&self) -> &'static str {
        "mirror clock"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        // Other models report no clocks.
        if !matches!(view.plan.remote, RemoteSync::Asp(_)) {
            return Ok(());
        }
        match seen {
            Seen::Delivered { at, from, lane: Lane::Control, frame } => {
                if let Ok(ControlMessage::MirrorClock { clock, sequence }) = decode_control(frame) {
                    self.reports.entry((at, from)).or_default().push((clock, sequence));
                }
                Ok(())
            }
            // The copy has the updates of its source up to this clock.
            Seen::Delivered { at, from, lane: Lane::Data, frame } => {
                if let Ok((header, _)) = peek_bulk(frame)
                    && matches!(header.kind, BulkKind::Copy | BulkKind::CopyStep)
                    && header.last
                {
                    let most = self.most.entry((at, from)).or_default();
                    *most = header.clock.max(*most);
                }
                Ok(())
            }
            Seen::Lost { server, .. } => {
                self.reports.retain(|(at, _), _| *at != server);
                self.most.retain(|(at, _), _| *at != server);
                Ok(())
            }
            Seen::Reset { at, from } => {
                self.reports.remove(&(at, from));
                Ok(())
            }
            Seen::Taken { at } => self.check_counted(view, at),
            _ => Ok(()),
        }
    }
}

impl MirrorClock {
    fn check_counted(&mut self, view: &View<'_>, at: ServerId) -> Result<(), Broken> {
        let server = view.server(at);
        for mark in server.watermarks() {
            let link = (at, mark.peer);
            let reports = self.reports.get(&link).into_iter().flatten();
            let covered = reports.filter(|(_, sequence)| *sequence <= mark.received);
            let most = self.most.entry(link).or_default();
            *most = covered.map(|(clock, _)| *clock).fold(*most, Clock::max);
            if let Some(counted) = server.mirror_clock(mark.peer).filter(|one| *one > *most) {
                return Err(format!(
                    "{at} counts clock {counted} of {}, but has frames of clock {most}",
                    mark.peer
                ));
            }
        }
        Ok(())
    }
}
