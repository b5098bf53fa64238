//! The scale of each feature, so that a step means the same in a feature of thousands and in one of thousandths.
//!
//! A weight of a feature `x` is moved as one of `(x − center) ÷ scale` would be. The weights themselves stay those of `x`: a
//! model is exported, read and used as it is. This is the idea of Ross, Mineiro and Langford, *Normalized Online
//! Learning*, UAI 2013, with a center: without one, the weights of features that are far from zero are tied to each other
//! by the bias, and move as slowly as the slowest direction.
//!
//! What centers and scales follow from is summed by all workers in a table of the model, each worker's examples in its
//! first pass: all workers divide by the same, and no example leaves its data center. Until then a few examples decide. Where
//! these have small values of a feature that others have large ones of, steps would be so long that none that follows, in
//! the right scale, takes them back. So in its first pass a worker's scales are not far below those of all its examples.

use crate::divided::{Divided, Examples};
use gaia_core::types::{Clock, Restorer, Saved, Saver, StateError, TableLayout};

/// The table of what the examples amount to: for each feature how many of them have it, and the sums of its values and of
/// their squares; in the last row how many they are. All as shares of the training examples of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputStatistics {
    /// Clocks of the worker in one pass.
    clocks: u64,
    /// The weight of one example.
    weight: f64,
    /// The clock with which the worker began. One that lost its state begins again, and its examples count twice in sums of
    /// which only quotients matter.
    began: Option<Clock>,
}

/// How the examples of an application have their features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inputs {
    /// A value of each, 0 or not. A clock moves the weights of all.
    Dense,
    /// Those that are not 0. A clock moves the weights of those that its batch has.
    Sparse,
}

/// The coordinate in which the weights of a feature are moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standard {
    pub(crate) center: f32,
    pub(crate) scale: f32,
    /// The share of examples that have the feature.
    pub(crate) presence: f32,
}

impl InputStatistics {
    /// What a worker adds in its first pass, in batches of about so many examples.
    pub(crate) fn of<E: Examples>(examples: &Divided<E>, worker: usize, batch: usize) -> Self {
        Self::new(examples.batches(worker, batch), examples.train_total)
    }

    /// What a worker with a pass of so many clocks adds, of so many examples in all.
    fn new(clocks: u64, examples: usize) -> Self {
        Self { clocks, weight: 1.0 / examples as f64, began: None }
    }

    /// Whether the examples of a clock are of the worker's first pass.
    pub(crate) fn is_due(&mut self, clock: Clock) -> bool {
        let began = *self.began.get_or_insert(clock);
        clock.0.saturating_sub(began.0) < self.clocks
    }

    /// What so many examples are of all.
    pub(crate) fn share(&self, examples: usize) -> f32 {
        (self.weight * examples as f64) as f32
    }

    pub(crate) fn save(&self, walk: &mut Saver<'_>) -> Saved {
        walk.record("began", &self.began)
    }

    pub(crate) fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        walk.record("began", &mut self.began)
    }

    /// The table for so many features.
    pub(crate) fn layout(features: usize) -> TableLayout {
        TableLayout { name: "inputs".into(), rows: features + 1, width: STATISTICS }
    }

    /// Adds one value to the row of its feature.
    pub(crate) fn add(&self, value: f32, row: &mut [f32]) {
        if value != 0.0 {
            row[0] += self.weight as f32;
            row[1] += (self.weight * f64::from(value)) as f32;
            row[2] += (self.weight * f64::from(value) * f64::from(value)).min(SUM_MAX) as f32;
        }
    }
}

impl Standard {
    /// Those of several features. `seen` has a row for each and the row of all examples last; `own` are the same rows of what
    /// a worker sees now and has not counted yet.
    pub(crate) fn of_all(
        mut seen: Vec<f32>,
        own: Option<&[f32]>,
        inputs: Inputs,
        curvature: f64,
    ) -> Vec<Self> {
        for (seen, own) in seen.iter_mut().zip(own.unwrap_or_default()) {
            *seen += own;
        }
        let (features, last) = seen.split_at(seen.len() - STATISTICS);
        let rows = features.chunks_exact(STATISTICS);
        rows.map(|row| Self::of(row, last[0], inputs, curvature)).collect()
    }

