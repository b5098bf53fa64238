//! Mirrors that have missed updates while a link was dead, and are told when they have them.

use super::MirrorClient;
use super::peer::CatchUp;
use crate::types::DcId;
use crate::wire::ControlMessage;

impl MirrorClient {
    /// A mirror has said, in its word of this version, that it has missed what this link carries; `again` says whether it
    /// misses more than it did when it last said so.
    pub(in crate::server::remote::mirrors) fn on_missed(
        &mut self,
        by: DcId,
        version: u64,
        again: bool,
    ) {
        if let Some(peer) = self.peers.get_mut(&by).filter(|peer| peer.route.is_some()) {
            let left = peer.catch_up.filter(|_| !again).and_then(|catch_up| catch_up.left);
            peer.catch_up = Some(CatchUp { version, left });
        }
    }

    /// Tells a mirror that it has what it missed, once all of that has left.
    pub(in crate::server::remote::mirrors) fn next_caught_up(
        &mut self,
        to: DcId,
    ) -> Option<ControlMessage> {
        let peer = self.peers.get_mut(&to)?;
        let route = peer.route.as_ref().filter(|route| !route.waits)?;
        let CatchUp { version, left } = peer.catch_up?;
        if left != Some(0) && route.outbox.due() > 0 {
            return None;
        }
        peer.catch_up = None;
        Some(ControlMessage::CaughtUp { version, sequence: peer.sequence })
    }
}
