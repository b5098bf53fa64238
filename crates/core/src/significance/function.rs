//! The size of a residual relative to its value.

use super::norm::norm;
use crate::sync::Function;

/// A measure of how much a residual matters. The built-in ones are those of [`Function`].
///
/// ```
/// use gaia::significance::Significance;
///
/// /// Counts a residual against the square root of its value.
/// struct SquareRoot;
///
/// impl Significance for SquareRoot {
///     fn measure(&self, residuals: &[f32], values: &[f32], _: usize, floor: f32, out: &mut [f32]) {
///         for ((out, residual), value) in out.iter_mut().zip(residuals).zip(values) {
///             *out = residual.abs() / value.abs().sqrt().max(floor);
///         }
///     }
/// }
/// ```
pub trait Significance {
    /// Whether [`measure`](Self::measure) must see whole rows.
    fn by_row(&self) -> bool {
        false
    }

    /// Writes the significance of each residual: 0 or more, to be compared with the threshold.
    ///
    /// The three slices are equally long: some consecutive parameters of one table, whole rows of `width` where
    /// [`by_row`](Self::by_row) says so. What is written for a residual of 0 or not-a-number is ignored.
    fn measure(&self, residuals: &[f32], values: &[f32], width: usize, floor: f32, out: &mut [f32]);
}

impl Significance for Function {
    #[inline(always)]
    fn by_row(&self) -> bool {
        *self == Self::RowNorm
    }

    #[inline(always)]
    fn measure(
        &self,
        residuals: &[f32],
        values: &[f32],
        width: usize,
        floor: f32,
        out: &mut [f32],
    ) {
        match self {
            Self::Relative => {
                for ((out, residual), value) in out.iter_mut().zip(residuals).zip(values) {
                    *out = residual.abs() / value.abs().max(floor);
                }
            }
            Self::Progress => {
                for (out, residual) in out.iter_mut().zip(residuals) {
                    *out = residual.abs() / floor;
                }
            }
            Self::Absolute => {
                for (out, residual) in out.iter_mut().zip(residuals) {
                    *out = residual.abs();
                }
            }
            Self::RowNorm => {
                let least = floor * (width as f32).sqrt();
                let rows = residuals.chunks_exact(width).zip(values.chunks_exact(width));
                for (out, (residuals, values)) in out.chunks_exact_mut(width).zip(rows) {
                    out.fill(norm(residuals) / norm(values).max(least));
                }
            }
        }
    }
}
