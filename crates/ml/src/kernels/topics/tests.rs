//! What holds for both samplers.

use rand::RngExt;

use super::*;
use gaia_core::types::Seed;

/// A sampler of the tokens of one document, step by step.
pub(super) trait Steps {
    /// Counts a token of the document that `counts` has already.
    fn hold(&mut self, topic: u32);
    fn begin(&mut self, counts: &Counts<'_>);
    fn enter(&mut self, counts: &Counts<'_>, word: usize);
    fn remove(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32);
    /// The topic at a place of the distribution.
    fn draw(&mut self, place: f64) -> u32;
    fn add(&mut self, counts: &mut Counts<'_>, word: usize, topic: u32);
}

/// Checks that every draw has the distribution that the textbook's sampler has.
pub(super) fn check_draws(topics: usize, sampler: &mut impl Steps) {
    const PLACES: u32 = 4000;

    let mut random = Seed(topics as u64).random();
    let rows: Vec<Vec<f32>> = (0..4).map(|_| row(topics, &mut random)).collect();
    let totals = row(topics, &mut random);
    let mut counts = Counts::new(rows.iter().map(Vec::as_slice).collect(), &totals);
    let mut has: Vec<u32> = (0..12).map(|_| random.random_range(0..topics as u32)).collect();

    for &topic in &has {
        sampler.hold(topic);
    }
    sampler.begin(&counts);

    for turn in 0..40 {
        let word = turn / 10;
        if turn % 10 == 0 {
            sampler.enter(&counts, word);
        }

        let topic = has.swap_remove(random.random_range(0..has.len()));
        sampler.remove(&mut counts, word, topic);

        let mut drawn = vec![0.0; topics];
        for place in 0..PLACES {
            let place = (f64::from(place) + 0.5) / f64::from(PLACES);
            drawn[sampler.draw(place) as usize] += 1.0 / f64::from(PLACES);
        }

        for (drawn, exact) in drawn.iter().zip(textbook(&counts, word, &has)) {
            // A topic has at most two stretches of places.
            assert!((drawn - exact).abs() < 2.1 / f64::from(PLACES), "{topics} {drawn} {exact}");
        }

        let topic = sampler.draw(random.random());
        has.push(topic);
        sampler.add(&mut counts, word, topic);
    }
}

/// The textbook's distribution of a token of `word` that is not counted.
fn textbook(counts: &Counts<'_>, word: usize, has: &[u32]) -> Vec<f64> {
    let topics = counts.totals.len();
    let weight = |topic: usize| {
        let here = has.iter().filter(|&&other| other as usize == topic).count() as f64;
        let of_word = counts.words[word][topic] + counts.word_changes[word * topics + topic];
        let total = counts.totals[topic] + counts.total_changes[topic];
        (here + ALPHA) * (f64::from(of_word.max(0.0)) + BETA)
            / (f64::from(total.max(0.0)) + BETA * VOCABULARY as f64)
    };
    let weights: Vec<f64> = (0..topics).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Counts as stale as they come: some missing, some below 0, some no whole numbers.
pub(super) fn row(topics: usize, random: &mut Random) -> Vec<f32> {
    let count = |_| match random.random_range(0..4) {
        0 => 0.0,
        1 => -1.5,
        2 => random.random_range(0..20) as f32,
        _ => 0.25,
    };
    (0..topics).map(count).collect()
}

/// So many tokens of three words in two documents.
pub(super) fn tokens(count: u32, topics: usize, random: &mut Random) -> Vec<Token> {
    let token = |at| {
        let topic = random.random_range(0..topics as u32);
        Token { word: 3 * at / count, document: at % 2, topic }
    };
    (0..count).map(token).collect()
}

#[test]
fn changes_are_whole_and_move_every_token_from_one_topic_to_one() {
    for topics in [40, 300] {
        let mut random = Seed(1).random();
        let rows: Vec<Vec<f32>> = (0..3).map(|_| row(topics, &mut random)).collect();
        let totals = row(topics, &mut random);
        let mut counts = Counts::new(rows.iter().map(Vec::as_slice).collect(), &totals);
        let mut tokens = tokens(30, topics, &mut random);
        let mut documents = DocumentTopics::new(topics, 2);
        for token in &tokens {
            documents.add(token.document as usize, token.topic);
        }
        let before = tokens.clone();
        let mut sampler = TopicSampler::new(topics, VOCABULARY, ALPHA, BETA);

        sampler.resample(&mut tokens, &mut documents, &mut counts, &mut random);

        let mut word_changes = vec![0.0; 3 * topics];
        let mut total_changes = vec![0.0; topics];
        let mut held = vec![0; 2 * topics];
        for (token, by) in before.iter().map(|t| (t, -1.0)).chain(tokens.iter().map(|t| (t, 1.0))) {
            word_changes[token.word as usize * topics + token.topic as usize] += by;
            total_changes[token.topic as usize] += by;
        }
        for token in &tokens {
            held[token.document as usize * topics + token.topic as usize] += 1;
        }

        assert_eq!(counts.word_changes, word_changes);
        assert_eq!(counts.total_changes, total_changes);
        for (at, count) in held.into_iter().enumerate() {
            assert_eq!(documents.count(at / topics, (at % topics) as u32), count);
        }
        assert_ne!(before, tokens);
    }
}

#[test]
#[should_panic(expected = "a document has the topics of its tokens")]
fn a_token_whose_topic_its_document_does_not_have_is_our_own_mistake() {
    let totals = [1.0; 2];
    let mut counts = Counts::new(vec![&totals], &totals);
    let mut tokens = [Token { word: 0, document: 0, topic: 1 }];
    let mut documents = DocumentTopics::new(2, 1);
    documents.add(0, 0);
    let mut sampler = TopicSampler::new(2, VOCABULARY, ALPHA, BETA);

    sampler.resample(&mut tokens, &mut documents, &mut counts, &mut Seed(1).random());
}

pub(super) const VOCABULARY: usize = 50;
pub(super) const ALPHA: f64 = 0.3;
pub(super) const BETA: f64 = 0.02;
