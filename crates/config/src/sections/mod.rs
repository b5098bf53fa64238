//! The tables of a run file, one file each: their keys, their defaults and what they may be.
//!
//! This room knows the meaning of the keys of one table. What tables say together is checked in `run/`.

mod compute;
mod failures;
mod synchronisation;

pub(crate) use compute::ComputeKeys;
pub use compute::{ComputeConfig, ComputeModel, ComputeRate};
pub(crate) use failures::members;
pub use failures::{FailuresConfig, LostWorkers, OnGiveUp};
#[cfg(test)]
pub(crate) use synchronisation::LocalSspKeys;
pub(crate) use synchronisation::{add_up, choice, local, remote};
