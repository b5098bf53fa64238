//! What a token of a topic model costs, from few topics to many.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use gaia_core::types::Seed;
use gaia_data::synthetic;
use gaia_ml::apps::TopicGenerator;
use gaia_ml::examples::Documents;
use gaia_ml::kernels::topics::{Counts, DocumentTopics, Token, TopicSampler};
use gaia_ml::kernels::vector::{axpy, square_norm};
use rand::RngExt;

/// What a token costs from few topics to many: the same documents, batches and prior weight of all topics together, after
/// ten passes from random topics. Few topics are gone over for every token. Of many, reading the rows of a batch's words
/// is what follows their number.
fn main() {
    let generator = TopicGenerator { vocabulary: 5_000, topics: 100, ..TopicGenerator::default() };
    let documents = synthetic::documents(&generator, 0.1, Seed(1)).train;
    println!("{} tokens, each batch at its best in {TOPIC_ROUNDS} passes", documents.token_count());
    let mut first = 0.0;
    for topics in [32, 256, 2048] {
        for batches in [1, 20] {
            let (draw, read) = token_times(&documents, topics, batches);
            first = if first == 0.0 { draw } else { first };
            println!(
                "topics {topics:>4}, batches {batches:>2}: {draw:>5.0} ns a token, × {:.2}; its words' rows are read in {read:.0} ns",
                draw / first,
            );
        }
    }
}

/// Nanoseconds for each token of drawing its topic, and of reading the rows of counts that its batch needs once.
fn token_times(documents: &Documents, topics: usize, batches: usize) -> (f64, f64) {
    let mut random = Seed(2).random();
    let mut sampler = TopicSampler::new(topics, documents.vocabulary, 3.2 / topics as f64, 0.01);
    let mut rows = vec![vec![0.0_f32; topics]; documents.vocabulary];
    let mut totals = vec![0.0_f32; topics];
    let mut all: Vec<Vec<(u32, u32)>> = (0..documents.len())
        .map(|document| {
            documents
                .tokens(document)
                .map(|word| (word, random.random_range(0..topics as u32)))
                .collect()
        })
        .collect();
    for &(word, topic) in all.iter().flatten() {
        rows[word as usize][topic as usize] += 1.0;
        totals[topic as usize] += 1.0;
    }
    let mut best = vec![[Duration::MAX; 2]; batches];
    for round in 0..10 + TOPIC_ROUNDS {
        let size = documents.len().div_ceil(batches);
        for (batch, best) in all.chunks_mut(size).zip(&mut best) {
            let mut order: Vec<(u32, usize, usize)> = Vec::new();
            let mut held = DocumentTopics::new(topics, batch.len());
            for (document, tokens) in batch.iter().enumerate() {
                for (_, topic) in tokens {
                    held.add(document, *topic);
                }
                order
                    .extend(tokens.iter().enumerate().map(|(at, (word, _))| (*word, document, at)));
            }
            order.sort_unstable();
            let mut words: Vec<u32> = order.iter().map(|(word, ..)| *word).collect();
            words.dedup();
            let token = |&(word, document, at): &(u32, usize, usize)| Token {
                word: words.partition_point(|other| *other < word) as u32,
                document: document as u32,
                topic: batch[document][at].1,
            };
            let mut tokens: Vec<Token> = order.iter().map(token).collect();
            let read = words.iter().map(|&word| rows[word as usize].as_slice()).collect();
            let mut counts = Counts::new(read, &totals);
            // Memory that was never written is not there yet; to fetch it is no work of the sampler's.
            black_box(&mut counts.word_changes).fill(0.0);
            let mut started = Instant::now();
            if round % 2 == 1 {
                black_box(counts.words.iter().map(|row| square_norm(row)).sum::<f64>());
                best[1] = started.elapsed().min(best[1]);
                started = Instant::now();
            }
            sampler.resample(black_box(&mut tokens), &mut held, &mut counts, &mut random);
            // Rows that were just read are nearer than they are in a worker.
            if round >= 10 && round % 2 == 0 {
                best[0] = started.elapsed().min(best[0]);
            }
            let Counts { word_changes, total_changes, .. } = counts;
            for (&word, changes) in words.iter().zip(word_changes.chunks(topics)) {
                axpy(1.0, changes, &mut rows[word as usize]);
            }
            axpy(1.0, &total_changes, &mut totals);
            for ((_, document, at), token) in order.iter().zip(&tokens) {
                batch[*document][*at].1 = token.topic;
            }
        }
    }
    let per_token = |which: usize| {
        let time: Duration = best.iter().map(|best| best[which]).sum();
        time.as_nanos() as f64 / documents.token_count() as f64
    };
    (per_token(0), per_token(1))
}

const TOPIC_ROUNDS: usize = 14;
