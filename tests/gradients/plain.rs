//! The objectives of networks, as plainly as they can be written down.

use gaia_ml::apps::{ConvolutionalNetworkConfig, Normalization};
use gaia_ml::examples::{DenseExamples, Features, Shape};

/// Mean cross-entropy and half the squared weights: `values` holds for each layer `inputs × outputs`
/// weights, then the bias.
pub(crate) fn perceptron_objective(
    values: &[f64],
    data: &DenseExamples,
    widths: &[usize],
    decay: f64,
) -> f64 {
    mean_loss(data, |image| {
        let mut rest = values;
        let mut squares = 0.0;
        let logits = dense_layers(image, &widths[1..], &mut rest, &mut squares);
        (logits, 0.5 * decay * squares)
    })
}

/// The same where convolutions come first: `values` holds for each its weights, then the bias, or with
/// normalisation gain and bias.
pub(crate) fn objective(
    values: &[f64],
    data: &DenseExamples,
    config: &ConvolutionalNetworkConfig,
) -> f64 {
    mean_loss(data, |image| {
        let mut rest = values;
        let mut squares = 0.0;
        let (mut image, mut shape) = (image, data.shape);
        for &filters in &config.filters {
            let side = config.kernel;
            let weights = take(&mut rest, shape.channels * side * side * filters);
            squares += square(weights);
            let convolved =
                |filter, y, x| convolve(&image, shape, weights, (filters, side), (filter, y, x));
            let mut next = each(Shape { channels: filters, ..shape }, convolved);
            shape.channels = filters;
            if config.normalization == Normalization::Group {
                normalize(&mut next, shape, config.groups);
                let gain = take(&mut rest, filters);
                let planes = next.chunks_mut(shape.plane()).zip(gain);
                planes.for_each(|(plane, gain)| plane.iter_mut().for_each(|value| *value *= gain));
            }
            let bias = take(&mut rest, filters);
            let planes = next.chunks_mut(shape.plane()).zip(bias);
            planes.for_each(|(plane, bias)| plane.iter_mut().for_each(|value| *value += bias));
            next.iter_mut().for_each(|value| *value = value.max(0.0));
            let pooled = Shape {
                height: shape.height / config.pool,
                width: shape.width / config.pool,
                ..shape
            };
            image = each(pooled, |channel, y, x| {
                let window = (0..config.pool * config.pool).map(|at| {
                    let (y, x) =
                        (y * config.pool + at / config.pool, x * config.pool + at % config.pool);
                    next[channel * shape.plane() + y * shape.width + x]
                });
                window.fold(f64::MIN, f64::max)
            });
            shape = pooled;
        }
        let units: Vec<usize> = config.hidden.iter().copied().chain([data.classes]).collect();
        let logits = dense_layers(image, &units, &mut rest, &mut squares);
        assert!(rest.is_empty());
        (logits, 0.5 * config.weight_decay * squares)
    })
}

/// The mean cross-entropy of what `network` makes of each example, and the second thing that it says.
fn mean_loss(data: &DenseExamples, network: impl Fn(Vec<f64>) -> (Vec<f64>, f64)) -> f64 {
    let Features::Floats(features) = &data.features else { panic!("made of floats") };
    let examples = features.chunks(data.width()).zip(&data.labels);
    let losses = examples.map(|(features, &label)| {
        let (logits, decay) = network(features.iter().map(|&feature| f64::from(feature)).collect());
        logits.iter().map(|logit| logit.exp()).sum::<f64>().ln() - logits[label as usize] + decay
    });
    losses.sum::<f64>() / data.len() as f64
}

fn dense_layers(
    mut units: Vec<f64>,
    widths: &[usize],
    values: &mut &[f64],
    squares: &mut f64,
) -> Vec<f64> {
    for (layer, &outputs) in widths.iter().enumerate() {
        let weights = take(values, units.len() * outputs);
        let bias = take(values, outputs);
        *squares += square(weights);
        let weighted = |input: usize, output: usize| weights[input * outputs + output];
        let last = layer + 1 == widths.len();
        units = (0..outputs)
            .map(|output| {
                let products = units.iter().enumerate().map(|(at, u)| u * weighted(at, output));
                let sum = bias[output] + products.sum::<f64>();
                if last { sum } else { sum.max(0.0) }
            })
            .collect();
    }
    units
}

/// One filter at one pixel: `weights` holds a row per channel, window row and window column.
fn convolve(
    image: &[f64],
    shape: Shape,
    weights: &[f64],
    (filters, side): (usize, usize),
    (filter, y, x): (usize, usize, usize),
) -> f64 {
    let mut sum = 0.0;
    for channel in 0..shape.channels {
        for (down, right) in (0..side).flat_map(|down| (0..side).map(move |right| (down, right))) {
            let (y, x) = (y + down, x + right);
            let inside = |at: usize, size: usize| (side / 2..size + side / 2).contains(&at);
            if inside(y, shape.height) && inside(x, shape.width) {
                let row = (channel * side + down) * side + right;
                let pixel = (y - side / 2) * shape.width + x - side / 2;
                sum += weights[row * filters + filter] * image[channel * shape.plane() + pixel];
            }
        }
    }
    sum
}

fn normalize(image: &mut [f64], shape: Shape, groups: usize) {
    for group in image.chunks_mut(shape.values() / groups) {
        let count = group.len() as f64;
        let mean = group.iter().sum::<f64>() / count;
        let variance = group.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        group.iter_mut().for_each(|value| *value = (*value - mean) / (variance + 1e-5).sqrt());
    }
}

/// An image of what `value` says of each channel, row and column.
fn each(shape: Shape, value: impl Fn(usize, usize, usize) -> f64) -> Vec<f64> {
    let place = |at: usize| {
        let (channel, pixel) = (at / shape.plane(), at % shape.plane());
        value(channel, pixel / shape.width, pixel % shape.width)
    };
    (0..shape.values()).map(place).collect()
}

fn take<'a>(values: &mut &'a [f64], count: usize) -> &'a [f64] {
    let (taken, rest) = values.split_at(count);
    *values = rest;
    taken
}

fn square(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}
