//! csv and Parquet files as data: what is read of them, what is refused, and what is written.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../hostile/allocations.rs"]
mod allocations;
mod classes;
mod declared;
mod files;
#[path = "../homes/mod.rs"]
mod homes;
mod hostile;
mod python;
mod ratings;
mod refused;
#[path = "../runs/mod.rs"]
mod runs;
mod written;

use std::sync::Arc;

use gaia_core::application::Application;
use gaia_core::types::{Clock, Seed, TableLayout};
use gaia_data::DataError;
use gaia_ml::apps::AppConfig;
use homes::homes;

/// An application with some settings over data centers `dc-0` and on.
fn build(kind: &str, keys: &str, workers: &[usize]) -> Result<Arc<dyn Application>, DataError> {
    let keys = toml::Deserializer::parse(keys).unwrap();
    let config = AppConfig::deserialize(kind, keys).unwrap();
    gaia_data::build(Some(&config), &homes(workers), Seed(1))
}

/// The model after some clocks of all workers, one after the other.
fn trained(application: &dyn Application, clocks: u64) -> Vec<f32> {
    let mut model = application.initial_model(Seed(1));
    let mut tasks: Vec<_> =
        (0..application.workers()).map(|worker| application.task(worker, Seed(1))).collect();
    for clock in 0..clocks {
        for task in &mut tasks {
            task.rows(Clock(clock));
            let (deltas, _) = task.iterate(Clock(clock), &model).unwrap();
            for (id, table) in application.layout().table_ids().zip(&deltas.tables) {
                let TableLayout { rows, width, .. } = *application.layout().table(id);
                for (row, change) in table.rows.iter(rows).zip(table.values.chunks(width)) {
                    let values = model.row_mut(id, row as usize).iter_mut().zip(change);
                    values.for_each(|(value, change)| *value += change);
                }
            }
        }
    }
    application.layout().table_ids().flat_map(|id| model.table(id).to_vec()).collect()
}

/// The settings cannot be used, for a reason with all of these words.
#[track_caller]
fn refuse(kind: &str, keys: &str, words: &[&str]) {
    let Err(error) = build(kind, keys, &[1, 1]) else { panic!("{keys} was used") };
    let error = error.to_string();
    for word in words {
        assert!(error.contains(word), "{error}\nshould say {word}");
    }
}
