//! The legend: one entry a curve or a kind of bar, wrapped to the picture's width.

use super::curve::Curve;
use super::svg::{Svg, pixels};
use crate::text::fitted;

/// One entry of a legend.
pub(super) struct Key {
    pub(super) label: String,
    /// Beside the label, in a quieter colour.
    pub(super) note: String,
    pub(super) colour: usize,
    pub(super) swatch: Swatch,
}

/// The symbol before an entry's label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Swatch {
    Line,
    /// The mark of a curve without a line.
    Mark,
    Bar,
    /// The area around a curve.
    Band,
    /// A bar's upper part.
    FaintBar,
    /// The mark of a figure printed elsewhere.
    Printed,
}

/// Entries with their positions.
pub(super) struct Legend {
    entries: Vec<Entry>,
    lines: usize,
}

struct Entry {
    key: Key,
    x: f64,
    line: usize,
}

impl From<&Curve> for Key {
    fn from(curve: &Curve) -> Self {
        Self {
            label: curve.label.clone(),
            note: curve.note.clone(),
            colour: curve.colour,
            swatch: if curve.points.is_empty() { Swatch::Mark } else { Swatch::Line },
        }
    }
}

/// The entries of a curve: itself, and the area around it where that has a name.
pub(super) fn keys_of(curve: &Curve) -> impl Iterator<Item = Key> {
    let is_named = !curve.band.is_empty() && !curve.band_label.is_empty();
    let band = is_named.then(|| Key {
        label: curve.band_label.into(),
        note: String::new(),
        colour: curve.colour,
        swatch: Swatch::Band,
    });
    [Key::from(curve)].into_iter().chain(band)
}

impl Legend {
    pub(super) fn new(keys: impl IntoIterator<Item = Key>, width: f64) -> Self {
        let (mut x, mut line) = (0.0, 0);
        let mut entries = Vec::new();
        for key in keys {
            let room = width - SWATCH - text_width(&key.note);
            let label = fitted(&key.label, (room / CHARACTER) as usize);
            let taken = SWATCH + text_width(&label) + text_width(&key.note) + BETWEEN;
            if x > 0.0 && x + taken - BETWEEN > width {
                (x, line) = (0.0, line + 1);
            }
            entries.push(Entry { key: Key { label, ..key }, x, line });
            x += taken;
        }
        let lines = if entries.is_empty() { 0 } else { line + 1 };
        Self { entries, lines }
    }

    /// How much room the legend takes from the picture's top, in pixels.
    pub(super) fn height(&self) -> f64 {
        self.lines as f64 * LINE
    }

    pub(super) fn draw(&self, svg: &mut Svg) {
        for Entry { key, x, line } in &self.entries {
            let baseline = 13.0 + *line as f64 * LINE;
            let class = format!("gc-{}", key.colour);
            svg.group("g", &[("class", &class)], |svg| key.draw_swatch(svg, *x, baseline - 4.5));
            let text = [("x", &pixels(x + SWATCH) as &dyn std::fmt::Display), ("y", &baseline)];
            svg.group("text", &text, |svg| {
                svg.text("tspan", &[("class", &"gc-ink")], &key.label);
                if !key.note.is_empty() {
                    svg.text("tspan", &[("class", &"gc-quiet"), ("dx", &6)], &key.note);
                }
            });
        }
    }
}

impl Key {
    fn draw_swatch(&self, svg: &mut Svg, x: f64, middle: f64) {
        let bar = |svg: &mut Svg, class: &str| {
            let d = format!("M{} {}h18v11h-18z", pixels(x), pixels(middle - 5.5));
            svg.empty("path", &[("class", &class), ("d", &d)]);
        };
        match self.swatch {
            Swatch::Line => {
                let path = format!("M{} {}h18", pixels(x), pixels(middle));
                svg.empty("path", &[("class", &"gc-line"), ("d", &path)]);
                mark(svg, self.colour, x + 9.0, middle);
            }
            Swatch::Mark => mark(svg, self.colour, x + 9.0, middle),
            Swatch::Band => bar(svg, "gc-band"),
            Swatch::Bar => bar(svg, "gc-bar"),
            Swatch::FaintBar => bar(svg, "gc-bar gc-faint"),
            Swatch::Printed => printed(svg, x + 9.0, middle),
        }
    }
}

/// The mark of a figure that was printed elsewhere: the same on every bar.
pub(super) fn printed(svg: &mut Svg, x: f64, y: f64) {
    let d = format!("M{} {}m0-6l6 6l-6 6l-6-6z", pixels(x), pixels(y));
    svg.empty("path", &[("class", &"gc-printed"), ("d", &d)]);
}

/// The mark of a curve. Its shape differs with the colour, for readers who cannot tell the colours apart.
pub(super) fn mark(svg: &mut Svg, colour: usize, x: f64, y: f64) {
    let d = match colour % 4 {
        0 => {
            return svg.empty(
                "circle",
                &[("class", &"gc-mark"), ("cx", &pixels(x)), ("cy", &pixels(y)), ("r", &"4.5")],
            );
        }
        1 => "m-4-4h8v8h-8z",
        2 => "m0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z",
        _ => "m0-5.5l5 9h-10z",
    };
    svg.empty("path", &[("class", &"gc-mark"), ("d", &format!("M{} {}{d}", pixels(x), pixels(y)))]);
}

/// About how wide a text is, in pixels. The font is the viewer's choice.
fn text_width(text: &str) -> f64 {
    console::measure_text_width(text) as f64 * CHARACTER
}

/// Wide letters of a wide font.
const CHARACTER: f64 = 7.9;
const SWATCH: f64 = 26.0;
const BETWEEN: f64 = 26.0;
const LINE: f64 = 22.0;
