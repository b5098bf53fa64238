//! The kinds of data: how each is read at home, summed up for others, and becomes an application together with the summaries
//! of all.

pub(crate) mod documents;
pub(crate) mod images;
pub(crate) mod ratings;
pub(crate) mod sparse;

use std::fmt::Display;

use gaia_core::types::limits::MODEL_PARAMETERS_MAX;
use gaia_ml::ConfigError;

/// Checks that a model is not too large; `key` is the setting that it follows from.
pub(crate) fn check_parameters(
    key: &str,
    value: impl Display,
    parameters: usize,
) -> Result<(), ConfigError> {
    if parameters < MODEL_PARAMETERS_MAX {
        return Ok(());
    }
    let expected =
        format!("a model of fewer than {MODEL_PARAMETERS_MAX} parameters, not {parameters}");
    Err(ConfigError::new(key, value, expected))
}
