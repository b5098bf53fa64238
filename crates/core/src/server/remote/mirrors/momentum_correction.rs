//! Momentum of what mirrors send: where they share gradients, this data center keeps them going.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::codec::Changes;
use crate::persist;
use crate::types::{Content, DcId};

/// The steps that mirrors' gradients have come to, per parameter: `u = m·u' + g`, clock by clock of this data center.
///
/// A gradient that is `d` clocks old has moved its own copy by `g·(1 + m + … + m^d)`, and `m^d·g` of its step is left.
/// Where momentum is masked, one that arrives at that age moves this copy as far at once, and only what is left goes
/// on: momentum of old gradients does not carry a copy past what was learnt since. That is the idea of momentum factor
/// masking in Lin et al. (ICLR 2018), which drops the momentum of delayed parameters. Copies that add may lose nothing,
/// so here it is added in advance; masked or not, a gradient comes to `g ÷ (1 − m)`.
#[derive(Debug)]
pub(super) struct MomentumCorrection {
    momentum: f64,
    /// The one-way delay from each mirror, where momentum is masked.
    masked: Option<BTreeMap<DcId, Duration>>,
    step: Vec<f32>,
}

impl MomentumCorrection {
    /// For `parameters` under momentum, above 0 and below 1.
    ///
    /// `masked` holds the one-way delay from each mirror, or is `None` where a gradient has all its momentum ahead of
    /// it when it arrives.
    pub(super) fn new(
        parameters: usize,
        momentum: f64,
        masked: Option<BTreeMap<DcId, Duration>>,
    ) -> Self {
        Self { momentum, masked, step: vec![0.0; parameters] }
    }

    /// Takes gradients that have been added to `values`, and adds to those what the gradients have come to since.
    ///
    /// `clock_time` is how long a clock of this data center takes, once it is known.
    pub(super) fn on_received(
        &mut self,
        from: DcId,
        clock_time: Option<Duration>,
        gradients: Changes<'_>,
        values: &mut [f32],
    ) {
        let left = self.momentum.powf(self.age(from, clock_time));
        let missed = self.momentum * (1.0 - left) / (1.0 - self.momentum);
        let (left, missed) = (left as f32, missed as f32);
        gradients.for_each(|index, gradient| {
            self.step[index] += left * gradient;
            values[index] += missed * gradient;
        });
    }

    /// A clock has passed: moves the values on.
    pub(super) fn on_clock(&mut self, values: &mut [f32]) {
        let momentum = self.momentum as f32;
        for (step, value) in self.step.iter_mut().zip(values) {
            *step *= momentum;
            *value += *step;
        }
    }

    /// The steps that are under way.
    pub(super) fn step(&self) -> &[f32] {
        &self.step
    }

    /// Takes steps that are under way elsewhere.
    pub(super) fn add_steps(&mut self, steps: Changes<'_>) {
        steps.add_to(&mut self.step);
    }

    /// For how many clocks a gradient from a mirror has had its momentum at home; 0 where that is not masked.
    fn age(&self, from: DcId, clock_time: Option<Duration>) -> f64 {
        let delay = self.masked.as_ref().and_then(|delays| delays.get(&from));
        delay.map_or(0.0, |delay| {
            let clock_time = clock_time.map_or(f64::INFINITY, |time| time.as_secs_f64());
            CLOCKS_AT_HOME + delay.as_secs_f64() / clock_time.max(CLOCK_SECONDS_MIN)
        })
    }
}

persist! {
    impl Persist<()> for MomentumCorrection {
        fn walk(Self { momentum: _, masked: _, step }, walk, ()) {
            walk.tensor("step", Content::Optimizer, step)
        }
    }
}

/// How long gradients wait at home, in clocks: residuals are ranked once in a clock, and those too small to leave wait
/// for the next. With one clock the paper's image classification takes no more clocks than unmasked over any of its
/// WANs, with two it does.
const CLOCKS_AT_HOME: f64 = 1.0;

/// A clock that took no time has measured nothing.
const CLOCK_SECONDS_MIN: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    const MIRROR: DcId = DcId(3);
    const GRADIENT: Changes<'_> = Changes::Dense { start: 0, values: &[1.0] };

    /// A correction that masks what comes after so many clocks at home and on the way; `None` does not mask.
    fn momentum_correction(momentum: f64, age: Option<f64>) -> MomentumCorrection {
        let way = |age: f64| CLOCK_TIME.mul_f64(age - CLOCKS_AT_HOME);
        MomentumCorrection::new(1, momentum, age.map(|age| BTreeMap::from([(MIRROR, way(age))])))
    }

    /// Adds the gradient to a copy, as it arrives.
    fn receive(momentum_correction: &mut MomentumCorrection, value: &mut [f32; 1]) {
        GRADIENT.add_to(value);
        momentum_correction.on_received(MIRROR, Some(CLOCK_TIME), GRADIENT, value);
    }

    const CLOCK_TIME: Duration = Duration::from_secs(8);

    #[test]
    fn a_gradient_ends_where_its_own_data_center_ends_however_old_it_was() {
        for age in [None, Some(1.0), Some(1.3), Some(4.0), Some(1000.0)] {
            let (mut value, mut momentum_correction) = ([0.0], momentum_correction(0.75, age));
            receive(&mut momentum_correction, &mut value);
            (0..100).for_each(|_| momentum_correction.on_clock(&mut value));
            assert!((value[0] - 4.0).abs() < 1e-5, "{age:?}: {value:?}");
        }
    }

    #[test]
    fn a_masked_gradient_is_where_its_own_data_center_is_from_its_arrival_on() {
        let momentum = 0.5;
        for late in 1_u8..5 {
            let (mut home, mut step) = (0.0, 1.0);
            let (mut value, mut momentum_correction) =
                ([0.0], momentum_correction(f64::from(momentum), Some(late.into())));
            for clock in 0..12 {
                home += step;
                step *= momentum;
                momentum_correction.on_clock(&mut value);
                if clock == late {
                    receive(&mut momentum_correction, &mut value);
                }
                let expected = if clock < late { 0.0 } else { home };
                assert_eq!(value, [expected], "{late} clocks late, clock {clock}");
            }
        }
    }

    #[test]
    fn what_is_not_masked_has_all_its_momentum_ahead() {
        let (mut value, mut momentum_correction) = ([0.0], momentum_correction(0.5, None));
        receive(&mut momentum_correction, &mut value);
        assert_eq!(value, [1.0]);
        momentum_correction.on_clock(&mut value);
        assert_eq!(value, [1.5]);
    }

    #[test]
    fn a_way_counts_in_clocks_once_a_clock_has_been_measured() {
        let momentum_correction = momentum_correction(0.5, Some(3.5));
        assert_eq!(momentum_correction.age(MIRROR, Some(CLOCK_TIME)), 3.5);
        assert_eq!(momentum_correction.age(MIRROR, Some(CLOCK_TIME * 2)), 2.25);
        assert_eq!(momentum_correction.age(MIRROR, None), CLOCKS_AT_HOME);
        assert!(momentum_correction.age(MIRROR, Some(Duration::ZERO)).is_finite());
    }
}
