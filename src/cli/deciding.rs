//! The remote model of a run that leaves it to the program, before anything is derived from it.

use std::sync::Arc;

use super::memory::check_memory;
use super::reading::{waiting_for_data, with_all_data};
use super::simulations::simulator;
use super::training::live_mode;
use super::{Failure, RunFlags, Terminal};
use crate::applications::{Applications, build_with};
use gaia_config::{ComputeConfig, ComputeRate, Decision, DriverKind, Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::types::messagepack;
use gaia_data::{DataSummary, StandIn};
use gaia_planner::{Decided, PlannerError, TrialData, at_measured_speed};
use gaia_report::Waiting;

/// The plan with the remote model that the run chooses, if the run file leaves it to the run. This process has all data.
pub(super) fn decided(
    plan: Plan,
    file: &RunFile,
    run: &RunFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Plan, Failure> {
    if plan.decision != Decision::Open {
        return Ok(plan);
    }

    let trial = in_virtual_time(&plan);
    let read = || with_all_data(&trial, file, applications);
    let application = waiting_for_data(&run.output, read)?;
    check_memory(&[&trial], application.as_ref(), run, terminal)?;
    let decided = {
        let _line = Waiting::new(live_mode(&run.output), "chooses the remote model");
        decide(trial, &application, applications, None).map_err(Failure::planning)?
    };
    let plan = plan.decided(decided.remote, decided.reason);
    tell(&plan, terminal);
    Ok(plan)
}

/// Says what a run has chosen, if it has.
pub(super) fn tell(plan: &Plan, terminal: &Terminal) {
    if let Decision::Made(reason) = &plan.decision {
        let name = plan.remote.name();
        terminal.note(&format!("{name} was chosen by model = \"auto\". {reason}"));
    }
}

/// What a coordinator chooses for all nodes: by the data, if that is in one place; or else by generated data of the sizes in
/// the summaries; for a script by running it, if this process can, or else by what is known without a run.
///
/// # Errors
/// Why there is no choice.
pub(super) fn chosen_by_coordinator(
    plan: &Plan,
    application: &Arc<dyn Application>,
    summaries: &[Vec<u8>],
    applications: &dyn Applications,
) -> Result<Plan, String> {
    let mut trial = in_virtual_time(plan);
    let decide = |trial: Plan, application: &Arc<dyn Application>, generated: Option<f64>| {
        let decided = decide(trial, application, applications, generated);
        decided.map_err(|error| error.to_string())
    };

    let (known, Decided { remote, reason }) = if plan.external().is_some() {
        match build_with(applications, &trial, 0..plan.topology.workers()) {
            Ok(whole) => (String::new(), decide(trial, &whole, None)?),
            Err(error) => {
                let decided = gaia_planner::decide_untried(plan, application.as_ref());
                let said = format!("The coordinator cannot run the workers' training: {error}. ");
                (said, decided.map_err(|error| error.to_string())?)
            }
        }
    } else if plan.has_own_data() {
        let StandIn { config, share } = stand_in(plan, application, summaries)?;
        trial.app = Some(config);
        let homes = trial.data_homes();
        let built = gaia_data::build(trial.app.as_ref(), &homes, trial.seed);
        let built = built.map_err(|error| error.to_string())?;
        (STOOD_IN.into(), decide(trial, &built, Some(share))?)
    } else {
        (String::new(), decide(trial, application, None)?)
    };
    Ok(plan.clone().decided(remote, known + &reason))
}

/// Chooses by a trial over the run's own data, or over `generated` data of which a clock has this share of the run's own examples.
fn decide(
    trial: Plan,
    application: &Arc<dyn Application>,
    applications: &dyn Applications,
    generated: Option<f64>,
) -> Result<Decided, PlannerError> {
    let (data, share) = match generated {
        None => (TrialData::Own, 1.0),
        Some(share) => (TrialData::Generated, share),
    };
    let trial = at_measured_speed(trial, application).map_err(PlannerError::Iteration)?;
    let rate = match trial.compute.rate {
        ComputeRate::ExamplesPerSecond(rate) => ComputeRate::ExamplesPerSecond(rate * share),
        ComputeRate::FlopsPerSecond(rate) => ComputeRate::FlopsPerSecond(rate * share),
    };
    let compute = ComputeConfig { rate, ..trial.compute };
    let trial = Plan { compute, ..trial };
    let simulator = simulator(&trial, application.as_ref(), applications, None);
    gaia_planner::decide(&trial, application, data, simulator.as_ref(), |_| {})
}

/// The same run in virtual time, in which trials are whatever the driver is.
fn in_virtual_time(plan: &Plan) -> Plan {
    Plan { driver: DriverKind::Simulated, ..plan.clone() }
}

fn stand_in(
    plan: &Plan,
    application: &Arc<dyn Application>,
    summaries: &[Vec<u8>],
) -> Result<StandIn, String> {
    let mut all: Vec<DataSummary> = Vec::new();
    for summaries in summaries {
        let of_data_center: Vec<DataSummary> =
            messagepack::decode(summaries).map_err(|error| error.to_string())?;
        all.extend(of_data_center);
    }
    let config = plan.app.as_ref();
    let found = config.and_then(|app| gaia_data::stand_in(app, &all, application.layout()));
    found.ok_or_else(|| "the data of this application cannot be generated".into())
}

const STOOD_IN: &str = "Data stays in its data centers, so generated data of the same sizes, with labels or users of their \
                        own in each, stood in for it. ";
