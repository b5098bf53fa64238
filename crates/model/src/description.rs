//! Where a trained model comes from.

use serde::{Deserialize, Serialize};

/// The run that has trained a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDescription {
    /// The name of the run.
    pub run: String,
    /// The seed of the run.
    pub seed: u64,
    /// The settings of the application, as in `[app]`. `null` of an application that was handed in.
    pub application: serde_json::Value,
    /// The run file with all settings, as `run.toml` has it.
    pub settings: String,
    /// A digest of the data of the run, those examples among it that are held out, and of which worker has which. `None` of
    /// scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_digest: Option<String>,
    /// The remote synchronisation model.
    pub remote_sync: String,
    /// The clock that the model holds.
    pub clock: u64,
    /// The training objective at that clock.
    pub objective: f64,
    /// The held-out metric at that clock.
    pub metric: MetricValue,
    /// The shard of the model that the file has. `None` of a whole model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Whether it is the model of a script. Then the tensors have the names and the shapes of the script's own, and those of a
    /// shard are rows of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_script: bool,
    /// The version of the program that has written the file.
    pub version: String,
}

/// A shard of a model: every row whose number, divided by the number of shards, leaves its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The number of the shard, from 0.
    pub index: usize,
    /// The number of shards.
    pub count: usize,
}

impl Shard {
    /// The name of the file of this shard.
    pub fn file_name(self) -> String {
        format!("model-{:05}-of-{:05}.safetensors", self.index + 1, self.count)
    }
}

/// The value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The name of the metric.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// The key of the description in the metadata of the file.
pub const DESCRIPTION: &str = "gaia";
