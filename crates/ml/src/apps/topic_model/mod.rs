//! Topic modelling: latent Dirichlet allocation (Blei, Ng and Jordan, JMLR 3, 2003) by collapsed Gibbs sampling,
//! distributed as AD-LDA is (Newman, Asuncion, Smyth and Welling, JMLR 10, 2009).
//!
//! The model counts tokens: how many of each word have each topic, and how many in all. Each clock a worker draws
//! the topics of one mini-batch of its documents again, given the counts that it read and its own changes to them, and
//! returns the changes. Which token has which topic stays with the worker, so neither documents nor their topics
//! leave their data center. Workers that sample at the same time do not see each other's changes until the next
//! clock, which for counts over many documents makes no difference that matters. Data centers that hear little of
//! each other while topics are still undecided may number them differently, and take long to agree: counts that are
//! read should be behind by less than a pass.
//!
//! Counts are whole numbers and exact up to 2²⁴. In a copy that lacks some updates they may be inconsistent or below 0;
//! sampler and evaluation take what is below 0 for 0.

mod config;
mod likelihood;
mod resampling;

use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;

pub use config::{CorpusConfig, DocumentSource, TopicGenerator, TopicModelConfig};
pub use likelihood::{Completion, WordProbabilities};

use self::resampling::Resampling;
use crate::examples::{Documents, Parts};
use gaia_core::application::{Application, Direction, Evaluation, Metric, Task};
use gaia_core::types::{Clock, Model, ModelLayout, Seed, TableId, TableLayout};

/// The application: documents partitioned over workers.
pub struct TopicModel {
    shared: Arc<Shared>,
    parts: Parts,
    held_out: Completion,
    /// The training documents that the objective is taken over, ascending.
    evaluated: Vec<u32>,
    /// What the words are, where that is known.
    vocabulary: Option<Vec<String>>,
    summary: String,
}

/// The data that the tasks of all workers share.
struct Shared {
    config: TopicModelConfig,
    layout: Arc<ModelLayout>,
    train: Documents,
    /// What the topics that training starts from are drawn from.
    seed: Seed,
}

impl TopicModel {
    /// Documents partitioned over workers by `parts`; `vocabulary` names the words where it is known, and `data` says in a
    /// few words where they come from.
    ///
    /// # Panics
    ///
    /// Where `train` is empty, `parts` do not name each of its documents once, or `vocabulary` does not have a name for
    /// every word.
    pub fn new(
        config: TopicModelConfig,
        train: Documents,
        held_out: Completion,
        parts: Parts,
        vocabulary: Option<Vec<String>>,
        seed: Seed,
        data: &str,
    ) -> Self {
        assert!(!train.is_empty());
        assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), train.len());
        assert!(vocabulary.as_ref().is_none_or(|names| names.len() == train.vocabulary));

        let width = config.topics;
        let layout = Arc::new(ModelLayout::new(vec![
            TableLayout { name: "word-topic".into(), rows: train.vocabulary, width },
            TableLayout { name: "topics".into(), rows: 1, width },
        ]));
        let mut evaluated: Vec<u32> = (0..train.len() as u32).collect();

        evaluated.shuffle(&mut seed.child("evaluate").random());
        evaluated.truncate(config.evaluate_documents);
        evaluated.sort_unstable();

        let summary = format!(
            "{} topics of {data}: {} words, {} documents of {} tokens and {} held out, {} parameters",
            config.topics,
            train.vocabulary,
            train.len(),
            train.token_count(),
            held_out.len(),
            layout.parameters(),
        );
        let seed = seed.child("topics");
        let shared = Arc::new(Shared { config, layout, train, seed });

        Self { shared, parts, held_out, evaluated, vocabulary, summary }
    }
}

