//! BSP and SSP: efficient baselines for ASP.
//!
//! When a data center has finished a clock, the sums of its workers' changes go towards one data center for each chunk
//! of the shard, which forms the total over all data centers, and the total comes back to all. Frames are dense or
//! sparse, whichever is smaller. All data centers add the same totals, so that their `global` values are equal to the
//! bit. A clock costs each data center about twice the model in total, not once per peer.
//!
//! Which way a chunk takes is its [`Route`]. With *homes* each data center is home to one block of the shard. It
//! receives the parts of all others, adds them up in the order of data centers, and sends the total to all: a
//! reduce-scatter and an all-gather. A block has several chunks, so that its first totals leave while its last parts
//! arrive. In a *ring* each data center sends to the next one alone, in a *tree* to its parent and its children, as an
//! all-reduce of MPI, NCCL or Gloo does. There a data center adds its own changes to the sums that come in, and passes
//! the result on once a chunk is complete.
//!
//! With a quorum of workers, late changes can have joined the clock after the last. At the drain it is exchanged, too.
//!
//! BSP is SSP with a staleness of 0. The room decides when a sum and a total are sent, and which read waits for which
//! total. It does not support mirrors that fail or leave: each clock needs all of them.

mod link;
mod route;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::{ClockFacts, RemoteModel};
use crate::codec::{Changes, quantise};
use crate::node::Lane;
use crate::persist;
use crate::server::blocks::sums::{Changed, Cutting, Sum, add_frame};
use crate::server::blocks::{DrainMethod, check_span};
use crate::server::config::ServerConfig;
use crate::server::error::PeerError;
use crate::server::stats::{LinkStats, Watermark};
use crate::store::{ShardRows, ShardStore};
use crate::sync::{BspConfig, Gate, SspConfig, ValueFormat, WaitReason};
use crate::types::{Clock, Content, DcId, Instant, ServerId, ShardLayout, Staleness, Tightness};
use crate::wire::{BulkHeader, BulkKind, encode_bulk};

use link::{ExchangeLink, Job};
use route::{Chunk, Route};

/// One server's part of the exchange of whole clocks.
#[derive(Debug)]
pub(super) struct Exchange {
    id: ServerId,
    /// Whether the run has one worker. Then the store has what all agree on, and nothing is summed here.
    is_alone: bool,
    route: Route,
    staleness: Staleness,
    format: ValueFormat,
    /// The initial values and all totals: the model that all data centers agree on.
    global: Vec<f32>,
    /// The changes of this data center's workers, by the clock at which the iteration started, until the totals include
    /// them.
    own: BTreeMap<Clock, Changed>,
    /// The first clock whose part was not sent. Rounding errors are added to it.
    open: Clock,
    /// Incomplete sums of chunks.
    sums: BTreeMap<(Clock, usize), Sum>,
    /// Complete sums that are not the total, until they were sent.
    partials: BTreeMap<(Clock, usize), Changed>,
    /// Totals that are received for others, or were not sent on all links.
    totals: BTreeMap<(Clock, usize), Total>,
    /// The number of clocks whose total was received, per chunk.
    done: Vec<Clock>,
    /// Whether changes can join the clock after the last.
    has_late: bool,
    /// Whether the drain has begun, and the clock after the last was not sent.
    awaits_late: bool,
    links: BTreeMap<DcId, ExchangeLink>,
    cutting: Cutting,
    /// Memory for the changes of clocks to come.
    spare: Vec<Changed>,
}

/// A total of one chunk.
#[derive(Debug)]
struct Total {
    changed: Changed,
    /// The number of links that have yet to carry it, once it is complete.
    links: usize,
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
        let route = Route::new(config, store.values().len());
        let has_late = config.local.has_quorum();
        Self {
            id: config.id,
            is_alone: config.all_workers == [1] && !has_late,
            staleness,
            format,
            global: store.values().to_vec(),
            own: BTreeMap::new(),
            open: Clock::ZERO,
            sums: BTreeMap::new(),
            partials: BTreeMap::new(),
            totals: BTreeMap::new(),
            done: vec![Clock::ZERO; route.chunks().len()],
            has_late,
            awaits_late: false,
            links: config.links.keys().map(|peer| (*peer, ExchangeLink::default())).collect(),
            cutting: Cutting::default(),
            spare: Vec::new(),
            route,
        }
    }
}

