//! Charts as SVG text: curves, bars and lanes.
//!
//! This room decides how curves and bars look: scales, ticks, colours, legend. It knows nothing of runs or of files.
//! Text uses the viewer's own sans-serif. Colours come from [`STYLE`] by class, so that one picture suits light and
//! dark, alone or inside a page. A page carries each chart twice, wide and narrow: a picture shrunk to a phone's
//! width would have unreadable text.

mod bars;
mod csv;
mod curve;
mod exits;
mod lanes;
mod legend;
mod places;
mod plot;
mod range;
mod scale;
mod size;
mod svg;
mod values;

pub(super) use bars::{Bar, BarGroup, Bars, Base};
pub(super) use curve::Curve;
pub(super) use lanes::{Lane, LaneBar, Lanes};
pub(super) use plot::{Plot, Spacing, Trend};
pub(super) use scale::Quantity;
pub(super) use size::Size;
pub(super) use svg::STYLE;
