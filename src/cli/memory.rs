//! Whether what a run holds fits in the memory of this machine, before it is allocated.

use super::{Failure, RunFlags, Terminal};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_ml::apps::AppConfig;
use gaia_planner::Memory;
use gaia_report::figures;

/// Refuses a run in this process that may hold more than the memory that is free, or says so where the user wants to try it.
///
/// # Errors
/// Where the run may not fit, and `--ignore-memory` is not given.
pub(super) fn check_memory(
    plans: &[&Plan],
    application: &dyn Application,
    run: &RunFlags,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let Some(free) = gaia_data::free_memory() else { return Ok(()) };
    let held = plans.iter().map(|plan| (*plan, Memory::of(plan, application)));
    let Some((plan, most)) = held.max_by_key(|(_, memory)| memory.all) else { return Ok(()) };
    if most.all <= free {
        return Ok(());
    }

    let found = format!(
        "{} may hold {} of parameters once all that are in use have changed, up to {} a server and {} a worker, and {} of memory \
         are free",
        plan.remote.name(),
        figures::bytes(most.all),
        figures::bytes(most.server),
        figures::bytes(most.worker),
        figures::bytes(free)
    );
    if run.ignore_memory {
        terminal.note(&found);
        return Ok(());
    }
    let size = plan.app.as_ref().and_then(AppConfig::size_key);
    let smaller =
        size.map_or_else(|| "a smaller model".into(), |key| format!("a smaller app.{key}"));
    Err(Failure::usage(format!(
        "{found}; expected {smaller}, fewer topology.data_center, `gaia node` on several machines, or --ignore-memory to try it"
    )))
}

/// The bytes that the nodes of a run hold of parameters once all of them have changed.
pub(super) fn held(plan: &Plan, application: &dyn Application) -> u64 {
    Memory::of(plan, application).all
}

/// How many simulations of a run the memory that is free holds.
pub(super) fn fitting(plan: &Plan, application: &dyn Application) -> usize {
    fitting_of(held(plan, application))
}

/// How many times so many bytes the memory that is free holds. Any number where the system does not say what is free.
pub(super) fn fitting_of(bytes: u64) -> usize {
    let fitting = gaia_data::free_memory().and_then(|free| free.checked_div(bytes));
    fitting.map_or(usize::MAX, |fitting| usize::try_from(fitting).unwrap_or(usize::MAX))
}
