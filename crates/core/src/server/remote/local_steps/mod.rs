//! Local steps: data centers train on their own copies and combine their changes in rounds (DiLoCo, Douillard et al.,
//! 2023; fragments, overlap and low precision as in Streaming DiLoCo, Douillard et al., 2025).
//!
//! All data centers hold the same *agreed* values `a`. The changes of a data center's workers since its last round are
//! its *own* change `o`, and its copy is `x = a + f·o`. A round begins at a clock of the data center. The data center
//! sends its part `p`, the own change rounded to the value format, to the home of each block. The part stays in the
//! copy, which is then `x = a + f·p + f·o`, where `o` is the rounding error. The home adds all parts in the order of
//! data centers, computes the outer step `s`, and sends the same bytes to all. All data centers add the same step to
//! their agreed values. Then
//!
//! `x ← (a + s) + f·o`, that is `x + s − f·p`:
//!
//! the agreed step replaces the data center's own part, and the changes of its workers since the round began stay. As
//! in the exchange of BSP, a round costs each data center about twice the model, whatever the number of peers.
//!
//! A worker's delta is its share of one step of all workers, so parts are added up. The factor `f` scales own changes
//! in the copy until then. With `combine = "sum"` it is 1. With `"mean"` it is the number of all workers that change
//! the parameter, divided by the number of those in this data center. So the copy moves as if the other workers made
//! the same changes, and the result of the round is the mean of the copies ([`contributor_counts`]). The only worker of a data
//! center may keep its changes while no round needs them ([`Stretch`]).
//!
//! With a `density` below 1 a part has the largest changes alone. The rest is owed to later rounds, apart from the copy
//! ([`error_feedback`]). With a `total_density` below 1 the home of a block does the same with the steps of its rounds
//! ([`outer`]).
//!
//! With a `drift_correction` a copy begins a round ahead by a share of what the other data centers are expected to contribute
//! to it: `x = a + c + f·o` ([`drift_correction`]).
//!
//! With a `quorum` below 1 a round does not wait for all parts. A late part is added to the next round, and stays in the
//! copy until then ([`quorum`]).

mod contributor_counts;
mod drift_correction;
mod error_feedback;
mod job_link;
mod outer;
mod pace;
mod quorum;
mod rounds;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{ClockFacts, RemoteModel, RemoteStretch};
use crate::codec::Changes;
use crate::node::{Lane, Stretch};
use crate::persist;
use crate::server::TimeoutReason;
use crate::server::blocks::sums::{Changed, Sum, add_change, add_frame};
use crate::server::blocks::{Drain, DrainMethod, check_span};
use crate::server::blocks::{Job, Part, TablePart};
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{LinkStats, Watermark};
use crate::store::{ShardRows, ShardStore, Touched};
use crate::sync::{Combine, Gate, LocalStepsConfig, ValueFormat, WaitReason};
use crate::types::{Clock, Content, DcId, Instant, ServerId, ShardLayout, Tightness};
use crate::wire::{BulkHeader, BulkKind};

use contributor_counts::{ContributorCounts, Factors};
use drift_correction::DriftCorrection;
use error_feedback::ErrorFeedback;
use job_link::JobLink;
use outer::OuterStep;
use pace::Pace;
use quorum::Quorum;
use rounds::Rounds;

/// One server's part of the rounds.
#[derive(Debug)]
pub(super) struct LocalSteps {
    id: ServerId,
    rounds: Rounds,
    pace: Pace,
    format: ValueFormat,
    /// The tables of each block, by fragment and home.
    tables: Vec<Vec<Vec<TablePart>>>,
    /// The factors of own changes in the copy.
    factors: Factors,
    /// Whether rounds add up changes, and agree on no mean.
    adds_up: bool,
    /// The workers that change the home blocks, by fragment. Empty if they are not counted.
    contributors: Vec<ContributorCounts>,
    agreed: Vec<f32>,
    /// The changes of this data center's workers that no round includes.
    own: Vec<f32>,
    /// What rounds have not sent, apart from the copy. `None` if rounds send all changes.
    error_feedback: Option<ErrorFeedback>,
    /// By what the copy is ahead. `None` if it begins rounds at the agreed values.
    drift_correction: Option<DriftCorrection>,
    /// The parameters changed since the data center's clock last advanced.
    touched: Touched,
    /// The outer optimisers of the home blocks, by fragment.
    outer: Vec<OuterStep>,
    /// Incomplete sums of home blocks, by the clock of their round. Empty with a quorum.
    sums: BTreeMap<Clock, Sum>,
    /// `None` if rounds wait for all data centers.
    quorum: Option<Quorum>,
    /// The number of finished rounds of the home blocks, by fragment.
    completed: Vec<u64>,
    /// The tightness that this data center requests, and the largest one that was requested in the last round.
    wish: Tightness,
    tightness: Tightness,
    /// The next round of this data center, by fragment.
    next: Vec<Clock>,
    /// The round of the next step to receive, by fragment and home.
    due: Vec<Vec<Clock>>,
    /// How often a step has changed the copy in this process.
    steps_taken: u64,
    /// The rounds that this data center has begun in this process.
    begun: u64,
    links: BTreeMap<DcId, JobLink>,
    drain: Drain,
    /// The method of the drain, once it was requested.
    draining: Option<DrainMethod>,
}

