//! `gaia compare --seeds N`: the whole comparison, once for each seed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::at_once::at_once;
use super::room::Room;
use super::{Progress, files_of_seeds, finish, of_seed, room_of};
use crate::applications::{Applications, build_with};
use crate::cli::memory::check_memory;
use crate::cli::training::{carry_out, unreported, waiting_for_data};
use crate::cli::{CompareFlags, Done, Failure, Terminal, signals};
use crate::{ComparisonPlan, write_comparison};
use gaia_config::{Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_report::{Comparison, RunDirectory, Slowdown};

/// Applications by where the data lies: runs that split it alike share one.
type Built = BTreeMap<Vec<DataHome>, Arc<dyn Application>>;

/// The comparison of one seed, ready to begin.
struct Job<'a> {
    seed: u64,
    plan: &'a ComparisonPlan,
    applications: Built,
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

    let build = |at: usize| built(&plans[at], &files[at].1, applications);
    let (read, data) = waiting_for_data(output, || build(0))?;
    let of_reference = &read[&reference.data_homes()];
    let of_one_seed: Vec<&Plan> = runs_of(&plans[0]).collect();
    check_memory(&of_one_seed, of_reference.as_ref(), terminal)?;
    let directory = RunDirectory::create(output.out.as_deref(), &reference.name)?;
    directory.write("run.toml", reference.to_toml())?;
    terminal.note(&of_reference.describe());
    let counts = (plans.len(), plans[0].variants.len());
    let room = room_of(&of_one_seed, counts, (of_reference.as_ref(), data), terminal);
    let all = plans.iter().map(|plan| runs_of(plan).count()).sum();
    let progress = Progress::new(terminal, output, room == Room::ONE, all);
    let interrupted = signals::interrupted().map_err(Failure::run)?;
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
        let directory = directory.create_seed(seed)?;
        Ok(Some(Job { seed, plan: &plans[at], applications, directory }))
    };
    let carry_out = |job: Job<'_>| {
        let Job { seed, plan, applications, directory } = job;
        let comparison = plan.run_at_once(room.inside, |variant| {
            let name = format!("{}-{}", variant.plan.topology.name, variant.remote);
            let child = directory.create_child(&name)?;
            let application = &applications[&variant.plan.data_homes()];
            let (interrupted, program) = (interrupted.clone(), program.clone());
            let shown = progress.shown(seed);
            let outcome =
                carry_out(&variant.plan, application, &child, shown, interrupted, program);
            let outcome = outcome.map_err(|failure| of_seed(seed, failure))?;
            progress.on_ended(&outcome.summary);
            Ok::<_, Failure>(outcome)
        })?;
        let comparison = Comparison { slowdown, ..comparison };
        write_comparison(&directory, &plan.reference.plan, &comparison)
            .map_err(|error| unreported(&directory, error))?;
        Ok((seed, comparison))
    };
    let found = at_once(plans.len(), room.seeds, prepare, carry_out);

    finish(&directory, &reference.to_toml(), found, all, &interrupted, terminal)
}

/// The plans of all runs of a comparison.
fn runs_of(plan: &ComparisonPlan) -> impl Iterator<Item = &Plan> {
    plan.variants.iter().chain([&plan.reference]).map(|variant| &variant.plan)
}

/// The applications of all runs of a comparison.
fn built(
    plan: &ComparisonPlan,
    file: &RunFile,
    applications: &dyn Applications,
) -> Result<Built, Failure> {
    let mut built = Built::new();
    for plan in runs_of(plan) {
        if let Entry::Vacant(place) = built.entry(plan.data_homes()) {
            let application = build_with(applications, plan, 0..plan.topology.workers());
            place.insert(application.map_err(|error| Failure::data(error, file))?);
        }
    }
    Ok(built)
}
