//! The values of a curve, shown where the pointer rests on it. No script is needed: each is the title of a spot.

use std::fmt::Display;

use super::curve::Curve;
use super::scale::Quantity;
use super::svg::{Svg, pixels};
use crate::text::numbers;

/// Draws the spots of a curve. `place` says where a point lies in the picture, if it is inside.
pub(super) fn draw(
    svg: &mut Svg,
    curve: &Curve,
    x: Quantity,
    place: impl Fn((f64, f64)) -> Option<(f64, f64)>,
) {
    let inside: Vec<(usize, (f64, f64))> = curve
        .points
        .iter()
        .enumerate()
        .filter_map(|(at, point)| Some((at, place(*point)?)))
        .collect();

    for at in evenly(inside.len()) {
        let (point, (left, top)) = inside[at];
        let spot: [(&str, &dyn Display); 4] =
            [("class", &"gc-spot"), ("cx", &pixels(left)), ("cy", &pixels(top)), ("r", &"5")];
        svg.group("circle", &spot, |svg| svg.text("title", &[], &titled(curve, point, x)));
    }
}

/// The title of a point, with the range that it summarises.
fn titled(curve: &Curve, point: usize, x: Quantity) -> String {
    let (at, value) = curve.points[point];
    let title = title(&curve.label, value, at, x);
    match curve.band.get(point) {
        Some((low, high)) if low < high => {
            format!("{title}, from {} to {}", numbers::objective(*low), numbers::objective(*high))
        }
        _ => title,
    }
}

/// `asp: 0.7312 at 12.4 s`
pub(super) fn title(label: &str, value: f64, at: f64, x: Quantity) -> String {
    let at = match x {
        Quantity::Seconds => numbers::seconds(at),
        Quantity::Bytes => numbers::bytes(at.max(0.0) as u64),
        Quantity::Value => numbers::objective(at),
    };
    format!("{label}: {} at {at}", numbers::objective(value))
}

/// At most so many of `all` places, the first and the last among them.
fn evenly(all: usize) -> Vec<usize> {
    let wanted = all.min(SPOTS_MAX);
    let last = wanted.saturating_sub(1).max(1);
    (0..wanted).map(|at| at * (all - 1) / last).collect()
}

/// More would make a page of many curves slow, and are too close to point at.
const SPOTS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_spots_stand_for_many_points() {
        assert_eq!(evenly(0), [0; 0]);
        assert_eq!(evenly(1), [0]);
        assert_eq!(evenly(3), [0, 1, 2]);
        let many = evenly(10_000);
        assert_eq!((many.len(), many[0], many[SPOTS_MAX - 1]), (SPOTS_MAX, 0, 9_999));
    }

    #[test]
    fn a_spot_says_what_was_reached_and_when() {
        let curve = Curve {
            label: "asp".into(),
            note: String::new(),
            colour: 0,
            points: vec![(0.0, 1.5), (12.4, 0.731_24)],
            band: vec![(1.5, 1.5), (0.7, 0.75)],
            band_label: "",
            marked: Vec::new(),
        };
        assert_eq!(titled(&curve, 0, Quantity::Seconds), "asp: 1.500 at 0 s");
        assert_eq!(
            titled(&curve, 1, Quantity::Bytes),
            "asp: 0.7312 at 12 B, from 0.7000 to 0.7500"
        );
    }
}
