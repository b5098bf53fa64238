//! The settings that applications share: where data comes from, how it is partitioned, how the learning rate falls; and
//! the error of a setting that is not allowed.

use std::fmt::Display;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use gaia_core::types::Clock;

/// Where examples come from and how they are partitioned: the `[app.data]` table.
///
/// `S` names the sources that an application has, `G` holds the sizes of its generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig<S, G>
where
    S: Default,
    G: Default,
{
    /// `synthetic`, which needs no file, or the format of the files at `path`.
    pub source: S,
    /// The file, a folder of files or a pattern of them; for `idx` and `cifar` the folder, or a pattern of folders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The share of the examples kept for the held-out metric where no test file comes with the data,
    /// above 0 and below 1.
    pub held_out: f64,
    /// Which examples each data center gets.
    pub split: Split,
    /// The share of each data center's examples that `split` decides, 0 to 1; the rest are partitioned evenly.
    pub skew: f64,
    /// Sizes of the generator, for `source = "synthetic"`.
    pub synthetic: G,
}

/// Which examples each data center gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// A seeded shuffle, partitioned evenly over all workers.
    #[default]
    Even,
    /// All ratings of a user to one worker, so that all workers have about the same number of ratings.
    ByUser,
    /// Examples sorted by label and cut, so that a data center sees few labels.
    ByLabel,
}

/// How the learning rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateDecay {
    /// It stays the same.
    None,
    /// η₀ ÷ √pass, passes counted from 1.
    InverseSqrtPass,
}

/// A setting of the right type with a value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("app.{key} is {value}, expected {expected}")]
pub struct ConfigError {
    /// The key below `[app]`, dots between tables.
    pub key: String,
    /// The value as it was set.
    pub value: String,
    /// The values that are allowed.
    pub expected: String,
}

impl<S: Default, G: Default> Default for DataConfig<S, G> {
    fn default() -> Self {
        Self {
            source: S::default(),
            path: None,
            held_out: 0.1,
            split: Split::Even,
            skew: 1.0,
            synthetic: G::default(),
        }
    }
}

impl RateDecay {
    /// The learning rate at a clock relative to the first; `clocks_per_pass` is at least 1.
    pub fn factor(self, clock: Clock, clocks_per_pass: u64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::InverseSqrtPass => 1.0 / ((clock.0 / clocks_per_pass + 1) as f64).sqrt(),
        }
    }
}

impl ConfigError {
    /// The error that the key has this value.
    pub fn new(key: &str, value: impl Display, expected: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.to_string(), expected: expected.into() }
    }
}

impl<S: Default + PartialEq, G: Default> DataConfig<S, G> {
    /// Checks what holds for every application; `splits` are the ones it knows.
    pub(super) fn validate(&self, splits: &[Split]) -> Result<(), ConfigError> {
        if self.source != S::default() && self.path.is_none() {
            return Err(ConfigError::new("data.path", "missing", "the path of the data files"));
        }
        if !(self.held_out > 0.0 && self.held_out < 1.0) {
            return Err(ConfigError::new("data.held_out", self.held_out, "above 0 and below 1"));
        }
        within("data.skew", self.skew, 0.0, 1.0)?;
        if !splits.contains(&self.split) {
            let expected = splits.iter().map(|split| split.name()).collect::<Vec<_>>().join(" or ");
            return Err(ConfigError::new("data.split", self.split.name(), expected));
        }
        Ok(())
    }
}

impl Split {
    fn name(self) -> &'static str {
        match self {
            Self::Even => "\"even\"",
            Self::ByUser => "\"by-user\"",
            Self::ByLabel => "\"by-label\"",
        }
    }
}

/// Checks that a number is finite and between two others, both included.
pub(super) fn within(key: &str, value: f64, least: f64, most: f64) -> Result<(), ConfigError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(ConfigError::new(key, value, format!("{least} to {most}")))
}

/// Checks that a number is above 0 and at most `most`.
pub(super) fn above_zero(key: &str, value: f64, most: f64) -> Result<(), ConfigError> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    Err(ConfigError::new(key, value, format!("above 0 and at most {most}")))
}

/// Checks that a count is between two others, both included.
pub(super) fn count(key: &str, value: usize, least: usize, most: usize) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, value, format!("a whole number, {least} to {most}")))
}

/// Checks that a generator's numbers, the product of two settings, fit in memory.
pub(super) fn fits(key: &str, value: usize, times: usize, what: &str) -> Result<(), ConfigError> {
    if value.saturating_mul(times) <= GENERATED_NUMBERS_MAX {
        return Ok(());
    }
    let expected = format!("at most {} for {times} {what}", GENERATED_NUMBERS_MAX / times);
    Err(ConfigError::new(key, value, expected))
}

/// Numbers that a generator may hold: 4 GiB of them.
const GENERATED_NUMBERS_MAX: usize = 1 << 30;
