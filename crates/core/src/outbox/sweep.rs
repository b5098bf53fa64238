//! An outbox that sends marked parameters in the order of the shard, cyclically.
//!
//! TAP marks every change. ASP's `paper` policy marks what its filter has selected. A parameter that is marked twice
//! before it is sent is sent once, with the sum.

use std::collections::VecDeque;

use super::Batch;
use crate::codec::Changes;
use crate::persist;
use crate::store::Touched;
use crate::sync::ValueFormat;
use crate::types::{Clock, Content, Paged};

/// The marked parameters of one link, and the position of the sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The sum of what was sent on the link, per parameter.
    shared: Paged,
    marked: Touched,
    /// Marked parameters that were announced to the receiver.
    announced: Touched,
    cursor: usize,
    /// The number of parameters passed since the start of the run.
    passed: u64,
    /// For each clock whose marks are not all sent, the value of `passed` at which they will be.
    rounds: VecDeque<(Clock, u64)>,
}

impl Sweep {
    /// An outbox for a shard of `parameters`, of a link on which nothing was sent.
    pub fn new(parameters: usize) -> Self {
        Self::sharing(Paged::zeros(parameters))
    }

    /// An outbox of a link on which `shared` was sent.
    pub fn sharing(shared: Paged) -> Self {
        let parameters = shared.len();
        Self {
            shared,
            marked: Touched::none(parameters),
            announced: Touched::none(parameters),
            cursor: 0,
            passed: 0,
            rounds: VecDeque::new(),
        }
    }

    /// Marks parameters whose source changed in the clock that ends at `clock`.
    pub fn mark(&mut self, parameters: &Touched, clock: Clock) {
        self.marked.union(parameters);
        let due = self.passed + self.shared.len() as u64;
        match self.rounds.back_mut() {
            // Nothing was sent since the clock before: both clocks are sent together.
            Some((latest, same)) if *same == due => *latest = clock,
            _ => self.rounds.push_back((clock, due)),
        }
    }

    /// Cuts at most `most` updates for one frame into `batch`. They count as sent. Returns the number of parameters passed.
    pub fn take(
        &mut self,
        source: &[f32],
        format: ValueFormat,
        most: usize,
        batch: &mut Batch,
    ) -> usize {
        batch.clear();
        if self.marked.is_empty() {
            return 0;
        }
        let before = self.passed;
        let mut end = self.cut(self.cursor, most, source, batch);
        if batch.is_empty() {
            self.passed += (self.shared.len() - self.cursor) as u64;
            self.cursor = 0;
            end = self.cut(0, most, source, batch);
        }
        self.passed += (end - self.cursor) as u64;
        self.cursor = end;
        batch.leave(source, &mut self.shared, format);
        for index in &batch.indexes {
            self.marked.remove(*index as usize);
            self.announced.remove(*index as usize);
        }
        (self.passed - before) as usize
    }

    /// The latest clock of which all marks were sent. Returned once for each clock.
    pub fn covered(&mut self) -> Option<Clock> {
        let mut covered = None;
        while let Some((clock, due)) = self.rounds.front() {
            if !self.marked.is_empty() && self.passed < *due {
                break;
            }
            covered = Some(*clock);
            self.rounds.pop_front();
        }
        covered
    }

    /// Marks as announced all marked parameters except the next `fitting`. Returns those that were not announced
    /// before, ascending. A marked parameter is always sent, so that every announcement is fulfilled.
    pub fn announce(&mut self, fitting: usize) -> Vec<u32> {
        let parameters = self.shared.len();
        let (ahead, behind) = (self.cursor..parameters, 0..self.cursor);
        let in_order = self.marked.iter_range(ahead).chain(self.marked.iter_range(behind));
        let mut places: Vec<u32> = in_order
            .skip(fitting)
            .filter(|place| !self.announced.contains(*place))
            .map(|place| place as u32)
            .collect();
        places.sort_unstable();
        for place in &places {
            self.announced.insert(*place as usize);
        }
        places
    }

