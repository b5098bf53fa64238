//! Partial partitions: the link between this data center and another is dead, and a third one exchanges updates with
//! both.
//!
//! Each server decides by itself whether its data center pauses ([`super::reachability`]). During a pause it holds back
//! all reads, and no deadline releases them, because training would make all copies diverge. It continues to apply
//! received updates and to send its own.
//!
//! The updates received during a pause are only a part of all updates. If the data of the data centers differ, the copy
//! drifts: the updates missing on the dead link are as large as those received, and have the opposite sign. So the
//! pause ends only once the missed updates are received. The other end of the link reports which update is the last of
//! them ([`ControlMessage::CaughtUp`](crate::wire::ControlMessage::CaughtUp)).

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Mirrors;
use crate::server::LinksToPoll;
use crate::types::DcId;
use crate::wire::{LinkReport, encode_control};

impl Mirrors {
    /// Handles a mirror from which nothing is received: reports it to all mirrors, if it is an active neighbour in the
    /// overlay.
    pub(super) fn on_link_failed(&mut self, from: DcId) {
        if self.client.clique_of(from).is_some() && self.server.present().any(|dc| dc == from) {
            self.begin_to_miss(from);
            self.decide_pause();
        }
    }

    /// Handles the first frame of a mirror after nothing was received. Only an answer to this server's next report names the
    /// last missed update: the mirror may have answered the one before while it was still silent, and made updates since.
    pub(super) fn on_heard_again(&mut self, from: DcId) {
        if let Some(version) = self.reachability.on_received(from) {
            self.server.on_missed(from, version);
        }
        self.decide_pause();
    }

    /// Records that from here on updates of a mirror are missing, until it reports which is the last of them.
    fn begin_to_miss(&mut self, from: DcId) {
        let version = self.reachability.on_disconnected(from);
        self.server.on_missed(from, version);
    }

    /// Whether a mirror takes part in the run, as others report, but has never reached this data center.
    pub(super) fn is_unmet(&self, mirror: DcId) -> bool {
        self.reachability.is_unmet(mirror, &self.present())
    }

    /// Handles the first frame of a mirror that joined while the link between the two was dead: its updates since then
    /// are missing.
    pub(super) fn begin_behind(&mut self, from: DcId) {
        self.begin_to_miss(from);
        self.on_heard_again(from);
    }

    /// Handles a mirror's link report. If the report names this data center, the client will send
    /// [`ControlMessage::CaughtUp`](crate::wire::ControlMessage::CaughtUp) after the missed updates.
    pub(super) fn on_link_report(&mut self, from: DcId, report: LinkReport) {
        if self.client.clique_of(from).is_none() {
            return;
        }
        let own = self.id.dc;
        let (is_silent, is_behind) = (report.silent.contains(&own), report.behind.contains(&own));
        if is_silent || is_behind {
            self.client.on_missed(from, report.version, is_silent);
        }
        self.server.set_paused(from, report.pauses, self.clock);
        self.server.measure_excuses(self.clock, self.staleness());
        self.reachability.on_link_report(from, report);
        self.decide_pause();
    }

    /// Records that a mirror's missed updates are received, if they are.
    pub(super) fn catch_up(&mut self, from: DcId) {
        if self.server.has_caught_up(from) {
            self.to_poll = LinksToPoll::All;
            self.server.measure_excuses(self.clock, self.staleness());
            self.reachability.on_caught_up(from);
            self.decide_pause();
        }
    }

    /// Decides whether this data center pauses. Called when a link, a report or the set of active mirrors has changed.
    pub(super) fn decide_pause(&mut self) {
        let present = self.present();
        self.reachability.decide(&present);
    }

    /// The active mirrors.
    pub(super) fn present(&self) -> BTreeSet<DcId> {
        self.server.present().collect()
    }

    /// The next control frame about the state of links: a link report, or the end of missed updates.
    pub(super) fn next_link_frame(&mut self, to: DcId) -> Option<Bytes> {
        let message = self.reachability.next(to).or_else(|| self.client.next_caught_up(to))?;
        let mut frame = Vec::new();
        encode_control(&message, &mut frame);
        self.client.stats_mut(to).control_bytes += frame.len() as u64;
        Some(frame.into())
    }
}
