//! The pages: one file each that opens with no network, in light and dark, on a phone.
//!
//! A page is made in two steps. `run`, `compare` and `paper/pages` turn records into views, in which every figure is
//! text; the templates only lay views out. The pages are well-formed XML as well as HTML, so that tests read them
//! with a strict parser. Their content policy forbids them to load anything.

mod compare;
mod live;
mod parts;
mod run;
mod seeds;
mod template;

pub(crate) use compare::compare_page;
pub use live::LIVE_SCRIPT;
pub(crate) use parts::{
    BlockedBar, CauseKey, Cell, Picture, Table, colour, comparison_plot, run_plot, seeds_plot,
};
pub(crate) use run::{live_page, run_page, waiting_page};
pub(crate) use seeds::seeds_page;
pub(crate) use template::render;
