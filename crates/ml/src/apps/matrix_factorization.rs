//! Matrix factorisation by stochastic gradient descent (Koren, Bell and Volinsky, Computer 42(8), 2009).
//!
//! A rating is predicted as `mean + bias(user) + bias(item) + ⟨factors(user), factors(item)⟩`. Each clock a
//! worker walks over one mini-batch of its ratings in order, on a private copy of the rows that the batch
//! touches, and hands back how the copy has moved.
//!
//! Deltas of all workers are added, not averaged. A row that many workers walk over in the same clock would
//! overshoot: with rate η and `n` ratings of the row in the clock, workers together move it by up to `η·n`
//! times the distance to its optimum, which diverges above 2. So the learning rate of each row is capped
//! such that `η·n` stays below `row_step_max`; `n` comes from the row's count in all data.

use std::sync::Arc;

use rand_distr::{Distribution, Normal};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::visits::Visits;
use crate::ConfigError;
use crate::config::{DataConfig, RateDecay, Split, above_zero, count, fits, within};
use crate::examples::{Parts, Ratings};
use crate::kernels::factorization::{Rating, descend, predict};
use crate::kernels::vector::square_norm;
use gaia_core::application::{Application, Direction, Evaluation, Metric, Task, Work};
use gaia_core::types::{
    Clock, Deltas, Model, ModelLayout, RowSet, Seed, StateError, TableDeltas, TableId, TableLayout,
    TableRows, Walk,
};

/// Settings of `kind = "matrix-factorization"`.
///
/// The defaults were chosen on MovieLens latest-small with 1 to 22 workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatrixFactorizationConfig {
    /// Factors of each user and item, 1 to 1024.
    pub rank: usize,
    /// Whether each row also holds a bias, what its user or item adds to every rating.
    pub bias: bool,
    /// The weight λ of the squared rows in the objective, per rating.
    pub regularization: f64,
    /// The learning rate η₀, above 0 and at most 1.
    pub learning_rate: f64,
    /// How the learning rate falls: `inverse-sqrt-pass` or `none`.
    pub learning_rate_decay: RateDecay,
    /// Mini-batches that each worker cuts its ratings into; one is one clock.
    pub clocks_per_pass: u64,
    /// The largest sum of learning rates that one clock applies to a row over all workers, above 0 and at
    /// most 2: rows with many ratings learn with a lower rate, so that summed deltas do not overshoot.
    pub row_step_max: f64,
    /// The standard deviation of a prediction from initial factors, above 0.
    pub initial_scale: f64,
    pub data: DataConfig<RatingSource, RatingGenerator>,
}

/// Where ratings come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RatingSource {
    #[default]
    Synthetic,
    /// `ratings.csv`, `u.data` or `ratings.dat`, plain or gzip.
    MovieLens,
}

/// Biases and a low-rank matrix of known rank, seen at random places through Gaussian noise.
///
/// The defaults are about as many ratings as MovieLens latest-small has, of fewer items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RatingGenerator {
    /// Users that there are.
    pub users: usize,
    /// Items that there are.
    pub items: usize,
    /// Ratings drawn; pairs drawn twice count once.
    pub ratings: usize,
    /// The rank of the matrix behind the ratings.
    pub rank: usize,
    /// The standard deviation of the noise, where what lies behind it has 1: the best held-out error.
    pub noise: f64,
}

/// The application: ratings dealt to workers.
pub struct MatrixFactorization {
    shared: Arc<Shared>,
    parts: Parts,
    test: Ratings,
    /// Standard deviation of each initial factor.
    initial: f64,
    summary: String,
}

/// What the tasks of all workers read.
struct Shared {
    config: MatrixFactorizationConfig,
    layout: Arc<ModelLayout>,
    train: Ratings,
    mean: f32,
    /// The learning rate of each row at clock 0.
    user_rates: Vec<f32>,
    item_rates: Vec<f32>,
    /// The share of the training ratings that each row has.
    user_weights: Vec<f64>,
    item_weights: Vec<f64>,
}

