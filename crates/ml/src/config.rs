//! The settings that applications share: where data comes from, how it is partitioned, how the learning rate falls; and
//! the error of a setting that is not allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::columns::{Columns, DataSource};
use crate::declared::Declared;
use gaia_core::types::{ByteSize, Clock};

/// Where examples come from and how they are partitioned: the `[app.data]` table.
///
/// `S` names the sources that an application has, `G` holds the sizes of its generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[serde(bound(
    serialize = "S: DataSource + Serialize, G: Default + Serialize",
    deserialize = "S: DataSource + Deserialize<'de>, G: Default + Deserialize<'de>"
))]
pub struct DataConfig<S, G>
where
    S: DataSource,
    G: Default,
{
    /// `synthetic`, which needs no file, or the format of the files at `path`.
    pub source: S,
    /// The file, a folder of files or a pattern of them; for `idx` and `cifar` the folder, or a pattern of folders.
    /// `{dc}` in it stands for the name of the data center: each then has data of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The share of the examples kept for the held-out metric where no test file comes with the data,
    /// above 0 and below 1.
    pub held_out: f64,
    /// Which examples each data center gets.
    pub split: Split,
    /// The share of each data center's examples that `split` decides, 0 to 1; the rest are partitioned evenly.
    pub skew: f64,
    /// What differs in a data center, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, DataAt<S>>,
    /// Where examples are once they are read: in `memory`, or on `disk` if they are more than fit in it.
    #[serde(skip_serializing_if = "is_default")]
    pub examples: ExamplesOn,
    /// A folder on a disk with room for twice the examples of this process, for `examples = "disk"`.
    #[serde(skip_serializing_if = "is_default")]
    pub scratch: ScratchFolder,
    /// The memory that examples on disk may take, of all workers of a run together, 1 MiB to 1024 GiB.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: ExamplesMemory,
    /// What is declared of the data of all data centers. The rest is agreed at the start of a run.
    #[serde(skip_serializing_if = "is_default")]
    pub declared: S::Declared,
    /// Which columns hold what, for `csv` and `parquet`.
    #[serde(skip_serializing_if = "is_default")]
    pub columns: S::Columns,
    /// Sizes of the generator, for `source = "synthetic"`.
    pub synthetic: G,
}

/// The settings of one data center's data that differ from those of all: an `[app.data.at.NAME]` table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataAt<S> {
    /// The format of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<S>,
    /// Where the files are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The share of the examples that is held out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
    /// Which examples each worker of the data center gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The share of them that `split` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew: Option<f64>,
    /// The folder of its files for examples on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<ScratchFolder>,
}

/// Where examples are once they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExamplesOn {
    /// In memory.
    #[default]
    Memory,
    /// In a file without a name, from which each worker reads windows of its own in a random order.
    Disk,
}

/// The folder of files for examples on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScratchFolder(pub PathBuf);

/// The memory that examples on disk may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExamplesMemory(pub ByteSize);

impl Default for ScratchFolder {
    /// The folder for large temporary files of the Filesystem Hierarchy Standard: other than `/tmp` it is on a disk.
    fn default() -> Self {
        Self("/var/tmp".into())
    }
}

impl Default for ExamplesMemory {
    fn default() -> Self {
        Self(ByteSize(1 << 28))
    }
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
    /// It falls in a straight line over the planned clocks of the run.
    Linear,
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

impl<S: DataSource, G: Default> Default for DataConfig<S, G> {
    fn default() -> Self {
        Self {
            source: S::default(),
            path: None,
            held_out: 0.1,
            split: Split::Even,
            skew: 1.0,
            at: BTreeMap::new(),
            examples: ExamplesOn::default(),
            scratch: ScratchFolder::default(),
            memory: ExamplesMemory::default(),
            declared: S::Declared::default(),
            columns: S::Columns::default(),
            synthetic: G::default(),
        }
    }
}

impl RateDecay {
    /// The learning rate at a clock relative to the first; `clocks_per_pass` is at least 1, and `planned` are the clocks that
    /// a linear decay takes. From the last of them on it stays what it is there.
    pub fn factor(self, clock: Clock, clocks_per_pass: u64, planned: Option<u64>) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Linear => {
                let planned = planned.unwrap_or(1).max(1);
                (planned - clock.0.min(planned - 1)) as f64 / planned as f64
            }
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

impl<S: DataSource, G: Clone + Default> DataConfig<S, G> {
    /// Checks what holds for every application; `splits` are the ones it knows.
    pub(super) fn validate(&self, splits: &[Split]) -> Result<(), ConfigError> {
        if self.source != S::default() && self.path.is_none() && self.at.is_empty() {
            return Err(ConfigError::new("data.path", "missing", "the path of the data files"));
        }
        self.validate_path("data")?;
        self.validate_shares("data", splits)?;
        for name in self.at.keys() {
            let (own, table) = (self.in_data_center(name), format!("data.at.{name}"));
            own.validate_path(&table)?;
            own.validate_shares(&table, splits)?;
        }
        if self.examples == ExamplesOn::Disk && self.is_generated() {
            let expected = "\"memory\", where data is generated";
            return Err(ConfigError::new("data.examples", "\"disk\"", expected));
        }
        if !(EXAMPLES_MEMORY_MIN..=EXAMPLES_MEMORY_MAX).contains(&self.memory.0) {
            let expected = format!("{EXAMPLES_MEMORY_MIN} to {EXAMPLES_MEMORY_MAX}");
            return Err(ConfigError::new("data.memory", self.memory.0, expected));
        }
        self.declared.validate()?;
        self.columns.validate()
    }

