//! What a chart draws: a line, and what is said of it.

/// One line of a chart.
pub(in crate::report) struct Curve {
    pub(in crate::report) label: String,
    /// Beside the label in the legend, in a quieter colour.
    pub(in crate::report) note: String,
    /// An index into the colours of [`STYLE`](super::STYLE).
    pub(in crate::report) colour: usize,
    pub(in crate::report) points: Vec<(f64, f64)>,
    /// The lowest and highest of what the line summarises, at each point; empty for none.
    pub(in crate::report) band: Vec<(f64, f64)>,
    /// Marks: where the target was met, or points that no line joins.
    pub(in crate::report) marked: Vec<(f64, f64)>,
}
