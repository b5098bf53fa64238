//! The directions of the optimizers that divide by the squares of gradients.

use super::factored::FactoredSquares;
use super::{Optimizer, Steps};
use crate::config::RateDecay;
use gaia_core::types::{Clock, Content, Restorer, Saved, Saver, StateError};

/// What a worker keeps beside the squares, which are in the model.
pub(crate) struct Adaptive {
    rule: Rule,
}

enum Rule {
    /// The squares of gradients are added up, or those of gradients times their clock.
    Adagrad { times_clock: bool },
    /// The moving mean of this worker's gradients, table by table. It is linear, so that each worker may keep its own.
    Adam { means: Vec<Vec<f32>> },
}

impl Adaptive {
    /// The state for tables with so many parameters. `None` for an optimizer that divides by nothing.
    ///
    /// AdaGrad divides by the root of a plain sum, in which the large gradients of a run's beginning count for ever: the
    /// lower the minimum is beside them, the longer steps towards it are too short. In a run of known length, whose
    /// linear decay averages the noise of longer steps out, squares have weights that grow with the square of the clock
    /// (Zou et al., Weighted AdaGrad with unified momentum, 2018).
    pub(crate) fn new(steps: &Steps, tables: impl Iterator<Item = usize>) -> Option<Self> {
        let rule = match steps.optimizer {
            Optimizer::Sgd => return None,
            Optimizer::Adagrad => Rule::Adagrad { times_clock: steps.decay() == RateDecay::Linear },
            Optimizer::Adam => Rule::Adam { means: tables.map(|size| vec![0.0; size]).collect() },
        };
        Some(Self { rule })
    }

    /// Turns partial derivatives of a table into directions, and returns what this worker adds to the table of their
    /// squares. `squares` are those of the model, `place` gives the parameter that a derivative is of, and `share` is that
    /// of the worker's examples.
    ///
    /// `shares` are those of the worker in each parameter's step, the same all over if there is one. With AdaGrad no
    /// direction is longer than 1, since the worker's own square counts beside those of the model, except of
    /// derivatives whose squares are too large for single precision. With Adam none is longer than 1 ÷ √share. That is
    /// the bound of Kingma and Ba (section 2.1) for these weights of means and squares, where of the squares only the
    /// worker's share is its own. It has to be enforced here, since squares that servers have rounded may be too small,
    /// or below 0. A shorter one would cut the gradients of workers that differ from the others, as those with labels
    /// of their own do, and so lead elsewhere.
    pub(crate) fn direct(
        &mut self,
        table: usize,
        place: impl Fn(usize) -> usize,
        clock: Clock,
        gradient: &mut [f32],
        squares: &[f32],
        shares: &[f32],
    ) -> Vec<f32> {
        assert_eq!(gradient.len(), squares.len());
        let both = gradient.iter_mut().zip(squares).zip(shares.iter().cycle());
        match &mut self.rule {
            Rule::Adagrad { times_clock } => {
                let factor = if *times_clock { clock.0 as f32 + 1.0 } else { 1.0 };
                both.map(|((gradient, sum), share)| {
                    let weighted = factor * *gradient;
                    let square = square(weighted);
                    let direction = weighted / ((sum.max(0.0) + square).sqrt() + TINY);
                    *gradient = direction.clamp(-1.0, 1.0);
                    share * square
                })
                .collect()
            }
            Rule::Adam { means } => {
                let means = &mut means[table];
                let (first, second) = (seen(ADAM_MEAN, clock), seen(ADAM_SQUARES, clock));
                both.enumerate()
                    .map(|(at, ((gradient, squares), share))| {
                        let square = square(*gradient);
                        let change = ADAM_SQUARES * (square - squares);
                        let mean = &mut means[place(at)];
                        *mean += ADAM_MEAN * (*gradient - *mean);
                        let root = ((squares.max(0.0) * (1.0 - ADAM_SQUARES)
                            + ADAM_SQUARES * square)
                            / second)
                            .sqrt();
                        let longest = share.min(1.0).sqrt().recip();
                        *gradient = (*mean / first / (root + TINY)).clamp(-longest, longest);
                        share * change
                    })
                    .collect()
            }
        }
    }

