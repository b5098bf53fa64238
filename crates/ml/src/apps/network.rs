//! A feed-forward network that classifies: the common part of softmax regression, the perceptron and the convolutional
//! network.
//!
//! A clock is one step of mini-batch gradient descent: every worker takes the mean gradient of its own
//! batch, and `−η × gradient ÷ workers` as its delta, so that the workers' deltas add up to one step on the
//! union of their batches. Momentum is the worker's own, over its own gradients.
//!
//! With an adaptive optimizer the model has the squares of all gradients behind the tables of the layers. Where the first
//! layer is dense, its weights are moved in the standard coordinates of the inputs, whose statistics are the last table.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::example_names::example_names;
use super::sampled::Sampled;
use super::visits::{Batch, Visits};
use crate::breakdown::of_classes;
use crate::columns::{DataSource, DenseColumns, ending, named};
use crate::config::{ConfigError, count, within};
use crate::declared::DeclaredExamples;
use crate::divided::Divided;
use crate::examples::{DenseExamples, Shape};
use crate::kernels::dense::{Matrix, multiply};
use crate::kernels::vector::{axpy, square_norm};
use crate::layers::{Activations, Score, Stack};
use crate::optimizer::{
    Adaptive, InputStatistics, Inputs, STATISTICS, Schedule, Standard, Steps, from_standard,
    shortening, to_standard,
};
use crate::pieces::Piece;
use crate::trivial::class_frequencies;
use gaia_core::application::{
    Aggregation, Application, ApplicationError, Attachment, Breakdown, Direction, EvaluationSums,
    Metric, Names, Task, TrivialPredictor, WeightedSum, Work,
};
use gaia_core::types::{
    Clock, Content, Deltas, Model, ModelLayout, Restorer, RowSet, Saved, Saver, Seed, StateError,
    TableDeltas, TableId, TableLayout,
};

/// How a network learns.
#[derive(Clone, Debug)]
pub(super) struct Training {
    pub(super) steps: Steps,
    pub(super) momentum: f64,
    pub(super) weight_decay: f64,
    /// About how many training examples the objective is taken over; all where `None`.
    pub(super) evaluate_examples: Option<usize>,
}

/// Where dense examples come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageSource {
    /// Generated, by the application's own generator.
    #[default]
    Synthetic,
    /// A folder of four IDX files, as MNIST is published, plain or gzip.
    Idx,
    /// A folder of CIFAR-10's binary batches, plain or gzip.
    Cifar,
    /// csv files with a row of names first, plain or gzip. `[app.data.columns]` says which columns are read.
    Csv,
    /// Parquet files. `[app.data.columns]` says which columns are read.
    Parquet,
}

impl DataSource for ImageSource {
    type Columns = DenseColumns;
    type Declared = DeclaredExamples;

    /// Images lie in folders: CIFAR-10 in one that has its name, and IDX in all others.
    fn of_path(path: &Path) -> &'static str {
        match ending(path).as_deref() {
            Some("csv") => "csv",
            Some("parquet") => "parquet",
            _ if named(path).contains("cifar") => "cifar",
            _ => "idx",
        }
    }
}

/// The application: dense examples partitioned over workers.
pub struct Network {
    shared: Arc<Shared>,
    /// The training examples of each worker that the objective is taken over.
    evaluated: Sampled,
    feature_names: Option<Vec<String>>,
    summary: String,
}

/// The data that the tasks of all workers share.
struct Shared {
    training: Training,
    stack: Stack,
    examples: Divided<DenseExamples>,
    /// Examples of each worker in each clock.
    batch: usize,
    clocks_per_pass: u64,
    schedule: Schedule,
    /// The tables of the stack, and those of the optimizer behind them.
    layout: Arc<ModelLayout>,
    /// The weights and the bias of the first layer, where their inputs are standardised.
    standardized: Option<(TableId, TableId)>,
}

struct GradientDescent {
    shared: Arc<Shared>,
    visits: Visits<DenseExamples>,
    /// All training examples divided by those of this worker: the mean gradient of a batch counts by its inverse.
    examples_ratio: f64,
    activations: Activations,
    /// What momentum carries on, table by table; empty without it.
    velocity: Vec<Vec<f32>>,
    adaptive: Option<Adaptive>,
    statistics: InputStatistics,
}

