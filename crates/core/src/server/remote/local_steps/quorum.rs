//! Quorum: rounds that do not wait for all data centers.
//!
//! The home of a block closes a round of it once a share of the data centers has sent its parts, and some time for the
//! others, the grace, has passed. A part that comes later is late: the home adds it to the next round. So each part is
//! in one total of its block, whole. Homes close their rounds independently, and totals of different blocks may hold
//! parts of different data centers. A data center therefore keeps each part, in its copy and here, until a total
//! includes it. A home tells it how many of its last parts a total does not include, if there are any.
//!
//! A data center that receives a total of a round that it has not begun begins the round at once, with the changes that
//! it has. So does a home that has a quorum of the parts, its grace over or not. It skips the clocks up to the round,
//! so that all data centers count the same rounds, and a slow one takes fewer steps in each. Rounds have a *clock* of
//! their own: the clocks that the data center has finished, and those that it has skipped.
//!
//! Each server of a data center skips clocks by itself. So half of the data centers can have begun a round at one server,
//! and the other half one at another, and workers of each half wait for the other. A home therefore also begins a round of
//! which it has a part, though no quorum, once two typical rounds have passed in which its own workers have not come that
//! far. Then every data center that is waited for begins the round, and a quorum is in.
//!
//! Nobody is left behind for ever. A home closes no round while it lacks a data center's part of [`BEHIND_MAX`] rounds
//! before. This bounds the totals that wait for a slow link, and the parts that no total includes.
//!
//! At the drain no home closes a further round. Each says so to all others, and reads wait for its totals no longer. Then all
//! agreed values are equal, and what no total includes is still here, as changes that no round includes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::LocalSteps;
use crate::codec::Changes;
use crate::persist;
use crate::server::blocks::sums::Changed;
use crate::server::blocks::{Job, Part};
use crate::server::error::PeerError;
use crate::store::ShardStore;
use crate::sync::LocalStepsConfig;
use crate::types::{Clock, DcId, Instant};
use crate::wire::BulkKind;

/// One server's part of rounds that close without all data centers.
#[derive(Debug)]
pub(super) struct Quorum {
    /// The number of data centers whose parts close a round.
    needed: usize,
    grace: Duration,
    /// Whether other servers of this data center skip clocks by themselves.
    has_siblings: bool,
    /// The clock of rounds.
    clock: Clock,
    /// The clocks that this data center has skipped.
    skipped: u64,
    /// The parts of the home blocks, by fragment.
    gathered: Vec<Gathered>,
    /// This data center's parts, by fragment and home.
    own: Vec<Vec<OwnParts>>,
    /// Homes that close no further round.
    closed: BTreeSet<DcId>,
    /// This data center.
    dc: DcId,
}

/// What the home of a block has received since it last closed a round.
#[derive(Debug)]
struct Gathered {
    parameters: usize,
    /// Whether the first round waits for all data centers: workers add initial values of some tables, of which later rounds would
    /// take a late part for a gradient.
    waits_for_all_at_first: bool,
    /// Parts of which frames are missing.
    incoming: BTreeMap<DcId, Changed>,
    /// Whole parts, late and new ones of a data center together.
    complete: BTreeMap<DcId, Changed>,
    /// The number of whole parts of each data center since the start of the run. Every round has one of each.
    parts: Vec<u64>,
    /// Since when a quorum of the open round is in.
    since: Option<Instant>,
    /// Since when another data center has begun the open round, and this one has not.
    behind_since: Option<Instant>,
}

/// What this data center has sent to the home of one block.
#[derive(Debug)]
struct OwnParts {
    /// The round of the next part.
    next: Clock,
    /// Parts that no total includes, the oldest first.
    uncounted: VecDeque<Job>,
    /// How many of the last parts the next total does not include.
    missing: usize,
}

