//! The sampler over a tree of sums.

mod sum_tree;

use rand::RngExt;

use self::sum_tree::{FAN_OUT, SumTree};
use super::{Counts, DocumentTopics, Token};
use crate::kernels::{Kernel, vectorized};
use gaia_core::types::Random;

/// Draws topics of tokens.
#[derive(Clone, Debug)]
pub struct TopicSampler {
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
    &'a mut TopicSampler,
    usize,
    &'a mut [Token],
    &'a mut [DocumentTopics],
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

impl<'a> Kernel<(&'a mut TopicSampler, &'a [f32], &'a [u32], bool)> for PutEach {
    type Output = ();

    #[inline(always)]
    fn run((sampler, row, topics, one_by_one): (&'a mut TopicSampler, &'a [f32], &'a [u32], bool)) {
        let TopicSampler { tree, scales, beta, .. } = sampler;
        for &topic in topics {
            let at = topic as usize;
            tree.put(at, (f64::from(row[at].max(0.0)) + *beta) * scales[at]);
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

impl TopicSampler {
    /// A sampler for `topics` topics, at least 1, with the priors α of each topic in a document and β of each of
    /// `vocabulary` words in a topic; both are above 0.
    pub fn new(topics: usize, vocabulary: usize, alpha: f64, beta: f64) -> Self {
        assert!(alpha > 0.0 && beta > 0.0 && topics > 0);
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

    /// Draws every token's topic again, in order, each from its distribution given all others. Returns how many weights it
    /// went over.
    ///
    /// `tokens` are sorted by word, and `counts` not changed yet. `documents` holds the topics of each document of the
    /// batch.
    ///
    /// # Panics
    ///
    /// Where a token names a word or topic that is not there, or a topic that its document does not have.
    pub fn resample(
        &mut self,
        tokens: &mut [Token],
        documents: &mut [DocumentTopics],
        counts: &mut Counts<'_>,
        random: &mut Random,
    ) -> u64 {
        debug_assert!(tokens.is_sorted_by_key(|token| token.word));

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
        self.tree.put(at, (f64::from(count.max(0.0)) + self.beta) * self.scales[at]);
        self.tree.add_up_to(at);
        self.present.push(topic);
    }

    /// The topic at `place`, 0 to below 1, of the distribution of a token of the current word in `document`.
    #[inline(always)]
    fn draw(&mut self, document: &DocumentTopics, place: f64) -> Drawn {
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
        let total = counts.totals[topic] + counts.total_changes[topic];
        1.0 / (f64::from(total.max(0.0)) + self.beta_sum)
    }
}

/// Values that are looked at together: two registers of AVX-512.
const BLOCK: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::Seed;

    /// Counts as stale as they come: some missing, some below 0, some no whole numbers.
    fn row(topics: usize, random: &mut Random) -> Vec<f32> {
        let count = |_| match random.random_range(0..4) {
            0 => 0.0,
            1 => -1.5,
            2 => random.random_range(0..20) as f32,
            _ => 0.25,
        };
        (0..topics).map(count).collect()
    }

    /// The textbook's distribution of a token of `word` that is not counted.
    fn dense(sampler: &TopicSampler, counts: &Counts<'_>, word: usize, has: &[u32]) -> Vec<f64> {
        let topics = counts.totals.len();
        let weight = |topic: usize| {
            let here = has.iter().filter(|&&other| other as usize == topic).count() as f64;
            let of_word = counts.words[word][topic] + counts.word_changes[word * topics + topic];
            let total = counts.totals[topic] + counts.total_changes[topic];
            (here + sampler.alpha) * (f64::from(of_word.max(0.0)) + sampler.beta)
                / (f64::from(total.max(0.0)) + sampler.beta_sum)
        };
        let weights: Vec<f64> = (0..topics).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn every_draw_has_the_distribution_that_a_sampler_over_all_topics_has() {
        const PLACES: u32 = 4000;

        for (seed, topics) in [1, 2, 3, 16, 33, 100, 300].into_iter().enumerate() {
            let mut random = Seed(seed as u64).random();
            let rows: Vec<Vec<f32>> = (0..4).map(|_| row(topics, &mut random)).collect();
            let totals = row(topics, &mut random);
            let mut counts = Counts::new(rows.iter().map(Vec::as_slice).collect(), &totals);
            let mut sampler = TopicSampler::new(topics, 50, 0.3, 0.02);
            let mut has: Vec<u32> =
                (0..12).map(|_| random.random_range(0..topics as u32)).collect();
            let mut document = DocumentTopics::default();

            for &topic in &has {
                document.add(topic);
            }
            sampler.begin(&counts);

            for turn in 0..40 {
                let word = turn / 10;
                if turn % 10 == 0 {
                    sampler.enter(&counts, word);
                }

                let topic = has.swap_remove(random.random_range(0..has.len()));
                document.remove(topic);
                sampler.change(&mut counts, word, topic, -1.0);

                let mut drawn = vec![0.0; topics];
                for place in 0..PLACES {
                    let place = (f64::from(place) + 0.5) / f64::from(PLACES);
                    let topic = match sampler.draw(&document, place) {
                        Drawn::OfDocument(at) => document.0[at].0,
                        Drawn::OfWord(topic) => topic,
                    };
                    drawn[topic as usize] += 1.0 / f64::from(PLACES);
                }

                for (drawn, exact) in drawn.iter().zip(dense(&sampler, &counts, word, &has)) {
                    // A topic has at most two stretches of places.
                    assert!((drawn - exact).abs() < 2.1 / f64::from(PLACES), "{drawn} {exact}");
                }

                let topic = match sampler.draw(&document, random.random()) {
                    Drawn::OfDocument(at) => document.add_at(at),
                    Drawn::OfWord(topic) => document.add(topic),
                };
                has.push(topic);
                sampler.change(&mut counts, word, topic, 1.0);
            }
        }
    }

    #[test]
    fn changes_are_whole_and_move_every_token_from_one_topic_to_one() {
        let mut random = Seed(1).random();
        let topics = 40;
        let rows: Vec<Vec<f32>> = (0..3).map(|_| row(topics, &mut random)).collect();
        let totals = row(topics, &mut random);
        let mut counts = Counts::new(rows.iter().map(Vec::as_slice).collect(), &totals);
        let mut documents = vec![DocumentTopics::default(); 2];
        let mut tokens: Vec<Token> = (0..30)
            .map(|at| {
                let topic = random.random_range(0..topics as u32);
                documents[at % 2].add(topic);
                Token { word: at as u32 / 10, document: at as u32 % 2, topic }
            })
            .collect();
        let before = tokens.clone();
        let mut sampler = TopicSampler::new(topics, 50, 0.3, 0.02);

        sampler.resample(&mut tokens, &mut documents, &mut counts, &mut random);

        let mut word_changes = vec![0.0; 3 * topics];
        let mut total_changes = vec![0.0; topics];
        for (token, by) in before.iter().map(|t| (t, -1.0)).chain(tokens.iter().map(|t| (t, 1.0))) {
            word_changes[token.word as usize * topics + token.topic as usize] += by;
            total_changes[token.topic as usize] += by;
        }

        assert_eq!(counts.word_changes, word_changes);
        assert_eq!(counts.total_changes, total_changes);

        let held: u32 = documents.iter().flat_map(|document| &document.0).map(|(_, n)| n).sum();
        assert_eq!(held, 30);
        assert_ne!(before, tokens);
    }
}
