//! Synthetic data from a known model, so that runs need no file and tests know the best result.

mod documents;

use rand::RngExt;
use rand_distr::{Distribution, Normal, StandardNormal};

pub use documents::{GeneratedDocuments, documents};

use crate::homes::split::held_out_count;
use gaia_core::types::{Random, Seed};
use gaia_ml::apps::{
    ImageGenerator, MixtureGenerator, PATTERN_SIDE, PlantedGenerator, RatingGenerator,
    TeacherGenerator,
};
use gaia_ml::examples::{DenseExamples, Features, Ratings, Shape, SparseExamples};
use gaia_ml::kernels::vector::{dot, largest};

/// Synthetic examples, and the accuracy of the model that generated them. A trained model is better only by chance.
#[derive(Clone, Debug)]
pub struct Generated<T> {
    /// The examples to train on.
    pub train: T,
    /// The held-out examples.
    pub test: T,
    /// The accuracy of the generating model on `test`, 0 to 1.
    pub best_accuracy: f64,
}

/// Ratings `3.5 + bias(user) + bias(item) + low-rank matrix + noise`, sorted by user and item.
///
/// Each bias has a variance of 0.25 and the matrix one of 0.5; popular items are drawn more often (item `i`
/// with weight `1 ÷ (i + 10)`). A trained model has a held-out error below the noise only by chance.
pub fn ratings(config: &RatingGenerator, seed: Seed) -> Ratings {
    let rank = config.rank;
    let scale = (0.5 / rank as f32).sqrt().sqrt();

    let factors = |rows: usize, name| -> Vec<f32> {
        let mut random = seed.child(name).random();
        (0..rows * rank).map(|_| scale * normal(&mut random)).collect()
    };

    let biases = |rows: usize, name| -> Vec<f32> {
        let mut random = seed.child(name).random();
        (0..rows).map(|_| 0.5 * normal(&mut random)).collect()
    };

    let (users, items) = (factors(config.users, "users"), factors(config.items, "items"));
    let user_biases = biases(config.users, "user biases");
    let item_biases = biases(config.items, "item biases");
    let mut pairs = pairs(config, &mut seed.child("pairs").random());

    pairs.sort_unstable();
    pairs.dedup();

    let mut random = seed.child("noise").random();
    let noise = config.noise as f32;

    let value = |&(user, item): &(u32, u32)| {
        let (user, item) = (user as usize, item as usize);
        let product = dot(&users[user * rank..][..rank], &items[item * rank..][..rank]);
        3.5 + user_biases[user] + item_biases[item] + product + noise * normal(&mut random)
    };

    Ratings {
        users: config.users,
        items: config.items,
        value: pairs.iter().map(value).collect(),
        user: pairs.iter().map(|pair| pair.0).collect(),
        item: pairs.iter().map(|pair| pair.1).collect(),
    }
}

/// Spherical Gaussian classes. The best classifier chooses the nearest center.
pub fn mixture(config: &MixtureGenerator, held_out: f64, seed: Seed) -> Generated<DenseExamples> {
    let width = config.features;
    let mut random = seed.child("centers").random();
    let scale = (config.separation / (2.0 * width as f64).sqrt()) as f32;
    let centers: Vec<f32> =
        (0..config.classes * width).map(|_| scale * normal(&mut random)).collect();
    let mut random = seed.child("examples").random();

    let draw = |features: &mut [f32]| {
        let class = random.random_range(0..config.classes as u32);
        let center = &centers[class as usize * width..][..width];
        for (feature, center) in features.iter_mut().zip(center) {
            *feature = center + normal(&mut random);
        }
        class
    };

    let best = |features: &[f32]| {
        let nearness: Vec<f32> = centers
            .chunks_exact(width)
            .map(|center| dot(center, features) - 0.5 * dot(center, center))
            .collect();
        largest(&nearness) as u32
    };

    dense(config.examples, held_out, (width, config.classes), draw, best)
}

