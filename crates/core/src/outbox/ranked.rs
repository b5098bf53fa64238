//! An outbox that sends the most significant residuals first.
//!
//! The residuals are ranked once for each clock, in groups of what the link carries in one. Frames are cut from the head of
//! the ranking, with the residuals of the moment of sending. A ranking for each frame would cost a pass over the shard for
//! each frame.

use std::collections::{BTreeSet, VecDeque};

use super::{Batch, Room};
use crate::codec::Changes;
use crate::persist;
use crate::significance::{Measure, Parameters, Scratch, Selection, TableCriteria, Take, select};
use crate::sync::ValueFormat;
use crate::types::{Clock, Content, Numbers, Paged};

/// The ranking of one link's residuals.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The sum of what was sent on the link, per parameter.
    shared: Paged,
    ranking: Selection,
    /// The number of entries of the ranking that were sent.
    taken: usize,
    /// What is sent before the ranking, however small its residual is: parameters of a ranking before that must be sent first,
    /// and announced ones that the ranking may lack.
    owed: VecDeque<u32>,
    /// Parameters that were announced to the receiver and not sent since.
    announced: BTreeSet<u32>,
    /// The clock of the ranking, until it is reported.
    ranked: Option<Clock>,
}

/// The state of the shard against which residuals are ranked.
#[derive(Clone, Copy, Debug)]
pub struct Residuals<'a> {
    /// The values of the shard.
    pub values: &'a [f32],
    /// The sum of all updates of this server, per parameter.
    pub source: &'a [f32],
    /// How significance is computed, for each table.
    pub criteria: &'a [TableCriteria<Measure>],
}

impl Ranked {
    /// An outbox for a shard of `parameters`, of a link on which nothing was sent.
    pub fn new(parameters: usize) -> Self {
        Self::sharing(Paged::zeros(parameters))
    }

    /// An outbox of a link on which `shared` was sent.
    pub fn sharing(shared: Paged) -> Self {
        Self {
            shared,
            ranking: Selection::default(),
            taken: 0,
            owed: VecDeque::new(),
            announced: BTreeSet::new(),
            ranked: None,
        }
    }

    /// Ranks all residuals above the hard threshold, and those below it that `take` selects. Replaces the ranking
    /// before.
    pub fn rank(
        &mut self,
        residuals: Residuals<'_>,
        take: Take,
        clock: Clock,
        scratch: &mut Scratch,
    ) {
        let shared = Numbers::Paged(&self.shared);
        let parameters = Parameters { values: residuals.values, local: residuals.source, shared };
        select(&parameters, residuals.criteria, take, clock.0, scratch, &mut self.ranking);
        self.taken = 0;
        self.ranked = Some(clock);
        self.owed.clear();
        if !self.announced.is_empty() {
            let hard: BTreeSet<u32> = self.ranking.hard_indexes().collect();
            self.owed.extend(self.announced.difference(&hard));
        }
    }

    /// As [`Self::rank`], but the `first` parameters that would be sent next are still sent before all others. One that is also
    /// ranked counts as two that must be sent.
    pub fn rank_behind(
        &mut self,
        first: usize,
        residuals: Residuals<'_>,
        take: Take,
        clock: Clock,
        scratch: &mut Scratch,
    ) {
        // What was taken of a ranking that is in no order was all of it.
        let ranked = self.ranking.hard_indexes().skip(self.taken);
        let first: VecDeque<u32> = self.owed.iter().copied().chain(ranked).take(first).collect();
        self.rank(residuals, take, clock, scratch);
        let announced = std::mem::replace(&mut self.owed, first);
        self.owed.extend(announced);
    }

