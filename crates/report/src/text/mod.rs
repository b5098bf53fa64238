//! Figures, tables and phrases as plain text: what the terminal, the charts and the pages have in common.
//!
//! This room decides how a figure is written. It knows no terminal, no page and no file.

pub(crate) mod numbers;
pub(crate) mod phrases;
mod table;

pub(crate) use table::{TextTable, WIDTH, fitted, plain, wrapped};
