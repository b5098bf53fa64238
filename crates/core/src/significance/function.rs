//! The significance functions: the size of a residual relative to its value.

use std::fmt;
use std::sync::Arc;

use super::norm::norm;
use crate::sync::Function;

/// A significance function (section 3 of the paper), which the programmer chooses. The built-in ones are those of
/// [`Function`].
///
/// Each server calls it for every residual at every clock, on the server's thread. Equal arguments must give equal
/// results. Otherwise a seed does not repeat a run. It must not panic.
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
    /// Whether [`measure`](Self::measure) requires whole rows. The default is `false`.
    fn by_row(&self) -> bool {
        false
    }

    /// The built-in function that this is. The default is `None`. The filter skips what is far below the threshold of a
    /// built-in function without a call of [`measure`](Self::measure).
    fn built_in(&self) -> Option<Function> {
        None
    }

    /// Writes the significance of each residual into `out`: 0 or more, to be compared with the threshold.
    ///
    /// A residual whose significance is above the threshold must be sent, and so must one whose significance is not a
    /// number. The significance should be proportional to the residual, as that of the built-in functions is: if
    /// residuals are corrected for momentum, the threshold is lowered in proportion.
    ///
    /// The three slices have the same length: consecutive parameters of one table, whole rows of `width` if
    /// [`by_row`](Self::by_row) returns `true`. `floor` is the smallest magnitude that a residual should be measured
    /// against: the table's root mean square, or 0. The significance of a residual of 0 or not-a-number is ignored.
    fn measure(&self, residuals: &[f32], values: &[f32], width: usize, floor: f32, out: &mut [f32]);
}

/// The significance function of a server.
#[derive(Clone, Debug)]
pub enum Measure {
    /// The function that the configuration names.
    BuiltIn(Function),
    /// A function that the program passed in.
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

    fn built_in(&self) -> Option<Function> {
        match self {
            Self::BuiltIn(function) => Some(*function),
            Self::Own(own) => own.built_in(),
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

    fn built_in(&self) -> Option<Function> {
        Some(*self)
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
                for first in (0..out.len() / width * width).step_by(width) {
                    let row = first..first + width;
                    let significance =
                        norm(&residuals[row.clone()]) / norm(&values[row.clone()]).max(least);
                    for out in &mut out[row] {
                        *out = significance;
                    }
                }
            }
        }
    }
}
