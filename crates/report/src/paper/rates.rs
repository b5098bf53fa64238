//! Remote models with each learning rate of a grid: the rows of `paper.json`, and which rate is a model's best.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::seeds::Spread;
use crate::text::numbers;

/// A remote model with one learning rate, over label-skewed data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// `perceptron` or `cnn`.
    pub app: String,
    /// The name of the remote model with its settings.
    pub model: String,
    /// The learning rate of the workers.
    pub learning_rate: f64,
    /// The objective at which runs end. `None` where all have the same number of clocks.
    pub target: Option<f64>,
    /// A run for each seed.
    pub runs: Vec<RateRun>,
}

/// One seed of a [`RateRow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateRun {
    /// The seed.
    pub seed: u64,
    /// Clocks until the target. `None` where it was not reached, or there is none.
    pub clocks: Option<u64>,
    /// Virtual seconds until the target. `None` where it was not reached; of the whole run where there is none.
    pub time_s: Option<f64>,
    /// Bytes that a data center sent until the target, the mean of all. `None` where it was not reached; of the whole run
    /// where there is none.
    pub sent_bytes: Option<f64>,
    /// The accuracy after the drain on held-out data of all data centers, 0 to 1. `None` of a run that diverged.
    pub accuracy: Option<f64>,
}

impl RateRow {
    /// Clocks until the target.
    pub fn clocks(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.clocks.map(|clocks| clocks as f64)))
    }

    /// Virtual seconds.
    pub fn time_s(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.time_s))
    }

    /// Bytes of a data center.
    pub fn sent_bytes(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.sent_bytes))
    }

    /// The share of held-out examples that the model has wrong: of runs that diverged the highest.
    fn errors(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.accuracy.map(|accuracy| 1.0 - accuracy)))
    }

    /// The median accuracy, 0 to 1. `None` where most runs diverged.
    pub fn accuracy(&self) -> Option<f64> {
        median(self.errors()).map(|errors| 1.0 - errors)
    }

    /// Fewer clocks to the target come first, then higher accuracies.
    fn compare(&self, other: &Self) -> Ordering {
        let last = |spread: Option<Spread>| median(spread).unwrap_or(f64::INFINITY);
        let by_clocks = last(self.clocks()).total_cmp(&last(other.clocks()));
        by_clocks.then(last(self.errors()).total_cmp(&last(other.errors())))
    }
}

/// Of each application and model the row of its best rate, in the order of `rows`.
pub(super) fn best(rows: &[RateRow]) -> Vec<&RateRow> {
    let mut best: Vec<&RateRow> = Vec::new();
    for row in rows {
        let known = best.iter_mut().find(|one| one.app == row.app && one.model == row.model);
        match known {
            Some(one) if row.compare(one).is_lt() => *one = row,
            Some(_) => {}
            None => best.push(row),
        }
    }
    best
}

/// The clocks to the target of a row's model with each rate, or its accuracy where there is no target.
pub(super) fn at_each_rate(rows: &[RateRow], of: &RateRow) -> Vec<(f64, String)> {
    let same = rows.iter().filter(|row| row.app == of.app && row.model == of.model);
    let figures = same.map(|row| {
        let figure = match row.target {
            Some(_) => median(row.clocks()).map_or_else(|| NEVER.into(), count),
            None => numbers::shown(row.accuracy(), numbers::percent_tenths),
        };
        (row.learning_rate, figure)
    });
    figures.collect()
}

/// A median with the lowest and the highest value, where these are not shown as the same.
pub(super) fn shown(spread: Option<Spread>, show: impl Fn(f64) -> String) -> String {
    let Some(Spread { median, low, high }) = spread else { return numbers::NONE.into() };
    let [median, low, high] =
        [median, low, high].map(|value| value.map_or_else(|| NEVER.into(), &show));
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

/// The median, where there is one.
pub(super) fn median(spread: Option<Spread>) -> Option<f64> {
    spread?.median
}

/// A number of clocks, or the mean of two.
pub(super) fn count(clocks: f64) -> String {
    numbers::count(clocks.round() as u64)
}

/// A mean of bytes.
pub(super) fn bytes(bytes: f64) -> String {
    numbers::bytes(bytes.round() as u64)
}

const NEVER: &str = "never";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(model: &str, learning_rate: f64, clocks: Option<u64>, accuracy: Option<f64>) -> RateRow {
        let run = RateRun { seed: 1, clocks, time_s: Some(1.0), sent_bytes: Some(10.0), accuracy };
        let (app, model) = ("cnn".into(), model.into());
        RateRow { app, model, learning_rate, target: Some(0.3), runs: vec![run] }
    }

    #[test]
    fn the_best_rate_has_the_fewest_clocks_and_then_the_highest_accuracy() {
        let rows = [
            row("bsp", 0.1, Some(200), Some(0.9)),
            row("bsp", 0.2, Some(100), Some(0.8)),
            row("bsp", 0.4, None, Some(0.95)),
            row("asp", 0.1, None, Some(0.5)),
            row("asp", 0.2, None, Some(0.6)),
            row("asp", 0.4, None, None),
        ];
        let found: Vec<f64> = best(&rows).iter().map(|row| row.learning_rate).collect();
        assert_eq!(found, [0.2, 0.2]);
        let expected = [(0.1, "200"), (0.2, "100"), (0.4, "never")];
        assert_eq!(at_each_rate(&rows, &rows[0]), expected.map(|(rate, it)| (rate, it.to_owned())));
    }

    #[test]
    fn a_run_that_diverged_is_the_worst() {
        let mut both = row("bsp", 0.1, None, Some(0.7));
        both.runs.extend(row("bsp", 0.1, None, None).runs);
        both.runs.extend(row("bsp", 0.1, None, Some(0.9)).runs);
        assert!((both.accuracy().unwrap() - 0.7).abs() < 1e-12);
        assert_eq!(row("bsp", 0.1, None, None).accuracy(), None);
    }
}
