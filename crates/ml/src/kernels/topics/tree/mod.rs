//! The sampler over a tree of sums: F+LDA (Yu, Hsieh, Yun, Vishwanathan and Dhillon, WWW 2015).
//!
//! Of the weight of a topic, `(n_dk + α) · q_k = α · q_k + n_dk · q_k`, a tree holds `q` of the current word with its
//! partial sums: a change of one topic, and a draw from the first term, cost `log K`. The second term runs over the
//! topics of the document alone, never more than it has tokens. From one word to the next only the topics of either
//! word change. So the cost of a draw does not follow `K`. What does is one sweep a batch over each word's row of counts
//! for those that are not 0: a few times what reading the row takes, and most of the cost where a batch has few tokens
//! of each word and topics are thousands. Alias tables (Li, Ahmed, Ravi and Smola, KDD 2014; LightLDA, WWW 2015) would
//! take `K` dearer steps to build for every row of every batch, and their draws would have to be corrected by
//! rejection.

mod sum_tree;
mod topic_list;

pub(super) use topic_list::TopicList;

use rand::RngExt;

use self::sum_tree::{FAN_OUT, SumTree};
use super::{Counts, Token, scale_of, weight_of};
use crate::kernels::{Kernel, vectorized};
use gaia_core::types::Random;

/// Draws topics of tokens at a cost that hardly follows the number of topics.
#[derive(Clone, Debug)]
pub(super) struct TreeSampler {
    alpha: f64,
    beta: f64,
    /// V·β.
    beta_sum: f64,
    /// `q` of the current word.
    tree: SumTree,
    /// `1 / (n_k + V·β)`.
    scales: Vec<f64>,
    /// Topics that the current word may have; all others have the `q` of a word that is not in them.
    present: Vec<u32>,
    /// Sums of the second term up to each topic of a document.
    sums: Vec<f64>,
}

/// Draws the topics of tokens of the current word again. Says how many weights it went over.
struct ResampleWord;

/// What it takes: the sampler, the word, its tokens, all documents, the counts and the random numbers.
type WordArguments<'a, 'c> = (
    &'a mut TreeSampler,
    usize,
    &'a mut [Token],
    &'a mut [TopicList],
    &'a mut Counts<'c>,
    &'a mut Random,
);

impl<'a, 'c> Kernel<WordArguments<'a, 'c>> for ResampleWord {
    type Output = u64;

    #[inline(always)]
    fn run((sampler, word, tokens, documents, counts, random): WordArguments<'a, 'c>) -> u64 {
        let mut steps = 0;
        for token in tokens {
            let document = &mut documents[token.document as usize];
            let before = sampler.topic_weight(token.topic);
            document.remove(token.topic);
            sampler.change(counts, word, token.topic, -1.0);

            let drawn = match sampler.draw(document, random.random()) {
                Drawn::OfDocument(at) => document.add_at(at),
                Drawn::OfWord(topic) => document.add(topic),
            };
            if drawn == token.topic {
                sampler.put_back(counts, word, before);
            } else {
                sampler.change(counts, word, drawn, 1.0);
                token.topic = drawn;
            }
            steps += (2 * document.0.len() + 3 * FAN_OUT * sampler.tree.depth()) as u64;
        }
        steps
    }
}

/// Gives topics their weights of a word with this row, and computes the sums again: those above each of them, or all.
struct PutEach;

impl<'a> Kernel<(&'a mut TreeSampler, &'a [f32], &'a [u32], bool)> for PutEach {
    type Output = ();

    #[inline(always)]
    fn run((sampler, row, topics, one_by_one): (&'a mut TreeSampler, &'a [f32], &'a [u32], bool)) {
        let TreeSampler { tree, scales, beta, .. } = sampler;
        for &topic in topics {
            let at = topic as usize;
            tree.put(at, weight_of(row[at], *beta, scales[at]));
            if one_by_one {
                tree.add_up_to(at);
            }
        }

        if !one_by_one {
            tree.add_up();
        }
    }
}

/// Adds the places of values above 0, of which there are few.
struct FindAboveZero;

impl<'a> Kernel<(&'a [f32], &'a mut Vec<u32>)> for FindAboveZero {
    type Output = ();

    #[inline(always)]
    fn run((values, found): (&'a [f32], &'a mut Vec<u32>)) {
        let (blocks, rest) = values.as_chunks::<BLOCK>();
        let mut collect = |values: &[f32], start: usize| {
            let above = values.iter().zip(start as u32..).filter(|(value, _)| **value > 0.0);
            found.extend(above.map(|(_, at)| at));
        };
        for (at, block) in blocks.iter().enumerate() {
            if block.iter().fold(false, |any, value| any | (*value > 0.0)) {
                collect(block, at * BLOCK);
            }
        }
        collect(rest, values.len() - rest.len());
    }
}

/// What a token's topic is drawn from.
enum Drawn {
    /// The topics of its document: the place of one of them.
    OfDocument(usize),
    /// The topics of its word: one of them.
    OfWord(u32),
}

/// A topic of the current word: its part of `scales`, and its weight in the tree.
struct TopicWeight {
    topic: u32,
    scale: f64,
    weight: f64,
}

