//! Where curves leave a picture, because their values are outside its axis or are no numbers.

use super::scale::Scale;

/// A place at which a curve leaves the picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exit {
    /// 0 at the left end of the x axis, 1 at the right one.
    pub(super) x: f64,
    pub(super) edge: Edge,
    /// The value that lies furthest outside until the curve is back.
    pub(super) furthest: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Top,
    Bottom,
}

/// The exits of a curve, in the order of its points. What is no number leaves at the top.
pub(super) fn exits(points: &[(f64, f64)], x_scale: &Scale, y_scale: &Scale) -> Vec<Exit> {
    let mut exits: Vec<Exit> = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    let mut is_outside = None;

    for (x, value) in points {
        let Some(x) = x_scale.place(*x).filter(|x| (0.0..=1.0).contains(x)) else { continue };
        let y = y_scale.place(*value);
        let edge = match y {
            Some(y) if (0.0..=1.0).contains(&y) => None,
            Some(y) if y < 0.0 => Some(Edge::Bottom),
            // An axis of ratios has no place for what is not above zero.
            None if value.is_finite() => Some(Edge::Bottom),
            _ => Some(Edge::Top),
        };

        match edge {
            Some(edge) if is_outside == Some(edge) => {
                let exit = exits.last_mut().expect("the curve has left");
                exit.furthest = further(edge, exit.furthest, *value);
            }
            Some(edge) => {
                let at = last.zip(y).map_or(x, |(last, y)| crossing(last, (x, y), edge));
                exits.push(Exit { x: at, edge, furthest: *value });
            }
            None => {}
        }

        is_outside = edge;
        last = y.filter(|_| edge.is_none()).map(|y| (x, y));
    }
    exits
}

fn further(edge: Edge, one: f64, other: f64) -> f64 {
    match edge {
        _ if !one.is_finite() || !other.is_finite() => f64::NAN,
        Edge::Top => one.max(other),
        Edge::Bottom => one.min(other),
    }
}

/// Where the line between a point inside and one outside crosses an edge.
fn crossing((x0, y0): (f64, f64), (x1, y1): (f64, f64), edge: Edge) -> f64 {
    let height = if edge == Edge::Top { 1.0 } else { 0.0 };
    let share = (height - y0) / (y1 - y0);
    if share.is_finite() { x0 + (x1 - x0) * share.clamp(0.0, 1.0) } else { x1 }
}

#[cfg(test)]
mod tests {
    use super::super::scale::Quantity;
    use super::*;

    #[test]
    fn a_curve_leaves_where_its_line_crosses_the_edge() {
        let x = Scale::linear(Quantity::Seconds, 0.0, 10.0);
        let y = Scale::linear(Quantity::Value, 0.0, 2.0);
        let check = |points: &[(f64, f64)], expect: &[(f64, Edge, f64)]| {
            let found: Vec<(f64, Edge, f64)> = exits(points, &x, &y)
                .iter()
                .map(|exit| (exit.x, exit.edge, exit.furthest))
                .collect();
            assert_eq!(found, expect, "{points:?}");
        };

        check(&[(0.0, 1.0), (10.0, 2.0)], &[]);
        check(&[(0.0, 1.0), (10.0, 3.0)], &[(0.5, Edge::Top, 3.0)]);
        check(
            &[(0.0, 9.0), (5.0, 1.0), (10.0, -1.0)],
            &[(0.0, Edge::Top, 9.0), (0.75, Edge::Bottom, -1.0)],
        );
        check(&[(0.0, 2.0), (5.0, 5.0), (6.0, 7.0), (8.0, 6.0)], &[(0.0, Edge::Top, 7.0)]);
    }

    #[test]
    fn what_is_no_number_leaves_at_the_top() {
        let x = Scale::linear(Quantity::Seconds, 0.0, 10.0);
        let y = Scale::logarithmic(Quantity::Value, 1.0, 100.0);
        let found = exits(&[(0.0, 10.0), (5.0, f64::NAN), (10.0, f64::INFINITY)], &x, &y);
        assert_eq!((found.len(), found[0].x, found[0].edge), (1, 0.5, Edge::Top));
        assert!(found[0].furthest.is_nan());
        assert_eq!(exits(&[(5.0, -1.0)], &x, &y)[0].edge, Edge::Bottom);
    }
}
