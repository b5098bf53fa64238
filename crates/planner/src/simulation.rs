//! The simulations of all candidates, and what they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::candidates::{Candidate, candidates};
use super::choice::{Choosable, choose};
use super::course::{Course, Crossing, HELD, near_the_best};
use super::memory::Memory;
use super::simulator::{Simulated, SimulationError, Simulator};
use super::{ClockWork, PlannerError, Scaling};
use gaia_config::{
    CheckpointConfig, ComputeConfig, ComputeModel, ConfigError, Decision, DriverKind,
    FailuresConfig, ModelConfig, Plan, RunFile,
};
use gaia_core::application::Application;
use gaia_core::coordinator::{Held, StopRules};
use gaia_core::types::ModelLayout;
use gaia_driver::in_parallel;
use gaia_report::plan::{PlanFile, PlanRow, TargetFrom, Verdict, budget_text};
use gaia_telemetry::Summary;

/// How candidates are simulated.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The clocks for which each candidate is simulated, at least 1.
    pub budget: u64,
    /// The objective at which candidates are compared. `None`: that of the run file, or else what the best candidate
    /// holds.
    pub target: Option<f64>,
    /// Where the simulations run.
    pub simulator: &'a dyn Simulator,
}

/// A candidate whose simulation has ended.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The name of the candidate.
    pub candidate: &'a str,
    /// What came out of it. `None` where the run file cannot have the candidate, or training diverged.
    pub summary: Option<&'a Summary>,
    /// The number of candidates that are done.
    pub done: usize,
    /// The number of all candidates.
    pub all: usize,
}

/// What came of a candidate.
enum Trial {
    /// The run file cannot have the candidate.
    Impossible,
    Simulated(Simulated),
}

