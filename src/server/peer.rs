//! What a server keeps for each mirror that it sends to.

use std::collections::VecDeque;

use super::budget::Budget;
use super::rate::RateEstimate;
use super::stats::LinkStats;
use crate::outbox::Outbox;
use crate::store::Touched;
use crate::types::{Clock, StateError, Walk};
use crate::wire::ControlMessage;

/// One mirror, and the link to it.
#[derive(Debug)]
pub(super) struct Peer {
    /// How updates go there; `None` where hubs bring them.
    pub(super) route: Option<Route>,
    pub(super) control: VecDeque<ControlMessage>,
    /// The last sequence number sent in the data lane.
    pub(super) sequence: u64,
    pub(super) announcements: u64,
    pub(super) rate: RateEstimate,
    pub(super) stats: LinkStats,
}

/// What a link to a neighbour in the overlay has yet to carry.
#[derive(Debug)]
pub(super) struct Route {
    /// The neighbour's clique.
    pub(super) clique: usize,
    pub(super) outbox: Outbox,
    pub(super) budget: Budget,
    /// On hubs: what came from others since the link last carried it.
    pub(super) forwarded: Option<Touched>,
    /// The clock that the outbox was last ranked for.
    pub(super) ranked: Clock,
    /// The latest clock reported.
    pub(super) reported: Clock,
}

impl Peer {
    /// A mirror that nothing has been sent to.
    pub(super) fn new(route: Option<Route>, rate: RateEstimate) -> Self {
        Self {
            route,
            control: VecDeque::new(),
            sequence: 0,
            announcements: 0,
            rate,
            stats: LinkStats::default(),
        }
    }

    /// Walks over what changes as time goes on; the shard has so many `parameters`.
    pub(super) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        parameters: usize,
    ) -> Result<(), StateError> {
        walk.record("control", &mut self.control)?;
        walk.record("sequence", &mut self.sequence)?;
        walk.record("announcements", &mut self.announcements)?;
        walk.record("rate", &mut self.rate)?;
        walk.record("stats", &mut self.stats)?;
        match &mut self.route {
            Some(route) => route.state(walk, parameters),
            None => Ok(()),
        }
    }

    /// Queues a report, in place of one that nothing has been queued behind: a link that carries nothing must
    /// not gather one for every clock.
    pub(super) fn report(&mut self, clock: Clock) {
        if matches!(self.control.back(), Some(ControlMessage::MirrorClock { .. })) {
            self.control.pop_back();
        }
        let sequence = self.sequence;
        self.control.push_back(ControlMessage::MirrorClock { clock, sequence });
    }
}

impl Route {
    pub(super) fn new(
        clique: usize,
        outbox: Outbox,
        budget: Budget,
        forwarded: Option<Touched>,
    ) -> Self {
        Self { clique, outbox, budget, forwarded, ranked: Clock::ZERO, reported: Clock::ZERO }
    }

    fn state(&mut self, walk: &mut Walk<'_>, parameters: usize) -> Result<(), StateError> {
        self.outbox.state(&mut walk.at("outbox"))?;
        walk.record("budget", &mut self.budget)?;
        if let Some(forwarded) = &mut self.forwarded {
            forwarded.state(walk, "forwarded", parameters)?;
        }
        walk.record("ranked", &mut self.ranked)?;
        walk.record("reported", &mut self.reported)
    }
}
