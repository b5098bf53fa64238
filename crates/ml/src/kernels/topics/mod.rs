//! Collapsed Gibbs sampling of topics (Griffiths and Steyvers, PNAS 101, 2004), word by word.
//!
//! Without the token itself, a token of word `w` in document `d` has topic `k` with a probability in proportion to
//!
//! `(n_dk + α) · q_k`, where `q_k = (n_wk + β) / (n_k + V·β)`.
//!
//! Tokens come sorted by word, so that `q` of one word serves many of them. Two samplers draw from this distribution,
//! both exactly. `dense` goes over all topics with vector instructions, which is the fastest where they are few. `tree`
//! draws from a tree of sums, whose cost hardly follows the number of topics.
//!
//! Counts come from a copy of the model that may be behind: a count below 0 is taken for 0, so that no weight is
//! ever negative and no sum 0.

mod counts;
mod dense;
mod documents;
#[cfg(test)]
mod tests;
mod tree;

pub use counts::Counts;
pub use documents::DocumentTopics;

use self::dense::DenseSampler;
use self::documents::Form;
use self::tree::TreeSampler;
use gaia_core::types::Random;

/// One token of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The place of its word's row in the batch.
    pub word: u32,
    /// The place of its document in the batch.
    pub document: u32,
    /// The topic that it has, which sampling replaces.
    pub topic: u32,
}

/// Draws topics of tokens.
#[derive(Clone, Debug)]
pub struct TopicSampler(Sampler);

#[derive(Clone, Debug)]
enum Sampler {
    Dense(DenseSampler),
    Tree(TreeSampler),
}

impl TopicSampler {
    /// A sampler for `topics` topics, at least 1, with the priors α of each topic in a document and β of each of
    /// `vocabulary` words in a topic; both are above 0.
    pub fn new(topics: usize, vocabulary: usize, alpha: f64, beta: f64) -> Self {
        assert!(alpha > 0.0 && beta > 0.0 && topics > 0);
        Self(if is_dense(topics) {
            Sampler::Dense(DenseSampler::new(topics, vocabulary, alpha, beta))
        } else {
            Sampler::Tree(TreeSampler::new(topics, vocabulary, alpha, beta))
        })
    }

    /// Draws every token's topic again, in order, each from its distribution given all others. Returns how many weights it
    /// went over.
    ///
    /// `tokens` are sorted by word, and `counts` not changed yet. `documents` holds the topics of each document of the
    /// batch.
    ///
    /// # Panics
    ///
    /// Where a token names a word, document or topic that is not there, or a topic that its document does not have, and
    /// where documents are of a model with another number of topics.
    pub fn resample(
        &mut self,
        tokens: &mut [Token],
        documents: &mut DocumentTopics,
        counts: &mut Counts<'_>,
        random: &mut Random,
    ) -> u64 {
        debug_assert!(tokens.is_sorted_by_key(|token| token.word));

        match (&mut self.0, &mut documents.0) {
            (Sampler::Dense(sampler), Form::Dense(documents)) => {
                sampler.resample(tokens, documents, counts, random)
            }
            (Sampler::Tree(sampler), Form::Lists(documents)) => {
                sampler.resample(tokens, documents, counts, random)
            }
            _ => panic!("documents are of a model with another number of topics"),
        }
    }
}

/// `1 / (n_k + V·β)`, the part of `q_k` that all words share.
#[inline(always)]
fn scale_of(total: f32, beta_sum: f64) -> f64 {
    1.0 / (f64::from(total.max(0.0)) + beta_sum)
}

/// `q_k` of a word with so many tokens in the topic.
#[inline(always)]
fn weight_of(count: f32, beta: f64, scale: f64) -> f64 {
    (f64::from(count.max(0.0)) + beta) * scale
}

/// Whether going over all topics is faster than the tree.
fn is_dense(topics: usize) -> bool {
    topics <= dense::TOPICS_MAX
}
