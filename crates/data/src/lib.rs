//! Reads data files, or generates synthetic data, and partitions it over data centers.
//!
//! The result is an application whose examples are in memory and partitioned over workers, every example to exactly one.
//! Readers stream, trust no header, and name the row or byte where a file is broken. This crate knows formats and files;
//! `gaia-ml` knows what is learnt from the examples.
//!
//! A process may have the data of some data centers alone ([`OwnData`]). What it must know of the others to build a model
//! of the same shape is in their summaries ([`DataSummary`]).

#![warn(missing_docs)]

mod cifar;
mod class_names;
mod counted_names;
mod dense_tables;
mod digest;
mod documents;
mod docword;
mod error;
mod feature_columns;
mod files;
mod homes;
mod idx;
mod images;
mod initial;
mod inventory;
mod libsvm;
mod movielens;
mod name_index;
mod own_data;
mod rating_rows;
mod rating_tables;
mod ratings;
mod source;
mod sparse;
mod sparse_tables;
mod split;
mod summary;
pub mod synthetic;
pub mod table;
mod trained;

use std::path::Path;
use std::sync::Arc;

use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::apps::AppConfig;

pub use cifar::read_cifar;
pub use docword::{read_docword, read_vocabulary};
pub use error::{DataError, FilePosition};
pub use idx::read_idx;
pub use initial::initialized;
pub use libsvm::read_libsvm;
pub use movielens::read_movielens;
pub use own_data::{OwnData, PlaceOfData};
pub use split::{hold_out, split};
pub use summary::DataSummary;
pub use table::TableWriter;
pub use trained::{PredictionColumn, PredictionValues, Predictions, TrainedOver};

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