    /// The same for a matrix of derivatives, the squares of whose rows and columns are in the model: `[rows, columns]`. It
    /// returns what this worker adds to both.
    pub(crate) fn direct_factored(
        &mut self,
        table: usize,
        clock: Clock,
        gradient: &mut [f32],
        squares: [&[f32]; 2],
        share: f32,
    ) -> [Vec<f32>; 2] {
        let [rows, columns] = squares;
        let width = columns.len();
        let shared = |sums: Vec<f32>| sums.into_iter().map(|sum| share * sum).collect();
        match &mut self.rule {
            Rule::Adagrad { times_clock } => {
                let factor = if *times_clock { clock.0 as f32 + 1.0 } else { 1.0 };
                gradient.iter_mut().for_each(|gradient| *gradient *= factor);
                let own = FactoredSquares::of(gradient, width);
                own.with(rows, columns, |own, sum| sum.max(0.0) + own).divide(gradient, 1.0);
                [own.rows, own.columns].map(shared)
            }
            Rule::Adam { means } => {
                let own = FactoredSquares::of(gradient, width);
                for (mean, gradient) in means[table].iter_mut().zip(&mut *gradient) {
                    *mean += ADAM_MEAN * (*gradient - *mean);
                    *gradient = *mean / seen(ADAM_MEAN, clock);
                }
                let moved = own.with(rows, columns, |own, sum| {
                    (sum.max(0.0) * (1.0 - ADAM_SQUARES) + ADAM_SQUARES * own)
                        / seen(ADAM_SQUARES, clock)
                });
                moved.divide(gradient, share.min(1.0).sqrt().recip());
                let change = own.with(rows, columns, |own, sum| ADAM_SQUARES * (own - sum));
                [change.rows, change.columns].map(shared)
            }
        }
    }

    pub(crate) fn save(&self, walk: &mut Saver<'_>) -> Saved {
        if let Rule::Adam { means } = &self.rule {
            for (table, mean) in means.iter().enumerate() {
                walk.tensor(&mean_of(table), Content::Optimizer, mean)?;
            }
        }
        Ok(())
    }

    pub(crate) fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        if let Rule::Adam { means } = &mut self.rule {
            for (table, mean) in means.iter_mut().enumerate() {
                walk.tensor(&mean_of(table), Content::Optimizer, mean)?;
            }
        }
        Ok(())
    }
}

/// The name of the moving mean of a table's gradients.
fn mean_of(table: usize) -> String {
    format!("mean.{table}")
}

/// A square that can be added to others.
fn square(gradient: f32) -> f32 {
    (gradient * gradient).min(SQUARE_MAX)
}

/// The weight of what a moving mean has seen up to a clock, where it started at 0.
fn seen(weight: f32, clock: Clock) -> f32 {
    let left = (1.0 - f64::from(weight)).powf(clock.0 as f64 + 1.0);
    (1.0 - left) as f32
}

/// The weight of the latest gradient, `1 − β₁`.
const ADAM_MEAN: f32 = 0.1;

/// The weight of the latest squares, `1 − β₂`. A run has hundreds of clocks and not millions, so it forgets the large
/// gradients of its beginning sooner than by the usual 0.001.
const ADAM_SQUARES: f32 = 0.01;

/// What is added to a root, so that a direction of nothing is nothing.
const TINY: f32 = 1e-8;

const SQUARE_MAX: f32 = 1e30;

#[cfg(test)]
mod tests {
    use super::super::tests::STEPS;
    use super::*;

    /// The directions of one parameter whose squares are the model's, clock by clock.
    fn directions(optimizer: Optimizer, gradients: &[f32], share: f32) -> (Vec<f32>, f32) {
        directions_of(&steps(optimizer), gradients, share)
    }

    fn steps(optimizer: Optimizer) -> Steps {
        Steps { optimizer, learning_rate_decay: Some(RateDecay::None), ..STEPS }
    }

