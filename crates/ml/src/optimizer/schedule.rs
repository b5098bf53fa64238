//! The learning rate of each clock.

use crate::config::RateDecay;
use gaia_core::types::Clock;

/// A learning rate that rises over a warm-up and falls as its decay says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// η₀.
    pub(super) rate: f64,
    pub(super) decay: RateDecay,
    /// Clocks over which a linear decay falls to 0.
    pub(super) clocks: Option<u64>,
    pub(super) warm_up: u64,
    /// At least 1.
    pub(super) clocks_per_pass: u64,
    /// Whether directions shrink with the root of the clock by themselves, as AdaGrad's do.
    pub(super) accumulates: bool,
}

impl Schedule {
    /// The learning rate η.
    pub(crate) fn rate(&self, clock: Clock) -> f64 {
        let warmed = ((clock.0 + 1) as f64 / self.warm_up.max(1) as f64).min(1.0);
        self.rate * warmed * self.factor(clock)
    }

    /// By how much steps are smaller than in the first pass, 0 to 1: what thresholds fall with.
    ///
    /// A warm-up is left out: a threshold that rose with it would let copies drift apart just when they change most.
    pub(crate) fn reported(&self, clock: Clock) -> f64 {
        let accumulated =
            if self.accumulates { RateDecay::InverseSqrtPass } else { RateDecay::None };
        self.factor(clock) * accumulated.factor(clock, self.clocks_per_pass, None)
    }

    fn factor(&self, clock: Clock) -> f64 {
        self.decay.factor(clock, self.clocks_per_pass, self.clocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Schedule = Schedule {
        rate: 2.0,
        decay: RateDecay::Linear,
        clocks: Some(100),
        warm_up: 4,
        clocks_per_pass: 10,
        accumulates: false,
    };

    #[test]
    fn rates_rise_over_the_warm_up_and_fall_over_the_planned_clocks() {
        let check = |clock, rate: f64| {
            let found = LINEAR.rate(Clock(clock));
            assert!((found - rate).abs() < 1e-12, "clock {clock}: {found}");
        };
        check(0, 0.5);
        check(1, 2.0 * 0.5 * 0.99);
        check(4, 2.0 * 0.96);
        check(50, 1.0);
        check(99, 0.02);
        check(100, 0.02);
        check(100_000, 0.02);
    }

    #[test]
    fn thresholds_fall_with_what_accumulates_and_not_with_the_warm_up() {
        assert_eq!(LINEAR.reported(Clock(0)), 1.0);
        assert_eq!(LINEAR.reported(Clock(50)), 0.5);
        let adagrad = Schedule { accumulates: true, ..LINEAR };
        assert_eq!(adagrad.reported(Clock(0)), 1.0);
        assert_eq!(adagrad.reported(Clock(30)), 0.7 * 0.5);
    }
}
