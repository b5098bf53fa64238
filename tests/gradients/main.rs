//! Every application's deltas against finite differences of its objective.
//!
//! The objective is written down a second time here, in double precision and as plainly as possible; the
//! application must agree with it on the value and on every partial derivative. Layers of networks are held
//! against finite differences of what they themselves compute.

mod plain;

use std::sync::Arc;

use gaia_core::application::{Application, Names, Task};
use gaia_core::types::{Clock, Deltas, Model, ModelLayout, Random, Seed, TableLayout};
use gaia_ml::apps::{
    ConvolutionalNetworkConfig, LogisticRegression, LogisticRegressionConfig, MatrixFactorization,
    MatrixFactorizationConfig, Normalization, PerceptronConfig, RatingTotals,
    SoftmaxRegressionConfig, convolutional_network, perceptron, softmax_regression,
};
use gaia_ml::config::RateDecay;
use gaia_ml::divided::{Divided, Examples, Parts};
use gaia_ml::examples::{DenseExamples, Features, Ratings, Shape, SparseExamples};
use gaia_ml::layers::{
    Backward, Convolution, Dense, Flatten, Forward, GroupNormalization, Layer, MaxPooling,
    Rectifier, Room,
};
use gaia_ml::optimizer::Optimizer;
use rand::RngExt;
use rand::seq::SliceRandom;

#[test]
fn softmax_regression_descends_its_gradient() {
    let data = dense(60, 7, 4);
    let config = SoftmaxRegressionConfig {
        batch: Some(20),
        optimizer: Some(Optimizer::Sgd),
        learning_rate: Some(RATE),
        learning_rate_decay: Some(RateDecay::None),
        weight_decay: 0.3,
        ..Default::default()
    };
    let app = softmax_regression(&config, divided(&data, parts(60)), Seed(1), "");
    check(&app, 1, RATE, |values| plain::perceptron_objective(values, &data, &[7, 4], 0.3));
}

#[test]
fn perceptrons_descend_their_gradient() {
    for hidden in [vec![5], vec![6, 3], vec![4, 9, 5]] {
        let data = dense(60, 7, 3);
        let config = PerceptronConfig {
            hidden: hidden.clone(),
            batch: Some(20),
            optimizer: Some(Optimizer::Sgd),
            learning_rate: Some(RATE),
            learning_rate_decay: Some(RateDecay::None),
            weight_decay: 0.1,
            ..Default::default()
        };
        let app = perceptron(&config, divided(&data, parts(60)), Seed(1), "");
        let widths: Vec<usize> = [7].into_iter().chain(hidden).chain([3]).collect();
        check(&app, 1, RATE, |values| plain::perceptron_objective(values, &data, &widths, 0.1));
    }
}

#[test]
fn convolutional_networks_descend_their_gradient() {
    let shape = Shape { channels: 2, height: 5, width: 4 };
    for (normalization, kernel, pool, hidden) in [
        (Normalization::None, 3, 2, vec![5]),
        (Normalization::None, 5, 1, vec![]),
        (Normalization::Group, 3, 2, vec![5]),
        (Normalization::Group, 1, 3, vec![]),
    ] {
        let filters = if pool == 3 { vec![4] } else { vec![4, 6] };
        let features = dense(6, shape.values(), 3);
        let data = DenseExamples { shape, ..features };
        let config = ConvolutionalNetworkConfig {
            filters,
            kernel,
            pool,
            normalization,
            groups: 2,
            hidden,
            batch: Some(2),
            optimizer: Optimizer::Sgd,
            learning_rate: Some(RATE),
            learning_rate_decay: Some(RateDecay::None),
            momentum: 0.0,
            weight_decay: 0.1,
            ..Default::default()
        };
        let app = convolutional_network(&config, divided(&data, parts(6)), Seed(1), "");
        check(&app, 1, RATE, |values| plain::objective(values, &data, &config));
    }
}

#[test]
fn logistic_regression_descends_its_gradient() {
    let mut random = Seed(2).random();
    let mut data = SparseExamples::empty(12);
    for _ in 0..60 {
        let columns: Vec<u32> = (0..12).filter(|_| random.random_bool(0.4)).collect();
        let values: Vec<f32> = columns.iter().map(|_| number(&mut random)).collect();
        data.push(&columns, &values, if random.random_bool(0.5) { 1.0 } else { -1.0 });
    }
    let config = LogisticRegressionConfig {
        batch: Some(20),
        optimizer: Optimizer::Sgd,
        learning_rate: Some(RATE),
        learning_rate_decay: Some(RateDecay::None),
        regularization: 0.2,
        ..Default::default()
    };
    let app = LogisticRegression::new(config, divided(&data, parts(60)), "");
    check(&app, 1, RATE, |weights| {
        let loss = (0..data.len()).map(|at| {
            let (columns, values) = data.example(at);
            let columns = columns.iter().map(|&column| weights[column as usize]);
            let products = columns.clone().zip(values).map(|(w, &value)| w * f64::from(value));
            let margin = f64::from(data.labels[at]) * (products.sum::<f64>() + weights[12]);
            let squares: f64 = columns.map(|weight| weight * weight).sum();
            (1.0 + (-margin).exp()).ln() + 0.1 * squares
        });
        loss.sum::<f64>() / data.len() as f64
    });
}

