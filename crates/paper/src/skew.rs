//! Training where labels decide which data center has which examples (Hsieh et al., "The Non-IID Data Quagmire of
//! Decentralized Machine Learning", ICML 2020): the quality of the worst copy, and of the mean of all.

use super::EvaluationError;
use super::bench::{Bench, Finished};
use super::suite::{App, Changes, LOCAL_STEPS, OURS, SELF, SPARSE_ROUNDS, Suite};
use gaia_config::{Override, Plan};
use gaia_report::paper::SkewRow;

/// One run over skewed data.
pub(super) struct SkewJob {
    app: &'static str,
    skew: f64,
    model: &'static str,
    plan: Plan,
}

/// One run for each model and skew.
pub(super) fn jobs(suite: &Suite, changes: &Changes) -> Result<Vec<SkewJob>, EvaluationError> {
    let mut jobs = Vec::new();
    let Some(skewed) = suite.skew else { return Ok(jobs) };
    for app in skewed.apps {
        for &skew in skewed.skews {
            for contender in suite.contenders.iter().chain(skewed.contenders) {
                let Some(mut remote) = contender.remote(app.name, SKEWED, changes)? else {
                    continue;
                };
                remote.push(Override::flag(SELF, "app.data.skew", &format!("{skew:?}")));
                let model = contender.name;
                let unguarded = plan(app, skew, model, &remote, changes)?;
                jobs.push(SkewJob { app: app.name, skew, model, plan: unguarded });
                if GUARDED.contains(&model) {
                    remote.push(Override::flag(SELF, "sync.remote.guard", "{}"));
                    let plan = plan(app, skew, &format!("{model}-guard"), &remote, changes)?;
                    jobs.push(SkewJob { app: app.name, skew, model, plan });
                }
            }
        }
    }

    Ok(jobs)
}

fn plan(
    app: &App,
    skew: f64,
    model: &str,
    remote: &[Override],
    changes: &Changes,
) -> Result<Plan, EvaluationError> {
    let percent = (skew * 100.0).round();
    let name = format!("skew-{}-{percent}-{model}", app.name);
    Ok(Plan { name, ..app.own_plan(remote, changes)? })
}

impl SkewJob {
    pub(super) fn run(&self, bench: &Bench<'_>) -> Result<(SkewRow, Finished), EvaluationError> {
        let run = bench.run(&self.plan)?;
        let last = run.progress.last();
        let worst = last.map_or(f64::NAN, |last| {
            last.data_centers.iter().map(|dc| dc.metric).fold(last.metric, f64::min)
        });
        let row = SkewRow {
            app: self.app.into(),
            skew: self.skew,
            model: self.model.into(),
            guard: self.plan.remote.guard().is_some(),
            accuracy_worst: worst,
            accuracy: run.summary.metric.value,
            clocks: run.summary.clocks,
            time_s: run.summary.time_s,
            wan_bytes: run.summary.wan_bytes,
        };
        Ok((row, run))
    }
}

/// The models that also run with a guard, with its default settings.
const GUARDED: [&str; 3] = [OURS, LOCAL_STEPS, SPARSE_ROUNDS];

/// The name of these runs' WAN in settings for a single cell.
const SKEWED: &str = "skew";
