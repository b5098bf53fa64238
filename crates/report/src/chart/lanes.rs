//! Lanes over one time axis: bars in each lane whose heights are amounts and whose parts are their causes.

use std::collections::BTreeSet;

use super::csv::Csv;
use super::scale::{Quantity, Scale};
use super::size::Size;
use super::svg::{Medium, Svg, pixels};
use crate::text::fitted;

/// Lanes before they are drawn.
pub(crate) struct Lanes {
    /// What the picture shows, for screen readers.
    pub(crate) description: String,
    pub(crate) x_label: String,
    /// Above the lanes: what the height of a lane stands for.
    pub(crate) heading: String,
    pub(crate) lanes: Vec<Lane>,
    /// The right end of the axis, in seconds.
    pub(crate) end_s: f64,
    /// The amount that fills a lane.
    pub(crate) highest: f64,
}

pub(crate) struct Lane {
    pub(crate) label: String,
    pub(crate) bars: Vec<LaneBar>,
}

/// A bar over a part of the time.
pub(crate) struct LaneBar {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Amounts with the classes that colour them, from the bottom up.
    pub(crate) parts: Vec<(&'static str, f64)>,
    /// Shown where the pointer rests on it.
    pub(crate) title: String,
}

impl Lanes {
    /// Every part of every bar.
    pub(crate) fn csv(&self) -> String {
        let mut csv = Csv::new(&["lane", "part", "from (s)", "to (s)", "workers held back"]);
        for lane in &self.lanes {
            for bar in &lane.bars {
                for (part, amount) in &bar.parts {
                    csv.line(&[&lane.label, name(part)], &[bar.from_s, bar.to_s, *amount]);
                }
            }
        }
        csv.finish()
    }

    /// The picture as a file of its own.
    pub(crate) fn standalone(&self) -> String {
        self.picture(Medium::File, Size::FILE)
    }

    /// The picture as part of a page that carries [`STYLE`](super::STYLE).
    pub(crate) fn inline(&self, size: Size) -> String {
        self.picture(Medium::Page, size)
    }

    fn picture(&self, medium: Medium, size: Size) -> String {
        let lanes = TOP + LANE * self.lanes.len() as f64;
        let width = size.width - LEFT - RIGHT;
        // A page lists what the colours mean beside the picture.
        let legend = match medium {
            Medium::Page => 0.0,
            Medium::File => LEGEND,
        };
        let height = lanes + BELOW + legend;
        let x = Scale::linear(Quantity::Seconds, 0.0, self.end_s);
        Svg::picture(medium, (size.width, height), &self.description, |svg| {
            text(svg, (0.0, 12.0), "start", &self.heading);
            for (at, lane) in self.lanes.iter().enumerate() {
                let bottom = TOP + LANE * (at + 1) as f64 - BETWEEN;
                self.draw_lane(svg, lane, &x, width, bottom, size.has_pointer);
            }

            for tick in x.ticks(size.x_ticks) {
                let Some(place) = x.place(tick.value) else { continue };
                text(svg, (LEFT + place * width, lanes + 14.0), "middle", &tick.label);
            }
            let unit = format!("{} ({})", self.x_label, x.unit());
            text(svg, (LEFT + width, lanes + 32.0), "end", &unit);
            if legend > 0.0 {
                self.draw_legend(svg, height - 6.0);
            }
        })
    }

    fn draw_legend(&self, svg: &mut Svg, y: f64) {
        let parts = self.lanes.iter().flat_map(|lane| &lane.bars).flat_map(|bar| &bar.parts);
        let classes: BTreeSet<&str> = parts.map(|(class, _)| *class).collect();
        let mut x = LEFT;
        for class in classes {
            let d = format!("M{} {}h12v12h-12z", pixels(x), pixels(y - 11.0));
            svg.empty("path", &[("class", &class), ("d", &d)]);
            text(svg, (x + 18.0, y), "start", name(class));
            x += 42.0 + CHARACTER * name(class).len() as f64;
        }
    }

    fn draw_lane(
        &self,
        svg: &mut Svg,
        lane: &Lane,
        x: &Scale,
        width: f64,
        bottom: f64,
        has_titles: bool,
    ) {
        let label = fitted(&lane.label, (LEFT / CHARACTER) as usize);
        text(svg, (LEFT - 8.0, bottom - 8.0), "end", &label);
        let line = format!("M{} {}h{}", pixels(LEFT), pixels(bottom), pixels(width));
        svg.empty("path", &[("class", &"gc-axis"), ("d", &line)]);

        for bar in &lane.bars {
            let place = |time_s: f64| LEFT + x.place(time_s).unwrap_or(0.0).clamp(0.0, 1.0) * width;
            let (left, right) = (place(bar.from_s), place(bar.to_s));
            svg.group("g", &[], |svg| {
                if has_titles {
                    svg.text("title", &[], &bar.title);
                }
                let mut y = bottom;
                for (class, amount) in &bar.parts {
                    let share = (amount / self.highest).clamp(0.0, 1.0);
                    let tall = if share.is_finite() { share * (LANE - BETWEEN) } else { 0.0 };
                    y -= tall;
                    let d = format!(
                        "M{} {}h{w}v{h}h-{w}z",
                        pixels(left),
                        pixels(y),
                        w = pixels((right - left).max(0.5)),
                        h = pixels(tall),
                    );
                    svg.empty("path", &[("class", class), ("d", &d)]);
                }
            });
        }
    }
}

/// The name of a part, by the class that colours it.
fn name(class: &str) -> &str {
    class.trim_start_matches("c-")
}

fn text(svg: &mut Svg, (x, y): (f64, f64), anchor: &str, content: &str) {
    svg.text(
        "text",
        &[("class", &"gc-quiet"), ("x", &pixels(x)), ("y", &pixels(y)), ("text-anchor", &anchor)],
        content,
    );
}

const LEFT: f64 = 92.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 24.0;
const LANE: f64 = 40.0;
const BETWEEN: f64 = 10.0;
const BELOW: f64 = 38.0;
const LEGEND: f64 = 24.0;
const CHARACTER: f64 = 7.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_amounts_make_a_well_formed_picture(
            amounts in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20),
            label in "[^N]*",
            end_s in 0.0..1e9_f64,
            highest in any::<f64>(),
        ) {
            let bar = |(from_s, amount): &(f64, f64)| LaneBar {
                from_s: *from_s,
                to_s: from_s + 1.0,
                parts: vec![("c-local", *amount)],
                title: label.clone(),
            };
            let lane = Lane { label: label.clone(), bars: amounts.iter().map(bar).collect() };
            let lanes = Lanes {
                description: label.clone(),
                x_label: label.clone(),
                heading: label.clone(),
                lanes: vec![lane],
                end_s,
                highest,
            };
            for size in [Size::WIDE, Size::NARROW] {
                let picture = lanes.inline(size);
                prop_assert!(roxmltree::Document::parse(&picture).is_ok(), "{picture}");
                prop_assert!(!picture.contains("NaN"), "{picture}");
            }
        }
    }
}
