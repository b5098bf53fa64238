//! The applications, their kernels and their gradients.
//!
//! This crate turns data and rows of a model into deltas. It knows nothing of computer networks, files or the time: a
//! worker passes it rows and receives deltas. Examples are partitioned over workers when they arrive here, in memory or to
//! be read when they are needed; `gaia-data` reads or generates them.

#![warn(missing_docs)]

pub mod apps;
mod breakdown;
pub mod columns;
pub mod config;
pub mod declared;
pub mod divided;
pub mod examples;
pub mod kernels;
pub mod layers;
pub mod optimizer;
mod pieces;
pub mod rescaling;
pub mod stored;
mod trivial;

pub use config::ConfigError;
