//! The ablation: this project's ASP with one setting changed, between the unchanged one and ASP as published.

use std::collections::BTreeMap;

use super::EvaluationError;
use super::bench::Finished;
use super::cells::times_lan;
use super::ground::Ground;
use super::money::bill;
use super::suite::{Changes, OURS, PUBLISHED_ASP, Suite};
use gaia_config::Plan;
use gaia_report::paper::AblationRow;

/// One run for each change on each of the ablation's cells. The two ends are among the contenders' runs.
pub(super) fn jobs<'g, 's>(
    suite: &'g Suite,
    grounds: &'g [Ground<'s>],
    changes: &Changes,
) -> Result<Vec<(&'g Ground<'s>, String, Plan)>, EvaluationError> {
    let mut jobs = Vec::new();
    let Some(ours) = suite.contender(OURS) else { return Ok(jobs) };
    for ground in tried_on(suite, grounds) {
        let (app, wan) = (ground.site.app.name, ground.site.wan.name);
        let remote = ours.remote(app, wan, changes)?.unwrap_or_default();
        for (number, change) in suite.ablation.iter().enumerate() {
            let mut remote = remote.clone();
            remote.extend(change.overrides()?);
            let model = model(number);
            let plan = ground.plan(&model, &remote, changes)?;
            jobs.push((ground, model, plan));
        }
    }

    Ok(jobs)
}

/// For each cell the row of this project's ASP, then of each change, then of ASP as published.
pub(super) fn rows(
    suite: &Suite,
    grounds: &[Ground<'_>],
    runs: &BTreeMap<String, Finished>,
) -> Vec<AblationRow> {
    let mut rows = Vec::new();
    for ground in tried_on(suite, grounds) {
        let mut push = |model: &str, change: &str, what: &str| {
            let run = runs.get(&ground.site.name(model));
            rows.extend(run.map(|run| row(ground, run, change, what)));
        };
        push(OURS, "ours", "one set of settings for all cells");
        for (number, change) in suite.ablation.iter().enumerate() {
            push(&model(number), &change.name(), &change.what);
        }
        push(PUBLISHED_ASP, "as published", "every setting as in the paper");
    }
    rows
}

fn row(ground: &Ground<'_>, run: &Finished, change: &str, what: &str) -> AblationRow {
    let summary = &run.summary;
    AblationRow {
        app: ground.site.app.name.into(),
        wan: ground.site.wan.name.into(),
        change: change.into(),
        what: what.into(),
        times_lan: times_lan(ground, run),
        clocks: summary.clocks_to_target,
        wan_bytes: summary.wan_bytes_to_target.unwrap_or(summary.wan_bytes),
        usd: bill(summary, &run.plan.topology).total(),
        objective: summary.objective,
    }
}

fn tried_on<'g, 's>(
    suite: &'g Suite,
    grounds: &'g [Ground<'s>],
) -> impl Iterator<Item = &'g Ground<'s>> {
    grounds.iter().filter(|ground| ground.site.is_ablated(suite))
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
