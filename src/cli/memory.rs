//! Whether what a run holds fits in the memory of this machine, before it is allocated.

use super::{Failure, Terminal};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::types::ByteSize;
use gaia_ml::apps::AppConfig;
use gaia_planner::Memory;

/// Refuses a run in this process whose copies of the model alone are more than the memory that is free, and says so of one
/// that may need more than that.
///
/// # Errors
/// Where the run cannot fit.
pub(super) fn check_memory(
    plan: &Plan,
    application: &dyn Application,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let Some(free) = gaia_data::free_memory() else { return Ok(()) };
    let parameters = application.layout().parameters();
    let Memory { all, least, .. } = Memory::of(plan, parameters, application.momentum());

    if least > free {
        return Err(Failure::usage(too_large(plan, parameters, (least, free))));
    }
    if all > free {
        terminal.note(&format!(
            "the run may hold {} of parameters, and {} of memory are free",
            ByteSize(all),
            ByteSize(free)
        ));
    }
    Ok(())
}

fn too_large(plan: &Plan, parameters: usize, (least, free): (u64, u64)) -> String {
    let size = plan.app.as_ref().and_then(AppConfig::size_key);
    let smaller =
        size.map_or_else(|| "a smaller model".into(), |key| format!("a smaller app.{key}"));
    format!(
        "a model of {parameters} parameters takes at least {} over {} data centers and {} workers on this machine, where {} \
         of memory are free; expected {smaller}, fewer topology.data_center or topology.defaults.workers, or `gaia node` on \
         several machines",
        ByteSize(least),
        plan.topology.data_centers.len(),
        plan.topology.workers(),
        ByteSize(free),
    )
}
