//! A feed-forward network: fully connected layers, rectifiers between them, softmax at the end.
//!
//! Softmax regression is the network without hidden layers, the perceptron has some. Each layer is two
//! tables: weights, one row per input with a value for each output, and a bias of one row. Rows per input
//! shard evenly however few the classes are.
//!
//! A clock is one step of mini-batch gradient descent: every worker takes the mean gradient of its own
//! batch, and `−η × gradient ÷ workers` as its delta, so that the workers' deltas add up to one step on the
//! union of their batches. Momentum is the worker's own, over its own gradients.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_distr::{Distribution, Normal};
use rayon::prelude::*;

use super::visits::Visits;
use crate::ml::config::RateDecay;
use crate::ml::examples::{DenseExamples, Parts};
use crate::ml::kernels::dense::{Matrix, multiply};
use crate::ml::kernels::vector::{axpy, largest, softmax, square_norm};
use crate::ml::{Application, Direction, Evaluation, Metric, Task, Work};
use crate::types::{Clock, Deltas, Model, ModelLayout, RowSet, Seed, TableId, TableLayout};

/// How a network learns; checked by the configuration it comes from.
#[derive(Clone, Debug)]
pub(super) struct Training {
    pub(super) hidden: Vec<usize>,
    /// Examples of each worker in each clock.
    pub(super) batch: usize,
    pub(super) learning_rate: f64,
    pub(super) learning_rate_decay: RateDecay,
    pub(super) momentum: f64,
    pub(super) weight_decay: f64,
    /// Training examples that the objective is taken over; all where `None`.
    pub(super) evaluate_examples: Option<usize>,
}

/// The application: dense examples dealt to workers.
pub struct Network {
    shared: Arc<Shared>,
    parts: Parts,
    test: Arc<DenseExamples>,
    /// The training examples that the objective is taken over.
    evaluated: Vec<u32>,
    summary: String,
}

/// What the tasks of all workers read.
struct Shared {
    training: Training,
    layers: Layers,
    train: Arc<DenseExamples>,
    workers: usize,
    clocks_per_pass: u64,
}

/// The shape of the network and its place in the model.
struct Layers {
    layout: Arc<ModelLayout>,
    /// Units from the input to the classes.
    widths: Vec<usize>,
}

/// What passes through the network for one batch, layer by layer.
#[derive(Default)]
struct Activations {
    examples: usize,
    /// `values[l]` is `examples × widths[l]`; the last holds logits, then probabilities.
    values: Vec<Vec<f32>>,
    /// The gradient with respect to the layer at hand, and to the one before it.
    slope: Vec<f32>,
    slope_before: Vec<f32>,
}

struct GradientDescent {
    shared: Arc<Shared>,
    visits: Visits,
    activations: Activations,
    /// What momentum carries on, table by table; empty without it.
    velocity: Vec<Vec<f32>>,
}

impl Network {
    /// Examples dealt to workers by `parts`; `name` and `data` say in a few words what is trained on what.
    ///
    /// # Panics
    ///
    /// Where `train` is empty, `test` has another shape or `parts` names examples that are not there.
    pub(super) fn new(
        training: Training,
        train: DenseExamples,
        test: DenseExamples,
        parts: Parts,
        seed: Seed,
        (name, data): (&str, &str),
    ) -> Self {
        assert!(!train.is_empty());
        assert_eq!((train.width, train.classes), (test.width, test.classes));
        let mut widths = vec![train.width];
        widths.extend_from_slice(&training.hidden);
        widths.push(train.classes);
        let layers = Layers::new(widths);
        let mut evaluated: Vec<u32> = (0..train.len() as u32).collect();
        if let Some(most) = training.evaluate_examples.filter(|&most| most < train.len()) {
            evaluated.shuffle(&mut seed.child("evaluate").random());
            evaluated.truncate(most);
            evaluated.sort_unstable();
        }
        let units: Vec<String> = layers.widths.iter().map(ToString::to_string).collect();
        let summary = format!(
            "{name} {} on {data}: {} examples and {} held out, {} parameters",
            units.join("-"),
            train.len(),
            test.len(),
            layers.layout.parameters(),
        );
        let workers = parts.len().max(1);
        let per_clock = training.batch * workers;
        let shared = Arc::new(Shared {
            clocks_per_pass: train.len().div_ceil(per_clock).max(1) as u64,
            training,
            layers,
            train: Arc::new(train),
            workers,
        });
        Self { shared, parts, test: Arc::new(test), evaluated, summary }
    }
}

