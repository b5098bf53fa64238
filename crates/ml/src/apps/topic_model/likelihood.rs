//! How well a copy of the model explains documents.
//!
//! A copy is judged by its words' probabilities alone: what the workers believe of their documents, and which data
//! center a document is in, play no part. The topics of each document are estimated from its words by the fixed point
//! `θ_k = (α + Σ_w n_dw θ_k φ_kw / Σ_j θ_j φ_jw) / (K·α + n_d)`, from the same start for every copy (folding in;
//! Asuncion, Welling, Smyth and Teh, UAI 2009).

use rand::seq::SliceRandom;
use rayon::prelude::*;

use crate::divided::Parts;
use crate::examples::Documents;
use crate::kernels::mixture::fold_in;
use crate::kernels::vector::dot;
use gaia_core::application::WeightedSum;
use gaia_core::types::Seed;

/// The probability φ of each word in each topic.
#[derive(Clone, Debug, PartialEq)]
pub struct WordProbabilities {
    topics: usize,
    /// Word by word the probability that each topic gives it: `vocabulary × topics`.
    values: Vec<f32>,
}

/// Held-out documents, each cut in two at random: topics are estimated from one half and judged by the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    seen: Documents,
    unseen: Documents,
    seed: Seed,
}

impl WordProbabilities {
    /// Probabilities as they are, word by word: `vocabulary × topics`; each topic's sum to 1.
    ///
    /// # Panics
    ///
    /// Where `values` are not whole words.
    pub fn new(topics: usize, values: Vec<f32>) -> Self {
        assert!(values.len().is_multiple_of(topics));
        Self { topics, values }
    }

    /// The probabilities that counts of tokens stand for, word by word, under the prior weight β of each word.
    ///
    /// Each topic's counts are summed here: where a copy lacks some updates, the totals that it holds are those
    /// of another moment, and what sums to more than 1 would look better than it is.
    pub fn from_counts(topics: usize, counts: &[f32], beta: f64) -> Self {
        let mut sums = vec![0.0_f64; topics];
        for row in counts.chunks_exact(topics) {
            for (sum, count) in sums.iter_mut().zip(row) {
                *sum += f64::from(count.max(0.0));
            }
        }
        let prior = beta * (counts.len() / topics) as f64;
        let scales: Vec<f32> = sums.iter().map(|sum| (1.0 / (sum + prior)) as f32).collect();
        let beta = beta as f32;
        let mut values = Vec::with_capacity(counts.len());
        for row in counts.chunks_exact(topics) {
            values.extend(
                row.iter().zip(&scales).map(|(count, scale)| (count.max(0.0) + beta) * scale),
            );
        }
        Self { topics, values }
    }

    /// Minus the logarithm of the probability of some documents' words, over their tokens. Each document's topics are
    /// estimated from itself.
    pub fn negative_log_likelihood(
        &self,
        documents: &Documents,
        chosen: &[u32],
        alpha: f64,
    ) -> WeightedSum {
        self.losses(documents, documents, chosen, alpha)
    }

    /// Minus the logarithm of the probability of what is unseen of some held-out documents, over their unseen tokens.
    pub fn of_unseen(&self, held_out: &Completion, chosen: &[u32], alpha: f64) -> WeightedSum {
        self.losses(&held_out.seen, &held_out.unseen, chosen, alpha)
    }

    /// The share of each topic in each of some documents, documents × topics.
    pub fn shares(&self, documents: &Documents, alpha: f64) -> Vec<f32> {
        let mut shares = vec![0.0; documents.len() * self.topics];
        let rows = shares.par_chunks_exact_mut(self.topics).enumerate();
        rows.for_each_init(
            || vec![0.0; self.topics],
            |scratch, (document, weights)| {
                let words = documents.document(document);
                fold_in(&self.values, words, alpha as f32, FOLD_IN_STEPS, weights, scratch);
            },
        );
        shares
    }