    /// The center and the scale of a feature after `examples`, the share of all that has been seen. `curvature` is that of
    /// the regularisation.
    ///
    /// Features that most examples have are centered, and scaled by their standard deviation. Others are scaled by the
    /// root mean square where they occur: a weight that is moved seldom is not moved further for it. Of sparse examples
    /// these are not centered, since that would move the bias for features that a batch does not have. Neither are those
    /// whose variance is lost in rounding, such as a column of ones: what is left of a gradient after centering would be
    /// rounding too.
    /// A scale is large enough for steps on the regularisation too, whose curvature is up to four times as much beside that of
    /// a logistic loss.
    ///
    /// The figures of a row may come from different moments, or rounded, where data centers exchange them apart. So they are
    /// held to what figures of real numbers obey.
    pub(crate) fn of(row: &[f32], examples: f32, inputs: Inputs, curvature: f64) -> Self {
        let [present, sum, squares] = [row[0], row[1], row[2]].map(f64::from);
        if present <= 0.0 {
            return Self { center: 0.0, scale: 1.0, presence: 0.0 };
        }

        let examples = f64::from(examples).max(present);
        let squares = squares.max(sum * sum / present);
        let (mean, mean_square) = (sum / examples, squares / examples);
        let variance = mean_square - mean * mean;
        let varies = variance > PRECISION * mean_square;
        let is_common = present > COMMON * examples;
        let center = if varies && (is_common || inputs == Inputs::Dense) { mean } else { 0.0 };
        let square = if varies && is_common { variance } else { squares / present };
        let scale = (square + 4.0 * curvature).sqrt();
        let scale = if scale > 0.0 { scale as f32 } else { 1.0 };
        Self { center: center as f32, scale, presence: (present / examples) as f32 }
    }
}

/// The least scales of features in a worker's first pass, where `own` has the statistics of all its examples, or nothing: a
/// row for each feature, and that of all examples last. Features that none of them has get 0.
pub(crate) fn least_scales(own: Vec<f32>, inputs: Inputs, curvature: f64) -> Vec<f32> {
    if own.is_empty() {
        return Vec::new();
    }
    let standards = Standard::of_all(own, None, inputs, curvature);
    let least = |standard: Standard| match standard.presence > 0.0 {
        true => LEAST_SCALE * standard.scale,
        false => 0.0,
    };
    standards.into_iter().map(least).collect()
}

/// Turns gradients with respect to the weights of features, a row each, into those with respect to their standard
/// coordinates. `bias` is the gradient with respect to what is added to each output.
pub(crate) fn to_standard(standards: &[Standard], bias: &[f32], gradient: &mut [f32]) {
    for (standard, row) in standards.iter().zip(gradient.chunks_exact_mut(bias.len())) {
        for (gradient, bias) in row.iter_mut().zip(bias) {
            *gradient = (*gradient - standard.center * bias) / standard.scale;
        }
    }
}

/// Turns steps in standard coordinates back into those of weights and bias.
pub(crate) fn from_standard(standards: &[Standard], step: &mut [f32], bias: &mut [f32]) {
    for (standard, row) in standards.iter().zip(step.chunks_exact_mut(bias.len())) {
        for (step, bias) in row.iter_mut().zip(bias.iter_mut()) {
            *step /= standard.scale;
            *bias -= standard.center * *step;
        }
    }
}

/// Values of each row.
pub(crate) const STATISTICS: usize = 3;

/// The share of the examples above which a feature is scaled by its standard deviation.
const COMMON: f64 = 0.5;

