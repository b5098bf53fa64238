//! Built-in applications, driven by the simplest loop there is, on data that one learning rate does not fit.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use gaia_core::application::{Application, Names};
use gaia_core::types::{Clock, Deltas, Model, Random, Seed, TableId, TableLayout};
use gaia_ml::apps::{
    LogisticRegression, LogisticRegressionConfig, MatrixFactorization, MatrixFactorizationConfig,
    PerceptronConfig, RatingTotals, SoftmaxRegressionConfig, perceptron, softmax_regression,
};
use gaia_ml::divided::{Divided, Examples, Parts};
use gaia_ml::examples::{DenseExamples, Features, Ratings, Shape, SparseExamples};
use gaia_ml::optimizer::Optimizer;
use rand::RngExt;

const ADAPTIVE: [Optimizer; 2] = [Optimizer::Adagrad, Optimizer::Adam];

#[test]
fn adaptive_steps_do_not_depend_on_the_scale_of_dense_features() {
    for optimizer in ADAPTIVE {
        let objective = |scales: [f32; FEATURES], optimizer| {
            let config = SoftmaxRegressionConfig {
                optimizer: Some(optimizer),
                weight_decay: 0.0,
                learning_rate_clocks: Some(CLOCKS),
                ..Default::default()
            };
            let data = dense(scales);
            let app = softmax_regression(&config, divided(&data, false), Seed(1), "");
            objective(&app, CLOCKS)
        };
        let same = objective([1.0; FEATURES], optimizer);
        let scaled = objective(SCALES, optimizer);
        assert!((scaled / same - 1.0).abs() < 0.01, "{optimizer:?}: {scaled} and {same}");
        let sgd = objective(SCALES, Optimizer::Sgd);
        assert!(sgd > 1.5 * same, "{sgd} and {same}: the scales are none that SGD can do");
    }
}

/// Weights of one size for all features would leave all units of a hidden layer to the largest features.
#[test]
fn a_perceptron_learns_features_of_any_scale() {
    let objective = |scales: [f32; FEATURES], optimizer| {
        let config = PerceptronConfig {
            hidden: vec![16],
            optimizer,
            weight_decay: 0.0,
            learning_rate_clocks: optimizer.is_none_or(Optimizer::is_adaptive).then_some(CLOCKS),
            ..Default::default()
        };
        let data = dense(scales);
        let app = perceptron(&config, divided(&data, false), Seed(1), "");
        objective(&app, CLOCKS)
    };
    for optimizer in [None, Some(Optimizer::Adagrad), Some(Optimizer::Adam)] {
        let (same, scaled) = (objective([1.0; FEATURES], optimizer), objective(SCALES, optimizer));
        assert!((scaled / same - 1.0).abs() < 0.02, "{optimizer:?}: {scaled} and {same}");
    }
    let sgd = objective(SCALES, Some(Optimizer::Sgd));
    assert!(sgd > 2.0 * objective(SCALES, None), "{sgd}: the scales are none that SGD can do");
}

/// A factor of a thousand in its data does not make a model that goes on from another begin anew.
#[test]
fn a_perceptron_that_goes_on_from_another_run_keeps_its_weights() {
    let config = PerceptronConfig { hidden: vec![16], ..Default::default() };
    let app = perceptron(&config, divided(&dense(SCALES), false), Seed(1), "");
    let model = trained(&app, CLOCKS);
    let before = app.evaluate(&model).unwrap().objective;
    let after = app.evaluate(&trained_on(&app, model, 1)).unwrap().objective;
    assert!(after < 1.1 * before + 0.01, "{after} after one more clock, {before} before");
}

/// Each worker has one class. Workers that divide by squares of their own would end elsewhere: their gradients differ in
/// sign and in size.
#[test]
fn where_workers_see_other_labels_adaptive_steps_lead_to_the_same_place() {
    for optimizer in ADAPTIVE {
        let objective = |is_skewed: bool| {
            let config = LogisticRegressionConfig {
                optimizer,
                learning_rate_clocks: Some(CLOCKS),
                ..Default::default()
            };
            let app = LogisticRegression::new(config, divided(&sparse(), is_skewed), "");
            objective(&app, CLOCKS)
        };
        let (even, skewed) = (objective(false), objective(true));
        assert!((skewed / even - 1.0).abs() < 0.02, "{optimizer:?}: {skewed} and {even}");
    }
}

