//! Curves over time or over bytes, with a target.

use std::fmt::Write as _;

use super::csv::Csv;
use super::curve::Curve;
use super::exits::{Edge, exits};
use super::legend::{Legend, keys_of, mark};
use super::range::{extent, shown};
use super::scale::{Quantity, Scale};
use super::size::Size;
use super::svg::{Medium, Svg, pixels};
use super::{places, values};
use crate::text::{fitted, numbers};

/// A chart before it is drawn.
pub(crate) struct Plot {
    /// What the picture shows, for screen readers.
    pub(crate) description: String,
    pub(crate) x: Quantity,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) curves: Vec<Curve>,
    pub(crate) trend: Trend,
    pub(crate) x_spacing: Spacing,
    pub(crate) y_spacing: Spacing,
    /// A dashed line at this height.
    pub(crate) target: Option<f64>,
}

/// Which way the values are expected to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trend {
    /// Down: values above the start of the curves are cut off, and a large range is drawn on a logarithmic axis.
    Falling,
    /// Up or down: values far outside the others are cut off.
    Either,
    /// Anywhere: all values are shown.
    Whole,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// Linear or logarithmic, whichever suits the values.
    #[default]
    Fitting,
    Linear,
    /// Where the values are above zero; linear otherwise.
    Logarithmic,
}

/// The part of the picture inside the axes, with its scales.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

impl Plot {
    /// The picture as a file of its own.
    pub(crate) fn standalone(&self) -> String {
        self.picture(Medium::File, Size::FILE)
    }

    /// The picture as part of a page that carries [`STYLE`](super::STYLE).
    pub(crate) fn inline(&self, size: Size) -> String {
        self.picture(Medium::Page, size)
    }

    fn picture(&self, medium: Medium, size: Size) -> String {
        let inside = (size.width, size.height);
        Svg::picture(medium, inside, &self.description, |svg| self.draw(svg, size))
    }

    /// Every point of every curve, in the units of the records: seconds, bytes and values.
    pub(crate) fn csv(&self) -> String {
        let unit = match self.x {
            Quantity::Seconds => " (s)",
            Quantity::Bytes => " (bytes)",
            Quantity::Value => "",
        };
        let mut csv = Csv::new(&["curve", &format!("{}{unit}", self.x_label), &self.y_label]);
        for curve in &self.curves {
            for (x, y) in &curve.points {
                csv.line(&[&curve.label], &[*x, *y]);
            }
        }
        csv.finish()
    }

    /// How the two axes are divided once the values are known. `None` where there is nothing to draw.
    pub(crate) fn spacings(&self) -> Option<(Spacing, Spacing)> {
        let spacing = |scale: Scale| match scale.is_logarithmic() {
            true => Spacing::Logarithmic,
            false => Spacing::Linear,
        };
        Some((spacing(self.x_scale()?), spacing(self.y_scale()?)))
    }

    fn draw(&self, svg: &mut Svg, size: Size) {
        let shown = self.curves.iter().filter(|curve| curve.shows());
        let legend = Legend::new(shown.flat_map(keys_of), size.width);
        legend.draw(svg);

        let (Some(x), Some(y)) = (self.x_scale(), self.y_scale()) else {
            let middle = [("x", &LEFT as &dyn std::fmt::Display), ("y", &(size.height / 2.0))];
            svg.group("text", &middle, |svg| {
                svg.text("tspan", &[("class", &"gc-quiet")], "Nothing to draw yet");
            });
            return;
        };

        let top = legend.height() + ABOVE;
        let frame = Frame {
            left: LEFT,
            top,
            width: size.width - LEFT - RIGHT,
            height: size.height - top - BELOW,
            x,
            y,
        };

        self.draw_y_axis(svg, &frame);
        self.draw_x_axis(svg, &frame, size);
        self.draw_curves(svg, &frame);
        self.draw_target(svg, &frame);
        if size.has_pointer {
            self.draw_values(svg, &frame);
        }
        self.draw_exits(svg, &frame);
        self.draw_marks(svg, &frame);
    }

