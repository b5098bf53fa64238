//! Which remote model a run should have, and how it scales: what `gaia plan` answers before a run.
//!
//! This crate decides which candidates are simulated, for how many clocks, at which objective they are compared, and
//! which of them is chosen for which reason. All candidates run over the same machines, links and data in virtual time,
//! as the Gaia paper compares models (Hsieh et al., NSDI 2017, section 6). It does not know where a run file or data
//! comes from, nor how results are shown.

#![warn(missing_docs)]

mod auto;
mod calibration;
mod candidates;
mod choice;
mod clock_work;
mod course;
mod decision;
mod exchange;
mod facts;
mod memory;
mod scaling;
mod simulation;
mod simulator;
mod speed;

use gaia_config::ConfigError;
use gaia_core::application::ApplicationError;

pub use auto::{Decided, TrialData, decide, decide_untried};
pub use calibration::{Fit, Reach, bsp_over_lan, fit};
pub use clock_work::ClockWork;
pub use decision::shortlist;
pub use exchange::Exchange;
pub use facts::Facts;
pub use memory::Memory;
pub use scaling::Scaling;
pub use simulation::{Request, Step, plan};
pub use simulator::{InThisProcess, Simulated, SimulationError, Simulator};
pub use speed::at_measured_speed;

/// The longest time that is estimated, in seconds: a year.
const SECONDS_MAX: f64 = 3.2e7;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// The run file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The application cannot run the first iterations, or evaluate what they lead to.
    #[error("the first iterations: {0}")]
    Iteration(ApplicationError),
    /// The run chooses its remote model, and the application has tables of which workers hold some rows.
    #[error(
        "`sync.remote.model` is `auto`, expected the name of a model: workers hold some rows of a table, and copies that train alone need all"
    )]
    SparseTables,
    /// A simulation failed.
    #[error("simulating {candidate}: {error}")]
    Simulation {
        /// The name of the candidate.
        candidate: String,
        /// Why it failed.
        error: SimulationError,
    },
    /// The user has interrupted the simulations.
    #[error("the simulations were interrupted")]
    Interrupted,
}
