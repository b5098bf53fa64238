//! The mirror server: applies the updates of mirrors, records their clocks, and holds back reads by ASP's two brakes
//! (Hsieh et al., NSDI 2017).

mod mirror;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::codec::Changes;
use crate::persist;
use crate::server::blocks::Laggard;
use crate::server::error::PeerError;
use crate::server::stats::BrakeStats;
use crate::store::{ShardRows, ShardStore};
use crate::sync::{Gate, OnPartition, WaitReason};
use crate::types::{Clock, DcId, Instant, ShardLayout, Staleness, TableRows};

use super::limits::Limits;
use mirror::{Awaited, Deadlines, LeftOut, Mirror};

/// One server's state of its mirrors.
#[derive(Debug)]
pub(super) struct MirrorServer {
    mirrors: BTreeMap<DcId, Mirror>,
    /// The neighbours in the overlay, ascending. Reads wait for no other mirror.
    neighbours: Vec<DcId>,
    /// A mirror whose updates have not ended.
    ends: Laggard,
    barrier_deadline: Duration,
    mirror_clock_deadlines: Deadlines,
    on_partition: OnPartition,
    /// Whether this server has lost its state, and has finished no clock since.
    is_new: bool,
    /// The number of announced parameters in each row of the shard.
    announced_rows: Vec<u32>,
    announced: usize,
    stats: BrakeStats,
}

impl MirrorServer {
    /// `mirrors` are all other data centers, with `true` for neighbours in the overlay.
    pub(super) fn new(
        mirrors: impl Iterator<Item = (DcId, bool)>,
        layout: &ShardLayout,
        limits: &Limits,
    ) -> Self {
        let Limits { barrier, mirror_clock, stall, on_partition, .. } = *limits;
        let mirrors: BTreeMap<DcId, Mirror> =
            mirrors.map(|(dc, neighbour)| (dc, Mirror::new(neighbour))).collect();
        let neighbours = mirrors.iter().filter(|(_, mirror)| mirror.neighbour);
        Self {
            neighbours: neighbours.map(|(dc, _)| *dc).collect(),
            ends: Laggard::default(),
            mirrors,
            barrier_deadline: barrier,
            mirror_clock_deadlines: Deadlines { silent: mirror_clock, stalled: stall },
            on_partition,
            is_new: false,
            announced_rows: vec![0; layout.rows()],
            announced: 0,
            stats: BrakeStats::default(),
        }
    }