impl RemoteModel for Exchange {
    fn on_change(&mut self, clock: Clock, place: Range<usize>, change: &[f32], _: &mut [f32]) {
        if !self.is_alone {
            self.own_of(clock).add_run(place, change);
        }
    }

    fn on_clock(&mut self, _: Instant, finished: Clock, store: &mut ShardStore, _: ClockFacts) {
        self.close(finished, store);
    }

    fn may_finish(&self, clock: Clock) -> bool {
        self.missing_at(clock).is_none()
    }

    fn gate(&self, clock: Clock, _: &ShardRows, _: Duration, _: &ShardStore) -> Gate {
        match self.missing_at(clock) {
            Some(chunk) => Gate::Closed(WaitReason::Updates { from: self.awaited(chunk) }),
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
        let chunk = self.check(from, header, changes)?;
        let chunks = self.chunks_of(from, header.kind).len();
        let link = self.links.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        link.received = header.sequence;
        if header.last {
            let turn = link.turn_of(header.kind);
            *turn = turn.next(chunks);
        }

        match header.kind {
            BulkKind::Total => self.on_total(chunk, header, changes, store),
            _ => self.on_partial(chunk, from, header, changes, store),
        }
        self.send_late(store);
        Ok(())
    }

    fn poll_transmit(&mut self, to: DcId, lane: Lane, room: usize) -> Option<Bytes> {
        if lane == Lane::Control {
            return None;
        }

        let job = *self.links.get(&to)?.jobs.front()?;
        let chunk = &self.route.chunks()[job.chunk];
        let key = (job.clock, job.chunk);
        // What workers have changed covers the whole shard, sums and totals cover their chunk only.
        let (source, offset) = match job.kind {
            BulkKind::Total => (&self.totals.get(&key)?.changed, chunk.range.start),
            _ if chunk.is_leaf() => (self.own.get(&job.clock)?, 0),
            _ => (self.partials.get(&key)?, chunk.range.start),
        };
        let range = job.cursor..chunk.range.end;
        let end = self.cutting.fill(source, range.clone(), offset, self.format, room);

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
        let changes = self.cutting.changes(source);
        let value_bytes = (changes.len() as f64 * self.format.bytes_per_value()) as usize;
        let mut frame = Vec::with_capacity(value_bytes + FRAME_BYTES_BESIDE_VALUES);
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
            self.forget_carried(job);
        } else if let Some(front) = link.jobs.front_mut() {
            front.cursor = end;
        }
        Some(Bytes::from(frame))
    }

    fn begin_drain(&mut self, _: DrainMethod, _: &BTreeSet<DcId>, store: &mut ShardStore) {
        self.awaits_late = self.has_late;
        self.send_late(store);
    }

    /// Whether no job is unsent and all clocks up to `clock`, and the one after it that has late changes, are in the
    /// global values.
    fn is_drained(&mut self, clock: Clock) -> bool {
        !self.awaits_late
            && self.shared_clock() >= clock.max(self.open)
            && self.links.values().all(|link| link.jobs.is_empty())
    }

    fn end_drain(&self, store: &mut ShardStore) {
        if let Some(agreed) = self.agreed() {
            store.values_mut().copy_from_slice(agreed);
        }
    }

