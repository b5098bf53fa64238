//! The file of a trained model: `model.safetensors`, which other programs can read too.
//!
//! | tensor | type | |
//! |---|---|---|
//! | each table, by its name | `F32`, rows × width | what was learnt |
//! | `NAME` of an attachment with numbers | `F32` or `U64`, one axis | what predictions need beside the tables, such as `mean` or `users.names` |
//! | `NAME` of an attachment with text | `U8`, one axis | the same as a JSON list of strings in UTF-8 |
//!
//! The tables of a script's model are the tensors of the script, by its own names and shapes (`tensors.rs` says how tensors
//! become tables).
//!
//! A script's model before it is trained has a file of its own (`script_model.rs`).
//!
//! A model that stays in its data center is in one file for each shard, `model-00001-of-00003.safetensors` and so on, and is
//! read by the name of their folder. Each has rows of tables.
//!
//! The metadata has one key, `gaia`, with a JSON object: [`ModelDescription`].

#![warn(missing_docs)]

mod description;
mod error;
mod file;
mod header;
mod read;
mod script_model;
mod shards;
mod state_dict;
mod tensors;
mod write;

pub use description::{DESCRIPTION, MetricValue, ModelDescription, Shard};
pub use error::ModelError;
pub use file::{BEST_MODEL, BEST_SHARDS, KEPT_MODELS, MODEL, ModelFile, kind_name, new_file};
pub use header::HeaderTooLong;
pub use read::{TrainedModel, TrainedTable};
pub use script_model::{ScriptModel, ScriptSettings, different_tensor};
pub use state_dict::StateDict;
pub use tensors::{TensorSpec, tensor_layout};
pub use write::{Row, check_model, check_shard, model_bytes, rows_in_parts, shard_bytes};
