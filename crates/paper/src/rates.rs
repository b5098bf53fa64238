//! Remote models over label-skewed data, each with every learning rate of one grid: a comparison at one rate would prove
//! little, since the rate changes which model is ahead.

use super::EvaluationError;
use super::bench::{Bench, Finished};
use super::suite::{Changes, SELF, Suite};
use gaia_config::{Override, Plan};
use gaia_core::coordinator::StopReason;
use gaia_core::server::PeerError;
use gaia_core::types::Seed;
use gaia_driver::RunError;
use gaia_report::paper::{RateRow, RateRun};

/// One run.
pub(super) struct RateJob {
    app: &'static str,
    model: &'static str,
    learning_rate: f64,
    plan: Plan,
}

/// One run for each application, model, rate and seed.
pub(super) fn jobs(suite: &Suite, changes: &Changes) -> Result<Vec<RateJob>, EvaluationError> {
    let mut jobs = Vec::new();
    let Some(rates) = suite.rates else { return Ok(jobs) };
    for app in rates.apps {
        for contender in rates.contenders {
            let Some(remote) = contender.remote(app.name, RATES, changes)? else { continue };
            for &learning_rate in rates.learning_rates {
                let rate = format!("{learning_rate:?}");
                let mut overrides = remote.clone();
                overrides.push(Override::flag(SELF, "app.learning_rate", &rate));
                let plan = app.own_plan(&overrides, changes)?;

                // Names have letters, digits and dashes.
                let named = rate.replace('.', "-");
                for seed in (plan.seed.0..).take(rates.seeds) {
                    let name = format!("rates-{}-{}-{named}-{seed}", app.name, contender.name);
                    let plan = Plan { name, seed: Seed(seed), ..plan.clone() };
                    let (app, model) = (app.name, contender.name);
                    jobs.push(RateJob { app, model, learning_rate, plan });
                }
            }
        }
    }
    Ok(jobs)
}

impl RateJob {
    /// `None` where training diverged in a way that leaves no results: a large rate is a row all the same.
    pub(super) fn run(&self, bench: &Bench<'_>) -> Result<Option<Finished>, EvaluationError> {
        let found = bench.run(&self.plan);
        if let Err(EvaluationError::Run { error: RunError::Peer { error, .. }, .. }) = &found
            && matches!(error, PeerError::PeerSentDivergedChange { .. })
        {
            return Ok(None);
        }
        found.map(Some)
    }

    fn is_of(&self, row: &RateRow) -> bool {
        self.app == row.app && self.model == row.model && self.learning_rate == row.learning_rate
    }
}

/// The rows of all jobs, whose runs are `finished`, in the same order.
pub(super) fn rows(jobs: &[RateJob], finished: &[Option<Finished>]) -> Vec<RateRow> {
    let mut rows: Vec<RateRow> = Vec::new();
    for (job, run) in jobs.iter().zip(finished) {
        let run = run.as_ref().map_or_else(|| diverged(&job.plan), rate_run);
        match rows.last_mut().filter(|row| job.is_of(row)) {
            Some(row) => row.runs.push(run),
            None => rows.push(RateRow {
                app: job.app.into(),
                model: job.model.into(),
                learning_rate: job.learning_rate,
                target: job.plan.stop.objective,
                runs: vec![run],
            }),
        }
    }
    rows
}

fn rate_run(Finished { plan, summary, .. }: &Finished) -> RateRun {
    let data_centers = plan.topology.data_centers.len() as f64;
    let (time_s, wan_bytes) = match plan.stop.objective {
        Some(_) => (summary.time_to_target_s, summary.wan_bytes_to_target),
        None => (Some(summary.time_s), Some(summary.wan_bytes)),
    };
    let diverged = summary.was_stopped_by(StopReason::Diverged);
    RateRun {
        seed: plan.seed.0,
        clocks: summary.clocks_to_target,
        time_s,
        sent_bytes: wan_bytes.map(|bytes| bytes as f64 / data_centers),
        accuracy: Some(summary.metric.value).filter(|value| value.is_finite() && !diverged),
    }
}

fn diverged(plan: &Plan) -> RateRun {
    let seed = plan.seed.0;
    RateRun { seed, clocks: None, time_s: None, sent_bytes: None, accuracy: None }
}

/// The name of these runs' WAN in settings for a single cell.
const RATES: &str = "rates";