    /// A copy for a link whose receiver has received no announcement.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { announced: Touched::none(self.shared.len()), ..self.clone() }
    }

    /// Adds changes that are not part of the source to the residuals, and marks them if `leaves`.
    pub fn enqueue(&mut self, changes: Changes<'_>, leaves: bool) {
        changes.for_each(|index, value| {
            self.shared.set(index, self.shared.get(index) - value);
            if leaves {
                self.marked.insert(index);
            }
        });
    }

    /// Removes all marks: what was not sent stays in the residual.
    pub fn close(&mut self) {
        self.marked.clear();
        self.announced.clear();
        self.rounds.clear();
    }

    /// The number of marked parameters that were not sent.
    pub fn waiting(&self) -> usize {
        self.marked.len()
    }

    /// The number of parameters that the sweep passes until all that are marked at this time were sent, whatever is marked
    /// meanwhile.
    pub fn ahead(&self) -> usize {
        let parameters = self.shared.len();
        let last = |range| self.marked.iter_range(range).last().map(|last| last + 1);
        let behind = last(0..self.cursor).map(|end| end + parameters);
        let end = behind.or_else(|| last(self.cursor..parameters));
        end.map_or(0, |end| end - self.cursor)
    }

    /// The sum of what was sent on the link, per parameter.
    pub fn shared(&self) -> &Paged {
        &self.shared
    }

    /// Fills the batch from the parameter `start` on, and returns the parameter at which the next frame begins.
    fn cut(&self, start: usize, most: usize, source: &[f32], batch: &mut Batch) -> usize {
        let parameters = self.shared.len();
        let marked = self.marked.iter_range(start..parameters).take(most);
        batch.indexes.extend(marked.map(|index| index as u32));
        batch.read(source, &self.shared);
        match batch.indexes.last() {
            Some(last) if batch.indexes.len() == most => *last as usize + 1,
            _ => parameters,
        }
    }
}

persist! {
    impl Persist<()> for Sweep {
        fn walk(Self { shared, marked, announced, cursor, passed, rounds }, walk, ()) {
            walk.flatten(shared, ("shared", Content::Changes))?;
            let parameters = shared.len();
            walk.flatten(marked, ("marked", parameters))?;
            walk.flatten(announced, ("announced", parameters))?;
            walk.record_that("cursor", cursor, |found, _| *found <= parameters)?;
            walk.record("passed", passed)?;
            walk.record("rounds", rounds)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(parameters: usize, members: &[usize]) -> Touched {
        let mut touched = Touched::none(parameters);
        members.iter().for_each(|member| {
            touched.insert(*member);
        });
        touched
    }

    #[test]
    fn a_place_marked_twice_is_sent_once_with_the_sum() {
        let mut sweep = Sweep::new(8);
        let mut batch = Batch::default();
        sweep.mark(&touched(8, &[1, 5]), Clock(1));
        sweep.take(&[0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0], ValueFormat::F32, 1, &mut batch);
        assert_eq!((&batch.indexes[..], &batch.values[..]), (&[1][..], &[1.0][..]));
        assert_eq!(sweep.covered(), None);
        sweep.mark(&touched(8, &[5]), Clock(2));
        sweep.take(&[0.0, 1.0, 0.0, 0.0, 0.0, 7.0, 0.0, 0.0], ValueFormat::F32, 9, &mut batch);
        assert_eq!((&batch.indexes[..], &batch.values[..]), (&[5][..], &[7.0][..]));
        assert_eq!(sweep.covered(), Some(Clock(2)));
        sweep.take(&[0.0; 8], ValueFormat::F32, 9, &mut batch);
        assert!(batch.is_empty());
    }

    #[test]
    fn clocks_in_which_nothing_left_take_no_room() {
        let mut sweep = Sweep::new(4);
        (1..100).for_each(|clock| sweep.mark(&touched(4, &[1]), Clock(clock)));
        assert_eq!(sweep.rounds.len(), 1);
        let mut batch = Batch::default();
        sweep.take(&[1.0; 4], ValueFormat::F32, 1, &mut batch);
        assert_eq!(sweep.covered(), Some(Clock(99)));
    }

    #[test]
    fn a_clock_is_covered_only_after_a_whole_round() {
        let mut sweep = Sweep::new(4);
        let mut batch = Batch::default();
        let source = [1.0; 4];
        sweep.mark(&touched(4, &[2, 3]), Clock(1));
        sweep.take(&source, ValueFormat::F32, 1, &mut batch);
        sweep.mark(&touched(4, &[0, 1, 2, 3]), Clock(2));
        sweep.take(&source, ValueFormat::F32, 1, &mut batch);
        assert_eq!(batch.indexes, [3]);
        assert_eq!(sweep.covered(), Some(Clock(1)));
        sweep.take(&source, ValueFormat::F32, 2, &mut batch);
        assert_eq!((&batch.indexes[..], sweep.covered()), (&[0, 1][..], None));
        sweep.take(&source, ValueFormat::F32, 2, &mut batch);
        assert_eq!(sweep.covered(), Some(Clock(2)));
    }
}
