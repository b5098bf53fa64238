//! The state of a server for each mirror that it sends to.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::rate::RateEstimate;
use super::rebuild::Rebuild;
use crate::codec::Changes;
use crate::outbox::Outbox;
use crate::persist;
use crate::server::stats::LinkStats;
use crate::store::Touched;
use crate::types::{Clock, DcId, Paged};
use crate::wire::ControlMessage;

/// One mirror, and the link to it.
///
/// Where there are many data centers most have no route to each other, so that what few of them have is boxed.
#[derive(Debug)]
pub(super) struct Peer {
    /// The route of updates to the mirror. `None` if hubs forward them.
    pub(super) route: Option<Box<Route>>,
    pub(super) control: VecDeque<ControlMessage>,
    /// The last sequence number sent in the data lane.
    pub(super) sequence: u64,
    pub(super) announcements: u64,
    /// The number of the mirror's incarnation. Above 0 once it has lost its state.
    pub(super) incarnation: u64,
    /// The incarnation in which the mirror sent its first hello; 0 before that. Messages of other mirrors about earlier
    /// incarnations are out of date.
    pub(super) met: u64,
    /// The state of the rebuild if the mirror takes its copy from this server.
    pub(super) rebuild: Option<Box<Rebuild>>,
    /// Mirrors, each with its incarnation, whose links continue from what was sent on this link so far.
    pub(super) forks: VecDeque<(DcId, u64)>,
    /// The answer to the mirror's link report. It is sent after the updates that the mirror has missed.
    pub(super) catch_up: Option<CatchUp>,
    pub(super) rate: RateEstimate,
    pub(super) stats: LinkStats,
}

/// A mirror's report that it has missed updates.
///
/// Missed updates are sent before later ones, or a sweep passes them within one round, so that this ends however many updates
/// follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CatchUp {
    /// The version of that report.
    pub(super) version: u64,
    /// Whether the mirror received nothing when it made the report.
    pub(super) is_silent: bool,
    /// How far the outbox has to come until all missed updates are sent ([`Outbox::ahead`]). Known once the first of them is
    /// sent.
    pub(super) left: Option<usize>,
}

/// The unsent updates of a link to a neighbour in the overlay.
#[derive(Debug)]
pub(super) struct Route {
    /// The neighbour's clique.
    pub(super) clique: usize,
    pub(super) outbox: Outbox,
    pub(super) budget: Budget,
    /// On hubs: the parameters with updates of others that were not sent on the link.
    pub(super) forwarded: Option<Touched>,
    /// The clock of the outbox's last ranking.
    pub(super) ranked: Clock,
    /// The latest clock reported.
    pub(super) reported: Clock,
    /// Whether nothing is sent until it is known which updates the mirror has.
    pub(super) waits: bool,
}

impl Peer {
    /// A mirror to which nothing was sent.
    pub(super) fn new(route: Option<Box<Route>>, rate: RateEstimate) -> Self {
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

    /// Resets the connection's state: sequence numbers begin at 1, and queued control messages are discarded.
    pub(super) fn reset(&mut self) {
        self.control.clear();
        self.forks.clear();
        self.catch_up = None;
        (self.sequence, self.announcements) = (0, 0);
    }

    /// Begins an incarnation of the mirror, which has none of the updates so far. The shard has `parameters`
    /// parameters.
    pub(super) fn forget(&mut self, incarnation: u64, parameters: usize) {
        self.reset();
        (self.incarnation, self.rebuild) = (incarnation, None);
        if let Some(route) = &mut self.route {
            route.outbox = route.outbox.sharing(Paged::zeros(parameters));
            (route.waits, route.reported) = (true, Clock::ZERO);
        }
    }

    /// Whether updates may be sent to the mirror. They must reach the incarnation for which the outbox counts them.
    ///
    /// If a copy was taken because another mirror announced a new incarnation, updates wait until the mirror itself
    /// requests the copy. Until then the connection may lead to the earlier incarnation, and updates sent on it would
    /// be lost.
    pub(super) fn takes_updates(&self) -> bool {
        self.route.as_ref().is_some_and(|route| !route.waits)
            && self.rebuild.as_ref().is_none_or(|rebuild| rebuild.is_asked_for())
    }

    /// How many of the parameters that the outbox would send next the mirror has missed. They are sent before others.
    ///
    /// While the mirror receives nothing, all that is sent to it is missed.
    pub(super) fn missed_first(&self) -> usize {
        let catch_up = self.catch_up.filter(|catch_up| !catch_up.is_silent);
        catch_up.and_then(|catch_up| catch_up.left).unwrap_or_default()
    }

    /// The mirror clock: queues a report of the latest clock of which all significant updates were sent, if there is
    /// one that was not reported.
    ///
    /// A mirror that takes its copy from this server is sent no report before the whole copy, which has a clock of its
    /// own. Reports overtake the copy, and no brake bounds their number until the mirror reports a clock: on a slow
    /// link they would leave the copy no room.
    pub(super) fn report(&mut self, has_mirror_clocks: bool) {
        if self.rebuild.as_ref().is_some_and(|rebuild| rebuild.is_copying()) {
            return;
        }
        let Some(route) = self.route.as_mut().filter(|route| !route.waits) else { return };
        let Some(clock) = route.outbox.covered() else { return };
        if clock > route.reported && has_mirror_clocks {
            route.reported = clock;
            self.queue_mirror_clock(clock);
        }
    }

    /// Queues a report. It replaces the last queued message if that is a report, so that the reports of an idle link do
    /// not accumulate.
    pub(super) fn queue_mirror_clock(&mut self, clock: Clock) {
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
                catch_up,
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
            let fresh = || Some(Box::new(Rebuild::none()));
            walk.option("rebuild", rebuild, fresh, |one, walk| walk.flatten(one, parameters))?;
            walk.record("forks", forks)?;
            walk.record("catch_up", catch_up)?;
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

    /// Records that `carried` was sent on the link in addition to what its outbox counts. This occurs if the connection
    /// was made before it was known which updates the mirror has.
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
