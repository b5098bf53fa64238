//! Which columns of csv and Parquet files hold what: the `[app.data.columns]` table of each kind of data.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, count};
use crate::declared::Declared;
use crate::examples::Shape;

/// A choice of where data comes from. The default needs no file.
pub trait DataSource: Copy + Default + PartialEq {
    /// Which columns are read of files of columns.
    type Columns: Columns;
    /// What a run file declares of the data of all.
    type Declared: Declared;

    /// The source that files of this path's name have, as a run file writes it, without a look at the disk.
    fn of_path(path: &Path) -> &'static str;
}

/// The name of a file or a folder, without regard to case and to `.gz` at its end.
pub(crate) fn named(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    name.strip_suffix(".gz").unwrap_or(&name).to_owned()
}

/// The ending of such a name, which says the format of some files.
pub(crate) fn ending(path: &Path) -> Option<String> {
    named(path).rsplit_once('.').map(|(_, ending)| ending.to_owned())
}

/// Which columns are read of files of columns.
pub trait Columns: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// Checks the range of every key.
    ///
    /// # Errors
    /// The first key that is not allowed.
    fn validate(&self) -> Result<(), ConfigError>;
}

/// The columns of ratings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RatingColumns {
    /// Who rates: whole numbers or text.
    pub user: String,
    /// What is rated: whole numbers or text.
    pub item: String,
    /// The rating.
    pub rating: String,
    /// What separates the fields of a csv file.
    pub separator: char,
}

/// The columns of dense examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DenseColumns {
    /// The class: whole numbers, text or truth values.
    pub label: String,
    /// The features, or one column of lists. Left out: all other columns, in the order of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// Channels, height and width of an image. Left out: the features are one row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<[usize; 3]>,
    /// What separates the fields of a csv file.
    pub separator: char,
}

/// The columns of sparse examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SparseColumns {
    /// The class, one of two: whole numbers, text or truth values.
    pub label: String,
    /// Columns of numbers, of which zeros are left out. Left out: all other columns, in the order of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// Lists of the features that an example has, counted from 0. `values` then has as many numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indices: Option<String>,
    /// Lists of the values of these features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
    /// What separates the fields of a csv file.
    pub separator: char,
}

/// Of data that is never in files of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoColumns {}

impl Columns for RatingColumns {
    fn validate(&self) -> Result<(), ConfigError> {
        validate_separator(self.separator)
    }
}

impl Columns for DenseColumns {
    fn validate(&self) -> Result<(), ConfigError> {
        validate_features(self.features.as_deref(), &self.label)?;
        if let Some([channels, height, width]) = self.shape {
            let sizes = [channels, height, width];
            sizes.iter().try_for_each(|size| count("data.columns.shape", *size, 1, SIDE_MAX))?;
            let values = Shape { channels, height, width }.values();
            count("data.columns.shape", values, 1, FEATURES_MAX)?;
        }
        validate_separator(self.separator)
    }
}

impl Columns for SparseColumns {
    fn validate(&self) -> Result<(), ConfigError> {
        validate_features(self.features.as_deref(), &self.label)?;
        let missing = |key, other: &str| {
            Err(ConfigError::new(key, "missing", format!("a column beside {other}")))
        };
        match (&self.indices, &self.values) {
            (Some(_), None) => return missing("data.columns.values", "data.columns.indices"),
            (None, Some(_)) => return missing("data.columns.indices", "data.columns.values"),
            (Some(_), Some(_)) if self.features.is_some() => {
                let expected = "either features or indices and values";
                return Err(ConfigError::new(FEATURES, "set", expected));
            }
            _ => {}
        }
        validate_separator(self.separator)
    }
}

impl Columns for NoColumns {
    fn validate(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

fn validate_features(features: Option<&[String]>, label: &str) -> Result<(), ConfigError> {
    let Some(features) = features else { return Ok(()) };
    count(FEATURES, features.len(), 1, FEATURES_MAX).map_err(|error| ConfigError {
        value: format!("a list of {}", error.value),
        expected: format!("1 to {FEATURES_MAX} columns"),
        ..error
    })?;

    let mut named = BTreeSet::new();
    for name in features {
        if name == label {
            let found = format!("a list with the label, {name:?}");
            return Err(ConfigError::new(FEATURES, found, "columns other than the label"));
        }
        if !named.insert(name) {
            let found = format!("a list with {name:?} twice");
            return Err(ConfigError::new(FEATURES, found, "each column once"));
        }
    }
    Ok(())
}

fn validate_separator(separator: char) -> Result<(), ConfigError> {
    if separator.is_ascii() && !"\"\r\n".contains(separator) {
        return Ok(());
    }
    let expected = "one ASCII character that neither quotes nor ends a row";
    Err(ConfigError::new("data.columns.separator", format!("{separator:?}"), expected))
}

impl Default for RatingColumns {
    fn default() -> Self {
        let [user, item, rating] = ["user", "item", "rating"].map(str::to_owned);
        Self { user, item, rating, separator: ',' }
    }
}

impl Default for DenseColumns {
    fn default() -> Self {
        Self { label: "label".into(), features: None, shape: None, separator: ',' }
    }
}

impl Default for SparseColumns {
    fn default() -> Self {
        Self { label: "label".into(), features: None, indices: None, values: None, separator: ',' }
    }
}

const FEATURES: &str = "data.columns.features";

/// Features of an example.
pub(crate) const FEATURES_MAX: usize = 1 << 26;

/// Planes of an image, or its rows or columns.
const SIDE_MAX: usize = 1 << 20;
