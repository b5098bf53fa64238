//! A reproduction of the paper's evaluation: three applications over three WANs with all synchronisation models,
//! compared with the published results (Hsieh et al., NSDI 2017).
//!
//! This crate decides which runs are made, what is fitted before the comparison, and which published figure is compared
//! with which result. Each run is `driver::run` of a plan that a run file can express. The crate does not know how a
//! run is executed, and how results are shown: the result is one record. The only input from the paper's results is a
//! bandwidth scale for each application and WAN, which is fitted. All else is measured.

#![warn(missing_docs)]

mod ablation;
mod bench;
mod brakes;
mod cells;
mod centralize;
mod error;
mod experiment;
mod hubs;
mod insignificant;
mod money;
mod published;
mod rates;
mod request;
mod skew;
mod suite;
mod systems;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gaia_config::Plan;
use gaia_report::EndedRuns;
use gaia_report::paper::PaperFile;

use bench::{Bench, Finished, in_parallel};
use experiment::PreparedExperiment;

pub use bench::{Step, Watch};
pub use error::EvaluationError;
pub use published::{Published, SIGNIFICANCES, insignificant, published};
pub use request::{Request, Section};
pub use suite::{
    App, Change, Changes, Contender, RatesSuite, SkewSuite, Suite, SystemsSuite, WanSpec,
};

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The rows of all tables and the curves of all figures.
    pub file: PaperFile,
    /// A run file for each run, by the run's name. `gaia train` on it repeats the run.
    pub run_files: BTreeMap<String, String>,
}

/// Makes the requested runs, independent ones in parallel on all processors. The result does not depend on the number
/// of processors. Runs that have ended in an earlier evaluation, `ended`, are not made again, and those that end are added to
/// it.
///
/// # Errors
/// If the request has a name that the suite lacks, a run file or data file is invalid, a run fails, or `ended` cannot be
/// written.
pub fn evaluate(
    suite: &Suite,
    request: &Request,
    ended: Option<&EndedRuns>,
    watch: &dyn Watch,
) -> Result<Evaluation, EvaluationError> {
    request.check(suite)?;
    let changes = &request.changes;
    let experiments = request.experiments(suite);
    let skewed =
        if request.wants(Section::Skew) { skew::jobs(suite, changes)? } else { Vec::new() };
    let rated =
        if request.wants(Section::Rates) { rates::jobs(suite, changes)? } else { Vec::new() };
    let bench = Bench::new(watch, ended);
    bench.expect(experiment::runs(&experiments) + request.runs(suite, &experiments));
    bench.expect(skewed.len() + rated.len());

    let all_prepared = experiment::prepare(suite, &experiments, changes, &bench)?;
    let jobs = jobs(suite, request, &all_prepared)?;
    let finished = in_parallel(&jobs, |(prepared, model, plan)| {
        Ok((prepared.experiment.name(model), bench.run(plan)?))
    })?;
    let runs: BTreeMap<String, Finished> = finished.into_iter().collect();

    let mut file = tables(suite, request, &all_prepared, &runs);
    if request.wants(Section::Insignificant) {
        file.insignificant = insignificant::rows(&all_prepared, &bench)?;
    }
    let skewed_runs = in_parallel(&skewed, |job| job.run(&bench))?;
    file.skew = skewed_runs.iter().map(|(row, _)| row.clone()).collect();
    let rated_runs = in_parallel(&rated, |job| job.run(&bench))?;
    file.rates = rates::rows(&rated, &rated_runs);

    let mut claims_runs = Vec::new();
    if let Some(systems) = suite.systems.filter(|_| request.wants(Section::Systems)) {
        (file.systems, claims_runs) = systems::check(systems, changes, &bench)?;
    }

    let prepared_runs = all_prepared.iter().flat_map(PreparedExperiment::runs);
    let skewed_runs = skewed_runs.iter().map(|(_, run)| run);
    let others =
        runs.values().chain(skewed_runs).chain(rated_runs.iter().flatten()).chain(&claims_runs);
    let mut run_files = BTreeMap::new();
    for run in prepared_runs.chain(others) {
        file.speed.push(run.speed());
        run_files.insert(run.plan.name.clone(), run.plan.to_toml());
    }
    Ok(Evaluation { file, run_files })
}

/// A run after the baselines: its experiment, its model and its plan.
type Job<'p, 's> = (&'p PreparedExperiment<'s>, String, Plan);

/// The requested runs of all experiments, the longest first, so that no single processor is busy at the end.
fn jobs<'p, 's>(
    suite: &'p Suite,
    request: &Request,
    all_prepared: &'p [PreparedExperiment<'s>],
) -> Result<Vec<Job<'p, 's>>, EvaluationError> {
    let changes = &request.changes;
    let mut jobs = Vec::new();

    for prepared in all_prepared.iter().filter(|prepared| prepared.experiment.compete) {
        for model in request.contenders(suite, &prepared.experiment) {
            let Some(contender) = suite.contender(model) else { continue };
            let (app, wan) = (prepared.experiment.app.name, prepared.experiment.wan.name);
            let Some(remote) = contender.remote(app, wan, changes)? else { continue };
            jobs.push((prepared, model.to_owned(), prepared.plan(model, &remote, changes)?));
        }
    }

    if request.wants(Section::Ablation) {
        jobs.extend(ablation::jobs(suite, all_prepared, changes)?);
    }
    if request.wants(Section::Brakes) {
        jobs.extend(brakes::jobs(suite, all_prepared, changes)?);
    }

    jobs.sort_by_key(|(_, _, plan)| Reverse(plan.topology.workers()));
    Ok(jobs)
}

/// The rows that follow from the baselines and the runs.
fn tables(
    suite: &Suite,
    request: &Request,
    all_prepared: &[PreparedExperiment<'_>],
    runs: &BTreeMap<String, Finished>,
) -> PaperFile {
    let mut file = request.empty_file(request.changes.seed.unwrap_or(SEED));
    file.scales = all_prepared.iter().map(|prepared| prepared.scale_row(all_prepared)).collect();

    for prepared in all_prepared.iter().filter(|prepared| prepared.experiment.compete) {
        let rows = cells::rows(suite, request, prepared, all_prepared, runs);
        if prepared.experiment.elsewhere {
            file.elsewhere.extend(rows);
        } else if request.wants(Section::Cells) {
            file.cells.extend(rows);
        }
    }

    if request.wants(Section::Ablation) {
        file.ablation = ablation::rows(suite, all_prepared, runs);
        file.hubs = hubs::rows(all_prepared, runs, &ablation::overlays(suite));
    }
    if request.wants(Section::Brakes) {
        file.brakes = brakes::rows(all_prepared, runs);
    }
    file
}

/// The seed of the run files.
const SEED: u64 = 42;