    fn name(&self) -> &'static str {
        "bsp or ssp"
    }

    fn copy_clock(&self, _: Clock) -> Clock {
        self.shared_clock()
    }

    fn agreed(&self) -> Option<&[f32]> {
        (!self.is_alone).then_some(&self.global)
    }

    /// The clock up to which the totals that `of` sends were received, or all totals if it sends none.
    fn mirror_clock(&self, of: DcId) -> Option<Clock> {
        let sent = self.route.totals_of(of).iter().map(|chunk| self.done[*chunk]).min();
        Some(sent.unwrap_or_else(|| self.shared_clock()))
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
                id: _,
                is_alone: _,
                route,
                staleness: _,
                format: _,
                global,
                own,
                open,
                sums,
                partials,
                totals,
                done,
                has_late: _,
                awaits_late,
                links,
                cutting: _,
                spare: _,
            },
            walk,
            _,
        ) {
            walk.tensor("global", Content::Values, global)?;
            let (parameters, chunks) = (global.len(), route.chunks());

            let part = |_: &_| Some(Changed::none(parameters));
            walk.entries("own", own, part, |one, walk| walk.flatten(one, ()))?;
            walk.record("open", open)?;

            let sum = |(_, chunk): &(Clock, usize)| {
                let chunk = chunks.get(*chunk)?;
                Some(Sum::new(chunk.range.len(), chunk.summed.len()))
            };
            walk.entries("sums", sums, sum, |one, walk| walk.flatten(one, ()))?;

            let none = |(_, chunk): &(Clock, usize)| {
                Some(Changed::none(chunks.get(*chunk)?.range.len()))
            };
            walk.entries("partials", partials, none, |one, walk| walk.flatten(one, ()))?;
            let total = |key: &(Clock, usize)| Some(Total { changed: none(key)?, links: 0 });
            walk.entries("totals", totals, total, |one, walk| walk.flatten(one, ()))?;
            walk.record_that("done", done, |found, made| found.len() == made.len())?;
            walk.record("awaits_late", awaits_late)?;

            for (peer, link) in links {
                let carries: &dyn Fn(&Job) -> bool = &|job| {
                    let Some(chunk) = chunks.get(job.chunk) else { return false };
                    let key = (job.clock, job.chunk);
                    let has_source = match job.kind {
                        BulkKind::Total => totals.contains_key(&key),
                        _ if chunk.is_leaf() => own.contains_key(&job.clock),
                        _ => partials.contains_key(&key),
                    };
                    has_source && (chunk.range.start..=chunk.range.end).contains(&job.cursor)
                };
                let sent = [route.partials_of(*peer).len(), route.totals_of(*peer).len()];
                walk.part(peer, link, (carries, sent))?;
            }
            Ok(())
        }
    }
}

persist! {
    impl Persist<()> for Total {
        fn walk(Self { changed, links }, walk, ()) {
            walk.flatten(changed, ())?;
            walk.record("links", links)
        }
    }
}

impl Exchange {
    /// Adds this data center's changes of the clock to the sum of each chunk.
    fn close(&mut self, finished: Clock, store: &mut ShardStore) {
        if self.is_alone {
            self.open = finished;
            self.done.fill(finished);
            return;
        }

        let clock = Clock(finished.0 - 1);
        let own = self.own.remove(&clock);
        let mut own = own.unwrap_or_else(|| no_changes(&mut self.spare, self.global.len()));
        self.open = finished;
        self.round(&mut own, 0);

        let dc = self.id.dc;
        for number in 0..self.route.chunks().len() {
            let chunk = &self.route.chunks()[number];
            match chunk.up {
                Some(up) if chunk.is_leaf() => {
                    let changes = own.touched.count_range(chunk.range.clone());
                    self.send_partial(up.to, clock, number, changes);
                }
                _ => {
                    let part = own.part(chunk.range.clone());
                    let place = self.place_of(number, dc);
                    self.sum(clock, number).take(place, part);
                    self.complete_part(clock, number, dc, store);
                }
            }
        }

        if clock >= self.shared_clock() {
            self.own.insert(clock, own);
        } else {
            self.spare.push(own);
        }
    }

    /// Sends the changes that have joined the clock after the last, once all other clocks are shared.
    fn send_late(&mut self, store: &mut ShardStore) {
        if self.awaits_late && self.shared_clock() >= self.open {
            self.awaits_late = false;
            self.close(self.open.next(), store);
        }
    }

    /// A chunk whose total a read at a clock waits for: all totals up to `clock - staleness` must be received.
    fn missing_at(&self, clock: Clock) -> Option<usize> {
        let due = Clock(clock.0.saturating_sub(self.staleness.0));
        self.done.iter().position(|done| *done < due)
    }

