//! The applications, one file each, and the choice between them.

mod convolutional_network;
mod example_names;
mod external;
mod logistic_regression;
mod matrix_factorization;
mod network;
mod perceptron;
mod sampled;
mod softmax_regression;
mod topic_model;
mod visits;
mod windows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ConfigError;
use crate::columns::DataSource;
use crate::config::DataConfig;

pub use convolutional_network::{
    ConvolutionalNetworkConfig, ImageGenerator, Normalization, PATTERN_SIDE, convolutional_network,
};
pub use example_names::{CLASS_NAMES, FEATURE_NAMES};
pub use external::ExternalConfig;
pub use logistic_regression::{
    LogisticRegression, LogisticRegressionConfig, PlantedGenerator, SparseSource,
};
pub use matrix_factorization::{
    ITEM_NAMES, MEAN, MatrixFactorization, MatrixFactorizationConfig, RatingGenerator,
    RatingSource, RatingTotals, UNIT, USER_NAMES, change_mean,
};
pub use network::{CLASSES, INPUT_SHAPE, ImageSource, Network};
pub use perceptron::{PerceptronConfig, TeacherGenerator, perceptron};
pub use softmax_regression::{MixtureGenerator, SoftmaxRegressionConfig, softmax_regression};
pub use topic_model::{
    Completion, CorpusConfig, DocumentSource, TokenCounts, TopicGenerator, TopicModel,
    TopicModelConfig, WordProbabilities, top_words,
};

/// Which application runs and with which settings: the `[app]` table of a run file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AppConfig {
    /// Matrix factorisation of ratings.
    MatrixFactorization(MatrixFactorizationConfig),
    /// Softmax regression over dense examples.
    SoftmaxRegression(SoftmaxRegressionConfig),
    /// A multi-layer perceptron over dense examples.
    Perceptron(PerceptronConfig),
    /// A convolutional network over images.
    ConvolutionalNetwork(ConvolutionalNetworkConfig),
    /// Logistic regression over sparse examples of two classes.
    LogisticRegression(LogisticRegressionConfig),
    /// Topic modelling of documents.
    TopicModel(TopicModelConfig),
    /// An application that a program hands in.
    External(ExternalConfig),
}

impl AppConfig {
    /// Every kind, as `app.kind` writes it.
    pub const KINDS: &[&str] = &[
        "matrix-factorization",
        "softmax-regression",
        "perceptron",
        "convolutional-network",
        "logistic-regression",
        "topic-model",
        "external",
    ];

