//! The evaluation of copies: sums over examples, which can be added, and the objective and the metric that follow from them.

use std::borrow::Cow;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The quality of one copy of the model, or of the copies of all data centers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The training objective; lower is better.
    pub objective: f64,
    /// The value of the held-out metric that [`Metric`] describes.
    pub metric: f64,
}

/// The evaluation of one copy on some examples. The sums of other examples, and of other copies, can be added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationSums {
    /// The training objective over training examples.
    pub objective: WeightedSum,
    /// The metric over held-out examples, before [`Metric::aggregation`].
    pub metric: WeightedSum,
}

/// A sum over examples, and what it is divided by for their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightedSum {
    /// The sum.
    pub sum: f64,
    /// The number of examples, or of tokens in them.
    pub weight: f64,
}

/// A predictor that has learnt nothing about examples but how often each answer is right: what a model must beat.
#[derive(Clone, Debug, PartialEq)]
pub struct TrivialPredictor {
    /// What it predicts, such as `majority class`.
    pub name: Cow<'static, str>,
    /// Its objective without regularisation, and its metric, over the data that copies are evaluated on.
    pub evaluation: Evaluation,
}

/// A held-out metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The metric's name in reports, such as `rmse`.
    pub name: Cow<'static, str>,
    /// How the metric follows from the mean over examples.
    pub aggregation: Aggregation,
    /// The direction of improvement.
    pub direction: Direction,
}

/// How a metric follows from the mean over held-out examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// It is the mean: an accuracy is the mean of 1 for right and 0 for wrong answers.
    Mean,
    /// It is the square root of the mean: a root mean square error.
    RootMean,
    /// It is e to the power of the mean: a perplexity, of the negative log-likelihood of a token.
    ExpMean,
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
}

impl WeightedSum {
    /// The mean. 0 of nothing.
    pub fn mean(self) -> f64 {
        if self.weight == 0.0 { 0.0 } else { self.sum / self.weight }
    }

    /// A sum of another weight with the same mean: a sample stands for all that it was drawn from.
    #[must_use]
    pub fn scaled_to(self, weight: f64) -> Self {
        Self { sum: self.mean() * weight, weight }
    }
}

impl AddAssign for WeightedSum {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.weight += other.weight;
    }
}

impl AddAssign for EvaluationSums {
    fn add_assign(&mut self, other: Self) {
        self.objective += other.objective;
        self.metric += other.metric;
    }
}

impl std::iter::Sum for EvaluationSums {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, sums| {
            sum += sums;
            sum
        })
    }
}

impl Metric {
    /// The objective and the metric that follow from sums.
    pub fn evaluation(&self, sums: EvaluationSums) -> Evaluation {
        let mean = sums.metric.mean();
        let metric = match self.aggregation {
            Aggregation::Mean => mean,
            Aggregation::RootMean => mean.sqrt(),
            Aggregation::ExpMean => mean.exp(),
        };
        Evaluation { objective: sums.objective.mean(), metric }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(aggregation: Aggregation) -> Metric {
        Metric { name: "m".into(), aggregation, direction: Direction::Lower }
    }

    #[test]
    fn an_evaluation_of_all_examples_is_that_of_the_added_sums_of_their_parts() {
        let part = |sum: f64, weight: f64| EvaluationSums {
            objective: WeightedSum { sum, weight },
            metric: WeightedSum { sum: 4.0 * sum, weight },
        };
        let all: EvaluationSums =
            [part(1.0, 1.0), part(5.0, 3.0), part(0.0, 0.0)].into_iter().sum();

        for (aggregation, expected) in [
            (Aggregation::Mean, 6.0),
            (Aggregation::RootMean, 6.0_f64.sqrt()),
            (Aggregation::ExpMean, 6.0_f64.exp()),
        ] {
            let evaluation = metric(aggregation).evaluation(all);
            assert_eq!(evaluation, Evaluation { objective: 1.5, metric: expected });
        }
    }

    #[test]
    fn nothing_has_a_mean_of_zero_and_a_sample_keeps_its_mean() {
        assert_eq!(WeightedSum::default().mean(), 0.0);
        let sample = WeightedSum { sum: 6.0, weight: 4.0 };
        assert_eq!(sample.scaled_to(10.0), WeightedSum { sum: 15.0, weight: 10.0 });
    }
}