impl Quorum {
    /// The quorum of rounds whose fragments have these first rounds and home blocks of these sizes, in the data center `dc` of
    /// several, of `servers` each, and whether workers add initial values of any table. `None` if rounds wait for all data
    /// centers.
    pub(super) fn new(
        config: &LocalStepsConfig,
        (dc, data_centers): (DcId, usize),
        servers: usize,
        first: &[Clock],
        (home_parameters, has_initial_values): (impl Iterator<Item = usize>, bool),
    ) -> Option<Self> {
        let gathered = home_parameters.map(|parameters| Gathered {
            parameters,
            waits_for_all_at_first: has_initial_values,
            incoming: BTreeMap::new(),
            complete: BTreeMap::new(),
            parts: vec![0; data_centers],
            since: None,
            behind_since: None,
        });
        let own_parts = |next| OwnParts { next, uncounted: VecDeque::new(), missing: 0 };
        let of_fragment = |first: &Clock| (0..data_centers).map(|_| own_parts(*first)).collect();

        config.has_quorum().then(|| Self {
            needed: config.quorum_of(data_centers),
            grace: config.grace.0,
            has_siblings: servers > 1,
            clock: Clock::ZERO,
            skipped: 0,
            gathered: gathered.collect(),
            own: first.iter().map(of_fragment).collect(),
            closed: BTreeSet::new(),
            dc,
        })
    }

    /// The clock of rounds at a clock of this data center.
    pub(super) fn round_clock(&self, clock: Clock) -> Clock {
        Clock(clock.0.saturating_add(self.skipped))
    }

    /// Keeps a part until a total includes it.
    pub(super) fn on_sent(&mut self, fragment: usize, home: DcId, clock: Clock, part: &Arc<Part>) {
        let job = Job::new(BulkKind::Partial, clock, part.clone());
        self.own[fragment][home.index()].uncounted.push_back(job);
    }

    /// Adds changes of a data center's part to the home block that begins at the parameter `start`.
    pub(super) fn receive(
        &mut self,
        of: DcId,
        fragment: usize,
        changes: Changes<'_>,
        start: usize,
    ) {
        let gathered = &mut self.gathered[fragment];
        let parameters = gathered.parameters;
        let part = gathered.incoming.entry(of).or_insert_with(|| Changed::none(parameters));
        part.add_frame(changes, start);
    }

    /// A home's total of a block is in the agreed values. Forgets the parts that it includes.
    pub(super) fn on_total(&mut self, fragment: usize, home: DcId) {
        let own = &mut self.own[fragment][home.index()];
        let missing = std::mem::take(&mut own.missing);
        own.uncounted.drain(..own.uncounted.len().saturating_sub(missing));
    }

    /// This data center's parts of a block that no total includes.
    pub(super) fn uncounted_of(&self, fragment: usize, home: DcId) -> impl Iterator<Item = &Job> {
        self.own[fragment][home.index()].uncounted.iter()
    }

    /// This data center's parts of all blocks that no total includes.
    pub(super) fn uncounted(&self) -> impl Iterator<Item = &Job> {
        self.own.iter().flatten().flat_map(|own| &own.uncounted)
    }

    /// Whether a home closes no further round.
    pub(super) fn has_closed(&self, home: DcId) -> bool {
        self.closed.contains(&home)
    }

    /// Whether the home of this data center closes no further round.
    fn is_closed(&self) -> bool {
        self.has_closed(self.dc)
    }

    /// Whether neither this home nor that of `peer` closes a further round.
    pub(super) fn is_over_with(&self, peer: DcId) -> bool {
        self.is_closed() && self.has_closed(peer)
    }

    /// The first data center of which a fragment's round of this number lacks a part of the home block.
    pub(super) fn awaited(&self, fragment: usize, number: u64) -> Option<DcId> {
        let absent = self.gathered[fragment].parts.iter().position(|parts| *parts < number);
        absent.map(|index| DcId(index as u16))
    }