    /// The kinds of applications that are built in.
    pub fn built_in() -> &'static [&'static str] {
        Self::KINDS.split_last().map_or(&[], |(_external, built_in)| built_in)
    }

    /// Reads the keys of one kind (all of `[app]` but `kind`); `kind` is one of [`Self::KINDS`].
    pub fn deserialize<'de, D: Deserializer<'de>>(kind: &str, keys: D) -> Result<Self, D::Error> {
        match kind {
            "matrix-factorization" => Deserialize::deserialize(keys).map(Self::MatrixFactorization),
            "softmax-regression" => Deserialize::deserialize(keys).map(Self::SoftmaxRegression),
            "perceptron" => Deserialize::deserialize(keys).map(Self::Perceptron),
            "convolutional-network" => {
                Deserialize::deserialize(keys).map(Self::ConvolutionalNetwork)
            }
            "logistic-regression" => Deserialize::deserialize(keys).map(Self::LogisticRegression),
            "topic-model" => Deserialize::deserialize(keys).map(Self::TopicModel),
            "external" => Deserialize::deserialize(keys).map(Self::External),
            other => Err(D::Error::unknown_variant(other, Self::KINDS)),
        }
    }

    /// Checks the range of every key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::MatrixFactorization(config) => config.validate(),
            Self::SoftmaxRegression(config) => config.validate(),
            Self::Perceptron(config) => config.validate(),
            Self::ConvolutionalNetwork(config) => config.validate(),
            Self::LogisticRegression(config) => config.validate(),
            Self::TopicModel(config) => config.validate(),
            Self::External(_) => Ok(()),
        }
    }

    /// Puts in what is left out of the settings of steps, for a run of at most `clocks` that may end long before them or not.
    pub fn resolve_steps(&mut self, clocks: Option<u64>, may_end_early: bool) {
        match self {
            Self::SoftmaxRegression(config) => config.resolve_steps(clocks, may_end_early),
            Self::Perceptron(config) => config.resolve_steps(clocks, may_end_early),
            Self::ConvolutionalNetwork(config) => config.resolve_steps(clocks, may_end_early),
            Self::LogisticRegression(config) => config.resolve_steps(clocks, may_end_early),
            Self::MatrixFactorization(_) | Self::TopicModel(_) | Self::External(_) => {}
        }
    }

    /// The same settings, wherever data files lie.
    #[must_use]
    pub fn without_paths(&self) -> Self {
        let mut own = self.clone();
        match &mut own {
            Self::MatrixFactorization(config) => config.data = config.data.without_paths(),
            Self::SoftmaxRegression(config) => config.data = config.data.without_paths(),
            Self::Perceptron(config) => config.data = config.data.without_paths(),
            Self::ConvolutionalNetwork(config) => config.data = config.data.without_paths(),
            Self::LogisticRegression(config) => config.data = config.data.without_paths(),
            Self::TopicModel(config) => {
                let DataConfig { path, at, scratch, .. } = config.data.as_data().without_paths();
                (config.data.path, config.data.at, config.data.vocabulary_path) = (path, at, None);
                config.data.scratch = scratch;
            }
            Self::External(config) => (config.script, config.model) = (None, None),
        }
        own
    }

    /// The source that files of this path's name have for a kind of application, as `app.data.source` writes it. `None` of
    /// applications without such a key.
    pub fn source_of_path(kind: &str, path: &Path) -> Option<&'static str> {
        match kind {
            "matrix-factorization" => Some(RatingSource::of_path(path)),
            "softmax-regression" | "perceptron" | "convolutional-network" => {
                Some(ImageSource::of_path(path))
            }
            "logistic-regression" => Some(SparseSource::of_path(path)),
            "topic-model" => Some(DocumentSource::of_path(path)),
            _ => None,
        }
    }

    /// The key below `[app]` that the size of the model follows from. `None` where it follows from the data alone.
    pub fn size_key(&self) -> Option<&'static str> {
        match self {
            Self::MatrixFactorization(_) => Some("rank"),
            Self::Perceptron(_) => Some("hidden"),
            Self::ConvolutionalNetwork(_) => Some("filters"),
            Self::TopicModel(_) => Some("topics"),
            Self::SoftmaxRegression(_) | Self::LogisticRegression(_) | Self::External(_) => None,
        }
    }

    /// Whether all data is generated.
    pub fn is_generated(&self) -> bool {
        match self {
            Self::MatrixFactorization(config) => config.data.is_generated(),
            Self::SoftmaxRegression(config) => config.data.is_generated(),
            Self::Perceptron(config) => config.data.is_generated(),
            Self::ConvolutionalNetwork(config) => config.data.is_generated(),
            Self::LogisticRegression(config) => config.data.is_generated(),
            Self::TopicModel(config) => config.data.as_data().is_generated(),
            Self::External(_) => false,
        }
    }

    /// The files, folders and patterns that the data of these data centers is read from.
    pub fn paths(&self, data_centers: &[String]) -> BTreeSet<PathBuf> {
        match self {
            Self::MatrixFactorization(config) => config.data.paths(data_centers),
            Self::SoftmaxRegression(config) => config.data.paths(data_centers),
            Self::Perceptron(config) => config.data.paths(data_centers),
            Self::ConvolutionalNetwork(config) => config.data.paths(data_centers),
            Self::LogisticRegression(config) => config.data.paths(data_centers),
            Self::TopicModel(config) => {
                let vocabulary = config.data.vocabulary_path.clone();
                let data = config.data.as_data();
                data.paths(data_centers).into_iter().chain(vocabulary).collect()
            }
            Self::External(_) => BTreeSet::new(),
        }
    }

    /// The folders that processes of these data centers write their examples to; none where examples are in memory.
    pub fn scratch_folders(&self, data_centers: &[String]) -> BTreeSet<PathBuf> {
        match self {
            Self::MatrixFactorization(config) => config.data.scratch_folders(data_centers),
            Self::SoftmaxRegression(config) => config.data.scratch_folders(data_centers),
            Self::Perceptron(config) => config.data.scratch_folders(data_centers),
            Self::ConvolutionalNetwork(config) => config.data.scratch_folders(data_centers),
            Self::LogisticRegression(config) => config.data.scratch_folders(data_centers),
            Self::TopicModel(config) => config.data.as_data().scratch_folders(data_centers),
            Self::External(_) => BTreeSet::new(),
        }
    }

    /// Whether each data center has data of its own.
    pub fn is_per_data_center(&self) -> bool {
        match self {
            Self::MatrixFactorization(config) => config.data.is_per_data_center(),
            Self::SoftmaxRegression(config) => config.data.is_per_data_center(),
            Self::Perceptron(config) => config.data.is_per_data_center(),
            Self::ConvolutionalNetwork(config) => config.data.is_per_data_center(),
            Self::LogisticRegression(config) => config.data.is_per_data_center(),
            Self::TopicModel(config) => config.data.as_data().is_per_data_center(),
            Self::External(_) => false,
        }
    }

    /// What [`Application::deltas_are_counts`](gaia_core::application::Application::deltas_are_counts) will say once the
    /// application has its data.
    pub fn deltas_are_counts(&self) -> bool {
        matches!(self, Self::TopicModel(_))
    }

    /// The kind, as `app.kind` writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::MatrixFactorization(_) => Self::KINDS[0],
            Self::SoftmaxRegression(_) => Self::KINDS[1],
            Self::Perceptron(_) => Self::KINDS[2],
            Self::ConvolutionalNetwork(_) => Self::KINDS[3],
            Self::LogisticRegression(_) => Self::KINDS[4],
            Self::TopicModel(_) => Self::KINDS[5],
            Self::External(_) => Self::KINDS[6],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_written_and_read_back() {
        for &kind in AppConfig::KINDS {
            let some = match kind {
                "external" => {
                    "script = \"a.py\"\nmodel = \"m\"\nsettings = { depth = 3, name = \"some\" }"
                        .to_owned()
                }
                _ => {
                    let learns = if kind == "topic-model" { "alpha" } else { "learning_rate" };
                    let source = AppConfig::source_of_path(kind, Path::new("some/file"));
                    let source = source.expect("a kind with data");
                    format!(
                        "data.path = \"some/file\"\ndata.source = \"{source}\"\ndata.skew = 0.5\n{learns} = 0.125"
                    )
                }
            };
            for keys in ["", &some] {
                let config = read(kind, keys).expect("good keys");
                assert_eq!(config.kind(), kind);
                assert_eq!(config.validate(), Ok(()));
                let mut written = toml::Table::try_from(&config).expect("all keys fit TOML");
                assert_eq!(
                    written.remove("kind").as_ref().and_then(|kind| kind.as_str()),
                    Some(kind)
                );
                let text = toml::to_string(&written).expect("a table");
                assert_eq!(read(kind, &text).expect("what was written"), config);
            }
        }
    }

    #[test]
    fn wrong_keys_are_refused_by_name() {
        let check = |kind: &str, keys: &str, error: &str| {
            let found = read(kind, keys).expect_err(keys).to_string();
            assert!(found.contains(error), "{found}");
        };

        check("matrix-factorization", "ranks = 3", "unknown field `ranks`, expected one of `rank`");
        check("softmax-regression", "data.sauce = 1", "unknown field `sauce`");
        check("perceptron", "data.synthetic.noise = 1", "unknown field `noise`");
        check("perceptron", "hidden = 3", "expected a sequence");
        check(
            "perceptron",
            "data.source = \"libsvm\"",
            "expected one of `synthetic`, `idx`, `cifar`",
        );
        check("convolutional-network", "filters = 3", "expected a sequence");
        check("convolutional-network", "normalization = \"batch\"", "expected `none` or `group`");
        check("logistic-regression", "data.split = \"odd\"", "expected one of `even`, `by-user`");
        check("softmax-regression", "batch = -1", "expected usize");
        check("perceptron", "optimizer = \"lamb\"", "expected one of `sgd`, `adagrad`, `adam`");
        check("bayes", "", "unknown variant `bayes`, expected one of `matrix-factorization`");
    }

    #[test]
    fn values_out_of_range_are_named_with_what_was_expected() {
        for (kind, cases) in OUT_OF_RANGE {
            for (keys, error) in *cases {
                let config = read(kind, keys).expect("good types");
                assert_eq!(config.validate().expect_err(keys).to_string(), *error);
            }
        }
    }

    fn read(kind: &str, keys: &str) -> Result<AppConfig, toml::de::Error> {
        AppConfig::deserialize(kind, toml::Deserializer::parse(keys)?)
    }

    /// By kind of application: keys, and the error that names them.
    const OUT_OF_RANGE: &[(&str, &[(&str, &str)])] = &[
        (
            "matrix-factorization",
            &[
                ("rank = 0", "app.rank is 0, expected a whole number, 1 to 1024"),
                ("learning_rate = nan", "app.learning_rate is NaN, expected above 0 and at most 1"),
                ("learning_rate = 2.0", "app.learning_rate is 2, expected above 0 and at most 1"),
                (
                    "clocks_per_pass = 0",
                    "app.clocks_per_pass is 0, expected a whole number, 1 to 1048576",
                ),
                ("data.held_out = 1.0", "app.data.held_out is 1, expected above 0 and below 1"),
                ("data.skew = -0.5", "app.data.skew is -0.5, expected 0 to 1"),
                (
                    "data.split = \"by-label\"",
                    "app.data.split is \"by-label\", expected \"even\" or \"by-user\"",
                ),
                (
                    "data.source = \"movielens\"",
                    "app.data.path is missing, expected the path of the data files",
                ),
            ],
        ),
        (
            "perceptron",
            &[
                ("hidden = []", "app.hidden is a list of 0, expected 1 to 16 layers"),
                ("hidden = [3, 0]", "app.hidden[1] is 0, expected a whole number, 1 to 1048576"),
            ],
        ),
        (
            "convolutional-network",
            &[
                ("filters = []", "app.filters is a list of 0, expected 1 to 16 layers"),
                ("filters = [3, 0]", "app.filters[1] is 0, expected a whole number, 1 to 4096"),
                ("kernel = 4", "app.kernel is 4, expected an odd number, 1 to 15"),
                ("kernel = 17", "app.kernel is 17, expected an odd number, 1 to 15"),
                ("pool = 0", "app.pool is 0, expected a whole number, 1 to 8"),
                ("groups = 0", "app.groups is 0, expected a whole number, 1 to 4096"),
                (
                    "normalization = \"group\"\ngroups = 3",
                    "app.groups is 3, expected a number that divides all filters, of which there are 8",
                ),
                (
                    "hidden = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
                    "app.hidden is a list of 17, expected 0 to 16 layers",
                ),
                ("momentum = 1.0", "app.momentum is 1, expected 0 to 0.999"),
                (
                    "learning_rate_clocks = 100",
                    "app.learning_rate_clocks is 100, expected learning_rate_decay = \"linear\" beside it",
                ),
                (
                    "optimizer = \"adam\"\nmomentum = 0.9",
                    "app.momentum is 0.9, expected 0 with optimizer = \"adam\"",
                ),
                ("clip_norm = 0.0", "app.clip_norm is 0, expected above 0 and at most 1000000"),
                (
                    "data.synthetic.side = 4",
                    "app.data.synthetic.side is 4, expected a whole number, 5 to 1024",
                ),
                (
                    "data.synthetic.label_noise = 1.5",
                    "app.data.synthetic.label_noise is 1.5, expected 0 to 1",
                ),
                (
                    "data.synthetic.examples = 200000000",
                    "app.data.synthetic.examples is 200000000, expected at most 16777216 for 64 pixels",
                ),
            ],
        ),
        (
            "logistic-regression",
            &[
                (
                    "data.synthetic.features = 10",
                    "app.data.synthetic.active is 15, expected a whole number, 1 to 10",
                ),
                (
                    "learning_rate = 101.0",
                    "app.learning_rate is 101, expected above 0 and at most 100",
                ),
                (
                    "learning_rate_decay = \"linear\"",
                    "app.learning_rate_decay is \"linear\", expected another decay, or stop.clocks or learning_rate_clocks \
                     beside it",
                ),
                (
                    "learning_rate_clocks = 0",
                    "app.learning_rate_clocks is 0, expected a whole number, 1 to 1099511627776",
                ),
            ],
        ),
    ];
}
