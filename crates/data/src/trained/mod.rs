//! A trained model over data that it is given: its evaluation, and its predictions.
//!
//! The data is that of one path, whatever data centers the model was trained in. Of a format with test files the test set
//! is taken, since the rest is likely to have trained the model; of others all examples are.

mod predictions;
mod ratings;
mod write;

use std::path::Path;
use std::sync::Arc;

use self::ratings::GivenRatings;
use super::docword::{read_docword, read_vocabulary};
use super::error::{DataError, FilePosition};
use super::images::read_folders;
use super::libsvm::read_libsvm;
use gaia_core::application::{Application, Attachment, Evaluation, Metric};
use gaia_core::types::{Model, Seed};
use gaia_ml::ConfigError;
use gaia_ml::apps::{
    AppConfig, CLASSES, Completion, ImageSource, LogisticRegression, LogisticRegressionConfig,
    Network, TokenCounts, TopicModel, TopicModelConfig, convolutional_network, perceptron,
    softmax_regression,
};
use gaia_ml::config::DataConfig;
use gaia_ml::divided::{Divided, Examples};
use gaia_ml::examples::{DenseExamples, Documents, SparseExamples};
use gaia_model::TrainedModel;

pub use predictions::{PredictionColumn, PredictionValues, Predictions};
pub use write::{PredictionFormat, WriteError};

/// A trained model, and examples that it is given.
pub struct TrainedOver {
    given: Given,
    model: Model,
}

/// The application over the examples, which its only worker has, both to train on and held out.
enum Given {
    Ratings(GivenRatings),
    Images(Network, DenseExamples),
    Sparse(LogisticRegression, SparseExamples),
    Documents(TopicModel, Documents),
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
            AppConfig::SoftmaxRegression(config) => {
                let images = images(&config.data, trained)?;
                let divided = for_one_worker(images.clone());
                Given::Images(softmax_regression(config, divided, seed, GIVEN), images)
            }
            AppConfig::Perceptron(config) => {
                let images = images(&config.data, trained)?;
                let divided = for_one_worker(images.clone());
                Given::Images(perceptron(config, divided, seed, GIVEN), images)
            }
            AppConfig::ConvolutionalNetwork(config) => {
                let images = images(&config.data, trained)?;
                config.check_shape(images.shape)?;
                let divided = for_one_worker(images.clone());
                Given::Images(convolutional_network(config, divided, seed, GIVEN), images)
            }
            AppConfig::LogisticRegression(config) => sparse(config, trained)?,
            AppConfig::TopicModel(config) => documents(config, seed)?,
        };
        let application = given.application();
        let model = trained.model(application.layout(), &application.attachments())?;
        Ok(Self { given, model })
    }

    /// The number of examples.
    pub fn examples(&self) -> usize {
        match &self.given {
            Given::Ratings(ratings) => ratings.given.len(),
            Given::Images(_, images) => images.len(),
            Given::Sparse(_, examples) => examples.len(),
            Given::Documents(_, documents) => documents.len(),
        }
    }

    /// The objective and the metric of the model over the examples.
    ///
    /// # Errors
    /// [`DataError::Broken`] where there is an example without the value that is to be predicted.
    pub fn evaluate(&self) -> Result<Evaluation, DataError> {
        if let Given::Ratings(ratings) = &self.given {
            ratings.check_values()?;
        }
        Ok(self.given.application().evaluate(&self.model))
    }

    /// What the metric is.
    pub fn metric(&self) -> Metric {
        self.given.application().metric()
    }

    /// What the model predicts of each example.
    pub fn predictions(&self) -> Predictions {
        match &self.given {
            Given::Ratings(ratings) => ratings.predictions(&self.model),
            Given::Images(network, images) => {
                let probabilities = network.probabilities(&self.model, images);
                let classes = probabilities.chunks_exact(images.classes).map(largest).collect();
                let labels = images.labels.iter().map(|&label| i64::from(label)).collect();
                Predictions::new(vec![
                    numbers("example", 0, images.len()),
                    ("label".into(), PredictionValues::Integers(labels)),
                    ("class".into(), PredictionValues::Integers(classes)),
                ])
                .with_each(|class| format!("probability.{class}"), &probabilities)
            }
            Given::Sparse(regression, examples) => {
                let probabilities = regression.probabilities(&self.model, examples);
                let class = |is_positive: bool| if is_positive { 1 } else { -1 };
                let labels = examples.labels.iter().map(|&label| class(label > 0.0)).collect();
                let classes = probabilities.iter().map(|&one| class(one > 0.5)).collect();
                Predictions::new(vec![
                    numbers("example", 0, examples.len()),
                    ("label".into(), PredictionValues::Integers(labels)),
                    ("class".into(), PredictionValues::Integers(classes)),
                    ("probability".into(), PredictionValues::Floats(probabilities)),
                ])
            }
            Given::Documents(topics, documents) => {
                let shares = topics.shares(&self.model, documents);
                let width = shares.len().checked_div(documents.len()).unwrap_or(1).max(1);
                let most = shares.chunks_exact(width).map(|row| largest(row) + 1).collect();
                Predictions::new(vec![
                    numbers("document", 1, documents.len()),
                    ("topic".into(), PredictionValues::Integers(most)),
                ])
                .with_each(|topic| format!("share.{}", topic + 1), &shares)
            }
        }
    }
}