    /// When the grace of a round is over that could be closed then. `numbers` has the open round of each fragment.
    pub(super) fn grace_ends(&self, numbers: impl Iterator<Item = u64>) -> Option<Instant> {
        let gathered = self.gathered.iter().zip(numbers).filter(|_| !self.is_closed());
        let may_close = gathered.filter(|(one, number)| one.has_quorum(*number, self.needed));
        may_close.filter_map(|(one, _)| one.since).map(|since| since + self.grace).min()
    }
}

persist! {
    impl Persist<usize> for Quorum {
        fn walk(
            Self { needed: _, grace: _, has_siblings: _, clock, skipped, gathered, own, closed, dc: _ },
            walk,
            parameters,
        ) {
            walk.record("clock", clock)?;
            walk.record("skipped", skipped)?;
            for (fragment, gathered) in (0..).zip(gathered) {
                walk.part(format_args!("gathered.{fragment}"), gathered, ())?;
            }
            for (fragment, own) in (0..).zip(own) {
                for (home, own) in (0..).zip(own) {
                    walk.part(format_args!("own.{fragment}.{home}"), own, parameters)?;
                }
            }
            walk.record("closed", closed)
        }
    }
}

impl Gathered {
    /// Marks the part of a data center as whole. `number` is that of the open round, and `own` this data center.
    fn complete(&mut self, of: DcId, own: DcId, now: Instant, number: u64, needed: usize) {
        let parameters = self.parameters;
        let part = self.incoming.remove(&of).unwrap_or_else(|| Changed::none(parameters));
        match self.complete.get_mut(&of) {
            Some(late) => late.add(&part),
            None => drop(self.complete.insert(of, part)),
        }

        self.parts[of.index()] += 1;
        let begun = self.count(number);
        if begun >= self.needed(number, needed) {
            self.since.get_or_insert(now);
        }
        let is_behind =
            begun > 0 && self.parts[own.index()] < number && !self.waits_for_all(number);
        self.behind_since = is_behind.then(|| self.behind_since.unwrap_or(now));
    }

    /// How many data centers a round waits for, where later ones wait for `quorum`.
    fn needed(&self, number: u64, quorum: usize) -> usize {
        if self.waits_for_all(number) { self.parts.len() } else { quorum }
    }

    fn waits_for_all(&self, number: u64) -> bool {
        number == 1 && self.waits_for_all_at_first
    }

    /// The number of data centers whose part of a round is whole.
    fn count(&self, number: u64) -> usize {
        self.parts.iter().filter(|parts| **parts >= number).count()
    }

    /// Whether a quorum of a round is in, and no data center is too far behind.
    fn has_quorum(&self, number: u64, needed: usize) -> bool {
        let is_near = |parts: &u64| parts + BEHIND_MAX >= number;
        self.count(number) >= self.needed(number, needed) && self.parts.iter().all(is_near)
    }

    fn is_due(&self, now: Instant, number: u64, quorum: (usize, Duration)) -> bool {
        let (needed, grace) = quorum;
        let is_over = self.since.is_some_and(|since| now >= since + grace);
        self.has_quorum(number, needed) && (is_over || self.count(number) == self.parts.len())
    }

    /// Takes the sum of all whole parts, in the order of data centers.
    fn take_total(&mut self) -> Changed {
        (self.since, self.behind_since) = (None, None);
        let mut parts = std::mem::take(&mut self.complete).into_values();
        let mut total = parts.next().unwrap_or_else(|| Changed::none(self.parameters));
        parts.for_each(|part| total.add(&part));
        total
    }
}

persist! {
    impl Persist<()> for Gathered {
        fn walk(
            Self {
                parameters,
                waits_for_all_at_first: _,
                incoming,
                complete,
                parts,
                since,
                behind_since,
            },
            walk,
            (),
        ) {
            let (size, data_centers) = (*parameters, parts.len());
            let fresh = |of: &DcId| (of.index() < data_centers).then(|| Changed::none(size));
            walk.entries("incoming", incoming, fresh, |part, walk| walk.flatten(part, ()))?;
            walk.entries("complete", complete, fresh, |part, walk| walk.flatten(part, ()))?;
            walk.record_that("parts", parts, |found, _| found.len() == data_centers)?;
            walk.record("since", since)?;
            walk.record("behind_since", behind_since)
        }
    }
}

