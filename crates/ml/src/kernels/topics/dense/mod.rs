//! The sampler over all topics, for few of them.
//!
//! The weight of each topic, `(n_dk + α) · q_k`, is computed again for each token, eight side by side, with sums up to
//! each of them: 32 topics are four registers of AVX-512. What takes time is less this than what has to wait: a token's
//! weights need the topic that was drawn for the token before. So all that a change of a count leads to is there before
//! the change, as [`Around`] says, and a token waits for sums, comparisons and a copy alone, not for a quotient.

mod around;
mod counts;
mod draw;
mod lanes;

pub(super) use counts::DenseCounts;

use pulp::Simd;
use rand::RngExt;

use self::around::Around;
use self::draw::draw;
use self::lanes::{LANES, Lanes};
use super::counts::WordCounts;
use super::{Counts, Token, scale_of, weight_of};
use crate::kernels::{SimdKernel, with_simd};
use gaia_core::types::Random;

/// Draws topics of tokens from the weights of all topics.
#[derive(Clone, Debug)]
pub(super) struct DenseSampler {
    topics: usize,
    alpha: f64,
    beta: f64,
    /// V·β.
    beta_sum: f64,
    /// `1 / (n_k + V·β)`.
    scales: Around,
    /// `q` of the current word.
    weights: Around,
}

/// Draws the topics of all tokens again. Says how many weights it went over.
struct Resample<const ROWS: usize>;

/// What it takes: the sampler, the tokens, all documents, the counts and the random numbers.
type Arguments<'a, 'c> = (
    &'a mut DenseSampler,
    &'a mut [Token],
    &'a mut DenseCounts,
    &'a mut Counts<'c>,
    &'a mut Random,
);

impl<'a, 'c, const ROWS: usize> SimdKernel<Arguments<'a, 'c>> for Resample<ROWS> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(simd: S, arguments: Arguments<'a, 'c>) -> u64 {
        let (sampler, tokens, documents, counts, random) = arguments;
        let documents = documents.documents_mut::<ROWS>();
        let mut steps = sampler.begin(counts);

        for run in tokens.chunk_by_mut(|a, b| a.word == b.word) {
            let mut counts = counts.of_word(run[0].word as usize);
            steps += sampler.enter(counts.row);

            for token in &mut *run {
                let document = &mut documents[token.document as usize];
                let before = token.topic as usize;
                counts::remove(simd, document, before);
                sampler.remove(simd, &mut counts, before);

                let drawn = sampler.draw(simd, document, random.random());
                sampler.add(simd, &mut counts, drawn);
                counts::add(simd, document, drawn);
                token.topic = drawn as u32;
            }
            steps += run.len() * sampler.topics;
        }

        steps as u64
    }
}

impl DenseSampler {
    pub(super) fn new(topics: usize, vocabulary: usize, alpha: f64, beta: f64) -> Self {
        assert!(topics <= TOPICS_MAX);
        let (scales, weights) = (Around::new(rows_of(topics)), Around::new(rows_of(topics)));
        Self { topics, alpha, beta, beta_sum: beta * vocabulary as f64, scales, weights }
    }

    /// As [`super::TopicSampler::resample`].
    pub(super) fn resample(
        &mut self,
        tokens: &mut [Token],
        documents: &mut DenseCounts,
        counts: &mut Counts<'_>,
        random: &mut Random,
    ) -> u64 {
        let rows = rows_of(self.topics);
        let arguments = (self, tokens, documents, counts, random);
        match rows {
            1 => with_simd(Resample::<1>, arguments),
            2 => with_simd(Resample::<2>, arguments),
            4 => with_simd(Resample::<4>, arguments),
            8 => with_simd(Resample::<8>, arguments),
            16 => with_simd(Resample::<16>, arguments),
            _ => unreachable!("rows of at most {TOPICS_MAX} topics, in a power of two"),
        }
    }

    /// Computes the scales from the counts as they are.
    #[inline(always)]
    fn begin(&mut self, counts: &Counts<'_>) -> usize {
        for (more, scales) in self.scales.each_mut() {
            let totals = counts.totals.iter().zip(&counts.total_changes);
            let scales = scales.iter_mut().flat_map(|scales| &mut scales.0);
            for (scale, (total, change)) in scales.zip(totals) {
                *scale = scale_of(total + (change + more), self.beta_sum);
            }
        }
        3 * self.topics
    }

    /// Turns to another word, which has these tokens by topic.
    #[inline(always)]
    fn enter(&mut self, row: &[f32]) -> usize {
        let (whole, rest) = row.as_chunks::<LANES>();
        let weights = self.weights.each_mut().into_iter();
        for ((more, weights), (_, scales)) in weights.zip(self.scales.each()) {
            let mut rows = weights.iter_mut().zip(scales);
            for (counts, (weights, scales)) in whole.iter().zip(&mut rows) {
                weigh(weights, scales, counts, more, self.beta);
            }
            if let Some((weights, scales)) = rows.next() {
                weigh(weights, scales, rest, more, self.beta);
            }
        }
        3 * self.topics
    }