impl LocalSteps {
    pub(super) fn new(
        config: &ServerConfig,
        local_steps: &LocalStepsConfig,
        store: &ShardStore,
    ) -> Self {
        let parameters = store.values().len();
        let values = local_steps.values_for(config.layout.model());
        let local_steps = &LocalStepsConfig { values, ..local_steps.clone() };
        let data_centers = config.links.len() + 1;
        // A single data center has no rounds.
        let fragments = if data_centers == 1 { 0 } else { local_steps.fragments as usize };
        let steps = local_steps.steps;
        let decided = local_steps.guard.is_some().then(BTreeMap::new);
        let blocks = config.blocks.clone();
        let rounds = Rounds { parameters, data_centers, blocks, steps, fragments, decided };
        let first: Vec<Clock> = (0..fragments).map(|fragment| rounds.first(fragment)).collect();
        let link = || JobLink::new(first.clone());

        let dc = config.id.dc;
        let counts = |fragment| {
            ContributorCounts::new(&config.all_workers, rounds.block(fragment, dc).len())
        };
        let adds_up = local_steps.combine == Combine::Sum;
        let contributors = match adds_up || config.deltas_are_shares {
            true => Vec::new(),
            false => (0..fragments).map(counts).collect(),
        };

        let homes = (0..data_centers as u16).map(DcId);
        let tables_of = |fragment| {
            let blocks = homes.clone().map(|home| rounds.block(fragment, home));
            blocks.map(|block| TablePart::all_in(&config.layout, &block)).collect()
        };
        let tables: Vec<Vec<Vec<TablePart>>> = (0..fragments).map(tables_of).collect();
        let home_parameters = (0..fragments).map(|fragment| rounds.block(fragment, dc).len());
        let place = (dc, data_centers);
        let model = config.layout.model();
        let has_initial_values =
            model.table_ids().any(|table| model.is_initialized_by_workers(table));
        let quorum = Quorum::new(
            local_steps,
            place,
            config.shards,
            &first,
            (home_parameters, has_initial_values),
        );
        let outer = (0..fragments).map(|fragment| {
            let tables = tables[fragment][dc.index()].clone();
            OuterStep::new(local_steps, rounds.block(fragment, dc).len(), tables)
        });
        let error_feedback = local_steps
            .is_sparse()
            .then(|| ErrorFeedback::new(local_steps.density, local_steps.values, parameters));

        let share = local_steps.drift_correction;
        let drift_correction = (share > 0.0)
            .then(|| DriftCorrection::new(share, &config.layout, fragments, data_centers));

        Self {
            id: config.id,
            pace: Pace::new(local_steps, fragments),
            format: local_steps.values,
            factors: Factors::new(local_steps.combine, config, parameters),
            adds_up,
            contributors,
            agreed: store.values().to_vec(),
            own: vec![0.0; parameters],
            error_feedback,
            drift_correction,
            touched: Touched::none(parameters),
            outer: outer.collect(),
            tables,
            sums: BTreeMap::new(),
            quorum,
            completed: vec![0; fragments],
            wish: Tightness::NONE,
            tightness: Tightness::NONE,
            due: first.iter().map(|first| vec![*first; data_centers]).collect(),
            steps_taken: 0,
            begun: 0,
            links: config.links.keys().map(|peer| (*peer, link())).collect(),
            next: first,
            drain: Drain::new(
                config.drain,
                dc,
                config.links.keys().copied(),
                &config.blocks,
                parameters,
            ),
            draining: None,
            rounds,
        }
    }
}

impl RemoteModel for LocalSteps {
    fn on_change(&mut self, _: Clock, place: Range<usize>, change: &[f32], values: &mut [f32]) {
        for (own, change) in self.own[place.clone()].iter_mut().zip(change) {
            *own += change;
        }
        self.factors.on_change(place.clone(), change, values);
        self.touched.insert_range(place);
    }

