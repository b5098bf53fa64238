//! Reads data files, or generates synthetic data, and partitions it over data centers.
//!
//! The result is an application whose examples are partitioned over workers, every example to exactly one. They are in
//! memory, or on disk where the run file says so.
//! Readers stream, trust no header, and name the row or byte where a file is broken. This crate knows formats and files;
//! `gaia-ml` knows what is learnt from the examples.
//!
//! A process may have the data of some data centers alone ([`OwnData`]). What it must know of the others to build a model
//! of the same shape is in their summaries ([`DataSummary`]).

#![warn(missing_docs)]

mod error;
mod formats;
mod homes;
mod initial;
mod kinds;
mod own_data;
mod rescaled;
mod scratch;
mod script;
mod stand_in;
pub mod synthetic;
mod trained;

use std::path::Path;
use std::sync::Arc;

use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::apps::AppConfig;

pub use error::{DataError, FilePosition};
pub use formats::cifar::read_cifar;
pub use formats::docword::{read_docword, read_vocabulary};
pub use formats::idx::read_idx;
pub use formats::libsvm::read_libsvm;
pub use formats::movielens::read_movielens;
pub use formats::table;
pub use homes::memory::{free_memory, peak_memory};
pub use homes::split::{hold_out, split};
pub use homes::summary::DataSummary;
pub use initial::initialized;
pub use own_data::{OwnData, PlaceOfData};
pub use script::script;
pub use stand_in::{StandIn, stand_in};
pub use table::TableWriter;
pub use trained::{PredictionColumn, PredictionValues, Predictions, TrainedOver, would_be_read};

/// Loads or generates the application's data and partitions it over the workers of each data center.
///
/// Workers are numbered data center by data center; without any worker the data is partitioned as for one. If each data
/// center has data of its own, only its workers train on it, and a share of it is held out. The same settings and seed give
/// the same examples.
///
/// # Errors
/// [`DataError::Config`] where the run file names no application or a setting does not fit the data,
/// [`DataError::Unreadable`] or [`DataError::Broken`] where a file cannot be used, [`DataError::Disagreement`] where the
/// data of two data centers does not go together.
pub fn build(
    config: Option<&AppConfig>,
    homes: &[DataHome],
    seed: Seed,
) -> Result<Arc<dyn Application>, DataError> {
    build_validated(config, homes, seed, None)
}

/// As [`build`], with a validation set that every data center has. The metric is taken over it, and nothing else is held out.
///
/// # Errors
/// As [`build`].
pub fn build_validated(
    config: Option<&AppConfig>,
    homes: &[DataHome],
    seed: Seed,
    validation: Option<&Path>,
) -> Result<Arc<dyn Application>, DataError> {
    let data = OwnData::read(config, homes, 0..homes.len(), seed, validation)?;
    let summaries = data.summaries();
    data.into_application(&summaries)
}
