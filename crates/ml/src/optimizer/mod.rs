//! How gradients become steps: which optimizer, how large its steps are at each clock, and what it keeps.
//!
//! A worker's step is `−η × direction`, times its share of all examples, so that the steps of all workers add up to one on
//! the union of their batches. With `sgd` the direction is the gradient. The adaptive optimizers divide each partial
//! derivative by the root of a sum or mean of its squares. That quotient is not linear, so workers that divide by different
//! numbers meet where their *quotients* cancel and not where their gradients do: with one label in each data center that
//! is far from any optimum. So the squares are tables of the model: every worker adds its own, every worker divides by
//! the same, and servers exchange, log and drain them as they do weights.

mod adaptive;
mod factored;
mod inputs;
mod output_change;
mod schedule;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, RateDecay, above_zero, count, within};

pub(crate) use adaptive::Adaptive;
pub(crate) use inputs::{
    InputStatistics, Inputs, STATISTICS, Standard, from_standard, least_scales, to_standard,
};
pub(crate) use output_change::shortening;
pub(crate) use schedule::Schedule;

/// Which direction follows from a gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// The gradient, with momentum where the application has it.
    #[default]
    Sgd,
    /// Each partial derivative over the root of the sum of its squares (Duchi, Hazan and Singer, JMLR 12, 2011). With a
    /// linear decay of the learning rate later squares weigh more (Zou et al., Weighted AdaGrad, 2018).
    Adagrad,
    /// A moving mean of each partial derivative over the root of that of its squares (Kingma and Ba, ICLR 2015).
    Adam,
}

/// The settings of an application's steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steps {
    pub(crate) optimizer: Optimizer,
    /// Examples of each worker in each clock; that of `defaults` where `None`.
    pub(crate) batch: Option<usize>,
    /// The learning rate η₀; that of `defaults` where `None`.
    pub(crate) learning_rate: Option<f64>,
    pub(crate) learning_rate_decay: Option<RateDecay>,
    /// Clocks over which a linear decay falls to 0.
    pub(crate) learning_rate_clocks: Option<u64>,
    /// Clocks over which the learning rate rises to η₀.
    pub(crate) warm_up: u64,
    /// The largest Euclidean norm of a worker's gradient.
    pub(crate) clip_norm: Option<f64>,
    pub(crate) defaults: Defaults,
}

/// The batch and the learning rate of each optimizer where a run file has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Defaults {
    /// Examples of a worker in each clock.
    pub(crate) batch: usize,
    pub(crate) sgd: f64,
    pub(crate) adagrad: f64,
    pub(crate) adam: f64,
    /// For Adam in a run of `T` clocks: this over √T, at most 0.5, in place of `adam`.
    ///
    /// A weight can then go as far as `reach × √T ÷ 2`, and what noise leaves falls with the length of the run. This is the
    /// rate that bounds the regret of steps of one length. In standard coordinates optimal weights are of similar size on
    /// all data, so that one `reach` serves.
    pub(crate) reach: Option<f64>,
}

impl Optimizer {
    /// Whether it divides by the squares of gradients.
    pub const fn is_adaptive(self) -> bool {
        matches!(self, Self::Adagrad | Self::Adam)
    }

    /// The name, as `app.optimizer` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Adagrad => "adagrad",
            Self::Adam => "adam",
        }
    }
}

impl Steps {
    /// The same with nothing left out, for a run of at most `clocks` that may end long before them or not.
    pub(crate) fn resolved(self, clocks: Option<u64>, may_end_early: bool) -> Self {
        let planned = match self.learning_rate_decay {
            Some(RateDecay::Linear) => clocks,
            None if self.optimizer.is_adaptive() && !may_end_early => clocks,
            _ => None,
        };
        let own = Self { learning_rate_clocks: self.learning_rate_clocks.or(planned), ..self };
        Self {
            learning_rate: Some(own.learning_rate()),
            learning_rate_decay: Some(own.decay()),
            ..own
        }
    }

    /// The examples of a worker in each clock, where the workers of a run have so many each on average.
    ///
    /// Steps of an adaptive optimizer have a length of their own: a run needs enough of them, however few examples
    /// there are. So its default is small enough for [`PASS_CLOCKS_MIN`] clocks a pass.
    pub(crate) fn batch(&self, examples: usize, workers: usize) -> usize {
        let most = self.batch_max();
        if self.batch.is_some() || !self.optimizer.is_adaptive() {
            return most;
        }
        (examples / workers.max(1) / PASS_CLOCKS_MIN).clamp(1, most)
    }