    fn draw_y_axis(&self, svg: &mut Svg, frame: &Frame) {
        let right = frame.left + frame.width;
        let bottom = frame.top + frame.height;
        svg.text(
            "text",
            &[("class", &"gc-quiet"), ("x", &0), ("y", &pixels(frame.top - 14.0))],
            &fitted(&self.y_label, (right / CHARACTER) as usize),
        );

        for tick in frame.y.ticks(Y_TICKS) {
            let Some(place) = frame.y.place(tick.value) else { continue };
            let y = bottom - place * frame.height;
            let path = format!("M{} {}H{}", pixels(frame.left), pixels(y), pixels(right));

            svg.empty("path", &[("class", &"gc-grid"), ("d", &path)]);
            svg.text(
                "text",
                &[
                    ("class", &"gc-quiet"),
                    ("x", &pixels(frame.left - 8.0)),
                    ("y", &pixels(y + 4.0)),
                    ("text-anchor", &"end"),
                ],
                &tick.label,
            );
        }
    }

    fn draw_x_axis(&self, svg: &mut Svg, frame: &Frame, size: Size) {
        let right = frame.left + frame.width;
        let bottom = frame.top + frame.height;
        let mut axis = format!("M{} {}H{}", pixels(frame.left), pixels(bottom), pixels(right));
        for tick in frame.x.ticks(size.x_ticks) {
            let Some(place) = frame.x.place(tick.value) else { continue };
            let x = frame.left + place * frame.width;
            let _ = write!(axis, "M{} {}v5", pixels(x), pixels(bottom));

            let half = tick.label.chars().count() as f64 * CHARACTER / 2.0;
            svg.text(
                "text",
                &[
                    ("class", &"gc-quiet"),
                    ("x", &pixels(x.min(size.width - half))),
                    ("y", &pixels(bottom + 19.0)),
                    ("text-anchor", &"middle"),
                ],
                &tick.label,
            );
        }

        svg.empty("path", &[("class", &"gc-axis"), ("d", &axis)]);

        let unit = match frame.x.unit() {
            "" => self.x_label.clone(),
            unit => format!("{} ({unit})", self.x_label),
        };
        svg.text(
            "text",
            &[
                ("class", &"gc-quiet"),
                ("x", &pixels(right)),
                ("y", &pixels(bottom + 38.0)),
                ("text-anchor", &"end"),
            ],
            &unit,
        );
    }

    /// Curves may leave the frame; a nested picture cuts them off. The first curve lies on top.
    fn draw_curves(&self, svg: &mut Svg, frame: &Frame) {
        let inside: [(&str, &dyn std::fmt::Display); 4] = [
            ("x", &pixels(frame.left)),
            ("y", &pixels(frame.top)),
            ("width", &pixels(frame.width)),
            ("height", &pixels(frame.height)),
        ];
        svg.group("svg", &inside, |svg| {
            for curve in self.curves.iter().rev() {
                let class = format!("gc-{}", curve.colour);
                svg.group("g", &[("class", &class)], |svg| {
                    if let Some(band) = band_path(curve, frame) {
                        svg.empty("path", &[("class", &"gc-band"), ("d", &band)]);
                    }
                    let line = line_path(&curve.points, frame);
                    svg.empty("path", &[("class", &"gc-line"), ("d", &line)]);
                });
            }
        });
    }

    /// The first curve's spots lie on top, as its line does.
    fn draw_values(&self, svg: &mut Svg, frame: &Frame) {
        for curve in self.curves.iter().rev() {
            let class = format!("gc-{}", curve.colour);
            svg.group("g", &[("class", &class)], |svg| {
                values::draw(svg, curve, self.x, |point| {
                    let (x, y) = frame.place(point)?;
                    let is_inside =
                        (0.0..=frame.width).contains(&x) && (0.0..=frame.height).contains(&y);
                    is_inside.then_some((frame.left + x, frame.top + y))
                });
            });
        }
    }

