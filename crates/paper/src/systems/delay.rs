//! The consistency model of the Parameter Server (OSDI 2014): a bounded delay waits less than bulk synchronous steps, and
//! reads older values.

use super::{Checked, Context, EvaluationError};
use crate::bench::Finished;
use crate::suite::{App, SELF};
use gaia_config::{Override, Plan};
use gaia_core::coordinator::{StopRules, target_of};
use gaia_report::paper::{SystemFigure, SystemRow, SystemUnit, SystemVerdict};

/// Several bounds, each to the objective that BSP has after the clocks of the run file.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let reference = context.run(&plan(context, "target", 0)?)?;
    let last = reference.progress.last().map_or(f64::NAN, |last| last.objective);
    let target = target_of(last);
    let clocks = reference.summary.clocks * PATIENCE;

    let mut runs = Vec::new();
    for delay in DELAYS {
        let plan = plan(context, &delay.to_string(), delay)?;
        let stop =
            StopRules { objective: Some(target), clocks: Some(clocks), ..StopRules::default() };
        runs.push(context.run(&Plan { stop, ..plan })?);
    }

    let time = |run: &Finished| run.summary.time_to_target_s.unwrap_or(f64::NAN);
    let waited = |run: &Finished| {
        let workers = run.plan.topology.workers() as f64;
        run.summary.blocked_s.local / (workers * run.summary.time_s)
    };
    let mut figures = Vec::new();
    for (delay, run) in DELAYS.iter().zip(&runs) {
        let times = time(run) / time(&runs[0]);
        figures.push(super::measured(format!("delay {delay}: time"), SystemUnit::Times, times));
        let share = waited(run);
        figures.push(super::measured(format!("delay {delay}: waited"), SystemUnit::Share, share));
    }

    let waits: Vec<f64> = runs.iter().map(waited).collect();
    let falls = waits.is_sorted_by(|more, less| more >= less);
    let best = figures.iter().step_by(2).skip(1).map(|figure: &SystemFigure| figure.measured);
    let best = best.fold(f64::INFINITY, f64::min);
    let holds = falls && best <= BEST_MAX;
    let row = SystemRow {
        system: "Parameter Server".into(),
        claim: "A bounded delay reaches the same objective sooner than bulk synchronous steps, and waits less (slide 33).".into(),
        check: format!(
            "A perceptron on {} workers of one data center with local SSP, whose clocks differ in length. Time to the objective of BSP, in \
             times of BSP's, and the share of the workers' time that they waited for slower ones.",
            reference.plan.topology.workers()
        ),
        figures,
        verdict: if holds { SystemVerdict::Holds } else { SystemVerdict::Fails },
        reason: format!(
            "waiting {} with the delay, and the best delay takes {best:.2} times as long as BSP, expected at most {BEST_MAX}.",
            if falls { "falls" } else { "does not always fall" }
        ),
    };
    runs.push(reference);
    Ok(Checked { rows: vec![row], runs })
}

fn plan(context: &Context<'_, '_>, name: &str, delay: u64) -> Result<Plan, EvaluationError> {
    let local = if delay == 0 {
        "{ model = 'bsp' }".to_owned()
    } else {
        format!("{{ model = 'ssp', staleness = {delay} }}")
    };
    let local = Override::flag(SELF, "sync.local", &local);
    context.plan(&APP, &format!("delay-{name}"), &[local])
}

pub(super) const APP: App = App {
    name: "delay",
    file: "config/paper/systems-delay.toml",
    text: include_str!("../../../../config/paper/systems-delay.toml"),
    settings: &[],
    quick: &["stop.clocks=150"],
    data: None,
};
const DELAYS: [u64; 6] = [0, 1, 2, 4, 8, 16];
/// A run stops after this many times BSP's clocks without the target.
const PATIENCE: u64 = 4;
/// The longest that the best delay may take, in times of BSP's time.
const BEST_MAX: f64 = 0.8;