    /// The same where workers have as many examples as it takes.
    pub(crate) fn batch_max(&self) -> usize {
        self.batch.unwrap_or(self.defaults.batch)
    }

    /// The learning rate of each clock; `clocks_per_pass` is at least 1.
    pub(crate) fn schedule(&self, clocks_per_pass: u64) -> Schedule {
        Schedule {
            rate: self.learning_rate(),
            decay: self.decay(),
            clocks: self.learning_rate_clocks,
            warm_up: self.warm_up,
            clocks_per_pass,
            accumulates: self.optimizer == Optimizer::Adagrad,
        }
    }

    /// What makes a gradient short enough. `square_norm` computes its squared norm, where that is limited.
    pub(crate) fn clip(&self, square_norm: impl FnOnce() -> f64) -> f32 {
        match self.clip_norm {
            None => 1.0,
            Some(longest) => {
                let norm = square_norm().sqrt();
                if norm > longest { (longest / norm) as f32 } else { 1.0 }
            }
        }
    }

    /// Checks the range of every key. Learning rates may be `most`.
    pub(crate) fn validate(&self, most: f64) -> Result<(), ConfigError> {
        count("batch", self.batch_max(), 1, 1 << 20)?;
        above_zero("learning_rate", self.learning_rate(), most)?;
        if let Some(clocks) = self.learning_rate_clocks
            && !(1..=CLOCKS_MAX).contains(&clocks)
        {
            return Err(ConfigError::new("learning_rate_clocks", clocks, whole(1)));
        }
        if let Some(clocks) = self.learning_rate_clocks
            && self.decay() != RateDecay::Linear
        {
            let expected = "learning_rate_decay = \"linear\" beside it";
            return Err(ConfigError::new("learning_rate_clocks", clocks, expected));
        }
        if self.decay() == RateDecay::Linear && self.learning_rate_clocks.is_none() {
            let expected = "another decay, or stop.clocks or learning_rate_clocks beside it";
            return Err(ConfigError::new("learning_rate_decay", "\"linear\"", expected));
        }
        if self.warm_up > CLOCKS_MAX {
            return Err(ConfigError::new("warm_up", self.warm_up, whole(0)));
        }
        match self.clip_norm {
            Some(norm) => above_zero("clip_norm", norm, 1e6),
            None => Ok(()),
        }
    }

    /// Checks the momentum of an application that has it.
    pub(crate) fn validate_momentum(&self, momentum: f64) -> Result<(), ConfigError> {
        if self.optimizer.is_adaptive() && momentum != 0.0 {
            let expected = format!("0 with optimizer = \"{}\"", self.optimizer.name());
            return Err(ConfigError::new("momentum", momentum, expected));
        }
        within("momentum", momentum, 0.0, 0.999)
    }

    /// In a run of known length Adam's default is that of its `reach`.
    fn learning_rate(&self) -> f64 {
        self.learning_rate.unwrap_or_else(|| match self.optimizer {
            Optimizer::Sgd => self.defaults.sgd,
            Optimizer::Adagrad => self.defaults.adagrad,
            Optimizer::Adam => match (self.defaults.reach, self.learning_rate_clocks) {
                (Some(reach), Some(clocks)) => (reach / (clocks.max(1) as f64).sqrt()).min(0.5),
                _ => self.defaults.adam,
            },
        })
    }

    /// Where a run's length is known, its steps fall to 0 at its end. Those of AdaGrad fall in any case.
    fn decay(&self) -> RateDecay {
        self.learning_rate_decay.unwrap_or(match (self.optimizer, self.learning_rate_clocks) {
            (Optimizer::Sgd, _) | (Optimizer::Adam, None) => RateDecay::InverseSqrtPass,
            (_, Some(_)) => RateDecay::Linear,
            (Optimizer::Adagrad, None) => RateDecay::None,
        })
    }
}

fn whole(least: u64) -> String {
    format!("a whole number, {least} to {CLOCKS_MAX}")
}