    /// The perplexity of what is unseen of held-out documents: the number of equally likely words that would be as
    /// hard to guess. 1 of no words.
    pub fn perplexity(&self, held_out: &Completion, alpha: f64) -> f64 {
        let all: Vec<u32> = (0..held_out.seen.len() as u32).collect();
        self.of_unseen(held_out, &all, alpha).mean().exp()
    }

    /// The loss over the tokens of documents in `judged`, their topics estimated from `seen`, summed document by document
    /// in their order.
    fn losses(
        &self,
        seen: &Documents,
        judged: &Documents,
        chosen: &[u32],
        alpha: f64,
    ) -> WeightedSum {
        let losses: Vec<(f64, u64)> = chosen
            .par_iter()
            .map_init(
                || (vec![0.0; self.topics], vec![0.0; self.topics]),
                |(weights, scratch), &document| {
                    let (seen, judged) =
                        (seen.document(document as usize), judged.document(document as usize));
                    fold_in(&self.values, seen, alpha as f32, FOLD_IN_STEPS, weights, scratch);
                    self.loss(judged, weights)
                },
            )
            .collect();
        let tokens: u64 = losses.iter().map(|(_, tokens)| tokens).sum();
        WeightedSum { sum: losses.iter().map(|(loss, _)| loss).sum(), weight: tokens as f64 }
    }

    /// Minus the logarithm of a document's probability, and its tokens.
    fn loss(&self, (words, counts): (&[u32], &[u32]), weights: &[f32]) -> (f64, u64) {
        let mut sum = 0.0;
        for (&word, &count) in words.iter().zip(counts) {
            let probability = dot(weights, self.word(word)).max(f32::MIN_POSITIVE);
            sum -= f64::from(count) * f64::from(probability).ln();
        }
        (sum, counts.iter().map(|&count| u64::from(count)).sum())
    }

    fn word(&self, word: u32) -> &[f32] {
        &self.values[word as usize * self.topics..][..self.topics]
    }
}

impl Completion {
    /// Cuts every document in two; of an odd number of tokens the unseen half has one more. The cut of a worker's document
    /// depends on its place among those of the worker, and not on the documents of others.
    ///
    /// # Panics
    ///
    /// Where `parts` do not have all documents in their order.
    pub fn new(documents: &Documents, parts: &Parts, seed: Seed) -> Self {
        let mut all = Self::none(documents.vocabulary, seed);
        let of_workers = parts.iter().enumerate().flat_map(|(worker, part)| {
            part.iter().enumerate().map(move |(place, &document)| (worker, place, document))
        });
        for (expected, (worker, place, document)) in of_workers.enumerate() {
            assert_eq!(document as usize, expected);
            all.cut(documents, expected, (worker, place));
        }
        all
    }

    /// As [`Self::new`], of stored documents of one worker; `first` is the place of the first among those of the worker.
    pub(super) fn of_stored(&self, documents: &Documents, worker: usize, first: usize) -> Self {
        let mut all = Self::none(documents.vocabulary, self.seed);
        (0..documents.len())
            .for_each(|document| all.cut(documents, document, (worker, first + document)));
        all
    }

    fn none(vocabulary: usize, seed: Seed) -> Self {
        let none = || Documents::empty(vocabulary);
        Self { seen: none(), unseen: none(), seed }
    }

    /// Cuts one document of a worker in two.
    fn cut(&mut self, documents: &Documents, document: usize, (worker, place): (usize, usize)) {
        let mut tokens: Vec<u32> = documents.tokens(document).collect();
        tokens.shuffle(&mut self.seed.nth(worker).nth(place).random());
        let half = tokens.len() / 2;
        let (first, second) = tokens.split_at_mut(half);
        self.seen.push_tokens(first);
        self.unseen.push_tokens(second);
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

/// Steps towards the fixed point: within a thousandth of its log-likelihood for a model that has learnt.
pub(super) const FOLD_IN_STEPS: usize = 6;