    /// The chunk of a frame. Checks that the frame is the next of its link, of a clock that its sender can have finished,
    /// and within its chunk.
    fn check(
        &self,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
    ) -> Result<usize, PeerError> {
        let link = self.links.get(&from).ok_or(PeerError::UnknownPeer { from })?;
        link.check_sequence(from, header.sequence)?;

        let turn = if header.kind == BulkKind::Total { link.total } else { link.partial };
        let chunks = self.chunks_of(from, header.kind);
        let unexpected = || self.unexpected(from, header.kind.name());
        let chunk = *chunks.get(turn.place).ok_or_else(unexpected)?;

        let below = match header.kind {
            // A total includes this data center's part.
            BulkKind::Total => self.open,
            // A part of clock `c` was computed on the total of clock `c - staleness - 1`, which was here before.
            _ => {
                let done = self.done[chunk].0;
                Clock(done.saturating_add(self.staleness.0).saturating_add(1))
            }
        };

        let (found, expected) = (header.clock, turn.clock);
        if found != expected {
            return Err(PeerError::PeerSentWrongClock { from, found, expected });
        }
        let awaits_part = header.kind == BulkKind::Total && self.has_queued_part(found, chunk);
        if found >= below || awaits_part {
            return Err(PeerError::PeerSentEarlyClock { from, found, below: below.min(found) });
        }
        check_span(from, changes, &self.route.chunks()[chunk].range)?;
        Ok(chunk)
    }

    /// Whether this data center's part of a chunk, which the total of that clock includes, has yet to leave.
    fn has_queued_part(&self, clock: Clock, chunk: usize) -> bool {
        let mut jobs = self.links.values().flat_map(|link| &link.jobs);
        jobs.any(|job| job.kind == BulkKind::Partial && job.clock == clock && job.chunk == chunk)
    }

    /// The chunks of which a data center sends frames of a kind to this one.
    fn chunks_of(&self, from: DcId, kind: BulkKind) -> &[usize] {
        match kind {
            BulkKind::Partial => self.route.partials_of(from),
            BulkKind::Total => self.route.totals_of(from),
            _ => &[],
        }
    }

    fn on_partial(
        &mut self,
        chunk: usize,
        from: DcId,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) {
        let Chunk { range, .. } = &self.route.chunks()[chunk];
        let start = range.start;
        let place = self.place_of(chunk, from);
        self.sum(header.clock, chunk).receive(place, changes, start);
        if header.last {
            self.complete_part(header.clock, chunk, from, store);
        }
    }

    fn on_total(
        &mut self,
        number: usize,
        header: &BulkHeader,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) {
        add_frame(&mut self.global, changes);

        let Chunk { range, down, .. } = &self.route.chunks()[number];
        if !down.is_empty() {
            let none = || Total { changed: Changed::none(range.len()), links: 0 };
            let total = self.totals.entry((header.clock, number)).or_insert_with(none);
            total.changed.add_frame(changes, range.start);
        }

        if header.last {
            self.send_total(header.clock, number);
            self.finish(number, header.clock, store);
        }
    }

    /// Marks a data center's part of a sum as complete. Passes the sum on if all parts are.
    fn complete_part(&mut self, clock: Clock, number: usize, of: DcId, store: &mut ShardStore) {
        let place = self.place_of(number, of);
        if !self.sum(clock, number).complete(place) {
            return;
        }
        let mut sum = self.sums.remove(&(clock, number)).expect("a sum was found").total();
        let range = self.route.chunks()[number].range.clone();
        self.round(&mut sum, range.start);

        if let Some(up) = self.route.chunks()[number].up {
            let changes = sum.touched.count_range(0..range.len());
            self.partials.insert((clock, number), sum);
            self.send_partial(up.to, clock, number, changes);
            return;
        }

        sum.add_to(&mut self.global[range]);
        self.totals.insert((clock, number), Total { changed: sum, links: 0 });
        self.send_total(clock, number);
        self.finish(number, clock, store);
    }

    /// Schedules a sum with so many changes.
    fn send_partial(&mut self, to: DcId, clock: Clock, chunk: usize, changes: usize) {
        let cursor = self.route.chunks()[chunk].range.start;
        let link = self.links.get_mut(&to).expect("a route has links of this data center");
        link.stats.changes += changes as u64;
        link.jobs.push_back(Job { kind: BulkKind::Partial, clock, chunk, cursor });
    }