    /// Arrows on the edges where curves leave the frame, with a title that says how far they go.
    fn draw_exits(&self, svg: &mut Svg, frame: &Frame) {
        for edge in [Edge::Top, Edge::Bottom] {
            let mut arrows = Vec::new();
            for curve in &self.curves {
                let found = exits(&curve.points, &frame.x, &frame.y).into_iter();
                let found = found.filter(|exit| exit.edge == edge).take(EXITS_MAX);
                arrows.extend(found.map(|exit| (exit.x * frame.width, exit.furthest, curve)));
            }

            arrows.sort_by(|one, other| one.0.total_cmp(&other.0));
            let along: Vec<f64> = arrows.iter().map(|(x, _, _)| *x).collect();
            let (y, arrow, way) = match edge {
                Edge::Top => (frame.top + 1.0, "m0-1l5 9h-10z", "up"),
                Edge::Bottom => (frame.top + frame.height - 1.0, "m0 1l5-9h-10z", "down"),
            };

            for (x, (_, furthest, curve)) in places::along(&along, frame.width).iter().zip(arrows) {
                let d = format!("M{} {}{arrow}", pixels(frame.left + x), pixels(y));
                let to = numbers::objective(furthest);
                let class = format!("gc-exit gc-mark gc-{}", curve.colour);
                svg.group("path", &[("class", &class), ("d", &d)], |svg| {
                    svg.text(
                        "title",
                        &[],
                        &format!("{} leaves the picture: {way} to {to}", curve.label),
                    );
                });
            }
        }
    }

    /// Marks that would hide each other stand apart, each with a line to its point.
    fn draw_marks(&self, svg: &mut Svg, frame: &Frame) {
        let (mut marks, mut points) = (Vec::new(), Vec::new());
        for curve in &self.curves {
            for point in curve.marks() {
                if let Some(place) = frame.place(*point) {
                    marks.push((curve, *point));
                    points.push(place);
                }
            }
        }

        let apart = places::apart(&points, frame.height);
        for (((curve, (x, value)), point), place) in marks.iter().zip(points).zip(apart).rev() {
            let class = format!("gc-{}", curve.colour);
            svg.group("g", &[("class", &class)], |svg| {
                svg.text("title", &[], &values::title(&curve.label, *value, *x, self.x));
                if point != place {
                    let [from, to] = [point, place].map(|(x, y)| {
                        format!("{} {}", pixels(frame.left + x), pixels(frame.top + y))
                    });
                    svg.empty("path", &[("class", &"gc-leader"), ("d", &format!("M{from}L{to}"))]);
                }
                mark(svg, curve.colour, frame.left + place.0, frame.top + place.1);
            });
        }
    }

    /// The label stands under the line at the left, where curves are still high above it.
    fn draw_target(&self, svg: &mut Svg, frame: &Frame) {
        let Some(target) = self.target else { return };
        let Some(place) = frame.y.place(target) else { return };
        let y = frame.top + (1.0 - place) * frame.height;
        let path = format!("M{} {}h{}", pixels(frame.left), pixels(y), pixels(frame.width));
        svg.empty("path", &[("class", &"gc-target"), ("d", &path)]);
        svg.text(
            "text",
            &[("class", &"gc-quiet"), ("x", &pixels(frame.left + 8.0)), ("y", &pixels(y + 15.0))],
            &format!("target {}", numbers::target(target)),
        );
    }

