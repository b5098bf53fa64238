//! Project Adam's end of an epoch: 75 % of the replicas are enough, so that slow machines hold nobody up.

use super::{Checked, Context, EvaluationError};
use crate::bench::Finished;
use crate::suite::{App, SELF};
use gaia_config::{Override, Plan};
use gaia_core::coordinator::{Held, StopRules, target_of};
use gaia_report::paper::{SystemRow, SystemUnit, SystemVerdict};

/// Rounds over eleven data centers to the objective that they hold where none is slow: with one that is four times slower,
/// waited for and not.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let even = context.run(&plan(context, "even", &[])?)?;
    let objectives: Vec<f64> = even.progress.iter().map(|progress| progress.objective).collect();
    let target = target_of(HELD.mean(objectives.iter().rev().copied()).unwrap_or(f64::NAN));
    let stop = StopRules {
        objective: Some(target),
        held: HELD,
        clocks: Some(even.summary.clocks * PATIENCE),
        ..StopRules::default()
    };

    let timed = |name: &str, settings: &[(&str, &str)]| {
        context.run(&Plan { stop, ..plan(context, name, settings)? })
    };
    let waited = timed("waited-for", &[SLOW])?;
    let quorum = timed("quorum", &[SLOW, QUORUM])?;
    let as_long = context.run(&plan(context, "quorum-as-long", &[SLOW, QUORUM])?)?;

    let time = |run: &Finished| run.summary.time_to_target_s.unwrap_or(f64::NAN);
    let even_s = stop.first_reached(&objectives).map_or(f64::NAN, |at| even.progress[at].time_s);
    let times = |run: &Finished| time(run) / even_s;
    let (without, with) = (times(&waited), times(&quorum));
    let lost = (even.summary.metric.value - as_long.summary.metric.value).max(0.0);

    let holds = without > TIMES_MAX && with <= TIMES_MAX && lost <= LOST_MAX;
    let row = SystemRow {
        system: "Project Adam".into(),
        claim: "At the end of an epoch it is enough to wait for 75 % of the model replicas, with no impact on accuracy (slide 20)."
            .into(),
        check: "A perceptron over eleven data centers of one worker each with rounds of local steps, one of them four times \
                slower. Time to the objective that rounds hold where none is slow, in times of what they take there, and \
                the held-out accuracy after as many clocks."
            .into(),
        figures: vec![
            super::measured("all parts waited for: time", SystemUnit::Times, without),
            super::measured("a quorum of 75 %: time", SystemUnit::Times, with),
            super::measured("a quorum of 75 %: accuracy lost", SystemUnit::Share, lost),
        ],
        verdict: if holds { SystemVerdict::Holds } else { SystemVerdict::Fails },
        reason: format!(
            "a slow data center costs {without:.2} times the time where it is waited for, and with a quorum {with:.2} times and \
             {:.2} points of accuracy, expected at most {TIMES_MAX:.2} times and {:.1} points.",
            100.0 * lost,
            100.0 * LOST_MAX,
        ),
    };
    Ok(Checked { rows: vec![row], runs: vec![even, waited, quorum, as_long] })
}

fn plan(
    context: &Context<'_, '_>,
    name: &str,
    settings: &[(&str, &str)],
) -> Result<Plan, EvaluationError> {
    let set = |(key, value): &(&str, &str)| Override::flag(SELF, key, value);
    let settings: Vec<Override> = settings.iter().map(set).collect();
    context.plan(&APP, &format!("quorum-{name}"), &settings)
}

pub(super) const APP: App = App {
    name: "quorum",
    file: "config/paper/systems-quorum.toml",
    text: include_str!("../../../../config/paper/systems-quorum.toml"),
    settings: &[],
    quick: &["stop.clocks=150"],
    data: None,
};

/// One data center is four times slower.
const SLOW: (&str, &str) = ("compute.slowdown", "{ tokyo = 4.0 }");
const QUORUM: (&str, &str) = ("sync.remote.quorum", "0.75");
/// Evaluations whose mean meets the target.
const HELD: Held = Held(3);
/// A run stops after this many times the clocks without the target.
const PATIENCE: u64 = 4;
/// The longest that a slow data center may make the others take, in times of what they take without it.
const TIMES_MAX: f64 = 1.10;
/// The share of all answers by which the accuracy may be less: 0.2 points.
const LOST_MAX: f64 = 0.002;
