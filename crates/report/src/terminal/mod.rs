//! How a run, or a comparison, ends on the terminal.
//!
//! This room decides which lines are printed. The view of a run in progress is in `live/`.

mod run;

pub use run::{Paint, comparison_block, highlights_block, run_block};
pub(crate) use run::{
    bytes_to_target, changed, clocks_to_target, conserved, guarded, outcome, time_to_target,
};
