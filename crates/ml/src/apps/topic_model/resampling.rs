//! The task of one worker: it draws the topics of its own tokens again, a mini-batch of documents each clock.

use std::sync::Arc;

use super::likelihood::{FOLD_IN_STEPS, WordProbabilities};
use super::{Shared, TOPICS, WORD_TOPIC};
use crate::apps::visits::Visits;
use crate::divided::Divided;
use crate::kernels::topics::{Counts, DocumentTopics, Token, TopicSampler};
use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::types::{
    Clock, Deltas, Model, Restorer, RowSet, Saved, Saver, Seed, StateError, TableDeltas, TableRows,
};

/// A worker's documents and the topics that their tokens have.
pub(super) struct Resampling {
    shared: Arc<Shared>,
    /// The training documents that are this worker's.
    documents: Arc<[u32]>,
    /// Where each document begins in `words` and `topics`; one more than there are documents.
    offsets: Vec<usize>,
    /// The word of each token.
    words: Vec<u32>,
    /// The topic of each token: state that the worker alone has.
    topics: Vec<u32>,
    visits: Visits,
    sampler: TopicSampler,
    seed: Seed,
    batch: Batch,
    /// The clock that the batch belongs to.
    prepared: Option<Clock>,
}

/// The tokens of one clock, sorted by word.
#[derive(Default)]
struct Batch {
    /// The words that occur, ascending.
    rows: Vec<u32>,
    tokens: Vec<Token>,
    /// The place of each token among all tokens of the worker.
    places: Vec<u32>,
    documents: Vec<DocumentTopics>,
}

impl Resampling {
    /// The task of a worker that has the training documents `documents`.
    pub(super) fn new(shared: Arc<Shared>, documents: Arc<[u32]>, seed: Seed) -> Self {
        let (mut offsets, mut words, mut topics) = (vec![0], Vec::new(), Vec::new());
        let train = &shared.documents.train;
        // The number of the next token of each word.
        let mut next = shared.counts.before.clone();
        let mut own = documents.iter().peekable();
        for document in 0..train.len() {
            let Some(&&own_document) = own.peek() else { break };
            let is_own = own_document as usize == document;
            for word in train.tokens(document) {
                let number = &mut next[word as usize];
                if is_own {
                    words.push(word);
                    topics.push(shared.first_topic(word, *number));
                }
                *number += 1;
            }
            if is_own {
                offsets.push(words.len());
                own.next();
            }
        }

        let config = &shared.config;
        let own: Arc<[u32]> = (0..documents.len() as u32).collect();

        Self {
            documents,
            offsets,
            words,
            topics,
            visits: Visits::new(own, config.clocks_per_pass, seed.child("visits")),
            sampler: TopicSampler::new(config.topics, train.vocabulary, config.alpha, config.beta),
            seed: seed.child("draws"),
            batch: Batch::default(),
            prepared: None,
            shared,
        }
    }

    fn prepare(&mut self, clock: Clock) {
        if self.prepared == Some(clock) {
            return;
        }

        let batch = &mut self.batch;
        batch.documents.clear();

        let mut tokens: Vec<(u32, u32, u32)> = Vec::new();
        for (slot, &document) in self.visits.batch(clock).iter().enumerate() {
            let places = self.offsets[document as usize]..self.offsets[document as usize + 1];
            let mut topics = DocumentTopics::default();
            self.topics[places.clone()].iter().for_each(|&topic| topics.add(topic));
            batch.documents.push(topics);
            tokens.extend(places.map(|place| (self.words[place], slot as u32, place as u32)));
        }

        tokens.sort_unstable();
        batch.rows.clear();
        batch.tokens.clear();
        batch.places.clear();

        for (word, document, place) in tokens {
            if batch.rows.last() != Some(&word) {
                batch.rows.push(word);
            }
            let word = batch.rows.len() as u32 - 1;
            batch.tokens.push(Token { word, document, topic: self.topics[place as usize] });
            batch.places.push(place);
        }

        self.prepared = Some(clock);
    }
}

impl Task for Resampling {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.prepare(clock);
        let totals = if self.batch.rows.is_empty() { vec![] } else { vec![0] };
        let words = TableRows::listed(self.batch.rows.clone());
        RowSet { tables: vec![words, TableRows::listed(totals)] }
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        self.prepare(clock);

        let batch = &mut self.batch;
        if batch.tokens.is_empty() {
            return Ok((Deltas::none(&self.shared.layout), Work::default()));
        }

        let rows = batch.rows.iter().map(|&word| model.row(WORD_TOPIC, word as usize)).collect();
        let mut counts = Counts::new(rows, model.row(TOPICS, 0));
        let mut random = self.seed.nth(clock.0 as usize).random();
        let weights = self.sampler.resample(
            &mut batch.tokens,
            &mut batch.documents,
            &mut counts,
            &mut random,
        );

        for (token, &place) in batch.tokens.iter().zip(&batch.places) {
            self.topics[place as usize] = token.topic;
        }

        let words = TableDeltas { rows: batch.rows.clone(), values: counts.word_changes };
        let totals = TableDeltas { rows: vec![0], values: counts.total_changes };
        let examples = batch.tokens.len() as u64;
        let work = Work { examples, flops: FLOPS_PER_WEIGHT * weights as f64 };

        Ok((Deltas { tables: vec![words, totals] }, work))
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        let Shared { config, documents: Divided { train, .. }, .. } = &*self.shared;
        let sample = self.visits.sample(examples);
        let documents: Vec<u32> =
            sample.iter().map(|&document| self.documents[document as usize]).collect();
        let words =
            WordProbabilities::from_counts(config.topics, model.table(WORD_TOPIC), config.beta);
        let loss = words.negative_log_likelihood(train, &documents, config.alpha).mean();
        let tokens = sample.iter().map(|&document| {
            let document = document as usize;
            self.offsets[document + 1] - self.offsets[document]
        });
        let tokens = tokens.sum::<usize>() as u64;
        let flops =
            (FLOPS_PER_WEIGHT * FOLD_IN_STEPS as f64) * (tokens * config.topics as u64) as f64;
        (loss, Work { examples: tokens, flops })
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        walk.record("topics", &self.topics)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        let topics = self.shared.config.topics;
        walk.record_that("topics", &mut self.topics, |found, made| {
            found.len() == made.len() && found.iter().all(|topic| (*topic as usize) < topics)
        })?;
        // The batch holds the topics that tokens had.
        self.prepared = None;
        Ok(())
    }
}

/// A multiplication and an addition.
const FLOPS_PER_WEIGHT: f64 = 2.0;