impl Network {
    /// Examples divided among workers; `name` and `data` describe what is trained and on what.
    ///
    /// # Panics
    ///
    /// Where there is no training example, or held-out examples have another shape.
    pub(super) fn new(
        training: Training,
        stack: Stack,
        examples: Divided<DenseExamples>,
        seed: Seed,
        (name, data): (&str, &str),
    ) -> Self {
        let Divided { train, test, train_total, test_total, .. } = &examples;
        assert!(*train_total > 0);
        assert_eq!((train.shape, train.classes), (test.shape, test.classes));

        let most = training.evaluate_examples.unwrap_or(*train_total);
        let evaluated = Sampled::new(&examples, most, seed.child("evaluate"));
        let summary = format!(
            "{name} on {data}: {train_total} examples and {test_total} held out, {} parameters",
            stack.layout().parameters(),
        );
        let batch = training.steps.batch(*train_total, examples.workers());
        let per_clock = batch * examples.workers().max(1);
        let clocks_per_pass = train_total.div_ceil(per_clock).max(1) as u64;
        let is_adaptive = training.steps.optimizer.is_adaptive();
        let standardized = stack.dense_inputs().filter(|_| is_adaptive);

        let shared = Arc::new(Shared {
            batch,
            clocks_per_pass,
            schedule: training.steps.schedule(clocks_per_pass),
            layout: layout(&stack, is_adaptive, standardized),
            standardized,
            training,
            stack,
            examples,
        });

        Self { shared, evaluated, feature_names: None, summary }
    }

    /// The names of the classes, in the order of the outputs, where the data has names for them.
    pub fn class_names(&self) -> Option<&Names> {
        self.shared.examples.train.class_names.as_ref()
    }
}

impl Application for Network {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.shared.layout
    }

    fn workers(&self) -> usize {
        self.shared.examples.workers()
    }

    fn initial_model(&self, seed: Seed) -> Model {
        let layers = self.shared.stack.initial_model(seed);
        let mut model = Model::zeros(self.shared.layout.clone());
        for table in layers.layout().table_ids() {
            model.table_mut(table).copy_from_slice(layers.table(table));
        }
        model
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let shared = self.shared.clone();
        let tables = shared.stack.layout().tables();
        let sizes = tables.iter().map(|table| table.rows * table.width);
        let velocity = if shared.training.momentum > 0.0 {
            sizes.clone().map(|size| vec![0.0; size]).collect()
        } else {
            Vec::new()
        };
        Box::new(GradientDescent {
            examples_ratio: shared.examples.ratio(worker),
            visits: Visits::of_size(&shared.examples, worker, shared.batch, seed),
            activations: Activations::default(),
            velocity,
            adaptive: Adaptive::new(&shared.training.steps, sizes),
            statistics: InputStatistics {
                clocks: shared.examples.batches(worker, shared.batch),
                weight: 1.0 / shared.examples.train_total as f64,
            },
            shared,
        })
    }

    /// Every example pays for all weights, as the mean does.
    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        let Shared { training, stack, examples, .. } = &*self.shared;
        let decay = 0.5 * training.weight_decay * stack.square_weights(model);
        let of_worker = |worker: usize| {
            let sample = self.evaluated.pieces(examples, worker);
            let (trained, weight) = self.shared.score(model, &sample)?;
            let objective = WeightedSum { sum: trained.loss + decay * weight, weight };

            let held_out = examples.test_pieces(worker..worker + 1, usize::MAX);
            let (tested, weight) = self.shared.score(model, &held_out)?;
            Ok(EvaluationSums {
                objective: objective.scaled_to(examples.train_weight(worker) as f64),
                metric: WeightedSum { sum: tested.hits as f64, weight },
            })
        };
        let all = workers.into_par_iter().map(of_worker);
        let all = all.collect::<Result<Vec<EvaluationSums>, ApplicationError>>()?;
        Ok(all.into_iter().sum())
    }

    fn trivial_predictor(&self) -> Result<Option<TrivialPredictor>, ApplicationError> {
        let examples = &self.shared.examples;
        let class = |examples: &DenseExamples, at: usize| examples.labels[at] as usize;
        class_frequencies(examples, examples.train.classes, class)
    }

    fn breakdown(&self, model: &Model) -> Result<Option<Breakdown>, ApplicationError> {
        let Shared { examples, stack, .. } = &*self.shared;
        if !examples.is_whole() {
            return Ok(None);
        }
        let class = |examples: &DenseExamples, at: usize| examples.labels[at] as usize;
        let probabilities = |examples: &DenseExamples, positions: &[u32]| {
            stack.probabilities(model, examples, positions)
        };
        let pieces = examples.test_pieces(0..examples.workers(), usize::MAX);
        let classes = (examples.train.classes, self.class_names());
        of_classes(&pieces, classes, class, probabilities)
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::Mean, Direction::Higher);
        Metric { name: "accuracy".into(), aggregation, direction }
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.shared.schedule.reported(clock)
    }

    fn clocks_per_pass(&self) -> u64 {
        self.shared.clocks_per_pass
    }

    fn momentum(&self) -> f64 {
        self.shared.training.momentum
    }

    fn attachments(&self) -> BTreeMap<String, Attachment> {
        let DenseExamples { shape: Shape { channels, height, width }, classes, .. } =
            self.shared.examples.train;
        let integers = |name: &str, values: &[usize]| {
            let values = values.iter().map(|value| *value as u64).collect();
            (name.to_owned(), Attachment::Integers(values))
        };
        let numbers =
            [integers(INPUT_SHAPE, &[channels, height, width]), integers(CLASSES, &[classes])];
        let names = example_names(self.class_names(), self.feature_names.as_deref());
        numbers.into_iter().chain(names).collect()
    }

    fn describe(&self) -> String {
        self.summary.clone()
    }
}