    /// Cuts the updates of one frame into `batch`. They count as sent. Returns by how much fewer must be sent.
    ///
    /// What leaves in the same clock is sent in the order of
    /// the shard, since its order by significance would cost an index more bits and change nothing once all of it has left.
    pub fn take(
        &mut self,
        source: &[f32],
        format: ValueFormat,
        room: Room,
        batch: &mut Batch,
        scratch: &mut Scratch,
    ) -> usize {
        batch.clear();
        let before = self.hard_waiting();
        let chosen = &mut batch.indexes;
        let owed = self.owed.len().min(room.frame);
        chosen.extend(self.owed.drain(..owed));
        let ranked = (self.ranking.len() - self.taken).min(room.frame - owed);
        let is_whole = ranked == self.ranking.len();
        match self.ranking.ascending().filter(|_| is_whole) {
            // What leaves at once needs no order but that of a frame.
            Some(parts) => parts.into_iter().for_each(|part| chosen.extend_from_slice(part)),
            None if ranked == 0 => {}
            None => {
                self.ranking.order(room.clock, scratch);
                let next = &self.ranking.indexes()[self.taken..self.taken + ranked];
                chosen.extend_from_slice(next);
            }
        }
        self.taken += ranked;
        // A few ascending pieces, which a stable sort merges: one of each group, and one from the beginning of the shard.
        chosen.sort();
        // What is owed may be ranked as well, below the threshold.
        if owed > 0 {
            chosen.dedup();
        }

        let Self { shared, announced, .. } = self;
        batch.read(source, shared);
        // What equals what was sent, or cannot be compared, is looked at again: nearly always there is none.
        if !announced.is_empty() || !batch.values.iter().all(|residual| residual.abs() > 0.0) {
            batch.retain(|index| {
                let is_announced = announced.remove(&index);
                is_announced || source[index as usize] != shared.get(index as usize)
            });
        }

        if batch.leave(source, &mut self.shared, format) {
            for index in &batch.indexes {
                self.announced.remove(index);
            }
        }
        before - self.hard_waiting()
    }

    /// Marks as announced all ranked parameters above the hard threshold except the first `fitting`. Returns those that
    /// were not announced before, ascending.
    pub fn announce(&mut self, fitting: usize, scratch: &mut Scratch) -> Vec<u32> {
        let hard = self.ranking.hard();
        if fitting >= hard {
            return Vec::new();
        }
        self.ranking.order(fitting, scratch);
        let mut places: Vec<u32> = self.ranking.indexes()[fitting..hard].to_vec();
        places.retain(|place| self.announced.insert(*place));
        places.sort_unstable();
        places
    }

    /// The clock of the ranking, once everything above its hard threshold was sent. Returned once.
    pub fn covered(&mut self) -> Option<Clock> {
        if self.hard_waiting() == 0 { self.ranked.take() } else { None }
    }

    /// The number of parameters that are above the hard threshold or announced, and not sent.
    ///
    /// The promise of a clock needs the former only: what is owed is announced and below the threshold at this ranking. It is
    /// counted because reads of it wait until it arrives, so the clock does not overtake it.
    pub fn hard_waiting(&self) -> usize {
        self.ranking.hard().saturating_sub(self.taken) + self.owed.len()
    }

    /// Removes the ranking: what was not sent stays in the residual.
    pub fn close(&mut self) {
        self.ranking = Selection::default();
        self.taken = 0;
        self.owed.clear();
        self.announced.clear();
        self.ranked = None;
    }

    /// A copy for a link whose receiver has received no announcement.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { owed: VecDeque::new(), announced: BTreeSet::new(), ..self.clone() }
    }

    /// Adds changes that are not part of the source to the residuals. The next ranking includes them.
    pub fn enqueue(&mut self, changes: Changes<'_>) {
        changes.for_each(|index, value| self.shared.set(index, self.shared.get(index) - value));
    }

    /// The number of ranked or announced parameters that were not sent.
    pub fn waiting(&self) -> usize {
        self.ranking.len() - self.taken + self.owed.len()
    }

    /// The sum of what was sent on the link, per parameter.
    pub fn shared(&self) -> &Paged {
        &self.shared
    }
}

