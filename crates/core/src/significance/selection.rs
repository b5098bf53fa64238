//! What a pass selects.

use super::Scratch;
use super::order::{BUCKETS, Cut, HARD_BUCKET, bucket};
use crate::persist;

/// The parameters whose residuals should be sent, and how significant each is.
///
/// A pass finds them in the order of the shard. [`Self::order`] puts the most significant first, which costs about as much for
/// each of them as to find it. So what does not depend on their order comes before that: all of them leave together, or
/// another pass replaces them before any does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Until they are ordered: ascending from the parameter at which the pass began, and from `wrapped_at` on those before it.
    /// Then the most significant first, by groups of buckets, and within a group in that order.
    indexes: Vec<u32>,
    /// The bucket of each, until they are ordered.
    buckets: Vec<u16>,
    wrapped_at: usize,
    hard: usize,
}

/// Memory that ordering reuses.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordering {
    pub(super) histogram: Vec<u32>,
    places: Vec<u32>,
    indexes: Vec<u32>,
}

impl Selection {
    /// The number of parameters.
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// How many of them are above the hard threshold. They come first once they are ordered.
    pub fn hard(&self) -> usize {
        self.hard
    }

    /// The parameters, in no order unless they were ordered.
    pub fn indexes(&self) -> &[u32] {
        &self.indexes
    }

    /// The parameters above the hard threshold, in no order unless they were ordered.
    pub fn hard_indexes(&self) -> impl Iterator<Item = u32> {
        let is_hard = |at: usize| match self.buckets.get(at) {
            Some(bucket) => *bucket >= HARD_BUCKET,
            None => at < self.hard,
        };
        self.indexes.iter().enumerate().filter(move |(at, _)| is_hard(*at)).map(|(_, index)| *index)
    }

    /// The parameters in ascending order, in one piece after the other. `None` once they were ordered otherwise.
    pub fn ascending(&self) -> Option<[&[u32]; 2]> {
        let (later, earlier) = self.indexes.split_at(self.wrapped_at);
        (self.buckets.len() == self.indexes.len()).then_some([earlier, later])
    }

    /// Puts the most significant first, by counting sort. Does nothing if that was done before.
    ///
    /// Buckets that follow each other are one group until it has `together` parameters or more, but what is above the hard
    /// threshold is in no group with what is not. A group stays in the order in which the pass found it: its indexes are dense,
    /// so that they take fewer bytes and lie in fewer lines of memory than those of a bucket do.
    pub fn order(&mut self, together: usize, scratch: &mut Scratch) {
        if self.buckets.is_empty() {
            return;
        }
        let Ordering { histogram, places, indexes } = &mut scratch.ordering;
        let soft = self.len() - self.hard;
        if self.hard.min(soft) > 0 || self.len() > together {
            // Every entry is overwritten, so that nothing has to be cleared.
            indexes.resize(self.len(), 0);
            if self.hard.max(soft) <= together {
                self.part(indexes);
            } else {
                self.count(histogram);
                group(histogram, together, places);
                for (index, bucket) in self.indexes.iter().zip(&self.buckets) {
                    let place = &mut places[histogram[usize::from(*bucket)] as usize];
                    indexes[*place as usize] = *index;
                    *place += 1;
                }
            }
            std::mem::swap(&mut self.indexes, indexes);
        }
        self.buckets.clear();
        self.wrapped_at = 0;
    }

    /// Writes those above the hard threshold to the front of `parted`, and the others behind them.
    fn part(&self, parted: &mut [u32]) {
        let (mut next_hard, mut next_soft) = (0, self.hard);
        for (index, bucket) in self.indexes.iter().zip(&self.buckets) {
            let is_hard = *bucket >= HARD_BUCKET;
            parted[if is_hard { next_hard } else { next_soft }] = *index;
            next_hard += usize::from(is_hard);
            next_soft += usize::from(!is_hard);
        }
    }

