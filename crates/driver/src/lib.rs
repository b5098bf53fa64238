//! The drivers, which run the protocol: simulated, emulated and real. All run the same machines.
//!
//! Only drivers use sockets, threads and the time. A driver moves messages and frames between nodes and calls their
//! timeouts. It decides nothing about training.

#![warn(missing_docs)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod blocking;
pub mod cluster;
mod copies;
pub mod cost;
mod digest;
pub mod emulated;
mod in_parallel;
mod interrupted;
mod parting;
pub mod real;
mod recorder;
pub mod run_loop;
mod server_stats;
pub mod simulated;
mod table_digests;
#[cfg(test)]
mod test_topology;
mod trained;

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracing::{info, warn};

pub use self::in_parallel::{in_parallel, processors};
pub use self::parting::{Look, Lost};

use self::cluster::Blueprint;
use self::recorder::RunRecorder;
use self::trained::Figures;
pub use self::trained::{data_digest, identity_with_data};
use gaia_checkpoint::{CheckpointError, Keeper};
use gaia_config::{Decision, DriverKind, LostWorkers, Plan};
use gaia_core::application::{Application, ApplicationError, Attachment};
use gaia_core::server::PeerError;
use gaia_core::significance::Significance;
use gaia_core::sync::RemoteSync;
use gaia_core::types::{Clock, Model};
use gaia_model::{HeaderTooLong, ModelFile};
use gaia_telemetry::{BrakeRecord, Observer, OutlierRecord, Progress, Summary};

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results of the run.
    pub summary: Summary,
    /// All evaluations, in order.
    pub progress: Vec<Progress>,
    /// The final model. After the drain all data centers have this copy. `None` of a real run whose data centers keep it.
    pub model: Option<Model>,
    /// What predictions need beside the model, from the application.
    pub attachments: BTreeMap<String, Attachment>,
    /// Whether the final model is the best of all that were written, by the metric. `false` of a run without
    /// `model.every`.
    pub is_best: bool,
    /// Lines that show what the final model has learnt, from the application.
    pub highlights: Vec<String>,
}

/// What is known of a run before it begins: its summary, in which no figure is one and nothing was sent.
pub fn summary_before(plan: &Plan, application: &dyn Application) -> Summary {
    RunRecorder::summary_before(plan, application)
}

/// Checks that the trained model of a run can be written to its files. Every run begins with this.
///
/// # Errors
/// [`RunError::Unwritable`] if the model has too many tables, or their names or the settings of the run are too long.
pub fn check_model(plan: &Plan, application: &dyn Application) -> Result<(), RunError> {
    Ok(trained::check(plan, application)?)
}

/// Options of a run that a program can pass in besides the plan and the application. The default has none.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The significance function, which replaces the `function` of `[sync.remote]`. Only ASP uses it. All other
    /// settings of ASP apply unchanged.
    pub significance: Option<Arc<dyn Significance>>,
    /// Set it to `true` to interrupt the run: workers stop after their current iteration, and the run ends as by any
    /// rule, with equal copies and a model. [`Summary::stopped_by`] is then `interrupted`.
    pub interrupted: Option<Arc<AtomicBool>>,
    /// The command with which the real driver starts this program for each node: the program, and arguments that come
    /// before `node`. `None`: the running program, without arguments.
    pub program: Option<Vec<OsString>>,
}

