//! Reads data files, or generates synthetic data, and partitions it over data centers.
//!
//! The result is an application whose examples are in memory and partitioned over workers, every example to exactly one.
//! Readers stream, trust no header, and name the row or byte where a file is broken. This crate knows formats and files;
//! `gaia-ml` knows what is learnt from the examples.

#![warn(missing_docs)]

mod cifar;
mod docword;
mod error;
mod files;
mod homes;
mod idx;
mod images;
mod initial;
mod libsvm;
mod movielens;
mod source;
mod split;
pub mod synthetic;

use std::path::Path;
use std::sync::Arc;

use self::homes::{Divided, Home, homes, joined};
use self::images::images;
use self::movielens::{numbered, rating_rows};
use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_core::types::limits::MODEL_PARAMETERS_MAX;
use gaia_ml::ConfigError;
use gaia_ml::apps::{
    AppConfig, Completion, ConvolutionalNetworkConfig, DocumentSource, LogisticRegression,
    LogisticRegressionConfig, MatrixFactorization, MatrixFactorizationConfig, Network,
    PerceptronConfig, RatingSource, SoftmaxRegressionConfig, SparseSource, TopicModel,
    TopicModelConfig, WordProbabilities, convolutional_network, perceptron, softmax_regression,
};
use gaia_ml::config::DataConfig;
use gaia_ml::examples::{Documents, Ratings, SparseExamples};

pub use cifar::read_cifar;
pub use docword::{read_docword, read_vocabulary};
pub use error::{DataError, FilePosition};
pub use idx::read_idx;
pub use initial::initialized;
pub use libsvm::read_libsvm;
pub use movielens::read_movielens;
pub use split::{hold_out, split};

/// Loads or generates the application's data and partitions it over the workers of each data center.
///
/// Workers are numbered data center by data center; without any worker the data is partitioned as for one. If each data
/// center has data of its own, only its workers train on it, and a share of it is held out. The same settings and seed give
/// the same examples.
///
/// # Errors
/// [`DataError::Config`] where the run file names no application or a setting does not fit the data,
/// [`DataError::Unreadable`] or [`DataError::Broken`] where a file cannot be used.
pub fn build(
    config: Option<&AppConfig>,
    homes: &[DataHome],
    seed: Seed,
) -> Result<Arc<dyn Application>, DataError> {
    let config = config.ok_or_else(|| {
        ConfigError::new("kind", "missing", format!("one of {}", AppConfig::KINDS.join(", ")))
    })?;
    config.validate()?;
    let seed = seed.child("data");
    Ok(match config {
        AppConfig::MatrixFactorization(config) => Arc::new(ratings(config, homes, seed)?),
        AppConfig::SoftmaxRegression(config) => Arc::new(softmax(config, homes, seed)?),
        AppConfig::Perceptron(config) => Arc::new(hidden_layers(config, homes, seed)?),
        AppConfig::ConvolutionalNetwork(config) => Arc::new(convolutions(config, homes, seed)?),
        AppConfig::LogisticRegression(config) => Arc::new(sparse(config, homes, seed)?),
        AppConfig::TopicModel(config) => Arc::new(documents(config, homes, seed)?),
    })
}

fn ratings(
    config: &MatrixFactorizationConfig,
    all: &[DataHome],
    seed: Seed,
) -> Result<MatrixFactorization, DataError> {
    let homes = homes(&config.data, all, seed)?;
    let (sets, name) = match config.data.source {
        RatingSource::Synthetic if !config.data.is_per_data_center() => {
            let generator = &config.data.synthetic;
            let made = synthetic::ratings(generator, seed.child("synthetic"));
            (vec![made], format!("a noisy matrix of rank {}", generator.rank))
        }
        RatingSource::Synthetic | RatingSource::MovieLens => {
            let read = homes.iter().map(|home| rating_rows(path_of(home.data.path.as_deref())?));
            (
                numbered(read.collect::<Result<_, DataError>>()?),
                files_in_words(&config.data, &homes),
            )
        }
    };

    let parameters = (sets[0].users + sets[0].items) * (config.rank + usize::from(config.bias));
    check_parameters("rank", config.rank, parameters)?;

    let divide = |(home, all): (&Home<_, _>, &Ratings)| {
        let (train, test) = home.hold_out(all);
        let users = train.user.clone();
        home.split(train, test, &users)
    };
    let Divided { train, test, parts } = joined(homes.iter().zip(&sets).map(divide).collect())?;
    Ok(MatrixFactorization::new(config.clone(), train, test, parts, &name))
}

