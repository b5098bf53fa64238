//! BSP and SSP: efficient baselines for ASP.
//!
//! Each data center is home to one block of the shard. When a data center has finished a clock, it sends the sum of its
//! workers' changes to the home of each block. The home sums over data centers in their order, and sends the total to
//! all. This is a reduce-scatter and an all-gather. So a clock costs each data center about twice the model in total,
//! not once per peer. Frames are dense or sparse, whichever is smaller. All data centers add the same totals in the
//! same order, so that their `global` values are equal to the bit.
//!
//! BSP is SSP with a staleness of 0. The room decides when a part and a total are sent, and which read waits for which
//! total. It does not support mirrors that fail or leave: each clock needs all of them.

mod link;

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::{ClockFacts, RemoteModel};
use crate::codec::{Changes, quantise};
use crate::node::Lane;
use crate::persist;
use crate::server::blocks::sums::{Changed, Cutting, Sum, add_frame};
use crate::server::blocks::{Blocks, check_span};
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{LinkStats, Watermark};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{BspConfig, Gate, SspConfig, ValueFormat, WaitReason};
use crate::types::{Clock, Content, DcId, Instant, ServerId, ShardLayout, Staleness, Tightness};
use crate::wire::{BulkHeader, BulkKind, encode_bulk};

use link::{ExchangeLink, Job};

/// One server's part of the exchange of whole clocks.
#[derive(Debug)]
pub(super) struct Exchange {
    id: ServerId,
    data_centers: usize,
    blocks: Blocks,
    staleness: Staleness,
    format: ValueFormat,
    /// The initial values and all totals: the model that all data centers agree on.
    global: Vec<f32>,
    /// The changes of this data center's workers, by the clock at which the iteration started, until the totals include
    /// them.
    own: BTreeMap<Clock, Changed>,
    /// The first clock whose part was not sent. Rounding errors are added to it.
    open: Clock,
    /// Incomplete sums of the home block.
    sums: BTreeMap<Clock, Sum>,
    /// Complete sums of the home block that were not sent on all links.
    totals: BTreeMap<Clock, Changed>,
    /// The number of clocks whose total was received, per home.
    done: Vec<Clock>,
    links: BTreeMap<DcId, ExchangeLink>,
    cutting: Cutting,
    /// Memory for the changes of clocks to come.
    spare: Vec<Changed>,
}

impl Exchange {
    /// BSP: a read sees all clocks before its own.
    pub(super) fn bsp(config: &ServerConfig, bsp: &BspConfig, store: &ShardStore) -> Self {
        Self::new(config, Staleness(0), bsp.values, store)
    }

    /// SSP: a read may miss the last clocks, as many as the staleness.
    pub(super) fn ssp(config: &ServerConfig, ssp: &SspConfig, store: &ShardStore) -> Self {
        Self::new(config, ssp.staleness, ssp.values, store)
    }

    fn new(
        config: &ServerConfig,
        staleness: Staleness,
        format: ValueFormat,
        store: &ShardStore,
    ) -> Self {
        let data_centers = config.links.len() + 1;
        Self {
            id: config.id,
            data_centers,
            blocks: config.blocks.clone(),
            staleness,
            format,
            global: store.values().to_vec(),
            own: BTreeMap::new(),
            open: Clock::ZERO,
            sums: BTreeMap::new(),
            totals: BTreeMap::new(),
            done: vec![Clock::ZERO; data_centers],
            links: config.links.keys().map(|peer| (*peer, ExchangeLink::default())).collect(),
            cutting: Cutting::default(),
            spare: Vec::new(),
        }
    }
}

impl RemoteModel for Exchange {
    fn on_change(&mut self, clock: Clock, place: Range<usize>, change: &[f32], _: &mut [f32]) {
        self.own_of(clock).add_run(place, change);
    }

