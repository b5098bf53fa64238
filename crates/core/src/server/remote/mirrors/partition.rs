//! Partial partitions: this data center and another do not hear each other, and a third one hears both.
//!
//! Each server finds out by itself which data centers must not train ([`super::reachability`]). Where its own is
//! one of them it holds back all reads for as long as that lasts, whatever deadlines say: to go on would spoil every
//! copy. It goes on applying what comes and sending what it owes.
//!
//! What comes meanwhile is a part of the updates only, and where data differ a part does not settle: the parts that the
//! dead link owes are as large, and of the opposite sign. So a link counts as dead until what was missed has come, which
//! the other end says.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Mirrors;
use crate::server::error::PeerError;
use crate::types::DcId;
use crate::wire::encode_control;

impl Mirrors {
    /// Nothing comes of a mirror: all are told, if updates should come from it.
    pub(super) fn miss(&mut self, from: DcId) {
        if self.client.clique_of(from).is_some() {
            let version = self.reachability.on_disconnected(from);
            self.server.on_missed(from, version);
            self.judge_partition();
        }
    }

    /// Takes word of which mirrors data center `by` does not hear, and of which it has yet to get what it missed.
    pub(super) fn on_unheard(
        &mut self,
        from: DcId,
        (by, version): (DcId, u64),
        [silent, behind]: [BTreeSet<DcId>; 2],
    ) -> Result<(), PeerError> {
        if !self.reachability.knows(by) {
            return Err(PeerError::PeerSentForeignOrigin { from, origin: by });
        }

        let own = self.id.dc;
        if by == from && (silent.contains(&own) || behind.contains(&own)) {
            self.client.on_missed(from, version);
        }
        self.reachability.on_unheard(from, (by, version), [silent, behind]);
        self.judge_partition();
        Ok(())
    }

    /// Looks whether all has come that was missed of a mirror.
    pub(super) fn catch_up(&mut self, from: DcId) {
        if self.server.has_caught_up(from) {
            self.reachability.on_level(from);
            self.judge_partition();
        }
    }

    /// Finds out who must not train, from what is new of who hears whom or takes part.
    pub(super) fn judge_partition(&mut self) {
        let present: BTreeSet<DcId> = self.server.present().chain([self.id.dc]).collect();
        self.reachability.judge(&present);
        self.server.set_paused(self.reachability.paused(), self.clock);
    }

    /// The next word to a mirror on who hears whom, or that it has what it missed.
    pub(super) fn next_word(&mut self, to: DcId) -> Option<Bytes> {
        let message = self.reachability.next(to).or_else(|| self.client.next_caught_up(to))?;
        let mut frame = Vec::new();
        encode_control(&message, &mut frame);
        self.client.stats_mut(to).control_bytes += frame.len() as u64;
        Some(frame.into())
    }
}
