//! A run: its file and its overrides, put together and checked into a [`Plan`], and the plan written out again.
//!
//! This room decides which settings go together. What one table of the file may say is decided in `sections/`,
//! and what a topology may say in `topology/`.

mod layers;
mod members;
mod overrides;
mod plan;
#[cfg(test)]
mod reference;
mod resolved;
mod run_file;
mod topologies;

pub use overrides::Override;
pub use plan::Plan;
pub use run_file::RunFile;
pub use topologies::{load_topology, topology_from_text};
