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
mod idx;
mod initial;
mod libsvm;
mod movielens;
mod source;
mod split;
pub mod synthetic;

use std::path::Path;
use std::sync::Arc;

use files::folders_of;
use gaia_core::application::Application;
use gaia_core::types::Seed;
use gaia_core::types::limits::MODEL_PARAMETERS_MAX;
use gaia_ml::ConfigError;
use gaia_ml::apps::{
    AppConfig, Completion, ConvolutionalNetworkConfig, DocumentSource, ImageSource,
    LogisticRegression, LogisticRegressionConfig, MatrixFactorization, MatrixFactorizationConfig,
    Network, PerceptronConfig, RatingSource, SoftmaxRegressionConfig, SparseSource, TopicModel,
    TopicModelConfig, WordProbabilities, convolutional_network, perceptron, softmax_regression,
};
use gaia_ml::config::DataConfig;
use gaia_ml::examples::{DenseExamples, Documents, SparseExamples};

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
/// Workers are numbered data center by data center; without any worker the data is partitioned as for one. The same
/// settings and seed give the same examples.
///
/// # Errors
/// [`DataError::Config`] where the run file names no application or a setting does not fit the data, [`DataError::Unreadable`] or [`DataError::Broken`] where
/// a file cannot be used.
pub fn build(
    config: Option<&AppConfig>,
    workers_per_dc: &[usize],
    seed: Seed,
) -> Result<Arc<dyn Application>, DataError> {
    let config = config.ok_or_else(|| {
        ConfigError::new("kind", "missing", format!("one of {}", AppConfig::KINDS.join(", ")))
    })?;
    config.validate()?;
    let workers = workers_per_dc.iter().sum::<usize>().max(1);
    let seed = seed.child("data");
    Ok(match config {
        AppConfig::MatrixFactorization(config) => Arc::new(ratings(config, workers, seed)?),
        AppConfig::SoftmaxRegression(config) => Arc::new(softmax(config, workers, seed)?),
        AppConfig::Perceptron(config) => Arc::new(hidden_layers(config, workers, seed)?),
        AppConfig::ConvolutionalNetwork(config) => Arc::new(convolutions(config, workers, seed)?),
        AppConfig::LogisticRegression(config) => Arc::new(sparse(config, workers, seed)?),
        AppConfig::TopicModel(config) => Arc::new(documents(config, workers, seed)?),
    })
}

fn ratings(
    config: &MatrixFactorizationConfig,
    workers: usize,
    seed: Seed,
) -> Result<MatrixFactorization, DataError> {
    let data = &config.data;
    let (all, name) = match data.source {
        RatingSource::Synthetic => {
            let made = synthetic::ratings(&data.synthetic, seed.child("synthetic"));
            (made, format!("a noisy matrix of rank {}", data.synthetic.rank))
        }
        RatingSource::MovieLens => {
            let path = path_of(data.path.as_deref())?;
            (read_movielens(path)?, path.display().to_string())
        }
    };

    let parameters = (all.users + all.items) * (config.rank + usize::from(config.bias));
    check_parameters("rank", config.rank, parameters)?;

    let (train, test) = hold_out(all.len(), data.held_out, seed.child("held out"));
    let (train, test) = (all.select(&train), all.select(&test));
    let parts = split(data.split, data.skew, &train.user, workers, seed.child("split"));

    Ok(MatrixFactorization::new(config.clone(), train, test, parts, &name))
}

fn softmax(
    config: &SoftmaxRegressionConfig,
    workers: usize,
    seed: Seed,
) -> Result<Network, DataError> {
    let data = &config.data;
    let make = |seed| synthetic::mixture(&data.synthetic, data.held_out, seed);
    let (train, test, name) = images(data, "Gaussian classes", seed, make)?;
    check_parameters("data", "this large", train.width() * train.classes)?;
    let parts = split(data.split, data.skew, &train.labels, workers, seed.child("split"));
    Ok(softmax_regression(config, train, test, parts, seed, &name))
}

fn hidden_layers(
    config: &PerceptronConfig,
    workers: usize,
    seed: Seed,
) -> Result<Network, DataError> {
    let data = &config.data;
    let make = |seed| synthetic::teacher(&data.synthetic, data.held_out, seed);
    let (train, test, name) = images(data, "a network's labels", seed, make)?;
    let mut inputs = train.width();
    let mut parameters = 0_usize;
    for &units in config.hidden.iter().chain([&train.classes]) {
        parameters = parameters.saturating_add(inputs.saturating_mul(units));
        inputs = units;
    }
    check_parameters("hidden", format!("{:?}", config.hidden), parameters)?;
    let parts = split(data.split, data.skew, &train.labels, workers, seed.child("split"));
    Ok(perceptron(config, train, test, parts, seed, &name))
}

fn convolutions(
    config: &ConvolutionalNetworkConfig,
    workers: usize,
    seed: Seed,
) -> Result<Network, DataError> {
    let data = &config.data;
    let make = |seed| synthetic::images(&data.synthetic, data.held_out, seed);
    let (train, test, name) = images(data, "hidden patterns", seed, make)?;
    config.check_shape(train.shape)?;
    let parameters = config.parameters(train.shape, train.classes);
    check_parameters("filters", format!("{:?}", config.filters), parameters)?;
    let parts = split(data.split, data.skew, &train.labels, workers, seed.child("split"));
    Ok(convolutional_network(config, train, test, parts, seed, &name))
}