    /// Records that a frame was received. An excluded mirror counts again. Returns whether the mirror was
    /// disconnected.
    pub(super) fn on_received(&mut self, now: Instant, from: DcId) -> Result<bool, PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        mirror.last_received = now;
        mirror.lost = mirror.returning;
        Ok(std::mem::take(&mut mirror.disconnected))
    }

    /// Records that nothing is received from a mirror. `clock` is this data center's own.
    pub(super) fn on_disconnected(
        &mut self,
        from: DcId,
        clock: Clock,
        layout: &ShardLayout,
    ) -> Result<(), PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        mirror.disconnected = true;
        mirror.begin_absence(clock);
        if self.on_partition == OnPartition::Continue {
            self.stats.mirrors_lost += u64::from(mirror.counts());
            mirror.lost = true;
            self.lift_all(from, layout);
        }
        Ok(())
    }

    /// Whether the driver has reported that nothing is received from a mirror, and no frame was received since.
    pub(super) fn is_disconnected(&self, from: DcId) -> bool {
        self.mirrors.get(&from).is_some_and(|mirror| mirror.disconnected)
    }

    /// Begins with a mirror to which there was no connection yet.
    pub(super) fn set_disconnected(&mut self, from: DcId) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.disconnected = true;
        }
    }

    /// Records that updates of a mirror are missing, according to this server's link report of this version.
    pub(super) fn on_missed(&mut self, from: DcId, version: u64) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.missed = Some(version);
        }
    }

    /// Records a mirror's answer to the link report of this version: `sequence` is the last update that was missed.
    pub(super) fn on_caught_up(&mut self, from: DcId, version: u64, sequence: u64) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.caught_up = Some((version, sequence));
        }
    }

    /// Whether a mirror's missed updates are all applied. Returns `true` once, and then forgets that any were missed.
    pub(super) fn has_caught_up(&mut self, from: DcId) -> bool {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return false };
        let (Some(missed), Some((version, sequence))) = (mirror.missed, mirror.caught_up) else {
            return false;
        };
        let is_complete = !mirror.disconnected && version >= missed && sequence <= mirror.applied;
        if is_complete {
            (mirror.missed, mirror.caught_up) = (None, None);
        }
        is_complete
    }

    /// Records whether a mirror's data center pauses. `clock` is this data center's own.
    ///
    /// Reads do not wait for a mirror that pauses. After the pause they do not wait for the clocks by which it has fallen behind.
    pub(super) fn set_paused(&mut self, from: DcId, paused: bool, clock: Clock) {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        match (mirror.paused, paused) {
            (false, true) => {
                self.stats.mirrors_lost += u64::from(mirror.counts());
                mirror.begin_absence(clock);
            }
            (true, false) => mirror.is_unmeasured = true,
            _ => {}
        }
        mirror.paused = paused;
    }

    /// Ends the excuse of mirrors for clocks that they have made up. `finished` is this data center's own clock.
    pub(super) fn on_clock(&mut self, finished: Clock) {
        self.is_new = false;
        for mirror in self.mirrors.values_mut().filter(|mirror| mirror.excused > 0) {
            mirror.excused = mirror.excused.min(finished.ahead_of(mirror.clock));
        }
    }

    /// Measures what mirrors are to be excused from, as far as it can be told. `clock` is this data center's own.
    ///
    /// A server that has lost its state knows its own clock only once it has finished one.
    pub(super) fn measure_excuses(&mut self, clock: Clock, staleness: Option<Staleness>) {
        if self.is_new {
            return;
        }
        let bound = staleness.map_or(0, |staleness| staleness.0.max(1));
        self.mirrors.values_mut().for_each(|mirror| mirror.measure(clock, bound));
    }

    /// Begins without the state that this server had. What mirrors were excused from is lost with it.
    pub(super) fn begin_anew(&mut self) {
        self.is_new = true;
        self.mirrors.values_mut().for_each(|mirror| mirror.is_unmeasured = true);
    }

    /// Resets a mirror that has lost its state or becomes active. It counts once it reports a clock, and its sequence
    /// numbers begin at 1. It does not pause, and is excused from the clocks by which it is behind then, and from those of its
    /// earlier pauses. `clock` is this data center's own.
    pub(super) fn on_reset(&mut self, from: DcId, clock: Clock, layout: &ShardLayout) {
        self.set_paused(from, false, clock);
        self.lift_all(from, layout);
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        (mirror.applied, mirror.updated, mirror.end) = (0, 0, None);
        mirror.reported.clear();
        self.stats.mirrors_lost += u64::from(mirror.counts());
        (mirror.lost, mirror.returning, mirror.inactive) = (true, true, false);
        (mirror.missed, mirror.caught_up, mirror.behind_before) = (None, None, None);
        (mirror.is_unmeasured, mirror.stalled) = (true, false);
    }

    /// Begins with an active or inactive mirror.
    pub(super) fn begin(&mut self, dc: DcId, inactive: bool) {
        if let Some(mirror) = self.mirrors.get_mut(&dc) {
            (mirror.lost, mirror.returning, mirror.inactive) = (inactive, inactive, inactive);
        }
    }

    /// Marks a mirror as active or inactive. No read waits for an inactive one.
    pub(super) fn set_inactive(&mut self, dc: DcId, inactive: bool) {
        if let Some(mirror) = self.mirrors.get_mut(&dc) {
            mirror.inactive = inactive;
        }
    }

    /// The active mirrors.
    pub(super) fn present(&self) -> impl Iterator<Item = DcId> + '_ {
        self.mirrors.iter().filter(|(_, mirror)| !mirror.inactive).map(|(dc, _)| *dc)
    }

    /// Sets the clock of a mirror whose copy includes all its updates up to this clock.
    pub(super) fn begin_at(&mut self, from: DcId, clock: Clock) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.clock = mirror.clock.max(clock);
        }
    }

    /// Checks that a data frame is the next of its origin.
    pub(super) fn check_sequence(&self, from: DcId, found: u64) -> Result<(), PeerError> {
        let mirror = self.mirrors.get(&from).ok_or(PeerError::UnknownPeer { from })?;
        let expected = mirror.applied + 1;
        if found != expected {
            return Err(PeerError::PeerSentWrongSequence { from, found, expected });
        }
        Ok(())
    }

    /// Whether a mirror's updates have ended before this sequence number.
    pub(super) fn has_ended(&self, from: DcId, sequence: u64) -> bool {
        let end = self.mirrors.get(&from).and_then(|mirror| mirror.end);
        end.is_some_and(|end| sequence > end)
    }

    /// Counts a data frame as applied.
    pub(super) fn on_applied(&mut self, from: DcId, sequence: u64) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.applied = sequence;
            mirror.count_reports();
        }
    }

    /// Adds a mirror's updates to the values only. They are not part of this server's residuals, so that no update is
    /// echoed.
    pub(super) fn on_update(
        &mut self,
        from: DcId,
        sequence: u64,
        changes: Changes<'_>,
        store: &mut ShardStore,
    ) {
        changes.add_to(store.values_mut());
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.updated = sequence;
        }
        if self.announced > 0 {
            changes.for_each(|index, _| {
                self.release(from, index as u32, sequence, store.layout());
            });
        }
    }

    /// Holds back reads of the parameters that a mirror has announced until their updates arrive.
    ///
    /// An announcement is ignored if the first frame that can bring its updates was applied before, because the
    /// parameters of that frame are not recorded.
    pub(super) fn on_announce(
        &mut self,
        now: Instant,
        from: DcId,
        sequence: u64,
        places: &[u32],
        layout: &ShardLayout,
    ) {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        if mirror.applied >= sequence || places.is_empty() {
            return;
        }
        let due = now + self.barrier_deadline;

        for &place in places {
            if mirror.announced.insert(place, Awaited { sequence, due }).is_none() {
                let (_, row) = layout.row_of_parameter(place as usize);
                self.announced_rows[row] += 1;
                self.announced += 1;
            }
        }

        if mirror.deadlines.back() != Some(&due) {
            mirror.deadlines.push_back(due);
        }
    }

    pub(super) fn on_mirror_clock(&mut self, from: DcId, clock: Clock, sequence: u64) {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        (mirror.lost, mirror.returning) = (false, false);
        if mirror.reported.len() == REPORTS_MAX {
            // The discarded clock counts with this later one: late, but never early.
            mirror.reported.pop_back();
        }
        mirror.reported.push_back((clock, sequence));
        mirror.count_reports();
    }

    pub(super) fn on_end(&mut self, from: DcId, sequence: u64) -> Result<(), PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        let expected = mirror.end.unwrap_or_else(|| sequence.max(mirror.updated));
        if sequence != expected {
            return Err(PeerError::PeerSentWrongSequence { from, found: sequence, expected });
        }
        mirror.end = Some(sequence);
        Ok(())
    }

    /// Whether a mirror is active and not disconnected.
    pub(super) fn may_receive_from(&self, from: DcId) -> bool {
        self.mirrors.get(&from).is_some_and(|mirror| !mirror.disconnected && !mirror.inactive)
    }

    /// The clock of a mirror that counts. `None` if it is lost, paused, inactive or not a neighbour.
    pub(super) fn clock_of(&self, mirror: DcId) -> Option<Clock> {
        self.mirrors.get(&mirror).filter(|mirror| mirror.counts()).map(|mirror| mirror.clock)
    }

    /// The clocks that a mirror is excused from. `u64::MAX` until they can be measured.
    pub(super) fn excused_clocks(&self, mirror: DcId) -> u64 {
        self.mirrors.get(&mirror).map_or(0, |mirror| match mirror.is_waited_for() {
            true => mirror.excused,
            false => u64::MAX,
        })
    }

    /// The clock of a mirror that counts, plus the clocks that it is excused from. `None` as for [`Self::clock_of`].
    pub(super) fn counted_clock_of(&self, mirror: DcId) -> Option<Clock> {
        self.mirrors.get(&mirror).filter(|mirror| mirror.counts()).map(Mirror::counted)
    }

    /// Whether all active mirrors have ended their updates, and all of these were applied.
    pub(super) fn all_ended(&mut self) -> bool {
        self.ends.all(&self.mirrors, |mirror| {
            mirror.inactive || mirror.end.is_some_and(|end| mirror.applied >= end)
        })
    }

    /// Whether a read of `rows` by a worker at `clock` may be answered, which has `waited` for announced parameters.
    ///
    /// The deadline of each announcement alone does not bound a read's wait: a mirror whose clocks are not bounded can
    /// announce other parameters, or the same ones again, before the earlier ones have arrived.
    pub(super) fn gate(
        &self,
        clock: Clock,
        rows: &ShardRows,
        waited: Duration,
        staleness: Option<Staleness>,
        layout: &ShardLayout,
    ) -> Gate {
        let pauses = self.on_partition == OnPartition::Pause;
        let mut disconnected =
            self.neighbours().filter(|(_, mirror)| mirror.disconnected && !mirror.inactive);

        if let Some((from, _)) = disconnected.next().filter(|_| pauses) {
            return Gate::Closed(WaitReason::MirrorClock { from });
        }
        if let Some(staleness) = staleness
            && let Some((from, mirror)) = self.slowest()
            && clock.next().ahead_of(mirror.counted()) > staleness.0.max(1)
        {
            return Gate::Closed(WaitReason::MirrorClock { from });
        }

        let announced = (waited < self.barrier_deadline).then(|| self.announced_row(rows, layout));
        match announced.flatten() {
            Some(reason) => Gate::Closed(reason),
            None => Gate::Open,
        }
    }

    /// Releases reads whose deadline has passed. `waiting_since` is the time since which a read has waited for a mirror
    /// clock, if one does.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        waiting_since: Option<Instant>,
        layout: &ShardLayout,
    ) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        let left_out = self.left_out_at(waiting_since);
        let left_out = left_out.filter(|(_, at)| is_due(at.silent) || is_due(at.stalled));
        for (from, at) in left_out.collect::<Vec<_>>() {
            if let Some(mirror) = self.mirrors.get_mut(&from) {
                (mirror.lost, mirror.stalled) = (is_due(at.silent), is_due(at.stalled));
                self.stats.mirrors_lost += 1;
            }
        }

        let mut expired = Vec::new();
        for (from, mirror) in &mut self.mirrors {
            if mirror.deadlines.front().is_some_and(|due| *due <= now) {
                mirror.deadlines.retain(|due| *due > now);
                let due = mirror.announced.iter().filter(|(_, awaited)| awaited.due <= now);
                expired.extend(due.map(|(place, _)| (*from, *place)));
            }
        }

        for (from, place) in expired {
            self.lift(from, place, layout);
            self.stats.announcements_expired += 1;
        }
    }

    /// When [`Self::handle_timeout`] must be called. `announced_since` is the time since which a read has waited for
    /// announced parameters, if one does.
    pub(super) fn poll_timeout(
        &self,
        waiting_since: Option<Instant>,
        announced_since: Option<Instant>,
    ) -> Option<Instant> {
        let left_out = self.left_out_at(waiting_since);
        let left_out = left_out.flat_map(|(_, at)| at.silent.into_iter().chain(at.stalled));
        let announced = self
            .mirrors
            .values()
            .take_while(|_| self.announced > 0)
            .filter(|mirror| !mirror.announced.is_empty())
            .filter_map(|mirror| mirror.deadlines.front().copied());
        let read = announced_since.map(|since| since + self.barrier_deadline);
        left_out.chain(announced).chain(read).min()
    }

    /// When reads stop waiting for each mirror that they may wait for, if one has waited since then for a mirror clock. Under
    /// `pause` they wait for a mirror that is disconnected. One that waits itself for a slower mirror is not stalled.
    fn left_out_at(&self, waiting_since: Option<Instant>) -> impl Iterator<Item = (DcId, LeftOut)> {
        let pauses = self.on_partition == OnPartition::Pause;
        waiting_since.into_iter().flat_map(move |since| {
            let slowest = self.slowest().map(|(_, mirror)| mirror.counted());
            let mirrors = self.neighbours().filter(move |(_, one)| !(pauses && one.disconnected));
            mirrors.map(move |(from, mirror)| {
                let at = mirror.left_out_at(since, self.mirror_clock_deadlines);
                let stalled = at.stalled.filter(|_| slowest == Some(mirror.counted()));
                (from, LeftOut { stalled, ..at })
            })
        })
    }

    /// The mirrors that reads do not wait for, since they send frames and their clocks do not advance.
    pub(super) fn stalled(&self) -> BTreeSet<DcId> {
        let stalled = self.mirrors.iter().filter(|(_, mirror)| mirror.stalled && !mirror.inactive);
        stalled.map(|(dc, _)| *dc).collect()
    }

    /// The slowest mirror of those that reads wait for. Those ahead of it may wait for it, too.
    fn slowest(&self) -> Option<(DcId, &Mirror)> {
        let waited_for = self.neighbours().filter(|(_, mirror)| mirror.is_waited_for());
        waited_for.min_by_key(|(_, mirror)| mirror.counted())
    }

    pub(super) fn stats(&self) -> BrakeStats {
        self.stats
    }

    /// The neighbours in the overlay, ascending.
    fn neighbours(&self) -> impl Iterator<Item = (DcId, &Mirror)> {
        self.neighbours.iter().map(|dc| (*dc, &self.mirrors[dc]))
    }

    /// The last frame of a mirror that was applied.
    pub(super) fn applied(&self, from: DcId) -> u64 {
        self.mirrors.get(&from).map_or(0, |mirror| mirror.applied)
    }

    /// Records the update of a parameter. It releases the parameter's barrier unless that waits for a later frame.
    fn release(&mut self, from: DcId, place: u32, sequence: u64, layout: &ShardLayout) {
        let Some(mirror) = self.mirrors.get(&from) else { return };
        if mirror.announced.get(&place).is_some_and(|awaited| awaited.sequence <= sequence) {
            self.lift(from, place, layout);
        }
    }

    /// Releases all barriers of a mirror.
    fn lift_all(&mut self, from: DcId, layout: &ShardLayout) {
        let places = self.mirrors.get(&from).map(|mirror| mirror.announced.keys().copied());
        for place in places.into_iter().flatten().collect::<Vec<u32>>() {
            self.lift(from, place, layout);
        }
    }

    fn lift(&mut self, from: DcId, place: u32, layout: &ShardLayout) {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        if mirror.announced.remove(&place).is_some() {
            let (_, row) = layout.row_of_parameter(place as usize);
            self.announced_rows[row] -= 1;
            self.announced -= 1;
            if mirror.announced.is_empty() {
                mirror.deadlines.clear();
            }
        }
    }

    fn announced_row(&self, rows: &ShardRows, layout: &ShardLayout) -> Option<WaitReason> {
        if self.announced == 0 {
            return None;
        }
        let blocked = rows.tables().find_map(|(table, rows)| {
            let first = layout.first_row_of(table);
            match rows {
                TableRows::All => {
                    (first..first + layout.rows_of(table)).find(|row| self.announced_rows[*row] > 0)
                }
                TableRows::Listed(listed) => listed
                    .iter()
                    .map(|row| layout.shard_row(table, *row as usize))
                    .find(|row| self.announced_rows[*row] > 0),
            }
        })?;

        let places = layout.parameters_of_row(blocked);
        let from = self.mirrors.iter().find_map(|(from, mirror)| {
            let range = places.start as u32..places.end as u32;
            mirror.announced.range(range).next().map(|_| *from)
        });
        let from = from.expect("an announced row has a mirror that announced it");

        Some(WaitReason::Announced { from, row: blocked as u32 })
    }
}

persist! {
    impl Persist<&ShardLayout> for MirrorServer {
        fn walk(
            Self {
                mirrors,
                neighbours: _,
                ends: _,
                barrier_deadline: _,
                mirror_clock_deadlines: _,
                on_partition: _,
                is_new,
                announced_rows: _,
                announced: _,
                stats,
            },
            walk,
            layout,
        ) {
            walk.parts(mirrors, layout.parameters())?;
            walk.record("is_new", is_new)?;
            walk.record("stats", stats)
        }

        fn restored(server, _, layout) {
            server.announced_rows.fill(0);
            server.announced = 0;
            for place in server.mirrors.values().flat_map(|mirror| mirror.announced.keys()) {
                let (_, row) = layout.row_of_parameter(*place as usize);
                server.announced_rows[row] += 1;
                server.announced += 1;
            }
            Ok(())
        }
    }
}

/// The largest number of reports kept for a mirror. A mirror sends one for each clock, and its reports are rarely more
/// clocks ahead of its updates than the data center staleness.
const REPORTS_MAX: usize = 1024;
