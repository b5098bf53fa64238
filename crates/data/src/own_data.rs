//! The data that one process has: it is read, summed up for others, and becomes an application together with the summaries
//! of all.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::DataError;
use crate::formats::data_file::DataFile;
use crate::homes::home::{Home, homes};
use crate::homes::inventory::{Inventory, files_in};
use crate::homes::memory::check_memory;
use crate::homes::summary::{DataShape, DataSummary, Part};
use crate::kinds::documents::LocalDocuments;
use crate::kinds::images::{GatheredImages, LocalImages};
use crate::kinds::ratings::LocalRatings;
use crate::kinds::sparse::LocalSparse;
use crate::kinds::{check_parameters, documents, images, ratings, sparse};
use crate::synthetic;
use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::ConfigError;
use gaia_ml::apps::{
    AppConfig, ImageSource, convolutional_network, perceptron, softmax_regression,
};
use gaia_ml::columns::DataSource;
use gaia_ml::config::DataConfig;
use gaia_ml::examples::DenseExamples;

/// The data of some data centers of a run, of one of them in most processes of a cluster.
pub struct OwnData {
    config: AppConfig,
    seed: Seed,
    /// All places of data, and the workers that train on it.
    homes: Vec<DataHome>,
    /// Of which of them this is the data.
    own: Range<usize>,
    local: Local,
    /// The files of each of them.
    files: Vec<Vec<PathBuf>>,
    /// Where the data comes from, in a few words.
    name: String,
}

/// What was read in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceOfData {
    /// The data center that has the data, or all that share it.
    pub name: String,
    /// The files. None of generated data.
    pub files: Vec<PathBuf>,
    /// Their bytes in all.
    pub bytes: u64,
    /// Examples that train.
    pub train: u64,
    /// Examples that are held out.
    pub test: u64,
    /// A digest of all examples.
    pub digest: u64,
}

/// Data by kind, in the order of the places that it is from.
enum Local {
    Ratings(Vec<LocalRatings>),
    Images(Vec<LocalImages>),
    Sparse(Vec<LocalSparse>),
    Documents(Vec<LocalDocuments>),
}

impl OwnData {
    /// Reads or generates the data of some data centers, `own` of `all`. Opens no files of others. If the data is in one
    /// place for all data centers, it is read whole unless `own` is empty. With a validation set nothing else is held out.
    ///
    /// # Errors
    /// As [`build`](super::build).
    pub fn read(
        config: Option<&AppConfig>,
        all: &[DataHome],
        own: Range<usize>,
        seed: Seed,
        validation: Option<&Path>,
    ) -> Result<Self, DataError> {
        let config = config.ok_or_else(|| {
            ConfigError::new(
                "kind",
                "missing",
                format!("one of {}", AppConfig::built_in().join(", ")),
            )
        })?;
        config.validate()?;
        if validation.is_some() && config.is_generated() {
            let expected = "the format of the validation set that evaluate.data names";
            return Err(ConfigError::new("data.source", "synthetic", expected).into());
        }
        let seed = seed.child("data");
        let own = match (own.is_empty(), config.is_per_data_center()) {
            (false, false) => 0..1,
            _ => own,
        };

        let (homes, local, files, name) = match config {
            AppConfig::MatrixFactorization(config) => {
                let homes = homes(&config.data, all, seed, validation)?;
                check_memory_of(&homes[own.clone()])?;
                let read = homes[own.clone()].iter().map(ratings::read);
                let local = Local::Ratings(read.collect::<Result<_, _>>()?);
                let made = generated(&format!(
                    "a matrix of rank {}, with noise",
                    config.data.synthetic.rank
                ));
                let name = files_in_words(&config.data, &homes).unwrap_or(made);
                let files = files_of_homes(&homes[own.clone()])?;
                (places(homes), local, files, name)
            }
            AppConfig::SoftmaxRegression(config) => {
                let data = &config.data;
                let make = |seed| synthetic::mixture(&data.synthetic, data.held_out, seed);
                read_images(data, (all, validation), own.clone(), seed, ("Gaussian classes", make))?
            }
            AppConfig::Perceptron(config) => {
                let data = &config.data;
                let make = |seed| synthetic::teacher(&data.synthetic, data.held_out, seed);
                read_images(
                    data,
                    (all, validation),
                    own.clone(),
                    seed,
                    ("a network's labels", make),
                )?
            }
            AppConfig::ConvolutionalNetwork(config) => {
                let data = &config.data;
                let make = |seed| synthetic::images(&data.synthetic, data.held_out, seed);
                read_images(data, (all, validation), own.clone(), seed, ("hidden patterns", make))?
            }
            AppConfig::LogisticRegression(config) => {
                let homes = homes(&config.data, all, seed, validation)?;
                check_memory_of(&homes[own.clone()])?;
                let read = homes[own.clone()].iter().map(sparse::read);
                let (local, best) = with_best(read)?;
                let name = named(&config.data, &homes, "planted weights, best accuracy", 3, best);
                let files = files_of_homes(&homes[own.clone()])?;
                (places(homes), Local::Sparse(local), files, name)
            }
            AppConfig::TopicModel(config) => {
                let data = config.data.as_data();
                let homes = homes(&data, all, seed, validation)?;
                check_memory_of(&homes[own.clone()])?;
                let read =
                    homes[own.clone()].iter().map(|home| documents::read(config, home, seed));
                let (local, best) = with_best(read)?;
                let made =
                    format!("{} planted ones, best perplexity", config.data.synthetic.topics);
                let name = named(&data, &homes, &made, 1, best);
                let mut files = files_of_homes(&homes[own.clone()])?;
                let vocabulary = config.data.vocabulary_path.iter();
                files.iter_mut().for_each(|files| files.extend(vocabulary.clone().cloned()));
                (places(homes), Local::Documents(local), files, name)
            }
            AppConfig::External(_) => return Err(not_built_in().into()),
        };

        Ok(Self { config: config.clone(), seed, homes, own, local, files, name })
    }

