//! What a chart draws: a line, and what is said of it.

/// One line of a chart.
pub(crate) struct Curve {
    pub(crate) label: String,
    /// Beside the label in the legend, in a quieter colour.
    pub(crate) note: String,
    /// An index into the colours of [`STYLE`](super::STYLE).
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
    /// The lowest and highest of what the line summarises, at each point; empty for none.
    pub(crate) band: Vec<(f64, f64)>,
    /// Marks: where the target was met, or points that no line joins.
    pub(crate) marked: Vec<(f64, f64)>,
}
