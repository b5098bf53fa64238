//! How a run, or a comparison, ends on the terminal: blocks of at most 80 columns.
//!
//! This room decides which lines are printed. The view of a run in progress is in `live/`.

mod comparison;
mod evaluation;
mod lines;
mod paint;
mod run;
mod seeds;

pub use comparison::comparison_block;
pub use evaluation::{TrainedEvaluation, evaluation_block};
pub(crate) use lines::line;
pub use paint::Paint;
pub use run::{highlights_block, run_block};
pub use seeds::seeds_block;