    /// Begins the round of this clock, if a fragment has one.
    fn on_clock(
        &mut self,
        now: Instant,
        finished: Clock,
        store: &mut ShardStore,
        facts: ClockFacts,
    ) {
        self.pace.on_clock(now);
        for (to, link) in &mut self.links {
            let blocks = (0..self.rounds.fragments).map(|at| self.rounds.block(at, *to));
            let changes = blocks.map(|block| self.touched.count_range(block)).sum::<usize>();
            link.stats.changes += facts.clocks * changes as u64;
        }
        self.touched.clear();

        if self.quorum.is_some() {
            self.pass_clock(now, finished, store);
            return;
        }
        let fragment = self.rounds.fragment_at(finished);
        if let Some(fragment) = fragment.filter(|fragment| self.next[*fragment] == finished) {
            self.begin_round(now, fragment, finished, store);
        }
    }

    /// With a quorum of data centers, a part leaves only after the total before.
    fn may_finish(&self, clock: Clock) -> bool {
        self.quorum.is_some() || self.awaited_at(clock).is_none()
    }

    fn gate(&self, clock: Clock, _: &ShardRows, _: Duration, _: &ShardStore) -> Gate {
        match self.awaited_at(clock) {
            Some(from) => Gate::Closed(WaitReason::Updates { from }),
            None => Gate::Open,
        }
    }

    fn on_received(&mut self, _: Instant, from: DcId) -> Result<(), PeerError> {
        self.links.contains_key(&from).then_some(()).ok_or(PeerError::UnknownPeer { from })
    }

    fn on_bulk(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        let link = self.links.get(&from).ok_or(PeerError::UnknownPeer { from })?;
        link.check(from, header)?;
        let unexpected = |sync| {
            let found = header.kind.name();
            Err(PeerError::PeerSentUnexpectedKind { from, found, sync })
        };
        let stray = header.tightness != Tightness::NONE
            && (header.kind != BulkKind::Partial || self.rounds.decided.is_none());

        match header.kind {
            _ if stray => return unexpected("a run without a guard"),
            BulkKind::Partial => self.on_partial(now, from, header, changes, store)?,
            BulkKind::Total => self.on_total(now, from, header, changes, store)?,
            BulkKind::Changed if self.tells_what_it_changes() => {
                self.on_changed(from, header.clock, changes)?;
            }
            BulkKind::Workers if self.counts_workers() => {
                self.check_from_home(from, header.clock, changes)?;
                self.factors.on_workers(changes);
            }
            BulkKind::Missing if self.quorum.is_some() => {
                self.on_missing(from, header.clock, changes)?;
            }
            BulkKind::Closed if self.quorum.is_some() => self.on_closed(from),
            BulkKind::DrainCopy if self.has_taken_all_parts_of(from) => {
                self.drain.on_copy(from, changes, header.last)?;
            }
            BulkKind::DrainResult if self.drain.is_started() => {
                self.drain.on_result(from, changes, header.last, store.values_mut())?;
            }
            _ => return unexpected(self.name()),
        }

        if let Some(link) = self.links.get_mut(&from) {
            link.on_taken(header);
        }
        self.advance_drain(store);
        Ok(())
    }

    fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        if lane == Lane::Control {
            return None;
        }
        let link = self.links.get_mut(&to)?;
        link.next_frame(self.id, room).or_else(|| {
            let frame = self.drain.next_frame(to, self.id, room, || link.next_sequence())?;
            link.count(&frame);
            Some(frame)
        })
    }

    /// Closes the rounds whose grace is over, and begins those that are waited for in vain.
    fn handle_timeout(&mut self, now: Instant, _: Option<Instant>, store: &mut ShardStore) {
        for fragment in 0..self.rounds.fragments {
            self.begin_alone_if_due(now, fragment, store);
            self.close_if_due(now, fragment, store);
        }
    }

    fn poll_timeout(
        &self,
        _: Option<Instant>,
        _: Option<Instant>,
    ) -> Option<(Instant, TimeoutReason)> {
        let numbers = self.completed.iter().map(|completed| completed + 1);
        let grace_ends = self.quorum.as_ref()?.grace_ends(numbers);
        let begins_alone =
            (0..self.rounds.fragments).filter_map(|fragment| self.begins_alone_at(fragment));
        let reasons = grace_ends.map(|at| (at, TimeoutReason::Grace)).into_iter();
        let reasons = reasons.chain(begins_alone.map(|at| (at, TimeoutReason::RoundNotBegun)));
        reasons.min_by_key(|(at, _)| *at)
    }

    /// Copies are sent once all rounds that have begun are finished. With a quorum, once no home closes a further one.
    fn begin_drain(&mut self, method: DrainMethod, _: &BTreeSet<DcId>, store: &mut ShardStore) {
        self.draining = Some(method);
        self.close_all();
        self.advance_drain(store);
    }

    fn is_drained(&mut self, _: Clock) -> bool {
        self.drain.is_done()
    }

    fn next_sequence(&mut self, to: DcId) -> Option<u64> {
        self.links.get_mut(&to).map(JobLink::next_sequence)
    }

    fn on_probe(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        _: &mut ShardStore,
    ) -> Result<(), PeerError> {
        let link = self.links.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        link.check(from, header)?;
        link.on_taken(header);
        Ok(())
    }

    /// The request is sent with the parts of the next round.
    fn wish(&mut self, wish: Tightness) {
        self.wish = wish;
    }

    /// The largest tightness requested in the last round.
    fn tightness(&self) -> Tightness {
        self.tightness
    }

    /// Whether a round begins after the iteration that starts at `clock`.
    fn is_loosest_at(&self, clock: Clock) -> bool {
        self.next.contains(&clock.next())
    }

    /// A round needs what workers have changed by the clock at which it begins. What enters the copy until then enters it
    /// beside their changes.
    fn stretch(&self) -> Option<RemoteStretch> {
        // With a quorum a total can begin a round at any time.
        if self.quorum.is_some() || self.draining.is_some() {
            return None;
        }
        let next = self.next.iter().min()?;
        let hands_over_at = Clock(next.0.saturating_sub(1));
        let stretch = Stretch { hands_over_at, factor: self.factors.common()? };
        Some(RemoteStretch { stretch, changes_of_others: self.steps_taken })
    }

    /// With a quorum a part can have changes of any clock, with a guard its frame says what workers have measured, and the
    /// drain sends whole copies.
    fn rounds_begun(&self) -> Option<u64> {
        let has_others =
            self.quorum.is_some() || self.rounds.decided.is_some() || self.draining.is_some();
        (!has_others).then_some(self.begun)
    }

    fn name(&self) -> &'static str {
        "local-steps"
    }

    /// The clock of rounds, which with a quorum counts the clocks that this data center has skipped.
    fn copy_clock(&self, clock: Clock) -> Clock {
        self.quorum.as_ref().map_or(clock, |quorum| quorum.round_clock(clock))
    }

    /// The agreed values. The copy also has steps that no round includes.
    fn agreed(&self) -> Option<&[f32]> {
        (self.rounds.data_centers > 1).then_some(&self.agreed)
    }

    fn stats(&self, to: DcId) -> LinkStats {
        self.links[&to].stats
    }

    fn watermarks(&self) -> Vec<Watermark> {
        self.links.iter().map(|(peer, link)| link.watermark(*peer)).collect()
    }
}

persist! {
    impl Persist<&ShardLayout> for LocalSteps {
        fn walk(
            Self {
                id,
                rounds,
                pace,
                format: _,
                tables: _,
                adds_up: _,
                factors,
                contributors,
                agreed,
                own,
                error_feedback,
                drift_correction,
                touched,
                outer,
                sums,
                quorum,
                completed,
                wish,
                tightness,
                next,
                due,
                steps_taken: _,
                begun: _,
                links,
                drain,
                draining,
            },
            walk,
            _,
        ) {
            walk.flatten(rounds, ())?;
            walk.flatten(factors, ())?;
            for (fragment, counts) in (0..).zip(contributors) {
                walk.part(format_args!("contributor_counts.{fragment}"), counts, ())?;
            }
            walk.tensor("agreed", Content::Values, agreed)?;
            let parameters = agreed.len();
            walk.tensor("own", Content::Changes, own)?;
            if let Some(error_feedback) = error_feedback {
                walk.part("error_feedback", error_feedback, ())?;
            }
            if let Some(drift_correction) = drift_correction {
                walk.part("drift_correction", drift_correction, ())?;
            }
            walk.flatten(touched, ("touched", parameters))?;
            walk.flatten(pace, ())?;
            for (fragment, outer) in (0..).zip(outer) {
                walk.part(format_args!("outer.{fragment}"), outer, ())?;
            }

            let dc = id.dc;
            let sum = |clock: &Clock| {
                let size = rounds.block(rounds.fragment_at(*clock)?, dc).len();
                Some(Sum::new(size, rounds.data_centers))
            };
            walk.entries("sums", sums, sum, |one, walk| walk.flatten(one, ()))?;
            if let Some(quorum) = quorum {
                walk.part("quorum", quorum, parameters)?;
            }
            walk.record_that("completed", completed, |a, b| a.len() == b.len())?;
            walk.record("wish", wish)?;
            walk.record("tightness", tightness)?;
            walk.record_that("next", next, |a, b| a.len() == b.len())?;
            walk.record_that("due", due, |found, made| {
                found.iter().map(Vec::len).eq(made.iter().map(Vec::len))
            })?;

            walk.parts(links, parameters)?;
            walk.part("drain", drain, ())?;
            walk.record("draining", draining)
        }
    }
}