    /// From zero to the end of the longest curve; logarithmic where the shortest curve would be too narrow to read.
    fn x_scale(&self) -> Option<Scale> {
        let ends = self.curves.iter().filter_map(|curve| {
            curve.points.iter().map(|(x, _)| *x).filter(|x| x.abs() < FAR).reduce(f64::max)
        });
        let (shortest, longest) = extent(ends)?;
        // A run without an evaluation has its initial model alone, at zero.
        let longest = if longest > 1e-9 { longest } else { self.x.some() };
        let uneven = shortest > 0.0 && longest / shortest > SLIVER;
        if self.x_spacing.is_logarithmic(uneven) {
            let positive = self.curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x);
            let (first, _) = extent(positive.filter(|x| *x > 0.0)).unwrap_or((longest, longest));
            Some(Scale::logarithmic(self.x, first.max(longest / 1e5).min(longest), longest))
        } else {
            Some(Scale::linear(self.x, 0.0, longest))
        }
    }

    /// Around the values and the target, with room for its label below.
    fn y_scale(&self) -> Option<Scale> {
        let drawable = |curve: &Curve| -> Vec<f64> {
            curve.points.iter().map(|(_, y)| *y).filter(|y| y.abs() < FAR).collect()
        };

        let values: Vec<Vec<f64>> = self.curves.iter().map(drawable).collect();
        let target = self.target.filter(|target| target.abs() < FAR);
        let (low, high) = match shown(&values, target, self.trend)? {
            (low, high) if low < high => (low, high),
            // What does not change lies in the middle, not on the x axis.
            (only, _) => around(only),
        };
        let steep = self.trend == Trend::Falling && high / low > STEEP;

        if low > 0.0 && self.y_spacing.is_logarithmic(steep) {
            let low = low.max(high / 1e9);
            let room = (high / low).powf(0.15);
            Some(Scale::logarithmic(Quantity::Value, low / room, high * room.cbrt()))
        } else {
            let room = 0.15 * (high - low);
            Some(Scale::linear(Quantity::Value, low - room, high + room / 3.0))
        }
    }
}

impl Spacing {
    fn is_logarithmic(self, fits: bool) -> bool {
        match self {
            Self::Fitting => fits,
            Self::Linear => false,
            Self::Logarithmic => true,
        }
    }
}

impl Frame {
    /// Pixels from the frame's upper left corner.
    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        // An axis of ratios has no place for zero, where every curve begins: that is its left end.
        let x = self.x.place(x).or_else(|| (x == 0.0).then_some(0.0))?;
        let y = self.y.place(y)?;
        Some((x * self.width, (1.0 - y.clamp(-20.0, 20.0)) * self.height))
    }
}

/// The range around a value that is alone.
fn around(value: f64) -> (f64, f64) {
    let reach = if value == 0.0 { 0.5 } else { 0.5 * value.abs() };
    (value - reach, value + reach)
}

/// A line through the points, broken where a value is missing.
fn line_path(points: &[(f64, f64)], frame: &Frame) -> String {
    let mut path = String::new();
    let mut joined = false;
    for place in thinned(points, frame) {
        match place {
            Some((x, y)) => {
                let verb = if joined { 'L' } else { 'M' };
                let _ = write!(path, "{verb}{} {}", pixels(x), pixels(y));
                joined = true;
            }
            None => joined = false,
        }
    }
    path
}

/// The area between the band's edges. `None` where the curve has no band.
fn band_path(curve: &Curve, frame: &Frame) -> Option<String> {
    if curve.band.len() != curve.points.len() {
        return None;
    }
    let edge = |pick: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
        let points = curve.points.iter().zip(&curve.band).map(|((x, _), band)| (*x, pick(band)));
        let points: Vec<(f64, f64)> = points.collect();
        thinned(&points, frame).into_iter().flatten().collect()
    };
    let (low, high) = (edge(|band| band.0), edge(|band| band.1));
    let mut path = String::new();
    for (at, (x, y)) in high.iter().chain(low.iter().rev()).enumerate() {
        let verb = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{} {}", pixels(*x), pixels(*y));
    }
    (!path.is_empty()).then(|| path + "z")
}