impl Application for Network {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.shared.layers.layout
    }

    /// Hidden layers start from He et al. (ICCV 2015), the last at a tenth of it; without hidden layers all
    /// is zero, since the problem is convex.
    fn initial_model(&self, seed: Seed) -> Model {
        let layers = &self.shared.layers;
        let mut model = Model::zeros(layers.layout.clone());
        if layers.count() == 1 {
            return model;
        }
        for layer in 0..layers.count() {
            let deviation = (2.0 / layers.widths[layer] as f64).sqrt();
            let last = layer + 1 == layers.count();
            let normal = Normal::new(0.0, if last { 0.1 * deviation } else { deviation })
                .expect("a finite deviation");
            let mut random = seed.child("layer").nth(layer).random();
            for weight in model.table_mut(weights_of(layer)) {
                *weight = normal.sample(&mut random) as f32;
            }
        }
        model
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let shared = self.shared.clone();
        let tables = shared.layers.layout.tables();
        let velocity = if shared.training.momentum > 0.0 {
            tables.iter().map(|table| vec![0.0; table.rows * table.width]).collect()
        } else {
            Vec::new()
        };
        Box::new(GradientDescent {
            visits: Visits::of_size(self.parts[worker].clone(), shared.training.batch, seed),
            activations: Activations::default(),
            velocity,
            shared,
        })
    }

    fn evaluate(&self, model: &Model) -> Evaluation {
        let shared = &self.shared;
        let (loss, _) = shared.layers.score(model, &shared.train, &self.evaluated);
        let held_out: Vec<u32> = (0..self.test.len() as u32).collect();
        let (_, hits) = shared.layers.score(model, &self.test, &held_out);
        let decay = 0.5 * shared.training.weight_decay * shared.layers.square_weights(model);
        Evaluation {
            objective: loss / self.evaluated.len() as f64 + decay,
            metric: hits as f64 / self.test.len().max(1) as f64,
        }
    }

    fn metric(&self) -> Metric {
        Metric { name: "accuracy", direction: Direction::Higher }
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.shared.rate_factor(clock)
    }

    fn clocks_per_pass(&self) -> u64 {
        self.shared.clocks_per_pass
    }

    fn describe(&self) -> String {
        self.summary.clone()
    }
}

impl Task for GradientDescent {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        RowSet::all(&self.shared.layers.layout)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> (Deltas, Work) {
        let shared = &self.shared;
        let layers = &shared.layers;
        let batch = self.visits.batch(clock);
        if batch.is_empty() {
            return (Deltas::none(&layers.layout), Work::default());
        }
        let mut deltas = Deltas::dense(&layers.layout);
        layers.forward(model, &shared.train, batch, &mut self.activations);
        layers.backward(model, &shared.train, batch, &mut self.activations, &mut deltas);
        layers.add_decay(shared.training.weight_decay as f32, model, &mut deltas);
        let momentum = shared.training.momentum as f32;
        for (velocity, gradient) in self.velocity.iter_mut().zip(&mut deltas.tables) {
            for (velocity, gradient) in velocity.iter_mut().zip(&mut gradient.values) {
                *velocity = momentum * *velocity + *gradient;
                *gradient = *velocity;
            }
        }
        let rate = shared.training.learning_rate * shared.rate_factor(clock);
        let scale = (-rate / shared.workers as f64) as f32;
        for value in deltas.tables.iter_mut().flat_map(|table| &mut table.values) {
            *value *= scale;
        }
        let flops = layers.flops() * batch.len() as f64;
        (deltas, Work { examples: batch.len() as u64, flops })
    }
}

impl Shared {
    fn rate_factor(&self, clock: Clock) -> f64 {
        self.training.learning_rate_decay.factor(clock, self.clocks_per_pass)
    }
}

impl Layers {
    fn new(widths: Vec<usize>) -> Self {
        let mut tables = Vec::new();
        for (layer, pair) in widths.windows(2).enumerate() {
            tables.push(TableLayout {
                name: format!("weights{layer}"),
                rows: pair[0],
                width: pair[1],
            });
            tables.push(TableLayout { name: format!("bias{layer}"), rows: 1, width: pair[1] });
        }
        Self { layout: Arc::new(ModelLayout::new(tables)), widths }
    }

    fn count(&self) -> usize {
        self.widths.len() - 1
    }

    /// Arithmetic of one example: two operations a weight on the way forward, two for its gradient and, but
    /// in the first layer, two to reach the layer before.
    fn flops(&self) -> f64 {
        let weights = self.widths.windows(2).map(|pair| (pair[0] * pair[1]) as f64);
        weights
            .enumerate()
            .map(|(layer, weights)| if layer == 0 { 4.0 } else { 6.0 } * weights)
            .sum()
    }

