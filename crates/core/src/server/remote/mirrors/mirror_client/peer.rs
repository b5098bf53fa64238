//! What a server keeps for each mirror that it sends to.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::rate::RateEstimate;
use super::rebuild::Rebuild;
use crate::codec::Changes;
use crate::outbox::Outbox;
use crate::server::stats::LinkStats;
use crate::store::Touched;
use crate::types::{Clock, DcId, StateError, Walk};
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
    /// The number of its incarnation: above 0 once it has lost what it had.
    pub(super) incarnation: u64,
    /// The incarnation in which it said hello for the first time, 0 before that: what others say about incarnations before it is
    /// out of date.
    pub(super) met: u64,
    /// What is done for it, where it takes its copy from here.
    pub(super) rebuild: Option<Rebuild>,
    /// Mirrors whose links are to go on, in this incarnation of theirs, from what this one has carried so far.
    pub(super) forks: VecDeque<(DcId, u64)>,
    /// What it is to be told once it has what it missed.
    pub(super) catch_up: Option<CatchUp>,
    pub(super) rate: RateEstimate,
    pub(super) stats: LinkStats,
}

/// A mirror has said that it missed updates: they leave ahead of those that come about meanwhile, as they are the more
/// significant, or lie before them in the sweep.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CatchUp {
    /// The version of that word.
    pub(super) version: u64,
    /// How many have yet to leave; known once the first is about to, when the link is there again.
    pub(super) left: Option<usize>,
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
    /// Whether it carries nothing, until it is known what the mirror has.
    pub(super) waits: bool,
}

impl Peer {
    /// A mirror that nothing has been sent to.
    pub(super) fn new(route: Option<Route>, rate: RateEstimate) -> Self {
        Self {
            route,
            control: VecDeque::new(),
            sequence: 0,
            announcements: 0,
            incarnation: 0,
            met: 0,
            rebuild: None,
            forks: VecDeque::new(),
            catch_up: None,
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
        walk.record("incarnation", &mut self.incarnation)?;
        walk.record("met", &mut self.met)?;
        let fresh = || Some(Rebuild::none());
        walk.option("rebuild", &mut self.rebuild, fresh, |one, walk| one.state(walk, parameters))?;
        walk.record("forks", &mut self.forks)?;
        walk.record("catch_up", &mut self.catch_up)?;
        walk.record("rate", &mut self.rate)?;
        walk.record("stats", &mut self.stats)?;

        match &mut self.route {
            Some(route) => route.state(walk, parameters),
            None => Ok(()),
        }
    }

    /// What was sent is lost, and what waits to be said is void: all begins from 1.
    pub(super) fn begin_anew(&mut self) {
        self.control.clear();
        self.forks.clear();
        self.catch_up = None;
        (self.sequence, self.announcements) = (0, 0);
    }

    /// Begins an incarnation of the mirror, in which nothing of a shard of so many `parameters` is known to be there.
    pub(super) fn forget(&mut self, incarnation: u64, parameters: usize) {
        self.begin_anew();
        (self.incarnation, self.rebuild) = (incarnation, None);
        if let Some(route) = &mut self.route {
            route.outbox = route.outbox.sharing(vec![0.0; parameters]);
            (route.waits, route.reported) = (true, Clock::ZERO);
        }
    }

    /// Whether updates may leave for the mirror. Those that leave must reach the incarnation that its outbox counts for. Where its
    /// copy was taken since another mirror told of a new incarnation, that is not known until it asks: its connection may still
    /// lead to the incarnation before, which takes with it what it is sent.
    pub(super) fn takes_updates(&self) -> bool {
        self.route.as_ref().is_some_and(|route| !route.waits)
            && self.rebuild.as_ref().is_none_or(Rebuild::is_asked_for)
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
        Self {
            clique,
            outbox,
            budget,
            forwarded,
            ranked: Clock::ZERO,
            reported: Clock::ZERO,
            waits: false,
        }
    }

    /// Beside what its outbox counts as carried, the link has carried this itself: there may be something where the two
    /// had met before it was known what the mirror has.
    pub(super) fn has_carried(&mut self, carried: &[f32], leaves: bool) {
        let carried = carried.iter().zip(0_u32..).filter(|(sent, _)| **sent != 0.0);
        let (values, indexes): (Vec<f32>, Vec<u32>) =
            carried.map(|(sent, index)| (-sent, index)).unzip();
        self.outbox.enqueue(Changes::Sparse { indexes: &indexes, values: &values }, leaves);
    }

    fn state(&mut self, walk: &mut Walk<'_>, parameters: usize) -> Result<(), StateError> {
        self.outbox.state(&mut walk.at("outbox"))?;
        walk.record("budget", &mut self.budget)?;
        if let Some(forwarded) = &mut self.forwarded {
            forwarded.state(walk, "forwarded", parameters)?;
        }
        walk.record("ranked", &mut self.ranked)?;
        walk.record("reported", &mut self.reported)?;
        walk.record("waits", &mut self.waits)
    }
}