    fn directions_of(steps: &Steps, gradients: &[f32], share: f32) -> (Vec<f32>, f32) {
        let mut adaptive = Adaptive::new(steps, [1].into_iter()).expect("it divides");
        let mut squares = [0.0];
        let step = |(clock, gradient): (usize, &f32)| {
            let mut direction = [*gradient];
            let clock = Clock(clock as u64);
            let change = adaptive.direct(0, |at| at, clock, &mut direction, &squares, &[share]);
            squares[0] += change[0];
            direction[0]
        };
        (gradients.iter().enumerate().map(step).collect(), squares[0])
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} and {expected}");
        }
    }

    #[test]
    fn adagrad_divides_by_the_root_of_the_sum_of_squares() {
        let (found, squares) = directions(Optimizer::Adagrad, &[3.0, -4.0, 0.0, 12.0], 1.0);
        assert_close(&found, &[1.0, -0.8, 0.0, 12.0 / 13.0]);
        assert_eq!(squares, 169.0);
    }

    #[test]
    fn adagrad_weights_squares_by_the_square_of_the_clock_where_steps_fall_to_nothing() {
        let linear = Steps {
            learning_rate_decay: Some(RateDecay::Linear),
            learning_rate_clocks: Some(4),
            ..steps(Optimizer::Adagrad)
        };
        let (found, squares) = directions_of(&linear, &[3.0, -4.0, 0.0, 12.0], 1.0);
        let expected = [3.0 / 9_f32.sqrt(), -8.0 / 73_f32.sqrt(), 0.0, 48.0 / 2377_f32.sqrt()];
        assert_close(&found, &expected);
        assert_eq!(squares, 2377.0);
    }

    #[test]
    fn gradients_of_one_size_give_steps_that_fall_with_the_root_of_the_clock() {
        for (decay, at_one) in [(RateDecay::None, 1.0), (RateDecay::Linear, 3_f32.sqrt())] {
            let steps = Steps {
                learning_rate_decay: Some(decay),
                learning_rate_clocks: Some(1000),
                ..steps(Optimizer::Adagrad)
            };
            let (found, _) = directions_of(&steps, &[5.0; 1000], 1.0);
            let scaled = found[999] * 1000_f32.sqrt();
            assert!((scaled / at_one - 1.0).abs() < 0.01, "{decay:?}: {scaled}");
        }
    }

    #[test]
    fn adam_divides_moving_means_that_are_corrected_for_their_start() {
        let gradients = [3.0_f32, -4.0, 0.0, 12.0];
        let (found, _) = directions(Optimizer::Adam, &gradients, 1.0);
        let (mut mean, mut squares) = (0.0_f64, 0.0_f64);
        let expected = gradients.iter().zip(1..).map(|(gradient, clock)| {
            mean = 0.9 * mean + 0.1 * f64::from(*gradient);
            squares = 0.99 * squares + 0.01 * f64::from(gradient * gradient);
            let corrected = squares / (1.0 - 0.99_f64.powi(clock));
            (mean / (1.0 - 0.9_f64.powi(clock)) / corrected.sqrt()) as f32
        });
        assert_close(&found, &expected.collect::<Vec<f32>>());
    }

    #[test]
    fn directions_do_not_depend_on_the_scale_of_gradients() {
        for optimizer in [Optimizer::Adagrad, Optimizer::Adam] {
            let gradients = [0.5, -0.25, 1.0, 0.125];
            let scaled = gradients.map(|gradient| 1024.0 * gradient);
            let [one, other] = [gradients, scaled].map(|all| directions(optimizer, &all, 0.25).0);
            assert_close(&one, &other);
        }
    }

    #[test]
    fn squares_that_are_rounded_below_zero_make_no_direction_long() {
        for optimizer in [Optimizer::Adagrad, Optimizer::Adam] {
            let mut adaptive =
                Adaptive::new(&steps(optimizer), [1].into_iter()).expect("it divides");
            for (clock, gradient) in [(10, 1.0), (11, 1e-6), (12, 0.0)] {
                let mut direction = [gradient];
                adaptive.direct(0, |at| at, Clock(clock), &mut direction, &[-1e-3], &[1.0]);
                assert!(direction[0].abs() <= 1.0, "{optimizer:?}: {}", direction[0]);
            }
        }
    }

    /// Of four workers one has gradients of 3 and three of −1, which cancel.
    #[test]
    fn gradients_that_cancel_over_workers_give_directions_that_cancel_in_the_long_run() {
        let gradients = [3.0, -1.0, -1.0, -1.0];
        let mut workers = gradients
            .map(|_| Adaptive::new(&steps(Optimizer::Adam), [1].into_iter()).expect("it divides"));
        let (mut squares, mut sum) = (0.0, 0.0);
        for clock in (0..400).map(Clock) {
            sum = 0.0;
            let mut change = 0.0;
            for (worker, gradient) in workers.iter_mut().zip(gradients) {
                let mut direction = [gradient];
                change += worker.direct(0, |at| at, clock, &mut direction, &[squares], &[0.25])[0];
                sum += direction[0];
            }
            squares += change;
        }
        assert!((squares - 3.0_f32).abs() < 0.2, "{squares}");
        assert!(sum.abs() < 0.1, "{sum}");
    }

    #[test]
    fn nothing_and_what_overflows_give_no_direction_that_is_not_a_number() {
        for optimizer in [Optimizer::Adagrad, Optimizer::Adam] {
            let (found, squares) = directions(optimizer, &[0.0, 1e25, 0.0], 1.0);
            assert!(found.iter().chain([&squares]).all(|value| value.is_finite()));
            assert_eq!(found[0], 0.0);
        }
    }
}