    /// Schedules this data center's part of the clock for each home.
    fn on_clock(&mut self, _: Instant, finished: Clock, store: &mut ShardStore, _: ClockFacts) {
        let clock = Clock(finished.0 - 1);
        let parameters = self.global.len();
        let own = self.own.remove(&clock);
        let mut own = own.unwrap_or_else(|| no_changes(&mut self.spare, self.global.len()));
        self.open = finished;
        self.round(&mut own);

        for (to, link) in &mut self.links {
            let block = self.blocks.range(parameters, *to);
            link.stats.changes += own.touched.count_range(block.clone()) as u64;
            link.jobs.push_back(Job { kind: BulkKind::Partial, clock, cursor: block.start });
        }

        let part = own.part(self.home());
        self.own.insert(clock, own);
        let dc = self.id.dc;
        self.sum(clock).take(dc, part);
        self.complete_part(clock, dc, store);
    }

    /// All totals up to `clock - staleness` must be received.
    fn gate(&self, clock: Clock, _: &ShardRows, _: &ShardStore) -> Gate {
        let due = Clock(clock.0.saturating_sub(self.staleness.0));
        let late = self.done.iter().enumerate().find(|(_, done)| **done < due);
        match late {
            Some((home, _)) => Gate::Closed(WaitReason::Updates { from: self.awaited(home, due) }),
            None => Gate::Open,
        }
    }

    fn on_received(&mut self, _: Instant, from: DcId) -> Result<(), PeerError> {
        self.links.contains_key(&from).then_some(()).ok_or(PeerError::UnknownPeer { from })
    }

    fn on_bulk(
        &mut self,
        _: Instant,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) -> Result<(), PeerError> {
        self.check(from, header, changes)?;
        let link = self.links.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        link.received = header.sequence;

        match header.kind {
            BulkKind::Total => self.on_total(from, header, changes, store),
            _ => self.on_partial(from, header, changes, store),
        }
        Ok(())
    }

    fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        if lane == Lane::Control {
            return None;
        }

        // A total covers the home block only, a part covers the whole shard.
        let job = *self.links.get(&to)?.jobs.front()?;
        let (source, range) = match job.kind {
            BulkKind::Total => (&self.totals[&job.clock], self.home()),
            _ => (&self.own[&job.clock], self.block(to)),
        };
        let offset = if job.kind == BulkKind::Total { range.start } else { 0 };
        let end = self.cutting.fill(source, job.cursor..range.end, offset, self.format, room);

        let link = self.links.get_mut(&to)?;
        link.sequence += 1;
        let header = BulkHeader {
            kind: job.kind,
            origin: self.id.dc,
            shard: self.id.shard,
            sequence: link.sequence,
            clock: job.clock,
            last: end == range.end,
            relayed: false,
            tightness: Tightness::NONE,
        };
        let mut frame = Vec::with_capacity(room.min(1 << 16));
        let changes = self.cutting.changes(source);
        encode_bulk(&header, changes, self.format, &mut frame);

        let updates = changes.len() as u64;
        link.stats.frames += 1;
        link.stats.data_bytes += frame.len() as u64;
        link.stats.updates += updates;
        if job.kind == BulkKind::Partial {
            link.stats.carried += updates;
        }

        if header.last {
            link.jobs.pop_front();
            self.forget_carried();
        } else if let Some(front) = link.jobs.front_mut() {
            front.cursor = end;
        }
        Some(Bytes::from(frame))
    }

    /// Whether no job is unsent and all clocks up to `clock` are in the global values.
    fn is_drained(&self, clock: Clock) -> bool {
        self.shared_clock() >= clock && self.links.values().all(|link| link.jobs.is_empty())
    }

    fn end_drain(&self, store: &mut ShardStore) {
        store.values_mut().copy_from_slice(&self.global);
    }

    fn name(&self) -> &'static str {
        "bsp or ssp"
    }

    fn copy_clock(&self, _: Clock) -> Clock {
        self.shared_clock()
    }

    fn agreed(&self) -> Option<&[f32]> {
        Some(&self.global)
    }

    /// The clock up to which the totals of the block whose home is `of` were received.
    fn mirror_clock(&self, of: DcId) -> Option<Clock> {
        Some(self.done[of.index()])
    }

    fn stats(&self, to: DcId) -> LinkStats {
        self.links[&to].stats
    }

    fn watermarks(&self) -> Vec<Watermark> {
        self.links.iter().map(|(peer, link)| link.watermark(*peer)).collect()
    }
}