/// Ratings are visited one after the other, so each is given a clock of its own, always on the same model:
/// the deltas of a pass then add up to a step down the whole gradient.
#[test]
fn matrix_factorization_descends_its_gradient() {
    for (rank, bias) in [(3, true), (4, false), (17, true)] {
        let mut random = Seed(3).random();
        let mut data = Ratings { users: 5, items: 6, ..Default::default() };
        for at in 0..30 {
            data.user.push(at % 5);
            data.item.push(random.random_range(0..6));
            data.value.push(3.0 + 1.7 * number(&mut random));
        }
        let config = MatrixFactorizationConfig {
            rank,
            bias,
            regularization: 0.3,
            learning_rate: RATE,
            learning_rate_decay: RateDecay::None,
            clocks_per_pass: 30,
            row_step_max: Some(2.0),
            ..Default::default()
        };
        let all: Parts = vec![(0..30).collect()];
        let names =
            [data.users, data.items].map(|count| Names::Numbers((0..count as u64).collect()));
        let totals = RatingTotals::of(&data);
        // Beside another unit factors and biases have rates of their own.
        assert_eq!(totals.unit(), 1.0);
        let app = MatrixFactorization::new(config, divided(&data, all), &totals, names.clone(), "");
        assert_eq!(app.names(), names.each_ref());
        let width = rank + usize::from(bias);
        let mean = data.value.iter().map(|&value| f64::from(value)).sum::<f64>() / 30.0;
        check(&app, 30, 0.5 * RATE * 30.0, |values| {
            let (users, items) = values.split_at(5 * width);
            let loss = (0..30).map(|at| {
                let user = &users[data.user[at] as usize * width..][..width];
                let item = &items[data.item[at] as usize * width..][..width];
                let product = |at: usize| user[at] * item[at];
                let mut predicted = mean + (0..rank).map(product).sum::<f64>();
                if bias {
                    predicted += user[rank] + item[rank];
                }
                let squares: f64 = user.iter().chain(item).map(|value| value * value).sum();
                (f64::from(data.value[at]) - predicted).powi(2) + 0.3 * squares
            });
            loss.sum::<f64>() / 30.0
        });
    }
}

#[test]
fn layers_descend_their_gradient() {
    let shape = Shape { channels: 4, height: 5, width: 6 };
    type Make = fn(Shape, &mut Vec<TableLayout>) -> Box<dyn Layer>;
    let makes: [Make; 9] = [
        |shape, tables| Box::new(Dense::new(shape.values(), 3, 0, tables)),
        |shape, tables| Box::new(Convolution::new(shape, (3, 3), true, 0, tables)),
        |shape, tables| Box::new(Convolution::new(shape, (2, 7), false, 0, tables)),
        |shape, tables| Box::new(GroupNormalization::new(shape, 1, 0, tables)),
        |shape, tables| Box::new(GroupNormalization::new(shape, 2, 0, tables)),
        |shape, _| Box::new(MaxPooling::new(shape, 2)),
        |shape, _| Box::new(MaxPooling::new(shape, 3)),
        |shape, _| Box::new(Rectifier::new(shape)),
        |shape, _| Box::new(Flatten::new(shape)),
    ];
    for (at, make) in makes.into_iter().enumerate() {
        let mut tables = Vec::new();
        let layer = make(shape, &mut tables);
        check_layer(at, &*layer, shape, tables);
    }
}

