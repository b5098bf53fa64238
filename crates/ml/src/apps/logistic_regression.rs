//! Logistic regression over sparse examples of two classes.
//!
//! A delta touches only the features that its batch has, so the regularisation must not touch others
//! either: each example pays `½ λ Σ w²` for the weights of its own features, beside `ln(1 + exp(−y·f))`. The
//! objective is the mean of both over all examples, and frequent features are held harder.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::visits::Visits;
use crate::ConfigError;
use crate::config::{DataConfig, RateDecay, Split, above_zero, count, fits, within};
use crate::examples::{Parts, SparseExamples};
use crate::kernels::vector::softplus;
use gaia_core::application::{Application, Direction, Evaluation, Metric, Task, Work};
use gaia_core::types::{
    Clock, Deltas, Model, ModelLayout, RowSet, Seed, StateError, TableDeltas, TableId, TableLayout,
    TableRows, Walk,
};

/// Settings of `kind = "logistic-regression"`.
///
/// The defaults were chosen on a9a with 3 to 22 workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogisticRegressionConfig {
    /// Examples of each worker in each clock.
    pub batch: usize,
    /// The learning rate η₀ of the mean gradient over all workers' batches, above 0 and at most 100.
    pub learning_rate: f64,
    /// How the learning rate falls: `inverse-sqrt-pass` or `none`.
    pub learning_rate_decay: RateDecay,
    /// The weight λ of half the squared weights of an example's features.
    pub regularization: f64,
    pub data: DataConfig<SparseSource, PlantedGenerator>,
}

/// Where sparse examples come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SparseSource {
    #[default]
    Synthetic,
    /// A file of `label index:value …` lines, plain or gzip; `NAME.t` beside it is the test set.
    Libsvm,
}

/// Binary features, labelled by chance with the odds that planted weights give them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlantedGenerator {
    /// Features that there are.
    pub features: usize,
    /// Features that each example has.
    pub active: usize,
    /// Examples made, the held-out ones included.
    pub examples: usize,
    /// The standard deviation of an example's log-odds.
    pub signal: f64,
}

/// The application: sparse examples dealt to workers.
pub struct LogisticRegression {
    shared: Arc<Shared>,
    parts: Parts,
    test: SparseExamples,
    summary: String,
}

struct Shared {
    config: LogisticRegressionConfig,
    layout: Arc<ModelLayout>,
    train: SparseExamples,
    workers: usize,
    clocks_per_pass: u64,
}

struct SparseDescent {
    shared: Arc<Shared>,
    visits: Visits,
    /// The features that the batch has, ascending.
    rows: Vec<u32>,
    prepared: Option<Clock>,
}

impl LogisticRegression {
    /// Examples dealt to workers by `parts`; `data` says in a few words where they come from.
    ///
    /// # Panics
    ///
    /// Where `train` is empty, `test` has another width or `parts` names examples that are not there.
    pub fn new(
        config: LogisticRegressionConfig,
        train: SparseExamples,
        test: SparseExamples,
        parts: Parts,
        data: &str,
    ) -> Self {
        assert!(!train.is_empty());
        assert_eq!(train.width, test.width);
        let layout = Arc::new(ModelLayout::new(vec![
            TableLayout { name: "weights".into(), rows: train.width, width: 1 },
            TableLayout { name: "bias".into(), rows: 1, width: 1 },
        ]));
        let summary = format!(
            "logistic regression on {data}: {} examples and {} held out, {} features",
            train.len(),
            test.len(),
            train.width,
        );
        let workers = parts.len().max(1);
        let clocks_per_pass = train.len().div_ceil(config.batch * workers).max(1) as u64;
        let shared = Arc::new(Shared { config, layout, train, workers, clocks_per_pass });
        Self { shared, parts, test, summary }
    }
}