struct Descent {
    shared: Arc<Shared>,
    visits: Visits,
    users: Touched,
    items: Touched,
    batch: Vec<Rating>,
    /// The clock that the fields above belong to.
    prepared: Option<Clock>,
}

/// The rows of one table that a batch touches, and their place in the private copy.
struct Touched {
    rows: Vec<u32>,
    /// For each row of the table its place in `rows`, where it is there.
    places: Vec<u32>,
}

impl MatrixFactorization {
    /// Ratings dealt to workers by `parts`; `data` says in a few words where they come from.
    ///
    /// # Panics
    ///
    /// Where `train` is empty or `parts` names ratings that are not in it.
    pub fn new(
        config: MatrixFactorizationConfig,
        train: Ratings,
        test: Ratings,
        parts: Parts,
        data: &str,
    ) -> Self {
        assert!(!train.is_empty());
        let width = config.rank + usize::from(config.bias);
        let layout = Arc::new(ModelLayout::new(vec![
            TableLayout { name: "users".into(), rows: train.users, width },
            TableLayout { name: "items".into(), rows: train.items, width },
        ]));
        let mean = train.value.iter().map(|&value| f64::from(value)).sum::<f64>();
        let mean = (mean / train.len() as f64) as f32;
        let user_weights = weights(&train.user, train.users);
        let item_weights = weights(&train.item, train.items);
        let per_clock = train.len() as f64 / config.clocks_per_pass as f64;
        let rates = |weights: &[f64]| -> Vec<f32> {
            let rate =
                |weight| config.learning_rate.min(config.row_step_max / (weight * per_clock));
            weights.iter().map(|&weight| rate(weight) as f32).collect()
        };
        let summary = format!(
            "matrix factorisation of {data}: {} users × {} items, {} ratings and {} held out, {} parameters",
            train.users,
            train.items,
            train.len(),
            test.len(),
            layout.parameters(),
        );
        let initial = (config.initial_scale / (config.rank as f64).sqrt()).sqrt();
        let shared = Arc::new(Shared {
            user_rates: rates(&user_weights),
            item_rates: rates(&item_weights),
            config,
            layout,
            train,
            mean,
            user_weights,
            item_weights,
        });
        Self { shared, parts, test, initial, summary }
    }
}

impl Application for MatrixFactorization {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.shared.layout
    }

    fn initial_model(&self, seed: Seed) -> Model {
        let shared = &self.shared;
        let mut model = Model::zeros(shared.layout.clone());
        let normal = Normal::new(0.0, self.initial).expect("a checked scale is finite");
        for (table, name) in [(USERS, "users"), (ITEMS, "items")] {
            let mut random = seed.child(name).random();
            let width = shared.layout.table(table).width;
            for row in model.table_mut(table).chunks_exact_mut(width) {
                for factor in &mut row[..shared.config.rank] {
                    *factor = normal.sample(&mut random) as f32;
                }
            }
        }
        model
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let shared = self.shared.clone();
        let batches = shared.config.clocks_per_pass;
        Box::new(Descent {
            visits: Visits::new(self.parts[worker].clone(), batches, seed),
            users: Touched::new(shared.train.users),
            items: Touched::new(shared.train.items),
            batch: Vec::new(),
            prepared: None,
            shared,
        })
    }

    fn evaluate(&self, model: &Model) -> Evaluation {
        let shared = &self.shared;
        let squares = shared.square_errors(model, &shared.train) / shared.train.len() as f64;
        let rows = shared.weighted_squares(model, USERS, &shared.user_weights)
            + shared.weighted_squares(model, ITEMS, &shared.item_weights);
        let held_out = shared.square_errors(model, &self.test) / self.test.len().max(1) as f64;
        Evaluation {
            objective: squares + shared.config.regularization * rows,
            metric: held_out.sqrt(),
        }
    }

    fn metric(&self) -> Metric {
        Metric { name: "rmse", direction: Direction::Lower }
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.shared.rate_factor(clock)
    }

    fn clocks_per_pass(&self) -> u64 {
        self.shared.config.clocks_per_pass
    }

    fn describe(&self) -> String {
        self.summary.clone()
    }
}

