//! The result of a pass: its cut and its order.
//!
//! Positive floats are ordered like their bits. So the top eleven bits of a ratio, the exponent and three bits of the
//! mantissa, are the number of its bucket. One is subtracted first: a ratio of exactly 1 is not above the threshold and
//! must be in the bucket below the hard ones.

use super::{DUST, Selection};

/// Parameters and the buckets of their ratios.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Ascending up to `wrapped_at`, then ascending again. The second part is below the first.
    indexes: Vec<u32>,
    buckets: Vec<u16>,
    wrapped_at: usize,
}

/// The least significant bucket that is admitted, and how many parameters of it.
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

    /// Adds parameters with the bits of their ratios.
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

    /// Marks the wrap-around: all parameters that follow are below all before.
    pub(super) fn wrap(&mut self) {
        self.wrapped_at = self.indexes.len();
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

    pub(super) fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Counts the parameters in each bucket. The counts replace the contents of `histogram`.
    pub(super) fn count(&self, histogram: &mut Vec<u32>) {
        histogram.clear();
        histogram.resize(BUCKETS, 0);
        for bucket in &self.buckets {
            histogram[usize::from(*bucket)] += 1;
        }
    }

    /// Writes the parameters to `out`, the most significant bucket first and ascending within a bucket, by counting
    /// sort.
    pub(super) fn sort_into(&self, histogram: &mut Vec<u32>, out: &mut Selection) {
        self.count(histogram);
        out.hard = histogram[usize::from(HARD_BUCKET)..].iter().sum::<u32>() as usize;
        let mut place = 0;
        for count in histogram.iter_mut().rev() {
            (*count, place) = (place, place + *count);
        }
        // Every entry is overwritten, so that nothing has to be cleared.
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
    /// Admits a bucket and all above it.
    pub(super) fn whole(bucket: u16) -> Self {
        Self { bucket, ties: usize::MAX }
    }

    /// Admits all hard buckets, then soft parameters of buckets from `least` on, up to `most` in all.
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

    /// Whether one more parameter of a bucket is admitted.
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
