//! Group normalisation (Wu and He, ECCV 2018): each example's channels, a group at a time, get mean 0 and
//! variance 1, then a gain and a bias of their own.
//!
//! It looks at one example alone. Batch normalisation would tie an example to those beside it, and where each
//! data center sees other labels its statistics are of another distribution in each (Hsieh et al., ICML 2020,
//! section 5).

use super::dense::add_table;
use super::{Backward, Forward, Layer, Room};
use crate::examples::Shape;
use crate::kernels::images::{combine, scale_and_shift, square_distance};
use crate::kernels::vector::{dot, sum};
use gaia_core::types::{Deltas, Model, Seed, TableId, TableLayout};

/// `gain · (x − mean) ÷ √(variance + ε) + bias`, mean and variance over the channels of a group.
pub struct GroupNormalization {
    shape: Shape,
    groups: usize,
    gain: TableId,
    bias: TableId,
}

impl GroupNormalization {
    /// Adds the layer's two tables of one row each, numbered `number`, to `tables`.
    ///
    /// # Panics
    ///
    /// Where `groups` does not divide the channels.
    pub fn new(shape: Shape, groups: usize, number: usize, tables: &mut Vec<TableLayout>) -> Self {
        assert!(groups > 0 && shape.channels.is_multiple_of(groups));
        let gain = add_table(tables, format!("gain{number}"), 1, shape.channels);
        let bias = add_table(tables, format!("bias{number}"), 1, shape.channels);
        Self { shape, groups, gain, bias }
    }

    /// The channels of a group.
    fn channels(&self, group: usize) -> std::ops::Range<usize> {
        let size = self.shape.channels / self.groups;
        group * size..(group + 1) * size
    }

    /// Where one channel of one example lies in the batch.
    fn plane(&self, examples: usize, channel: usize, example: usize) -> std::ops::Range<usize> {
        let start = (channel * examples + example) * self.shape.plane();
        start..start + self.shape.plane()
    }

    /// Values that share a mean and a variance.
    fn group_values(&self) -> f64 {
        (self.shape.values() / self.groups) as f64
    }

    /// The mean of one group of one example, and one over its standard deviation.
    fn moments(&self, input: &[f32], examples: usize, group: usize, example: usize) -> [f32; 2] {
        let planes =
            || self.channels(group).map(|channel| &input[self.plane(examples, channel, example)]);
        let total: f64 = planes().map(|plane| f64::from(sum(plane))).sum();
        let mean = (total / self.group_values()) as f32;
        let square: f64 = planes().map(|plane| square_distance(plane, mean)).sum();
        [mean, (1.0 / (square / self.group_values() + EPSILON).sqrt()) as f32]
    }
}

impl Layer for GroupNormalization {
    fn output(&self) -> Shape {
        self.shape
    }

    fn forward(&self, model: &Model, pass: Forward<'_>, room: &mut Room) {
        let Forward { examples, input, output } = pass;
        let (gain, bias) = (model.table(self.gain), model.table(self.bias));
        room.values.clear();
        for group in 0..self.groups {
            for example in 0..examples {
                let moments = self.moments(input, examples, group, example);
                room.values.extend_from_slice(&moments);
                let [mean, inverse] = moments;
                for channel in self.channels(group) {
                    let plane = self.plane(examples, channel, example);
                    let scale = gain[channel] * inverse;
                    let shift = bias[channel] - scale * mean;
                    scale_and_shift(&input[plane.clone()], scale, shift, &mut output[plane]);
                }
            }
        }
    }

    /// With x̂ the normalised input and g the slope times the gain, the slope before is
    /// `(g − mean(g) − x̂ · mean(g · x̂)) ÷ deviation`.
    fn backward(&self, model: &Model, pass: Backward<'_>, room: &mut Room, gradient: &mut Deltas) {
        let Backward { examples, input, slope, mut slope_before, .. } = pass;
        let gain = model.table(self.gain);
        let [gain_table, bias_table] = [self.gain.index(), self.bias.index()];

        gradient.tables[gain_table].values.fill(0.0);
        gradient.tables[bias_table].values.fill(0.0);

        let (moments, _) = room.values.as_chunks::<2>();
        for group in 0..self.groups {
            for example in 0..examples {
                let [mean, inverse] = moments[group * examples + example];
                let (mut with_gain, mut with_normalized) = (0.0, 0.0);
                for channel in self.channels(group) {
                    let plane = self.plane(examples, channel, example);
                    let slopes = sum(&slope[plane.clone()]);
                    let products = dot(&slope[plane.clone()], &input[plane]);
                    let normalized = inverse * (products - mean * slopes);

                    gradient.tables[gain_table].values[channel] += normalized;
                    gradient.tables[bias_table].values[channel] += slopes;
                    with_gain += f64::from(gain[channel] * slopes);
                    with_normalized += f64::from(gain[channel] * normalized);
                }

                let Some(before) = slope_before.as_deref_mut() else { continue };
                let with_gain = (with_gain / self.group_values()) as f32;
                let with_normalized = (with_normalized / self.group_values()) as f32;
                let from_input = -inverse * inverse * with_normalized;
                let shift = -inverse * with_gain - from_input * mean;

                for channel in self.channels(group) {
                    let plane = self.plane(examples, channel, example);
                    let slope = (gain[channel] * inverse, &slope[plane.clone()]);
                    let input = (from_input, &input[plane.clone()]);
                    combine(slope, input, shift, &mut before[plane]);
                }
            }
        }
    }

    fn initialize(&self, model: &mut Model, _scale: f64, _seed: Seed) {
        model.table_mut(self.gain).fill(1.0);
    }
}

/// Added to variances, so that a group whose values are all equal does not divide by zero.
const EPSILON: f64 = 1e-5;
