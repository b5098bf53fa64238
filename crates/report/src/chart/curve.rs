//! A line of a chart, with its label and its marks.

/// One line of a chart.
#[derive(Clone)]
pub(crate) struct Curve {
    /// Its name in the legend.
    pub(crate) label: String,
    /// Beside the label in the legend, in a quieter colour.
    pub(crate) note: String,
    /// An index into the colours of [`STYLE`](super::STYLE).
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
    /// The lowest and the highest of the values that the line summarises, at each point; empty for none.
    pub(crate) band: Vec<(f64, f64)>,
    /// What the band reaches over, in the legend; empty where the page says it.
    pub(crate) band_label: &'static str,
    /// Points drawn as marks: where the target was met, or points without a line.
    pub(crate) marked: Vec<(f64, f64)>,
}

impl Curve {
    /// Whether anything of it can be drawn.
    pub(super) fn shows(&self) -> bool {
        let mut all = self.points.iter().chain(&self.marked);
        all.any(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// What is drawn as marks: a point that has no other to be joined with shows as nothing else.
    pub(super) fn marks(&self) -> impl Iterator<Item = &(f64, f64)> {
        let drawn = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
        let is_alone = self.points.iter().filter(drawn).count() == 1;
        let alone = self.points.iter().filter(drawn).filter(move |_| is_alone);
        self.marked.iter().chain(alone.filter(|point| !self.marked.contains(point)))
    }
}
