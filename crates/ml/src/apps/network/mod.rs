//! A feed-forward network that classifies: the common part of softmax regression, the perceptron and the convolutional
//! network.
//!
//! A clock is one step of mini-batch gradient descent: every worker takes the mean gradient of its own
//! batch, and `−η × gradient` times its share of all training examples as its delta, so that the workers' deltas add up to one
//! step. Momentum is the worker's own, over its own gradients.
//!
//! With an adaptive optimizer the model has the squares of all gradients behind the tables of the layers. Where the first
//! layer is dense, its weights are moved in the standard coordinates of the inputs, whose statistics are the last table.

mod descent;
mod squares;
mod standardized_inputs;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::descent::GradientDescent;
use self::squares::Squares;
use self::standardized_inputs::StandardizedInputs;
use super::example_names::example_names;
use super::sampled::Sampled;
use crate::breakdown::of_classes;
use crate::columns::{DataSource, DenseColumns, ending, named};
use crate::config::{ConfigError, count, within};
use crate::declared::DeclaredExamples;
use crate::divided::Divided;
use crate::examples::{DenseExamples, Shape};
use crate::layers::{Score, Stack};
use crate::optimizer::{Schedule, Steps};
use crate::pieces::Piece;
use crate::rescaling::Rescaling;
use crate::trivial::class_frequencies;
use gaia_core::application::{
    Aggregation, Application, ApplicationError, Attachment, Breakdown, Direction, EvaluationSums,
    Metric, Names, Task, TrivialPredictor, WeightedSum,
};
use gaia_core::types::{Clock, Model, ModelLayout, Seed, TableId};

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
    /// Whether evaluations have what the model does on held-out examples.
    has_held_out: bool,
    feature_names: Option<Vec<String>>,
    rescaling: Rescaling,
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
    /// Where an adaptive optimizer has the squares of the gradients of each table of the stack.
    squares: Vec<Squares>,
    /// The first layer, where its inputs are standardised.
    inputs: Option<StandardizedInputs>,
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
        let clocks_per_pass = examples.clocks_per_pass(batch);
        let (layout, squares, inputs) = match training.steps.optimizer.is_adaptive() {
            true => adaptive_layout(&stack, seed),
            false => (stack.layout().clone(), Vec::new(), None),
        };

        let shared = Arc::new(Shared {
            batch,
            clocks_per_pass,
            schedule: training.steps.schedule(clocks_per_pass),
            layout,
            squares,
            inputs,
            training,
            stack,
            examples,
        });

        let rescaling = Rescaling::default();
        Self { shared, evaluated, has_held_out: true, feature_names: None, rescaling, summary }
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
            if !self.shared.layout.is_initialized_by_workers(table) {
                model.table_mut(table).copy_from_slice(layers.table(table));
            }
        }
        model
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        Box::new(GradientDescent::new(self.shared.clone(), worker, seed))
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

            let held_out = match self.has_held_out {
                true => examples.test_pieces(worker..worker + 1, usize::MAX),
                false => Vec::new(),
            };
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

    fn for_trials(&self) -> Option<Arc<dyn Application>> {
        Some(Arc::new(Self {
            shared: self.shared.clone(),
            evaluated: self.evaluated.at_most(TRIAL_EXAMPLES),
            has_held_out: false,
            feature_names: self.feature_names.clone(),
            rescaling: self.rescaling.clone(),
            summary: self.summary.clone(),
        }))
    }

    fn trivial_predictor(&self) -> Result<Option<TrivialPredictor>, ApplicationError> {
        let examples = &self.shared.examples;
        let class = |examples: &DenseExamples, at: usize| examples.labels[at] as usize;
        class_frequencies(examples, examples.train.classes, class)
    }

    fn breakdown(&self, model: &Model) -> Result<Option<Breakdown>, ApplicationError> {
        let Shared { examples, stack, .. } = &*self.shared;
        if !self.has_held_out || !examples.is_whole() {
            return Ok(None);
        }
        let class = |examples: &DenseExamples, at: usize| examples.labels[at] as usize;
        let probabilities = |examples: &DenseExamples, positions: &[u32]| {
            stack.probabilities(model, examples, positions)
        };
        let pieces = examples.test_pieces_once(usize::MAX);
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
        numbers.into_iter().chain(names).chain(self.rescaling.attachments()).collect()
    }

    fn describe(&self) -> String {
        format!("{}{}", self.summary, self.rescaling)
    }

    fn data_digest(&self) -> Option<u64> {
        self.shared.examples.digest
    }
}

impl Network {
    /// The same with the names of its features, in their order, where the data has names for them.
    #[must_use]
    pub fn with_feature_names(self, feature_names: Option<Vec<String>>) -> Self {
        Self { feature_names, ..self }
    }

    /// The same, whose examples have been rescaled: what is needed to rescale others goes with the model.
    #[must_use]
    pub fn with_rescaling(self, rescaling: Rescaling) -> Self {
        Self { rescaling, ..self }
    }

    /// The probability of each class for each of some examples: examples × classes.
    pub fn probabilities(&self, model: &Model, examples: &DenseExamples) -> Vec<f32> {
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        self.shared.stack.probabilities(model, examples, &all)
    }
}

/// The tables of a stack, and behind them those of an adaptive optimizer: which of them are where.
fn adaptive_layout(
    stack: &Stack,
    seed: Seed,
) -> (Arc<ModelLayout>, Vec<Squares>, Option<StandardizedInputs>) {
    let layers = stack.layout().tables();
    let (added, squares) = Squares::of(stack);
    let last = TableId((layers.len() + added.len()) as u16);
    let inputs = StandardizedInputs::of(stack, last, seed.child("inputs"));

    let mut all = [layers, &added].concat();
    all.extend(inputs.map(|inputs| inputs.statistics_layout(layers)));
    let layout = ModelLayout::new(all);
    let statistics: Vec<TableId> = layout.table_ids().skip(layers.len()).collect();
    let initialized = inputs.iter().flat_map(StandardizedInputs::initialized_by_workers);
    let layout = layout
        .with_statistics(statistics)
        .with_unlike_rows(inputs.map(|inputs| inputs.unlike_rows()))
        .with_initialized_by_workers(initialized);
    (Arc::new(layout), squares, inputs)
}

/// The attachment with the channels, the height and the width of an example.
pub const INPUT_SHAPE: &str = "input.shape";

/// The attachment with the number of classes.
pub const CLASSES: &str = "classes";

impl Shared {
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

/// The examples of an evaluation in a trial, about. All settings are evaluated on the same, so that what they are in error by is
/// nearly the same, too.
const TRIAL_EXAMPLES: usize = 1_000;
