//! What a worker's step costs, one thread, beside a library that people would use instead: PyTorch for networks, libmf for
//! matrix factorisation, tomotopy for topics. Ours and theirs take turns.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

mod peer;
#[path = "../rows/mod.rs"]
mod rows;

use std::hint::black_box;
use std::sync::Arc;

use gaia_core::application::Application;
use gaia_core::types::{Clock, Seed};
use gaia_data::synthetic;
use gaia_ml::apps::{
    ConvolutionalNetworkConfig, PerceptronConfig, TopicGenerator, convolutional_network, perceptron,
};
use gaia_ml::divided::Divided;
use gaia_ml::examples::{DenseExamples, Documents, Features, Shape};
use gaia_ml::kernels::factorization::{Rating, RowRates, descend};
use gaia_ml::kernels::topics::{Counts, DocumentTopics, Token, TopicSampler};
use gaia_ml::kernels::vector::axpy;
use peer::Peers;
use rand::RngExt;
use rows::{Rows, median, seconds};

fn main() {
    let mut rows = Rows::new();
    let mut peers = Peers::start();
    for (batch, hidden) in [(128, vec![1024, 512]), (32, vec![256])] {
        perceptrons(&mut rows, &mut peers, batch, hidden);
    }
    let images = [(Shape { channels: 1, height: 28, width: 28 }, [8, 16], 32)];
    let colours = [(Shape { channels: 3, height: 32, width: 32 }, [16, 32], 32)];
    for (shape, filters, batch) in images.into_iter().chain(colours) {
        convolutions(&mut rows, &mut peers, shape, filters, batch);
    }
    for rank in [32, 128] {
        ratings(&mut rows, &mut peers, rank);
    }
    for topics in [32, 256] {
        tokens(&mut rows, &mut peers, topics);
    }
}

fn perceptrons(rows: &mut Rows, peers: &mut Peers, batch: usize, hidden: Vec<usize>) {
    let shape = Shape::row(784);
    let units = [784].into_iter().chain(hidden.clone()).chain([10]);
    let units: Vec<String> = units.map(|units| units.to_string()).collect();
    let config =
        PerceptronConfig { hidden, batch: Some(batch), momentum: 0.9, ..Default::default() };
    let app = perceptron(&config, examples(shape, batch), Seed(1), "");
    let name = format!("perceptron {}, batch {batch}", units.join("-"));
    let question = format!("perceptron {batch} {}", units.join(" "));
    training(rows, peers, &name, &question, &app);
}

fn convolutions(
    rows: &mut Rows,
    peers: &mut Peers,
    shape: Shape,
    filters: [usize; 2],
    batch: usize,
) {
    let config = ConvolutionalNetworkConfig {
        filters: filters.into(),
        kernel: 3,
        pool: 2,
        hidden: vec![64],
        batch: Some(batch),
        momentum: 0.9,
        ..Default::default()
    };
    let app = convolutional_network(&config, examples(shape, batch), Seed(1), "");
    let Shape { channels, height, width } = shape;
    let name = format!("convolutions {channels}×{height}×{width}, batch {batch}");
    let [first, second] = filters;
    let question = format!("convolution {batch} {channels} {height} {first} {second} 64");
    training(rows, peers, &name, &question, &app);
}

/// Random examples of ten classes, one batch of one worker.
fn examples(shape: Shape, batch: usize) -> Divided<DenseExamples> {
    let examples = DenseExamples {
        class_names: None,
        shape,
        classes: 10,
        features: Features::Floats(
            (0..batch * shape.values()).map(|at| (at as f32 * 0.37).sin()).collect(),
        ),
        labels: (0..batch as u32).map(|example| example % 10).collect(),
    };
    Divided::new(examples.clone(), examples, vec![Arc::from_iter(0..batch as u32)])
}

/// A row for the step of one worker of an application: gradient, momentum and the changes that it hands over.
fn training(rows: &mut Rows, peers: &mut Peers, name: &str, question: &str, app: &dyn Application) {
    let model = app.initial_model(Seed(1));
    let mut task = app.task(0, Seed(1));
    let mut step = || {
        black_box(task.iterate(Clock(0), black_box(&model)).is_ok());
    };
    (0..5).for_each(|_| step());
    row(rows, peers, name, "PyTorch", question, ("ms", 1e3), || {
        let times: Vec<f64> = (0..STEPS).map(|_| seconds(&mut step)).collect();
        median(&times).expect("there are steps")
    });
}

