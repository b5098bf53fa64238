//! A curve over several seeds: the median of the curves, and the area between the lowest and the highest.

use super::spread::median;

/// The median of several curves, with their range at each of its points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    pub(crate) points: Vec<(f64, f64)>,
    /// The lowest and the highest value at each point.
    pub(crate) range: Vec<(f64, f64)>,
}

/// The band over curves whose points are in ascending order of x.
///
/// Between two points a curve is a straight line. Before its first point and after its last it keeps its value, so
/// that a run that has ended at the target still counts.
pub(crate) fn band(curves: &[Vec<(f64, f64)>]) -> Band {
    let curves: Vec<&Vec<(f64, f64)>> = curves.iter().filter(|curve| !curve.is_empty()).collect();
    let places = places(&curves);

    let mut band = Band { points: Vec::new(), range: Vec::new() };
    for x in places {
        let mut values: Vec<f64> = curves.iter().map(|curve| at(curve, x)).collect();
        values.sort_by(f64::total_cmp);
        band.points.push((x, median(&values)));
        band.range.push((values[0], values[values.len() - 1]));
    }
    band
}

/// Where the band has points: at those of the curves, or at evenly chosen ones of them if there are many.
fn places(curves: &[&Vec<(f64, f64)>]) -> Vec<f64> {
    let mut places: Vec<f64> =
        curves.iter().flat_map(|curve| curve.iter().map(|(x, _)| *x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let all = places.len();
    if all <= POINTS_MAX {
        return places;
    }
    (0..POINTS_MAX).map(|at| places[at * (all - 1) / (POINTS_MAX - 1)]).collect()
}

/// The value of a curve with at least one point.
fn at(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.partition_point(|(there, _)| *there < x);
    let before = after.checked_sub(1).map(|before| curve[before]);
    match (before, curve.get(after).copied()) {
        (_, Some((there, value))) if there == x => value,
        (None, Some((_, value))) | (Some((_, value)), None) => value,
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (None, None) => f64::NAN,
    }
}

const POINTS_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_has_ended_keeps_its_last_value() {
        let curves = [
            vec![(0.0, 8.0), (2.0, 2.0)],
            vec![(0.0, 8.0), (4.0, 4.0)],
            vec![(0.0, 10.0), (4.0, 2.0)],
        ];
        let band = band(&curves);
        assert_eq!(band.points, [(0.0, 8.0), (2.0, 6.0), (4.0, 2.0)]);
        assert_eq!(band.range, [(8.0, 10.0), (2.0, 6.0), (2.0, 4.0)]);
    }

    #[test]
    fn a_long_run_has_a_band_of_a_few_hundred_points() {
        let curve: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        let band = band(&[curve.clone(), curve]);
        assert_eq!(band.points.len(), POINTS_MAX);
        assert_eq!((band.points[0].0, band.points[POINTS_MAX - 1].0), (0.0, 9_999.0));
    }
}
