//! Momentum correction: if mirrors send gradients, this data center applies the momentum to them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::codec::Changes;
use crate::persist;
use crate::types::{Content, DcId};

/// The steps of mirrors' gradients, per parameter: `u = m·u' + g`, in each clock of this data center.
///
/// A gradient that is `d` clocks old has changed its own copy by `g·(1 + m + … + m^d)`, and the rest of its step is
/// `m^d·g`. With masked momentum, a gradient that arrives at that age changes this copy by the same amount at once, and
/// only the rest continues. So the momentum of old gradients does not override later ones. This follows momentum factor
/// masking (Lin et al., ICLR 2018), which drops the momentum of delayed parameters. Additive copies must not lose
/// changes, so here the momentum is added in advance. Masked or not, a gradient changes a copy by `g ÷ (1 − m)` in the
/// end.
#[derive(Debug)]
pub(super) struct MomentumCorrection {
    momentum: f64,
    /// The one-way delay from each mirror, if momentum is masked.
    masked: Option<BTreeMap<DcId, Duration>>,
    step: Vec<f32>,
}

impl MomentumCorrection {
    /// A correction for a shard of `parameters` and a momentum above 0 and below 1.
    ///
    /// `masked` has the one-way delay from each mirror. It is `None` if momentum is not masked.
    pub(super) fn new(
        parameters: usize,
        momentum: f64,
        masked: Option<BTreeMap<DcId, Duration>>,
    ) -> Self {
        Self { momentum, masked, step: vec![0.0; parameters] }
    }

    /// Handles gradients that were added to `values`, and adds the momentum that they have gained since they were
    /// computed.
    ///
    /// `clock_time` is the duration of a clock of this data center, once it is known.
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

    /// Applies the momentum of one clock to the values.
    pub(super) fn on_clock(&mut self, values: &mut [f32]) {
        let momentum = self.momentum as f32;
        for (step, value) in self.step.iter_mut().zip(values) {
            *step *= momentum;
            *value += *step;
        }
    }

    /// The current steps, per parameter.
    pub(super) fn step(&self) -> &[f32] {
        &self.step
    }

    /// Adds the current steps of another data center.
    pub(super) fn add_steps(&mut self, steps: Changes<'_>) {
        steps.add_to(&mut self.step);
    }

    /// The number of clocks for which a mirror's gradient has had its momentum at its origin. 0 if momentum is not
    /// masked.
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

/// How long gradients wait at their origin, in clocks: residuals are ranked once for each clock, and those too small to
/// be sent wait for the next. With one clock the paper's image classification takes no more clocks than unmasked over
/// any of its WANs. With two clocks it does.
const CLOCKS_AT_HOME: f64 = 1.0;

/// The shortest duration of a clock that counts as a measurement.
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