fn sparse(
    config: &LogisticRegressionConfig,
    workers: usize,
    seed: Seed,
) -> Result<LogisticRegression, DataError> {
    let data = &config.data;
    let (train, test, name) = match data.source {
        SparseSource::Synthetic => {
            let made = synthetic::planted(&data.synthetic, data.held_out, seed.child("synthetic"));
            let name = format!("planted weights (best accuracy {:.3})", made.best_accuracy);
            (made.train, made.test, name)
        }
        SparseSource::Libsvm => {
            let path = path_of(data.path.as_deref())?;
            let (mut all, test) = read_libsvm(path)?;

            let (train, mut test) = if let Some(test) = test {
                (all, test)
            } else {
                let (train, test) = hold_out(all.len(), data.held_out, seed.child("held out"));
                let test = all.select(&test);
                all = all.select(&train);
                (all, test)
            };

            let width = train.width.max(test.width);
            let train = SparseExamples { width, ..train };
            test.width = width;

            (train, test, path.display().to_string())
        }
    };

    let labels: Vec<u32> = train.labels.iter().map(|&label| u32::from(label > 0.0)).collect();
    let parts = split(data.split, data.skew, &labels, workers, seed.child("split"));

    Ok(LogisticRegression::new(config.clone(), train, test, parts, &name))
}

fn documents(
    config: &TopicModelConfig,
    workers: usize,
    seed: Seed,
) -> Result<TopicModel, DataError> {
    let data = &config.data;
    let check = |vocabulary: usize| {
        let parameters = (vocabulary + 1).saturating_mul(config.topics);
        check_parameters("topics", config.topics, parameters)
    };

    let cut = |test: &Documents| Completion::new(test, seed.child("completion"));
    let (train, held_out, labels, vocabulary, name) = match data.source {
        DocumentSource::Synthetic => {
            let generator = &data.synthetic;
            check(generator.vocabulary)?;

            let made = synthetic::documents(generator, data.held_out, seed.child("synthetic"));
            let held_out = cut(&made.test);
            let best = WordProbabilities::new(generator.topics, made.words)
                .perplexity(&held_out, generator.topic_concentration);
            let name = format!("{} planted ones (best perplexity {best:.1})", generator.topics);

            (made.train, held_out, made.labels, None, name)
        }
        DocumentSource::Docword => {
            let path = path_of(data.path.as_deref())?;
            let all = read_docword(path)?;
            check(all.vocabulary)?;

            let words = data.vocabulary_path.as_deref();
            let vocabulary =
                words.map(|words| read_vocabulary(words, all.vocabulary)).transpose()?;
            let (train, test) = hold_out(all.len(), data.held_out, seed.child("held out"));
            let (train, test) = (all.select(&train), all.select(&test));
            let labels = most_frequent_words(&train);

            (train, cut(&test), labels, vocabulary, path.display().to_string())
        }
    };

    let parts = split(data.split, data.skew, &labels, workers, seed.child("split"));
    let config = config.clone();

    Ok(TopicModel::new(config, train, held_out, parts, vocabulary, seed, &name))
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

/// Images from files, or synthetic ones, which reports call `kind`.
fn images<G: Default>(
    data: &DataConfig<ImageSource, G>,
    kind: &str,
    seed: Seed,
    make: impl FnOnce(Seed) -> synthetic::Generated<DenseExamples>,
) -> Result<(DenseExamples, DenseExamples, String), DataError> {
    match data.source {
        ImageSource::Synthetic => {
            let made = make(seed.child("synthetic"));
            let name = format!("{kind} (best accuracy {:.3})", made.best_accuracy);
            Ok((made.train, made.test, name))
        }
        ImageSource::Idx | ImageSource::Cifar => {
            let path = path_of(data.path.as_deref())?;
            let read = if data.source == ImageSource::Idx { read_idx } else { read_cifar };
            let (train, test) = read_folders(path, read)?;
            Ok((train, test, path.display().to_string()))
        }
    }
}

/// Training and test images.
type Images = (DenseExamples, DenseExamples);

/// Reads the images of a folder, or of the folders that match a pattern.
fn read_folders(
    path: &Path,
    read: fn(&Path) -> Result<Images, DataError>,
) -> Result<Images, DataError> {
    let folders = folders_of(path)?;
    let (mut train, mut test) = read(&folders[0])?;
    for folder in &folders[1..] {
        let (more, more_test) = read(folder)?;
        if more.shape != train.shape {
            let found = format!("images of {} pixels", more.shape);
            let expected = format!("{} pixels, as in {}", train.shape, folders[0].display());
            return Err(DataError::broken(folder, FilePosition::Whole, found, expected));
        }
        if train.len() + more.len() > IMAGES_MAX {
            let found = format!("{} images with the folders before", train.len() + more.len());
            let expected = format!("at most {IMAGES_MAX} images in all folders");
            return Err(DataError::broken(folder, FilePosition::Whole, found, expected));
        }
        train.append(more);
        test.append(more_test);
    }
    let classes = train.classes.max(test.classes);
    (train.classes, test.classes) = (classes, classes);
    Ok((train, test))
}

fn path_of(path: Option<&Path>) -> Result<&Path, ConfigError> {
    path.ok_or_else(|| ConfigError::new("data.path", "missing", "the path of the data files"))
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

/// Training images in all folders: positions are 32-bit.
const IMAGES_MAX: usize = 1 << 30;