impl LocalSteps {
    /// The data center for whose updates a read at a clock waits. A round must be finished `overlap` clocks after it
    /// began, and before the fragment's next round. Nothing waits for a home that closes no further round: at the end of a run a
    /// worker that comes back may have a clock to do again.
    fn awaited_at(&self, clock: Clock) -> Option<DcId> {
        let clock = self.copy_clock(clock);
        let closes = |home: usize| {
            self.quorum.as_ref().is_none_or(|quorum| !quorum.has_closed(DcId(home as u16)))
        };
        self.due.iter().enumerate().find_map(|(fragment, due)| {
            let is_late = |due: Clock| {
                let before_next = self.rounds.after(due).ahead_of(due).saturating_sub(1);
                let overlap = self.pace.overlap(fragment).min(before_next);
                due.0.saturating_add(overlap) <= clock.0
            };
            let home = (0..due.len()).find(|home| is_late(due[*home]) && closes(*home))?;
            Some(self.awaited(home, due[home]))
        })
    }

    /// Begins a round: takes this data center's part from its own changes.
    fn begin_round(&mut self, now: Instant, fragment: usize, clock: Clock, store: &mut ShardStore) {
        let next = self.rounds.after(clock);
        self.next[fragment] = next;
        self.begun += 1;
        self.pace.on_begun(now, fragment, next.ahead_of(clock));

        for home in (0..self.rounds.data_centers as u16).map(DcId) {
            self.send_part(home, fragment, clock);
        }

        let wish = self.wish;
        self.sum(clock).wish(wish);
        self.complete_part(now, self.id.dc, fragment, clock, store);
    }

    /// Takes this data center's part of a block from its own changes, and sends it to the home.
    fn send_part(&mut self, home: DcId, fragment: usize, clock: Clock) {
        if self.tells_what_it_changes() && self.round_number(fragment, clock).is_power_of_two() {
            self.tell_what_it_changes(home, fragment, clock);
        }

        let block = self.rounds.block(fragment, home);
        let number = self.round_number(fragment, clock);
        let own = &mut self.own[block.clone()];
        let part = match &mut self.error_feedback {
            Some(error_feedback) => {
                let tables = self.tables[fragment][home.index()].as_slice();
                error_feedback.take(own, block.clone(), (tables, number))
            }
            None => {
                let part = Part::take(own, block.start, self.format);
                self.touched.insert_nonzero(block.start, own);
                part
            }
        };

        if let Some(drift_correction) = &mut self.drift_correction {
            drift_correction.on_part((fragment, home), block, part.changes());
        }
        let part = Arc::new(part);
        if let Some(quorum) = &mut self.quorum {
            quorum.on_sent(fragment, home, clock, &part);
        }
        match self.links.get_mut(&home) {
            Some(link) => {
                let mut job = Job::new(BulkKind::Partial, clock, part);
                job.tightness = self.wish;
                link.push(job);
            }
            None => self.add_part(home, fragment, clock, part.changes()),
        }
    }

    /// The number of a fragment's round, from 1. With a quorum it can be ahead of the rounds that are finished here.
    fn round_number(&self, fragment: usize, clock: Clock) -> u64 {
        match self.quorum {
            Some(_) => {
                let steps = self.rounds.after(clock).ahead_of(clock);
                clock.ahead_of(self.rounds.first(fragment)) / steps + 1
            }
            None => self.completed[fragment] + 1,
        }
    }

    /// Whether homes must be told which parameters this data center changes, since sparse parts do not show it.
    fn tells_what_it_changes(&self) -> bool {
        self.error_feedback.is_some() && self.counts_workers()
    }

    /// Whether homes count the workers that change each parameter.
    fn counts_workers(&self) -> bool {
        !self.contributors.is_empty()
    }

    /// Tells a home which parameters of its block this data center has changed for the first time.
    fn tell_what_it_changes(&mut self, home: DcId, fragment: usize, clock: Clock) {
        let block = self.rounds.block(fragment, home);
        let Some(error_feedback) = &mut self.error_feedback else { return };
        let own = &self.own[block.clone()];
        let Some(changed) = error_feedback.first_changed(own, block.clone()) else { return };
        match self.links.get_mut(&home) {
            Some(link) => link.push(Job::new(BulkKind::Changed, clock, Arc::new(changed))),
            None => changed.changes().for_each(|first, count| {
                let changed = first..first + count as usize;
                self.contributors[fragment].on_changed(home, block.start, changed);
            }),
        }
    }

