//! A figure over several seeds: its median, and the lowest and the highest value.

use serde::{Deserialize, Serialize};

/// The median of a figure over seeds, and its range.
///
/// A bound is `None` where the figure has no value with that seed: a target that was never met counts as later than any
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value; of an even number of values the mean of the two in the middle.
    pub median: Option<f64>,
    /// The lowest value.
    pub low: Option<f64>,
    /// The highest value.
    pub high: Option<f64>,
}

impl Spread {
    /// The spread of these values, in which `None` and what is no number count as higher than all others. `None` without a
    /// value.
    pub(crate) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let known = |value: &f64| !value.is_nan();
        let values = values.into_iter().map(|value| value.filter(known).unwrap_or(f64::INFINITY));
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let median = median(&values);
        let [median, low, high] =
            [median, low, high].map(|value| Some(value).filter(|value| value.is_finite()));
        Some(Self { median, low, high })
    }

    /// Whether all values are the same.
    pub(crate) fn is_one_value(&self) -> bool {
        self.low == self.high
    }
}

/// The median of values in ascending order, of which there is at least one.
pub(super) fn median(ascending: &[f64]) -> f64 {
    let middle = ascending.len() / 2;
    match ascending.len() % 2 {
        0 => f64::midpoint(ascending[middle - 1], ascending[middle]),
        _ => ascending[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[Option<f64>]) -> [Option<f64>; 3] {
        let Spread { median, low, high } = Spread::of(values.iter().copied()).unwrap();
        [median, low, high]
    }

    #[test]
    fn a_target_that_was_never_met_is_later_than_any_time() {
        let [one, two, nine] = [1.0, 2.0, 9.0].map(Some);
        assert_eq!(spread(&[nine, one, two]), [two, one, nine]);
        assert_eq!(spread(&[two, one]), [Some(1.5), one, two]);
        assert_eq!(spread(&[two, None, one]), [two, one, None]);
        assert_eq!(spread(&[None, one]), [None, one, None]);
        assert_eq!(spread(&[None]), [None, None, None]);
        assert_eq!(spread(&[Some(-f64::NAN), one, two]), [two, one, None]);
        assert_eq!(Spread::of([]), None);
    }
}
