//! Reads run files and topology files, and checks them once.
//!
//! This crate is the border between text and the rest of the system. Its result is a [`Plan`] that every driver
//! trusts, or one [`ConfigError`] that names the file, line, column, key, value and what was expected. It knows the
//! meaning of keys and nothing of how a run is carried out.
//!
//! The rooms, from the bottom up: `document/`, `range`, `sections/` and `topology/`, `run/`.

#![warn(missing_docs)]

mod document;
mod range;
mod run;
mod sections;
mod topology;

pub use document::shipped::topologies;
pub use document::{ConfigError, ErrorLocation, Excerpt, Fault, KeyFile};
pub use run::{Override, Plan, RunFile, load_topology, topology_from_text};
pub use sections::{
    CheckpointConfig, ComputeConfig, ComputeModel, ComputeRate, CostConfig, Decision, DrainConfig,
    DriverKind, EvaluateConfig, EvaluatePlace, FailuresConfig, KeepModel, LogConfig, LogSync,
    LostWorkers, ModelConfig, OnGiveUp, Slowdown,
};
pub use topology::{PlacementError, Variables, coordinator_address, placed};
