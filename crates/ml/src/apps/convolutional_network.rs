//! The convolutional network: filters that look for the same thing everywhere, then dense layers.

use serde::{Deserialize, Serialize};

use super::network::{ImageSource, Network, Training, count_layers, validate_hidden};
use crate::ConfigError;
use crate::config::{DataConfig, RateDecay, Split, count, fits, within};
use crate::divided::Divided;
use crate::examples::{DenseExamples, Shape};
use crate::layers::Builder;
use crate::optimizer::{Defaults, Optimizer, steps};
use gaia_core::types::Seed;

/// Settings of `kind = "convolutional-network"`.
///
/// Each of `filters` is a block: a convolution, a normalisation where asked for, max pooling and a rectifier.
/// Dense layers with rectifiers follow, then a softmax. The defaults were chosen on MNIST and on synthetic
/// images with 3 to 22 workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConvolutionalNetworkConfig {
    /// Filters of each convolution from the input on; 1 to 16 convolutions.
    pub filters: Vec<usize>,
    /// Side of the window that a filter sees, odd, 1 to 15.
    pub kernel: usize,
    /// Side of the windows of which the largest value is kept, 1 to 8; 1 keeps all.
    pub pool: usize,
    /// What follows each convolution: `none` or `group`.
    pub normalization: Normalization,
    /// Groups of channels that are normalised together; divides every number of filters.
    pub groups: usize,
    /// Units of each hidden dense layer; may be empty.
    pub hidden: Vec<usize>,
    /// Examples of each worker in each clock. Left out, 32; with an adaptive optimizer at most an eighth of a worker's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Which steps follow from gradients: `sgd`, `adagrad` or `adam`.
    pub optimizer: Optimizer,
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
    /// The weight of half the squared weights in the objective; gains and biases are left alone.
    pub weight_decay: f64,
    /// About how many training examples the objective is taken over, a seeded choice; more than there are: all.
    pub evaluate_examples: usize,
    /// The examples.
    pub data: DataConfig<ImageSource, ImageGenerator>,
}

/// What follows each convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalization {
    /// Nothing.
    #[default]
    None,
    /// Group normalisation, which needs no statistics of a data center's examples.
    Group,
}

/// Images that hold one of several small patterns somewhere.
///
/// Each class is a random pattern of 5 × 5 pixels whose values add up to zero, so that over all places it may
/// be in it leaves no trace in the mean image, and a linear model learns next to nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageGenerator {
    /// How many classes, at least 2.
    pub classes: usize,
    /// Planes of each image, as colours are.
    pub channels: usize,
    /// Rows and columns of each image, at least 5.
    pub side: usize,
    /// Examples to generate, the held-out ones included.
    pub examples: usize,
    /// Random patterns of no class in each image.
    pub distractors: usize,
    /// Standard deviation of the noise on each pixel; the patterns' is 1.
    pub noise: f64,
    /// The share of labels that are wrong on purpose: no model is right more often than the rest.
    pub label_noise: f64,
}

/// Builds the application from examples divided among workers.
///
/// # Panics
///
/// Where images are smaller than [`ConvolutionalNetworkConfig::check_shape`] allows.
pub fn convolutional_network(
    config: &ConvolutionalNetworkConfig,
    examples: Divided<DenseExamples>,
    seed: Seed,
    data: &str,
) -> Network {
    let train = &examples.train;
    let mut builder = Builder::new(train.shape);
    for &filters in &config.filters {
        builder = match config.normalization {
            Normalization::None => builder.convolution(filters, config.kernel),
            Normalization::Group => {
                builder.normalized_convolution(filters, config.kernel, config.groups)
            }
        };

        // The rectifier could stand before the pooling with the same result, on more values.
        if config.pool > 1 {
            builder = builder.max_pooling(config.pool);
        }

        builder = builder.rectifier();
    }

    for &units in &config.hidden {
        builder = builder.dense(units).rectifier();
    }

    let stack = builder.dense(train.classes).build();
    let filters = config.filters.iter().map(|&filters| format!("{filters}@{0}×{0}", config.kernel));
    let dense = config.hidden.iter().chain([&train.classes]).map(ToString::to_string);
    let layers: Vec<String> =
        [train.shape.to_string()].into_iter().chain(filters).chain(dense).collect();
    let name = format!("convolutional network {}", layers.join("-"));

    Network::new(config.training(), stack, examples, seed, (&name, data))
}

steps!(
    ConvolutionalNetworkConfig,
    Defaults { batch: 32, sgd: 0.2, adagrad: 0.1, adam: 0.01, reach: None }
);

