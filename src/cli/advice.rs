//! What is said at the end of a run that has waited much for its WAN: which remote model would have been faster,
//! where that is cheap to measure, or how to find out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::memory::fitting;
use super::training::live_mode;
use super::{OutputFlags, Terminal};
use gaia_config::{Decision, DriverKind, Plan, RunFile};
use gaia_core::application::Application;
use gaia_driver::processors;
use gaia_planner::{InThisProcess, Request};
use gaia_report::plan::{PlanFile, PlanRow, Verdict};
use gaia_report::{LiveMode, Waiting, figures};
use gaia_telemetry::Summary;

/// Says it in one line. Nothing is said of a run that has not waited for its WAN, or whose model the run has chosen by
/// itself.
pub(super) fn advise(
    (path, file): (&Path, &RunFile),
    plan: &Plan,
    application: &Arc<dyn Application>,
    summary: &Summary,
    interrupted: Arc<AtomicBool>,
    (output, terminal): (&OutputFlags, &Terminal),
) {
    let waited = waited_share(summary);
    let is_asked = plan.decision == Decision::Given && live_mode(output) != LiveMode::Quiet;
    if !is_asked || plan.external().is_some() || waited < MUCH {
        return;
    }

    let waited = format!("workers waited for the WAN {:.0} % of their time", 100.0 * waited);
    let path = path.display();
    let further = format!("`gaia plan {path}` predicts what other remote models take");
    let at_once = fitting(plan, application.as_ref()).min(processors());
    if at_once == 0 || !is_cheap(plan, summary) {
        terminal.note(&format!("{waited}: {further}"));
        return;
    }

    let simulator = InThisProcess { threads: at_once, interrupted: Some(interrupted) };
    let request =
        Request { budget: BUDGET, target: summary.target_objective, simulator: &simulator };
    let found = {
        let _line = Waiting::new(live_mode(output), "simulates other remote models");
        gaia_planner::plan(file, application, &request, |_| {})
    };
    // A run that has ended does not fail for advice.
    let Ok(found) = found else { return };
    match better(&found) {
        Some(better) => terminal.note(&format!("{waited}: {better}; {further}")),
        None => terminal.note(&format!(
            "{waited}, and no other remote model was clearly faster in short simulations"
        )),
    }
}

/// The share of the workers' time in which reads waited for other data centers.
fn waited_share(summary: &Summary) -> f64 {
    let blocked = summary.blocked_s;
    let worker_seconds = summary.workers as f64 * summary.time_s;
    let waited = blocked.total() - blocked.local;
    if worker_seconds > 0.0 { waited / worker_seconds } else { 0.0 }
}

/// Whether the simulations take little of this machine's time beside the run itself.
fn is_cheap(plan: &Plan, summary: &Summary) -> bool {
    // Of other drivers the time of the run does not say how long a simulation takes.
    if plan.driver != DriverKind::Simulated || summary.clocks == 0 {
        return false;
    }
    let clock_s = summary.wall_s / summary.clocks as f64;
    let all_s = clock_s * (CANDIDATES * BUDGET) as f64 / processors() as f64;
    all_s < CHEAP_S.max(CHEAP_SHARE * summary.wall_s).min(CHEAP_S_MAX)
}

/// The candidate that was clearly sooner at the target than the run's own model, which may not have been there at all
/// when its simulation ended. `None` where there is none.
fn better(found: &PlanFile) -> Option<String> {
    let reached_s =
        |row: &PlanRow| row.time_to_target_s.filter(|_| row.verdict == Verdict::Reached);
    let own = found.rows.iter().find(|row| row.is_own && row.simulated_clocks > 0)?;
    let others = found.rows.iter().filter(|row| !row.is_own);
    let others = others.filter_map(|row| Some((reached_s(row)?, row)));
    let (best_s, best) = others.min_by(|a, b| a.0.total_cmp(&b.0))?;

    let name = &own.candidate;
    let (own_s, own) = match reached_s(own) {
        Some(own_s) => (own_s, format!("{name} after {}", figures::seconds(own_s))),
        None => {
            let own_s = own.simulated_s;
            (own_s, format!("{name} not within {}", figures::seconds(own_s)))
        }
    };
    (own_s >= CLEARLY * best_s).then(|| {
        format!(
            "in short simulations {} ({}) was at objective {} after {}, {own}",
            best.candidate,
            best.settings.join(", "),
            figures::objective(found.target_objective),
            figures::seconds(best_s),
        )
    })
}

/// The share of its time from which on a run could be much faster.
const MUCH: f64 = 0.2;
/// The ratio of times from which on a model is called better.
const CLEARLY: f64 = 1.25;
/// Clocks for which each candidate is simulated.
const BUDGET: u64 = 200;
/// About as many candidates as there are, with those that are simulated for longer.
const CANDIDATES: u64 = 20;
/// What the simulations may take, in seconds of this machine, or as a share of what the run took.
const CHEAP_S: f64 = 1.0;
const CHEAP_SHARE: f64 = 0.1;
/// Since candidates that are far from the target go on for longer, the simulations may take a few times as long.
const CHEAP_S_MAX: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuiltIn, build_with};
    use gaia_telemetry::Unobserved;

    const RUN: &str = r#"
        name = "small"
        driver = "simulated"
        stop.clocks = 60
        compute.examples_per_second = 1000.0
        evaluate.every = 5
        sync.remote.model = "bsp"

        [app]
        kind = "matrix-factorization"
        rank = 4
        data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }

        [topology]
        file = "three-regions"
        bandwidth_scale = 0.002
    "#;

    #[test]
    fn what_is_called_better_was_simulated_to_the_target() {
        let file = RunFile::from_text("run.toml", RUN, &[]).unwrap();
        let plan = file.plan().unwrap();
        let application = build_with(&BuiltIn, &plan, 0..6).unwrap();
        let summary = gaia_driver::run(&plan, &application, &mut Unobserved).unwrap().summary;
        assert!(waited_share(&summary) > MUCH, "{}", waited_share(&summary));

        let simulator = InThisProcess { threads: 2, interrupted: None };
        let request = Request { budget: 60, target: None, simulator: &simulator };
        let mut found = gaia_planner::plan(&file, &application, &request, |_| {}).unwrap();
        let said = better(&found).unwrap();
        assert!(said.contains("model = \"local-steps\"") && said.contains(", bsp "), "{said}");

        for row in found.rows.iter_mut().filter(|row| !row.is_own) {
            row.verdict = Verdict::Extrapolated;
        }
        assert_eq!(better(&found), None);
    }

    #[test]
    fn only_a_run_that_took_little_of_the_machine_is_simulated_again() {
        let file = RunFile::from_text("run.toml", RUN, &[]).unwrap();
        let plan = file.plan().unwrap();
        let application = build_with(&BuiltIn, &plan, 0..6).unwrap();
        let mut summary = gaia_driver::run(&plan, &application, &mut Unobserved).unwrap().summary;
        (summary.clocks, summary.wall_s) = (100, 1e-5);
        assert!(is_cheap(&plan, &summary));
        summary.wall_s = 1e5;
        assert!(!is_cheap(&plan, &summary));
        summary.wall_s = 1e-5;
        let emulated = Plan { driver: DriverKind::Emulated, ..plan };
        assert!(!is_cheap(&emulated, &summary));
    }
}
