//! A checkpoint in memory, before it is written and after it was read.

use std::path::PathBuf;

use super::Facts;
use gaia_core::types::{Model, State};

/// The state that a driver saves.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// How far the run had come.
    pub facts: Facts,
    /// The first data center's copy. `None` where one node alone is saved.
    pub model: Option<Model>,
    /// The state of every machine.
    pub state: State,
}

/// A checkpoint that was read, from which a driver resumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumed {
    /// The directory that it was read from, for errors.
    pub path: PathBuf,
    /// How far the run had come.
    pub facts: Facts,
    /// The state of every machine.
    pub state: State,
}
