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
mod token_topics;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

pub use config::{CorpusConfig, DocumentSource, TopicGenerator, TopicModelConfig};
pub use likelihood::{Completion, WordProbabilities};

use self::resampling::Resampling;
use crate::apps::sampled::Sampled;
use crate::divided::Divided;
use crate::examples::Documents;
use gaia_core::application::{
    Aggregation, Application, ApplicationError, Attachment, Direction, EvaluationSums, Metric,
    Task, TrivialPredictor,
};
use gaia_core::types::{Clock, Model, ModelLayout, Seed, TableId, TableLayout};

/// The application: documents partitioned over workers.
pub struct TopicModel {
    shared: Arc<Shared>,
    held_out: Completion,
    /// The training documents of each worker that the objective is taken over.
    evaluated: Sampled,
    /// What the words are, where that is known.
    vocabulary: Option<Vec<String>>,
    summary: String,
}

/// How often each word occurs in the training documents of a run.
///
/// The tokens of a word are numbered over all data centers. Their numbers decide which topics they start with, so that
/// nodes know the counts that the model starts from without knowing each other's documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// In all data centers.
    pub total: Vec<u64>,
    /// In the data centers before those whose documents this process has.
    pub before: Vec<u64>,
    /// Of each worker of the run whose documents are stored: in those data centers, and in the stored documents of the
    /// workers before. Of other workers nothing.
    pub before_stored: Vec<Vec<u64>>,
}

/// The data that the tasks of all workers share.
struct Shared {
    config: TopicModelConfig,
    layout: Arc<ModelLayout>,
    documents: Divided<Documents>,
    counts: TokenCounts,
    /// What the topics that training starts from are drawn from.
    seed: Seed,
}

impl TopicModel {
    /// Documents divided among workers, the held-out ones cut in two by `held_out`; `vocabulary` names the words where it
    /// is known, and `data` says in a few words where they come from.
    ///
    /// # Panics
    ///
    /// Where there is no training document, `counts` are of other words, or `vocabulary` does not have a name for every
    /// word.
    pub fn new(
        config: TopicModelConfig,
        documents: Divided<Documents>,
        held_out: Completion,
        counts: TokenCounts,
        vocabulary: Option<Vec<String>>,
        seed: Seed,
        data: &str,
    ) -> Self {
        let Divided { train, train_total, test_total, .. } = &documents;
        assert!(*train_total > 0);
        assert_eq!((counts.total.len(), counts.before.len()), (train.vocabulary, train.vocabulary));
        assert!(vocabulary.as_ref().is_none_or(|names| names.len() == train.vocabulary));

        let width = config.topics;
        let layout = Arc::new(ModelLayout::new(vec![
            TableLayout { name: "word-topic".into(), rows: train.vocabulary, width },
            TableLayout { name: "topics".into(), rows: 1, width },
        ]));
        let most = config.evaluate_documents;
        let evaluated = Sampled::new(&documents, most, seed.child("evaluate"));

        let summary = format!(
            "{} topics of {data}: {} words, {train_total} documents of {} tokens and {test_total} held out, {} parameters",
            config.topics,
            train.vocabulary,
            counts.total.iter().sum::<u64>(),
            layout.parameters(),
        );
        let seed = seed.child("topics");
        let shared = Arc::new(Shared { config, layout, documents, counts, seed });

        Self { shared, held_out, evaluated, vocabulary, summary }
    }
}