/// The end of a run that can be interrupted.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The run has finished.
    Finished(Box<Outcome>),
    /// The run was interrupted. A resumed run continues from a checkpoint.
    Interrupted {
        /// The clock of the checkpoint.
        clock: Clock,
        /// The path of the checkpoint.
        checkpoint: PathBuf,
        /// The results of the run, which ended after it had written the checkpoint. Its [`Summary::stopped_by`] is not
        /// `interrupted` if a rule had stopped the run before.
        outcome: Box<Outcome>,
    },
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A node rejected a frame of another.
    #[error("{at}: {error}")]
    Peer {
        /// The node that rejected it.
        at: String,
        /// Why it was rejected.
        error: PeerError,
    },
    /// A deadlock: each node waits for another.
    #[error("deadlock at {at}: every node waits; reads held back: {waiting}")]
    Stalled {
        /// The time of the driver.
        at: String,
        /// The reasons why reads wait.
        waiting: String,
    },
    /// A checkpoint could not be written, or does not fit the plan.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Checkpoints were requested from a driver that has none.
    #[error(
        "the {driver} driver keeps no checkpoints: data in transit between sockets cannot be saved"
    )]
    NoCheckpoints {
        /// The driver's name.
        driver: &'static str,
    },
    /// The emulated network failed permanently.
    #[error(transparent)]
    Transport(gaia_quic::TransportError),
    /// A run of the real driver failed.
    #[error(transparent)]
    Real(#[from] real::RealError),
    /// Training diverged.
    #[error("training has diverged: {reason}")]
    Diverged {
        /// A description, with the node whose changes diverged.
        reason: String,
    },
    /// Frames were lost or applied twice between mirrors.
    #[error("mirrors disagree on the frames sent and applied between them: {links}")]
    NotConserved {
        /// The affected links, with the difference.
        links: String,
    },
    /// The operating system refused threads.
    #[error("cannot create threads for the run: {0}")]
    Runtime(std::io::Error),
    /// The task of a worker cannot go on.
    #[error("{worker}: {reason}")]
    Task {
        /// The name of the worker.
        worker: String,
        /// The reason of the application.
        reason: ApplicationError,
    },
    /// The model has no file.
    #[error(
        "the model cannot be written: {0}: expected fewer tables, shorter names or a shorter run file"
    )]
    Unwritable(#[from] HeaderTooLong),
    /// Copies cannot be evaluated.
    #[error("evaluating the copies: {0}")]
    Evaluation(ApplicationError),
    /// A part of the run panicked, such as an application's task.
    #[error("{part} panicked: {message}")]
    Panicked {
        /// The name of the part.
        part: String,
        /// The message of the panic.
        message: String,
    },
    /// An option that a process of the real driver cannot have.
    #[error(
        "the real driver runs each node in a process of its own, which reads only the run file: with {handed_in} \
         passed from code, expected driver = \"simulated\" or \"emulated\""
    )]
    NotInRunFile {
        /// The name of the option.
        handed_in: &'static str,
    },
    /// The remote model was left to the run, and nobody has chosen.
    #[error(
        "sync.remote.model is auto and not decided, expected a model: gaia train decides before it runs, and gaia plan \
         prints a [sync.remote] to paste"
    )]
    Undecided,
    /// An application whose deltas are counts, with local steps that scale deltas.
    #[error(
        "the application's deltas are counts: with local-steps, expected combine = \"sum\", outer = \"plain\" and \
         outer_learning_rate = 1"
    )]
    CountsDoNotAddUp,
    /// An application whose deltas are counts, with workers that take over for others.
    #[error(
        "the application's deltas are counts, and a worker that takes over would count them twice: expected \
         lost_workers = \"wait\""
    )]
    CountsTakenOver,
}

/// Runs a plan to its end: trains the application on the plan's driver, and notifies the observer of its progress. A
/// run whose training diverges ends early, and its summary has the reason ([`Outcome::check_sound`]).
///
/// With the simulated driver a plan, an application and their seed give the same outcome to the byte, except `wall_s`.
/// The real driver starts this program again for each node, as `PROGRAM node …`, which only `gaia` supports.
///
/// # Errors
/// If a node rejects a frame, the network fails permanently, frames are lost or applied twice between mirrors, local
/// steps would scale deltas that are counts, the model could not be written ([`check_model`]), or the plan's driver is
/// the real one and the run file does not name the application ([`RunError::NotInRunFile`]).
pub fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    run_with(plan, application, &RunOptions::default(), observer)
}

/// As [`run`], with options.
///
/// # Errors
/// As [`run`], and if the plan's driver is the real one and there are options.
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

/// As [`run_with`], but processes of the real driver keep logs and states. If there are states of an earlier attempt,
/// the run continues from them. The caller deletes them once it has written the results, and has to check that both
/// ends of all links agree ([`Outcome::check`]).
///
/// # Errors
/// As [`run_with`], and if a log or a state cannot be written, or a state is of another run.
pub fn run_logged(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
    files: &real::NodeFiles,
) -> Result<Outcome, RunError> {
    finished(carry_out(plan, application, options, observer, None, Some(files))?)
}

