//! Grouped bars: vertical where there is room for their values, horizontal where there is not.

use super::csv::Csv;
use super::legend::{Key, Legend, Swatch, printed};
use super::scale::{Quantity, Scale};
use super::size::Size;
use super::svg::{Medium, Svg, pixels};
use crate::text::{fitted, numbers};

/// A bar chart before it is drawn.
pub(crate) struct Bars {
    /// What the picture shows, for screen readers.
    pub(crate) description: String,
    pub(crate) y_label: String,
    pub(crate) groups: Vec<BarGroup>,
    pub(crate) base: Base,
    /// What a bar's lower and upper part are, where bars have two.
    pub(crate) parts: Option<[&'static str; 2]>,
    /// What the marks on bars are, where there are any.
    pub(crate) printed: &'static str,
}

/// Bars that are compared with each other, under one label.
pub(crate) struct BarGroup {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// An index into the colours of [`STYLE`](super::STYLE).
    pub(crate) colour: usize,
    /// The parts of its length, from the base on. Empty where there is no value and `text` says why.
    pub(crate) parts: Vec<f64>,
    /// Printed at the bar's end: its value, or why there is none.
    pub(crate) text: String,
    /// The value of a mark on the bar.
    pub(crate) printed: Option<f64>,
}

/// Where bars begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// At zero, on a linear axis. A bar several times as long as the others is cut off.
    Zero,
    /// At one, on a logarithmic axis. Bars below one point the other way.
    One,
}

/// The axis of the values, in pixels from the base of a chart.
struct Axis {
    scale: Scale,
    length: f64,
    base: f64,
}

impl Bars {
    /// The picture in a wide screen's size.
    pub(crate) fn wide(&self, size: Size) -> String {
        self.picture(Medium::Page, size)
    }

    /// The picture as a file of its own.
    pub(crate) fn standalone(&self) -> String {
        self.picture(Medium::File, Size::FILE)
    }

    /// Every bar with its length.
    pub(crate) fn csv(&self) -> String {
        let mut csv = Csv::new(&["group", "bar", &self.y_label]);
        for group in &self.groups {
            for bar in &group.bars {
                csv.line(&[&group.label, &bar.label], &[bar.height().unwrap_or(f64::NAN)]);
            }
        }
        csv.finish()
    }

    /// Whether bars can stand upright.
    pub(crate) fn fits(&self, size: Size) -> bool {
        (size.width - LEFT) / self.slots() >= SLOT_MIN
    }

    /// The picture for a phone.
    pub(crate) fn narrow(&self) -> String {
        self.lying(Medium::Page, Size::NARROW.width)
    }

    fn picture(&self, medium: Medium, size: Size) -> String {
        if self.fits(size) {
            self.upright(medium, size.width)
        } else {
            self.lying(medium, size.width)
        }
    }

    /// Widths of bars in a row, with the space between groups.
    fn slots(&self) -> f64 {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        bars as f64 + BETWEEN * self.groups.len() as f64
    }

    /// Vertical bars with their names in the legend.
    fn upright(&self, medium: Medium, wide: f64) -> String {
        let slot = ((wide - LEFT) / self.slots()).min(SLOT_MAX);
        let legend = Legend::new(self.keys(true), wide);
        let top = legend.height() + ABOVE;
        let axis = self.axis(UPRIGHT - top - BELOW);
        let bottom = UPRIGHT - BELOW;

        Svg::picture(medium, (wide, UPRIGHT), &self.description, |svg| {
            legend.draw(svg);

            let label = [("class", &"gc-quiet" as &dyn std::fmt::Display), ("x", &0)];
            svg.text("text", &[label[0], label[1], ("y", &pixels(top - 22.0))], &self.y_label);

            for tick in axis.scale.ticks(TICKS) {
                let Some(at) = axis.place(tick.value) else { continue };
                let y = bottom - at;
                let line = format!("M{} {}H{}", pixels(LEFT), pixels(y), pixels(wide));
                svg.empty("path", &[("class", &"gc-grid"), ("d", &line)]);
                text(svg, "gc-quiet", (LEFT - 8.0, y + 4.0), "end", &tick.label);
            }

            let mut x = LEFT;
            for group in &self.groups {
                let width = slot * group.bars.len() as f64;
                x += slot * BETWEEN / 2.0;

                let room = width + slot * BETWEEN;
                let label = fitted(&group.label, (room / CHARACTER) as usize);
                text(svg, "gc-ink", (x + width / 2.0, UPRIGHT - 6.0), "middle", &label);

                for bar in &group.bars {
                    bar.draw_upright(svg, &axis, (x, slot), bottom);
                    x += slot;
                }

                x += slot * BETWEEN / 2.0;
            }

            let y = bottom - axis.base;
            let line = format!("M{} {}H{}", pixels(LEFT), pixels(y), pixels(wide));
            svg.empty("path", &[("class", &"gc-axis"), ("d", &line)]);
        })
    }

