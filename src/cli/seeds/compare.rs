//! `gaia compare --seeds N`: the whole comparison, once for each seed.

use std::sync::atomic::Ordering;

use super::at_once::at_once;
use super::room::Room;
use super::{Progress, files_of_seeds, finish, measured, of_seed, room_of};
use crate::applications::Applications;
use crate::cli::ended::{directory_in, directory_of_runs, ended};
use crate::cli::memory::check_memory;
use crate::cli::reading::ByHomes;
use crate::cli::training::{carry_out, unreported};
use crate::cli::{CompareFlags, Done, Failure, Terminal, signals};
use crate::{ComparisonPlan, write_comparison};
use gaia_config::{Plan, RunFile};
use gaia_report::{Comparison, RunDirectory, Slowdown};

/// The comparison of one seed, ready to begin.
struct Job<'a> {
    seed: u64,
    plan: &'a ComparisonPlan,
    applications: ByHomes,
    directory: RunDirectory,
}

/// Compares with so many seeds, and reports medians and ranges.
pub(in crate::cli) fn compare_seeds(
    flags: &CompareFlags,
    (file, slowdown): (&RunFile, Option<Slowdown>),
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let output = &flags.run.output;
    let files = files_of_seeds(file, &flags.run, flags.seeds)?;
    let plan = |(_, file): &(u64, RunFile)| ComparisonPlan::new(file, &flags.remote, &flags.wan);
    let plans = files.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    let reference = &plans[0].reference.plan;

    let build = |at: usize| {
        let mut built = ByHomes::default();
        for plan in plans[at].plans() {
            built.build(plan, &files[at].1, applications)?;
        }
        Ok(built)
    };
    let (read, data) = measured(output, || build(0))?;
    let of_reference = read.of(reference);
    let of_one_seed: Vec<&Plan> = plans[0].plans().collect();
    check_memory(&of_one_seed, of_reference.as_ref(), &flags.run, terminal)?;
    let out = output.out.as_deref();
    let (directory, _lock) = directory_of_runs((&flags.ended.resume, out), reference)?;
    directory.write("run.toml", reference.to_toml())?;
    let interrupted = signals::interrupted().map_err(Failure::run)?;
    terminal.note(&of_reference.describe());
    let counts = (plans.len(), plans[0].variants.len());
    let room = room_of(&of_one_seed, counts, (of_reference.as_ref(), data), terminal);
    let all = plans.iter().map(|plan| plan.plans().count()).sum();
    let progress = Progress::new(terminal, output, room == Room::ONE, all);
    let program = applications.program();

    let mut read = Some(read);
    let prepare = |at: usize| {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let applications = match read.take() {
            Some(first) => first,
            None => build(at)?,
        };
        let seed = files[at].0;
        let name = RunDirectory::name_of_seed(seed);
        let directory =
            directory_in(&directory, &name, &plans[at].reference.plan, &flags.ended.resume)?;
        directory.remove_results()?;
        directory.write("run.toml", plans[at].reference.plan.to_toml())?;
        Ok(Some(Job { seed, plan: &plans[at], applications, directory }))
    };
    let carry_out = |job: Job<'_>| {
        let Job { seed, plan, applications, directory } = job;
        let comparison = plan.run_at_once(room.inside, |variant| {
            let application = applications.of(&variant.plan);
            let child =
                directory_in(&directory, &variant.name(), &variant.plan, &flags.ended.resume)?;
            if let Some(outcome) = ended(&child, &variant.plan, application.as_ref())? {
                progress.on_ended_before(&outcome.summary);
                return Ok::<_, Failure>(outcome);
            }
            let (interrupted, program) = (interrupted.clone(), program.clone());
            let shown = progress.shown(seed);
            let outcome =
                carry_out(&variant.plan, application, &child, shown, interrupted, program);
            let outcome = outcome.map_err(|failure| of_seed(seed, failure))?;
            progress.on_ended(&outcome.summary);
            Ok(outcome)
        })?;
        let comparison = Comparison { slowdown, ..comparison };
        write_comparison(&directory, &plan.reference.plan, &comparison)
            .map_err(|error| unreported(&directory, error))?;
        Ok((seed, comparison))
    };
    let found = at_once(plans.len(), room.seeds, prepare, carry_out);

    finish(&directory, &reference.to_toml(), found, all, &interrupted, terminal)
}
