//! The legend: one entry a curve, wrapped to the picture's width.

use super::curve::Curve;
use super::svg::{Svg, pixels};
use crate::report::text_table::fitted;

/// Entries that have found their places.
pub(super) struct Legend {
    entries: Vec<Entry>,
    lines: usize,
}

struct Entry {
    label: String,
    note: String,
    colour: usize,
    x: f64,
    line: usize,
}

impl Legend {
    pub(super) fn new(curves: &[Curve], width: f64) -> Self {
        let (mut x, mut line) = (0.0, 0);
        let mut entries = Vec::new();
        for curve in curves {
            let room = width - SWATCH - text_width(&curve.note);
            let label = fitted(&curve.label, (room / CHARACTER) as usize);
            let taken = SWATCH + text_width(&label) + text_width(&curve.note) + BETWEEN;
            if x > 0.0 && x + taken - BETWEEN > width {
                (x, line) = (0.0, line + 1);
            }
            entries.push(Entry { label, note: curve.note.clone(), colour: curve.colour, x, line });
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
        for entry in &self.entries {
            let baseline = 13.0 + entry.line as f64 * LINE;
            let middle = baseline - 4.5;
            let class = format!("gc-{}", entry.colour);
            svg.group("g", &[("class", &class)], |svg| {
                let path = format!("M{} {}h18", pixels(entry.x), pixels(middle));
                svg.empty("path", &[("class", &"gc-line"), ("d", &path)]);
                mark(svg, entry.colour, entry.x + 9.0, middle);
            });
            let text =
                [("x", &pixels(entry.x + SWATCH) as &dyn std::fmt::Display), ("y", &baseline)];
            svg.group("text", &text, |svg| {
                svg.text("tspan", &[("class", &"gc-ink")], &entry.label);
                if !entry.note.is_empty() {
                    svg.text("tspan", &[("class", &"gc-quiet"), ("dx", &6)], &entry.note);
                }
            });
        }
    }
}

/// The mark of a curve: its shape repeats what its colour says.
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

/// What a text of the legend is about as wide as, whatever the viewer's font.
fn text_width(text: &str) -> f64 {
    console::measure_text_width(text) as f64 * CHARACTER
}

const CHARACTER: f64 = 7.0;
const SWATCH: f64 = 26.0;
const BETWEEN: f64 = 26.0;
const LINE: f64 = 22.0;