impl Network {
    /// The same with the names of its features, in their order, where the data has names for them.
    #[must_use]
    pub fn with_feature_names(self, feature_names: Option<Vec<String>>) -> Self {
        Self { feature_names, ..self }
    }

    /// The probability of each class for each of some examples: examples × classes.
    pub fn probabilities(&self, model: &Model, examples: &DenseExamples) -> Vec<f32> {
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        self.shared.stack.probabilities(model, examples, &all)
    }
}

impl Task for GradientDescent {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        RowSet::all(&self.shared.layout)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let shared = self.shared.clone();
        let Shared { stack, examples, training, layout, .. } = &*shared;
        let Batch { examples: train, positions: batch, .. } =
            self.visits.batch(clock, &examples.train)?;

        if batch.is_empty() {
            return Ok((Deltas::none(layout), Work::default()));
        }

        let mut deltas = Deltas::dense(stack.layout());
        stack.forward(model, train, batch, &mut self.activations);
        stack.backward(model, train, batch, &mut self.activations, &mut deltas);

        if training.weight_decay > 0.0 {
            for id in stack.weights() {
                let gradient = &mut deltas.tables[id.index()].values;
                axpy(training.weight_decay as f32, model.table(id), gradient);
            }
        }

        let tables = &deltas.tables;
        let norm = || tables.iter().map(|table| square_norm(&table.values)).sum();
        let clip = training.steps.clip(norm);
        if clip < 1.0 {
            for value in deltas.tables.iter_mut().flat_map(|table| &mut table.values) {
                *value *= clip;
            }
        }

        let work = Work { examples: batch.len() as u64, flops: stack.flops() * batch.len() as f64 };
        if self.adaptive.is_some() {
            let own = match shared.standardized {
                Some(_) if clock.0 < self.statistics.clocks => {
                    Some(self.statistics.of_dense(self.activations.inputs(), batch.len()))
                }
                _ => None,
            };
            self.adapt(clock, model, &mut deltas, own);
            return Ok((deltas, work));
        }

        let momentum = training.momentum as f32;
        for (velocity, gradient) in self.velocity.iter_mut().zip(&mut deltas.tables) {
            for (velocity, gradient) in velocity.iter_mut().zip(&mut gradient.values) {
                *velocity = momentum * *velocity + *gradient;
                *gradient = *velocity;
            }
        }

