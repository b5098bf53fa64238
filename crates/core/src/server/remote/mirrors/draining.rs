//! The end of a run: updates end, all sent updates are applied, and then the drain makes copies equal.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Mirrors;
use crate::server::LinksToPoll;
use crate::server::blocks::{Drain, DrainMethod};
use crate::store::ShardStore;
use crate::types::DcId;
use crate::wire::ControlMessage;

impl Mirrors {
    /// Ends updates, and sends the sequence number of the last one to each active mirror.
    pub(super) fn start_drain(
        &mut self,
        method: DrainMethod,
        inactive: &BTreeSet<DcId>,
        store: &mut ShardStore,
    ) {
        self.agree_on(inactive, store);
        self.client.close();

        let parameters = store.values().len();
        let (dc, present) = (self.id.dc, self.server.present());
        self.drain = Some(Drain::new(method, dc, present, &self.blocks, parameters));

        let ends: Vec<(DcId, u64)> =
            self.client.sequences().filter(|(to, _)| !inactive.contains(to)).collect();
        for (to, sequence) in ends {
            self.client.push_control(to, ControlMessage::EndOfUpdates { sequence });
        }

        self.advance_drain(store);
    }

    /// Begins to send copies once all mirrors have ended their updates, and computes the result once their copies are
    /// received.
    pub(super) fn advance_drain(&mut self, store: &mut ShardStore) {
        let Some(drain) = &mut self.drain else { return };
        if !drain.is_started() && self.server.all_ended() {
            // The residual towards a mirror is that of the first link on the path to it. The hubs on the path send the
            // residuals of their own links.
            let (client, hops) = (&self.client, &self.first_hops);
            self.to_poll = LinksToPoll::All;
            drain.start(store.values(), |to, range| client.residual(hops[&to], range));
        }

        if drain.is_started() && drain.conclude(store.values_mut()) {
            self.to_poll = LinksToPoll::All;
        }
    }

    /// The next frame of the drain for a mirror.
    pub(super) fn next_drain_frame(&mut self, to: DcId, room: usize) -> Option<Bytes> {
        let client = &mut self.client;
        let drain = self.drain.as_mut()?;
        let frame = drain.next_frame(to, self.id, room, || client.next_sequence(to))?;

        let stats = self.client.stats_mut(to);
        stats.frames += 1;
        stats.data_bytes += frame.len() as u64;
        Some(frame)
    }
}
