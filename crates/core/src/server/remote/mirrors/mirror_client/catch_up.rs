//! Mirrors that have missed updates while a link was dead. Each receives a message that names the last missed update.

use super::MirrorClient;
use super::peer::CatchUp;
use crate::types::DcId;
use crate::wire::ControlMessage;

impl MirrorClient {
    /// Records that the mirror `by` has missed updates of this link, according to its link report of this version.
    ///
    /// If it receives nothing then (`is_silent`), it misses more updates with each that is sent, until it reports that it
    /// receives again. So the number that is left is counted again at its next report.
    pub(in crate::server::remote::mirrors) fn on_missed(
        &mut self,
        by: DcId,
        version: u64,
        is_silent: bool,
    ) {
        if let Some(peer) = self.peers.get_mut(&by).filter(|peer| peer.route.is_some()) {
            let before = peer.catch_up.filter(|before| !is_silent && !before.is_silent);
            let left = before.and_then(|before| before.left);
            peer.catch_up = Some(CatchUp { version, is_silent, left });
        }
    }

    /// The message that names the last update that a mirror has missed, once all missed updates were sent.
    pub(in crate::server::remote::mirrors) fn next_caught_up(
        &mut self,
        to: DcId,
    ) -> Option<ControlMessage> {
        let peer = self.peers.get_mut(&to)?;
        let route = peer.route.as_ref().filter(|route| !route.waits)?;
        let CatchUp { version, left, .. } = peer.catch_up?;
        if left != Some(0) && route.outbox.hard_waiting() > 0 {
            return None;
        }
        peer.catch_up = None;
        Some(ControlMessage::CaughtUp { version, sequence: peer.sequence })
    }
}
