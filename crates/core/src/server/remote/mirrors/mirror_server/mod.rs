//! The face in from mirrors: applies what they send, keeps their clocks, and holds back the reads that ASP's
//! two brakes stop (Hsieh et al., NSDI 2017).

mod mirror;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::codec::Changes;
use crate::server::error::PeerError;
use crate::server::stats::BrakeStats;
use crate::store::{ShardRows, ShardStore};
use crate::sync::{Gate, OnPartition, WaitReason};
use crate::types::{Clock, DcId, Instant, ShardLayout, Staleness, StateError, TableRows, Walk};

use mirror::{Awaited, Mirror};

/// What one server knows of its mirrors.
#[derive(Debug)]
pub(super) struct MirrorServer {
    mirrors: BTreeMap<DcId, Mirror>,
    barrier_deadline: Duration,
    mirror_clock_deadline: Duration,
    on_partition: OnPartition,
    /// Announced parameters in each row of the shard, and in all.
    announced_rows: Vec<u32>,
    announced: usize,
    stats: BrakeStats,
}

impl MirrorServer {
    /// `mirrors` are all other data centers, each with whether it is a neighbour in the overlay.
    pub(super) fn new(
        mirrors: impl Iterator<Item = (DcId, bool)>,
        layout: &ShardLayout,
        [barrier_deadline, mirror_clock_deadline]: [Duration; 2],
        on_partition: OnPartition,
    ) -> Self {
        Self {
            mirrors: mirrors.map(|(dc, neighbour)| (dc, Mirror::new(neighbour))).collect(),
            barrier_deadline,
            mirror_clock_deadline,
            on_partition,
            announced_rows: vec![0; layout.rows()],
            announced: 0,
            stats: BrakeStats::default(),
        }
    }

