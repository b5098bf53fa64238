//! `gaia compare --slowdown`: the bandwidth scale at which BSP is so much slower over the WAN than on its LAN.

use std::sync::Arc;

use super::{Failure, Terminal};
use crate::LAN;
use gaia_config::{
    ComputeConfig, ComputeModel, ConfigError, Decision, DriverKind, Override, Plan, RunFile,
};
use gaia_core::application::Application;
use gaia_planner::{Fit, Reach, bsp_over_lan, fit};
use gaia_report::{Slowdown, figures};
use gaia_telemetry::Unobserved;

/// Reads a slowdown from a flag.
pub(super) fn times(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|times: &f64| *times > 1.0 && *times <= TIMES_MAX);
    times.ok_or_else(|| format!("expected a number above 1, at most {TIMES_MAX}"))
}

/// The run file with the scale that is found, by short simulations, and what is found.
///
/// `wans` are those to compare over, none for that of the run file. `read` reads the data of a plan.
///
/// # Errors
/// Where no scale gives this slowdown, and what to change then.
pub(super) fn with_slowdown(
    file: &RunFile,
    wans: &[String],
    asked: f64,
    read: impl FnOnce(&Plan) -> Result<Arc<dyn Application>, Failure>,
    terminal: &Terminal,
) -> Result<(RunFile, Slowdown), Failure> {
    let others: Vec<&String> = wans.iter().filter(|wan| *wan != LAN).collect();
    let wan = match others.as_slice() {
        [] if wans.is_empty() => None,
        [one] => Some(one.as_str()),
        all => {
            let wrong = match all.len() {
                0 => format!("--wan names no WAN, expected one beside `{LAN}`"),
                found => format!("--wan names {found} WANs, expected one"),
            };
            return Err(Failure::usage(format!("--slowdown {asked}: {wrong}")));
        }
    };
    let plan_at = |scale: f64| -> Result<Plan, ConfigError> {
        let file = with_scale(file, scale)?;
        let file = wan.map_or_else(|| Ok(file.clone()), |wan| file.with_wan(wan))?;
        Ok(probed(file.with_remote("bsp")?.plan()?))
    };
    let own = plan_at(1.0)?;
    if own.topology.data_centers.len() < 2 {
        return Err(Failure::usage(format!(
            "--slowdown {asked}: {} has one data center, expected a WAN of several",
            own.topology.name
        )));
    }

    let application = read(&own)?;
    let probe = |plan: &Plan| {
        let outcome =
            gaia_driver::run(plan, &application, &mut Unobserved).map_err(Failure::run)?;
        Ok::<_, Failure>(outcome.progress)
    };
    let found = fit(asked, |scale| match plan_at(scale) {
        // Some link would be slower or faster than any may be.
        Err(_) => Ok(None),
        Ok(plan) => bsp_over_lan(&plan, probe).map(Some),
    })?;

    let Fit { scale, ratio, reach } = found;
    let times = figures::times;
    let wan = &own.topology.name;
    let wrong = match reach {
        Reach::Found => {
            let scale = format!("{scale:.3e}").parse().expect("a number in scientific notation");
            let slowdown = Slowdown { asked, found: ratio, bandwidth_scale: scale };
            terminal.note(&slowdown.said());
            return Ok((with_scale(file, scale)?, slowdown));
        }
        Reach::TooLow => format!(
            "over {wan} a clock of BSP takes {} its time on the LAN however fast the links are, because of round-trip times; \
             expected more than that, a WAN with shorter round trips, or clocks with more computation (a lower \
             compute.examples_per_second)",
            times(ratio)
        ),
        Reach::TooHigh => format!(
            "over {wan} a clock of BSP takes at most {} its time on the LAN, because slower links slow the LAN, too; expected \
             less than that, or a WAN whose links are slower beside those of its LAN",
            times(ratio)
        ),
    };
    Err(Failure::usage(format!("--slowdown {asked}: {wrong}")))
}

const TIMES_MAX: f64 = 10_000.0;

fn with_scale(file: &RunFile, scale: f64) -> Result<RunFile, ConfigError> {
    file.with_setting(&Override::flag("--slowdown", "topology.bandwidth_scale", &scale.to_string()))
}

/// The plan as a short run in virtual time can have it.
fn probed(plan: Plan) -> Plan {
    let compute = match plan.compute.model {
        ComputeModel::Measured => ComputeConfig { model: ComputeModel::Cost, ..plan.compute },
        ComputeModel::Cost => plan.compute,
    };
    Plan { driver: DriverKind::Simulated, decision: Decision::Given, compute, ..plan }
}