    /// Schedules a complete total for those to whom this data center sends it.
    fn send_total(&mut self, clock: Clock, number: usize) {
        let Chunk { range, down, .. } = &self.route.chunks()[number];
        match self.totals.get_mut(&(clock, number)) {
            Some(total) if !down.is_empty() => total.links = down.len(),
            _ => {
                self.totals.remove(&(clock, number));
            }
        }

        let job = Job { kind: BulkKind::Total, clock, chunk: number, cursor: range.start };
        for to in down {
            let link = self.links.get_mut(to).expect("a route has links of this data center");
            link.jobs.push_back(job);
        }
    }

    /// A chunk's total of a clock is in the global values. Sets the local copy to these plus the own changes that no
    /// total includes.
    fn finish(&mut self, chunk: usize, clock: Clock, store: &mut ShardStore) {
        self.done[chunk] = clock.next();
        let range = self.route.chunks()[chunk].range.clone();
        let values = &mut store.values_mut()[range.clone()];
        values.copy_from_slice(&self.global[range.clone()]);
        for own in self.own.range(clock.next()..).map(|(_, own)| own) {
            for (value, change) in values.iter_mut().zip(&own.values[range.clone()]) {
                *value += change;
            }
        }

        // The totals of a clock include this data center's part, so the part was sent.
        let later = self.own.split_off(&self.shared_clock());
        self.spare.extend(std::mem::replace(&mut self.own, later).into_values());
        self.spare.truncate(SPARE_MAX);
    }

    /// Discards what the last frame of a job has carried, if no other link has yet to carry it.
    fn forget_carried(&mut self, job: Job) {
        let key = (job.clock, job.chunk);
        if job.kind == BulkKind::Partial {
            self.partials.remove(&key);
        } else if let Some(total) = self.totals.get_mut(&key) {
            total.links = total.links.saturating_sub(1);
            if total.links == 0 {
                self.totals.remove(&key);
            }
        }
    }

    /// The changes of a clock.
    fn own_of(&mut self, clock: Clock) -> &mut Changed {
        let (parameters, spare) = (self.global.len(), &mut self.spare);
        self.own.entry(clock).or_insert_with(|| no_changes(spare, parameters))
    }

    /// Rounds changes, the first of which is that of parameter `start`, to the value format. The rounding error is added
    /// to the part of the next clock.
    fn round(&mut self, changed: &mut Changed, start: usize) {
        if self.format == ValueFormat::F32 {
            return;
        }
        let format = self.format;
        let next = self.own_of(self.open);
        round(changed, format, next, start);
    }

    /// The clock up to which all totals were received.
    fn shared_clock(&self) -> Clock {
        self.done.iter().copied().min().expect("a route has a chunk")
    }

    fn sum(&mut self, clock: Clock, chunk: usize) -> &mut Sum {
        let Chunk { range, summed, .. } = &self.route.chunks()[chunk];
        self.sums.entry((clock, chunk)).or_insert_with(|| Sum::new(range.len(), summed.len()))
    }

    /// The place of a data center among those that are summed here.
    fn place_of(&self, chunk: usize, dc: DcId) -> DcId {
        self.route.chunks()[chunk].place_of(dc).expect("its changes are summed here")
    }

    /// The data center that a missing total waits for: the first one whose part is missing here, or else the one that
    /// sends the total.
    fn awaited(&self, number: usize) -> DcId {
        let chunk = &self.route.chunks()[number];
        let sum = self.sums.get(&(self.done[number], number));
        let missing = sum.and_then(Sum::missing).map(|place| chunk.summed[place.index()]);
        let own = self.id.dc;
        missing.filter(|dc| *dc != own).unwrap_or_else(|| chunk.up.map_or(own, |up| up.from))
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

/// More than the headers of a frame, and the indexes of one whose changes are consecutive.
const FRAME_BYTES_BESIDE_VALUES: usize = 256;

/// The number of changes that are rounded together: they and their rounding errors fit into a core's cache.
const ROUNDED_AT_ONCE: usize = 4 << 10;

/// The number of clocks of which the memory is kept for later ones.
const SPARE_MAX: usize = 2;