    /// Horizontal bars with their names beside them.
    fn lying(&self, medium: Medium, width: f64) -> String {
        let legend = Legend::new(self.keys(false), width);
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let top = legend.height() + 8.0;
        let height = top + 20.0 + GROUP * self.groups.len() as f64 + ROW * bars as f64;
        let axis = self.axis(width - ROW_LABEL - ROW_VALUE);

        Svg::picture(medium, (width, height), &self.description, |svg| {
            legend.draw(svg);
            text(svg, "gc-quiet", (0.0, top + 12.0), "start", &self.y_label);

            let mut y = top + 20.0;
            for group in &self.groups {
                let label = fitted(&group.label, (width / CHARACTER) as usize);
                text(svg, "gc-ink", (0.0, y + 20.0), "start", &label);
                y += GROUP;

                let from = y;
                for bar in &group.bars {
                    bar.draw_lying(svg, &axis, y);
                    y += ROW;
                }

                let x = pixels(ROW_LABEL + axis.base);
                let line = format!("M{x} {}V{}", pixels(from - 2.0), pixels(y + 2.0));
                svg.empty("path", &[("class", &"gc-axis"), ("d", &line)]);
            }
        })
    }

    /// The entries of the legend. Horizontal bars have their names beside them and need no entries for those.
    fn keys(&self, names: bool) -> Vec<Key> {
        let key = |label: &str, colour, swatch| Key {
            label: label.to_owned(),
            note: String::new(),
            colour,
            swatch,
        };

        let mut keys: Vec<Key> = Vec::new();
        for bar in self.groups.iter().flat_map(|group| &group.bars).filter(|_| names) {
            if !keys.iter().any(|known| known.label == bar.label) {
                keys.push(key(&bar.label, bar.colour, Swatch::Bar));
            }
        }

        if let Some([lower, upper]) = self.parts {
            keys.push(key(lower, GREY, Swatch::Bar));
            keys.push(key(upper, GREY, Swatch::FaintBar));
        }

        let mut bars = self.groups.iter().flat_map(|group| &group.bars);
        if bars.any(|bar| bar.printed.is_some()) {
            keys.push(key(self.printed, GREY, Swatch::Printed));
        }

        keys
    }

    /// An axis that holds every bar and every mark, unless one far longer than the others would make those unreadable.
    fn axis(&self, length: f64) -> Axis {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let mut values: Vec<f64> = bars
            .flat_map(|bar| bar.height().into_iter().chain(bar.printed))
            .filter(|value| value.is_finite() && *value < FAR)
            .collect();
        values.sort_by(f64::total_cmp);

        let highest = values.last().copied().unwrap_or(1.0).max(0.0);
        match self.base {
            Base::Zero => {
                let middle = values.get(values.len() / 2).copied().unwrap_or(1.0);
                let cut = (CUT * middle).max(CUT_LEAST);
                let scale = Scale::linear(Quantity::Value, 0.0, highest.min(cut) * HEADROOM);
                Axis { scale, length, base: 0.0 }
            }
            Base::One => {
                let lowest = values.into_iter().find(|value| *value > 1.0 / FAR).unwrap_or(1.0);
                let low = lowest.min(1.0);
                let low = if low < 1.0 { low / HEADROOM } else { low };
                let scale = Scale::logarithmic(Quantity::Value, low, highest.max(1.5) * HEADROOM);
                let base = length * scale.place(1.0).unwrap_or(0.0);
                Axis { scale, length, base }
            }
        }
    }
}

