//! Gaia trains one machine-learning model over data that stays in many data centers.
//!
//! Inside a data center a parameter-server group shares every update over the LAN; between data centers only the
//! updates that matter cross the WAN. The model of it is Gaia (Hsieh et al., NSDI 2017).
//!
//! This crate is the front door of a workspace. What a user of the library needs is here; the crates behind it are
//! private to the workspace, and change without notice.
//!
//! # Example
//!
//! A run file becomes a [`Plan`], a plan and its data an [`Application`], and [`run`] trains it: here a small matrix
//! factorisation over three simulated regions.
//!
//! ```
//! use gaia::{Observer, Progress, RunFile};
//!
//! struct Watch;
//!
//! impl Observer for Watch {
//!     fn on_progress(&mut self, progress: &Progress) {
//!         println!("clock {}: objective {:.3}", progress.clock, progress.objective);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//!     name = "example"
//!     driver = "simulated"
//!
//!     [app]
//!     kind = "matrix-factorization"
//!     rank = 4
//!     data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }
//!
//!     [topology]
//!     file = "three-regions"
//!
//!     [sync.remote]
//!     model = "asp"
//!     threshold = 0.01
//!
//!     [compute]
//!     examples_per_second = 100.0
//!
//!     [stop]
//!     clocks = 40
//! "#;
//! let plan = RunFile::from_text("example.toml", text, &[])?.plan()?;
//! let application = gaia::build(&plan)?;
//! let outcome = gaia::run(&plan, &application, &mut Watch)?;
//!
//! assert!(outcome.summary.objective < outcome.progress[0].objective);
//! assert!(outcome.summary.copies_equal);
//! # Ok(())
//! # }
//! ```

mod variants;

use std::sync::Arc;

pub use gaia_config::{ConfigError, Override, Plan, RunFile};
pub use gaia_core::application::{Application, Direction, Evaluation, Metric, Task, Work};
pub use gaia_core::types::{
    Clock, Deltas, Model, ModelLayout, RowSet, Seed, State, StateError, Walk,
};
pub use gaia_data::DataError;
pub use gaia_driver::{Outcome, RunError, run};
pub use gaia_telemetry::{Observer, Progress, Summary};

pub use variants::{LAN, Variant, variants};

/// Loads or generates the data of the application that a plan names, and splits it over the plan's workers.
///
/// The plan's seed decides what is generated and how it is split.
///
/// # Errors
/// Where the plan names no application, since its run file has no `[app]`, or its data cannot be read.
pub fn build(plan: &Plan) -> Result<Arc<dyn Application>, DataError> {
    gaia_data::build(plan.app.as_ref(), &plan.topology.workers_per_dc(), plan.seed)
}