impl Shared {
    fn rate_factor(&self, clock: Clock) -> f64 {
        self.config.learning_rate_decay.factor(clock, self.config.clocks_per_pass)
    }

    /// The sum of squared errors, over chunks whose sums are added in order.
    fn square_errors(&self, model: &Model, ratings: &Ratings) -> f64 {
        let chunks = ratings.len().div_ceil(EVALUATION_CHUNK);
        let sums: Vec<f64> = (0..chunks)
            .into_par_iter()
            .map(|chunk| {
                let start = chunk * EVALUATION_CHUNK;
                let end = ratings.len().min(start + EVALUATION_CHUNK);
                (start..end).map(|at| self.square_error(model, ratings, at)).sum()
            })
            .collect();
        sums.iter().sum()
    }

    fn square_error(&self, model: &Model, ratings: &Ratings, at: usize) -> f64 {
        let user = model.row(USERS, ratings.user[at] as usize);
        let item = model.row(ITEMS, ratings.item[at] as usize);
        let error = ratings.value[at] - self.mean - predict(user, item, self.config.rank);
        f64::from(error) * f64::from(error)
    }

    fn weighted_squares(&self, model: &Model, table: TableId, weights: &[f64]) -> f64 {
        let width = self.layout.table(table).width;
        let rows = model.table(table).chunks_exact(width);
        rows.zip(weights).map(|(row, weight)| weight * square_norm(row)).sum()
    }
}

impl Descent {
    fn prepare(&mut self, clock: Clock) {
        if self.prepared == Some(clock) {
            return;
        }
        let train = &self.shared.train;
        let visited = self.visits.batch(clock);
        self.users.collect(visited.iter().map(|&at| train.user[at as usize]));
        self.items.collect(visited.iter().map(|&at| train.item[at as usize]));
        self.batch.clear();
        self.batch.extend(visited.iter().map(|&at| {
            let at = at as usize;
            Rating {
                user: self.users.places[train.user[at] as usize],
                item: self.items.places[train.item[at] as usize],
                value: train.value[at] - self.shared.mean,
            }
        }));
        self.prepared = Some(clock);
    }
}

impl Task for Descent {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.prepare(clock);
        RowSet { tables: vec![self.users.listed(), self.items.listed()] }
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> (Deltas, Work) {
        self.prepare(clock);
        let shared = &self.shared;
        let config = &shared.config;
        let factor = shared.rate_factor(clock) as f32;
        let mut users = self.users.gather(model, USERS);
        let mut items = self.items.gather(model, ITEMS);
        descend(
            &self.batch,
            config.rank,
            config.rank + usize::from(config.bias),
            config.regularization as f32,
            &mut users,
            &self.users.rates(&shared.user_rates, factor),
            &mut items,
            &self.items.rates(&shared.item_rates, factor),
        );
        self.users.subtract(model, USERS, &mut users);
        self.items.subtract(model, ITEMS, &mut items);
        let examples = self.batch.len() as u64;
        let deltas = Deltas {
            tables: vec![
                TableDeltas { rows: self.users.rows.clone(), values: users },
                TableDeltas { rows: self.items.rows.clone(), values: items },
            ],
        };
        (
            deltas,
            Work { examples, flops: FLOPS_PER_FACTOR * (examples * config.rank as u64) as f64 },
        )
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        let Shared { train, config, .. } = &*self.shared;
        let sample = self.visits.sample(examples);
        let square = |at: &u32| self.shared.square_error(model, train, *at as usize);
        let squares: f64 = sample.iter().map(square).sum();
        let flops = FLOPS_PER_FACTOR * (sample.len() * config.rank) as f64 / 2.0;
        (squares / sample.len().max(1) as f64, Work { examples: sample.len() as u64, flops })
    }