/// What a layer makes of the gradient of a random weighted sum of its outputs must be what finite differences
/// of that sum say, for every value that goes in and every parameter.
fn check_layer(at: usize, layer: &dyn Layer, shape: Shape, tables: Vec<TableLayout>) {
    const EXAMPLES: usize = 3;
    let mut random = Seed(7).random();
    let mut model = Model::zeros(Arc::new(ModelLayout::new(tables)));
    model.values.iter_mut().for_each(|value| *value = number(&mut random));
    // Values are far enough apart, and from zero, for a shift to change neither order nor sign.
    let values = EXAMPLES * shape.values();
    let mut input: Vec<f32> = (0..values)
        .map(|at| (at as f32 - 0.5 * values as f32 + 0.25) * LAYER_SHIFT * 4.0)
        .collect();
    input.shuffle(&mut random);
    let slope: Vec<f32> =
        (0..EXAMPLES * layer.output().values()).map(|_| number(&mut random)).collect();

    let mut room = Room::default();
    let mut output = vec![f32::NAN; slope.len()];
    let pass = Forward { examples: EXAMPLES, input: &input, output: &mut output };
    layer.forward(&model, pass, &mut room);
    let mut before = vec![f32::NAN; input.len()];
    let mut gradient = Deltas::dense(model.layout());
    gradient.tables.iter_mut().for_each(|table| table.values.fill(f32::NAN));
    let pass = Backward {
        examples: EXAMPLES,
        input: &input,
        output: &output,
        slope: &slope,
        slope_before: Some(&mut before),
    };
    layer.backward(&model, pass, &mut room, &mut gradient);

    let sum = |model: &Model, input: &[f32]| -> f64 {
        let mut output = vec![f32::NAN; slope.len()];
        let pass = Forward { examples: EXAMPLES, input, output: &mut output };
        layer.forward(model, pass, &mut Room::default());
        output.iter().zip(&slope).map(|(&value, &weight)| f64::from(value * weight)).sum()
    };
    let compare = |what: &str, found: &[f32], sum_at: &mut dyn FnMut(usize, f32) -> f64| {
        for (place, &found) in found.iter().enumerate() {
            let difference = sum_at(place, LAYER_SHIFT) - sum_at(place, -LAYER_SHIFT);
            let expected = difference / f64::from(2.0 * LAYER_SHIFT);
            let error = (f64::from(found) - expected).abs();
            assert!(
                error < 3e-3 * (1.0 + expected.abs()),
                "{at}, {what} {place}: {found} {expected}"
            );
        }
    };
    compare("input", &before, &mut |place, shift| {
        let mut shifted = input.clone();
        shifted[place] += shift;
        sum(&model, &shifted)
    });
    let found: Vec<f32> = gradient.tables.iter().flat_map(|table| table.values.to_vec()).collect();
    compare("parameter", &found, &mut |place, shift| {
        let mut shifted = model.clone();
        shifted.values[place] += shift;
        sum(&shifted, &input)
    });
}

/// The deltas of all workers over `clocks` clocks, all on one random model, must be `-step` times the
/// gradient of `objective`, and the application must evaluate to `objective`.
fn check(app: &dyn Application, clocks: u64, step: f64, objective: impl Fn(&[f64]) -> f64) {
    let mut random = Seed(4).random();
    let mut model = Model::zeros(app.layout().clone());
    model.values.iter_mut().for_each(|value| *value = 0.7 * number(&mut random));
    let exact: Vec<f64> = model.values.iter().map(|&value| f64::from(value)).collect();
    let evaluated = app.evaluate(&model).expect("data in memory").objective;
    assert!((evaluated / objective(&exact) - 1.0).abs() < 1e-6, "{evaluated}");

    let mut moved = vec![0.0; exact.len()];
    let workers = if clocks == 1 { WORKERS } else { 1 };
    for worker in 0..workers {
        let mut task = app.task(worker, Seed(5).nth(worker));
        for clock in 0..clocks {
            add_deltas(&mut *task, Clock(clock), &model, &mut moved);
        }
    }
    let mut square_error = 0.0;
    let mut square = 0.0;
    for (at, moved) in moved.iter().enumerate() {
        let mut shifted = exact.clone();
        shifted[at] = exact[at] + SHIFT;
        let above = objective(&shifted);
        shifted[at] = exact[at] - SHIFT;
        let slope = (above - objective(&shifted)) / (2.0 * SHIFT);
        let error = -moved / step - slope;
        assert!(error.abs() < 1e-3 * (slope.abs() + 0.01), "parameter {at}: {moved} {slope}");
        square_error += error * error;
        square += slope * slope;
    }
    assert!(square_error.sqrt() < 1e-4 * square.sqrt(), "{square_error} {square}");
}

fn add_deltas(task: &mut dyn Task, clock: Clock, model: &Model, sums: &mut [f64]) {
    task.rows(clock);
    let (deltas, _) = task.iterate(clock, model).expect("deltas");
    let layout = model.layout();
    for (id, table) in layout.table_ids().zip(&deltas.tables) {
        let TableLayout { rows, width, .. } = *layout.table(id);
        for (row, values) in table.rows.iter(rows).zip(table.values.chunks(width)) {
            let start = layout.row_offset(id, row as usize);
            for (sum, &value) in sums[start..].iter_mut().zip(values) {
                *sum += f64::from(value);
            }
        }
    }
}

fn dense(examples: usize, width: usize, classes: usize) -> DenseExamples {
    let mut random = Seed(6).random();
    DenseExamples {
        class_names: None,
        shape: Shape::row(width),
        classes,
        features: Features::Floats((0..examples * width).map(|_| number(&mut random)).collect()),
        labels: (0..examples).map(|_| random.random_range(0..classes as u32)).collect(),
    }
}

fn parts(examples: u32) -> Parts {
    let part = |worker| (0..examples).filter(|at| at % WORKERS as u32 == worker).collect();
    (0..WORKERS as u32).map(part).map(|part: Vec<u32>| Arc::from(part)).collect()
}

/// The same examples to train and to test.
fn divided<E: Examples + Clone>(data: &E, parts: Parts) -> Divided<E> {
    Divided::new(data.clone(), data.clone(), parts)
}

fn number(random: &mut Random) -> f32 {
    random.random_range(-1.0..1.0)
}

const WORKERS: usize = 3;
const RATE: f64 = 0.01;
const SHIFT: f64 = 1e-6;
const LAYER_SHIFT: f32 = 1.0 / 128.0;