    /// The summaries of this data, in the order of the places that it is from.
    pub fn summaries(&self) -> Vec<DataSummary> {
        match &self.local {
            Local::Ratings(local) => local.iter().map(|local| local.summary().clone()).collect(),
            Local::Images(local) => local.iter().map(|local| local.summary().clone()).collect(),
            Local::Sparse(local) => local.iter().map(|local| local.summary().clone()).collect(),
            Local::Documents(local) => local.iter().map(|local| local.summary().clone()).collect(),
        }
    }

    /// What was read, in the order of the places that it is from.
    pub fn places(&self) -> Vec<PlaceOfData> {
        let homes = self.homes[self.own.clone()].iter().zip(&self.files);
        let place = |((home, files), summary): ((&DataHome, &Vec<PathBuf>), DataSummary)| {
            let DataSummary { train, test, digest, .. } = summary;
            let sizes = files.iter().map(|file| DataFile::open(file).map_or(0, |file| file.size()));
            let (name, files, bytes) = (home.name.clone(), files.clone(), sizes.sum());
            PlaceOfData { name, files, bytes, train, test, digest }
        };
        homes.zip(self.summaries()).map(place).collect()
    }

    /// Builds the application from this data and the summaries of all places of data, in their order. The model is the same
    /// whichever data a process has, and tasks are those of workers whose data it has.
    ///
    /// # Errors
    /// [`DataError::Disagreement`] where two data centers have data of different shapes, [`DataError::Config`] where a setting
    /// does not fit the data of all.
    pub fn into_application(
        self,
        summaries: &[DataSummary],
    ) -> Result<Arc<dyn Application>, DataError> {
        self.check(summaries)?;
        let Self { config, seed, homes, own, local, name, .. } = self;
        let places = (homes.as_slice(), own, summaries);
        Ok(match (config, local) {
            (AppConfig::MatrixFactorization(config), Local::Ratings(local)) => {
                Arc::new(ratings::build(&config, parts(places, local), &name)?)
            }
            (AppConfig::SoftmaxRegression(config), Local::Images(local)) => {
                let GatheredImages { examples, features, rescaling } = images::gathered(
                    parts(places, local),
                    &config.data.declared,
                    config.batch_max(),
                )?
                .rescaled();
                let train = &examples.train;
                check_parameters("data", "this large", train.width() * train.classes)?;
                let network = softmax_regression(&config, examples, seed, &name);
                Arc::new(network.with_feature_names(features).with_rescaling(rescaling))
            }
            (AppConfig::Perceptron(config), Local::Images(local)) => {
                let GatheredImages { examples, features, rescaling } = images::gathered(
                    parts(places, local),
                    &config.data.declared,
                    config.batch_max(),
                )?
                .rescaled();
                let mut inputs = examples.train.width();
                let mut parameters = 0_usize;
                for &units in config.hidden.iter().chain([&examples.train.classes]) {
                    parameters = parameters.saturating_add(inputs.saturating_mul(units));
                    inputs = units;
                }
                check_parameters("hidden", format!("{:?}", config.hidden), parameters)?;
                let network = perceptron(&config, examples, seed, &name);
                Arc::new(network.with_feature_names(features).with_rescaling(rescaling))
            }
            (AppConfig::ConvolutionalNetwork(config), Local::Images(local)) => {
                // Pixels that differ in their coordinates would be no image.
                let GatheredImages { examples, features, .. } = images::gathered(
                    parts(places, local),
                    &config.data.declared,
                    config.batch_max(),
                )?;
                config.check_shape(examples.train.shape)?;
                let parameters = config.parameters(examples.train.shape, examples.train.classes);
                check_parameters("filters", format!("{:?}", config.filters), parameters)?;
                let network = convolutional_network(&config, examples, seed, &name);
                Arc::new(network.with_feature_names(features))
            }
            (AppConfig::LogisticRegression(config), Local::Sparse(local)) => {
                Arc::new(sparse::build(&config, parts(places, local), &name)?)
            }
            (AppConfig::TopicModel(config), Local::Documents(local)) => {
                Arc::new(documents::build(&config, parts(places, local), seed, &name)?)
            }
            _ => unreachable!("data is read for its application"),
        })
    }

