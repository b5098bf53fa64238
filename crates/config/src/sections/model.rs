//! `[model]`: where the model comes from, and when and where it is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::document::Problem;
use crate::range::Checks;
use gaia_ml::apps::AppConfig;

/// Where the model comes from, and when and where it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// The safetensors file with the initial values of all tables, such as the `model.safetensors` of an earlier run.
    /// `None`: the application makes them from the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
    /// Clocks between two snapshots of the model, at least 1: each is written at the first evaluation after so many clocks,
    /// as the model that the run has reached. `None`: the model is written at the end of the run alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Where the model is kept.
    pub keep: KeepModel,
}

/// Where a model is kept that has been trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepModel {
    /// In the directory of the run. With the real driver one copy crosses the WAN to the coordinator.
    #[default]
    Coordinator,
    /// In each data center, as one file for each shard. No copy crosses the WAN.
    Home,
}

impl ModelConfig {
    /// Checks the keys, and that the application can start from a file.
    pub(crate) fn check(
        &self,
        checks: &Checks<'_>,
        app: Option<&AppConfig>,
    ) -> Result<(), Problem> {
        if let Some(every) = self.every {
            checks.clocks("model.every", every, 1)?;
        }
        let Some(init) = &self.init else { return Ok(()) };
        let expected = match app {
            None => {
                "no such key: an application that is handed in makes its own initial model".into()
            }
            Some(app) if app.deltas_are_counts() => format!(
                "no such key: the tables of a {} are counts of what its workers draw at the start",
                app.kind()
            ),
            Some(_) => return Ok(()),
        };
        Err(checks.found("model.init", init.display().to_string(), expected))
    }

    /// Whether the table can be left out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