    /// Handles the parameters that a data center has changed for the first time.
    fn on_changed(
        &mut self,
        from: DcId,
        clock: Clock,
        changes: Changes<'_>,
    ) -> Result<(), PeerError> {
        let fragment = self.fragment_of_part(from, clock)?;
        let block = self.rounds.block(fragment, self.id.dc);
        check_span(from, changes, &block)?;

        // Runs of one frame do not overlap, so that a frame costs no more than the block.
        let (mut wrong, mut end) = (Ok(()), block.start);
        changes.for_each(|first, found| {
            let most = block.end - first;
            let is_whole = found >= 1.0 && found.fract() == 0.0;
            if first < end || !is_whole || found as usize > most {
                wrong = Err(PeerError::PeerSentWrongRun { from, first, found, most });
            } else {
                end = first + found as usize;
            }
        });
        wrong?;

        let counts = &mut self.contributors[fragment];
        changes.for_each(|first, count| {
            counts.on_changed(from, block.start, first..first + count as usize);
        });
        Ok(())
    }

    fn on_partial(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        let clock = header.clock;
        let fragment = self.fragment_of_part(from, clock)?;
        check_span(from, changes, &self.rounds.block(fragment, self.id.dc))?;

        self.add_part(from, fragment, clock, changes);
        if self.quorum.is_none() {
            self.sum(clock).wish(header.tightness);
        }
        if header.last {
            if let Some(link) = self.links.get_mut(&from) {
                link.parts[fragment] = self.rounds.after(clock);
            }
            self.complete_part(now, from, fragment, clock, store);
        }
        Ok(())
    }

    /// The fragment of a part. Checks that the part is the next one of its data center.
    fn fragment_of_part(&self, from: DcId, clock: Clock) -> Result<usize, PeerError> {
        let expected = |fragment: usize| self.links[&from].parts[fragment];
        let fragment = self.fragment_of(from, clock, expected)?;

        // A data center begins a round once it has finished the one before. Then this home has sent it the step.
        let open = self.due[fragment][self.id.dc.index()];
        if clock > open {
            return Err(PeerError::PeerSentEarlyClock { from, found: clock, below: open.next() });
        }
        Ok(fragment)
    }

    fn on_total(
        &mut self,
        now: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        let fragment = self.check_from_home(from, header.clock, changes)?;
        if self.quorum.is_some() {
            self.catch_up(now, fragment, header.clock, store);
        }
        self.add_step(fragment, from, changes);
        if header.last {
            self.finish(now, from, fragment, header.clock, store);
        }
        Ok(())
    }

    /// The fragment of a home's frame. Checks that the frame is the next one and within the home's block.
    fn check_from_home(
        &self,
        from: DcId,
        clock: Clock,
        changes: Changes<'_>,
    ) -> Result<usize, PeerError> {
        let fragment =
            self.fragment_of(from, clock, |fragment| self.due[fragment][from.index()])?;
        // A step includes this data center's part, unless it need not wait for it.
        let below = self.next[fragment];
        if clock >= below && self.quorum.is_none() {
            return Err(PeerError::PeerSentEarlyClock { from, found: clock, below });
        }
        check_span(from, changes, &self.rounds.block(fragment, from))?;
        Ok(fragment)
    }

    /// The fragment of a frame of `clock`, if that is the expected round.
    fn fragment_of(
        &self,
        from: DcId,
        clock: Clock,
        expected: impl Fn(usize) -> Clock,
    ) -> Result<usize, PeerError> {
        let found = self.rounds.fragment_at(clock);
        let expected = match found {
            Some(fragment) if expected(fragment) == clock => return Ok(fragment),
            Some(fragment) => expected(fragment),
            None => (0..self.rounds.fragments).map(expected).min().unwrap_or_default(),
        };
        Err(PeerError::PeerSentWrongClock { from, found: clock, expected })
    }

    fn add_part(&mut self, of: DcId, fragment: usize, clock: Clock, changes: Changes<'_>) {
        let start = self.rounds.block(fragment, self.id.dc).start;
        match &mut self.quorum {
            Some(quorum) => quorum.receive(of, fragment, changes, start),
            None => self.sum(clock).receive(of, changes, start),
        }
        if let Some(counts) = self.contributors.get_mut(fragment) {
            counts.on_part(of, start, changes);
        }
    }

    /// Marks a data center's part as complete. With the last of them the home takes the outer step.
    fn complete_part(
        &mut self,
        now: Instant,
        of: DcId,
        fragment: usize,
        clock: Clock,
        store: &mut ShardStore,
    ) {
        if self.quorum.is_some() {
            self.on_whole_part(now, of, fragment, store);
            return;
        }
        if !self.sum(clock).complete(of) {
            return;
        }
        let sum = self.sums.remove(&clock).expect("a sum was found");
        self.tightness = sum.tightness();
        self.rounds.decide(clock, self.tightness);
        self.close_round(now, fragment, clock, sum.total(), store);
    }

