//! A test without divisions that most residuals fail.
//!
//! A ratio takes two divisions, which cost more than to read its three numbers from memory. If few ratios are above the
//! cut, one multiplication shows of nearly all others that they are not. The test errs on one side only: what it cannot
//! exclude is measured exactly, so that it never changes a selection.

use super::order::BUCKET_SHIFT;
use crate::simd::Screen;
use crate::sync::Function;

impl Screen {
    /// A test that passes all residuals whose ratios are above those of all buckets below `cut`. `None` if the function
    /// has no such test, or its numbers are so small or large that an intermediate result of a ratio may be no normal
    /// number.
    #[inline(always)]
    pub(super) fn of(function: Function, floor: f32, threshold: f32, cut: u16) -> Option<Self> {
        let least = f32::from_bits(u32::from(cut) << BUCKET_SHIFT);
        let ordinary = |number: f32| (ORDINARY_MIN..=1.0 / ORDINARY_MIN).contains(&number.abs());
        let bar = threshold.abs() * least * MARGIN;

        if !ordinary(threshold) || !ordinary(least) {
            return None;
        }
        match function {
            Function::Absolute => Some(Self::Constant(bar)),
            Function::Progress => ordinary(floor).then(|| Self::Constant(bar * floor.abs())),
            Function::Relative => ordinary(floor).then_some(Self::Relative { bar, floor }),
            Function::RowNorm => None,
        }
    }
}

/// More than the roundings of two divisions and two multiplications, each at most 2⁻²⁴.
const MARGIN: f32 = 1.0 - 1.0 / (1 << 20) as f32;
/// The smallest threshold, cut and floor with which no result of an ordinary division is rounded as no normal number.
const ORDINARY_MIN: f32 = 1.0 / (1_u64 << 40) as f32;