    /// Counts a token of the current word less.
    #[inline(always)]
    fn remove<S: Simd>(&mut self, simd: S, counts: &mut WordCounts<'_>, topic: usize) {
        let (weight, scale) = (self.weights.fall(simd, topic), self.scales.fall(simd, topic));
        counts.change(topic, -1.0);
        *scale = scale_of(counts.total_after(topic, -1.0), self.beta_sum);
        *weight = weight_of(counts.count_after(topic, -1.0), self.beta, *scale);
    }

    /// Counts a token of the current word more.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, counts: &mut WordCounts<'_>, topic: usize) {
        let (weight, scale) = (self.weights.rise(simd, topic), self.scales.rise(simd, topic));
        counts.change(topic, 1.0);
        *scale = scale_of(counts.total_after(topic, 1.0), self.beta_sum);
        *weight = weight_of(counts.count_after(topic, 1.0), self.beta, *scale);
    }

    /// The topic at `place`, 0 to below 1, of the distribution of a token of the current word in `document`.
    #[inline(always)]
    fn draw<S: Simd, const ROWS: usize>(
        &self,
        simd: S,
        document: &[Lanes; ROWS],
        place: f64,
    ) -> usize {
        let weights =
            self.weights.same.first_chunk().expect("a sampler has the rows of its topics");
        draw(simd, document, weights, (self.topics, self.alpha), place)
    }
}

/// Gives topics the weights that follow from their counts.
#[inline(always)]
fn weigh(weights: &mut Lanes, scales: &Lanes, counts: &[f32], more: f32, beta: f64) {
    for ((weight, scale), count) in weights.0.iter_mut().zip(&scales.0).zip(counts) {
        *weight = weight_of(count + more, beta, *scale);
    }
}

/// The rows that topics take, in a power of two, so that loops are compiled for few numbers of them.
fn rows_of(topics: usize) -> usize {
    topics.div_ceil(LANES).next_power_of_two()
}

/// Up to which number of topics this sampler is faster than the tree: at 128 it takes three quarters of the time, with
/// AVX-512 as with AVX2, and at 256 about as long.
pub(super) const TOPICS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::topics::tests::{ALPHA, BETA, Steps, VOCABULARY, check_draws, row, tokens};
    use gaia_core::types::Seed;
    use pulp::Scalar;

    impl<const ROWS: usize> Steps for (DenseSampler, [Lanes; ROWS]) {
        fn hold(&mut self, topic: u32) {
            counts::add(Scalar::new(), &mut self.1, topic as usize);
        }

        fn begin(&mut self, counts: &Counts<'_>) {
            self.0.begin(counts);
        }

        fn enter(&mut self, counts: &Counts<'_>, word: usize) {
            self.0.enter(counts.words[word]);
        }

        fn remove(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32) {
            counts::remove(Scalar::new(), &mut self.1, topic as usize);
            self.0.remove(Scalar::new(), &mut counts.of_word(word), topic as usize);
        }

        fn draw(&mut self, place: f64) -> u32 {
            self.0.draw(Scalar::new(), &self.1, place) as u32
        }

        fn add(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32) {
            self.0.add(Scalar::new(), &mut counts.of_word(word), topic as usize);
            counts::add(Scalar::new(), &mut self.1, topic as usize);
        }
    }

    fn check<const ROWS: usize>(topics: usize) {
        let sampler = DenseSampler::new(topics, VOCABULARY, ALPHA, BETA);
        check_draws(topics, &mut (sampler, [Lanes::ZERO; ROWS]));
    }

    #[test]
    fn every_draw_has_the_distribution_that_a_sampler_over_all_topics_has() {
        for topics in [1, 2, 3, 7, 8] {
            check::<1>(topics);
        }
        check::<2>(16);
        check::<4>(25);
        check::<8>(33);
        for topics in [65, 100, 127, 128] {
            check::<16>(topics);
        }
    }

    /// What is drawn for a batch with some instructions, and the weights at its end.
    fn drawn<S: Simd>(simd: S) -> (Vec<Token>, Vec<Lanes>) {
        let topics = 100;
        let mut random = Seed(1).random();
        let rows: Vec<Vec<f32>> = (0..3).map(|_| row(topics, &mut random)).collect();
        let totals = row(topics, &mut random);
        let mut counts = Counts::new(rows.iter().map(Vec::as_slice).collect(), &totals);
        let mut tokens = tokens(3000, topics, &mut random);
        let mut documents = DenseCounts::new(topics, 2);
        for token in &tokens {
            documents.add(token.document as usize, token.topic);
        }
        let mut sampler = DenseSampler::new(topics, VOCABULARY, ALPHA, BETA);

        let batch = (&mut sampler, &mut *tokens, &mut documents, &mut counts, &mut random);
        Resample::<16>::run(simd, batch);
        (tokens, sampler.weights.same)
    }

    #[test]
    fn all_instructions_draw_the_same_topics() {
        let expected = drawn(Scalar::new());
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(simd) = pulp::x86::V3::try_new() {
                assert_eq!(drawn(simd), expected);
            }
            if let Some(simd) = pulp::x86::V4::try_new() {
                assert_eq!(drawn(simd), expected);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(simd) = pulp::aarch64::Neon::try_new() {
            assert_eq!(drawn(simd), expected);
        }
    }
}
