//! What `gaia plan` says of a run before it starts: what each remote model is predicted to cost, which one to choose, and
//! how the run scales with machines.
//!
//! This room has the records and their lines on the terminal. `gaia-planner` finds the figures.

mod records;
mod terminal;

pub use records::{Choice, PlanFile, PlanRow, ScalingRow, ScalingTable, TargetFrom, Verdict};
pub use terminal::{budget_text, plan_block, scaling_block};

/// The name of the file of records in a directory.
pub const FILE: &str = "plan.json";