/// Gaussian features labelled by a random network with one hidden layer of rectifiers.
pub fn teacher(config: &TeacherGenerator, held_out: f64, seed: Seed) -> Generated<DenseExamples> {
    let (width, classes) = (config.features, config.classes);
    let mut random = seed.child("network").random();
    let first: Vec<f32> = (0..config.hidden * width).map(|_| normal(&mut random)).collect();
    let second: Vec<f32> = (0..classes * config.hidden).map(|_| normal(&mut random)).collect();

    // The positive mean of the rectifiers would give every example the label with the largest sum of weights.
    let mean = (width as f32 / std::f32::consts::TAU).sqrt();
    let best = |features: &[f32]| {
        let hidden: Vec<f32> =
            first.chunks_exact(width).map(|row| dot(row, features).max(0.0) - mean).collect();
        let scores: Vec<f32> =
            second.chunks_exact(config.hidden).map(|row| dot(row, &hidden)).collect();
        largest(&scores) as u32
    };

    let mut random = seed.child("examples").random();
    let draw = |features: &mut [f32]| {
        features.iter_mut().for_each(|feature| *feature = normal(&mut random));
        let shift = random.random_range(1..classes as u32);
        let wrong = random.random_bool(config.label_noise);
        (best(features) + if wrong { shift } else { 0 }) % classes as u32
    };

    dense(config.examples, held_out, (width, classes), draw, best)
}

/// Images with the pattern of their class at a random place. The best classifier finds the class before some labels were
/// replaced.
pub fn images(config: &ImageGenerator, held_out: f64, seed: Seed) -> Generated<DenseExamples> {
    let shape = config.shape();
    let mut random = seed.child("patterns").random();
    let patterns: Vec<Vec<f32>> =
        (0..config.classes).map(|_| pattern(shape.channels, &mut random)).collect();
    let mut random = seed.child("examples").random();
    let noise = config.noise as f32;

    let mut draw = |features: &mut [f32]| {
        features.iter_mut().for_each(|feature| *feature = noise * normal(&mut random));

        let class = random.random_range(0..config.classes);
        add_pattern(&patterns[class], shape, features, &mut random);

        for _ in 0..config.distractors {
            let distractor = pattern(shape.channels, &mut random);
            add_pattern(&distractor, shape, features, &mut random);
        }

        class as u32
    };

    let (mut train, mut test) =
        draw_dense(config.examples, held_out, (shape, config.classes), &mut draw);
    let mut random = seed.child("wrong labels").random();

    let mut spoil = |labels: &mut [u32]| {
        let mut wrong = 0;
        for label in labels {
            let shift = random.random_range(1..config.classes as u32);
            if random.random_bool(config.label_noise) {
                *label = (*label + shift) % config.classes as u32;
                wrong += 1;
            }
        }

        wrong
    };

    let wrong = spoil(&mut test.labels);
    spoil(&mut train.labels);

    let best_accuracy = 1.0 - f64::from(wrong) / test.len() as f64;
    Generated { train, test, best_accuracy }
}

/// Sparse binary features, with labels drawn from the probabilities that planted weights give them.
pub fn planted(config: &PlantedGenerator, held_out: f64, seed: Seed) -> Generated<SparseExamples> {
    let scale = config.signal / (config.active as f64).sqrt();
    let weights = Normal::new(0.0, scale).expect("a checked scale is finite");
    let mut random = seed.child("weights").random();
    let weights: Vec<f64> = (0..config.features).map(|_| weights.sample(&mut random)).collect();
    let mut random = seed.child("examples").random();
    let mut columns: Vec<u32> = Vec::with_capacity(config.active);
    let ones = vec![1.0; config.active];
    let tests = held_out_count(config.examples, held_out);
    let mut train = SparseExamples::empty(config.features);
    let mut test = SparseExamples::empty(config.features);
    let mut hits = 0_usize;

    for example in 0..config.examples {
        draw_distinct(config.features as u32, config.active, &mut columns, &mut random);

        let margin: f64 = columns.iter().map(|&column| weights[column as usize]).sum();
        let positive = random.random_bool(1.0 / (1.0 + (-margin).exp()));
        let label = if positive { 1.0 } else { -1.0 };

        if example < tests {
            test.push(&columns, &ones, label);
            hits += usize::from(positive == (margin > 0.0));
        } else {
            train.push(&columns, &ones, label);
        }
    }

    Generated { train, test, best_accuracy: hits as f64 / tests as f64 }
}