    /// Takes the outer step of a home block for the total of a round, and sends it to all.
    fn close_round(
        &mut self,
        now: Instant,
        fragment: usize,
        clock: Clock,
        total: Changed,
        store: &mut ShardStore,
    ) {
        let start = self.rounds.block(fragment, self.id.dc).start;
        self.completed[fragment] += 1;
        let number = self.completed[fragment];
        if let Some(counts) = self.contributors.get_mut(fragment)
            && let Some(workers) = counts.take_due(number, start)
        {
            self.factors.on_workers(workers.changes());
            self.send_to_all(BulkKind::Workers, clock, workers);
        }

        let step = self.outer[fragment].step(&total.values, start, number);
        self.add_step(fragment, self.id.dc, step.changes());
        self.send_to_all(BulkKind::Total, clock, step);
        self.finish(now, self.id.dc, fragment, clock, store);
    }

    fn send_to_all(&mut self, kind: BulkKind, clock: Clock, part: Part) {
        let part = Arc::new(part);
        for link in self.links.values_mut() {
            link.push(Job::new(kind, clock, part.clone()));
        }
    }

    /// Adds changes of a home's step to the agreed values.
    fn add_step(&mut self, fragment: usize, home: DcId, changes: Changes<'_>) {
        if self.pace.measures_corrections() {
            let squares = changes.values().iter().map(|change| f64::from(*change).powi(2));
            self.pace.on_step(fragment, squares.sum());
        }
        add_frame(&mut self.agreed, changes);
        if let Some(drift_correction) = &mut self.drift_correction {
            drift_correction.on_step((fragment, home), changes);
        }
    }

    /// A home's step of a round is in the agreed values. Sets the copy to these plus the own changes that no round
    /// includes, ahead by what is expected of others.
    fn finish(
        &mut self,
        now: Instant,
        home: DcId,
        fragment: usize,
        clock: Clock,
        store: &mut ShardStore,
    ) {
        if let Some(quorum) = &mut self.quorum {
            quorum.on_total(fragment, home);
        }
        let block = self.rounds.block(fragment, home);
        let copy = &mut store.values_mut()[block];
        let before = self.pace.measures_corrections().then(|| copy.to_vec());
        self.write_copy((fragment, home), self.drift_correction.as_ref(), copy);
        let corrections = before.iter().flatten().zip(&*copy).map(|(before, after)| before - after);
        let square = corrections.map(|correction| f64::from(correction).powi(2)).sum();
        self.pace.on_corrected(fragment, square);
        self.steps_taken += 1;

        let after = self.rounds.after(clock);
        self.due[fragment][home.index()] = after;
        if self.due[fragment].iter().all(|due| *due >= after) {
            self.pace.on_finished(now, fragment);
        }
        self.send_part_if_due(now, fragment, home, store);
    }

    /// Writes the copy of the block of a fragment and a home: the agreed values and the own changes that no round includes, ahead by
    /// what this correction expects of others.
    fn write_copy(
        &self,
        (fragment, home): (usize, DcId),
        ahead: Option<&DriftCorrection>,
        copy: &mut [f32],
    ) {
        let block = self.rounds.block(fragment, home);
        let own = self.own_of(fragment, home);
        // Piece by piece, so that a copy that is moved ahead is still at hand.
        let pieces = copy.chunks_mut(PIECE).zip(own.chunks(PIECE));
        for (start, (copy, own)) in block.step_by(PIECE).zip(pieces) {
            let piece = start..start + copy.len();
            self.factors.write_copy(piece.clone(), (&self.agreed[piece.clone()], own), copy);
            if let Some(ahead) = ahead {
                ahead.correct((fragment, home), piece, copy);
            }
        }
    }

