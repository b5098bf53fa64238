//! Hierarchical top-k communication (CommLib): nodes add up their own workers' changes, and send the largest part of them.

use super::{Checked, Context, EvaluationError};
use crate::bench::Finished;
use crate::suite::{App, SELF};
use gaia_config::{Override, Plan};
use gaia_core::coordinator::{StopRules, target_of};
use gaia_report::paper::{SystemFigure, SystemRow, SystemUnit, SystemVerdict};

/// Dense BSP and sparse rounds, over links with which dense BSP communicates for a third, and for half of its time.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let mut figures: Vec<SystemFigure> = Vec::new();
    let mut runs = Vec::new();
    for (name, mbit) in LINKS {
        let dense = context.run(&plan(context, &format!("dense-{name}"), DENSE, mbit)?)?;
        let last = dense.progress.last().map_or(f64::NAN, |last| last.objective);
        let target = target_of(last);
        let first = dense.progress.iter().find(|at| at.objective <= target);
        let dense_s = first.map_or(f64::NAN, |at| at.time_s);

        let stop = StopRules {
            objective: Some(target),
            clocks: Some(dense.summary.clocks * PATIENCE),
            ..StopRules::default()
        };
        let plan = plan(context, &format!("sparse-{name}"), SPARSE, mbit)?;
        let sparse = context.run(&Plan { stop, ..plan })?;
        let sparse_s = sparse.summary.time_to_target_s.unwrap_or(f64::NAN);

        let share = 1.0 - computing(&dense);
        let what = format!("{name} links: dense communicates for");
        figures.push(super::measured(what, SystemUnit::Share, share));
        figures.push(SystemFigure {
            what: format!("{name} links: time saved"),
            unit: SystemUnit::Share,
            printed: Some(PRINTED),
            computed: None,
            measured: 1.0 - sparse_s / dense_s,
        });
        let bytes = |run: &Finished| run.summary.wan_bytes as f64 / run.summary.clocks as f64;
        let times = bytes(&dense) / bytes(&sparse);
        let what = format!("{name} links: bytes of a dense clock");
        figures.push(super::measured(what, SystemUnit::Times, times));
        runs.extend([dense, sparse]);
    }

    let saved: Vec<f64> = figures.iter().skip(1).step_by(3).map(|figure| figure.measured).collect();
    let shares: Vec<f64> = figures.iter().step_by(3).map(|figure| figure.measured).collect();
    // Links that are slow enough make any saving as large as one likes.
    let holds =
        saved.iter().zip(&shares).any(|(saved, share)| *saved >= PRINTED && *share <= SHARE_MAX);
    let row = SystemRow {
        system: "CommLib".into(),
        claim: "Hierarchical top-k communication trains 25 to 40 % faster than dense on 16 nodes with 8 GPUs each (abstract).".into(),
        check: "A perceptron on 16 nodes of two workers: dense BSP against a sparse round in each clock (`steps = 1`, `density = 0.03`, \
                error feedback, no outer momentum, values of 4 bytes), to the objective of dense BSP. How long their dense baseline \
                communicates is not printed, so two speeds of links are tried."
            .into(),
        figures,
        verdict: if holds { SystemVerdict::Holds } else { SystemVerdict::Fails },
        reason: format!(
            "sparse rounds save {:.0} % of the time where dense BSP communicates for {:.0} % of it, and {:.0} % where it does for {:.0} %; \
             at least 25 % was printed, expected where communication takes about half of the time.",
            100.0 * saved[0],
            100.0 * shares[0],
            100.0 * saved[1],
            100.0 * shares[1]
        ),
    };
    Ok(Checked { rows: vec![row], runs })
}

/// The share of a run's time that one of its workers computes.
fn computing(run: &Finished) -> f64 {
    let blocked = run.summary.blocked_s.total() / run.plan.topology.workers() as f64;
    1.0 - blocked / run.summary.time_s
}

fn plan(
    context: &Context<'_, '_>,
    name: &str,
    remote: &str,
    mbit: f64,
) -> Result<Plan, EvaluationError> {
    let overrides = [
        Override::flag(SELF, "sync.remote", remote),
        Override::flag(SELF, "topology.wan.bandwidth", &format!("\"{mbit} Mbit/s\"")),
    ];
    context.plan(&APP, name, &overrides)
}

pub(super) const APP: App = App {
    name: "sparse",
    file: "config/paper/systems-sparse.toml",
    text: include_str!("../../../../config/paper/systems-sparse.toml"),
    settings: &[],
    quick: &["stop.clocks=100"],
    data: None,
};
const DENSE: &str = "{ model = 'bsp', blocks = 'equal' }";
const SPARSE: &str = "{ model = 'local-steps', steps = 1, overlap = 0, density = 0.03, combine = 'sum', outer = 'plain', \
                      outer_learning_rate = 1.0, values = 'f32', blocks = 'equal' }";
/// Links, and the Mbit/s of each.
const LINKS: [(&str, f64); 2] = [("fast", 0.12), ("slow", 0.06)];
/// The least that was printed.
const PRINTED: f64 = 0.25;
/// A run stops after this many times the dense clocks without the target.
const PATIENCE: u64 = 4;

/// The share of the time that dense BSP may communicate where a saving counts.
const SHARE_MAX: f64 = 0.6;