persist! {
    impl Persist<usize> for OwnParts {
        fn walk(Self { next, uncounted, missing }, walk, parameters) {
            walk.record("next", next)?;
            walk.queue("uncounted", uncounted, Job::none, |part, walk| walk.flatten(part, parameters))?;
            walk.record("missing", missing)
        }
    }
}

impl LocalSteps {
    /// This data center has finished a clock. Begins the rounds that are due.
    pub(super) fn pass_clock(&mut self, now: Instant, finished: Clock, store: &mut ShardStore) {
        let Some(quorum) = &mut self.quorum else { return };
        quorum.clock = quorum.round_clock(finished);
        self.begin_rounds(now, store);
    }

    /// A home has sent the total of a fragment's round. If this data center has not begun the round, it begins it.
    pub(super) fn catch_up(
        &mut self,
        now: Instant,
        fragment: usize,
        clock: Clock,
        store: &mut ShardStore,
    ) {
        if self.next[fragment] == clock {
            self.skip_to(now, clock, store);
        }
    }

    /// Skips the clocks before a round, and begins all rounds up to it.
    fn skip_to(&mut self, now: Instant, clock: Clock, store: &mut ShardStore) {
        let Some(quorum) = &mut self.quorum else { return };
        quorum.skipped += clock.ahead_of(quorum.clock);
        quorum.clock = quorum.clock.max(clock);
        self.begin_rounds(now, store);
    }

    /// Begins all rounds up to the clock of rounds, in their order.
    fn begin_rounds(&mut self, now: Instant, store: &mut ShardStore) {
        while let Some((fragment, clock)) = self.reached() {
            let next = self.rounds.after(clock);
            self.next[fragment] = next;
            self.pace.on_begun(now, fragment, next.ahead_of(clock));
            for home in (0..self.rounds.data_centers as u16).map(DcId) {
                self.send_part_if_due(now, fragment, home, store);
            }
        }
    }

    /// The first round that the clock of rounds has reached and that has not begun.
    fn reached(&self) -> Option<(usize, Clock)> {
        let clock = self.quorum.as_ref()?.clock;
        let next = self.next.iter().copied().enumerate().min_by_key(|(_, next)| *next);
        next.filter(|(_, next)| *next <= clock)
    }

    /// Sends the part of a block of a round that has begun, once the total of the round before was received. So a home
    /// knows from a part that its totals arrive.
    pub(super) fn send_part_if_due(
        &mut self,
        now: Instant,
        fragment: usize,
        home: DcId,
        store: &mut ShardStore,
    ) {
        let Some(quorum) = &mut self.quorum else { return };
        let own = &mut quorum.own[fragment][home.index()];
        let clock = self.due[fragment][home.index()];
        if own.next != clock || clock >= self.next[fragment] {
            return;
        }

        own.next = self.rounds.after(clock);
        self.send_part(home, fragment, clock);
        if home == self.id.dc {
            self.on_whole_part(now, home, fragment, store);
        }
    }

    /// A part of the home block is whole.
    pub(super) fn on_whole_part(
        &mut self,
        now: Instant,
        of: DcId,
        fragment: usize,
        store: &mut ShardStore,
    ) {
        let number = self.completed[fragment] + 1;
        let Some(quorum) = &mut self.quorum else { return };
        let gathered = &mut quorum.gathered[fragment];
        gathered.complete(of, self.id.dc, now, number, quorum.needed);

        // A home that is late itself begins the round before its grace is over, so that other homes have its part sooner.
        if gathered.since.is_some() && !quorum.is_closed() {
            let clock = self.due[fragment][self.id.dc.index()];
            self.catch_up(now, fragment, clock, store);
        }
        self.close_if_due(now, fragment, store);
    }

