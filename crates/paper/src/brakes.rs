//! The paper's Figure 12: ASP with and without its two brakes, as published and in this project.

use std::collections::BTreeMap;

use super::EvaluationError;
use super::bench::Finished;
use super::experiment::{Experiment, PreparedExperiment};
use super::suite::{
    Changes, OURS, PUBLISHED_ASP, PUBLISHED_ASP_WITHOUT_BRAKES, Suite, WIDEST, remote_settings,
};
use gaia_config::Plan;
use gaia_report::paper::CurveRow;

/// Whether the experiment has curves.
pub(super) fn are_taken_off(experiment: &Experiment<'_>) -> bool {
    experiment.has_cells() && experiment.wan.name == WIDEST
}

/// The runs of this project's ASP without its brakes. The other curves are of contenders' runs.
pub(super) fn jobs<'g, 's>(
    suite: &Suite,
    all_prepared: &'g [PreparedExperiment<'s>],
    changes: &Changes,
) -> Result<Vec<(&'g PreparedExperiment<'s>, String, Plan)>, EvaluationError> {
    let mut jobs = Vec::new();
    let Some(ours) = suite.contender(OURS) else { return Ok(jobs) };
    for prepared in all_prepared.iter().filter(|prepared| are_taken_off(&prepared.experiment)) {
        let (app, wan) = (prepared.experiment.app.name, prepared.experiment.wan.name);
        let mut remote = ours.remote(app, wan, changes)?.unwrap_or_default();
        remote.extend(remote_settings(&WITHOUT_BRAKES)?);
        let plan = prepared.plan(OURS_WITHOUT_BRAKES, &remote, changes)?;
        jobs.push((prepared, OURS_WITHOUT_BRAKES.to_owned(), plan));
    }
    Ok(jobs)
}

/// The curves of all applications.
pub(super) fn rows(
    all_prepared: &[PreparedExperiment<'_>],
    runs: &BTreeMap<String, Finished>,
) -> Vec<CurveRow> {
    let drawn = all_prepared.iter().filter(|prepared| are_taken_off(&prepared.experiment));
    drawn
        .flat_map(|prepared| {
            COMPETITORS.into_iter().chain([OURS_WITHOUT_BRAKES]).filter_map(|model| {
                let run = runs.get(&prepared.experiment.name(model))?;
                Some(CurveRow {
                    app: prepared.experiment.app.name.into(),
                    wan: prepared.experiment.wan.name.into(),
                    model: model.into(),
                    points: run.curve(),
                    target: prepared.target,
                })
            })
        })
        .collect()
}

/// The contenders with curves.
pub(super) const COMPETITORS: [&str; 3] = [PUBLISHED_ASP, PUBLISHED_ASP_WITHOUT_BRAKES, OURS];
const OURS_WITHOUT_BRAKES: &str = "asp-no-brakes";
const WITHOUT_BRAKES: [&str; 2] = ["selective_barrier=off", "mirror_clock=off"];