    pub(super) fn clear(&mut self) {
        self.indexes.clear();
        self.buckets.clear();
        (self.wrapped_at, self.hard) = (0, 0);
    }

    /// Adds parameters with their ratios.
    #[inline(always)]
    pub(super) fn extend(&mut self, indexes: &[u32], ratios: &[f32]) {
        self.indexes.extend_from_slice(indexes);
        self.buckets.extend(ratios.iter().map(|ratio| bucket(*ratio)));
    }

    #[inline(always)]
    pub(super) fn push(&mut self, index: u32, bucket: u16) {
        self.indexes.push(index);
        self.buckets.push(bucket);
    }

    /// Marks the wrap-around: all parameters that follow are below all before.
    pub(super) fn wrap(&mut self) {
        self.wrapped_at = self.indexes.len();
    }

    /// Ends a pass of which no parameter is in a bucket below `least`: counts what is above the hard threshold.
    pub(super) fn finish(&mut self, least: u16) {
        self.hard = match least {
            HARD_BUCKET.. => self.len(),
            _ => self.buckets.iter().filter(|bucket| **bucket >= HARD_BUCKET).count(),
        };
    }

    /// Removes what the cut does not admit.
    pub(super) fn trim(&mut self, mut cut: Cut) {
        let (mut kept, mut kept_at_wrap) = (0, 0);
        for at in 0..self.indexes.len() {
            if at == self.wrapped_at {
                kept_at_wrap = kept;
            }
            let bucket = self.buckets[at];
            if cut.admits(bucket) {
                self.indexes[kept] = self.indexes[at];
                self.buckets[kept] = bucket;
                kept += 1;
            }
        }

        if self.wrapped_at == self.indexes.len() {
            kept_at_wrap = kept;
        }
        self.indexes.truncate(kept);
        self.buckets.truncate(kept);

        self.wrapped_at = kept_at_wrap;
    }

    /// Counts the parameters in each bucket. The counts replace the contents of `histogram`.
    pub(super) fn count(&self, histogram: &mut Vec<u32>) {
        histogram.clear();
        histogram.resize(BUCKETS, 0);
        for bucket in &self.buckets {
            histogram[usize::from(*bucket)] += 1;
        }
    }
}

/// Replaces the count of each bucket by the number of its group, and `places` by the place of the first parameter of each group.
fn group(histogram: &mut [u32], together: usize, places: &mut Vec<u32>) {
    places.clear();
    let (mut first, mut place) = (0, 0);
    let mut is_hard = true;
    for (bucket, count) in histogram.iter_mut().enumerate().rev() {
        let stays_hard = bucket >= usize::from(HARD_BUCKET);
        let is_full = (place - first) as usize >= together.max(1) || stays_hard != is_hard;
        if places.is_empty() || (is_full && place > first) {
            places.push(place);
            first = place;
        }
        is_hard = stays_hard;
        place += *count;
        *count = places.len() as u32 - 1;
    }
}

/// Whether parameters ascend from the place `wrapped_at` on, and then on from the first.
fn ascends(indexes: &[u32], wrapped_at: usize) -> bool {
    let (later, earlier) = indexes.split_at(wrapped_at);
    earlier.iter().chain(later).is_sorted_by(|one, next| one < next)
}

persist! {
    impl Persist<usize> for Selection {
        fn walk(Self { indexes, buckets, wrapped_at, hard }, walk, parameters) {
            let within = |index: &u32| (*index as usize) < parameters;
            walk.record_that("indexes", indexes, |found, _| found.iter().all(within))?;
            let most = indexes.len();
            walk.record_that("wrapped_at", wrapped_at, |found, _| *found <= most)?;
            walk.record_that("buckets", buckets, |found, _| {
                let is_bucket = |bucket: &u16| usize::from(*bucket) < BUCKETS;
                found.is_empty()
                    || (found.len() == most
                        && found.iter().all(is_bucket)
                        && ascends(indexes, *wrapped_at))
            })?;
            walk.record_that("hard", hard, |found, _| *found <= most)
        }
    }
}
