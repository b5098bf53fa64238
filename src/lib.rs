//! Gaia trains one machine-learning model over data that stays in many data centers.
//!
//! Inside a data center a parameter-server group shares every update over the LAN; between data centers only the
//! updates that matter cross the WAN. The model of it is Gaia (Hsieh et al., NSDI 2017).
//!
//! This crate is the front door of a workspace. What a user of the library needs is here; the crates behind it are
//! private to the workspace, and change without notice.
//!
//! # A run
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
//!
//! # What is here
//!
//! - **Files**: [`RunFile`] and [`Override`] become a [`Plan`]; [`load_topology`] and [`topology_from_text`] give a
//!   [`Topology`], [`topologies`] names those that are shipped. Every mistake is a [`ConfigError`] that shows its line.
//! - **Applications**: [`build`] makes the one that a plan names. One of your own implements [`Application`] and [`Task`],
//!   in terms of [`Model`], [`RowSet`] and [`Deltas`]; its run file has no `[app]` table.
//! - **Programs**: [`cli::run`] is the whole command line with [`Applications`] of one's own, for run files of
//!   `kind = "external"`.
//! - **Runs**: [`run`], and [`run_with`] for what else is handed in ([`RunOptions`]). An [`Observer`] follows the
//!   [`Progress`]; the [`Outcome`] holds the [`Summary`].
//! - **Significance**: an own [`Significance`] decides what may stay at home, in place of the built-in functions.
//! - **Comparisons**: a [`ComparisonPlan`] trains the same application with several remote models over several WANs; its
//!   [`Comparison`] has the figures side by side.
//! - **Reports**: [`write_run`] and [`write_comparison`] fill a [`RunDirectory`] with records, pictures and pages.
//!
//! # Examples
//!
//! `examples/` in the repository: `own_application` trains a regression that is written there over three regions and
//! compares remote models, `own_program` has every verb of `gaia` for the same regression, `own_significance`
//! replaces ASP's significance function, and `observed_run` follows a run and writes its report.
//! `cargo run --release --example own_application` runs the first.

#![warn(missing_docs)]

mod applications;
pub mod cli;
mod comparison;
mod report;

pub use gaia_config::{
    ConfigError, DriverKind, Override, Plan, RunFile, load_topology, topologies, topology_from_text,
};
pub use gaia_core::application::{
    Aggregation, Application, ApplicationError, Direction, Evaluation, EvaluationSums, Metric,
    Task, WeightedSum, Work,
};
pub use gaia_core::coordinator::{ChangeBy, ChangeRule, Held, StopRules};
pub use gaia_core::significance::Significance;
pub use gaia_core::topology::{DataCenter, Topology, WanLink};
pub use gaia_core::types::{
    Clock, Content, DcId, Deltas, InitialRows, Model, ModelLayout, Random, Restorer, RowSet, Saved,
    Saver, Seed, SharedValues, StateError, TableDeltas, TableId, TableLayout, TableRows,
};
pub use gaia_data::DataError;
pub use gaia_driver::{Outcome, RunError, RunOptions, run, run_with};
pub use gaia_ml::apps::ExternalConfig;
pub use gaia_model::{ScriptModel, ScriptSettings, TensorSpec, different_tensor};
pub use gaia_report::{CompareRow, ComparedRun, Comparison, ReportError, RunDirectory, RunRecord};
pub use gaia_telemetry::{
    BlockedSeconds, BrakeRecord, BrokenLink, ConservationRecord, DcProgress, EvaluatedOn,
    GuardRecord, HomeEvaluation, LinkRecord, MembershipChange, MembershipRecord, MetricRecord,
    ModelSnapshot, Observer, OutlierRecord, PartedRecord, Progress, Summary, TrivialRecord,
    Unobserved,
};

pub use applications::{Applications, BuiltIn, build, build_with};
pub use comparison::{ComparisonPlan, LAN, Variant};
pub use report::{write_comparison, write_run};
