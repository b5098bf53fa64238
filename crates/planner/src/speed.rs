//! How fast a worker computes, measured on this machine, of a run whose times are measured.
#![allow(clippy::disallowed_types, reason = "a speed is measured with the clock of the machine")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SECONDS_MAX;
use gaia_config::{ComputeConfig, ComputeModel, ComputeRate, DriverKind, Plan};
use gaia_core::application::{Application, ApplicationError};
use gaia_core::types::Clock;

/// The run with the speed at which its first worker computes in this process, of which trials in virtual time make use. The same
/// run where its times follow from a cost model, or where the run file says a speed.
///
/// # Errors
/// Where an iteration fails.
pub fn at_measured_speed(
    plan: Plan,
    application: &Arc<dyn Application>,
) -> Result<Plan, ApplicationError> {
    let is_given = plan.compute.rate != ComputeConfig::default_for(DriverKind::Real).rate;
    if plan.compute.model != ComputeModel::Measured || is_given {
        return Ok(plan);
    }
    let rate = examples_per_second(&plan, application.as_ref())?;
    let compute = ComputeConfig {
        model: ComputeModel::Cost,
        rate: ComputeRate::ExamplesPerSecond(rate),
        ..plan.compute
    };
    Ok(Plan { compute, ..plan })
}

/// Examples a second: the median over some iterations. The first one is left out, since it also makes what the others use again.
fn examples_per_second(
    plan: &Plan,
    application: &dyn Application,
) -> Result<f64, ApplicationError> {
    let model = application.initial_model(plan.seed.child("model"));
    let mut task = application.task(0, plan.seed.child("tasks").nth(0));
    let (started, mut rates) = (Instant::now(), Vec::new());
    for clock in (0..=ITERATIONS).map(Clock) {
        task.rows(clock);
        let began = Instant::now();
        let (_, done) = task.iterate(clock, &model)?;
        let seconds = began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        if clock > Clock::ZERO || started.elapsed() > LONG {
            rates.push(done.examples.max(1) as f64 / seconds.min(SECONDS_MAX));
        }
        if started.elapsed() > LONG {
            break;
        }
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

/// The iterations that are measured, at most.
const ITERATIONS: u64 = 20;
/// No iteration is begun after that.
const LONG: Duration = Duration::from_secs(3);
