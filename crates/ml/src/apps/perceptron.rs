//! The multi-layer perceptron: hidden layers of rectifiers before a softmax.

use serde::{Deserialize, Serialize};

use super::network::{ImageSource, Network, Training, validate_hidden};
use crate::ConfigError;
use crate::config::{DataConfig, RateDecay, Split, count, fits, within};
use crate::divided::Divided;
use crate::examples::{DenseExamples, Shape};
use crate::layers::Builder;
use crate::optimizer::{Defaults, Optimizer, steps};
use gaia_core::types::Seed;

/// Settings of `kind = "perceptron"`.
///
/// The learning rate of `sgd` was chosen on MNIST with 3 to 22 workers. That of `adagrad` holds for features of any scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerceptronConfig {
    /// Units of each hidden layer from the input on; 1 to 16 layers.
    pub hidden: Vec<usize>,
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
    /// About how many training examples the objective is taken over, a seeded choice; more than there are: all.
    pub evaluate_examples: usize,
    /// The examples.
    pub data: DataConfig<ImageSource, TeacherGenerator>,
}

/// Gaussian features, labelled by a random network with one hidden layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeacherGenerator {
    /// How many classes, at least 2.
    pub classes: usize,
    /// Numbers in each example.
    pub features: usize,
    /// Hidden units of the network that labels.
    pub hidden: usize,
    /// Examples to generate, the held-out ones included.
    pub examples: usize,
    /// The share of labels that are wrong on purpose: no model is right more often than the rest.
    pub label_noise: f64,
}

/// Builds the application from examples divided among workers.
pub fn perceptron(
    config: &PerceptronConfig,
    examples: Divided<DenseExamples>,
    seed: Seed,
    data: &str,
) -> Network {
    let train = &examples.train;
    let mut builder = Builder::new(Shape::row(train.width()));
    for &units in &config.hidden {
        builder = builder.dense(units).rectifier();
    }
    let stack = builder.dense(train.classes).build();
    let units = [train.width()].into_iter().chain(config.hidden.clone()).chain([train.classes]);
    let units: Vec<String> = units.map(|units| units.to_string()).collect();
    let name = format!("perceptron {}", units.join("-"));
    Network::new(config.training(), stack, examples, seed, (&name, data))
}

steps!(
    PerceptronConfig,
    Defaults { batch: 32, sgd: 0.3, adagrad: 0.1, adam: 0.01, reach: None },
    momentum
);

impl Default for PerceptronConfig {
    fn default() -> Self {
        Self {
            hidden: vec![64],
            batch: None,
            optimizer: None,
            learning_rate: None,
            learning_rate_decay: None,
            learning_rate_clocks: None,
            warm_up: 0,
            clip_norm: None,
            momentum: 0.0,
            weight_decay: 1e-4,
            evaluate_examples: 10_000,
            data: DataConfig::default(),
        }
    }
}

impl Default for TeacherGenerator {
    fn default() -> Self {
        Self { classes: 4, features: 20, hidden: 4, examples: 12_000, label_noise: 0.02 }
    }
}

impl PerceptronConfig {
    fn training(&self) -> Training {
        Training {
            steps: self.steps(),
            momentum: self.momentum,
            weight_decay: self.weight_decay,
            evaluate_examples: Some(self.evaluate_examples),
        }
    }

    /// Checks the range of every key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        validate_hidden(&self.hidden, 1)?;
        self.training().validate()?;
        self.data.validate(&[Split::Even, Split::ByLabel])?;
        let generator = &self.data.synthetic;
        count("data.synthetic.classes", generator.classes, 2, 1 << 16)?;
        count("data.synthetic.features", generator.features, 1, 1 << 20)?;
        count("data.synthetic.hidden", generator.hidden, 1, 1 << 16)?;
        count("data.synthetic.examples", generator.examples, 10, 1 << 28)?;
        let features = generator.features;
        fits("data.synthetic.examples", generator.examples, features, "features")?;
        fits("data.synthetic.hidden", generator.hidden, features, "features")?;
        fits("data.synthetic.hidden", generator.hidden, generator.classes, "classes")?;
        within("data.synthetic.label_noise", generator.label_noise, 0.0, 1.0)
    }
}
