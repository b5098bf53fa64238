//! The task of one worker: it draws the topics of its own tokens again, a mini-batch of documents each clock.

use std::sync::Arc;

use super::likelihood::{FOLD_IN_STEPS, WordProbabilities};
use super::token_topics::TokenTopics;
use super::{Shared, TOPICS, WORD_TOPIC};
use crate::apps::visits::Visits;
use crate::divided::Examples;
use crate::examples::Documents;
use crate::kernels::topics::{Counts, DocumentTopics, Token, TopicSampler};
use crate::stored::StoredExamples;
use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::types::{
    Clock, Deltas, Model, Restorer, RowSet, Saved, Saver, Seed, StateError, TableDeltas, TableRows,
};

/// A worker's documents and the topics that their tokens have.
pub(super) struct Resampling {
    shared: Arc<Shared>,
    /// Where each of the worker's documents begins in `topics`; one more than there are documents.
    offsets: Vec<usize>,
    /// The topic of each token: state that the worker alone has.
    topics: TokenTopics,
    worker: usize,
    visits: Visits<Documents>,
    sampler: TopicSampler,
    seed: Seed,
    batch: Batch,
    /// The clock that the batch belongs to.
    prepared: Option<Clock>,
}

/// The tokens of one clock, sorted by word.
struct Batch {
    /// The words that occur, ascending.
    rows: Vec<u32>,
    tokens: Vec<Token>,
    /// The place of each token among all tokens of the worker.
    places: Vec<u32>,
    documents: DocumentTopics,
}

impl Batch {
    /// No tokens, of a model with so many topics.
    fn new(topics: usize) -> Self {
        let documents = DocumentTopics::new(topics, 0);
        Self { rows: Vec::new(), tokens: Vec::new(), places: Vec::new(), documents }
    }
}

impl Resampling {
    /// The task of a worker.
    pub(super) fn new(shared: Arc<Shared>, worker: usize, seed: Seed) -> Self {
        let Shared { config, documents, .. } = &*shared;
        let (offsets, topics) = (vec![0], TokenTopics::new(config.topics));
        let vocabulary = documents.train.vocabulary;
        let visits = seed.child("visits");
        let mut task = Self {
            visits: Visits::new(documents, worker, config.clocks_per_pass, visits),
            sampler: TopicSampler::new(config.topics, vocabulary, config.alpha, config.beta),
            seed: seed.child("draws"),
            batch: Batch::new(config.topics),
            prepared: None,
            shared: shared.clone(),
            offsets,
            topics,
            worker,
        };
        match &shared.documents.stored[worker] {
            None => task.begin_in_memory(),
            Some(parts) => {
                let begun = task.begin_stored(&*parts.train);
                begun.unwrap_or_else(|error| task.visits.fail(error));
            }
        }
        task
    }

    /// Gives the tokens of documents in memory the topics that they start with.
    fn begin_in_memory(&mut self) {
        let shared = self.shared.clone();
        let train = &shared.documents.train;
        // The number of the next token of each word.
        let mut next = shared.counts.before.clone();
        let mut own = shared.documents.train_parts[self.worker].iter().peekable();
        for document in 0..train.len() {
            let Some(&&own_document) = own.peek() else { break };
            let is_own = own_document as usize == document;
            for word in train.tokens(document) {
                let number = &mut next[word as usize];
                if is_own {
                    self.topics.push(shared.first_topic(word, *number));
                }
                *number += 1;
            }
            if is_own {
                self.offsets.push(self.topics.len());
                own.next();
            }
        }
    }

    /// Gives the tokens of stored documents the topics that they start with.
    fn begin_stored(
        &mut self,
        stored: &dyn StoredExamples<Documents>,
    ) -> Result<(), ApplicationError> {
        let shared = self.shared.clone();
        let mut next = shared.counts.before_stored[self.worker].clone();
        self.offsets.reserve_exact(stored.len());
        self.topics.reserve_exact(stored.weight() as usize);
        for block in stored.blocks() {
            let documents = stored.read(block)?;
            for document in 0..documents.len() {
                for word in documents.tokens(document) {
                    let number = &mut next[word as usize];
                    self.topics.push(shared.first_topic(word, *number));
                    *number += 1;
                }
                self.offsets.push(self.topics.len());
            }
        }
        Ok(())
    }

    fn prepare(&mut self, clock: Clock) -> Result<(), ApplicationError> {
        if self.prepared == Some(clock) {
            return Ok(());
        }

        let Shared { config, documents, .. } = &*self.shared;
        let visited = self.visits.batch(clock, &documents.train)?;
        let own = &documents.train_parts[self.worker];
        let batch = &mut self.batch;
        batch.documents = DocumentTopics::new(config.topics, visited.positions.len());

        let mut tokens: Vec<(u32, u32, u32)> = Vec::new();
        for (slot, &position) in visited.positions.iter().enumerate() {
            let document = match visited.start {
                Some(start) => start + position as usize,
                None => own.partition_point(|own| *own < position),
            };
            let places = self.offsets[document]..self.offsets[document + 1];
            for place in places.clone() {
                batch.documents.add(slot, self.topics.get(place));
            }
            let words = visited.examples.tokens(position as usize);
            tokens.extend(places.zip(words).map(|(place, word)| (word, slot as u32, place as u32)));
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
            batch.tokens.push(Token { word, document, topic: self.topics.get(place as usize) });
            batch.places.push(place);
        }

        self.prepared = Some(clock);
        Ok(())
    }
}

impl Task for Resampling {
    fn rows(&mut self, clock: Clock) -> RowSet {
        if let Err(error) = self.prepare(clock) {
            self.visits.fail(error);
        }
        let totals = if self.batch.rows.is_empty() { vec![] } else { vec![0] };
        let words = TableRows::listed(self.batch.rows.clone());
        RowSet { tables: vec![words, TableRows::listed(totals)] }
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        self.prepare(clock)?;

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
            self.topics.set(place as usize, token.topic);
        }

        let words = TableDeltas::listed(batch.rows.clone(), counts.word_changes);
        let totals = TableDeltas::listed(vec![0], counts.total_changes);
        let examples = batch.tokens.len() as u64;
        let work = Work { examples, flops: FLOPS_PER_WEIGHT * weights as f64 };

        Ok((Deltas { tables: vec![words, totals] }, work))
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        let Shared { config, documents, .. } = &*self.shared;
        self.visits.probe(&documents.train, examples, |documents, sample| {
            let words =
                WordProbabilities::from_counts(config.topics, model.table(WORD_TOPIC), config.beta);
            let loss = words.negative_log_likelihood(documents, sample, config.alpha).mean();
            let tokens = documents.weight(sample);
            let flops =
                (FLOPS_PER_WEIGHT * FOLD_IN_STEPS as f64) * (tokens * config.topics as u64) as f64;
            (loss, Work { examples: tokens, flops })
        })
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        walk.record("topics", &self.topics)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        let topics = self.shared.config.topics;
        walk.record_that("topics", &mut self.topics, |found, made| found.fits(made, topics))?;
        // The batch holds the topics that tokens had.
        self.prepared = None;
        Ok(())
    }
}

/// A multiplication and an addition.
const FLOPS_PER_WEIGHT: f64 = 2.0;