    /// Checks that summaries are of the kind of this data, one for each place of data.
    fn check(&self, summaries: &[DataSummary]) -> Result<(), DataError> {
        let is_kind = |summary: &DataSummary| {
            matches!(
                (&self.local, &summary.shape),
                (Local::Ratings(_), DataShape::Ratings(_))
                    | (Local::Images(_), DataShape::Images(_))
                    | (Local::Sparse(_), DataShape::Sparse(_))
                    | (Local::Documents(_), DataShape::Documents(_))
            )
        };
        for (home, summary) in self.homes.iter().zip(summaries) {
            if !is_kind(summary) || !summary.is_sound() {
                let data_center = home.name.clone();
                return Err(DataError::BrokenSummary { data_center });
            }
        }
        assert_eq!(self.homes.len(), summaries.len(), "one summary for each place of data");

        let validation = |summary: &DataSummary| summary.validation;
        let differs =
            summaries.iter().position(|summary| validation(summary) != summaries[0].validation);
        if let Some(other) = differs {
            let words = |summary: &DataSummary| match summary.validation {
                Some(digest) => format!("a validation set with the digest {digest:016x}"),
                None => "no validation set".into(),
            };
            return Err(DataError::Disagreement {
                data_centers: [other, 0].map(|at| self.homes[at].name.clone()),
                found: words(&summaries[other]),
                expected: words(&summaries[0]),
            });
        }

        let own = self.local.len();
        if own > POSITIONS_MAX {
            let expected = format!("at most {POSITIONS_MAX} examples in one process");
            return Err(ConfigError::new("data", format!("of {own} examples"), expected).into());
        }
        Ok(())
    }
}

impl Local {
    /// The number of training examples in memory.
    fn len(&self) -> usize {
        match self {
            Self::Ratings(local) => local.iter().map(LocalRatings::len).sum(),
            Self::Images(local) => local.iter().map(LocalImages::len).sum(),
            Self::Sparse(local) => local.iter().map(LocalSparse::len).sum(),
            Self::Documents(local) => local.iter().map(LocalDocuments::len).sum(),
        }
    }
}

/// The error that this crate knows nothing of an application.
pub(crate) fn not_built_in() -> ConfigError {
    let expected = "an application that is built in, or a program that hands its own in, such as the gaia of the \
                    Python package for scripts";
    ConfigError::new("kind", "external", expected)
}