impl Application for TopicModel {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.shared.layout
    }

    fn workers(&self) -> usize {
        self.shared.documents.workers()
    }

    /// The counts of the topics that all workers start from. Those are drawn from the data's seed, since the model
    /// and every worker must know the same ones; `seed` changes nothing.
    fn initial_model(&self, _seed: Seed) -> Model {
        let shared = &self.shared;
        let mut model = Model::zeros(shared.layout.clone());
        let topics = shared.config.topics;
        let rows = model.table_mut(WORD_TOPIC).par_chunks_exact_mut(topics).enumerate();
        rows.for_each(|(word, row)| {
            for number in 0..shared.counts.total[word] {
                row[shared.first_topic(word as u32, number) as usize] += 1.0;
            }
        });

        let mut totals = vec![0.0_f64; topics];
        for row in model.table(WORD_TOPIC).chunks_exact(topics) {
            totals.iter_mut().zip(row).for_each(|(total, count)| *total += f64::from(*count));
        }
        let row = model.row_mut(TOPICS, 0);
        row.iter_mut().zip(totals).for_each(|(count, total)| *count = total as f32);
        model
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        Box::new(Resampling::new(self.shared.clone(), worker, seed))
    }

    /// Minus the log-likelihood per token of training documents, and of the unseen halves of held-out ones, both given the
    /// copy's words by topic and nothing else.
    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        let TopicModelConfig { topics, alpha, beta, .. } = self.shared.config;
        let words = WordProbabilities::from_counts(topics, model.table(WORD_TOPIC), beta);
        let documents = &self.shared.documents;
        let of_worker = |worker: usize| {
            let mut sums = EvaluationSums::default();
            for piece in self.evaluated.pieces(documents, worker) {
                sums.objective += piece.visit(|documents, chosen| {
                    words.negative_log_likelihood(documents, chosen, alpha)
                })?;
            }
            sums.objective = sums.objective.scaled_to(documents.train_weight(worker) as f64);
            for piece in documents.test_pieces(worker..worker + 1, usize::MAX) {
                sums.metric += piece.visit(|documents, chosen| match piece.first_stored() {
                    None => words.of_unseen(&self.held_out, chosen, alpha),
                    Some(first) => {
                        let held_out = self.held_out.of_stored(documents, worker, first);
                        words.of_unseen(&held_out, chosen, alpha)
                    }
                })?;
            }
            Ok(sums)
        };
        let all = workers.into_par_iter().map(of_worker);
        let all = all.collect::<Result<Vec<EvaluationSums>, ApplicationError>>()?;
        Ok(all.into_iter().sum())
    }

    /// Where all topics have the same words, each word is as frequent in every document as in all.
    fn trivial_predictor(&self) -> Result<Option<TrivialPredictor>, ApplicationError> {
        if !self.shared.documents.is_whole() {
            return Ok(None);
        }
        let mut model = Model::zeros(self.shared.layout.clone());
        let topics = self.shared.config.topics;
        let rows = model.table_mut(WORD_TOPIC).chunks_exact_mut(topics);
        for (row, count) in rows.zip(&self.shared.counts.total) {
            row.fill((*count as f64 / topics as f64) as f32);
        }
        let evaluation = self.evaluate(&model)?;
        Ok(Some(TrivialPredictor { name: "word frequencies".into(), evaluation }))
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::ExpMean, Direction::Lower);
        Metric { name: "perplexity".into(), aggregation, direction }
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

    fn attachments(&self) -> BTreeMap<String, Attachment> {
        let words = self.vocabulary.iter();
        words.map(|words| (WORD_NAMES.to_owned(), Attachment::Texts(words.clone()))).collect()
    }

    fn describe(&self) -> String {
        self.summary.clone()
    }

    fn data_digest(&self) -> Option<u64> {
        self.shared.documents.digest
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

impl TopicModel {
    /// The share of each topic in each of some documents, documents × topics: the estimate of [`WordProbabilities`].
    pub fn shares(&self, model: &Model, documents: &Documents) -> Vec<f32> {
        let TopicModelConfig { topics, alpha, beta, .. } = self.shared.config;
        let words = WordProbabilities::from_counts(topics, model.table(WORD_TOPIC), beta);
        words.shares(documents, alpha)
    }
}

impl TokenCounts {
    /// The counts of documents that are all in this process.
    pub fn of(train: &Documents) -> Self {
        let (total, before) = (train.count_words(), vec![0; train.vocabulary]);
        Self { total, before, before_stored: Vec::new() }
    }
}

impl Shared {
    /// The topic that a token starts with, by its number among those of its word: drawn at random, all equally likely.
    fn first_topic(&self, word: u32, number: u64) -> u32 {
        let draw = self.seed.nth(word as usize).nth(number as usize).0;
        ((u128::from(draw) * self.config.topics as u128) >> 64) as u32
    }
}

const WORD_TOPIC: TableId = TableId(0);
const TOPICS: TableId = TableId(1);

/// The attachment with the words.
const WORD_NAMES: &str = "word-topic.names";

/// Words that a highlight shows of each topic.
const WORDS_SHOWN: usize = 10;
