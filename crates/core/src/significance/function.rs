//! The size of a residual relative to its value.

use std::fmt;
use std::sync::Arc;

use super::norm::norm;
use crate::sync::Function;

/// A measure of how much a residual matters: the paper's significance function, which the programmer chooses. The built-in
/// ones are those of [`Function`].
///
/// Each server calls it for every residual at every clock, on whichever thread the server runs. Equal arguments have to
/// give equal results, or a seed does not repeat a run. It must not panic.
///
/// ```
/// use gaia_core::significance::Significance;
///
/// /// Measures a residual against the square root of its value.
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
pub trait Significance: Send + Sync {
    /// Whether [`measure`](Self::measure) must see whole rows.
    fn by_row(&self) -> bool {
        false
    }

    /// Writes the significance of each residual into `out`: 0 or more, to be compared with the threshold. One above the
    /// threshold must leave, and so must one that is not a number. It should be proportional to the residual, as the
    /// built-in functions are: where residuals are corrected for momentum, the threshold is lowered in proportion.
    ///
    /// The three slices are equally long: some consecutive parameters of one table, whole rows of `width` where
    /// [`by_row`](Self::by_row) says so. `floor` is the smallest magnitude that a residual should be measured against:
    /// the table's root mean square, or 0. What is written for a residual of 0 or not-a-number is ignored.
    fn measure(&self, residuals: &[f32], values: &[f32], width: usize, floor: f32, out: &mut [f32]);
}

/// What a server measures with.
#[derive(Clone, Debug)]
pub enum Measure {
    /// The one that the configuration names.
    BuiltIn(Function),
    /// Handed in from code.
    Own(Arc<dyn Significance>),
}

impl Significance for Measure {
    #[inline(always)]
    fn by_row(&self) -> bool {
        match self {
            Self::BuiltIn(function) => function.by_row(),
            Self::Own(own) => own.by_row(),
        }
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
            Self::BuiltIn(function) => function.measure(residuals, values, width, floor, out),
            Self::Own(own) => own.measure(residuals, values, width, floor, out),
        }
    }
}

impl fmt::Debug for dyn Significance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Significance")
    }
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