impl TreeSampler {
    pub(super) fn new(topics: usize, vocabulary: usize, alpha: f64, beta: f64) -> Self {
        Self {
            alpha,
            beta,
            beta_sum: beta * vocabulary as f64,
            tree: SumTree::new(topics),
            scales: vec![0.0; topics],
            present: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// As [`super::TopicSampler::resample`].
    pub(super) fn resample(
        &mut self,
        tokens: &mut [Token],
        documents: &mut [TopicList],
        counts: &mut Counts<'_>,
        random: &mut Random,
    ) -> u64 {
        let mut steps = self.begin(counts);
        for run in tokens.chunk_by_mut(|a, b| a.word == b.word) {
            let word = run[0].word as usize;
            steps += self.enter(counts, word);

            let arguments = (&mut *self, word, run, &mut *documents, &mut *counts, &mut *random);
            steps += vectorized(ResampleWord, arguments);
        }

        steps
    }

    /// Gives every topic the weight that a word has which is not in it.
    fn begin(&mut self, counts: &Counts<'_>) -> u64 {
        self.present.clear();
        let topics = counts.totals.len();
        for topic in 0..topics {
            self.scales[topic] = self.scale(counts, topic);
            self.tree.put(topic, self.beta * self.scales[topic]);
        }
        self.tree.add_up();
        2 * topics as u64
    }

    /// Turns to another word: only its topics, and those of the word before, get another weight.
    fn enter(&mut self, counts: &Counts<'_>, word: usize) -> u64 {
        let mut changed = std::mem::take(&mut self.present);
        let row = counts.words[word];
        vectorized(FindAboveZero, (row, &mut self.present));
        changed.extend_from_slice(&self.present);

        let sums = (self.tree.depth() * changed.len()).min(self.tree.groups());
        let one_by_one = sums < self.tree.groups();
        vectorized(PutEach, (&mut *self, row, &*changed, one_by_one));

        (row.len() / BLOCK + changed.len() + sums * FAN_OUT) as u64
    }

    /// A topic as it is for the current word.
    #[inline(always)]
    fn topic_weight(&self, topic: u32) -> TopicWeight {
        let at = topic as usize;
        TopicWeight { topic, scale: self.scales[at], weight: self.tree.weight(at) }
    }

    /// Counts a token of the current word again with the topic that it had, which has not changed otherwise.
    #[inline(always)]
    fn put_back(&mut self, counts: &mut Counts<'_>, word: usize, before: TopicWeight) {
        let at = before.topic as usize;
        counts.word_changes[word * counts.totals.len() + at] += 1.0;
        counts.total_changes[at] += 1.0;
        self.scales[at] = before.scale;
        self.tree.put(at, before.weight);
        self.tree.add_up_to(at);
        self.present.push(before.topic);
    }

    #[inline(always)]
    fn change(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32, by: f32) {
        let at = topic as usize;
        counts.word_changes[word * counts.totals.len() + at] += by;
        counts.total_changes[at] += by;
        self.scales[at] = self.scale(counts, at);
        let row = counts.words[word];
        let count = row[at] + counts.word_changes[word * row.len() + at];
        self.tree.put(at, weight_of(count, self.beta, self.scales[at]));
        self.tree.add_up_to(at);
        self.present.push(topic);
    }

    /// The topic at `place`, 0 to below 1, of the distribution of a token of the current word in `document`.
    #[inline(always)]
    fn draw(&mut self, document: &TopicList, place: f64) -> Drawn {
        let weights = self.tree.weights();
        let mut sum = 0.0;
        self.sums.clear();
        self.sums.extend(document.0.iter().map(|&(topic, count)| {
            sum += f64::from(count) * weights[topic as usize];
            sum
        }));

        let place = place * (sum + self.alpha * self.tree.total());
        // Sums do not fall, so those up to the place come first. To count them has no branch to guess.
        let at = self.sums.iter().filter(|&&sum| sum <= place).count();
        if at < self.sums.len() {
            Drawn::OfDocument(at)
        } else {
            Drawn::OfWord(self.tree.at((place - sum) / self.alpha) as u32)
        }
    }

    #[inline(always)]
    fn scale(&self, counts: &Counts<'_>, topic: usize) -> f64 {
        scale_of(counts.totals[topic] + counts.total_changes[topic], self.beta_sum)
    }
}

/// Values that are looked at together: two registers of AVX-512.
const BLOCK: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::topics::tests::{ALPHA, BETA, Steps, VOCABULARY, check_draws};

    impl Steps for (TreeSampler, TopicList) {
        fn hold(&mut self, topic: u32) {
            self.1.add(topic);
        }

        fn begin(&mut self, counts: &Counts<'_>) {
            self.0.begin(counts);
        }

        fn enter(&mut self, counts: &Counts<'_>, word: usize) {
            self.0.enter(counts, word);
        }

        fn remove(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32) {
            self.1.remove(topic);
            self.0.change(counts, word, topic, -1.0);
        }

        fn draw(&mut self, place: f64) -> u32 {
            match self.0.draw(&self.1, place) {
                Drawn::OfDocument(at) => self.1.0[at].0,
                Drawn::OfWord(topic) => topic,
            }
        }

        fn add(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32) {
            self.1.add(topic);
            self.0.change(counts, word, topic, 1.0);
        }
    }

    #[test]
    fn every_draw_has_the_distribution_that_a_sampler_over_all_topics_has() {
        for topics in [1, 2, 3, 16, 33, 100, 300] {
            let sampler = TreeSampler::new(topics, VOCABULARY, ALPHA, BETA);
            check_draws(topics, &mut (sampler, TopicList::default()));
        }
    }
}
