//! The ablation: this project's ASP with one setting changed, between the unchanged one and ASP as published.

use std::collections::BTreeMap;

use super::EvaluationError;
use super::bench::Finished;
use super::cells::times_lan;
use super::experiment::PreparedExperiment;
use super::money::bill;
use super::suite::{Changes, OURS, PUBLISHED_ASP, Suite};
use gaia_config::Plan;
use gaia_report::paper::AblationRow;

/// One run for each change on each of the ablation's cells. The two ends are among the contenders' runs.
pub(super) fn jobs<'g, 's>(
    suite: &'g Suite,
    all_prepared: &'g [PreparedExperiment<'s>],
    changes: &Changes,
) -> Result<Vec<(&'g PreparedExperiment<'s>, String, Plan)>, EvaluationError> {
    let mut jobs = Vec::new();
    let Some(ours) = suite.contender(OURS) else { return Ok(jobs) };
    for prepared in tried_on(suite, all_prepared) {
        let (app, wan) = (prepared.experiment.app.name, prepared.experiment.wan.name);
        let remote = ours.remote(app, wan, changes)?.unwrap_or_default();
        for (number, change) in suite.ablation.iter().enumerate() {
            let mut remote = remote.clone();
            remote.extend(change.overrides()?);
            let model = model(number);
            let plan = prepared.plan(&model, &remote, changes)?;
            jobs.push((prepared, model, plan));
        }
    }

    Ok(jobs)
}

/// For each cell the row of this project's ASP, then of each change, then of ASP as published.
pub(super) fn rows(
    suite: &Suite,
    all_prepared: &[PreparedExperiment<'_>],
    runs: &BTreeMap<String, Finished>,
) -> Vec<AblationRow> {
    let mut rows = Vec::new();
    for prepared in tried_on(suite, all_prepared) {
        let mut push = |model: &str, change: &str, what: &str| {
            let run = runs.get(&prepared.experiment.name(model));
            rows.extend(run.map(|run| row(prepared, run, change, what)));
        };
        push(OURS, "ours", "one set of settings for all cells");
        for (number, change) in suite.ablation.iter().enumerate() {
            push(&model(number), &change.name(), &change.what);
        }
        push(PUBLISHED_ASP, "as published", "every setting as in the paper");
    }
    rows
}

fn row(prepared: &PreparedExperiment<'_>, run: &Finished, change: &str, what: &str) -> AblationRow {
    let summary = &run.summary;
    AblationRow {
        app: prepared.experiment.app.name.into(),
        wan: prepared.experiment.wan.name.into(),
        change: change.into(),
        what: what.into(),
        times_lan: times_lan(prepared, run),
        clocks: summary.clocks_to_target,
        wan_bytes: summary.wan_bytes_to_target.unwrap_or(summary.wan_bytes),
        usd: bill(summary, &run.plan.topology).total(),
        objective: summary.objective,
    }
}

fn tried_on<'g, 's>(
    suite: &'g Suite,
    all_prepared: &'g [PreparedExperiment<'s>],
) -> impl Iterator<Item = &'g PreparedExperiment<'s>> {
    all_prepared.iter().filter(|prepared| prepared.experiment.is_ablated(suite))
}

/// The names of this project's ASP and of the changes that only set another overlay.
pub(super) fn overlays(suite: &Suite) -> Vec<String> {
    let changes = suite.ablation.iter().enumerate();
    let others = changes.filter(|(_, change)| change.name().starts_with("overlay="));
    std::iter::once(OURS.to_owned()).chain(others.map(|(number, _)| model(number))).collect()
}

/// The model name of a change's run.
fn model(number: usize) -> String {
    format!("change-{}", number + 1)
}