impl Given {
    fn application(&self) -> &dyn Application {
        match self {
            Self::Ratings(ratings) => &ratings.application,
            Self::Images(network, _) => network,
            Self::Sparse(regression, _) => regression,
            Self::Documents(topics, _) => topics,
        }
    }
}

/// Reads images, of the classes that the model knows.
fn images<G: Clone + Default>(
    data: &DataConfig<ImageSource, G>,
    trained: &TrainedModel,
) -> Result<DenseExamples, DataError> {
    let path = path(data)?;
    let (train, test) = read_folders(path, data.source)?;
    let mut images = if test.is_empty() { train } else { test };
    let classes = match trained.attachments.get(CLASSES) {
        Some(Attachment::Integers(classes)) if classes.len() == 1 => classes[0],
        _ => images.classes as u64,
    };
    let unknown = images.labels.iter().position(|&label| u64::from(label) >= classes);
    if let Some(place) = unknown {
        let found = format!("the label {} of example {place}", images.labels[place]);
        let expected = format!("one of the {classes} classes of {}", trained.file.display());
        return Err(DataError::broken(path, FilePosition::Whole, found, expected));
    }
    images.classes = classes as usize;
    Ok(images)
}

/// Reads sparse examples. Features that the model does not know are left out.
fn sparse(config: &LogisticRegressionConfig, trained: &TrainedModel) -> Result<Given, DataError> {
    let (all, _) = read_libsvm(path(&config.data)?)?;
    let width = trained.tables.get("weights").map_or(all.width, |weights| weights.rows);
    let mut known = SparseExamples::empty(width);
    for example in 0..all.len() {
        let (columns, values) = all.example(example);
        let count = columns.partition_point(|&column| (column as usize) < width);
        known.push(&columns[..count], &values[..count], all.labels[example]);
    }
    let divided = for_one_worker(known.clone());
    Ok(Given::Sparse(LogisticRegression::new(config.clone(), divided, GIVEN), known))
}

fn documents(config: &TopicModelConfig, seed: Seed) -> Result<Given, DataError> {
    let data = config.data.as_data();
    let documents = read_docword(path(&data)?)?;
    let words = config.data.vocabulary_path.as_deref();
    let vocabulary = words.map(|words| read_vocabulary(words, documents.vocabulary)).transpose()?;
    let divided = for_one_worker(documents.clone());
    let held_out = Completion::new(&divided.test, &divided.test_parts, seed.child("completion"));
    let counts = TokenCounts::of(&documents);
    let config = config.clone();
    let topics = TopicModel::new(config, divided, held_out, counts, vocabulary, seed, GIVEN);
    Ok(Given::Documents(topics, documents))
}

/// Where the data is.
fn path<S: Copy + Default + PartialEq, G: Clone + Default>(
    data: &DataConfig<S, G>,
) -> Result<&Path, ConfigError> {
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

/// The numbers of examples, the first of which is `first`.
fn numbers(name: &str, first: i64, count: usize) -> (String, PredictionValues) {
    (name.into(), PredictionValues::Integers((first..).take(count).collect()))
}

/// The position of the largest value, the first of several.
fn largest(values: &[f32]) -> i64 {
    let mut most = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[most] {
            most = at;
        }
    }
    most as i64
}

/// What the data is called in the description of an application.
const GIVEN: &str = "given data";
