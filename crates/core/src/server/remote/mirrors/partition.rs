//! Partial partitions: this data center and another do not hear each other, and a third one hears both.
//!
//! Each server decides by itself whether its data center pauses ([`super::reachability`]). While it does it holds back all reads,
//! whatever deadlines say: to go on would spoil every copy. It goes on applying what comes and sending what it owes.
//!
//! What comes meanwhile is a part of the updates only, and where data differ a part does not settle: the parts that the
//! dead link owes are as large, and of the opposite sign. So the pause ends once what was missed has come, which
//! the other end says.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Mirrors;
use crate::types::DcId;
use crate::wire::{LinkReport, encode_control};

impl Mirrors {
    /// Nothing comes from a mirror any more: all are told, if updates should come from it and it takes part.
    pub(super) fn miss(&mut self, from: DcId) {
        if self.client.clique_of(from).is_some() && self.server.present().any(|dc| dc == from) {
            let version = self.reachability.on_disconnected(from);
            self.server.on_missed(from, version);
            self.judge_partition();
        }
    }

    /// A mirror says which others it does not hear, or has yet to get what it missed of.
    pub(super) fn on_link_report(&mut self, from: DcId, word: LinkReport) {
        if self.client.clique_of(from).is_none() {
            return;
        }
        let own = self.id.dc;
        let (is_silent, is_behind) = (word.silent.contains(&own), word.behind.contains(&own));
        if is_silent || is_behind {
            self.client.on_missed(from, word.version, is_silent);
        }
        self.server.set_paused(from, word.pauses, self.clock);
        self.reachability.on_link_report(from, word);
        self.judge_partition();
    }

    /// Looks whether all has come that was missed of a mirror.
    pub(super) fn catch_up(&mut self, from: DcId) {
        if self.server.has_caught_up(from) {
            self.reachability.on_caught_up(from);
            self.judge_partition();
        }
    }

    /// Decides whether this data center pauses, from what is new of who hears whom or takes part.
    pub(super) fn judge_partition(&mut self) {
        let present: BTreeSet<DcId> = self.server.present().collect();
        self.reachability.decide(&present);
    }

    /// The next word to a mirror: on who hears whom, or that it has what it missed.
    pub(super) fn next_word(&mut self, to: DcId) -> Option<Bytes> {
        let message = self.reachability.next(to).or_else(|| self.client.next_caught_up(to))?;
        let mut frame = Vec::new();
        encode_control(&message, &mut frame);
        self.client.stats_mut(to).control_bytes += frame.len() as u64;
        Some(frame.into())
    }
}