fn softmax(
    config: &SoftmaxRegressionConfig,
    all: &[DataHome],
    seed: Seed,
) -> Result<Network, DataError> {
    let data = &config.data;
    let make = |seed| synthetic::mixture(&data.synthetic, data.held_out, seed);
    let (Divided { train, test, parts }, name) = images(data, all, "Gaussian classes", seed, make)?;
    check_parameters("data", "this large", train.width() * train.classes)?;
    Ok(softmax_regression(config, train, test, parts, seed, &name))
}

fn hidden_layers(
    config: &PerceptronConfig,
    all: &[DataHome],
    seed: Seed,
) -> Result<Network, DataError> {
    let data = &config.data;
    let make = |seed| synthetic::teacher(&data.synthetic, data.held_out, seed);
    let (Divided { train, test, parts }, name) =
        images(data, all, "a network's labels", seed, make)?;
    let mut inputs = train.width();
    let mut parameters = 0_usize;
    for &units in config.hidden.iter().chain([&train.classes]) {
        parameters = parameters.saturating_add(inputs.saturating_mul(units));
        inputs = units;
    }
    check_parameters("hidden", format!("{:?}", config.hidden), parameters)?;
    Ok(perceptron(config, train, test, parts, seed, &name))
}

fn convolutions(
    config: &ConvolutionalNetworkConfig,
    all: &[DataHome],
    seed: Seed,
) -> Result<Network, DataError> {
    let data = &config.data;
    let make = |seed| synthetic::images(&data.synthetic, data.held_out, seed);
    let (Divided { train, test, parts }, name) = images(data, all, "hidden patterns", seed, make)?;
    config.check_shape(train.shape)?;
    let parameters = config.parameters(train.shape, train.classes);
    check_parameters("filters", format!("{:?}", config.filters), parameters)?;
    Ok(convolutional_network(config, train, test, parts, seed, &name))
}

fn sparse(
    config: &LogisticRegressionConfig,
    all: &[DataHome],
    seed: Seed,
) -> Result<LogisticRegression, DataError> {
    let data = &config.data;
    let homes = homes(data, all, seed)?;
    let divide = |home: &Home<_, _>, train: SparseExamples, test: SparseExamples| {
        let labels: Vec<u32> = train.labels.iter().map(|&label| u32::from(label > 0.0)).collect();
        home.split(train, test, &labels)
    };

    let (divided, name) = match data.source {
        SparseSource::Synthetic if !data.is_per_data_center() => {
            let made = synthetic::planted(&data.synthetic, data.held_out, seed.child("synthetic"));
            let name = format!("planted weights (best accuracy {:.3})", made.best_accuracy);
            (vec![divide(&homes[0], made.train, made.test)], name)
        }
        SparseSource::Synthetic | SparseSource::Libsvm => {
            let read = |home: &Home<_, _>| {
                let (all, test) = read_libsvm(path_of(home.data.path.as_deref())?)?;
                let (train, test) = match test {
                    Some(test) => (all, test),
                    None => home.hold_out(&all),
                };
                Ok(divide(home, train, test))
            };
            let divided = homes.iter().map(read).collect::<Result<_, DataError>>()?;
            (divided, files_in_words(data, &homes))
        }
    };

    let Divided { mut train, mut test, parts } = joined(divided)?;
    let width = train.width.max(test.width);
    (train.width, test.width) = (width, width);
    Ok(LogisticRegression::new(config.clone(), train, test, parts, &name))
}

