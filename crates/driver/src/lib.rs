//! What runs the protocol: simulated, emulated or real, the same machines in all.
//!
//! The only rooms that know sockets, threads and the time. A driver moves messages and frames between nodes,
//! wakes them when they asked to be, and decides nothing about training.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod cluster;
pub mod cost;
pub mod emulated;
mod judge;
mod quic;
pub mod real;
mod recorder;
mod server_stats;
pub mod simulated;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{info, warn};

use gaia_checkpoint::{CheckpointError, Keeper};
use gaia_config::{DriverKind, LostWorkers, Plan};
use gaia_core::application::Application;
use gaia_core::server::PeerError;
use gaia_core::sync::RemoteSync;
use gaia_core::types::Clock;
use gaia_telemetry::{BrakeRecord, Observer, Progress, Summary};

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub summary: Summary,
    pub progress: Vec<Progress>,
    /// What was learnt, in lines for people: what the application says of the final model.
    pub highlights: Vec<String>,
}

/// How a run that may be interrupted ended.
#[derive(Clone, Debug)]
pub enum Ending {
    Finished(Box<Outcome>),
    /// It was told to stop, and goes on from this checkpoint where it is resumed.
    Interrupted {
        clock: Clock,
        checkpoint: PathBuf,
    },
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{at}: {error}")]
    Peer { at: String, error: PeerError },
    #[error("nothing can go on at {at}: every node waits; held-back reads wait for {waiting}")]
    Stalled { at: String, waiting: String },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(
        "the {driver} driver keeps no checkpoints: what is on its way between sockets cannot be saved"
    )]
    NoCheckpoints { driver: &'static str },
    #[error(transparent)]
    Transport(quic::TransportError),
    #[error(transparent)]
    Real(#[from] real::RealError),
    #[error("training has diverged: {reason}")]
    Diverged { reason: String },
    #[error("mirrors do not agree on what has crossed between them: {links}")]
    NotConserved { links: String },
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
    /// An application whose deltas are counts, with workers that are taken over.
    #[error(
        "the application's deltas are counts: who takes over a lost worker's data would count again what is counted, so \
         lost_workers has to be \"wait\""
    )]
    CountsTakenOver,
}

/// Runs a plan to its end. A run whose training diverges ends early, with a summary that says so
/// ([`Outcome::check_sound`]).
///
/// # Errors
/// Where a node got what it cannot act on, the network failed for good, something was lost or doubled between mirrors,
/// or local steps would not add up what the application counts.
pub fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let outcome = finished(carry_out(plan, application, observer, None, None)?)?;
    outcome.check()?;
    Ok(outcome)
}

/// The same; where the plan's driver starts processes, each keeps a log. Whether both ends of all links agree is for the
/// caller to ask ([`Outcome::check`]), who has a summary that says so.
///
/// # Errors
/// As [`run`], and where a log cannot be written.
pub fn run_logged(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
    files: &real::NodeFiles,
) -> Result<Outcome, RunError> {
    finished(carry_out(plan, application, observer, None, Some(files))?)
}

impl Outcome {
    /// Whether what was cut for a mirror is what it has applied, on every link whose ends were compared.
    ///
    /// # Errors
    /// Where it is not: the links are named.
    pub fn check(&self) -> Result<(), RunError> {
        let broken = self.summary.conservation.iter().flat_map(|record| &record.broken);
        let links: Vec<String> = broken.map(ToString::to_string).collect();
        if links.is_empty() {
            Ok(())
        } else {
            Err(RunError::NotConserved { links: links.join("; ") })
        }
    }

    /// Whether training has not diverged.
    ///
    /// # Errors
    /// Where it has: says how, and which worker's changes showed it.
    pub fn check_sound(&self) -> Result<(), RunError> {
        match &self.summary.diverged {
            None => Ok(()),
            Some(reason) => Err(RunError::Diverged { reason: reason.clone() }),
        }
    }
}

fn finished(ending: Ending) -> Result<Outcome, RunError> {
    match ending {
        Ending::Finished(outcome) => Ok(*outcome),
        Ending::Interrupted { .. } => unreachable!("only a keeper interrupts"),
    }
}

/// Runs a plan in virtual time with checkpoints: on from the one that the keeper has, if any, to the end or until the
/// keeper says stop. What comes out is the same to the bit as of a run that was not stopped, but for the time that it
/// took on this machine.
///
/// # Errors
/// As [`run`], and where the plan's driver keeps no checkpoints, the one to go on from does not fit the plan, or the
/// last one could not be written.
pub fn run_kept(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
    keeper: &mut Keeper,
) -> Result<Ending, RunError> {
    carry_out(plan, application, observer, Some(keeper), None)
}

fn carry_out(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
    keeper: Option<&mut Keeper>,
    files: Option<&real::NodeFiles>,
) -> Result<Ending, RunError> {
    if application.deltas_are_counts()
        && matches!(&plan.remote, RemoteSync::LocalSteps(config) if !config.adds_up())
    {
        return Err(RunError::CountsDoNotAddUp);
    }

    if application.deltas_are_counts() && plan.failures.lost_workers == LostWorkers::TakeOver {
        return Err(RunError::CountsTakenOver);
    }
    let driver = plan.driver.name();
    let (remote, wan) = (plan.remote.name(), &plan.topology.name);
    info!(name = plan.name, driver, remote, wan, seed = plan.seed.0, "run starts");
    let whole = |outcome| Ending::Finished(Box::new(outcome));
    let ending = match plan.driver {
        DriverKind::Simulated => simulated::run(plan, application, observer, keeper),
        DriverKind::Emulated | DriverKind::Real if keeper.is_some() => {
            Err(RunError::NoCheckpoints { driver })
        }
        DriverKind::Emulated => emulated::run(plan, application, observer).map(whole),
        DriverKind::Real => real::run(plan, application, observer, files).map(whole),
    }?;

    match &ending {
        Ending::Finished(outcome) => tell(plan, &outcome.summary),
        Ending::Interrupted { clock, checkpoint } => {
            info!(clock = clock.0, checkpoint = %checkpoint.display(), "run was interrupted");
        }
    }

    Ok(ending)
}

/// Logs how a run has ended.
fn tell(plan: &Plan, summary: &Summary) {
    let Summary { stopped_by, time_s, clocks, objective, brakes, copies_equal, .. } = summary;
    info!(stopped_by, time_s, clocks, objective, copies_equal, "run has ended");
    if *brakes != BrakeRecord::default() {
        let BrakeRecord { announcements_expired, mirrors_lost } = brakes;
        let run = &plan.name;
        warn!(run, announcements_expired, mirrors_lost, "brakes gave up at their deadlines");
    }
}

/// What a panic said.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "no message".into())
}
