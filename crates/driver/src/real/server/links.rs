//! Connections that make no progress, links without a connection, and the log of pauses under partial partitions.

use tokio::time;
use tracing::{info, warn};

use super::ServerNode;
use crate::real::error::RealError;
use gaia_core::types::{Clock, DcId};

impl ServerNode {
    /// Closes connections that make no progress. An acknowledgement that is due is sent with the group.
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
                self.mirrors.part(*peer, "the connection makes no progress");
            }
        }
        unjoined.into_iter().try_for_each(|peer| self.on_unjoined(peer))
    }

    /// Handles a mirror to which there was no connection for as long as a connection may make no progress.
    ///
    /// A process that was started while the link was dead has no connection to lose. So its server is informed here
    /// that the link is dead.
    fn on_unjoined(&mut self, peer: DcId) -> Result<(), RealError> {
        let server = self.server.server();
        let has_begun =
            server.clock() > Clock::ZERO || self.server.session(peer).peer_hello().is_some();
        if !has_begun || !server.may_receive_from(peer) {
            return Ok(());
        }
        let parted = self.server.handle_disconnected(self.now(), peer);
        parted.map_err(|error| self.refused(error))
    }

    /// Logs which mirrors reads no longer wait for, since their clocks do not advance, and which count again.
    pub(super) fn log_stalled(&mut self) {
        let stalled = self.server.server().stalled_mirrors();
        if stalled == self.stalled {
            return;
        }

        let own = self.context.name();
        for peer in stalled.difference(&self.stalled) {
            let name = self.mirrors.name(*peer);
            warn!(
                "{name} sends frames, but its clock has not advanced for as long as a run waits for a lost node: reads at \
                 {own} no longer wait for it"
            );
        }
        for peer in self.stalled.difference(&stalled) {
            info!(
                "the clock of {} advances: reads at {own} wait for it again",
                self.mirrors.name(*peer)
            );
        }
        self.stalled = stalled;
    }

    /// Logs the beginning and the end of a pause under a partial partition. A mirror can say as often as it likes that it receives
    /// nothing.
    pub(super) fn log_pause(&mut self) {
        let pauses_for = self.server.server().pauses_for();
        if pauses_for == self.pauses_for {
            return;
        }

        let before = std::mem::replace(&mut self.pauses_for, pauses_for);
        let Some(left_out) = self.pause_lines.pass() else { return };
        let own = self.context.name();
        let name = |dc: DcId| &self.context.run_context.plan.topology.dc(dc).name;
        let dc = name(self.server.server().id().dc);
        match (pauses_for, before) {
            (Some(other), _) => {
                let other = name(other);
                warn!(
                    "{own}: {dc} pauses: {dc} and {other} exchange no updates, and others exchange updates with both{left_out}"
                );
            }
            (None, Some(other)) => {
                let other = name(other);
                info!(
                    "{own}: {dc} resumes: it has received the missed updates of {other}{left_out}"
                );
            }
            (None, None) => {}
        }
    }
}