/// The scale by a few examples over that by all of a worker, at least. A batch of some examples is seldom so far off.
const LEAST_SCALE: f32 = 0.25;

/// A variance below this share of the mean square is rounding of single precision.
const PRECISION: f64 = 1e-5;

const SUM_MAX: f64 = 1e30;

#[cfg(test)]
mod tests {
    use super::*;

    fn standard(values: &[f32], inputs: Inputs, curvature: f64) -> Standard {
        let statistics = InputStatistics::new(1, values.len());
        let mut row = [0.0; STATISTICS];
        values.iter().for_each(|&value| statistics.add(value, &mut row));
        Standard::of(&row, 1.0, inputs, curvature)
    }

    #[test]
    fn common_features_are_standardised_and_rare_ones_scaled_where_they_occur() {
        let close = |found: Standard, center: f32, scale: f32| {
            assert!((found.center - center).abs() < 1e-3 && (found.scale - scale).abs() < 1e-3);
        };
        for (inputs, center) in [(Inputs::Dense, 0.75), (Inputs::Sparse, 0.0)] {
            close(standard(&[99.0, 101.0, 99.0, 101.0], inputs, 0.0), 100.0, 1.0);
            close(standard(&[0.0, 0.0, 3.0, 0.0], inputs, 0.0), center, 3.0);
            close(standard(&[0.0, 0.0, 3.0, 0.0], inputs, 4.0), center, 5.0);
            close(standard(&[0.0, 0.0], inputs, 0.0), 0.0, 1.0);
            close(standard(&[7.0, 7.0], inputs, 0.25), 0.0, 50.0_f32.sqrt());
        }
    }

    #[test]
    fn figures_that_contradict_each_other_make_no_tiny_scale() {
        for (row, scale) in [
            // A copy that has the sums of all, and a third of the numbers.
            ([0.33, 650.0, 5e5], 1.97e3),
            ([1.0, 1.0, -0.5], 1.0),
            ([0.1, 0.1, 1e-8], 1.0),
            ([1.0, 100.0, 9000.0], 100.0),
        ] {
            let found = Standard::of(&row, 0.33, Inputs::Sparse, 0.0);
            assert!((0.9..1.2).contains(&(found.scale / scale)), "{row:?}: {}", found.scale);
            assert_eq!(found.center, 0.0, "{row:?}");
        }
    }

    #[test]
    fn a_few_small_values_leave_a_scale_not_far_below_that_of_all() {
        let statistics = InputStatistics::new(1, 4);
        let mut own = vec![0.0; 3 * STATISTICS];
        for value in [1e-3, 1e-3, 1e-3, 400.0] {
            statistics.add(value, &mut own[..STATISTICS]);
        }
        own[2 * STATISTICS] = 1.0;
        let scale = standard(&[1e-3, 1e-3, 1e-3, 400.0], Inputs::Sparse, 0.0).scale;
        assert_eq!(least_scales(own, Inputs::Sparse, 0.0), [scale / 4.0, 0.0]);
    }

    #[test]
    fn a_step_there_and_back_is_one_of_centered_and_scaled_features() {
        let standards = [(3.0, 2.0, 1.0), (0.0, 0.5, 0.3)]
            .map(|(center, scale, presence)| Standard { center, scale, presence });
        let (mut gradient, bias) = ([8.0, 1.0], [2.0]);
        to_standard(&standards, &bias, &mut gradient);
        assert_eq!(gradient, [1.0, 2.0]);

        let (mut step, mut bias) = ([1.0, 2.0], [0.0]);
        from_standard(&standards, &mut step, &mut bias);
        let output = |x: [f32; 2]| step[0] * x[0] + step[1] * x[1] + bias[0];
        for x in [[5.0, 1.0], [3.0, 0.0], [-1.0, 2.0]] {
            assert_eq!(output(x), (x[0] - 3.0) / 2.0 + 2.0 * x[1] / 0.5);
        }
    }
}
