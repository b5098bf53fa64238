//! What runs the protocol: simulated, emulated or real, the same machines in all.
//!
//! The only rooms that know sockets, threads and the time. A driver moves messages and frames between nodes,
//! wakes them when they asked to be, and decides nothing about training.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod blocking;
pub mod cluster;
pub mod cost;
pub mod emulated;
mod judge;
mod quic;
pub mod real;
mod recorder;
pub mod run_loop;
mod server_stats;
pub mod simulated;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{info, warn};

use self::cluster::Blueprint;
use gaia_checkpoint::{CheckpointError, Keeper};
use gaia_config::{DriverKind, LostWorkers, Plan};
use gaia_core::application::Application;
use gaia_core::server::PeerError;
use gaia_core::significance::Significance;
use gaia_core::sync::RemoteSync;
use gaia_core::types::Clock;
use gaia_telemetry::{BrakeRecord, Observer, Progress, Summary};

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it went.
    pub summary: Summary,
    /// Every evaluation, in order.
    pub progress: Vec<Progress>,
    /// What was learnt, in lines for people: what the application says of the final model.
    pub highlights: Vec<String>,
}

/// What a run may be handed from code beside its plan and its application. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Measures how much a residual matters, in place of the `function` of `[sync.remote]`. ASP alone asks for it; every
    /// other setting of ASP holds as it is.
    pub significance: Option<Arc<dyn Significance>>,
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
    /// A node got from another what it cannot act on.
    #[error("{at}: {error}")]
    Peer {
        /// The node that refused it.
        at: String,
        /// What was wrong with it.
        error: PeerError,
    },
    /// Every node waits for another.
    #[error("nothing can go on at {at}: every node waits; held-back reads wait for {waiting}")]
    Stalled {
        /// The time of the driver.
        at: String,
        /// What reads wait for.
        waiting: String,
    },
    /// A checkpoint could not be written, or does not fit the plan.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Checkpoints were asked of a driver that has none.
    #[error(
        "the {driver} driver keeps no checkpoints: what is on its way between sockets cannot be saved"
    )]
    NoCheckpoints {
        /// The driver's name.
        driver: &'static str,
    },
    /// The emulated network failed for good.
    #[error(transparent)]
    Transport(quic::TransportError),
    /// A run over processes failed.
    #[error(transparent)]
    Real(#[from] real::RealError),
    /// Training diverged.
    #[error("training has diverged: {reason}")]
    Diverged {
        /// How, and whose changes showed it.
        reason: String,
    },
    /// Something was lost or doubled between mirrors.
    #[error("mirrors do not agree on what has crossed between them: {links}")]
    NotConserved {
        /// The links on which it was, and how.
        links: String,
    },
    /// The operating system gave the run no threads.
    #[error("no threads for the run: {0}")]
    Runtime(std::io::Error),
    /// A part of the run panicked, such as an application's task.
    #[error("{part} panicked: {message}")]
    Panicked {
        /// The part, as people call it.
        part: String,
        /// What the panic said.
        message: String,
    },
    /// What a process that is started for a node cannot have.
    #[error(
        "the real driver runs each node in a process of its own, which knows the run file and nothing else: with \
         {handed_in} handed in from code, driver has to be \"simulated\" or \"emulated\""
    )]
    NotInRunFile {
        /// What was handed in.
        handed_in: &'static str,
    },
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

/// Runs a plan to its end: trains the application on the plan's driver, and tells the observer how it goes. A run whose
/// training diverges ends early, with a summary that says so ([`Outcome::check_sound`]).
///
/// Under the simulated driver a plan, an application and their seed give the same outcome to the byte, but for
/// `wall_s`. The real driver starts this program again for each node, as `PROGRAM node …`, which only `gaia` understands.
///
/// # Errors
/// Where a node got what it cannot act on, the network failed for good, something was lost or doubled between mirrors,
/// local steps would not add up what the application counts, or the plan's driver is the real one and the application
/// is not one that the run file names ([`RunError::NotInRunFile`]).
pub fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    run_with(plan, application, &RunOptions::default(), observer)
}

/// As [`run`], with what else was handed in.
///
/// # Errors
/// As [`run`], and where the plan's driver is the real one and anything was handed in.
pub fn run_with(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let outcome = finished(carry_out(plan, application, options, observer, None, None)?)?;
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
    let options = RunOptions::default();
    finished(carry_out(plan, application, &options, observer, None, Some(files))?)
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

impl RunOptions {
    /// The nodes of a plan, with what was handed in.
    fn blueprint<'p>(&self, plan: &'p Plan, application: &Arc<dyn Application>) -> Blueprint<'p> {
        Blueprint::new(plan, application).with_significance(self.significance.clone())
    }

    /// What was handed in that the plan does not say; nothing where the plan says it all.
    fn not_in(&self, plan: &Plan) -> Option<&'static str> {
        match (&plan.app, &self.significance) {
            (None, _) => Some("an application"),
            (Some(_), Some(_)) => Some("a significance function"),
            (Some(_), None) => None,
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
    carry_out(plan, application, &RunOptions::default(), observer, Some(keeper), None)
}

fn carry_out(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
    keeper: Option<&mut Keeper>,
    files: Option<&real::NodeFiles>,
) -> Result<Ending, RunError> {
    if let Some(handed_in) = options.not_in(plan).filter(|_| plan.driver == DriverKind::Real) {
        return Err(RunError::NotInRunFile { handed_in });
    }
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
        DriverKind::Simulated => simulated::run(plan, application, options, observer, keeper),
        DriverKind::Emulated | DriverKind::Real if keeper.is_some() => {
            Err(RunError::NoCheckpoints { driver })
        }
        DriverKind::Emulated => emulated::run(plan, application, options, observer).map(whole),
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
