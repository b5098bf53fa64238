//! A limit to what a step of an adaptive optimizer changes in the outputs of a linear model.
//!
//! Its first steps are one learning rate long in every coordinate, however many coordinates there are. An output changes
//! by the sum over all features that an example has: with hundreds of them the first steps throw outputs far beyond what
//! any label asks for, and a run spends its passes on the way back. The same happens where workers step on values that
//! are many clocks old. Clipping gradients does not help, since directions do not depend on their size. So a step is
//! shortened by what it does to the outputs of the batch that it follows from, where Adafactor (Shazeer and Stern, ICML
//! 2018, section 6) shortens it by its own root mean square. Steps that follow are shorter by themselves, and left alone.

/// The factor, at most 1, that makes a step short enough, where `changes` are those of all outputs of the examples of a
/// batch if all workers took it.
pub(crate) fn shortening(changes: &[f32]) -> f32 {
    let sum: f64 = changes.iter().map(|change| f64::from(*change).powi(2)).sum();
    let root_mean_square = (sum / changes.len().max(1) as f64).sqrt();
    if root_mean_square > OUTPUT_CHANGE_MAX {
        (OUTPUT_CHANGE_MAX / root_mean_square) as f32
    } else {
        1.0
    }
}

/// The largest root mean square, in the units of log-odds. A change of 2 takes a class from even odds to odds of 7 to 1.
///
/// With 1, sets whose classes can be told apart without error take more passes; with 4 the first pass over
/// pixels is half as good. Between them little changes.
const OUTPUT_CHANGE_MAX: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_shortened_to_the_largest_change_of_outputs_and_no_further() {
        assert_eq!(shortening(&[1.0, -2.0, 2.0, 0.0]), 1.0);
        assert_eq!(shortening(&[-8.0, 8.0]), 0.25);
        assert_eq!(
            shortening(&[6.0, 6.0, 6.0, 6.0, 0.0, 0.0, 0.0, 0.0]),
            (2.0 / 18_f64.sqrt()) as f32
        );
        assert_eq!(shortening(&[]), 1.0);
        assert_eq!(shortening(&[f32::MAX; 2]), 2.0 / f32::MAX);
        assert_eq!(shortening(&[f32::NAN, f32::INFINITY]), 1.0);
    }
}