impl Axis {
    /// Pixels from the low end, at most the axis' length. `None` where the value has no place.
    fn place(&self, value: f64) -> Option<f64> {
        self.scale.place(value).map(|place| place.clamp(0.0, 1.0) * self.length)
    }
}

impl Bar {
    fn height(&self) -> Option<f64> {
        (!self.parts.is_empty()).then(|| self.parts.iter().sum())
    }

    /// Shown where the pointer rests on it.
    fn title(&self) -> String {
        match self.printed {
            Some(printed) => {
                format!("{}: {}, printed {}", self.label, self.text, numbers::multiple(printed))
            }
            None => format!("{}: {}", self.label, self.text),
        }
    }

    /// Where each part begins and ends on the axis, in pixels.
    fn spans(&self, axis: &Axis) -> Vec<(f64, f64)> {
        let mut sum = 0.0;
        let mut from = axis.base;
        let mut spans = Vec::new();
        for part in &self.parts {
            sum += part;
            let to = axis.place(sum).unwrap_or(from);
            spans.push((from, to));
            from = to;
        }
        spans
    }

    /// The bar's end, in pixels: the higher one where it points down.
    fn end(&self, axis: &Axis) -> f64 {
        self.spans(axis).iter().map(|(_, to)| *to).fold(axis.base, f64::max)
    }

    fn mark(&self, axis: &Axis) -> Option<f64> {
        axis.place(self.printed?)
    }

    fn draw_upright(&self, svg: &mut Svg, axis: &Axis, (x, slot): (f64, f64), bottom: f64) {
        let middle = x + slot / 2.0;
        let width = slot * THICK;
        let class = format!("gc-{}", self.colour);

        svg.group("g", &[("class", &class)], |svg| {
            svg.text("title", &[], &self.title());
            for (part, (from, to)) in self.spans(axis).into_iter().enumerate() {
                let (left, upper) = (pixels(middle - width / 2.0), pixels(bottom - from.max(to)));
                let d = format!(
                    "M{left} {upper}h{w}v{h}h-{w}z",
                    w = pixels(width),
                    h = pixels((to - from).abs())
                );
                svg.empty("path", &[("class", &part_class(part)), ("d", &d)]);
            }
        });

        if self.parts.is_empty() {
            let above = self.mark(axis).filter(|mark| *mark < axis.base + 48.0);
            let y = bottom - above.map_or(axis.base, |mark| mark + 8.0) - 6.0;
            let (x, y) = (pixels(middle + 4.0), pixels(y));
            let turn = format!("rotate(-90 {x} {y})");

            svg.text(
                "text",
                &[("class", &"gc-missing"), ("x", &x), ("y", &y), ("transform", &turn)],
                &self.text,
            );
        } else {
            let mark = self.mark(axis).map_or(f64::MIN, |mark| mark + 8.0);
            let end = self.end(axis);
            // The text stands above the bar, and above the mark where the mark would cover it.
            let clear = if (end - 8.0..end + 26.0).contains(&mark) { mark } else { end };
            text(svg, "gc-value", (middle, bottom - clear - 5.0), "middle", &self.text);
        }

        if let Some(mark) = self.mark(axis) {
            printed(svg, middle, bottom - mark);
        }
    }

    fn draw_lying(&self, svg: &mut Svg, axis: &Axis, y: f64) {
        let label = fitted(&self.label, (ROW_LABEL / CHARACTER) as usize);
        text(svg, "gc-quiet", (ROW_LABEL - 8.0, y + 14.0), "end", &label);

        let class = format!("gc-{}", self.colour);
        svg.group("g", &[("class", &class)], |svg| {
            svg.text("title", &[], &self.title());
            for (part, (from, to)) in self.spans(axis).into_iter().enumerate() {
                let x = pixels(ROW_LABEL + from.min(to));
                let d =
                    format!("M{x} {}h{w}v13h-{w}z", pixels(y + 3.0), w = pixels((to - from).abs()));
                svg.empty("path", &[("class", &part_class(part)), ("d", &d)]);
            }
        });

        let mark = self.mark(axis);
        let end = self.end(axis);
        // The text stands beyond the bar, and beyond the mark where the mark would cover it.
        let clear = match mark {
            Some(mark) if mark + 8.0 > end && mark < end + 44.0 => mark + 8.0,
            _ => end,
        };

        let class = if self.parts.is_empty() { "gc-missing" } else { "gc-value" };
        text(svg, class, (ROW_LABEL + clear + 6.0, y + 14.0), "start", &self.text);

        if let Some(mark) = mark {
            printed(svg, ROW_LABEL + mark, y + 9.5);
        }
    }
}

