//! A test without divisions that most residuals fail.
//!
//! A ratio takes two divisions, which cost more than to read its three numbers from memory. If few ratios are above the
//! cut, one multiplication shows of nearly all others that they are not. The test errs on one side only: what it cannot
//! exclude is measured exactly, so that it never changes a selection.

use super::order::BUCKET_SHIFT;
use crate::simd::{Against, Screen};
use crate::sync::Function;

impl Screen {
    /// A screen for the residuals whose ratios are in the bucket `cut` or above. `None` if the function has no such test, or
    /// its numbers are so small or large that an intermediate result of a ratio may be no normal number.
    #[inline(always)]
    pub(super) fn of(function: Function, floor: f32, threshold: f32, cut: u16) -> Option<Self> {
        let least = u32::from(cut) << BUCKET_SHIFT;
        let ordinary = |number: f32| (ORDINARY_MIN..=1.0 / ORDINARY_MIN).contains(&number.abs());
        let against = match function {
            // A quotient by 1 is exact.
            Function::Absolute => Against::Constant(1.0),
            Function::Progress => Against::Constant(floor.abs()),
            Function::Relative => Against::Value { floor },
            Function::RowNorm => return None,
        };

        let is_ordinary = ordinary(threshold)
            && ordinary(f32::from_bits(least))
            && (function == Function::Absolute || ordinary(floor));
        is_ordinary.then(|| Self {
            against,
            threshold,
            bar: threshold.abs() * f32::from_bits(least) * MARGIN,
            least: least as i32,
        })
    }
}

/// More than the roundings of two divisions and two multiplications, each at most 2⁻²⁴.
const MARGIN: f32 = 1.0 - 1.0 / (1 << 20) as f32;
/// The smallest threshold, cut and floor with which no result of an ordinary division is rounded as no normal number.
const ORDINARY_MIN: f32 = 1.0 / (1_u64 << 40) as f32;