        let scale = (-shared.schedule.rate(clock) / self.examples_ratio) as f32;
        for value in deltas.tables.iter_mut().flat_map(|table| &mut table.values) {
            *value *= scale;
        }

        Ok((deltas, work))
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        let Shared { stack, examples: Divided { train, .. }, .. } = &*self.shared;
        self.visits.probe(train, examples, |train, sample| {
            let score = stack.score(model, train, sample);
            let work = Work {
                examples: (sample.len() as u64).div_ceil(PASSES_PER_STEP),
                flops: stack.flops() * sample.len() as f64 / PASSES_PER_STEP as f64,
            };
            (score.loss / sample.len().max(1) as f64, work)
        })
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        for (table, velocity) in self.velocity.iter().enumerate() {
            walk.tensor(&velocity_of(table), Content::Optimizer, velocity)?;
        }
        self.adaptive.as_ref().map_or(Ok(()), |adaptive| adaptive.save(walk))
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        for (table, velocity) in self.velocity.iter_mut().enumerate() {
            walk.tensor(&velocity_of(table), Content::Optimizer, velocity)?;
        }
        self.adaptive.as_mut().map_or(Ok(()), |adaptive| adaptive.restore(walk))
    }
}

impl GradientDescent {
    /// Turns the mean gradient into the deltas of all tables. `own` are the statistics of the batch's inputs, in the first
    /// pass.
    fn adapt(&mut self, clock: Clock, model: &Model, deltas: &mut Deltas, own: Option<Vec<f32>>) {
        let Self { shared, adaptive, activations, examples_ratio, .. } = self;
        let adaptive = adaptive.as_mut().expect("an optimizer that adapts");
        let share = (1.0 / *examples_ratio) as f32;
        let moved = deltas.tables.len();

        let standards = shared.standards(model, own.as_deref());
        if let Some((weights, bias)) = shared.standardized {
            let [weights, bias] = two(&mut deltas.tables, weights, bias);
            to_standard(&standards, &bias.values, &mut weights.values);
        }

        let rate = shared.schedule.rate(clock) as f32;
        for table in 0..moved {
            let squares = model.table(squares_of(table, moved));
            let gradient = &mut deltas.tables[table].values;
            let change = adaptive.direct(table, |at| at, clock, gradient, squares, &[share]);
            gradient.iter_mut().for_each(|direction| *direction *= -rate);
            deltas.tables.push(TableDeltas::all(change));
        }

        let mut counts = share;
        if let Some((weights, bias)) = shared.standardized {
            let [weights, bias] = two(&mut deltas.tables, weights, bias);
            from_standard(&standards, &mut weights.values, &mut bias.values);
            if shared.stack.is_linear() {
                counts *= shortening(&output_changes(activations.inputs(), weights, bias));
            }
            deltas.tables.push(own.map_or_else(TableDeltas::none, TableDeltas::all));
        }
        for step in deltas.tables[..moved].iter_mut().flat_map(|table| &mut table.values) {
            *step *= counts;
        }
    }
}

/// What a step of a dense layer changes in its outputs: examples × outputs.
fn output_changes(inputs: &[f32], weights: &TableDeltas, bias: &TableDeltas) -> Vec<f32> {
    let outputs = bias.values.len();
    let features = weights.values.len() / outputs;
    let examples = inputs.len() / features;
    let mut changes = bias.values.repeat(examples);
    let inputs = Matrix::new(inputs, examples, features);
    multiply(inputs, Matrix::new(&weights.values, features, outputs), 1.0, 1.0, &mut changes);
    changes
}

/// The deltas of two tables, of which the first comes first.
fn two(tables: &mut [TableDeltas], first: TableId, second: TableId) -> [&mut TableDeltas; 2] {
    let (before, from) = tables.split_at_mut(second.index());
    [&mut before[first.index()], &mut from[0]]
}

/// The table with the squares of the gradients of a table, of which so many are moved.
fn squares_of(table: usize, moved: usize) -> TableId {
    TableId((moved + table) as u16)
}

