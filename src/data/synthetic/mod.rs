//! Data made up from a known model, so that everything runs with no file and tests know the best answer.

mod documents;

use rand::RngExt;
use rand_distr::{Distribution, Normal, StandardNormal};

pub use documents::{GeneratedDocuments, documents};

use super::split::held_out_count;
use crate::ml::apps::{MixtureGenerator, PlantedGenerator, RatingGenerator, TeacherGenerator};
use crate::ml::examples::{DenseExamples, Features, Ratings, SparseExamples};
use crate::ml::kernels::vector::{dot, largest};
use crate::types::{Random, Seed};

/// Made-up examples, and the accuracy on `test` of the model that made them: none does better but by luck.
#[derive(Clone, Debug)]
pub struct Generated<T> {
    pub train: T,
    pub test: T,
    pub best_accuracy: f64,
}

/// Ratings `3.5 + bias(user) + bias(item) + low-rank matrix + noise`, sorted by user and item.
///
/// Each bias has a variance of 0.25 and the matrix one of 0.5; popular items are drawn more often (item `i`
/// with weight `1 ÷ (i + 10)`). No model has a held-out error below the noise but by luck.
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

/// Spherical Gaussian classes; the best answer is the nearest center.
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
    // The rectifiers' mean would give every example the label of the largest sum of weights.
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

/// Sparse binary features, labelled with the odds that planted weights give them.
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

/// Draws dense examples, the held-out ones first, and scores the best answer on those.
fn dense(
    examples: usize,
    held_out: f64,
    (width, classes): (usize, usize),
    mut draw: impl FnMut(&mut [f32]) -> u32,
    best: impl Fn(&[f32]) -> u32,
) -> Generated<DenseExamples> {
    let mut make = |count: usize| {
        let mut features = vec![0.0; count * width];
        let labels = features.chunks_exact_mut(width).map(&mut draw).collect();
        (features, labels)
    };
    let tests = held_out_count(examples, held_out);
    let (test_features, test_labels): (Vec<f32>, Vec<u32>) = make(tests);
    let (features, labels) = make(examples - tests);
    let answers = test_features.chunks_exact(width).map(best);
    let hits = answers.zip(&test_labels).filter(|(answer, label)| answer == *label).count();
    let examples = |features, labels| DenseExamples {
        width,
        classes,
        features: Features::Floats(features),
        labels,
    };
    Generated {
        train: examples(features, labels),
        test: examples(test_features, test_labels),
        best_accuracy: hits as f64 / tests as f64,
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
