//! The settings of an application that a program hands in.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::ConfigError;

/// Settings of `kind = "external"`: those of an application that is not built in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalConfig {
    /// The script that a program runs in each worker, if it runs scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// What the script finds behind its own name in its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The file that `gaia init` writes of a script: its tensors and their initial values. Processes without workers read it
    /// in place of running the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// What the application makes of the run file: any keys. They are the same in all nodes of a run.
    pub settings: Table,
}

impl ExternalConfig {
    /// The settings as a type of the application.
    ///
    /// # Errors
    /// The first key that the type does not take, or a value of another type.
    pub fn read<'de, T: Deserialize<'de>>(&self) -> Result<T, ConfigError> {
        self.settings.clone().try_into().map_err(|error| {
            let found = error.message().to_owned();
            ConfigError::new("settings", found, "the settings of the application")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Own {
        layers: Vec<u32>,
    }

    #[test]
    fn settings_become_a_type_of_the_application() {
        let read = |text: &str| toml::from_str::<ExternalConfig>(text).unwrap().read::<Own>();
        assert_eq!(read("settings.layers = [3, 4]"), Ok(Own { layers: vec![3, 4] }));
        let error = read("settings = { layers = [], depth = 1 }").unwrap_err();
        assert_eq!(error.key, "settings");
        assert!(error.value.contains("unknown field `depth`"), "{error}");
    }
}
