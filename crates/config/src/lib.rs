//! Reads run files and topology files, and checks them once.
//!
//! This is the border between text and the rest of the system: what passes is a [`Plan`] that every driver may
//! trust, what does not is one [`ConfigError`] that names the file, line, column, key, value and what was
//! expected. It knows the meaning of keys and nothing of how a run is carried out.

mod compute;
mod deserialize;
mod document;
mod error;
mod failures;
mod keys;
mod matrix;
mod overrides;
mod placement;
mod plan;
mod range;
#[cfg(test)]
mod reference;
mod resolved;
mod run_file;
mod shipped;
mod synchronisation;
mod topology_file;
mod wan;

pub use compute::{ComputeConfig, ComputeModel, ComputeRate};
pub use error::{ConfigError, Excerpt, Fault, Place};
pub use failures::{FailuresConfig, LostWorkers, OnGiveUp};
pub use keys::KeyFile;
pub use overrides::Override;
pub use placement::{PlacementError, Variables, coordinator_address, placed};
pub use plan::{
    CheckpointConfig, CostConfig, DrainConfig, DriverKind, EvaluateConfig, LogConfig, LogSync, Plan,
};
pub use run_file::{RunFile, load_topology, topology_from_text};
pub use shipped::topologies;
