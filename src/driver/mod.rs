//! What runs the protocol: simulated or emulated, the same machines in both.
//!
//! The only rooms that know sockets, threads and the time. A driver moves messages and frames between nodes,
//! wakes them when they asked to be, and decides nothing about training.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod cluster;
pub mod cost;
pub mod emulated;
mod journal;
mod judge;
pub mod simulated;

use std::sync::Arc;

use tracing::{info, warn};

use crate::config::{DriverKind, Plan};
use crate::ml::Application;
use crate::server::PeerError;
use crate::sync::RemoteSync;
use crate::telemetry::{BrakeRecord, Observer, Progress, Summary};

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub summary: Summary,
    pub progress: Vec<Progress>,
    /// What was learnt, in lines for people: what the application says of the final model.
    pub highlights: Vec<String>,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{at}: {error}")]
    Peer { at: String, error: PeerError },
    #[error("nothing can go on at {at}: every node waits; held-back reads wait for {waiting}")]
    Stalled { at: String, waiting: String },
    #[error(transparent)]
    Transport(emulated::TransportError),
    #[error("no threads for the run: {0}")]
    Runtime(std::io::Error),
    #[error("{part} panicked: {message}")]
    Panicked { part: String, message: String },
    /// An application whose deltas are counts, with local steps that would not add them up as they are.
    #[error(
        "the application's deltas are counts: with local-steps they need combine = \"sum\", outer = \"plain\" and \
         outer_learning_rate = 1"
    )]
    CountsDoNotAddUp,
}

/// Runs a plan to its end.
///
/// # Errors
/// Where a node got what it cannot act on, the network failed for good, or local steps would not add up what the
/// application counts.
pub fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    if application.deltas_are_counts()
        && matches!(&plan.remote, RemoteSync::LocalSteps(config) if !config.adds_up())
    {
        return Err(RunError::CountsDoNotAddUp);
    }
    let driver = plan.driver.name();
    let (remote, wan) = (plan.remote.name(), &plan.topology.name);
    info!(name = plan.name, driver, remote, wan, seed = plan.seed.0, "run starts");
    let outcome = match plan.driver {
        DriverKind::Simulated => simulated::run(plan, application, observer),
        DriverKind::Emulated => emulated::run(plan, application, observer),
    }?;
    let Summary { stopped_by, time_s, clocks, objective, brakes, copies_equal, .. } =
        &outcome.summary;
    info!(stopped_by, time_s, clocks, objective, copies_equal, "run has ended");
    if *brakes != BrakeRecord::default() {
        let BrakeRecord { announcements_expired, mirrors_lost } = brakes;
        let run = &plan.name;
        warn!(run, announcements_expired, mirrors_lost, "brakes gave up at their deadlines");
    }
    Ok(outcome)
}