/// All places of data, the data of some of them, its files, and where it comes from.
type Read = (Vec<DataHome>, Local, Vec<Vec<PathBuf>>, String);

/// Reads the images of data centers, with a name for what `make` generates.
fn read_images<G: Clone + Default>(
    data: &DataConfig<ImageSource, G>,
    (all, validation): (&[DataHome], Option<&Path>),
    own: Range<usize>,
    seed: Seed,
    (kind, make): (&str, impl Fn(Seed) -> synthetic::Generated<DenseExamples>),
) -> Result<Read, DataError> {
    let homes = homes(data, all, seed, validation)?;
    check_memory_of(&homes[own.clone()])?;
    let read = homes[own.clone()].iter().map(|home| images::read(home, &make));
    let (local, best) = with_best(read)?;
    let name = named(data, &homes, &format!("{kind}, best accuracy"), 3, best);
    let files = files_of_homes(&homes[own])?;
    Ok((places(homes), Local::Images(local), files, name))
}

/// Data, and the best figure of the first that has one.
fn with_best<L>(
    read: impl Iterator<Item = Result<(L, Option<f64>), DataError>>,
) -> Result<(Vec<L>, Option<f64>), DataError> {
    let (local, best): (Vec<L>, Vec<Option<f64>>) =
        read.collect::<Result<Vec<_>, DataError>>()?.into_iter().unzip();
    Ok((local, best.into_iter().flatten().next()))
}

/// Where data comes from: its files, or what generated it and the best figure of that.
fn named<S: DataSource, G: Default>(
    data: &DataConfig<S, G>,
    homes: &[Home<S, G>],
    made: &str,
    digits: usize,
    best: Option<f64>,
) -> String {
    let made = || best.map_or_else(|| made.to_owned(), |best| format!("{made} {best:.digits$}"));
    files_in_words(data, homes).unwrap_or_else(|| generated(&made()))
}

/// What stands for the files of generated data. It begins with `synthetic`, so that nobody takes figures for those of real data.
fn generated(made: &str) -> String {
    format!("synthetic data ({made})")
}

/// The files of each home.
fn files_of_homes<S: Inventory, G: Default>(
    homes: &[Home<S, G>],
) -> Result<Vec<Vec<PathBuf>>, DataError> {
    homes.iter().map(files_in).collect()
}

/// Checks that the examples of these homes can fit where they are to be.
fn check_memory_of<S: Inventory, G: Default>(homes: &[Home<S, G>]) -> Result<(), ConfigError> {
    // A reader says best what is wrong with files that cannot be listed.
    let files: Vec<PathBuf> =
        homes.iter().filter_map(|home| files_in(home).ok()).flatten().collect();
    homes.first().map_or(Ok(()), |home| check_memory(&home.data, &files))
}

/// Where the files of all homes are. `None` of generated data.
fn files_in_words<S: DataSource, G: Default>(
    data: &DataConfig<S, G>,
    homes: &[Home<S, G>],
) -> Option<String> {
    if let Some(path) = &data.path {
        return Some(path.display().to_string());
    }
    let paths: Option<Vec<String>> =
        homes.iter().map(|home| Some(home.data.path.as_ref()?.display().to_string())).collect();
    Some(paths?.join(", "))
}

fn places<S: DataSource, G: Default>(homes: Vec<Home<S, G>>) -> Vec<DataHome> {
    let place = |home: Home<S, G>| DataHome { name: home.name, workers: home.workers };
    homes.into_iter().map(place).collect()
}

/// Puts each place of data together with its summary, and with the data if it is here.
fn parts<'a, L>(
    (homes, own, summaries): (&'a [DataHome], Range<usize>, &'a [DataSummary]),
    local: Vec<L>,
) -> Vec<Part<'a, L>> {
    let mut local = local.into_iter();
    let part = |(at, (home, summary)): (usize, (&'a DataHome, &'a DataSummary))| Part {
        name: home.name.as_str(),
        workers: home.workers,
        summary,
        local: if own.contains(&at) { local.next() } else { None },
    };
    homes.iter().zip(summaries).enumerate().map(part).collect()
}

/// Positions of examples are 32-bit.
const POSITIONS_MAX: usize = u32::MAX as usize;
