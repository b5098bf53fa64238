//! `gaia train --seeds N`: independent runs that differ in their seed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::at_once::at_once;
use super::room::Room;
use super::{Progress, files_of_seeds, finish, measured, of_seed, room_of};
use crate::applications::Applications;
use crate::cli::deciding::decided;
use crate::cli::ended::{directory_in, directory_of_runs, ended};
use crate::cli::memory::check_memory;
use crate::cli::out::Claim;
use crate::cli::train::{Started, application_of, checkpoints, interrupted};
use crate::cli::{Done, Failure, Resume, Terminal, TrainFlags};
use gaia_checkpoint::Resumed;
use gaia_config::{Decision, DriverKind, Plan, RunFile};
use gaia_core::application::Application;
use gaia_driver::{Ending, Outcome};
use gaia_report::{Comparison, RunDirectory};

/// One run, ready to begin.
struct Job {
    plan: Plan,
    application: Arc<dyn Application>,
    directory: RunDirectory,
    /// What it has come to, if it has ended before.
    ended: Option<Outcome>,
    /// Where it goes on.
    from: Option<Resumed>,
}

/// Trains with so many seeds, and reports medians and ranges.
pub(in crate::cli) fn train_seeds(
    flags: &TrainFlags,
    seeds: u64,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let run = &flags.run;
    let files = files_of_seeds(&run.read(applications)?, run, seeds)?;
    let out = run.output.out.as_deref();
    let _claim = Claim::of(out, &flags.resume)?;
    // The first seed chooses for all, so that all runs have one remote model.
    let first = decided(files[0].1.plan()?, &files[0].1, run, applications, terminal)?;
    let plans = files.iter().map(|(_, file)| plan_as_decided(file, &first));
    let plans = plans.collect::<Result<Vec<Plan>, Failure>>()?;

    let application = |at: usize| application_of(&plans[at], &files[at].1, applications);
    let (read, data) = measured(&run.output, || application(0))?;
    check_memory(&[&first], read.as_ref(), run, terminal)?;
    let (directory, _lock) = directory_of_runs((&flags.resume, out), &first)?;
    directory.write("run.toml", first.to_toml())?;
    let (interrupted, program) = (interrupted(applications)?, applications.program());
    terminal.note(&read.describe());
    let room = room_of(&[&first], (plans.len(), 1), (read.as_ref(), data), terminal);
    let progress = Progress::new(terminal, &run.output, room == Room::ONE, plans.len());

    let mut read = Some(read);
    let prepare = |at: usize| {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let application = match read.take() {
            Some(first) => first,
            None => application(at)?,
        };
        let (plan, name) = (plans[at].clone(), RunDirectory::name_of_seed(files[at].0));
        let directory = directory_in(&directory, &name, &plan, &flags.resume)?;
        let ended = ended(&directory, &plan, application.as_ref())?;
        let from = match (&ended, plan.driver, &flags.resume) {
            (None, DriverKind::Simulated, Resume::Auto) => {
                checkpoints(&plan, application.as_ref(), &directory.checkpoints()).newest()?
            }
            _ => None,
        };
        Ok(Some(Job { plan, application, directory, ended, from }))
    };
    let carry_out = |job: Job| {
        let Job { plan, application, directory, ended, from } = job;
        let seed = plan.seed.0;
        if let Some(Outcome { summary, progress: evaluations, .. }) = ended {
            progress.on_ended_before(&summary);
            return Ok((seed, Comparison::new(vec![(summary, evaluations)])));
        }
        let run = Started {
            plan: &plan,
            application: &application,
            directory: &directory,
            shown: progress.shown(seed),
            interrupted: interrupted.clone(),
            program: program.clone(),
        };
        let ending = run.carry_out(from).map_err(|failure| of_seed(seed, failure))?;
        let outcome = match ending {
            Ending::Finished(outcome) | Ending::Interrupted { outcome, .. } => outcome,
        };
        progress.on_ended(&outcome.summary);
        Ok((seed, Comparison::new(vec![(outcome.summary, outcome.progress)])))
    };
    let found = at_once(plans.len(), room.seeds, prepare, carry_out);

    finish(&directory, &first.to_toml(), found, plans.len(), &interrupted, terminal)
}

/// The plan of a run file, with the remote model that the first seed has chosen if it leaves it to the run.
fn plan_as_decided(file: &RunFile, first: &Plan) -> Result<Plan, Failure> {
    let plan = file.plan()?;
    Ok(match &first.decision {
        Decision::Made(reason) => plan.decided(first.remote.clone(), reason.clone()),
        Decision::Given | Decision::Open => plan,
    })
}