/// A row for one update of a user's and an item's vector.
fn ratings(rows: &mut Rows, peers: &mut Peers, rank: usize) {
    let (users, items, count) = (2_000_u32, 2_000_u32, 100_000);
    let mut random = Seed(1).random();
    let ratings: Vec<Rating> = (0..count)
        .map(|_| Rating {
            user: random.random_range(0..users),
            item: random.random_range(0..items),
            value: random.random_range(-2.0..2.0),
        })
        .collect();
    let mut vectors = [vec![0.1; users as usize * rank], vec![0.1; items as usize * rank]];
    let rates = RowRates { factors: 0.001, bias: 0.001, way_max: 1.0 };
    let rates = [vec![rates; users as usize], vec![rates; items as usize]];
    let question = format!("ratings {count} {users} {items} {rank}");
    let name = format!("an update of a rating, rank {rank}");
    row(rows, peers, &name, "libmf", &question, ("ns", 1e9), || {
        let [user_rows, item_rows] = &mut vectors;
        let pass = || {
            let ratings = black_box(&ratings);
            descend(ratings, rank, rank, 0.05, 1.0, user_rows, &rates[0], item_rows, &rates[1]);
        };
        seconds(pass) / f64::from(count)
    });
}

/// A row for drawing the topic of one token, with all that a pass over the documents needs for it.
fn tokens(rows: &mut Rows, peers: &mut Peers, topics: usize) {
    let (documents, length, vocabulary) = (500, 200, 5_000);
    let generator =
        TopicGenerator { documents, length, vocabulary, topics: 100, ..Default::default() };
    let documents = synthetic::documents(&generator, 0.1, Seed(1)).train;
    let mut random = Seed(2).random();
    let mut sampler = TopicSampler::new(topics, vocabulary, 3.2 / topics as f64, 0.01);
    let mut tokens: Vec<Token> = (0..documents.len())
        .flat_map(|document| documents.tokens(document).map(move |word| (word, document as u32)))
        .map(|(word, document)| Token {
            word,
            document,
            topic: random.random_range(0..topics as u32),
        })
        .collect();
    tokens.sort_unstable_by_key(|token| (token.word, token.document));
    let mut held = DocumentTopics::new(topics, documents.len());
    let mut counts = vec![vec![0.0_f32; topics]; vocabulary];
    let mut totals = vec![0.0_f32; topics];
    for token in &tokens {
        held.add(token.document as usize, token.topic);
        counts[token.word as usize][token.topic as usize] += 1.0;
        totals[token.topic as usize] += 1.0;
    }
    let mut pass = || {
        let words = counts.iter().map(Vec::as_slice).collect();
        let mut changed = Counts::new(words, &totals);
        sampler.resample(black_box(&mut tokens), &mut held, &mut changed, &mut random);
        let Counts { word_changes, total_changes, .. } = changed;
        for (row, changes) in counts.iter_mut().zip(word_changes.chunks(topics)) {
            axpy(1.0, changes, row);
        }
        axpy(1.0, &total_changes, &mut totals);
    };
    (0..10).for_each(|_| pass());
    let folder = tempfile::tempdir().expect("a folder for the documents");
    let file = folder.path().join("documents");
    std::fs::write(&file, text(&documents)).expect("documents can be written");
    let question = format!("topics {} {topics}", file.display());
    let name = format!("the topic of a token, {topics} topics");
    let count = documents.token_count() as f64;
    row(rows, peers, &name, "tomotopy", &question, ("ns", 1e9), || seconds(&mut pass) / count);
}

/// A line for each document, of the numbers of its words.
fn text(documents: &Documents) -> String {
    let line = |document: usize| {
        let words: Vec<String> = documents.tokens(document).map(|word| word.to_string()).collect();
        words.join(" ") + "\n"
    };
    (0..documents.len()).map(line).collect()
}

/// A row of seconds, times `scale` in `unit`, beside what the peer answers to `question`.
fn row(
    rows: &mut Rows,
    peers: &mut Peers,
    name: &str,
    peer: &str,
    question: &str,
    (unit, scale): (&str, f64),
    mut ours: impl FnMut() -> f64,
) {
    let (mut values, mut references) = (Vec::new(), Vec::new());
    let mut reference = peer.to_owned();
    for _ in 0..rows.runs() {
        values.push(scale * ours());
        match peers.ask(peer, question) {
            Ok(seconds) => references.push(scale * seconds),
            Err(why) => reference = why,
        }
    }
    // Pairs are those of the same turn, so a peer has all turns or none.
    if references.len() < values.len() {
        references.clear();
    }
    rows.print(name, unit, &values, (&reference, &references));
}

const STEPS: usize = 20;