/// The points in pixels. Of those that share a column of pixels only the first, the lowest, the highest and the
/// last are kept, which draw the same line.
fn thinned(points: &[(f64, f64)], frame: &Frame) -> Vec<Option<(f64, f64)>> {
    let places: Vec<Option<(f64, f64)>> = points.iter().map(|point| frame.place(*point)).collect();
    let column = |place: &Option<(f64, f64)>| place.map(|(x, _)| x.floor() as i64);
    let mut kept = Vec::new();
    for group in places.chunk_by(|a, b| column(a) == column(b)) {
        let height = |at: &usize| group[*at].map_or(0.0, |(_, y)| y);
        let lowest = (0..group.len()).min_by(|a, b| height(a).total_cmp(&height(b)));
        let highest = (0..group.len()).max_by(|a, b| height(a).total_cmp(&height(b)));
        let mut picks = vec![0, group.len() - 1];
        picks.extend(lowest.into_iter().chain(highest));
        picks.sort_unstable();
        picks.dedup();
        kept.extend(picks.into_iter().map(|at| group[at]));
    }
    kept
}

const LEFT: f64 = 52.0;
const RIGHT: f64 = 20.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 44.0;
const Y_TICKS: usize = 6;
/// About how wide a character of a tick's label is.
const CHARACTER: f64 = 7.0;
/// Larger values are not drawn.
const FAR: f64 = 1e100;
/// Where the longest curve is this many times the shortest, the x axis is logarithmic.
const SLIVER: f64 = 20.0;
/// Where the highest value is this many times the lowest, the y axis is logarithmic.
const STEEP: f64 = 8.0;
/// A curve that leaves the picture more often has no more arrows.
const EXITS_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_points_make_a_well_formed_picture(
            points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..40),
            target in any::<Option<f64>>(),
            label in any::<String>(),
            spacing in prop::sample::select(vec![Spacing::Fitting, Spacing::Linear, Spacing::Logarithmic]),
        ) {
            let curve = Curve {
                band: points.iter().map(|(_, y)| (y - 1.0, *y)).collect(),
                band_label: "range",
                marked: points.last().copied().into_iter().collect(),
                points,
                label: label.clone(),
                note: label.clone(),
                colour: 0,
            };

            let plot = Plot {
                description: label.clone(),
                x: Quantity::Seconds,
                x_label: label.clone(),
                y_label: label,
                trend: if target.is_some() { Trend::Falling } else { Trend::Either },
                x_spacing: spacing,
                y_spacing: spacing,
                curves: vec![curve],
                target,
            };

            for picture in [plot.standalone(), plot.inline(Size::NARROW)] {
                prop_assert!(roxmltree::Document::parse(&picture).is_ok(), "{picture}");
                prop_assert!(!picture.contains("NaN") || plot.description.contains("NaN"));
            }
        }
    }

    fn plot(trend: Trend, values: &[f64]) -> Plot {
        let curve = Curve {
            label: String::new(),
            note: String::new(),
            colour: 0,
            points: values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect(),
            band: Vec::new(),
            band_label: "",
            marked: Vec::new(),
        };
        Plot {
            description: String::new(),
            x: Quantity::Seconds,
            x_label: String::new(),
            y_label: String::new(),
            trend,
            x_spacing: Spacing::Fitting,
            y_spacing: Spacing::Fitting,
            curves: vec![curve],
            target: None,
        }
    }

    #[test]
    fn an_accuracy_that_rises_from_chance_stays_inside() {
        let scale = plot(Trend::Either, &[0.1, 0.6, 0.95]).y_scale().unwrap();
        assert!(scale.place(0.95).unwrap() < 1.0);
        let middle = scale.place(0.525).unwrap() - scale.place(0.1).unwrap();
        let whole = scale.place(0.95).unwrap() - scale.place(0.1).unwrap();
        assert!((middle / whole - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_does_not_change_lies_in_the_middle() {
        for value in [0.0, 0.5, -3.0, 1e9] {
            let mut plot = plot(Trend::Falling, &[value; 3]);
            for spacing in [Spacing::Fitting, Spacing::Logarithmic] {
                plot.y_spacing = spacing;
                let place = plot.y_scale().unwrap().place(value).unwrap();
                assert!((0.3..0.8).contains(&place), "{value} at {place}");
            }
        }
    }

    #[test]
    fn an_objective_that_diverges_leaves_the_picture_at_the_top() {
        let scale = plot(Trend::Falling, &[1.6, 0.9, 40.0, 1e30, f64::NAN]).y_scale().unwrap();
        assert!(scale.place(1e30).unwrap() > 1.0);
        assert!(scale.place(1.6).unwrap() < 1.0);
        let picture = plot(Trend::Falling, &[1.6, 0.9, 40.0, 1e30, f64::NAN]).inline(Size::NARROW);
        assert_eq!(picture.matches("gc-exit").count(), 1);
        assert!(picture.contains("leaves the picture: up to not finite"), "{picture}");
    }

    #[test]
    fn curves_without_a_value_have_no_legend() {
        let mut plot = plot(Trend::Falling, &[2.0, 1.0]);
        plot.curves[0].label = "asp".into();
        let none =
            Curve { label: "tap".into(), points: vec![(0.0, f64::NAN)], ..plot.curves[0].clone() };
        plot.curves.push(none);
        let picture = plot.inline(Size::NARROW);
        assert!(picture.contains(">asp<") && !picture.contains(">tap<"), "{picture}");
    }

    #[test]
    fn values_are_titles_where_there_is_a_pointer() {
        let mut plot = plot(Trend::Falling, &[2.0, 1.0]);
        plot.curves[0].label = "asp".into();
        assert!(plot.inline(Size::WIDE).contains("<title>asp: 1.000 at 1.00 s</title>"));
        assert!(!plot.inline(Size::NARROW).contains("gc-spot"));
    }

    #[test]
    fn marks_at_one_point_both_show() {
        let mut plot = plot(Trend::Falling, &[2.0, 1.0]);
        plot.curves[0].marked = vec![(1.0, 1.0)];
        plot.curves.push(plot.curves[0].clone());
        let picture = plot.inline(Size::NARROW);
        assert_eq!(picture.matches("gc-leader").count(), 1, "{picture}");
    }

    #[test]
    fn a_curve_begins_at_the_left_end_of_an_axis_of_ratios() {
        let mut plot = plot(Trend::Falling, &[2.0, 1.0, 0.5]);
        plot.x_spacing = Spacing::Logarithmic;
        let picture = plot.inline(Size::NARROW);
        let line = picture.split("gc-line\" d=\"M").last().unwrap();
        assert!(line.starts_with("0 "), "{line}");
    }

    #[test]
    fn a_label_at_the_end_of_the_axis_is_inside_the_picture() {
        let mut plot = plot(Trend::Falling, &[2.0, 1.0]);
        plot.x_spacing = Spacing::Logarithmic;
        plot.curves[0].points = vec![(1.0, 2.0), (10_000.0, 1.0)];
        let picture = plot.inline(Size::NARROW);
        let (before, _) = picture.split_once(">10,000 s<").expect(&picture);
        let (_, x) = before.rsplit_once(" x=\"").unwrap();
        let x: f64 = x.split_once('"').unwrap().0.parse().unwrap();
        assert!(x + 0.5 * 8.0 * CHARACTER <= Size::NARROW.width, "{x}");
    }

    #[test]
    fn a_point_that_is_alone_is_a_mark_over_an_axis_of_round_numbers() {
        for x in [Quantity::Seconds, Quantity::Bytes] {
            let picture = Plot { x, ..plot(Trend::Falling, &[1.6]) }.inline(Size::NARROW);
            let marks = picture.split("class=\"gc-axis\"").nth(1).unwrap();
            assert_eq!(marks.matches("gc-mark").count(), 1, "{picture}");
            assert!(picture.contains(">0.5<"), "{picture}");
        }
    }

    #[test]
    fn ten_thousand_points_draw_as_a_line_of_a_few_thousand() {
        let values: Vec<f64> = (0..10_000).map(|at| (f64::from(at) / 50.0).sin()).collect();
        assert!(plot(Trend::Either, &values).inline(Size::WIDE).len() < 60_000);
    }
}
