//! A trained model over data that it is given: its evaluation, and its predictions.
//!
//! The data is that of one path, whatever data centers the model was trained in. Of a format with test files the test set
//! is taken, since the rest is likely to have trained the model; of others all examples are.

mod classes;
mod given_files;
mod images;
mod predictions;
mod ratings;
mod sparse;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::images::GivenImages;
use self::ratings::GivenRatings;
use self::sparse::GivenSparse;
use crate::error::DataError;
use crate::formats::docword::{read_numbered_docword, read_vocabulary};
use crate::own_data::not_built_in;
use gaia_core::application::{Application, Evaluation, Metric};
use gaia_core::types::{Model, Seed};
use gaia_ml::ConfigError;
use gaia_ml::apps::{
    AppConfig, Completion, ConvolutionalNetworkConfig, PerceptronConfig, SoftmaxRegressionConfig,
    TokenCounts, TopicModel, TopicModelConfig, convolutional_network, perceptron,
    softmax_regression,
};
use gaia_ml::columns::DataSource;
use gaia_ml::config::DataConfig;
use gaia_ml::divided::{Divided, Examples};
use gaia_ml::examples::Documents;
use gaia_ml::kernels::vector::largest;
use gaia_model::TrainedModel;

use self::predictions::check_finite;
pub use given_files::would_be_read;
pub use predictions::{PredictionColumn, PredictionValues, Predictions};

/// A trained model, and examples that it is given.
pub struct TrainedOver {
    given: Given,
    model: Model,
}

/// The application over the examples, which its only worker has, both to train on and held out.
enum Given {
    Ratings(GivenRatings),
    Images(GivenImages),
    Sparse(GivenSparse),
    Documents(GivenDocuments),
}

/// Documents, and the numbers that they have in their files.
struct GivenDocuments {
    topics: TopicModel,
    documents: Documents,
    numbers: Vec<i64>,
    path: PathBuf,
}

impl TrainedOver {
    /// Reads examples as the settings of an application say, for a model that was trained with them. The path is that of the
    /// data, without the name of a data center in it.
    ///
    /// # Errors
    /// [`DataError::Config`] where the settings name no files, [`DataError::Unreadable`] or [`DataError::Broken`] where a
    /// file cannot be used or has what the model does not know, [`DataError::Model`] where the model is not that of the
    /// settings.
    pub fn read(config: &AppConfig, trained: &TrainedModel, seed: Seed) -> Result<Self, DataError> {
        let given = match config {
            AppConfig::MatrixFactorization(config) => {
                let (ratings, model) = ratings::read(config, path(&config.data)?, trained)?;
                return Ok(Self { given: Given::Ratings(ratings), model });
            }
            // The objective is over all examples that are given, and not over the sample that judges a run.
            AppConfig::SoftmaxRegression(config) => {
                let config = SoftmaxRegressionConfig { evaluate_examples: None, ..config.clone() };
                Given::Images(GivenImages::read(&config.data, trained, |images| {
                    Ok(softmax_regression(&config, for_one_worker(images), seed, GIVEN))
                })?)
            }
            AppConfig::Perceptron(config) => {
                let config = PerceptronConfig { evaluate_examples: usize::MAX, ..config.clone() };
                Given::Images(GivenImages::read(&config.data, trained, |images| {
                    Ok(perceptron(&config, for_one_worker(images), seed, GIVEN))
                })?)
            }
            AppConfig::ConvolutionalNetwork(config) => {
                let evaluate_examples = usize::MAX;
                let config = ConvolutionalNetworkConfig { evaluate_examples, ..config.clone() };
                Given::Images(GivenImages::read(&config.data, trained, |images| {
                    config.check_shape(images.shape)?;
                    Ok(convolutional_network(&config, for_one_worker(images), seed, GIVEN))
                })?)
            }
            AppConfig::LogisticRegression(config) => {
                Given::Sparse(GivenSparse::read(config, trained)?)
            }
            AppConfig::TopicModel(config) => documents(config, seed)?,
            AppConfig::External(_) => return Err(not_built_in().into()),
        };
        let application = given.application();
        let model = trained.model(application.layout(), &application.attachments())?;
        Ok(Self { given, model })
    }

