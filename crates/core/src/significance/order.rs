//! The order of ratios: their buckets, and the cut between those that leave and those that stay.
//!
//! Positive floats are ordered like their bits. So the top eleven bits of a ratio, the exponent and three bits of the
//! mantissa, are the number of its bucket. One is subtracted first: a ratio of exactly 1 is not above the threshold and
//! must be in the bucket below the hard ones.

use super::DUST;
use crate::simd::bits_of;

/// The least significant bucket that is admitted, and how many parameters of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) bucket: u16,
    pub(super) ties: usize,
}

/// The bucket of a ratio above 0.
#[inline(always)]
pub(super) fn bucket(ratio: f32) -> u16 {
    ((bits_of(ratio) - 1) >> BUCKET_SHIFT) as u16
}

/// The lowest soft or hard bucket that holds ratios above `least`.
pub(super) fn lowest_bucket(least: f32) -> u16 {
    ((least.clamp(DUST, 1.0).to_bits() >> BUCKET_SHIFT) as u16).clamp(DUST_BUCKET, HARD_BUCKET)
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
