//! The settings of topic modelling.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::config::{DataConfig, Split, above_zero, count, fits, within};

/// Settings of `kind = "topic-model"`.
///
/// The defaults were chosen on made-up documents and on KOS with 1 to 22 workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicModelConfig {
    /// Topics to find, 1 to 65536.
    pub topics: usize,
    /// The prior weight of each topic in a document, in tokens: low where documents have few topics.
    pub alpha: f64,
    /// The prior weight of each word in a topic, in tokens: low where topics have few words.
    pub beta: f64,
    /// Mini-batches that each worker cuts its documents into; one is one clock.
    pub clocks_per_pass: u64,
    /// The objective is taken over at most this many training documents, a seeded choice.
    pub evaluate_documents: usize,
    pub data: CorpusConfig,
}

/// Where documents come from and which data center each goes to: the `[app.data]` table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorpusConfig {
    /// `synthetic`, which needs no file, or `docword`.
    pub source: DocumentSource,
    /// The file of counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The words, one a line, so that topics can be read; left out, words are numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary_path: Option<PathBuf>,
    /// The share of the documents kept for the held-out metric, above 0 and below 1.
    pub held_out: f64,
    /// Which documents each data center gets; they stay whole. A document's label is the planted topic that it
    /// has most of, or in real data its most frequent word.
    pub split: Split,
    /// The share of each data center's documents that `split` decides, 0 to 1; the rest are dealt evenly.
    pub skew: f64,
    /// Sizes of the generator, for `source = "synthetic"`.
    pub synthetic: TopicGenerator,
}

/// Where documents come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentSource {
    #[default]
    Synthetic,
    /// A `docword` file as the UCI bag-of-words collection has them, plain or gzip.
    Docword,
}

/// Documents drawn from a topic model: the model that is to be found is known.
///
/// How often words occur over all topics follows Zipf's law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicGenerator {
    /// Words that there are.
    pub vocabulary: usize,
    /// Topics behind the documents.
    pub topics: usize,
    /// Documents made, the held-out ones included.
    pub documents: usize,
    /// Tokens of a document, on average.
    pub length: usize,
    /// α of the Dirichlet distribution that a document's topics are drawn from: low for few topics.
    pub topic_concentration: f64,
    /// The mean β of the Dirichlet distribution that a topic's words are drawn from: low for few words.
    pub word_concentration: f64,
}

impl TopicModelConfig {
    /// Checks every key's range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        count("topics", self.topics, 1, TOPICS_MAX)?;
        within("alpha", self.alpha, PRIOR_MIN, PRIOR_MAX)?;
        within("beta", self.beta, PRIOR_MIN, PRIOR_MAX)?;
        if !(1..=CLOCKS_PER_PASS_MAX).contains(&self.clocks_per_pass) {
            let expected = format!("a whole number, 1 to {CLOCKS_PER_PASS_MAX}");
            return Err(ConfigError::new("clocks_per_pass", self.clocks_per_pass, expected));
        }
        count("evaluate_documents", self.evaluate_documents, 1, u32::MAX as usize)?;
        self.data.as_data().validate(&[Split::Even, Split::ByLabel])?;
        self.data.synthetic.validate()
    }
}

impl CorpusConfig {
    /// The settings that documents share with other data.
    fn as_data(&self) -> DataConfig<DocumentSource, ()> {
        DataConfig {
            source: self.source,
            path: self.path.clone(),
            held_out: self.held_out,
            split: self.split,
            skew: self.skew,
            synthetic: (),
        }
    }
}

impl TopicGenerator {
    fn validate(&self) -> Result<(), ConfigError> {
        count("data.synthetic.vocabulary", self.vocabulary, 2, 1 << 24)?;
        count("data.synthetic.topics", self.topics, 1, TOPICS_MAX)?;
        count("data.synthetic.documents", self.documents, 2, 1 << 24)?;
        count("data.synthetic.length", self.length, 1, 1 << 20)?;
        fits("data.synthetic.vocabulary", self.vocabulary, self.topics, "topics")?;
        fits("data.synthetic.documents", self.documents, self.length, "tokens each")?;
        above_zero("data.synthetic.topic_concentration", self.topic_concentration, PRIOR_MAX)?;
        above_zero("data.synthetic.word_concentration", self.word_concentration, PRIOR_MAX)
    }
}

impl Default for TopicModelConfig {
    fn default() -> Self {
        Self {
            topics: 20,
            alpha: 0.1,
            beta: 0.1,
            clocks_per_pass: 4,
            evaluate_documents: 500,
            data: CorpusConfig::default(),
        }
    }
}

impl Default for CorpusConfig {
    fn default() -> Self {
        let DataConfig { source, path, held_out, split, skew, synthetic: () } =
            DataConfig::<DocumentSource, ()>::default();
        let synthetic = TopicGenerator::default();
        Self { source, path, vocabulary_path: None, held_out, split, skew, synthetic }
    }
}

impl Default for TopicGenerator {
    fn default() -> Self {
        Self {
            vocabulary: 1_000,
            topics: 20,
            documents: 2_000,
            length: 80,
            topic_concentration: 0.1,
            word_concentration: 0.05,
        }
    }
}

/// Topics of tokens are 32-bit, and a row of counts must stay far below a frame.
const TOPICS_MAX: usize = 1 << 16;

/// Products of both priors and of counts must not underflow single precision.
const PRIOR_MIN: f64 = 1e-6;
const PRIOR_MAX: f64 = 1e3;

const CLOCKS_PER_PASS_MAX: u64 = 1 << 20;