/// Of one setting for the four applications that descend gradients: their settings of steps, and how what is left out
/// follows from the length of a run. With `momentum` behind the rates an optimizer that is left out follows from the
/// momentum: of the optimizers only SGD has one.
macro_rules! steps {
    ($config:ty, $rates:expr $(, $momentum:ident)?) => {
        impl $config {
            pub(crate) const fn steps(&self) -> crate::optimizer::Steps {
                crate::optimizer::Steps {
                    optimizer: crate::optimizer::steps!(@optimizer self $($momentum)?),
                    batch: self.batch,
                    learning_rate: self.learning_rate,
                    learning_rate_decay: self.learning_rate_decay,
                    learning_rate_clocks: self.learning_rate_clocks,
                    warm_up: self.warm_up,
                    clip_norm: self.clip_norm,
                    defaults: $rates,
                }
            }

            /// The most examples of a worker in each clock.
            pub fn batch_max(&self) -> usize {
                self.steps().batch_max()
            }

            pub(crate) fn resolve_steps(&mut self, clocks: Option<u64>, may_end_early: bool) {
                let steps = self.steps().resolved(clocks, may_end_early);
                self.optimizer = steps.optimizer.into();
                self.learning_rate = steps.learning_rate;
                self.learning_rate_decay = steps.learning_rate_decay;
                self.learning_rate_clocks = steps.learning_rate_clocks;
            }
        }
    };
    (@optimizer $config:ident) => {
        $config.optimizer
    };
    (@optimizer $config:ident $momentum:ident) => {
        match $config.optimizer {
            Some(optimizer) => optimizer,
            None if $config.$momentum > 0.0 => crate::optimizer::Optimizer::Sgd,
            None => crate::optimizer::Optimizer::Adagrad,
        }
    };
}

pub(crate) use steps;

/// Clocks of a pass over few examples.
const PASS_CLOCKS_MIN: usize = 8;

const CLOCKS_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const STEPS: Steps = Steps {
        optimizer: Optimizer::Adam,
        batch: None,
        learning_rate: None,
        learning_rate_decay: None,
        learning_rate_clocks: None,
        warm_up: 0,
        clip_norm: None,
        defaults: Defaults { batch: 32, sgd: 0.5, adagrad: 1.0, adam: 0.1, reach: Some(5.0) },
    };

    #[test]
    fn what_is_left_out_follows_from_the_optimizer_and_the_length_of_the_run() {
        let check = |optimizer, clocks, may_end_early, rate, decay, length| {
            let steps = Steps { optimizer, ..STEPS }.resolved(clocks, may_end_early);
            let found =
                (steps.learning_rate, steps.learning_rate_decay, steps.learning_rate_clocks);
            assert_eq!(found, (Some(rate), Some(decay), length));
            assert_eq!(steps.resolved(Some(7), false), steps);
        };
        use RateDecay::{InverseSqrtPass, Linear, None as Constant};

        check(Optimizer::Sgd, Some(100), false, 0.5, InverseSqrtPass, None);
        check(Optimizer::Adagrad, Some(100), false, 1.0, Linear, Some(100));
        check(Optimizer::Adagrad, Some(100), true, 1.0, Constant, None);
        check(Optimizer::Adam, None, false, 0.1, InverseSqrtPass, None);
        check(Optimizer::Adam, Some(2500), false, 0.1, Linear, Some(2500));
        check(Optimizer::Adam, Some(100), false, 0.5, Linear, Some(100));
        check(Optimizer::Adam, Some(9), false, 0.5, Linear, Some(9));

        let linear = Steps { learning_rate_decay: Some(Linear), ..STEPS };
        assert_eq!(linear.resolved(Some(9), true).learning_rate_clocks, Some(9));
        let own = Steps { learning_rate_clocks: Some(5), ..STEPS };
        assert_eq!(own.resolved(Some(9), false).learning_rate_clocks, Some(5));
    }

    #[test]
    fn few_examples_are_cut_into_small_batches_unless_a_batch_is_named() {
        let batch = |optimizer, named, examples| {
            Steps { optimizer, batch: named, ..STEPS }.batch(examples, 6)
        };
        for optimizer in [Optimizer::Adagrad, Optimizer::Adam] {
            assert_eq!(batch(optimizer, None, 150), 3);
            assert_eq!(batch(optimizer, None, 5), 1);
            assert_eq!(batch(optimizer, None, 6 * 8 * 32), 32);
            assert_eq!(batch(optimizer, None, 1 << 30), 32);
            assert_eq!(batch(optimizer, Some(64), 150), 64);
        }
        assert_eq!(batch(Optimizer::Sgd, None, 150), 32);
    }

    #[test]
    fn long_gradients_are_clipped_and_short_ones_left_alone() {
        let clipped = Steps { clip_norm: Some(2.0), ..STEPS };
        assert_eq!(clipped.clip(|| 16.0), 0.5);
        assert_eq!(clipped.clip(|| 4.0), 1.0);
        assert_eq!(STEPS.clip(|| 1e12), 1.0);
    }
}