    /// The number of examples.
    pub fn examples(&self) -> usize {
        match &self.given {
            Given::Ratings(ratings) => ratings.given.len(),
            Given::Images(images) => images.len(),
            Given::Sparse(examples) => examples.len(),
            Given::Documents(given) => given.documents.len(),
        }
    }

    /// The objective and the metric of the model over the examples.
    ///
    /// # Errors
    /// [`DataError::Broken`] where there is an example without the value that is to be predicted.
    pub fn evaluate(&self) -> Result<Evaluation, DataError> {
        match &self.given {
            Given::Ratings(ratings) => ratings.check_values()?,
            Given::Images(images) => images.check_labels()?,
            Given::Sparse(examples) => examples.check_labels()?,
            Given::Documents(_) => {}
        }
        let evaluated = self.given.application().evaluate(&self.model);
        evaluated.map_err(|error| DataError::Application(error.into_inner()))
    }

    /// What the metric is.
    pub fn metric(&self) -> Metric {
        self.given.application().metric()
    }

    /// What the model predicts of each example.
    ///
    /// # Errors
    /// [`DataError::Broken`] where there is an example of which the model predicts no finite number.
    pub fn predictions(&self) -> Result<Predictions, DataError> {
        match &self.given {
            Given::Ratings(ratings) => ratings.predictions(&self.model),
            Given::Images(images) => images.predictions(&self.model),
            Given::Sparse(examples) => examples.predictions(&self.model),
            Given::Documents(given) => given.predictions(&self.model),
        }
    }
}

impl Given {
    fn application(&self) -> &dyn Application {
        match self {
            Self::Ratings(ratings) => &ratings.application,
            Self::Images(images) => &images.network,
            Self::Sparse(examples) => &examples.regression,
            Self::Documents(given) => &given.topics,
        }
    }
}

impl GivenDocuments {
    /// The numbers of the documents, their largest topics, and the share of each topic.
    fn predictions(&self, model: &Model) -> Result<Predictions, DataError> {
        let Self { topics, documents, numbers, path } = self;
        let shares = topics.shares(model, documents);
        let width = shares.len().checked_div(documents.len()).unwrap_or(1).max(1);
        check_finite(&shares, width, path, |at| format!("document {}", numbers[at]))?;
        let most = shares.chunks_exact(width).map(|row| largest(row) as i64 + 1).collect();
        let columns = vec![
            ("document".into(), PredictionValues::Integers(numbers.clone())),
            ("topic".into(), PredictionValues::Integers(most)),
        ];
        Ok(Predictions::new(columns).with_each(|topic| format!("share.{}", topic + 1), &shares))
    }
}

fn documents(config: &TopicModelConfig, seed: Seed) -> Result<Given, DataError> {
    let data = config.data.as_data();
    let path = path(&data)?.to_owned();
    let (documents, numbers) = read_numbered_docword(&path)?;
    let words = config.data.vocabulary_path.as_deref();
    let vocabulary = words.map(|words| read_vocabulary(words, documents.vocabulary)).transpose()?;
    let divided = for_one_worker(documents.clone());
    let held_out = Completion::new(&divided.test, &divided.test_parts, seed.child("completion"));
    let counts = TokenCounts::of(&documents);
    let config = TopicModelConfig { evaluate_documents: usize::MAX, ..config.clone() };
    let topics = TopicModel::new(config, divided, held_out, counts, vocabulary, seed, GIVEN);
    Ok(Given::Documents(GivenDocuments { topics, documents, numbers, path }))
}

/// Where the data is.
fn path<S: DataSource, G: Clone + Default>(data: &DataConfig<S, G>) -> Result<&Path, ConfigError> {
    if data.source == S::default() {
        let expected = "the format of the files";
        return Err(ConfigError::new("data.source", "synthetic", expected));
    }
    let missing = || ConfigError::new("data.path", "missing", "the path of the data files");
    data.path.as_deref().ok_or_else(missing)
}

fn for_one_worker<E: Examples + Clone>(examples: E) -> Divided<E> {
    let all: Arc<[u32]> = (0..examples.len() as u32).collect();
    Divided::new(examples.clone(), examples, vec![all])
}

/// What the data is called in the description of an application.
const GIVEN: &str = "given data";