impl Application for TopicModel {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.shared.layout
    }

    /// The counts of the topics that all workers start from. Those are drawn from the data's seed, since the model
    /// and every worker must know the same ones; `seed` changes nothing.
    fn initial_model(&self, _seed: Seed) -> Model {
        let shared = &self.shared;
        let mut model = Model::zeros(shared.layout.clone());
        for document in 0..shared.train.len() {
            for (word, topic) in shared.train.tokens(document).zip(shared.first_topics(document)) {
                model.row_mut(WORD_TOPIC, word as usize)[topic as usize] += 1.0;
                model.row_mut(TOPICS, 0)[topic as usize] += 1.0;
            }
        }
        model
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        Box::new(Resampling::new(self.shared.clone(), self.parts[worker].clone(), seed))
    }

    /// Minus the log-likelihood per token of training documents, and the perplexity of held-out ones that are half
    /// seen, both given the copy's words by topic and nothing else.
    fn evaluate(&self, model: &Model) -> Evaluation {
        let TopicModelConfig { topics, alpha, beta, .. } = self.shared.config;
        let words = WordProbabilities::from_counts(topics, model.table(WORD_TOPIC), beta);
        let train = &self.shared.train;
        Evaluation {
            objective: words.negative_log_likelihood(train, &self.evaluated, alpha),
            metric: words.perplexity(&self.held_out, alpha),
        }
    }

    fn metric(&self) -> Metric {
        Metric { name: "perplexity", direction: Direction::Lower }
    }

    /// Always 1: sampling has no learning rate.
    fn learning_rate_factor(&self, _clock: Clock) -> f64 {
        1.0
    }

    /// A delta takes a token from one topic and gives it to another.
    fn deltas_are_counts(&self) -> bool {
        true
    }

    fn clocks_per_pass(&self) -> u64 {
        self.shared.config.clocks_per_pass
    }

    fn describe(&self) -> String {
        self.summary.clone()
    }

    /// The most frequent words of every topic, topics with most tokens first.
    fn highlights(&self, model: &Model) -> Vec<String> {
        let name = |word: u32| match &self.vocabulary {
            Some(names) => names[word as usize].clone(),
            // As files and their readers count words.
            None => format!("word-{}", u64::from(word) + 1),
        };
        let tokens: Vec<f64> =
            model.row(TOPICS, 0).iter().map(|&count| f64::from(count.max(0.0))).collect();
        let all = tokens.iter().sum::<f64>().max(1.0);
        let mut topics: Vec<usize> = (0..tokens.len()).collect();
        topics.sort_by(|&a, &b| tokens[b].total_cmp(&tokens[a]));
        let top = top_words(model, WORDS_SHOWN);
        let line = |&topic: &usize| {
            let words: Vec<String> = top[topic].iter().map(|&word| name(word)).collect();
            let share = 100.0 * tokens[topic] / all;
            format!("topic {:<5} {share:>5.1} %  {}", topic + 1, words.join(" "))
        };
        topics.iter().map(line).collect()
    }
}

/// The most frequent words of each topic of a topic model, at most `most` that occur at all: the most frequent first,
/// of equals the one with the lower number.
pub fn top_words(model: &Model, most: usize) -> Vec<Vec<u32>> {
    let topics = model.layout().table(WORD_TOPIC).width;
    let counts = model.table(WORD_TOPIC);
    let of_topic = |topic: usize| {
        let column = counts.chunks_exact(topics).map(|row| row[topic]);
        let mut words: Vec<(f32, u32)> =
            column.zip(0..).filter(|(count, _)| *count > 0.0).collect();
        words.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
        words.iter().take(most).map(|(_, word)| *word).collect()
    };
    (0..topics).map(of_topic).collect()
}

impl Shared {
    /// The topics that a document's tokens start with: drawn at random, all equally likely.
    fn first_topics(&self, document: usize) -> impl Iterator<Item = u32> {
        let mut random = self.seed.nth(document).random();
        let topics = self.config.topics as u32;
        std::iter::repeat_with(move || random.random_range(0..topics))
    }
}

const WORD_TOPIC: TableId = TableId(0);
const TOPICS: TableId = TableId(1);

/// Words that a highlight shows of each topic.
const WORDS_SHOWN: usize = 10;