impl Default for ConvolutionalNetworkConfig {
    fn default() -> Self {
        Self {
            filters: vec![8, 16],
            kernel: 3,
            pool: 2,
            normalization: Normalization::None,
            groups: 4,
            hidden: vec![32],
            batch: None,
            optimizer: Optimizer::Sgd,
            learning_rate: None,
            learning_rate_decay: None,
            learning_rate_clocks: None,
            warm_up: 0,
            clip_norm: None,
            momentum: 0.0,
            weight_decay: 1e-4,
            evaluate_examples: 2_000,
            data: DataConfig::default(),
        }
    }
}

impl Default for ImageGenerator {
    fn default() -> Self {
        Self {
            classes: 4,
            channels: 1,
            side: 8,
            examples: 12_000,
            distractors: 1,
            noise: 0.3,
            label_noise: 0.05,
        }
    }
}

impl ConvolutionalNetworkConfig {
    /// Checks the range of every key.
    pub fn validate(&self) -> Result<(), ConfigError> {
        count_layers("filters", self.filters.len(), 1)?;

        for (layer, &filters) in self.filters.iter().enumerate() {
            count(&format!("filters[{layer}]"), filters, 1, 1 << 12)?;
        }

        if self.kernel.is_multiple_of(2) || self.kernel > KERNEL_MAX {
            let expected = format!("an odd number, 1 to {KERNEL_MAX}");
            return Err(ConfigError::new("kernel", self.kernel, expected));
        }

        count("pool", self.pool, 1, 8)?;
        count("groups", self.groups, 1, 1 << 12)?;

        let odd = self.filters.iter().find(|filters| !filters.is_multiple_of(self.groups));
        if let Some(filters) = odd.filter(|_| self.normalization == Normalization::Group) {
            let expected =
                format!("a number that divides all filters, of which there are {filters}");
            return Err(ConfigError::new("groups", self.groups, expected));
        }

        validate_hidden(&self.hidden, 0)?;
        self.training().validate()?;
        self.data.validate(&[Split::Even, Split::ByLabel])?;

        let generator = &self.data.synthetic;
        count("data.synthetic.classes", generator.classes, 2, 1 << 16)?;
        count("data.synthetic.channels", generator.channels, 1, 1 << 10)?;
        count("data.synthetic.side", generator.side, PATTERN_SIDE, 1 << 10)?;
        count("data.synthetic.examples", generator.examples, 10, 1 << 28)?;
        count("data.synthetic.distractors", generator.distractors, 0, 1 << 10)?;

        let pixels = generator.shape().values();
        fits("data.synthetic.examples", generator.examples, pixels, "pixels")?;

        let pattern = generator.channels * PATTERN_SIDE * PATTERN_SIDE;
        fits("data.synthetic.classes", generator.classes, pattern, "values of a pattern")?;
        within("data.synthetic.noise", generator.noise, 0.0, 1000.0)?;

        within("data.synthetic.label_noise", generator.label_noise, 0.0, 1.0)
    }

    /// Checks that every pooling has a window left in images of some shape.
    pub fn check_shape(&self, shape: Shape) -> Result<(), ConfigError> {
        let last = self.shape_after(shape, self.filters.len());
        if last.plane() > 0 {
            return Ok(());
        }
        let times = self.filters.len();
        let expected = format!("a side that fits {times} times into images of {shape}");
        Err(ConfigError::new("pool", self.pool, expected))
    }

    /// Parameters of the network on images of some shape; the largest number there is where they are more.
    pub fn parameters(&self, shape: Shape, classes: usize) -> usize {
        let mut inputs = shape.channels;
        let mut sum = 0_usize;
        for &filters in &self.filters {
            let weights = inputs.saturating_mul(self.kernel * self.kernel * filters);
            sum = sum.saturating_add(weights).saturating_add(2 * filters);
            inputs = filters;
        }
        inputs = inputs.saturating_mul(self.shape_after(shape, self.filters.len()).plane());
        for &units in self.hidden.iter().chain([&classes]) {
            sum = sum.saturating_add(inputs.saturating_mul(units)).saturating_add(units);
            inputs = units;
        }
        sum
    }

    /// An input plane after some poolings.
    fn shape_after(&self, shape: Shape, poolings: usize) -> Shape {
        let shrink = self.pool.saturating_pow(poolings as u32);
        Shape { height: shape.height / shrink, width: shape.width / shrink, ..shape }
    }

    fn training(&self) -> Training {
        Training {
            steps: self.steps(),
            momentum: self.momentum,
            weight_decay: self.weight_decay,
            evaluate_examples: Some(self.evaluate_examples),
        }
    }
}

impl ImageGenerator {
    /// Of each image.
    pub const fn shape(&self) -> Shape {
        Shape { channels: self.channels, height: self.side, width: self.side }
    }
}

/// Rows and columns of the patterns in synthetic images.
pub const PATTERN_SIDE: usize = 5;

/// The largest window that a filter may see.
const KERNEL_MAX: usize = 15;
