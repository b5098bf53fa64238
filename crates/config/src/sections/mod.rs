//! The tables of a run file, one file each: their keys, their defaults and the values that they take.
//!
//! This room knows the meaning of the keys of one table. What holds between tables is checked in `run/`.

mod checkpoint;
mod compute;
mod cost;
mod data_source;
mod drain;
mod driver;
mod evaluate;
mod failures;
mod log;
mod model;
mod outliers;
mod slowdown;
mod stop;
mod synchronisation;

pub use checkpoint::CheckpointConfig;
pub(crate) use compute::ComputeKeys;
pub use compute::{ComputeConfig, ComputeModel, ComputeRate};
pub use cost::CostConfig;
pub(crate) use data_source::add_source;
pub use drain::DrainConfig;
pub use driver::DriverKind;
pub(crate) use driver::driver;
pub use evaluate::{EvaluateConfig, EvaluatePlace};
pub use failures::{FailuresConfig, LostWorkers, OnGiveUp};
pub use log::{LogConfig, LogSync};
pub use model::{KeepModel, ModelConfig};
pub(crate) use outliers::outliers;
pub use slowdown::Slowdown;
pub(crate) use slowdown::SlowdownKey;
pub(crate) use stop::stop;
pub use synchronisation::Decision;
#[cfg(test)]
pub(crate) use synchronisation::LocalSspKeys;
pub(crate) use synchronisation::{add_up, choice, local, remote, ring};
