//! The paper's Figure 12: ASP with and without its two brakes, as published and in this project.

use std::collections::BTreeMap;

use super::EvaluationError;
use super::bench::Finished;
use super::ground::{Ground, Site};
use super::suite::{
    Changes, OURS, PUBLISHED_ASP, PUBLISHED_ASP_WITHOUT_BRAKES, Suite, WIDEST, remote_settings,
};
use gaia_config::Plan;
use gaia_report::paper::CurveRow;

/// Whether the site has curves.
pub(super) fn are_taken_off(site: &Site<'_>) -> bool {
    site.has_cells() && site.wan.name == WIDEST
}

/// The runs of this project's ASP without its brakes. The other curves are of contenders' runs.
pub(super) fn jobs<'g, 's>(
    suite: &Suite,
    grounds: &'g [Ground<'s>],
    changes: &Changes,
) -> Result<Vec<(&'g Ground<'s>, String, Plan)>, EvaluationError> {
    let mut jobs = Vec::new();
    let Some(ours) = suite.contender(OURS) else { return Ok(jobs) };
    for ground in grounds.iter().filter(|ground| are_taken_off(&ground.site)) {
        let (app, wan) = (ground.site.app.name, ground.site.wan.name);
        let mut remote = ours.remote(app, wan, changes)?.unwrap_or_default();
        remote.extend(remote_settings(&WITHOUT_BRAKES)?);
        let plan = ground.plan(OURS_WITHOUT_BRAKES, &remote, changes)?;
        jobs.push((ground, OURS_WITHOUT_BRAKES.to_owned(), plan));
    }
    Ok(jobs)
}

/// The curves of all applications.
pub(super) fn rows(grounds: &[Ground<'_>], runs: &BTreeMap<String, Finished>) -> Vec<CurveRow> {
    let drawn = grounds.iter().filter(|ground| are_taken_off(&ground.site));
    drawn
        .flat_map(|ground| {
            COMPETITORS.into_iter().chain([OURS_WITHOUT_BRAKES]).filter_map(|model| {
                let run = runs.get(&ground.site.name(model))?;
                Some(CurveRow {
                    app: ground.site.app.name.into(),
                    wan: ground.site.wan.name.into(),
                    model: model.into(),
                    points: run.curve(),
                    target: ground.target,
                })
            })
        })
        .collect()
}

/// The contenders with curves.
pub(super) const COMPETITORS: [&str; 3] = [PUBLISHED_ASP, PUBLISHED_ASP_WITHOUT_BRAKES, OURS];
const OURS_WITHOUT_BRAKES: &str = "asp-no-brakes";
const WITHOUT_BRAKES: [&str; 2] = ["selective_barrier=off", "mirror_clock=off"];