fn documents(
    config: &TopicModelConfig,
    all: &[DataHome],
    seed: Seed,
) -> Result<TopicModel, DataError> {
    let data = &config.data;
    let shared = data.as_data();
    let homes = homes(&shared, all, seed)?;
    let check = |vocabulary: usize| {
        let parameters = (vocabulary + 1).saturating_mul(config.topics);
        check_parameters("topics", config.topics, parameters)
    };

    let cut = |test: &Documents| Completion::new(test, seed.child("completion"));
    let (divided, held_out, vocabulary, name) = match data.source {
        DocumentSource::Synthetic if !shared.is_per_data_center() => {
            let generator = &data.synthetic;
            check(generator.vocabulary)?;

            let made = synthetic::documents(generator, data.held_out, seed.child("synthetic"));
            let held_out = cut(&made.test);
            let best = WordProbabilities::new(generator.topics, made.words)
                .perplexity(&held_out, generator.topic_concentration);
            let name = format!("{} planted ones (best perplexity {best:.1})", generator.topics);

            (homes[0].split(made.train, made.test, &made.labels), held_out, None, name)
        }
        DocumentSource::Synthetic | DocumentSource::Docword => {
            let sets = read_sets(&homes)?;
            check(sets[0].vocabulary)?;

            let words = data.vocabulary_path.as_deref();
            let vocabulary =
                words.map(|words| read_vocabulary(words, sets[0].vocabulary)).transpose()?;
            let divide = |(home, all): (&Home<_, _>, &Documents)| {
                let (train, test) = home.hold_out(all);
                let labels = most_frequent_words(&train);
                home.split(train, test, &labels)
            };
            let divided = joined(homes.iter().zip(&sets).map(divide).collect())?;
            let held_out = cut(&divided.test);

            (divided, held_out, vocabulary, files_in_words(&shared, &homes))
        }
    };

    let Divided { train, parts, .. } = divided;
    let config = config.clone();
    Ok(TopicModel::new(config, train, held_out, parts, vocabulary, seed, &name))
}

/// Reads the documents of each home. They have the same words.
fn read_sets(homes: &[Home<DocumentSource, ()>]) -> Result<Vec<Documents>, DataError> {
    let mut sets: Vec<Documents> = Vec::new();
    for home in homes {
        let path = path_of(home.data.path.as_deref())?;
        let read = read_docword(path)?;
        if let Some(first) = sets.first().filter(|first| first.vocabulary != read.vocabulary) {
            let found = format!("documents of {} words", read.vocabulary);
            let expected =
                format!("{} words, as in {}", first.vocabulary, home_in_words(&homes[0]));
            return Err(DataError::broken(path, FilePosition::Whole, found, expected));
        }
        sets.push(read);
    }
    Ok(sets)
}

/// The most frequent word of each document. Of equally frequent ones the first.
fn most_frequent_words(documents: &Documents) -> Vec<u32> {
    let of_document = |document| {
        let (words, counts) = documents.document(document);
        let most = counts.iter().copied().max().unwrap_or(0);
        let place = counts.iter().position(|&count| count == most);
        place.map_or(0, |place| words[place])
    };
    (0..documents.len()).map(of_document).collect()
}

fn path_of(path: Option<&Path>) -> Result<&Path, ConfigError> {
    path.ok_or_else(|| ConfigError::new("data.path", "missing", "the path of the data files"))
}

/// Where the files of a home are.
fn home_in_words<S: Default, G: Default>(home: &Home<S, G>) -> String {
    home.data.path.as_ref().map_or_else(String::new, |path| path.display().to_string())
}

/// Where the files of all homes are.
fn files_in_words<S: Default, G: Default>(data: &DataConfig<S, G>, homes: &[Home<S, G>]) -> String {
    match &data.path {
        Some(path) => path.display().to_string(),
        None => homes.iter().map(home_in_words).collect::<Vec<_>>().join(", "),
    }
}

fn check_parameters(
    key: &str,
    value: impl std::fmt::Display,
    parameters: usize,
) -> Result<(), ConfigError> {
    if parameters < MODEL_PARAMETERS_MAX {
        return Ok(());
    }
    let expected =
        format!("a model of fewer than {MODEL_PARAMETERS_MAX} parameters, not {parameters}");
    Err(ConfigError::new(key, value, expected))
}
