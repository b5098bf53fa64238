//! Connections that come to nothing, links that are dead, and what is said of data centers that pause for them.

use std::collections::BTreeMap;

use tokio::time;
use tracing::{info, warn};

use super::ServerNode;
use crate::real::error::RealError;
use gaia_core::types::{Clock, DcId};

impl ServerNode {
    /// Breaks connections that come to nothing. MembershipEvent that is due goes with the group.
    pub(super) fn look_at_links(&mut self) -> Result<(), RealError> {
        let now = time::Instant::now();
        let mut unjoined = Vec::new();
        for (peer, link) in &mut self.links {
            if link.watch.due() > now {
                continue;
            }
            let stalled = link.watch.is_stalled(self.server.session(*peer));
            if !self.mirrors.is_joined(*peer) {
                unjoined.push(*peer);
            } else if stalled {
                self.mirrors.part(*peer, "nothing comes of the connection");
            }
        }
        unjoined.into_iter().try_for_each(|peer| self.on_unjoined(peer))
    }

    /// There has been no connection to a mirror for as long as one may stand still. A process that has begun while the
    /// link was dead has none to lose, and its server is to know all the same.
    fn on_unjoined(&mut self, peer: DcId) -> Result<(), RealError> {
        let server = self.server.server();
        let has_begun = server.clock() > Clock::ZERO || self.server.session(peer).met().is_some();
        if !has_begun || !server.may_hear(peer) {
            return Ok(());
        }
        let parted = self.server.handle_disconnected(self.now(), peer);
        parted.map_err(|error| self.refused(error))
    }

    /// Says which data centers have begun to pause since this was last called, and which train again.
    pub(super) fn log_pauses(&mut self) {
        let paused: BTreeMap<DcId, DcId> = self.server.server().paused().collect();
        if paused == self.paused {
            return;
        }

        let own = self.context.name();
        let name = |dc: &DcId| &self.context.run_context.plan.topology.dc(*dc).name;
        for (dc, other) in &paused {
            if !self.paused.contains_key(dc) {
                let (dc, other) = (name(dc), name(other));
                warn!(
                    "{own}: {dc} pauses, as no updates pass between {dc} and {other}, which trains on, while others hear both"
                );
            }
        }
        for (dc, other) in &self.paused {
            if !paused.contains_key(dc) {
                let (dc, other) = (name(dc), name(other));
                info!("{own}: {dc} pauses no more on account of {other}");
            }
        }
        self.paused = paused;
    }
}
