//! What is trained: applications, their kernels and their gradients.
//!
//! This room turns data and rows of a model into deltas. It knows nothing of a network, of files or of the
//! time; a worker hands it rows and takes deltas away. Examples arrive here in memory and already dealt to
//! workers; how they were read or made up is for `data` to know.

pub mod apps;
pub mod config;
pub mod examples;
pub mod kernels;
pub mod layers;

pub use config::ConfigError;