    /// Closes the open round of a home block, if a quorum is in and its grace is over.
    pub(super) fn close_if_due(&mut self, now: Instant, fragment: usize, store: &mut ShardStore) {
        if !self.is_due(now, fragment) {
            return;
        }
        let own = self.id.dc;
        let clock = self.due[fragment][own.index()];
        let number = self.completed[fragment] + 1;
        let Some(quorum) = &mut self.quorum else { return };
        let gathered = &mut quorum.gathered[fragment];
        let total = gathered.take_total();
        let start = self.rounds.block(fragment, own).start;
        let of_links = self.links.iter_mut().filter(|_| gathered.parameters > 0);
        for (to, link) in of_links {
            let missing = number - gathered.parts[to.index()];
            if missing > 0 {
                let part = Part::exact(vec![start as u32], vec![missing as f32]);
                link.push(Job::new(BulkKind::Missing, clock, Arc::new(part)));
            }
        }

        self.close_round(now, fragment, clock, total, store);
    }

    /// When this data center begins a fragment's round by itself, since workers may wait for it in vain.
    pub(super) fn begins_alone_at(&self, fragment: usize) -> Option<Instant> {
        let quorum =
            self.quorum.as_ref().filter(|quorum| quorum.has_siblings && !quorum.is_closed());
        let since = quorum?.gathered[fragment].behind_since?;
        Some(since + self.pace.typical_rounds(BEHIND_ROUNDS, self.rounds.steps))
    }

    /// Begins a fragment's round that others have begun long ago.
    pub(super) fn begin_alone_if_due(
        &mut self,
        now: Instant,
        fragment: usize,
        store: &mut ShardStore,
    ) {
        if self.begins_alone_at(fragment).is_some_and(|at| now >= at) {
            let clock = self.due[fragment][self.id.dc.index()];
            self.catch_up(now, fragment, clock, store);
        }
    }

    fn is_due(&self, now: Instant, fragment: usize) -> bool {
        let number = self.completed[fragment] + 1;
        self.quorum.as_ref().is_some_and(|quorum| {
            let rule = (quorum.needed, quorum.grace);
            !quorum.is_closed() && quorum.gathered[fragment].is_due(now, number, rule)
        })
    }

    /// Handles the number of this data center's last parts that a home's next total does not include.
    pub(super) fn on_missing(
        &mut self,
        from: DcId,
        clock: Clock,
        changes: Changes<'_>,
    ) -> Result<(), PeerError> {
        let fragment = self.check_from_home(from, clock, changes)?;
        let Some(quorum) = &mut self.quorum else { return Ok(()) };
        let own = &mut quorum.own[fragment][from.index()];

        // The part of this round is sent with the total at the latest.
        let most = own.uncounted.len() + usize::from(own.next == clock);
        let found = changes.values().first().copied().unwrap_or_default();
        let is_count = found.fract() == 0.0 && found >= 1.0 && found as usize <= most;
        if changes.len() != 1 || !is_count {
            return Err(PeerError::PeerSentWrongCount { from, found, most });
        }
        own.missing = found as usize;
        Ok(())
    }

    /// A home closes no further round.
    pub(super) fn on_closed(&mut self, home: DcId) {
        if let Some(quorum) = &mut self.quorum {
            quorum.closed.insert(home);
        }
    }

    /// Closes no further round, and says so to all other data centers.
    pub(super) fn close_all(&mut self) {
        let Some(quorum) = &mut self.quorum else { return };
        quorum.closed.insert(quorum.dc);
        let nothing = Arc::new(Part::exact(Vec::new(), Vec::new()));
        for link in self.links.values_mut() {
            link.push(Job::new(BulkKind::Closed, Clock::ZERO, nothing.clone()));
        }
    }
}

/// The number of rounds by which a data center's parts may be late.
const BEHIND_MAX: u64 = 4;
/// The number of typical rounds after which a home begins a round that others have begun.
const BEHIND_ROUNDS: u32 = 2;