/// Draws dense examples, and computes the accuracy of the generating model on the held-out ones.
fn dense(
    examples: usize,
    held_out: f64,
    (width, classes): (usize, usize),
    draw: impl FnMut(&mut [f32]) -> u32,
    best: impl Fn(&[f32]) -> u32,
) -> Generated<DenseExamples> {
    let (train, test) = draw_dense(examples, held_out, (Shape::row(width), classes), draw);
    let mut features = vec![0.0; width];
    let hit = |&example: &usize| {
        test.copy_features(example, &mut features);
        best(&features) == test.labels[example]
    };
    let best_accuracy = (0..test.len()).filter(hit).count() as f64 / test.len() as f64;
    Generated { train, test, best_accuracy }
}

/// Draws dense examples, the held-out ones first, and returns those that are not held out and those that are.
fn draw_dense(
    examples: usize,
    held_out: f64,
    (shape, classes): (Shape, usize),
    mut draw: impl FnMut(&mut [f32]) -> u32,
) -> (DenseExamples, DenseExamples) {
    let mut make = |count: usize| {
        let mut features = vec![0.0; count * shape.values()];
        let labels = features.chunks_exact_mut(shape.values()).map(&mut draw).collect();
        DenseExamples {
            shape,
            classes,
            class_names: None,
            features: Features::Floats(features),
            labels,
        }
    };
    let tests = held_out_count(examples, held_out);
    let test = make(tests);
    (make(examples - tests), test)
}

/// Random values for a square of each channel, with mean 0 and variance 1 over all of them.
fn pattern(channels: usize, random: &mut Random) -> Vec<f32> {
    let mut values: Vec<f32> =
        (0..channels * PATTERN_SIDE * PATTERN_SIDE).map(|_| normal(random)).collect();
    let mean = values.iter().sum::<f32>() / values.len() as f32;
    values.iter_mut().for_each(|value| *value -= mean);
    let scale = (values.len() as f32 / dot(&values, &values)).sqrt();
    values.iter_mut().for_each(|value| *value *= scale);
    values
}

/// Adds a pattern to an image, anywhere inside of it.
fn add_pattern(pattern: &[f32], shape: Shape, image: &mut [f32], random: &mut Random) {
    let top = random.random_range(0..=shape.height - PATTERN_SIDE);
    let left = random.random_range(0..=shape.width - PATTERN_SIDE);
    for (line, values) in pattern.chunks_exact(PATTERN_SIDE).enumerate() {
        let (channel, row) = (line / PATTERN_SIDE, line % PATTERN_SIDE);
        let start = channel * shape.plane() + (top + row) * shape.width + left;
        for (pixel, value) in image[start..].iter_mut().zip(values) {
            *pixel += value;
        }
    }
}

/// Places in the matrix: any user, and items by their popularity.
fn pairs(config: &RatingGenerator, random: &mut Random) -> Vec<(u32, u32)> {
    let mut sums = Vec::with_capacity(config.items);
    let mut sum = 0.0;
    for item in 0..config.items {
        sum += 1.0 / (item as f64 + 10.0);
        sums.push(sum);
    }
    (0..config.ratings)
        .map(|_| {
            let user = random.random_range(0..config.users as u32);
            let popularity = sum * random.random::<f64>();
            let item = sums.partition_point(|&sum| sum <= popularity).min(config.items - 1);
            (user, item as u32)
        })
        .collect()
}

/// `count` distinct numbers below `below`, ascending (Floyd's sampling; Bentley, CACM 30(9), 1987).
fn draw_distinct(below: u32, count: usize, drawn: &mut Vec<u32>, random: &mut Random) {
    drawn.clear();
    for last in below - count as u32..below {
        let candidate = random.random_range(0..=last);
        match drawn.binary_search(&candidate) {
            Ok(_) => drawn.push(last),
            Err(at) => drawn.insert(at, candidate),
        }
    }
}

fn normal(random: &mut Random) -> f32 {
    StandardNormal.sample(random)
}