#[test]
fn the_first_pass_counts_each_example_once_and_no_later_one_does() {
    let config = LogisticRegressionConfig {
        optimizer: Optimizer::Adagrad,
        batch: Some(7),
        ..Default::default()
    };
    let app = LogisticRegression::new(config, divided(&sparse(), false), "");
    let first_pass = (EXAMPLES / WORKERS).div_ceil(7) as u64;
    let statistics = |clocks| trained(&app, clocks).table(TableId(4)).to_vec();
    let once = statistics(first_pass);
    let examples = once[once.len() - 3];
    assert!((examples - 1.0).abs() < 1e-3, "{examples} of all examples");
    assert_ne!(statistics(first_pass - 1), once);
    assert_eq!(statistics(2 * first_pass), once);
}

#[test]
fn a_worker_that_begins_later_counts_its_examples_too() {
    let config = LogisticRegressionConfig { batch: Some(7), ..Default::default() };
    let app = LogisticRegression::new(config, divided(&sparse(), false), "");
    let first_pass = (EXAMPLES / WORKERS).div_ceil(7) as u64;
    let mut task = app.task(1, Seed(4));
    let mut model = app.initial_model(Seed(4));
    for clock in 40..40 + 2 * first_pass {
        task.rows(Clock(clock));
        let (deltas, _) = task.iterate(Clock(clock), &model).unwrap();
        add(&mut model, &deltas);
    }
    let counted = model.table(TableId(4));
    let share = counted[counted.len() - 3];
    assert!((share * WORKERS as f32 - 1.0).abs() < 1e-3, "{share} of all examples");
}

/// A step as long in every coordinate changes the outputs by the number of features: after a few such steps the objective
/// is many times what it began with.
#[test]
fn first_steps_over_many_features_do_not_overshoot() {
    let data = pixels();
    let examples = |data: &DenseExamples| {
        let Features::Floats(values) = &data.features else { panic!("floats") };
        let mut sparse = SparseExamples::empty(PIXELS);
        for (values, label) in values.chunks(PIXELS).zip(&data.labels) {
            let columns: Vec<u32> =
                (0..PIXELS as u32).filter(|&column| values[column as usize] != 0.0).collect();
            let values: Vec<f32> = columns.iter().map(|&column| values[column as usize]).collect();
            sparse.push(&columns, &values, 2.0 * *label as f32 - 1.0);
        }
        sparse
    };
    for optimizer in ADAPTIVE {
        let config = SoftmaxRegressionConfig { optimizer: Some(optimizer), ..Default::default() };
        let softmax = softmax_regression(&config, divided(&data, false), Seed(1), "");
        let config = LogisticRegressionConfig { optimizer, ..Default::default() };
        let logistic = LogisticRegression::new(config, divided(&examples(&data), false), "");
        for app in [&softmax as &dyn Application, &logistic] {
            let worst = (1..6).map(|clocks| objective(app, clocks)).fold(0.0, f64::max);
            assert!(worst < 1.0, "{optimizer:?}: {worst} after {}", objective(app, 0));
        }
    }
}

/// Nearly all values are a thousandth, the others a thousand, and they say the opposite of the label. Steps in the coordinate of
/// the first few throw the weight so far that no later step takes it back.
#[test]
fn a_first_batch_of_small_values_does_not_set_the_scale_of_a_feature() {
    let mut random = Seed(8).random();
    let (mut sparse, mut dense) = (SparseExamples::empty(1), (Vec::new(), Vec::new()));
    for example in 0..EXAMPLES {
        let label = if random.random_bool(0.5) { 1.0 } else { -1.0 };
        let value = if example % 40 == 0 { 1000.0 * label } else { -1e-3 * label };
        sparse.push(&[0], &[value], label);
        dense.0.push(value);
        dense.1.push(u32::from(label > 0.0));
    }
    let dense = DenseExamples {
        features: Features::Floats(dense.0),
        labels: dense.1,
        ..DenseExamples::empty(Shape::row(1), 2)
    };

    let config = LogisticRegressionConfig { batch: Some(4), ..Default::default() };
    let logistic = LogisticRegression::new(config, divided(&sparse, false), "");
    let config = SoftmaxRegressionConfig { batch: Some(4), ..Default::default() };
    let softmax = softmax_regression(&config, divided(&dense, false), Seed(1), "");
    for app in [&logistic as &dyn Application, &softmax] {
        let objective = objective(app, CLOCKS);
        assert!(objective < 10.0, "{objective}");
    }
}