    /// The own changes to a block that no total includes.
    fn own_of(&self, fragment: usize, home: DcId) -> Cow<'_, [f32]> {
        let block = self.rounds.block(fragment, home);
        let mut own = Cow::Borrowed(&self.own[block.clone()]);
        let uncounted = self.quorum.iter().flat_map(|quorum| quorum.uncounted_of(fragment, home));
        for part in uncounted {
            let own = own.to_mut();
            part.changes().for_each(|index, change| own[index - block.start] += change);
        }
        own
    }

    fn advance_drain(&mut self, store: &mut ShardStore) {
        let Some(method) = self.draining else { return };
        if !self.drain.is_started() && self.is_between_rounds() {
            let copy = match method {
                DrainMethod::Mean => self.with_owed(self.uncorrected(store.values())),
                DrainMethod::Residuals => self.with_residuals(),
            };
            let residuals = self.residuals();
            self.drain.start(&copy, |_, range| residuals[range].to_vec());
        }

        if self.drain.is_started() {
            self.drain.conclude(store.values_mut());
        }
    }

    /// The own changes that no round includes, with what earlier rounds and the steps of the home blocks have not sent.
    fn residuals(&self) -> Vec<f32> {
        let mut residuals = self.own.clone();
        if let Some(error_feedback) = &self.error_feedback {
            let owed = residuals.iter_mut().zip(error_feedback.owed());
            owed.for_each(|(residual, owed)| *residual += owed);
        }
        for part in self.quorum.iter().flat_map(Quorum::uncounted) {
            part.changes().for_each(|index, change| residuals[index] += change);
        }
        for (fragment, outer) in self.outer.iter().enumerate() {
            let block = self.rounds.block(fragment, self.id.dc);
            for (value, lost) in residuals[block].iter_mut().zip(outer.lost()) {
                *value += lost;
            }
        }
        residuals
    }

    /// A copy without what it is ahead by: what is expected of others is not what anybody has done.
    fn uncorrected(&self, copy: &[f32]) -> Vec<f32> {
        let mut copy = copy.to_vec();
        if self.drift_correction.is_none() {
            return copy;
        }
        let homes = (0..self.rounds.data_centers as u16).map(DcId);
        for (fragment, home) in
            (0..self.rounds.fragments).flat_map(|at| homes.clone().map(move |home| (at, home)))
        {
            let block = self.rounds.block(fragment, home);
            self.write_copy((fragment, home), None, &mut copy[block]);
        }
        copy
    }

    /// A copy, with late parts and with what it and the steps of its home blocks owe where changes add up, such as counts:
    /// so often that the mean of copies has all of it. Where rounds agree on a mean, what is owed stays out: a network that
    /// is trained with momentum is worse with all of it at once.
    fn with_owed(&self, mut values: Vec<f32>) -> Vec<f32> {
        if !self.adds_up {
            return values;
        }
        let copies = self.rounds.data_centers as f32;
        for part in self.quorum.iter().flat_map(Quorum::uncounted) {
            // The copy has it once.
            let more =
                |index: usize, change| add_change(&mut values[index], (copies - 1.0) * change);
            part.changes().for_each(more);
        }
        if let Some(error_feedback) = &self.error_feedback {
            for (value, owed) in values.iter_mut().zip(error_feedback.owed()) {
                add_change(value, copies * owed);
            }
        }
        for (fragment, outer) in
            self.outer.iter().enumerate().filter(|(_, outer)| outer.is_sparse())
        {
            let block = self.rounds.block(fragment, self.id.dc);
            for (value, lost) in values[block].iter_mut().zip(outer.lost()) {
                add_change(value, copies * lost);
            }
        }
        values
    }

    /// The agreed values, plus the residuals.
    fn with_residuals(&self) -> Vec<f32> {
        let mut values = self.residuals();
        for (value, agreed) in values.iter_mut().zip(&self.agreed) {
            *value += agreed;
        }
        values
    }

    /// Whether all rounds that this data center has begun are finished. With a quorum, whether no home closes a further one.
    fn is_between_rounds(&self) -> bool {
        if let Some(quorum) = &self.quorum {
            return self.links.keys().all(|peer| quorum.is_over_with(*peer));
        }
        (0..self.rounds.fragments).all(|fragment| {
            let next = self.next[fragment];
            self.due[fragment].iter().all(|due| *due == next)
        })
    }

    /// Whether all parts that a peer has sent are in a step, or no step will include them.
    fn has_taken_all_parts_of(&self, peer: DcId) -> bool {
        if let Some(quorum) = &self.quorum {
            return quorum.is_over_with(peer);
        }
        let own = self.id.dc.index();
        self.links[&peer].parts.iter().zip(&self.due).all(|(part, due)| *part == due[own])
    }

    fn sum(&mut self, clock: Clock) -> &mut Sum {
        let fragment = self.rounds.fragment_at(clock).expect("a sum belongs to a round");
        let size = self.rounds.block(fragment, self.id.dc).len();
        let data_centers = self.rounds.data_centers;
        self.sums.entry(clock).or_insert_with(|| Sum::new(size, data_centers))
    }

    /// The data center that a missing step waits for: the home or, if this data center is the home, the first one whose
    /// part is missing.
    fn awaited(&self, home: usize, clock: Clock) -> DcId {
        let home = DcId(home as u16);
        if home != self.id.dc {
            return home;
        }
        if let (Some(quorum), Some(fragment)) = (&self.quorum, self.rounds.fragment_at(clock)) {
            return quorum.awaited(fragment, self.completed[fragment] + 1).unwrap_or(home);
        }
        self.sums.get(&clock).and_then(Sum::missing).unwrap_or(home)
    }
}

/// The parameters of a copy that are written at once. They and what they are made of fit the first cache.
const PIECE: usize = 1 << 10;