    /// Carries some examples through the network, up to the logits.
    fn forward(
        &self,
        model: &Model,
        data: &DenseExamples,
        batch: &[u32],
        activations: &mut Activations,
    ) {
        activations.resize(&self.widths, batch.len());
        let input = activations.values[0].chunks_exact_mut(self.widths[0]);
        for (&example, features) in batch.iter().zip(input) {
            data.copy_features(example as usize, features);
        }
        for layer in 0..self.count() {
            let (before, after) = activations.values.split_at_mut(layer + 1);
            let (before, after) = (&before[layer], &mut after[0]);
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            for row in after.chunks_exact_mut(outputs) {
                row.copy_from_slice(model.table(bias_of(layer)));
            }
            let weights = Matrix::new(model.table(weights_of(layer)), inputs, outputs);
            multiply(Matrix::new(before, batch.len(), inputs), weights, 1.0, 1.0, after);
            if layer + 1 < self.count() {
                for value in after {
                    *value = value.max(0.0);
                }
            }
        }
    }

    /// Writes to `gradient`, dense in every table, the mean gradient of the cross-entropy of a batch that
    /// [`Self::forward`] has carried through.
    fn backward(
        &self,
        model: &Model,
        data: &DenseExamples,
        batch: &[u32],
        activations: &mut Activations,
        gradient: &mut Deltas,
    ) {
        activations.start_backward(data, batch);
        let examples = batch.len();
        for layer in (0..self.count()).rev() {
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let before = Matrix::new(&activations.values[layer], examples, inputs);
            let slope = Matrix::new(&activations.slope, examples, outputs);
            let weights = &mut gradient.tables[weights_of(layer).index()].values;
            multiply(before.transposed(), slope, 1.0, 0.0, weights);
            let bias = &mut gradient.tables[bias_of(layer).index()].values;
            bias.fill(0.0);
            for row in activations.slope.chunks_exact(outputs) {
                axpy(1.0, row, bias);
            }
            if layer == 0 {
                break;
            }
            activations.slope_before.resize(examples * inputs, 0.0);
            let weights = Matrix::new(model.table(weights_of(layer)), inputs, outputs);
            let slope_before = &mut activations.slope_before;
            multiply(slope, weights.transposed(), 1.0, 0.0, slope_before);
            for (slope, value) in slope_before.iter_mut().zip(&activations.values[layer]) {
                if *value <= 0.0 {
                    *slope = 0.0;
                }
            }
            std::mem::swap(&mut activations.slope, &mut activations.slope_before);
        }
    }

    fn add_decay(&self, decay: f32, model: &Model, gradient: &mut Deltas) {
        if decay == 0.0 {
            return;
        }
        for id in (0..self.count()).map(weights_of) {
            axpy(decay, model.table(id), &mut gradient.tables[id.index()].values);
        }
    }

    fn square_weights(&self, model: &Model) -> f64 {
        (0..self.count()).map(|layer| square_norm(model.table(weights_of(layer)))).sum()
    }

    /// The summed cross-entropy and the number of right answers, chunk by chunk, added in order.
    fn score(&self, model: &Model, data: &DenseExamples, examples: &[u32]) -> (f64, u64) {
        let scores: Vec<(f64, u64)> = examples
            .par_chunks(EVALUATION_CHUNK)
            .map_init(Activations::default, |activations, chunk| {
                self.forward(model, data, chunk, activations);
                let classes = data.classes;
                let logits = activations.values[self.count()].chunks_exact_mut(classes);
                let mut score = (0.0, 0);
                for (&example, logits) in chunk.iter().zip(logits) {
                    let label = data.labels[example as usize] as usize;
                    let hit = largest(logits) == label;
                    let logit = f64::from(logits[label]);
                    score.0 += softmax(logits) - logit;
                    score.1 += u64::from(hit);
                }
                score
            })
            .collect();
        scores.iter().fold((0.0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1))
    }
}

impl Activations {
    fn resize(&mut self, widths: &[usize], examples: usize) {
        self.examples = examples;
        self.values.resize(widths.len(), Vec::new());
        for (values, width) in self.values.iter_mut().zip(widths) {
            values.resize(examples * width, 0.0);
        }
    }

    /// Turns logits into the gradient of the mean cross-entropy with respect to them.
    fn start_backward(&mut self, data: &DenseExamples, batch: &[u32]) {
        let logits = &self.values[self.values.len() - 1];
        self.slope.clear();
        self.slope.extend_from_slice(logits);
        let scale = 1.0 / batch.len() as f32;
        for (&example, slope) in batch.iter().zip(self.slope.chunks_exact_mut(data.classes)) {
            softmax(slope);
            slope[data.labels[example as usize] as usize] -= 1.0;
            for slope in slope {
                *slope *= scale;
            }
        }
    }
}

fn weights_of(layer: usize) -> TableId {
    TableId(2 * layer as u16)
}

fn bias_of(layer: usize) -> TableId {
    TableId(2 * layer as u16 + 1)
}

/// Examples that are carried through the network as one, and whose losses are summed as one.
const EVALUATION_CHUNK: usize = 256;