fn part_class(part: usize) -> &'static str {
    if part == 0 { "gc-bar" } else { "gc-bar gc-faint" }
}

fn text(svg: &mut Svg, class: &str, (x, y): (f64, f64), anchor: &str, content: &str) {
    svg.text(
        "text",
        &[("class", &class), ("x", &pixels(x)), ("y", &pixels(y)), ("text-anchor", &anchor)],
        content,
    );
}

const UPRIGHT: f64 = 330.0;
const LEFT: f64 = 40.0;
const ABOVE: f64 = 36.0;
const BELOW: f64 = 28.0;
/// Bars narrower than this have no room for their values.
const SLOT_MIN: f64 = 32.0;
const SLOT_MAX: f64 = 64.0;
/// The space between groups, in bars.
const BETWEEN: f64 = 0.8;
const THICK: f64 = 0.82;
const ROW: f64 = 19.0;
const ROW_LABEL: f64 = 82.0;
const ROW_VALUE: f64 = 56.0;
const GROUP: f64 = 30.0;
const CHARACTER: f64 = 6.6;
const TICKS: usize = 5;
const HEADROOM: f64 = 1.08;
/// Bars longer than this many times the median are cut off.
const CUT: f64 = 6.0;
const CUT_LEAST: f64 = 1.5;
/// Larger values are not drawn.
const FAR: f64 = 1e9;
/// The colour of legend entries that hold for all bars.
const GREY: usize = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bars(base: Base, values: &[f64], printed: Option<f64>, label: &str) -> Bars {
        let bar = |value: &f64| Bar {
            label: label.to_owned(),
            colour: 0,
            parts: vec![*value / 2.0, *value / 2.0],
            text: label.to_owned(),
            printed,
        };
        Bars {
            description: label.to_owned(),
            y_label: label.to_owned(),
            groups: vec![BarGroup {
                label: label.to_owned(),
                bars: values.iter().map(bar).collect(),
            }],
            base,
            parts: Some(["a", "b"]),
            printed: "elsewhere",
        }
    }

    proptest! {
        #[test]
        fn any_values_make_a_well_formed_picture(
            values in prop::collection::vec(any::<f64>(), 0..40),
            printed in any::<Option<f64>>(),
            label in "[^N]*",
        ) {
            for base in [Base::Zero, Base::One] {
                let bars = bars(base, &values, printed, &label);
                for picture in [bars.wide(Size::WIDE), bars.narrow()] {
                    prop_assert!(roxmltree::Document::parse(&picture).is_ok(), "{picture}");
                    prop_assert!(!picture.contains("NaN"), "{picture}");
                }
            }
        }
    }

    #[test]
    fn one_bar_far_above_the_others_is_cut_off() {
        let bars = bars(Base::Zero, &[1.0, 0.5, 0.4, 900.0], None, "");
        let axis = bars.axis(100.0);
        let ends: Vec<f64> = bars.groups[0].bars.iter().map(|bar| bar.end(&axis)).collect();
        assert_eq!(ends[3], 100.0);
        assert!(ends[0] > 10.0 && ends[0] < 50.0, "{ends:?}");
    }

    #[test]
    fn a_slowdown_points_the_other_way_from_one() {
        let bars = bars(Base::One, &[0.5, 2.0], None, "");
        let axis = bars.axis(100.0);
        let spans: Vec<Vec<(f64, f64)>> =
            bars.groups[0].bars.iter().map(|bar| bar.spans(&axis)).collect();
        assert!(spans[0][1].1 < axis.base && spans[1][1].1 > axis.base);
    }
}