/// The first layer begins at zero, so that in clock 0 only the penalty says anything about the weights of the others.
#[test]
fn the_weights_of_later_layers_begin_as_they_were_drawn() {
    for optimizer in ADAPTIVE {
        let (hidden, optimizer) = (vec![8, 8], Some(optimizer));
        let config = PerceptronConfig { hidden, optimizer, ..Default::default() };
        let app = perceptron(&config, divided(&dense([1.0; FEATURES]), false), Seed(1), "");
        let (begun, drawn) = (trained(&app, 1), app.initial_model(Seed(5)));
        for weights in [2, 4].map(TableId) {
            assert!(drawn.table(weights).iter().any(|weight| *weight != 0.0));
            assert_eq!(begun.table(weights), drawn.table(weights), "{optimizer:?}");
        }
    }
}

#[test]
fn rows_without_a_training_rating_are_predicted_by_the_other_side_alone() {
    let ratings = |users: &[u32]| {
        let count = users.len();
        Ratings {
            users: 4,
            items: 6,
            user: users.to_vec(),
            item: (0..count as u32).map(|at| at % 6).collect(),
            value: (0..count).map(|at| (at % 5) as f32).collect(),
        }
    };
    let app = |train: &Ratings| {
        let config = MatrixFactorizationConfig { rank: 3, ..Default::default() };
        let names = [4, 6].map(|count| Names::Numbers((0..count).collect()));
        let totals = RatingTotals::of(train);
        MatrixFactorization::new(config, divided(train, false), &totals, names, "")
    };
    let [all, some] = [&[0, 1, 2, 3].repeat(10), &[0, 1, 3].repeat(10)]
        .map(|users| app(&ratings(users)).initial_model(Seed(5)).table(TableId(0)).to_vec());
    let user = |table: &[f32], user: usize| table[4 * user..4 * (user + 1)].to_vec();
    assert_ne!(user(&all, 2), [0.0; 4]);
    assert_eq!(user(&some, 2), [0.0; 4]);
    for known in [0, 1, 3] {
        assert_eq!(user(&some, known), user(&all, known));
    }
}

#[test]
fn clipped_gradients_move_a_model_no_further_than_their_norm() {
    for optimizer in [Optimizer::Sgd, Optimizer::Adagrad] {
        let change = |clip_norm| {
            let config = SoftmaxRegressionConfig {
                optimizer: Some(optimizer),
                learning_rate: Some(1.0),
                clip_norm,
                ..Default::default()
            };
            let app = softmax_regression(&config, divided(&dense(SCALES), false), Seed(1), "");
            let model = trained(&app, 1);
            let table = if optimizer == Optimizer::Sgd { 0 } else { 2 };
            let values = model.table(TableId(table)).iter().map(|&value| f64::from(value));
            match optimizer {
                Optimizer::Sgd => values.map(|value| value * value).sum::<f64>().sqrt(),
                _ => values.sum(),
            }
        };
        let (free, clipped) = (change(None), change(Some(0.125)));
        assert!(free > 0.1, "{optimizer:?}: {free}");
        assert!(clipped < free / 4.0, "{optimizer:?}: {clipped} of {free}");
        assert!(optimizer != Optimizer::Sgd || clipped <= 0.125, "{clipped}");
    }
}

#[test]
fn warmed_up_runs_begin_with_small_steps() {
    let first = |warm_up| {
        let config =
            SoftmaxRegressionConfig { warm_up, learning_rate: Some(0.25), ..Default::default() };
        let app = softmax_regression(&config, divided(&dense(SCALES), false), Seed(1), "");
        trained(&app, 1).table(TableId(0)).to_vec()
    };
    let (cold, warmed) = (first(0), first(4));
    assert!(cold.iter().zip(&warmed).all(|(cold, warmed)| cold / 4.0 == *warmed));
}

/// Ratings that are larger by a power of four, so that roots are exact, take the same steps, to the bit.
#[test]
fn ratings_of_any_range_are_learnt_with_the_same_settings() {
    let error = |range: f32| {
        let mut random = Seed(3).random();
        let mut data = Ratings { users: 60, items: 40, ..Default::default() };
        let taste: Vec<f32> = (0..100).map(|_| random.random_range(-1.0..1.0)).collect();
        for _ in 0..3000 {
            let (user, item) = (random.random_range(0..60), random.random_range(0..40));
            data.user.push(user);
            data.item.push(item);
            let product = taste[user as usize] * taste[60 + item as usize];
            data.value.push(range * (0.5 + 0.5 * product));
        }
        let config = MatrixFactorizationConfig { rank: 4, ..Default::default() };
        let names = [60, 40].map(|count| Names::Numbers((0..count).collect()));
        let totals = RatingTotals::of(&data);
        let divided = divided(&data, false);
        let app = MatrixFactorization::new(config, divided, &totals, names, "");
        objective(&app, 600).sqrt() / f64::from(range)
    };
    let (small, same, large) = (error(5.0), error(80.0), error(100.0));
    assert!((same / small - 1.0).abs() < 1e-9, "{small} and {same}");
    assert!((large / small - 1.0).abs() < 0.1 && large < 0.15, "{small} and {large}");
}

