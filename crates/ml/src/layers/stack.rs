//! Layers in sequence, from the examples to the loss.

use std::sync::Arc;

use rayon::prelude::*;

use super::loss::{Score, score, slope_of_loss};
use super::{
    Backward, Convolution, Dense, Flatten, Forward, GroupNormalization, Layer, MaxPooling,
    Rectifier, Room,
};
use crate::examples::{DenseExamples, Shape};
use crate::kernels::vector::{softmax, square_norm};
use gaia_core::types::{Deltas, Model, ModelLayout, Seed, TableId, TableLayout};

/// A network: its layers and their tables in the model. The last layer's values are the logits of classes.
pub struct Stack {
    input: Shape,
    layers: Vec<Box<dyn Layer>>,
    layout: Arc<ModelLayout>,
}

/// Builds a stack, layer by layer from the input on.
pub struct Builder {
    input: Shape,
    layers: Vec<Box<dyn Layer>>,
    tables: Vec<TableLayout>,
    /// Layers that have weights.
    weighted: usize,
}

/// The values of one batch in a stack, layer by layer.
#[derive(Default)]
pub struct Activations {
    /// The input of each layer, and the output of the last.
    values: Vec<Vec<f32>>,
    rooms: Vec<Room>,
    /// The gradient with respect to what the layer at hand made, and to what it was given; each as long as
    /// any layer needs it.
    slope: Vec<f32>,
    slope_before: Vec<f32>,
}

impl Builder {
    /// A stack over examples of some shape.
    pub const fn new(input: Shape) -> Self {
        Self { input, layers: Vec::new(), tables: Vec::new(), weighted: 0 }
    }

    /// The shape of the output of the layers so far.
    pub fn shape(&self) -> Shape {
        self.layers.last().map_or(self.input, |layer| layer.output())
    }

    /// Adds a dense layer; planes become rows first.
    #[must_use]
    pub fn dense(mut self, units: usize) -> Self {
        let shape = self.shape();
        if shape.channels > 1 {
            self.layers.push(Box::new(Flatten::new(shape)));
        }
        let layer = Dense::new(shape.values(), units, self.weighted, &mut self.tables);
        self.weighted += 1;
        self.with(layer)
    }

    /// Adds a convolution with a bias.
    #[must_use]
    pub fn convolution(self, filters: usize, side: usize) -> Self {
        self.convolve(filters, side, true)
    }

    /// Adds a convolution without a bias and a group normalisation.
    #[must_use]
    pub fn normalized_convolution(mut self, filters: usize, side: usize, groups: usize) -> Self {
        self = self.convolve(filters, side, false);
        let number = self.weighted - 1;
        let layer = GroupNormalization::new(self.shape(), groups, number, &mut self.tables);
        self.with(layer)
    }

    /// Adds max pooling over windows of `side × side`.
    ///
    /// # Panics
    ///
    /// Where images hold no window.
    #[must_use]
    pub fn max_pooling(self, side: usize) -> Self {
        let layer = MaxPooling::new(self.shape(), side);
        self.with(layer)
    }

    /// Adds a rectifier.
    #[must_use]
    pub fn rectifier(self) -> Self {
        let layer = Rectifier::new(self.shape());
        self.with(layer)
    }

    /// The stack of the layers so far. The values of the last layer are the logits.
    pub fn build(self) -> Stack {
        let layout = Arc::new(ModelLayout::new(self.tables));
        Stack { input: self.input, layers: self.layers, layout }
    }

    fn convolve(mut self, filters: usize, side: usize, with_bias: bool) -> Self {
        let size = (filters, side);
        let number = self.weighted;
        let layer = Convolution::new(self.shape(), size, with_bias, number, &mut self.tables);
        self.weighted += 1;
        self.with(layer)
    }

    fn with(mut self, layer: impl Layer + 'static) -> Self {
        self.layers.push(Box::new(layer));
        self
    }
}

impl Stack {
    /// The tables of all layers.
    pub fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    /// Layers start as they ask to, the last one with weights at a tenth of it; where it is the only one, its
    /// weights are zero, since the problem is convex.
    pub fn initial_model(&self, seed: Seed) -> Model {
        let mut model = Model::zeros(self.layout.clone());
        let weighted = self.weights().count();
        let mut number = 0;
        for layer in &self.layers {
            let scale = match number + 1 == weighted {
                true if weighted == 1 => 0.0,
                true => 0.1,
                false => 1.0,
            };
            layer.initialize(&mut model, scale, seed.child("layer").nth(number));
            number += usize::from(layer.weights().is_some());
        }
        model
    }

    /// Products of one example, there and back: the gradient takes as many operations as the way forward,
    /// and so does the way back, which ends above the first layer.
    pub fn flops(&self) -> f64 {
        let layers = self.layers.iter().enumerate();
        layers.map(|(at, layer)| if at == 0 { 2.0 } else { 3.0 } * layer.flops()).sum()
    }

    /// The inputs of some examples, one after the other.
    pub fn inputs(&self, data: &DenseExamples, examples: &[u32]) -> Vec<f32> {
        let mut inputs = vec![0.0; examples.len() * self.input.values()];
        self.copy_planes(data, examples, &mut inputs);
        inputs
    }