persist! {
    impl Persist<()> for Ranked {
        fn walk(Self { shared, ranking, taken, owed, announced, ranked }, walk, ()) {
            walk.flatten(shared, ("shared", Content::Changes))?;
            let parameters = shared.len();
            let within = |index: &u32| (*index as usize) < parameters;

            walk.part("ranking", ranking, parameters)?;
            let most = ranking.len();
            walk.record_that("taken", taken, |found, _| *found <= most)?;
            walk.record_that("owed", owed, |found, _| found.iter().all(within))?;
            walk.record_that("announced", announced, |found, _| found.iter().all(within))?;
            walk.record("ranked", ranked)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Function;

    #[test]
    fn a_clock_is_covered_once_what_is_announced_and_below_the_threshold_has_left() {
        let function = Measure::BuiltIn(Function::Absolute);
        let criteria =
            [TableCriteria { range: 0..2, width: 1, function, floor: 0.0, threshold: 1.0 }];
        let mut outbox = Ranked::new(2);
        let rank = |outbox: &mut Ranked, source: &[f32], clock| {
            let residuals = Residuals { values: &[0.0; 2], source, criteria: &criteria };
            outbox.rank(residuals, Take::Hard, Clock(clock), &mut Scratch::default());
        };

        rank(&mut outbox, &[5.0, 0.0], 1);
        assert_eq!(outbox.announce(0, &mut Scratch::default()), [0]);
        let source = [0.5, 0.0];
        rank(&mut outbox, &source, 2);
        assert_eq!((outbox.hard_waiting(), outbox.covered()), (1, None));

        let (mut batch, room) = (Batch::default(), Room { frame: 9, clock: 1 });
        outbox.take(&source, ValueFormat::F32, room, &mut batch, &mut Scratch::default());
        assert_eq!((&batch.indexes[..], outbox.covered()), (&[0][..], Some(Clock(2))));
    }

    #[test]
    fn what_leaves_at_once_is_the_same_whether_it_was_put_in_order_or_not() {
        let function = Measure::BuiltIn(Function::Absolute);
        let criteria =
            [TableCriteria { range: 0..4, width: 1, function, floor: 0.0, threshold: 1.0 }];
        let source = [2.0, 0.5, 9.0, 4.0];
        let taken = |is_ordered: bool, most: usize| {
            let (mut outbox, mut scratch) = (Ranked::new(4), Scratch::default());
            let residuals = Residuals { values: &[0.0; 4], source: &source, criteria: &criteria };
            outbox.rank(residuals, Take::Most(4), Clock(1), &mut scratch);
            if is_ordered {
                outbox.ranking.order(1, &mut scratch);
            }
            let mut batch = Batch::default();
            let room = Room { frame: most, clock: 1 };
            outbox.take(&source, ValueFormat::F32, room, &mut batch, &mut scratch);
            (batch.indexes, outbox.hard_waiting(), outbox.waiting())
        };
        for most in 0..=5 {
            assert_eq!(taken(false, most), taken(true, most), "{most} at most");
        }
        assert_eq!(taken(false, 2), (vec![2, 3], 1, 2));
    }

    #[test]
    fn a_frame_of_nothing_leaves_the_ranking_as_it_is() {
        let function = Measure::BuiltIn(Function::Absolute);
        let criteria =
            [TableCriteria { range: 0..3, width: 1, function, floor: 0.0, threshold: 1.0 }];
        let source = [2.0, 9.0, 4.0];
        let (mut outbox, mut scratch) = (Ranked::new(3), Scratch::default());
        let residuals = Residuals { values: &[0.0; 3], source: &source, criteria: &criteria };
        outbox.rank(residuals, Take::Hard, Clock(1), &mut scratch);
        let (mut batch, room) = (Batch::default(), Room { frame: 9, clock: 1 });
        outbox.take(&source, ValueFormat::F32, room, &mut batch, &mut scratch);
        let ranking = outbox.ranking.clone();
        outbox.take(&source, ValueFormat::F32, room, &mut batch, &mut scratch);
        // A server does not log it, and comes back from its log.
        assert!(batch.is_empty() && outbox.ranking == ranking, "{ranking:?}");
    }
}
