//! Whether what a run holds fits in the memory of this machine, before it is allocated.

use super::{Failure, Terminal};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::types::ByteSize;
use gaia_ml::apps::AppConfig;
use gaia_planner::Memory;

/// Refuses a run in this process whose servers have copies of the model that are more than the memory that is free, and says
/// so of one that may need more than that.
///
/// Workers are left out of the least, since they may read few rows, and sparse tables, of which servers make rows as they
/// are read.
///
/// # Errors
/// Where the run cannot fit.
pub(super) fn check_memory(
    plans: &[&Plan],
    application: &dyn Application,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let Some(free) = gaia_data::free_memory() else { return Ok(()) };
    let layout = application.layout();
    let dense = layout.dense_parameters();

    let mut most = 0;
    for plan in plans {
        let least = plan.topology.data_centers.len() as u64 * 4 * dense as u64;
        if least > free {
            return Err(Failure::usage(too_large(plan, dense, (least, free))));
        }
        most = most.max(held(plan, application));
    }
    if most > free {
        terminal.note(&format!(
            "the run may hold {} of parameters once all of them have changed, and {} of memory are free",
            ByteSize(most),
            ByteSize(free)
        ));
    }
    Ok(())
}

/// The bytes that the nodes of a run hold of parameters once all of them have changed.
pub(super) fn held(plan: &Plan, application: &dyn Application) -> u64 {
    Memory::of(plan, application.layout().parameters(), application.momentum()).all
}

fn too_large(plan: &Plan, parameters: usize, (least, free): (u64, u64)) -> String {
    let size = plan.app.as_ref().and_then(AppConfig::size_key);
    let smaller =
        size.map_or_else(|| "a smaller model".into(), |key| format!("a smaller app.{key}"));
    format!(
        "a model of {parameters} parameters takes at least {} in {} data centers on this machine, where {} of memory are free; \
         expected {smaller}, fewer topology.data_center, or `gaia node` on several machines",
        ByteSize(least),
        plan.topology.data_centers.len(),
        ByteSize(free),
    )
}
