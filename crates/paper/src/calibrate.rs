//! Calibration: the bandwidth scale at which BSP is slowed down by a WAN as much as in the paper.
//!
//! A model with a thousandth of the parameters over links with a thousandth of the bandwidth waits as long as the large
//! model over the real links. All bandwidths are scaled equally, of LAN cards and of WAN links, so that the ratio of a
//! WAN to a LAN stays as measured. One number is fitted for each application and WAN: the ratio of BSP's time per clock
//! over the WAN to that on the LAN becomes the paper's. No other model has run by then.

use super::EvaluationError;
use super::bench::Bench;
use gaia_config::Plan;
use gaia_core::coordinator::StopRules;

/// A bandwidth scale, and the ratio that it gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) scale: f64,
    pub(super) ratio: f64,
}

/// The ratio of BSP's time per clock over a plan's WAN to that with the same machines on one LAN.
pub(super) fn bsp_over_lan(plan: &Plan, bench: &Bench<'_>) -> Result<f64, EvaluationError> {
    let over_wan = seconds_per_clock(plan, bench)?;
    Ok(over_wan / seconds_per_clock(&plan.on_lan(), bench)?)
}

/// The time per clock of a short run in seconds, without its first clocks, which do not wait for a clock before.
fn seconds_per_clock(plan: &Plan, bench: &Bench<'_>) -> Result<f64, EvaluationError> {
    let mut plan = plan.clone();
    plan.evaluate.every = SKIPPED;
    plan.stop = StopRules { clocks: Some(SKIPPED + COUNTED), ..StopRules::default() };
    let progress = bench.probe(&plan)?.progress;
    let first = progress.iter().find(|at| at.clock >= SKIPPED);
    let (Some(first), Some(last)) = (first, progress.last()) else { return Ok(f64::NAN) };
    Ok((last.time_s - first.time_s) / last.clock.saturating_sub(first.clock) as f64)
}

/// Finds the scale at which `ratio_at` is `target`. The ratio must decrease with the scale.
///
/// If no scale reaches the target, the result is the closest one that was tried.
pub(super) fn fit(
    target: f64,
    mut ratio_at: impl FnMut(f64) -> Result<f64, EvaluationError>,
) -> Result<Fit, EvaluationError> {
    let mut error_at = |log_scale: f64| -> Result<f64, EvaluationError> {
        Ok((ratio_at(log_scale.exp())? / target).ln())
    };

    let bracket = Bracket::around(START.ln(), &mut error_at)?;
    let best = match bracket.closest_if_open() {
        Some(closest) => closest,
        None => bracket.root(&mut error_at)?,
    };

    Ok(Fit { scale: best.log_scale.exp(), ratio: target * best.error.exp() })
}

/// A tried scale and its error, both as logarithms. An error of 0 is the target.
#[derive(Clone, Copy, Debug)]
struct Tried {
    log_scale: f64,
    error: f64,
}

/// Two tried scales. The error at the slow one is above 0 and that at the fast one below, if the search has found such.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    slow: Tried,
    fast: Tried,
}

impl Bracket {
    /// Searches for a bracket in steps from `start`.
    fn around(
        start: f64,
        error_at: &mut impl FnMut(f64) -> Result<f64, EvaluationError>,
    ) -> Result<Self, EvaluationError> {
        let first = Tried { log_scale: start, error: error_at(start)? };
        let mut bracket = Self { slow: first, fast: first };
        bracket.extend_slow(error_at)?;
        bracket.extend_fast(error_at)?;
        Ok(bracket)
    }

    fn extend_slow(
        &mut self,
        error_at: &mut impl FnMut(f64) -> Result<f64, EvaluationError>,
    ) -> Result<(), EvaluationError> {
        let mut step = STEP.ln();
        for _ in 0..STEPS_MAX {
            if self.slow.error >= 0.0 {
                break;
            }
            let log_scale = self.slow.log_scale - step;
            let error = match error_at(log_scale) {
                // No link may be that slow: the scale is closer.
                Err(EvaluationError::Config(_)) => {
                    step /= 2.0;
                    continue;
                }
                other => other?,
            };

            let gained = error - self.slow.error;
            self.fast = self.slow;
            self.slow = Tried { log_scale, error };
            // Only the ratio of the two networks matters here: slower links do not change it.
            if error < 0.0 && gained < FLAT * step {
                break;
            }
        }
        Ok(())
    }