const CLOCKS: u64 = 400;
const WORKERS: usize = 3;
const EXAMPLES: usize = 600;
const FEATURES: usize = 6;
const SCALES: [f32; FEATURES] = [1e-3, 1e-2, 0.1, 10.0, 100.0, 1000.0];

/// Noisy examples of two classes with features far from zero.
fn dense(scales: [f32; FEATURES]) -> DenseExamples {
    let mut random = Seed(2).random();
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..EXAMPLES {
        let label = random.random_range(0..2);
        for scale in scales {
            features.push(scale * (3.0 + number(&mut random) + 0.5 * label as f32));
        }
        labels.push(label);
    }
    let shape = Shape::row(FEATURES);
    let features = Features::Floats(features);
    DenseExamples { shape, classes: 2, class_names: None, features, labels }
}

const PIXELS: usize = 400;

/// Examples of two classes with many features, of which an example has a third.
fn pixels() -> DenseExamples {
    let mut random = Seed(7).random();
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..EXAMPLES {
        let label = random.random_range(0..2);
        for pixel in 0..PIXELS {
            let odds = if pixel < 40 { 0.25 + 0.15 * f64::from(label) } else { 0.33 };
            let value = if random.random_bool(odds) { random.random_range(0.1..1.0) } else { 0.0 };
            features.push(value);
        }
        labels.push(label);
    }
    let shape = Shape::row(PIXELS);
    let features = Features::Floats(features);
    DenseExamples { shape, classes: 2, class_names: None, features, labels }
}

/// Examples with binary features, one in five of the positive class, which come first.
fn sparse() -> SparseExamples {
    let mut random = Seed(4).random();
    let mut data = SparseExamples::empty(20);
    for example in 0..EXAMPLES {
        let is_positive = example < EXAMPLES / 5;
        let odds = |column: u32| if is_positive && column < 8 { 0.35 } else { 0.2 };
        let columns: Vec<u32> =
            (0..20).filter(|&column| random.random_bool(odds(column))).collect();
        data.push(&columns, &vec![1.0; columns.len()], if is_positive { 1.0 } else { -1.0 });
    }
    data
}

/// Examples in turn to all workers, or cut in their order.
fn divided<E: Examples>(data: &E, is_skewed: bool) -> Divided<E> {
    let count = data.len();
    let part = |worker: usize| -> Arc<[u32]> {
        if is_skewed {
            (worker * count / WORKERS..(worker + 1) * count / WORKERS).map(|at| at as u32).collect()
        } else {
            (worker..count).step_by(WORKERS).map(|at| at as u32).collect()
        }
    };
    let parts: Parts = (0..WORKERS).map(part).collect();
    Divided::new(data.select(&(0..count as u32).collect::<Vec<u32>>()), data.select(&[0]), parts)
}

fn objective(app: &dyn Application, clocks: u64) -> f64 {
    app.evaluate(&trained(app, clocks)).unwrap().objective
}

fn trained(app: &dyn Application, clocks: u64) -> Model {
    trained_on(app, app.initial_model(Seed(5)), clocks)
}

fn trained_on(app: &dyn Application, mut model: Model, clocks: u64) -> Model {
    let mut tasks: Vec<_> =
        (0..WORKERS).map(|worker| app.task(worker, Seed(6).nth(worker))).collect();
    for clock in (0..clocks).map(Clock) {
        let all: Vec<Deltas> = tasks
            .iter_mut()
            .map(|task| {
                task.rows(clock);
                task.iterate(clock, &model).unwrap().0
            })
            .collect();
        for deltas in &all {
            assert!(deltas.fits(app.layout()));
            add(&mut model, deltas);
        }
    }
    model
}

fn add(model: &mut Model, deltas: &Deltas) {
    let layout = model.layout().clone();
    for (id, table) in layout.table_ids().zip(&deltas.tables) {
        let TableLayout { rows, width, .. } = *layout.table(id);
        for (row, change) in table.rows.iter(rows).zip(table.values.chunks(width)) {
            for (value, change) in model.row_mut(id, row as usize).iter_mut().zip(change) {
                *value += change;
            }
        }
    }
}

fn number(random: &mut Random) -> f32 {
    random.random_range(-1.0..1.0)
}
