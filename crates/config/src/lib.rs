//! Reads run files and topology files, and checks them once.
//!
//! This is the border between text and the rest of the system: what passes is a [`Plan`] that every driver may
//! trust, what does not is one [`ConfigError`] that names the file, line, column, key, value and what was
//! expected. It knows the meaning of keys and nothing of how a run is carried out.

mod document;
mod range;
mod run;
mod sections;
mod topology;

pub use document::shipped::topologies;
pub use document::{ConfigError, Excerpt, Fault, KeyFile, Place};
pub use run::{
    CheckpointConfig, CostConfig, DrainConfig, DriverKind, EvaluateConfig, LogConfig, LogSync,
    Override, Plan, RunFile, load_topology, topology_from_text,
};
pub use sections::{
    ComputeConfig, ComputeModel, ComputeRate, FailuresConfig, LostWorkers, OnGiveUp,
};
pub use topology::{PlacementError, Variables, coordinator_address, placed};
