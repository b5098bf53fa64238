//! What a server keeps for each mirror that it sends to.

use std::collections::VecDeque;

use super::budget::Budget;
use super::rate::RateEstimate;
use super::rebuild::Rebuild;
use crate::codec::Changes;
use crate::outbox::Outbox;
use crate::persist;
use crate::server::stats::LinkStats;
use crate::store::Touched;
use crate::types::{Clock, DcId};
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
            rate,
            stats: LinkStats::default(),
        }
    }

    /// What was sent is lost, and what waits to be said is void: all begins from 1.
    pub(super) fn begin_anew(&mut self) {
        self.control.clear();
        self.forks.clear();
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

persist! {
    impl Persist<usize> for Peer {
        fn walk(
            Self {
                route,
                control,
                sequence,
                announcements,
                incarnation,
                met,
                rebuild,
                forks,
                rate,
                stats,
            },
            walk,
            parameters,
        ) {
            walk.record("control", control)?;
            walk.record("sequence", sequence)?;
            walk.record("announcements", announcements)?;
            walk.record("incarnation", incarnation)?;
            walk.record("met", met)?;
            let fresh = || Some(Rebuild::none());
            walk.option("rebuild", rebuild, fresh, |one, walk| walk.flatten(one, parameters))?;
            walk.record("forks", forks)?;
            walk.record("rate", rate)?;
            walk.record("stats", stats)?;

            match route {
                Some(route) => walk.flatten(route, parameters),
                None => Ok(()),
            }
        }
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
}

persist! {
    impl Persist<usize> for Route {
        fn walk(
            Self { clique: _, outbox, budget, forwarded, ranked, reported, waits },
            walk,
            parameters,
        ) {
            walk.part("outbox", outbox, ())?;
            walk.record("budget", budget)?;
            if let Some(forwarded) = forwarded {
                walk.flatten(forwarded, ("forwarded", parameters))?;
            }
            walk.record("ranked", ranked)?;
            walk.record("reported", reported)?;
            walk.record("waits", waits)
        }
    }
}
