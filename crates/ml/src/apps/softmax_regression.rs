//! Softmax regression: one linear layer, cross-entropy, any number of classes.

use serde::{Deserialize, Serialize};

use super::network::{ImageSource, Network, Training};
use crate::ConfigError;
use crate::config::{DataConfig, RateDecay, Split, count, fits, within};
use crate::divided::Divided;
use crate::examples::{DenseExamples, Shape};
use crate::layers::Builder;
use crate::optimizer::{Defaults, Optimizer, steps};
use gaia_core::types::Seed;

/// Settings of `kind = "softmax-regression"`.
///
/// The defaults of `sgd` were chosen on MNIST with 3 to 22 workers, and those of the others on data of many kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SoftmaxRegressionConfig {
    /// Examples of each worker in each clock. Left out, 32; with an adaptive optimizer at most an eighth of a worker's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Which steps follow from gradients: `sgd`, `adagrad` or `adam`. Left out, `adagrad`; with momentum `sgd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// The learning rate η₀ of the mean gradient over all workers' batches, above 0 and at most 100. Left out, it is that of
    /// the optimizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// How the learning rate falls: `inverse-sqrt-pass`, `linear` or `none`. Left out, it follows from the optimizer and the
    /// length of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate_decay: Option<RateDecay>,
    /// Clocks over which a linear decay falls to 0. Left out, those of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate_clocks: Option<u64>,
    /// Clocks over which the learning rate rises to η₀; 0 is none.
    pub warm_up: u64,
    /// The largest Euclidean norm of a worker's gradient, above 0; left out: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// The share of the last step that goes into the next, 0 to below 1; kept by each worker.
    pub momentum: f64,
    /// The weight of half the squared weights in the objective.
    pub weight_decay: f64,
    /// Training examples that the objective is taken over, a seeded choice; left out: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluate_examples: Option<usize>,
    /// The examples.
    pub data: DataConfig<ImageSource, MixtureGenerator>,
}

/// Classes that are spherical Gaussians around random centers, all equally likely.
///
/// Their log-odds are linear, so softmax regression can learn the best possible answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MixtureGenerator {
    /// How many classes, at least 2.
    pub classes: usize,
    /// Numbers in each example.
    pub features: usize,
    /// Examples to generate, the held-out ones included.
    pub examples: usize,
    /// The distance between two centers, in standard deviations of a class.
    pub separation: f64,
}

/// Builds the application from examples divided among workers.
pub fn softmax_regression(
    config: &SoftmaxRegressionConfig,
    examples: Divided<DenseExamples>,
    seed: Seed,
    data: &str,
) -> Network {
    let train = &examples.train;
    let stack = Builder::new(Shape::row(train.width())).dense(train.classes).build();
    let name = format!("softmax regression {}-{}", train.width(), train.classes);
    Network::new(config.training(), stack, examples, seed, (&name, data))
}

steps!(
    SoftmaxRegressionConfig,
    Defaults { batch: 32, sgd: 0.5, adagrad: 1.0, adam: 0.1, reach: Some(5.0) },
    momentum
);

impl Default for SoftmaxRegressionConfig {
    fn default() -> Self {
        Self {
            batch: None,
            optimizer: None,
            learning_rate: None,
            learning_rate_decay: None,
            learning_rate_clocks: None,
            warm_up: 0,
            clip_norm: None,
            momentum: 0.0,
            weight_decay: 1e-4,
            evaluate_examples: None,
            data: DataConfig::default(),
        }
    }
}

impl Default for MixtureGenerator {
    fn default() -> Self {
        Self { classes: 10, features: 50, examples: 12_000, separation: 3.5 }
    }
}

impl SoftmaxRegressionConfig {
    fn training(&self) -> Training {
        Training {
            steps: self.steps(),
            momentum: self.momentum,
            weight_decay: self.weight_decay,
            evaluate_examples: self.evaluate_examples,
        }
    }

    /// Checks the range of every key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.training().validate()?;
        self.data.validate(&[Split::Even, Split::ByLabel])?;
        let generator = &self.data.synthetic;
        count("data.synthetic.classes", generator.classes, 2, 1 << 16)?;
        count("data.synthetic.features", generator.features, 1, 1 << 20)?;
        count("data.synthetic.examples", generator.examples, 10, 1 << 28)?;
        let features = generator.features;
        fits("data.synthetic.examples", generator.examples, features, "features")?;
        fits("data.synthetic.classes", generator.classes, features, "features")?;
        within("data.synthetic.separation", generator.separation, 0.0, 1000.0)
    }
}