/// The tables of a stack, and behind them those of an optimizer.
fn layout(
    stack: &Stack,
    is_adaptive: bool,
    standardized: Option<(TableId, TableId)>,
) -> Arc<ModelLayout> {
    if !is_adaptive {
        return stack.layout().clone();
    }
    let layers = stack.layout().tables();
    let squares = |table: &TableLayout| TableLayout {
        name: format!("{}.squares", table.name),
        ..table.clone()
    };
    let inputs =
        standardized.map(|(weights, _)| InputStatistics::layout(layers[weights.index()].rows));
    let all = layers.iter().cloned().chain(layers.iter().map(squares)).chain(inputs);
    let layout = ModelLayout::new(all.collect());
    let statistics: Vec<TableId> = layout.table_ids().skip(layers.len()).collect();
    let scaled = standardized.map(|(weights, _)| weights);
    Arc::new(layout.with_statistics(statistics).with_unlike_rows(scaled))
}

impl InputStatistics {
    /// What a batch of inputs, example by example, adds to the statistics of all features and to the last row.
    fn of_dense(&self, inputs: &[f32], examples: usize) -> Vec<f32> {
        let features = inputs.len() / examples;
        let mut own = vec![0.0; (features + 1) * STATISTICS];
        for example in inputs.chunks_exact(features) {
            for (value, row) in example.iter().zip(own.chunks_exact_mut(STATISTICS)) {
                self.add(*value, row);
            }
        }
        own[features * STATISTICS] = (self.weight * examples as f64) as f32;
        own
    }
}

/// The name of the velocity of a table.
fn velocity_of(table: usize) -> String {
    format!("velocity.{table}")
}

/// The attachment with the channels, the height and the width of an example.
pub const INPUT_SHAPE: &str = "input.shape";

/// The attachment with the number of classes.
pub const CLASSES: &str = "classes";

/// A step is a pass forwards and, about twice as long, one backwards.
const PASSES_PER_STEP: u64 = 3;

impl Shared {
    /// The coordinate of each input, from what all workers have seen and one sees now.
    fn standards(&self, model: &Model, own: Option<&[f32]>) -> Vec<Standard> {
        if self.standardized.is_none() {
            return Vec::new();
        }
        let table = TableId(self.layout.tables().len() as u16 - 1);
        let seen = model.table(table).to_vec();
        Standard::of_all(seen, own, Inputs::Dense, self.training.weight_decay)
    }

    /// The loss and the hits of a copy on examples in pieces, added piece by piece in order, and how many examples they are.
    fn score(
        &self,
        model: &Model,
        pieces: &[Piece<'_, DenseExamples>],
    ) -> Result<(Score, f64), ApplicationError> {
        let (mut sum, mut examples) = (Score::default(), 0);
        for piece in pieces {
            let score = piece.visit(|data, chosen| self.stack.score(model, data, chosen))?;
            sum.loss += score.loss;
            sum.hits += score.hits;
            examples += piece.len();
        }
        Ok((sum, examples as f64))
    }
}

impl Training {
    /// Checks the range of every key that says how a network learns.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.steps.validate(100.0)?;
        self.steps.validate_momentum(self.momentum)?;
        within("weight_decay", self.weight_decay, 0.0, 100.0)?;
        if let Some(examples) = self.evaluate_examples {
            count("evaluate_examples", examples, 1, u32::MAX as usize)?;
        }
        Ok(())
    }
}

/// Checks the units of hidden dense layers, of which there are `least` to 16.
pub(super) fn validate_hidden(hidden: &[usize], least: usize) -> Result<(), ConfigError> {
    count_layers("hidden", hidden.len(), least)?;
    for (layer, &units) in hidden.iter().enumerate() {
        count(&format!("hidden[{layer}]"), units, 1, 1 << 20)?;
    }
    Ok(())
}

/// Checks that a list names `least` to 16 layers.
pub(super) fn count_layers(key: &str, layers: usize, least: usize) -> Result<(), ConfigError> {
    count(key, layers, least, LAYERS_MAX).map_err(|error| ConfigError {
        value: format!("a list of {}", error.value),
        expected: format!("{least} to {LAYERS_MAX} layers"),
        ..error
    })
}

/// Layers of one kind.
const LAYERS_MAX: usize = 16;
