//! What pages are made of: tables, charts with their choices, maps of links, bars of blocked time.
//!
//! A part turns records into a view in which every figure is text. It knows no page.

mod against_bsp;
mod axes;
mod blocked;
mod breakdown;
mod colour;
mod download;
mod heat;
mod links;
mod picture;
mod pictures;
mod seed_pictures;
mod table;
mod timeline;

pub(super) use against_bsp::{AgainstBsp, against_bsp};
pub(crate) use blocked::{BlockedBar, CauseKey};
pub(super) use breakdown::BreakdownView;
pub(crate) use colour::colour;
pub(super) use heat::{Heats, heat, shared_heats};
pub(super) use links::LinkTable;
pub(crate) use picture::Picture;
pub(super) use pictures::{Pictures, comparison_pictures, run_pictures};
pub(crate) use pictures::{comparison_plot, run_plot};
pub(super) use seed_pictures::seed_pictures;
pub(crate) use seed_pictures::seeds_plot;
pub(crate) use table::{Cell, Table};
pub(super) use timeline::timeline;