persist! {
    impl Persist<&ShardLayout> for Exchange {
        fn walk(
            Self {
                id,
                data_centers,
                blocks,
                staleness: _,
                format: _,
                global,
                own,
                open,
                sums,
                totals,
                done,
                links,
                cutting: _,
                spare: _,
            },
            walk,
            _,
        ) {
            walk.tensor("global", Content::Values, global)?;
            let (parameters, data_centers) = (global.len(), *data_centers);
            let home = blocks.range(parameters, id.dc).len();

            let part = |_: &_| Some(Changed::none(parameters));
            walk.entries("own", own, part, |one, walk| walk.flatten(one, ()))?;
            walk.record("open", open)?;
            let sum = |_: &_| Some(Sum::new(home, data_centers));
            walk.entries("sums", sums, sum, |one, walk| walk.flatten(one, ()))?;
            let total = |_: &_| Some(Changed::none(home));
            walk.entries("totals", totals, total, |one, walk| walk.flatten(one, ()))?;
            walk.record_that("done", done, |found, _| found.len() == data_centers)?;

            let carries: &dyn Fn(&Job) -> bool = &|job| {
                let source = match job.kind {
                    BulkKind::Total => totals.contains_key(&job.clock),
                    _ => own.contains_key(&job.clock),
                };
                source && job.cursor <= parameters
            };
            walk.parts(links, carries)
        }
    }
}

impl Exchange {
    /// Checks that a frame is the next of its link, of a clock that its sender can have finished, and within its block.
    fn check(
        &self,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
    ) -> Result<(), PeerError> {
        let link = self.links.get(&from).ok_or(PeerError::UnknownPeer { from })?;
        link.check_sequence(from, header.sequence)?;

        let (expected, below, block) = match header.kind {
            // A part of clock `c` was computed on this home's total of clock `c - staleness - 1`.
            BulkKind::Partial => {
                let done = self.done[self.id.dc.index()].0;
                let below = Clock(done.saturating_add(self.staleness.0).saturating_add(1));
                (link.part, below, self.home())
            }
            // A total includes this data center's part.
            BulkKind::Total => (self.done[from.index()], self.open, self.block(from)),
            kind => return Err(self.unexpected(from, kind.name())),
        };

        let found = header.clock;
        if found != expected {
            return Err(PeerError::PeerSentWrongClock { from, found, expected });
        }
        if found >= below {
            return Err(PeerError::PeerSentEarlyClock { from, found, below });
        }
        check_span(from, changes, &block)
    }

    fn on_partial(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) {
        let home = self.home();
        self.sum(header.clock).receive(from, changes, home.start);

        if header.last {
            if let Some(link) = self.links.get_mut(&from) {
                link.part = header.clock.next();
            }
            self.complete_part(header.clock, from, store);
        }
    }

    fn on_total(
        &mut self,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) {
        add_frame(&mut self.global, changes);
        if header.last {
            self.finish(from, header.clock, store);
        }
    }

    /// Marks a data center's part of a sum as complete, and finishes the sum if all parts are.
    fn complete_part(&mut self, clock: Clock, from: DcId, store: &mut ShardStore) {
        if !self.sum(clock).complete(from) {
            return;
        }
        let mut total = self.sums.remove(&clock).expect("a sum was found").total();
        let home = self.home();
        let start = home.start;
        self.round_total(&mut total);

        total.add_to(&mut self.global[home]);

        for link in self.links.values_mut() {
            link.jobs.push_back(Job { kind: BulkKind::Total, clock, cursor: start });
        }
        if !self.links.is_empty() {
            self.totals.insert(clock, total);
        }
        self.finish(self.id.dc, clock, store);
    }

    /// A home's total of a clock is in the global values. Sets the local copy to these plus the own changes that no
    /// total includes.
    fn finish(&mut self, home: DcId, clock: Clock, store: &mut ShardStore) {
        self.done[home.index()] = clock.next();
        let block = self.block(home);
        let values = &mut store.values_mut()[block.clone()];
        values.copy_from_slice(&self.global[block.clone()]);
        for own in self.own.range(clock.next()..).map(|(_, own)| own) {
            for (value, change) in values.iter_mut().zip(&own.values[block.clone()]) {
                *value += change;
            }
        }
        self.forget_carried();
    }