    fn state(&mut self, _walk: &mut Walk<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Touched {
    fn new(rows: usize) -> Self {
        Self { rows: Vec::new(), places: vec![0; rows] }
    }

    fn collect(&mut self, rows: impl Iterator<Item = u32>) {
        self.rows.clear();
        self.rows.extend(rows);
        self.rows.sort_unstable();
        self.rows.dedup();
        for (place, &row) in self.rows.iter().enumerate() {
            self.places[row as usize] = place as u32;
        }
    }

    fn listed(&self) -> TableRows {
        TableRows::listed(self.rows.clone())
    }

    fn rates(&self, rates: &[f32], factor: f32) -> Vec<f32> {
        self.rows.iter().map(|&row| rates[row as usize] * factor).collect()
    }

    fn gather(&self, model: &Model, table: TableId) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.rows.len() * model.layout().table(table).width);
        for &row in &self.rows {
            values.extend_from_slice(model.row(table, row as usize));
        }
        values
    }

    /// Turns what the rows have become into how they changed.
    fn subtract(&self, model: &Model, table: TableId, values: &mut [f32]) {
        let width = model.layout().table(table).width;
        for (&row, values) in self.rows.iter().zip(values.chunks_exact_mut(width)) {
            for (value, start) in values.iter_mut().zip(model.row(table, row as usize)) {
                *value -= start;
            }
        }
    }
}

impl Default for MatrixFactorizationConfig {
    fn default() -> Self {
        Self {
            rank: 16,
            bias: true,
            regularization: 0.1,
            learning_rate: 0.1,
            learning_rate_decay: RateDecay::InverseSqrtPass,
            clocks_per_pass: 10,
            row_step_max: 0.2,
            initial_scale: 0.1,
            data: DataConfig::default(),
        }
    }
}

impl Default for RatingGenerator {
    fn default() -> Self {
        Self { users: 600, items: 1_000, ratings: 80_000, rank: 4, noise: 0.3 }
    }
}

impl MatrixFactorizationConfig {
    /// Checks every key's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        count("rank", self.rank, 1, 1024)?;
        within("regularization", self.regularization, 0.0, 100.0)?;
        above_zero("learning_rate", self.learning_rate, 1.0)?;
        if !(1..=CLOCKS_PER_PASS_MAX).contains(&self.clocks_per_pass) {
            let expected = format!("a whole number, 1 to {CLOCKS_PER_PASS_MAX}");
            return Err(ConfigError::new("clocks_per_pass", self.clocks_per_pass, expected));
        }
        above_zero("row_step_max", self.row_step_max, 2.0)?;
        above_zero("initial_scale", self.initial_scale, 10.0)?;
        self.data.validate(&[Split::Even, Split::ByUser])?;
        self.data.synthetic.validate()
    }
}

impl RatingGenerator {
    fn validate(&self) -> Result<(), ConfigError> {
        count("data.synthetic.users", self.users, 1, 1 << 24)?;
        count("data.synthetic.items", self.items, 1, 1 << 24)?;
        count("data.synthetic.ratings", self.ratings, 10, 1 << 28)?;
        count("data.synthetic.rank", self.rank, 1, 1024)?;
        fits("data.synthetic.users", self.users, self.rank, "factors each")?;
        fits("data.synthetic.items", self.items, self.rank, "factors each")?;
        within("data.synthetic.noise", self.noise, 0.0, 100.0)
    }
}

/// How often each row occurs, as a share of all.
fn weights(rows: &[u32], count: usize) -> Vec<f64> {
    let mut counts = vec![0_u64; count];
    for &row in rows {
        counts[row as usize] += 1;
    }
    counts.iter().map(|&count| count as f64 / rows.len() as f64).collect()
}

const USERS: TableId = TableId(0);
const ITEMS: TableId = TableId(1);

/// Ratings whose errors are summed as one.
const EVALUATION_CHUNK: usize = 1 << 14;

/// Two for the prediction, eight for moving both rows.
const FLOPS_PER_FACTOR: f64 = 10.0;

const CLOCKS_PER_PASS_MAX: u64 = 1 << 20;
