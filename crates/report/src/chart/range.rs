//! Which values an axis shows: those that most of the curves are made of, and not one far outside that would press all
//! others flat.

use super::plot::Trend;

/// The lowest and the highest value to show, of curves and a target. What lies outside leaves the picture.
///
/// Each curve is given by its values that can be drawn, in order. `None` where there is no value at all.
pub(super) fn shown(curves: &[Vec<f64>], target: Option<f64>, trend: Trend) -> Option<(f64, f64)> {
    let all = || curves.iter().flatten().copied();
    let (low, high) = extent(all().chain(target))?;
    let start = middle(curves.iter().filter_map(|values| values.first().copied()));

    match (trend, start) {
        (Trend::Falling, Some(start)) if start > 0.0 => {
            Some((low, high.min(ABOVE_START * start).max(low)))
        }
        (Trend::Whole, _) | (_, None) => Some((low, high)),
        (Trend::Falling | Trend::Either, Some(start)) => {
            let end = middle(curves.iter().filter_map(|values| values.last().copied()));
            let mut sorted: Vec<f64> = all().collect();
            sorted.sort_by(f64::total_cmp);
            let quartiles = [1, 3].map(|part| sorted[part * (sorted.len() - 1) / 4]);
            let ordinary = quartiles.into_iter().chain([start]).chain(end).chain(target);
            let (lower, upper) = extent(ordinary)?;
            let reach = OUTSIDE * (upper - lower);

            // Values that hardly differ have no outlier.
            match reach > 0.0 {
                true => Some((low.max(lower - reach), high.min(upper + reach))),
                false => Some((low, high)),
            }
        }
    }
}

pub(super) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |extent, value| match extent {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// The median; the lower one of two.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// An objective above this many times its start has diverged.
const ABOVE_START: f64 = 1.5;
/// How far beyond the ordinary values a value may lie and still be shown, as a share of their range.
const OUTSIDE: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(curves: &[&[f64]], trend: Trend, expect: (f64, f64)) {
        let curves: Vec<Vec<f64>> = curves.iter().map(|values| values.to_vec()).collect();
        let (low, high) = shown(&curves, None, trend).unwrap();
        let is_close = |found: f64, expect: f64| (found - expect).abs() <= 1e-9 * expect.abs();
        assert!(
            is_close(low, expect.0) && is_close(high, expect.1),
            "{curves:?}: {low} to {high}, expected {expect:?}"
        );
    }

    #[test]
    fn one_curve_that_diverges_does_not_flatten_the_others() {
        let (good, better) = ([0.8, 0.6, 0.5, 0.4], [0.8, 0.5, 0.4, 0.4]);
        check(&[&good, &better, &[0.8, 5.0, 4e3, 1e9]], Trend::Falling, (0.4, 0.8 * 1.5));
        check(&[&good, &better, &[1e9, 1e9, 1e9, 1e9]], Trend::Falling, (0.4, 0.8 * 1.5));
        check(&[&good, &better, &[0.8, 0.9, 4.0, 1e9]], Trend::Either, (0.4, 1.2));
        check(&[&good, &better, &[0.8, 0.9, 4.0, 1e9]], Trend::Whole, (0.4, 1e9));
    }

    #[test]
    fn one_wild_evaluation_does_not_flatten_its_own_curve() {
        check(&[&[1.0, 0.8, 700.0, 0.5, 0.4]], Trend::Falling, (0.4, 1.5));
        check(&[&[0.1, 0.5, -900.0, 0.8, 0.9, 0.9]], Trend::Either, (-0.7, 0.9));
        check(&[&[-4.0, -5.0, 1e6, -6.0, -6.0]], Trend::Falling, (-6.0, -2.0));
    }

    #[test]
    fn what_hardly_changes_is_shown_whole() {
        check(&[&[0.5, 0.5, 0.5, 0.5, 0.6]], Trend::Either, (0.5, 0.6));
        check(&[&[0.5, 0.5, 0.5, 0.7, 0.5]], Trend::Either, (0.5, 0.7));
        assert_eq!(shown(&[Vec::new()], None, Trend::Either), None);
        assert_eq!(shown(&[], Some(1.0), Trend::Falling), Some((1.0, 1.0)));
    }
}