/// Simulates the candidates for a run, which `application` is that of, and compares them. `on_step` is called when one
/// is done, from several threads.
///
/// The same run file, data and request give the same plan to the byte, with any number of threads.
///
/// # Errors
/// Where the run file is wrong, an iteration or a simulation fails, or the user interrupts.
pub fn plan(
    file: &RunFile,
    application: &Arc<dyn Application>,
    request: &Request<'_>,
    on_step: impl Fn(&Step<'_>) + Sync,
) -> Result<PlanFile, PlannerError> {
    let own = file.plan()?;
    let candidates = |layout: &ModelLayout, clock: Duration| candidates(file, layout, clock);
    Ok(compare(&own, candidates, application, request, on_step)?.file)
}

/// What a comparison of candidates has found.
pub(crate) struct Compared {
    pub(crate) file: PlanFile,
    /// When each candidate is near the best objective of all, where it is. It orders those of which none is at the target.
    pub(crate) near_best_s: Vec<Option<f64>>,
}

/// As [`plan()`], for these candidates, which follow from the layout of the model and the time of a clock within a data
/// center.
pub(crate) fn compare(
    own: &Plan,
    candidates: impl FnOnce(&ModelLayout, Duration) -> Result<Vec<Candidate>, ConfigError>,
    application: &Arc<dyn Application>,
    request: &Request<'_>,
    on_step: impl Fn(&Step<'_>) + Sync,
) -> Result<Compared, PlannerError> {
    let work = ClockWork::measure(own, application.as_ref()).map_err(PlannerError::Iteration)?;
    let layout: &ModelLayout = application.layout();
    let parameters = layout.parameters();
    let scaling = Scaling::of(own, &work);
    let local = scaling.communication_s(
        own.topology.data_centers[0].workers,
        own.topology.data_centers[0].servers,
    );
    let clock = work.compute + Duration::from_secs_f64(local);

    let candidates = candidates(layout, clock)?;
    let given = request.target.or(own.stop.objective);
    let budget = own.stop.clocks.map_or(request.budget, |clocks| clocks.min(request.budget));
    let limit = Limit { clocks: budget, seconds: None, budget };
    let all = vec![Some(limit); candidates.len()];
    let trials = simulate(&candidates, &all, application, request, given, &on_step)?;
    let mut trials: Vec<Trial> = trials.into_iter().flatten().collect();

    let near_best = near_the_best(&sound(&trials), untrained(own, application.as_ref()));
    let (target, target_from) = match (request.target, own.stop.objective) {
        (Some(target), _) => (target, TargetFrom::Flag),
        (None, Some(target)) => (target, TargetFrom::RunFile),
        (None, None) => (near_best, TargetFrom::BestCandidate),
    };
    let held = match target_from {
        TargetFrom::BestCandidate => HELD,
        TargetFrom::Flag | TargetFrom::RunFile => own.stop.held,
    };

    let most = own.stop.clocks.unwrap_or(u64::MAX).min(LONGER * budget);
    let is_near = |trial: &Trial| counted_crossing(trial, (near_best, HELD));
    let is_there = |trial: &Trial| counted_crossing(trial, (target, held));
    // Where none is at the target, equal clocks are as unequal times on the way to it.
    let found = if trials.iter().any(|trial| is_there(trial).is_some()) {
        (target, held)
    } else {
        (near_best, HELD)
    };
    let longer = longer(&trials, found, Limit { clocks: most, ..limit });
    let again = simulate(&candidates, &longer, application, request, given, &on_step)?;
    for (trial, longer) in trials.iter_mut().zip(again) {
        if let Some(longer) = longer {
            *trial = longer;
        }
    }
    let rows: Vec<PlanRow> = candidates
        .iter()
        .zip(&trials)
        .map(|(candidate, trial)| {
            let memory = candidate
                .plan
                .as_ref()
                .map_or(0, |plan| Memory::of(plan, application.as_ref()).largest_process());
            row(candidate, trial, (target, held), memory, own)
        })
        .collect();
    let tomls: Vec<String> = candidates.iter().map(block).collect();
    let near_best_s: Vec<Option<f64>> =
        trials.iter().map(|trial| is_near(trial).map(|crossing| crossing.time_s)).collect();
    let choosable = rows.iter().zip(&tomls).zip(&near_best_s);
    let choosable = choosable.map(|((row, toml), near_best_s)| Choosable {
        row,
        toml,
        near_best_s: *near_best_s,
    });
    let choosable: Vec<Choosable<'_>> = choosable.collect();
    let choice = choose(&choosable, &budget_text(budget, own.stop.seconds));

    let file = PlanFile {
        name: own.name.clone(),
        app: own.app_name().into(),
        wan: own.topology.name.clone(),
        seed: own.seed.0,
        version: env!("CARGO_PKG_VERSION").into(),
        data_centers: own.topology.data_centers.len(),
        workers: own.topology.workers(),
        parameters,
        changed_share: work.changed_share(parameters),
        compute_s: work.compute.as_secs_f64(),
        budget_clocks: budget,
        budget_s: own.stop.seconds,
        target_objective: target,
        target_from,
        choice,
        rows,
        scaling: scaling.table(4 * parameters as u64, own.topology.data_centers[0].servers),
    };
    Ok(Compared { file, near_best_s })
}

/// How long a candidate is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    clocks: u64,
    /// The seconds of this simulation, of which the run's own rules may allow fewer.
    seconds: Option<f64>,
    /// The clocks of the first simulations, which say how often all are evaluated: a target is not found later in a longer one.
    budget: u64,
}

/// Where a candidate meets a target. `None` of one whose model after the drain is not what its copies were then.
fn counted_crossing(trial: &Trial, (target, held): (f64, Held)) -> Option<Crossing> {
    match trial {
        Trial::Simulated(Simulated::Ended { progress, summary }) if summary.diverged.is_none() => {
            let course = Course(progress);
            course.crossing(target, held).filter(|_| course.is_held_by(summary.objective))
        }
        _ => None,
    }
}

/// The longer simulations of candidates that were not at the target when the first of all was: their clocks are short,
/// and equal clocks are less time for them. `most` is the limit of all.
fn longer(trials: &[Trial], (target, held): (f64, Held), most: Limit) -> Vec<Option<Limit>> {
    let crossing = |trial: &Trial| counted_crossing(trial, (target, held));
    let first = trials.iter().filter_map(crossing).map(|crossing| crossing.time_s);
    let first = first.fold(f64::INFINITY, f64::min);

    let limit = |trial: &Trial| match trial {
        Trial::Simulated(Simulated::Ended { summary, .. }) => {
            let is_short = crossing(trial).is_none()
                && summary.diverged.is_none()
                && summary.time_s < first
                && summary.clocks < most.clocks;
            let longer = Limit { seconds: Some(first), ..most };
            (is_short && first.is_finite()).then_some(longer)
        }
        Trial::Simulated(Simulated::Diverged) | Trial::Impossible => None,
    };
    trials.iter().map(limit).collect()
}

/// The simulation of each candidate that has a limit.
fn simulate(
    candidates: &[Candidate],
    limits: &[Option<Limit>],
    application: &Arc<dyn Application>,
    request: &Request<'_>,
    target: Option<f64>,
    on_step: &(impl Fn(&Step<'_>) + Sync),
) -> Result<Vec<Option<Trial>>, PlannerError> {
    let done = AtomicUsize::new(0);
    let jobs: Vec<(&Candidate, Option<Limit>)> =
        candidates.iter().zip(limits.iter().copied()).collect();
    let all = limits.iter().flatten().count();
    let one = candidates.iter().find_map(|candidate| candidate.plan.as_ref().ok());
    let at_once = one.map_or(1, |plan| request.simulator.at_once(plan, all));
    in_parallel(&jobs, at_once, |(candidate, limit)| {
        let Some(limit) = limit else { return Ok(None) };
        let trial = match &candidate.plan {
            Err(_) => Trial::Impossible,
            Ok(plan) => {
                let plan = simulated(plan, *limit, target);
                let simulated = request.simulator.simulate(&plan, application, at_once);
                Trial::Simulated(simulated.map_err(|error| match error {
                    SimulationError::Interrupted => PlannerError::Interrupted,
                    error => PlannerError::Simulation { candidate: candidate.name.clone(), error },
                })?)
            }
        };
        on_step(&Step {
            candidate: &candidate.name,
            summary: match &trial {
                Trial::Simulated(Simulated::Ended { summary, .. }) => Some(summary.as_ref()),
                Trial::Simulated(Simulated::Diverged) | Trial::Impossible => None,
            },
            done: 1 + done.fetch_add(1, Ordering::Relaxed),
            all,
        });
        Ok(Some(trial))
    })
}

/// The run in virtual time, until the target, the limit or the last of the seconds that the run itself may take.
fn simulated(plan: &Plan, limit: Limit, target: Option<f64>) -> Plan {
    let mut plan = plan.clone();
    plan.driver = DriverKind::Simulated;
    plan.decision = Decision::Given;
    if plan.compute.model == ComputeModel::Measured {
        plan.compute = ComputeConfig { model: ComputeModel::Cost, ..plan.compute };
    }
    let Limit { clocks, seconds, budget } = limit;
    plan.stop = StopRules {
        objective: target,
        held: plan.stop.held,
        clocks: Some(clocks),
        seconds: [plan.stop.seconds, seconds].into_iter().flatten().reduce(f64::min),
        ..StopRules::default()
    };
    plan.evaluate.every = plan.evaluate.every.min((budget / EVALUATIONS_MIN).max(1));
    plan.model = ModelConfig { init: plan.model.init, ..ModelConfig::default() };
    (plan.checkpoint, plan.failures) = (CheckpointConfig::default(), FailuresConfig::default());
    plan
}

/// The courses of the candidates whose training has not diverged.
fn sound(trials: &[Trial]) -> Vec<Course<'_>> {
    let courses = trials.iter().filter_map(|trial| match trial {
        Trial::Simulated(Simulated::Ended { progress, summary }) if summary.diverged.is_none() => {
            Some(Course(progress)).filter(|course| course.is_held_by(summary.objective))
        }
        _ => None,
    });
    courses.collect()
}

/// The objective of the initial model. `None` of a script, which is asked for nothing but its runs, of a model that may be too
/// large for one place, and where it cannot be evaluated: a plan does not fail for it.
fn untrained(own: &Plan, application: &dyn Application) -> Option<f64> {
    if own.external().is_some() || application.layout().has_sparse_tables() {
        return None;
    }
    let model = application.initial_model(own.seed.child("model"));
    application.evaluate(&model).ok().map(|found| found.objective)
}

fn row(
    candidate: &Candidate,
    trial: &Trial,
    (target, held): (f64, Held),
    memory_bytes: u64,
    own: &Plan,
) -> PlanRow {
    let Candidate { name, settings, is_own, plan } = candidate;
    let mut row = PlanRow {
        candidate: name.clone(),
        is_own: *is_own,
        settings: settings.clone(),
        verdict: Verdict::NotReached,
        time_to_target_s: None,
        clocks_to_target: None,
        wan_bytes_to_target: None,
        cost_usd: None,
        memory_bytes,
        simulated_clocks: 0,
        simulated_s: 0.0,
        simulated_wan_bytes: 0,
        held_objective: f64::NAN,
    };
    let (progress, summary) = match trial {
        Trial::Simulated(Simulated::Ended { progress, summary }) => (progress, summary),
        Trial::Simulated(Simulated::Diverged) => {
            return PlanRow { verdict: Verdict::Diverged, ..row };
        }
        Trial::Impossible => {
            let because = plan.as_ref().err().map_or_else(String::new, ToString::to_string);
            return PlanRow { verdict: Verdict::Impossible(because), ..row };
        }
    };

    let course = Course(progress);
    let is_held = course.is_held_by(summary.objective);
    let crossing = counted_crossing(trial, (target, held));
    let extrapolated = || course.extrapolated(target).filter(|_| is_held);
    row.verdict = match (&summary.diverged, crossing) {
        (Some(_), _) => Verdict::Diverged,
        (None, Some(_)) => Verdict::Reached,
        (None, None) if extrapolated().is_some() => Verdict::Extrapolated,
        (None, None) => Verdict::NotReached,
    };
    if let Some(Crossing { time_s, clocks, wan_bytes }) = crossing.or_else(extrapolated)
        && summary.diverged.is_none()
    {
        row.time_to_target_s = Some(time_s);
        row.clocks_to_target = Some(clocks);
        row.wan_bytes_to_target = Some(wan_bytes);
        row.cost_usd = Some(cost(summary, own, time_s, wan_bytes));
    }

    row.simulated_clocks = summary.clocks;
    row.simulated_s = summary.time_s;
    row.simulated_wan_bytes = progress.last().map_or(0, |last| last.wan_bytes);
    // Copies that are no longer what the model is once it is drained say nothing of it.
    row.held_objective = match summary.objective {
        _ if is_held => course.held(),
        drained if drained.is_nan() => f64::NAN,
        drained => drained,
    };
    row
}

/// US dollars for the machines during some seconds and for WAN bytes, at the mean price of the simulation's bytes.
fn cost(summary: &Summary, own: &Plan, time_s: f64, wan_bytes: u64) -> f64 {
    let wan = summary.wan_cost_usd * (wan_bytes as f64 / (summary.wan_bytes.max(1)) as f64);
    let machines = (own.topology.servers() + own.topology.workers()) as f64;
    wan + own.cost.usd_per_machine_hour * machines * time_s / 3600.0
}

/// The `[sync.remote]` of a candidate, to paste.
fn block(candidate: &Candidate) -> String {
    match &candidate.plan {
        Ok(plan) if candidate.settings.is_empty() => plan.remote_toml(),
        _ => format!("[sync.remote]\n{}\n", candidate.settings.join("\n")),
    }
}

/// Each simulation is evaluated at least about this often in the clocks of the first ones.
const EVALUATIONS_MIN: u64 = 10;
/// A candidate whose clocks are short is simulated for at most so many times the clocks of the others.
const LONGER: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;

    const SHORT: Limit = Limit { clocks: 40, seconds: None, budget: 40 };

    #[test]
    fn a_simulation_ends_by_the_rules_of_the_run_that_it_stands_for() {
        let stop = "stop={ objective = 0.5, held = 4, seconds = 60.0, clocks = 1000 }";
        let plan = facts::tests::plan(&[stop]);
        let stop = |seconds| simulated(&plan, Limit { seconds, ..SHORT }, Some(0.5)).stop;
        let expected = StopRules {
            objective: Some(0.5),
            held: Held(4),
            clocks: Some(40),
            seconds: Some(60.0),
            change: None,
        };
        assert_eq!(stop(None), expected);
        assert_eq!(stop(Some(90.0)), expected);
        assert_eq!(stop(Some(30.0)), StopRules { seconds: Some(30.0), ..expected });
        let free = Plan { stop: StopRules::default(), ..plan.clone() };
        let limit = Limit { seconds: Some(30.0), ..SHORT };
        assert_eq!(simulated(&free, limit, None).stop.seconds, Some(30.0));
    }

    #[test]
    fn a_longer_simulation_is_evaluated_as_often_as_a_short_one() {
        let plan = facts::tests::plan(&["evaluate.every=100"]);
        let every = |clocks| simulated(&plan, Limit { clocks, ..SHORT }, None).evaluate.every;
        assert_eq!([every(40), every(200)], [4, 4]);
    }
}