    /// Notes that a frame came: a mirror that was left out counts again. Says whether nothing could come from it until
    /// now.
    pub(super) fn on_heard(&mut self, now: Instant, from: DcId) -> Result<bool, PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        mirror.heard = now;
        mirror.lost = mirror.returning;
        Ok(std::mem::take(&mut mirror.parted))
    }

    /// Notes that nothing can come from a mirror until further notice.
    pub(super) fn on_disconnected(&mut self, from: DcId) -> Result<(), PeerError> {
        let mirror = self.mirrors.get_mut(&from).ok_or(PeerError::UnknownPeer { from })?;
        mirror.parted = true;
        if self.on_partition == OnPartition::Continue {
            self.stats.mirrors_lost += u64::from(mirror.counts());
            mirror.lost = true;
        }
        Ok(())
    }

    /// What a mirror sends is missed from now on, as this server says in its word of this version.
    pub(super) fn on_missed(&mut self, from: DcId, version: u64) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.missed = Some(version);
        }
    }

    /// A mirror says that what was missed of it ends with an update.
    pub(super) fn on_caught_up(&mut self, from: DcId, version: u64, sequence: u64) {
        if let Some(mirror) = self.mirrors.get_mut(&from) {
            mirror.caught_up = Some((version, sequence));
        }
    }

    /// Whether all is here that was missed of a mirror. Says so once.
    pub(super) fn has_caught_up(&mut self, from: DcId) -> bool {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return false };
        let (Some(missed), Some((version, sequence))) = (mirror.missed, mirror.caught_up) else {
            return false;
        };
        let is_here = !mirror.parted && version >= missed && sequence <= mirror.applied;
        if is_here {
            (mirror.missed, mirror.caught_up) = (None, None);
        }
        is_here
    }

    /// A mirror says whether its data center pauses, while this one is at `clock`. Nobody waits for one that does, nor
    /// afterwards for the clocks that it has missed.
    pub(super) fn set_paused(&mut self, from: DcId, paused: bool, clock: Clock) {
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        match (mirror.paused, paused) {
            (false, true) => self.stats.mirrors_lost += u64::from(mirror.counts()),
            (true, false) => {
                mirror.excused = mirror.excused.max(clock.0.saturating_sub(mirror.clock.0));
            }
            _ => {}
        }
        mirror.paused = paused;
    }

    /// A mirror has lost all that it had, or begins to take part: it counts once it reports a clock, and sends from 1.
    pub(super) fn on_reset(&mut self, from: DcId, layout: &ShardLayout) {
        let places = self.mirrors.get(&from).map(|mirror| mirror.announced.keys().copied());
        for place in places.into_iter().flatten().collect::<Vec<u32>>() {
            self.lift(from, place, layout);
        }
        let Some(mirror) = self.mirrors.get_mut(&from) else { return };
        (mirror.applied, mirror.updated, mirror.end) = (0, 0, None);
        mirror.reported.clear();
        mirror.deadlines.clear();
        self.stats.mirrors_lost += u64::from(mirror.counts());
        (mirror.lost, mirror.returning, mirror.inactive) = (true, true, false);
        (mirror.missed, mirror.caught_up) = (None, None);
        (mirror.paused, mirror.excused) = (false, 0);
    }

    /// Begins with a mirror that takes part, or does not yet.
    pub(super) fn begin(&mut self, dc: DcId, inactive: bool) {
        if let Some(mirror) = self.mirrors.get_mut(&dc) {
            (mirror.lost, mirror.returning, mirror.inactive) = (inactive, inactive, inactive);
        }
    }

    /// Says whether a mirror takes part: nobody waits for one that does not.
    pub(super) fn set_inactive(&mut self, dc: DcId, inactive: bool) {
        if let Some(mirror) = self.mirrors.get_mut(&dc) {
            mirror.inactive = inactive;
        }
    }

    /// The mirrors that take part.
    pub(super) fn present(&self) -> impl Iterator<Item = DcId> + '_ {
        self.mirrors.iter().filter(|(_, mirror)| !mirror.inactive).map(|(dc, _)| *dc)
    }

    /// All that a mirror shared before this clock is here, with its copy.
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

    /// Whether a mirror has said that its updates end before this one.
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

    /// Adds a mirror's updates to the values alone: they are no residual of ours, so nothing echoes.
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

    /// Holds back reads of the parameters that a mirror announced until they arrive.
    ///
    /// An announcement that the first of its updates has overtaken is void: which of its parameters that
    /// update brought is not remembered.
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
            // To count an earlier clock with a later one is late, never wrong.
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

    /// Whether nothing can come from a mirror, as the driver says.
    pub(super) fn is_parted(&self, from: DcId) -> bool {
        self.mirrors.get(&from).is_some_and(|mirror| mirror.parted)
    }

    /// The clock of a mirror, as far as it counts; `None` where it does not: lost, paused, or spoken for by a hub.
    pub(super) fn clock_of(&self, mirror: DcId) -> Option<Clock> {
        self.mirrors.get(&mirror).filter(|mirror| mirror.counts()).map(|mirror| mirror.clock)
    }

    /// The clock that a mirror is taken for, where it counts: its own, and those that it is excused from.
    pub(super) fn counted_clock_of(&self, mirror: DcId) -> Option<Clock> {
        self.mirrors.get(&mirror).filter(|mirror| mirror.counts()).map(Mirror::counted)
    }

    /// Whether every mirror that takes part has said that it is done, and all it sent was applied.
    pub(super) fn all_ended(&self) -> bool {
        let mut present = self.mirrors.values().filter(|mirror| !mirror.inactive);
        present.all(|mirror| mirror.end.is_some_and(|end| mirror.applied >= end))
    }

    /// Whether a read of `rows` by a worker at `clock` may go.
    pub(super) fn gate(
        &self,
        clock: Clock,
        rows: &ShardRows,
        staleness: Option<Staleness>,
        layout: &ShardLayout,
    ) -> Gate {
        let pauses = self.on_partition == OnPartition::Pause;
        let mut parted = self
            .mirrors
            .iter()
            .filter(|(_, mirror)| mirror.parted && mirror.neighbour && !mirror.inactive);

        if let Some((&from, _)) = parted.next().filter(|_| pauses) {
            return Gate::Closed(WaitReason::MirrorClock { from });
        }
        if let Some(staleness) = staleness {
            let counted = self.mirrors.iter().filter(|(_, mirror)| mirror.counts());
            let slowest = counted.min_by_key(|(_, mirror)| mirror.counted());
            if let Some((&from, mirror)) = slowest
                && clock.next().ahead_of(mirror.counted()) > staleness.0.max(1)
            {
                return Gate::Closed(WaitReason::MirrorClock { from });
            }
        }

        match self.announced_row(rows, layout) {
            Some(reason) => Gate::Closed(reason),
            None => Gate::Open,
        }
    }

    /// Lets go what has waited too long. `waiting_since` says how long reads wait for mirror clocks, if any do.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        waiting_since: Option<Instant>,
        layout: &ShardLayout,
    ) {
        let mut expired = Vec::new();
        let pauses = self.on_partition == OnPartition::Pause;
        for (from, mirror) in &mut self.mirrors {
            let due = mirror.silent_at(waiting_since, self.mirror_clock_deadline);
            let due = due.filter(|_| !(pauses && mirror.parted));
            if due.is_some_and(|due| due <= now) {
                mirror.lost = true;
                self.stats.mirrors_lost += 1;
            }
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

    /// When [`Self::handle_timeout`] may have something to do.
    pub(super) fn poll_timeout(&self, waiting_since: Option<Instant>) -> Option<Instant> {
        let pauses = self.on_partition == OnPartition::Pause;
        let mirrors = self.mirrors.values().filter(|mirror| !(pauses && mirror.parted));
        let silent = mirrors
            .filter_map(|mirror| mirror.silent_at(waiting_since, self.mirror_clock_deadline));
        let announced = self
            .mirrors
            .values()
            .filter(|mirror| !mirror.announced.is_empty())
            .filter_map(|mirror| mirror.deadlines.front().copied());
        silent.chain(announced).min()
    }

    pub(super) fn stats(&self) -> BrakeStats {
        self.stats
    }

    /// Walks over what changes as time goes on.
    pub(super) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        layout: &ShardLayout,
    ) -> Result<(), StateError> {
        for (from, mirror) in &mut self.mirrors {
            mirror.state(&mut walk.at(from), layout.parameters())?;
        }
        if walk.restores() {
            self.announced_rows.fill(0);
            self.announced = 0;
            for place in self.mirrors.values().flat_map(|mirror| mirror.announced.keys()) {
                let (_, row) = layout.row_of_parameter(*place as usize);
                self.announced_rows[row] += 1;
                self.announced += 1;
            }
        }
        walk.record("stats", &mut self.stats)
    }

    /// The last frame of a mirror that was applied.
    pub(super) fn applied(&self, from: DcId) -> u64 {
        self.mirrors.get(&from).map_or(0, |mirror| mirror.applied)
    }

    /// Notes that an update brought a parameter, which lifts its barrier unless that waits for a later one.
    fn release(&mut self, from: DcId, place: u32, sequence: u64, layout: &ShardLayout) {
        let Some(mirror) = self.mirrors.get(&from) else { return };
        if mirror.announced.get(&place).is_some_and(|awaited| awaited.sequence <= sequence) {
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

/// Reports kept per mirror. A mirror makes one a clock, and is rarely more clocks ahead of its updates than the
/// data center staleness.
const REPORTS_MAX: usize = 1024;
