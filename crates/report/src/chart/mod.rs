//! Charts as SVG text: curves and bars.
//!
//! This room decides how curves and bars look: scales, ticks, colours, legend. It knows nothing of runs or of files.
//! Text is left to the viewer's own sans-serif, colours come from [`STYLE`] by class, so that one picture serves
//! light and dark, alone or inside a page. A page carries each chart twice, wide and narrow, since shrinking one
//! picture to a phone's width shrinks its words too.

mod bars;
mod curve;
mod legend;
mod plot;
mod scale;
mod svg;

pub(super) use bars::{Bar, BarGroup, Bars, Base};
pub(super) use curve::Curve;
pub(super) use plot::{Plot, Size, Spacing, Trend};
pub(super) use scale::Quantity;

/// The classes that the charts use. A page includes it once; a picture that stands alone carries it inside.
pub(super) const STYLE: &str = include_str!("chart.css");
