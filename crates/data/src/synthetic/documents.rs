//! Documents drawn from a topic model.

use rand::RngExt;
use rand_distr::{Distribution, Gamma, Poisson};

use crate::homes::split::held_out_count;
use gaia_core::types::{Random, Seed};
use gaia_ml::apps::TopicGenerator;
use gaia_ml::examples::Documents;

/// Synthetic documents, and the model that generated them.
#[derive(Clone, Debug)]
pub struct GeneratedDocuments {
    /// The documents to train on.
    pub train: Documents,
    /// The held-out documents.
    pub test: Documents,
    /// The most frequent topic of each training document.
    pub labels: Vec<u32>,
    /// For each word its probability under each topic: `vocabulary × topics`.
    pub words: Vec<f32>,
}

/// Documents of a latent Dirichlet allocation (Blei, Ng and Jordan, JMLR 3, 2003), the held-out ones drawn first.
///
/// A topic's words come from a Dirichlet distribution around Zipf's law, so that topics share frequent words and
/// differ in the rest; lengths have a Poisson distribution, and no document is empty.
pub fn documents(config: &TopicGenerator, held_out: f64, seed: Seed) -> GeneratedDocuments {
    let (vocabulary, topics) = (config.vocabulary, config.topics);
    let mut random = seed.child("topics").random();
    let zipf: f64 = (0..vocabulary).map(|word| 1.0 / (word as f64 + ZIPF_SHIFT)).sum();
    let scale = config.word_concentration * vocabulary as f64 / zipf;
    let priors: Vec<f64> = (0..vocabulary).map(|word| scale / (word as f64 + ZIPF_SHIFT)).collect();
    let of_topics: Vec<Vec<f64>> = (0..topics).map(|_| dirichlet(&priors, &mut random)).collect();
    let mut words = vec![0.0; vocabulary * topics];

    for (topic, of_topic) in of_topics.iter().enumerate() {
        for (word, probability) in of_topic.iter().enumerate() {
            words[word * topics + topic] = *probability as f32;
        }
    }

    let word_sums: Vec<Vec<f64>> = of_topics.iter().map(|of_topic| sums(of_topic)).collect();

    let mut random = seed.child("documents").random();
    let priors = vec![config.topic_concentration; topics];
    let length = Poisson::new(config.length as f64).expect("a checked length is above 0");
    let (mut train, mut test) = (Documents::empty(vocabulary), Documents::empty(vocabulary));
    let mut labels = Vec::new();
    let tests = held_out_count(config.documents, held_out);

    for document in 0..config.documents {
        let shares = dirichlet(&priors, &mut random);
        let share_sums = sums(&shares);
        let length = (length.sample(&mut random) as usize).max(1);
        let mut tokens: Vec<u32> = (0..length)
            .map(|_| {
                let topic = draw(&share_sums, &mut random);
                draw(&word_sums[topic], &mut random) as u32
            })
            .collect();

        if document < tests {
            test.push_tokens(&mut tokens);
        } else {
            train.push_tokens(&mut tokens);
            labels.push(most(&shares) as u32);
        }
    }

    GeneratedDocuments { train, test, labels, words }
}

/// Probabilities from a Dirichlet distribution, as Gamma variates over their sum.
fn dirichlet(priors: &[f64], random: &mut Random) -> Vec<f64> {
    let mut drawn: Vec<f64> = priors
        .iter()
        .map(|&prior| {
            let gamma = Gamma::new(prior, 1.0).expect("checked concentrations are above 0");
            gamma.sample(random)
        })
        .collect();
    let sum: f64 = drawn.iter().sum();
    if sum > 0.0 {
        drawn.iter_mut().for_each(|share| *share /= sum);
    } else {
        // Such low concentrations underflow. All weight then goes to one component.
        let one = random.random_range(0..drawn.len());
        drawn[one] = 1.0;
    }
    drawn
}

fn sums(shares: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |share: &f64| {
        sum += share;
        sum
    };
    shares.iter().map(add).collect()
}

fn draw(sums: &[f64], random: &mut Random) -> usize {
    let place = sums[sums.len() - 1] * random.random::<f64>();
    sums.partition_point(|&sum| sum <= place).min(sums.len() - 1)
}

/// The position of the largest share. Of equal ones the first.
fn most(shares: &[f64]) -> usize {
    (0..shares.len()).rev().max_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap_or(0)
}

/// Added to a word's rank, so that the first few words are not most of every document.
const ZIPF_SHIFT: f64 = 10.0;