impl Outcome {
    /// The files of the final model, with what predictions need beside it and a description of the run. None if training
    /// has diverged, or if the data centers of a real run have kept the model and written it themselves.
    ///
    /// # Panics
    /// If the plan is not that of the run, and [`check_model`] refuses it.
    pub fn model_files(&self, plan: &Plan) -> Vec<ModelFile> {
        let summary = &self.summary;
        let (None, Some(model)) = (&summary.diverged, &self.model) else { return Vec::new() };
        let figures = Figures {
            clock: summary.clocks,
            objective: summary.objective,
            metric: (&summary.metric.name, summary.metric.value),
            data_digest: summary.data_digest.as_deref(),
        };
        trained::files(plan, model, &self.attachments, &figures, self.is_best)
    }

    /// Checks that each mirror has applied the frames that were cut for it, on all links whose ends were compared.
    ///
    /// # Errors
    /// If the ends of a link differ, with all such links.
    pub fn check(&self) -> Result<(), RunError> {
        let broken = self.summary.conservation.iter().flat_map(|record| &record.broken);
        let links: Vec<String> = broken.map(ToString::to_string).collect();
        if links.is_empty() {
            Ok(())
        } else {
            Err(RunError::NotConserved { links: links.join("; ") })
        }
    }

    /// Checks that training has not diverged.
    ///
    /// # Errors
    /// If it has, with the node whose changes diverged.
    pub fn check_sound(&self) -> Result<(), RunError> {
        match &self.summary.diverged {
            None => Ok(()),
            Some(reason) => Err(RunError::Diverged { reason: reason.clone() }),
        }
    }
}

impl RunOptions {
    /// The nodes of a plan, with these options.
    fn blueprint<'p>(&self, plan: &'p Plan, application: &Arc<dyn Application>) -> Blueprint<'p> {
        Blueprint::new(plan, application).with_significance(self.significance.clone())
    }

    /// The name of an option that the plan's driver does not support, if any.
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

/// Runs a plan in virtual time with checkpoints: from the keeper's checkpoint, if it has one, to the end or until the
/// keeper stops the run. The outcome is the same to the bit as that of a run that was not stopped, except `wall_s`.
///
/// # Errors
/// As [`run`], and if the plan's driver keeps no checkpoints, the checkpoint does not fit the plan, or the last one
/// cannot be written.
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
    if plan.decision == Decision::Open {
        return Err(RunError::Undecided);
    }
    if application.deltas_are_counts()
        && matches!(&plan.remote, RemoteSync::LocalSteps(config) if !config.adds_up())
    {
        return Err(RunError::CountsDoNotAddUp);
    }

    if application.deltas_are_counts() && plan.failures.lost_workers == LostWorkers::TakeOver {
        return Err(RunError::CountsTakenOver);
    }
    check_model(plan, application.as_ref())?;

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
        DriverKind::Real => real::run(plan, application, options, observer, files).map(whole),
    }?;

    match &ending {
        Ending::Finished(outcome) => log_outcome(plan, &outcome.summary),
        Ending::Interrupted { clock, checkpoint, .. } => {
            info!(clock = clock.0, checkpoint = %checkpoint.display(), "run was interrupted");
        }
    }

    Ok(ending)
}

/// Logs the end of a run.
fn log_outcome(plan: &Plan, summary: &Summary) {
    let Summary { stopped_by, time_s, clocks, objective, brakes, copies_equal, outliers, .. } =
        summary;
    info!(stopped_by, time_s, clocks, objective, copies_equal, "run has ended");
    if *brakes != BrakeRecord::default() {
        let BrakeRecord { announcements_expired, mirrors_lost } = brakes;
        let run = &plan.name;
        warn!(
            run,
            announcements_expired,
            mirrors_lost,
            "reads stopped waiting for announced updates or for mirrors"
        );
    }
    for OutlierRecord { worker, updates, norm_max } in outliers {
        let run = &plan.name;
        warn!(run, worker, updates, norm_max, "servers limited updates of a worker");
    }
}

/// The message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "no message".into())
}