    /// Checks that files are not named beside data that is generated.
    fn validate_path(&self, table: &str) -> Result<(), ConfigError> {
        match &self.path {
            Some(path) if self.source == S::default() => {
                let expected = format!(
                    "no path beside source = \"synthetic\", or source = \"{}\" for files of this name",
                    S::of_path(path)
                );
                Err(ConfigError::new(&format!("{table}.path"), path.display(), expected))
            }
            _ => Ok(()),
        }
    }

    /// Checks how examples are held out and split.
    fn validate_shares(&self, table: &str, splits: &[Split]) -> Result<(), ConfigError> {
        if !(self.held_out > 0.0 && self.held_out < 1.0) {
            let key = format!("{table}.held_out");
            return Err(ConfigError::new(&key, self.held_out, "above 0 and below 1"));
        }
        within(&format!("{table}.skew"), self.skew, 0.0, 1.0)?;
        if !splits.contains(&self.split) {
            let expected = splits.iter().map(|split| split.name()).collect::<Vec<_>>().join(" or ");
            let key = format!("{table}.split");
            return Err(ConfigError::new(&key, self.split.name(), expected));
        }
        Ok(())
    }

    /// Whether all data is generated.
    pub fn is_generated(&self) -> bool {
        let is_default = |source: &S| *source == S::default();
        is_default(&self.source)
            && self.at.values().all(|at| at.source.as_ref().is_none_or(is_default))
    }

    /// Whether each data center has data of its own: `{dc}` is in the path, or `at` gives a data center a path.
    pub fn is_per_data_center(&self) -> bool {
        is_per_data_center(self.path.as_deref()) || self.at.values().any(|at| at.path.is_some())
    }

    /// The settings in one data center: with those of `at`, and with its name in the place of `{dc}`.
    #[must_use]
    pub fn in_data_center(&self, name: &str) -> Self {
        let mut own = Self { at: BTreeMap::new(), ..self.clone() };
        if let Some(at) = self.at.get(name) {
            own.source = at.source.unwrap_or(own.source);
            own.path = at.path.clone().or(own.path);
            own.held_out = at.held_out.unwrap_or(own.held_out);
            own.split = at.split.unwrap_or(own.split);
            own.skew = at.skew.unwrap_or(own.skew);
            own.scratch = at.scratch.clone().unwrap_or(own.scratch);
        }
        own.path = own.path.map(|path| path_in_data_center(&path, name));
        own
    }

    /// The paths of the files of these data centers; none where data is synthetic.
    pub(super) fn paths(&self, data_centers: &[String]) -> BTreeSet<PathBuf> {
        let own = data_centers.iter().map(|name| self.in_data_center(name));
        own.filter(|own| own.source != S::default()).filter_map(|own| own.path).collect()
    }

    /// The folders that examples of these data centers are written to; none where they are in memory.
    pub(super) fn scratch_folders(&self, data_centers: &[String]) -> BTreeSet<PathBuf> {
        let own = data_centers.iter().map(|name| self.in_data_center(name));
        own.filter(|own| own.examples == ExamplesOn::Disk).map(|own| own.scratch.0).collect()
    }

    /// The same settings, wherever data files lie. Whether each data center has its own is kept.
    #[must_use]
    pub fn without_paths(&self) -> Self {
        let mut own = self.clone();
        own.path = own.is_per_data_center().then(|| DATA_CENTER.into());
        own.scratch = ScratchFolder::default();
        for at in own.at.values_mut() {
            (at.path, at.scratch) = (None, None);
        }
        own
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether a path holds `{dc}`.
fn is_per_data_center(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.to_string_lossy().contains(DATA_CENTER))
}

/// A path with the name of a data center in the place of `{dc}`.
pub(super) fn path_in_data_center(path: &Path, name: &str) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace(DATA_CENTER, name).into(),
        None => path.into(),
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

/// A block of examples for each of a few uses.
const EXAMPLES_MEMORY_MIN: ByteSize = ByteSize(1 << 20);

const EXAMPLES_MEMORY_MAX: ByteSize = ByteSize(1 << 40);

/// What stands for the name of the data center in a path.
const DATA_CENTER: &str = "{dc}";