    fn extend_fast(
        &mut self,
        error_at: &mut impl FnMut(f64) -> Result<f64, EvaluationError>,
    ) -> Result<(), EvaluationError> {
        for _ in 0..STEPS_MAX {
            if self.fast.error <= 0.0 {
                break;
            }
            self.slow = self.fast;
            let log_scale = self.fast.log_scale + STEP.ln();
            self.fast = Tried { log_scale, error: error_at(log_scale)? };
        }
        Ok(())
    }

    /// The end that is closest to the target, if the target is not between the two.
    fn closest_if_open(&self) -> Option<Tried> {
        if self.slow.error < 0.0 {
            Some(self.slow)
        } else if self.fast.error > 0.0 {
            Some(self.fast)
        } else {
            None
        }
    }

    /// The scale at the target, by false position with the Illinois rule: the weight of an end that stays is halved.
    fn root(
        &self,
        error_at: &mut impl FnMut(f64) -> Result<f64, EvaluationError>,
    ) -> Result<Tried, EvaluationError> {
        let Self { slow, fast } = *self;
        let mut best = if slow.error.abs() < fast.error.abs() { slow } else { fast };
        let (mut slow, mut slow_weight) = (slow.log_scale, slow.error);
        let (mut fast, mut fast_weight) = (fast.log_scale, fast.error);

        for _ in 0..STEPS_MAX {
            if best.error.abs() < TOLERANCE {
                break;
            }
            let middle = (slow * fast_weight - fast * slow_weight) / (fast_weight - slow_weight);
            let error = error_at(middle)?;
            if error.abs() < best.error.abs() {
                best = Tried { log_scale: middle, error };
            }
            if error > 0.0 {
                (slow, slow_weight) = (middle, error);
                fast_weight /= 2.0;
            } else {
                (fast, fast_weight) = (middle, error);
                slow_weight /= 2.0;
            }
        }

        Ok(best)
    }
}

const SKIPPED: u64 = 2;
const COUNTED: u64 = 12;
/// The first scale: about the ratio of a model of 10⁵ parameters to one of 10⁷.
const START: f64 = 0.01;
const STEP: f64 = 4.0;
const STEPS_MAX: usize = 24;
/// The relative error at which the search ends: half a percent.
const TOLERANCE: f64 = 0.005;
/// The exponent of the ratio's growth with the scale below which the ratio is constant.
const FLAT: f64 = 0.007;

#[cfg(test)]
mod tests {
    use super::*;

    /// Computing takes a second, sending `1 / scale` parts of it over a network that is `wan` times slower.
    fn ratio(scale: f64, work: f64, wan: f64) -> f64 {
        (1.0 + wan * work / scale) / (1.0 + work / scale)
    }

    #[track_caller]
    fn check(target: f64, work: f64, wan: f64, expect: f64) {
        let fit = fit(target, |scale| Ok(ratio(scale, work, wan))).unwrap();
        assert!((fit.ratio / expect).ln().abs() < 0.01, "{fit:?}");
        assert!((ratio(fit.scale, work, wan) / fit.ratio).ln().abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn the_scale_is_found_wherever_it_lies() {
        check(3.7, 1e-2, 60.0, 3.7);
        check(24.0, 1e-5, 60.0, 24.0);
        check(8.5, 1e2, 15.0, 8.5);
        check(1.0 + 1e-3, 1e-3, 60.0, 1.0);
    }

    /// A link below a bandwidth is refused; the search gets as close to that as it must.
    #[test]
    fn the_scale_is_found_next_to_the_slowest_link_there_may_be() {
        let slowest = 1.9e-4;
        let target = ratio(2e-4, 1e-3, 60.0);
        let found = fit(target, |scale| {
            if scale < slowest {
                let refused = gaia_config::Override::parse("too slow").unwrap_err();
                return Err(refused.into());
            }
            Ok(ratio(scale, 1e-3, 60.0))
        });
        let found = found.unwrap();
        assert!((found.ratio / target).ln().abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_ratio_out_of_reach_gives_the_largest_there_is() {
        check(54.0, 1e-3, 30.0, 30.0);
    }
}
