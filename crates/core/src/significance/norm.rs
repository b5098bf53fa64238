//! Sums of squares, in a fixed order, so that every machine computes the same bits.

use crate::simd::{self, Level, Work};

/// The root mean square of a table. 0 if it is empty.
pub fn rms(values: &[f32]) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    (simd::run(Level::best(), SumOfSquares(values)) / values.len() as f64).sqrt() as f32
}

/// Adds up the squares of values.
struct SumOfSquares<'v>(&'v [f32]);

impl Work for SumOfSquares<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let mut lanes = [0.0f64; LANES];
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(*value) * f64::from(*value);
            }
        }
        for (lane, value) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(*value) * f64::from(*value);
        }
        lanes.iter().sum()
    }
}

/// The Euclidean norm of a row.
///
/// All indexes of `lanes` are constants once loops are unrolled, so that they are registers.
#[inline(always)]
pub(super) fn norm(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        add_squares(&mut lanes, chunk);
    }
    if !rest.is_empty() {
        let mut padded = [0.0; LANES];
        padded[..rest.len()].copy_from_slice(rest);
        add_squares(&mut lanes, &padded);
    }

    let mut eight = [0.0; 8];
    for at in 0..8 {
        eight[at] = lanes[at] + lanes[at + 8];
    }
    let mut four = [0.0; 4];
    for at in 0..4 {
        four[at] = eight[at] + eight[at + 4];
    }
    ((four[0] + four[2]) + (four[1] + four[3])).sqrt()
}

#[inline(always)]
fn add_squares(lanes: &mut [f32; LANES], values: &[f32; LANES]) {
    for at in 0..LANES {
        lanes[at] += values[at] * values[at];
    }
}

const LANES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_adds_up_the_same_bits() {
        let values: Vec<f32> = (0..1_003).map(|at| (at as f32 - 400.5) * 1.37e-3).collect();
        let expected = SumOfSquares(&values).run().to_bits();
        for level in Level::available() {
            assert_eq!(simd::run(level, SumOfSquares(&values)).to_bits(), expected, "{level:?}");
        }
    }
}
