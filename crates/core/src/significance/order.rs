//! What a pass found, where it is cut, and its order.
//!
//! For positive floats the order of the bits is the order of the numbers, so the top eleven bits of a ratio, exponent
//! and three of the mantissa, number the buckets. One is subtracted first: a ratio of exactly 1, which is not above
//! the threshold, falls into the bucket below the hard ones.

use super::{DUST, Selection};

/// Parameters and the buckets of their ratios.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Ascending up to `wrapped_at`, then again, all of those below the first.
    indexes: Vec<u32>,
    buckets: Vec<u16>,
    wrapped_at: usize,
}

/// The least significant bucket to take from, and how many of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) bucket: u16,
    pub(super) ties: usize,
}

/// The bucket of a ratio above 0, by its bits.
#[inline(always)]
pub(super) fn bucket(bits: i32) -> u16 {
    ((bits - 1) >> BUCKET_SHIFT) as u16
}

/// The lowest soft or hard bucket that holds ratios above `least`.
pub(super) fn lowest_bucket(least: f32) -> u16 {
    ((least.clamp(DUST, 1.0).to_bits() >> BUCKET_SHIFT) as u16).clamp(DUST_BUCKET, HARD_BUCKET)
}

impl Found {
    pub(super) fn clear(&mut self) {
        self.indexes.clear();
        self.buckets.clear();
        self.wrapped_at = 0;
    }

    /// Adds parameters by the bits of their ratios, all of a cut's lowest bucket included.
    #[inline(always)]
    pub(super) fn extend(&mut self, indexes: &[u32], bits: &[i32]) {
        self.indexes.extend_from_slice(indexes);
        self.buckets.extend(bits.iter().map(|bits| bucket(*bits)));
    }

    #[inline(always)]
    pub(super) fn push(&mut self, index: u32, bucket: u16) {
        self.indexes.push(index);
        self.buckets.push(bucket);
    }

    /// All that follow lie below all that came.
    pub(super) fn wrap(&mut self) {
        self.wrapped_at = self.indexes.len();
    }

    /// Leaves out what is cut.
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

    pub(super) fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Leaves how many parameters are in each bucket.
    pub(super) fn count(&self, histogram: &mut Vec<u32>) {
        histogram.clear();
        histogram.resize(BUCKETS, 0);
        for bucket in &self.buckets {
            histogram[usize::from(*bucket)] += 1;
        }
    }

    /// The most significant bucket first, ascending within one: a counting sort.
    pub(super) fn sort_into(&self, histogram: &mut Vec<u32>, out: &mut Selection) {
        self.count(histogram);
        out.hard = histogram[usize::from(HARD_BUCKET)..].iter().sum::<u32>() as usize;
        let mut place = 0;
        for count in histogram.iter_mut().rev() {
            (*count, place) = (place, place + *count);
        }
        // Every place is written: what is there needs no clearing.
        out.indexes.resize(self.len(), 0);
        for part in [self.wrapped_at..self.len(), 0..self.wrapped_at] {
            for (index, bucket) in self.indexes[part.clone()].iter().zip(&self.buckets[part]) {
                let place = &mut histogram[usize::from(*bucket)];
                out.indexes[*place as usize] = *index;
                *place += 1;
            }
        }
    }
}

impl Cut {
    /// All of a bucket and those above.
    pub(super) fn whole(bucket: u16) -> Self {
        Self { bucket, ties: usize::MAX }
    }

    /// All of the hard buckets, then as many soft ones from `least` on as `most` allows.
    pub(super) fn at(histogram: &[u32], most: usize, least: u16) -> Self {
        let mut taken = 0;
        for bucket in (least..BUCKETS as u16).rev() {
            let count = histogram[usize::from(bucket)] as usize;
            if bucket < HARD_BUCKET && taken + count > most {
                let ties = most.saturating_sub(taken);
                return if ties == 0 { Self::whole(bucket + 1) } else { Self { bucket, ties } };
            }
            taken += count;
        }
        Self::whole(least)
    }

    /// Whether one more of a bucket is taken.
    #[inline(always)]
    pub(super) fn admits(&mut self, bucket: u16) -> bool {
        let tie = bucket == self.bucket;
        let admitted = bucket > self.bucket || (tie && self.ties > 0);
        self.ties -= usize::from(tie && admitted);
        admitted
    }
}

pub(super) const BUCKET_SHIFT: u32 = 20;
pub(super) const BUCKETS: usize = 1 << (31 - BUCKET_SHIFT);
/// The lowest bucket of ratios above 1.
pub(super) const HARD_BUCKET: u16 = (1f32.to_bits() >> BUCKET_SHIFT) as u16;
/// The lowest bucket of ratios above [`DUST`].
pub(super) const DUST_BUCKET: u16 = (DUST.to_bits() >> BUCKET_SHIFT) as u16;