    /// Discards totals that were sent on all links, and parts that all totals include.
    fn forget_carried(&mut self) {
        let shared = self.shared_clock();
        let links = &self.links;
        let is_awaited =
            |kind, clock| links.values().any(|link| link.has_yet_to_carry(kind, clock));

        self.totals.retain(|clock, _| is_awaited(BulkKind::Total, *clock));
        let clocks = self.own.range(..shared).map(|(clock, _)| *clock);
        let carried: Vec<Clock> =
            clocks.filter(|clock| !is_awaited(BulkKind::Partial, *clock)).collect();
        for clock in carried {
            self.spare.extend(self.own.remove(&clock));
        }
        self.spare.truncate(SPARE_MAX);
    }

    /// The changes of a clock.
    fn own_of(&mut self, clock: Clock) -> &mut Changed {
        let (parameters, spare) = (self.global.len(), &mut self.spare);
        self.own.entry(clock).or_insert_with(|| no_changes(spare, parameters))
    }

    /// Rounds a part to the value format. The rounding error is added to the part of the next clock.
    fn round(&mut self, changed: &mut Changed) {
        if self.format == ValueFormat::F32 {
            return;
        }
        let format = self.format;
        let next = self.own_of(self.open);
        round(changed, format, next, 0);
    }

    /// As [`Self::round`], for a total of the home block.
    fn round_total(&mut self, total: &mut Changed) {
        if self.format == ValueFormat::F32 {
            return;
        }
        let (format, home) = (self.format, self.home());
        let next = self.own_of(self.open);
        round(total, format, next, home.start);
    }

    /// The clock up to which all totals were received.
    fn shared_clock(&self) -> Clock {
        self.done.iter().copied().min().expect("a topology has a data center")
    }

    /// The block of a home.
    fn block(&self, home: DcId) -> Range<usize> {
        self.blocks.range(self.global.len(), home)
    }

    /// The home block of this data center.
    fn home(&self) -> Range<usize> {
        self.block(self.id.dc)
    }

    fn sum(&mut self, clock: Clock) -> &mut Sum {
        let size = self.home().len();
        let data_centers = self.data_centers;
        self.sums.entry(clock).or_insert_with(|| Sum::new(size, data_centers))
    }

    /// The data center that a missing total waits for: the home or, if this data center is the home, the first one
    /// whose part is missing.
    fn awaited(&self, home: usize, due: Clock) -> DcId {
        let home = DcId(home as u16);
        if home != self.id.dc {
            return home;
        }
        let clock = Clock(due.0 - 1);
        self.sums.get(&clock).and_then(Sum::missing).unwrap_or(home)
    }
}

/// No changes to so many parameters, in the memory of an earlier clock where there is some.
fn no_changes(spare: &mut Vec<Changed>, parameters: usize) -> Changed {
    match spare.pop() {
        Some(mut changed) => {
            changed.clear();
            changed
        }
        None => Changed::none(parameters),
    }
}

/// Rounds changes to what the receiver decodes, and adds the rounding errors to those of the `next` clock, where the
/// first parameter of `changed` is parameter `start`. The formats of BSP and SSP have no blocks.
fn round(changed: &mut Changed, format: ValueFormat, next: &mut Changed, start: usize) {
    let mut lost = Vec::new();
    for run in changed.touched.runs(0..changed.values.len()) {
        for from in run.clone().step_by(ROUNDED_AT_ONCE) {
            let values = &mut changed.values[from..run.end.min(from + ROUNDED_AT_ONCE)];
            lost.clear();
            lost.extend_from_slice(values);
            quantise(values, format);
            lost.iter_mut().zip(values).for_each(|(lost, rounded)| *lost -= *rounded);
            next.add_frame(Changes::Dense { start: (start + from) as u32, values: &lost }, 0);
        }
    }
}

/// The number of changes that are rounded together: they and their rounding errors fit into a core's cache.
const ROUNDED_AT_ONCE: usize = 4 << 10;

/// The number of clocks of which the memory is kept for later ones.
const SPARE_MAX: usize = 2;