    /// Computes the logits of some examples.
    pub fn forward(
        &self,
        model: &Model,
        data: &DenseExamples,
        batch: &[u32],
        activations: &mut Activations,
    ) {
        activations.resize(self, batch.len());
        self.copy_planes(data, batch, &mut activations.values[0]);
        for (at, layer) in self.layers.iter().enumerate() {
            let (before, after) = activations.values.split_at_mut(at + 1);
            let pass = Forward { examples: batch.len(), input: &before[at], output: &mut after[0] };
            layer.forward(model, pass, &mut activations.rooms[at]);
        }
    }

    /// Writes to `gradient`, dense in every table, the mean gradient of the cross-entropy of a batch that
    /// [`Self::forward`] has carried through.
    pub fn backward(
        &self,
        model: &Model,
        data: &DenseExamples,
        batch: &[u32],
        activations: &mut Activations,
        gradient: &mut Deltas,
    ) {
        let Activations { values, rooms, slope, slope_before } = activations;
        let logits = &values[self.layers.len()];
        slope[..logits.len()].copy_from_slice(logits);
        slope_of_loss(&mut slope[..logits.len()], labels(data, batch));

        for (at, layer) in self.layers.iter().enumerate().rev() {
            let (input, output) = (&values[at], &values[at + 1]);
            let pass = Backward {
                examples: batch.len(),
                input,
                output,
                slope: &slope[..output.len()],
                slope_before: (at > 0).then_some(&mut slope_before[..input.len()]),
            };

            layer.backward(model, pass, &mut rooms[at], gradient);
            std::mem::swap(slope, slope_before);
        }
    }

    /// The tables that weight decay pulls towards zero.
    pub fn weights(&self) -> impl Iterator<Item = TableId> {
        self.layers.iter().filter_map(|layer| layer.weights())
    }

    /// The weights and the bias of a first layer that is dense: a row of weights for each feature of an example.
    pub fn dense_inputs(&self) -> Option<(TableId, TableId)> {
        self.layers.first().and_then(|layer| layer.dense())
    }

    /// Whether outputs are linear in the weights.
    pub fn is_linear(&self) -> bool {
        self.layers.len() == 1 && self.dense_inputs().is_some()
    }

    /// The sum of all squared weights.
    pub fn square_weights(&self, model: &Model) -> f64 {
        self.weights().map(|id| square_norm(model.table(id))).sum()
    }

    /// The loss and the accuracy of the model on some examples, added chunk by chunk in order.
    pub fn score(&self, model: &Model, data: &DenseExamples, examples: &[u32]) -> Score {
        let batch = (ROOM_VALUES / self.room()).clamp(1, SCORED_TOGETHER);
        let scores: Vec<Score> = examples
            .par_chunks(SCORED_TOGETHER)
            .map_init(Activations::default, |activations, chunk| {
                let mut sum = Score::default();
                for batch in chunk.chunks(batch) {
                    self.forward(model, data, batch, activations);
                    let logits = &mut activations.values[self.layers.len()];
                    score(logits, labels(data, batch), &mut sum);
                }
                sum
            })
            .collect();
        scores.iter().fold(Score::default(), |sum, score| Score {
            loss: sum.loss + score.loss,
            hits: sum.hits + score.hits,
        })
    }

    /// The probability of each class for each of some examples: examples × classes.
    pub fn probabilities(&self, model: &Model, data: &DenseExamples, examples: &[u32]) -> Vec<f32> {
        let batch = (ROOM_VALUES / self.room()).clamp(1, SCORED_TOGETHER);
        let probabilities: Vec<Vec<f32>> = examples
            .par_chunks(batch)
            .map_init(Activations::default, |activations, batch| {
                self.forward(model, data, batch, activations);
                let mut logits = activations.values[self.layers.len()].clone();
                let classes = logits.len() / batch.len();
                logits.chunks_exact_mut(classes).for_each(|row| {
                    softmax(row);
                });
                logits
            })
            .collect();
        probabilities.concat()
    }

    /// The most values that one example takes at one time in one layer.
    fn room(&self) -> usize {
        let layers = self.layers.iter().map(|layer| layer.room().max(layer.output().values()));
        layers.chain([self.input.values()]).max().unwrap_or(1)
    }

    fn copy_planes(&self, data: &DenseExamples, batch: &[u32], planes: &mut [f32]) {
        let mut planes = planes.chunks_exact_mut(self.input.plane());
        for channel in 0..self.input.channels {
            for (&example, plane) in batch.iter().zip(&mut planes) {
                data.copy_plane(example as usize, channel, plane);
            }
        }
    }
}

impl Activations {
    /// The inputs of the batch that was carried forward last.
    pub fn inputs(&self) -> &[f32] {
        &self.values[0]
    }

    fn resize(&mut self, stack: &Stack, examples: usize) {
        self.rooms.resize_with(stack.layers.len(), Room::default);
        self.values.resize(stack.layers.len() + 1, Vec::new());
        let shapes = stack.layers.iter().map(|layer| layer.output());
        for (values, shape) in self.values.iter_mut().zip([stack.input].into_iter().chain(shapes)) {
            values.resize(examples * shape.values(), 0.0);
        }
        let most = self.values.iter().map(Vec::len).max().unwrap_or(0);
        self.slope.resize(most, 0.0);
        self.slope_before.resize(most, 0.0);
    }
}

fn labels(data: &DenseExamples, batch: &[u32]) -> impl ExactSizeIterator<Item = u32> {
    batch.iter().map(|&example| data.labels[example as usize])
}

/// Examples whose losses are summed as one.
const SCORED_TOGETHER: usize = 256;

/// Values that the largest layer of a batch to be scored may take: what a second cache holds.
const ROOM_VALUES: usize = 1 << 18;
