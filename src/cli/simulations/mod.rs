//! Where the short simulations of `plan` and `model = "auto"` run: in this process, and those of a script in several more, because
//! one process runs one script at a time.

mod answer;
mod process;
mod script_processes;
mod serving;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::memory::fitting;
use crate::applications::Applications;
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_driver::processors;
use gaia_planner::{InThisProcess, Simulator};
use script_processes::ScriptProcesses;

pub(super) use serving::simulations;

/// The simulator of runs like this one, for as many at once as there are processors and as memory holds. Once the flag is true its
/// simulations end.
pub(super) fn simulator(
    plan: &Plan,
    application: &dyn Application,
    applications: &dyn Applications,
    interrupted: Option<Arc<AtomicBool>>,
) -> Box<dyn Simulator> {
    let threads = processors().min(fitting(plan, application)).max(1);
    // A script that a program hands in as a function is in no other process.
    let is_script = plan.external().is_some_and(|external| external.script.is_some());
    match applications.program() {
        Some(program) if is_script && threads > 1 => {
            Box::new(ScriptProcesses::new(program, threads, interrupted))
        }
        _ => Box::new(InThisProcess { threads, interrupted }),
    }
}