impl Application for LogisticRegression {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.shared.layout
    }

    fn initial_model(&self, _seed: Seed) -> Model {
        Model::zeros(self.shared.layout.clone())
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let shared = self.shared.clone();
        Box::new(SparseDescent {
            visits: Visits::of_size(self.parts[worker].clone(), shared.config.batch, seed),
            rows: Vec::new(),
            prepared: None,
            shared,
        })
    }

    fn evaluate(&self, model: &Model) -> Evaluation {
        let shared = &self.shared;
        let (loss, _) = score(model, &shared.train, shared.config.regularization);
        let (_, hits) = score(model, &self.test, 0.0);
        Evaluation {
            objective: loss / shared.train.len() as f64,
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

impl Shared {
    fn rate_factor(&self, clock: Clock) -> f64 {
        self.config.learning_rate_decay.factor(clock, self.clocks_per_pass)
    }
}

impl SparseDescent {
    fn prepare(&mut self, clock: Clock) {
        if self.prepared == Some(clock) {
            return;
        }
        self.rows.clear();
        for &example in self.visits.batch(clock) {
            self.rows.extend_from_slice(self.shared.train.example(example as usize).0);
        }
        self.rows.sort_unstable();
        self.rows.dedup();
        self.prepared = Some(clock);
    }
}

impl Task for SparseDescent {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.prepare(clock);
        RowSet { tables: vec![TableRows::listed(self.rows.clone()), TableRows::All] }
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> (Deltas, Work) {
        self.prepare(clock);
        let shared = &self.shared;
        let batch = self.visits.batch(clock);
        if batch.is_empty() {
            return (Deltas::none(&shared.layout), Work::default());
        }
        let regularization = shared.config.regularization as f32;
        let weights = model.table(WEIGHTS);
        let mut changes = vec![0.0_f32; self.rows.len()];
        let mut bias = 0.0_f32;
        let mut entries = 0;
        for &example in batch {
            let (columns, values) = shared.train.example(example as usize);
            let label = shared.train.labels[example as usize];
            let slope = -label / (1.0 + (label * margin(model, columns, values)).exp());
            for (&column, value) in columns.iter().zip(values) {
                let place = self.rows.partition_point(|&row| row < column);
                changes[place] += slope * value + regularization * weights[column as usize];
            }
            bias += slope;
            entries += columns.len();
        }
        let rate = shared.config.learning_rate * shared.rate_factor(clock);
        let scale = (-rate / (batch.len() * shared.workers) as f64) as f32;
        changes.iter_mut().for_each(|change| *change *= scale);
        let deltas = Deltas {
            tables: vec![
                TableDeltas { rows: self.rows.clone(), values: changes },
                TableDeltas { rows: vec![0], values: vec![scale * bias] },
            ],
        };
        let flops = FLOPS_PER_ENTRY * entries as f64;
        (deltas, Work { examples: batch.len() as u64, flops })
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        let data = &self.shared.train;
        let sample = self.visits.sample(examples);
        let (mut loss, mut entries) = (0.0, 0);
        for &example in &sample {
            let (columns, values) = data.example(example as usize);
            let label = data.labels[example as usize];
            loss += softplus(-f64::from(label * margin(model, columns, values)));
            entries += columns.len();
        }
        let flops = FLOPS_PER_ENTRY * entries as f64 / 2.0;
        (loss / sample.len().max(1) as f64, Work { examples: sample.len() as u64, flops })
    }

    fn state(&mut self, _walk: &mut Walk<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Default for LogisticRegressionConfig {
    fn default() -> Self {
        Self {
            batch: 64,
            learning_rate: 1.0,
            learning_rate_decay: RateDecay::InverseSqrtPass,
            regularization: 1e-5,
            data: DataConfig::default(),
        }
    }
}

impl Default for PlantedGenerator {
    fn default() -> Self {
        Self { features: 100, active: 15, examples: 20_000, signal: 3.0 }
    }
}

impl LogisticRegressionConfig {
    /// Checks every key's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        count("batch", self.batch, 1, 1 << 20)?;
        above_zero("learning_rate", self.learning_rate, 100.0)?;
        within("regularization", self.regularization, 0.0, 100.0)?;
        self.data.validate(&[Split::Even, Split::ByLabel])?;
        let generator = &self.data.synthetic;
        count("data.synthetic.features", generator.features, 1, 1 << 26)?;
        count("data.synthetic.active", generator.active, 1, generator.features)?;
        count("data.synthetic.examples", generator.examples, 10, 1 << 28)?;
        fits("data.synthetic.examples", generator.examples, generator.active, "active features")?;
        within("data.synthetic.signal", generator.signal, 0.0, 1000.0)
    }
}

/// The log-odds of an example.
fn margin(model: &Model, columns: &[u32], values: &[f32]) -> f32 {
    let weights = model.table(WEIGHTS);
    let products =
        columns.iter().zip(values).map(|(&column, value)| weights[column as usize] * value);
    products.sum::<f32>() + model.table(BIAS)[0]
}

/// The summed objective and the number of right answers, chunk by chunk, added in order.
fn score(model: &Model, data: &SparseExamples, regularization: f64) -> (f64, u64) {
    let weights = model.table(WEIGHTS);
    let scores: Vec<(f64, u64)> = (0..data.len().div_ceil(EVALUATION_CHUNK))
        .into_par_iter()
        .map(|chunk| {
            let start = chunk * EVALUATION_CHUNK;
            let end = data.len().min(start + EVALUATION_CHUNK);
            let mut score = (0.0, 0);
            for example in start..end {
                let (columns, values) = data.example(example);
                let margin = margin(model, columns, values);
                let label = data.labels[example];
                let squares: f64 =
                    columns.iter().map(|&column| f64::from(weights[column as usize]).powi(2)).sum();
                score.0 += softplus(-f64::from(label * margin)) + 0.5 * regularization * squares;
                score.1 += u64::from((margin > 0.0) == (label > 0.0));
            }
            score
        })
        .collect();
    scores.iter().fold((0.0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1))
}

const WEIGHTS: TableId = TableId(0);
const BIAS: TableId = TableId(1);

/// Examples whose losses are summed as one.
const EVALUATION_CHUNK: usize = 4096;

/// Two for the margin, four for the gradient and its regularisation.
const FLOPS_PER_ENTRY: f64 = 6.0;
