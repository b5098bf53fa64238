//! Calibration: the bandwidth scale at which BSP is slowed down by a WAN as much as is asked for.
//!
//! A model with a thousandth of the parameters over links with a thousandth of the bandwidth waits as long as the large
//! model over the real links. All bandwidths are scaled equally, of LAN cards and of WAN links, so that the ratio of a
//! WAN to a LAN stays as measured. One number is fitted for each application and WAN: the ratio of BSP's time per clock
//! over the WAN to that on the LAN becomes the one asked for, such as the paper's. No other model has run by then.

use gaia_config::Plan;
use gaia_core::coordinator::StopRules;
use gaia_telemetry::Progress;

/// A bandwidth scale, and the ratio that it gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The scale.
    pub scale: f64,
    /// BSP's time per clock over the WAN, divided by that on the LAN.
    pub ratio: f64,
    /// Whether the ratio is the one asked for.
    pub reach: Reach,
}

/// Whether a ratio can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It was found.
    Found,
    /// Slower links do not increase the ratio to it: only the ratio of the two networks matters there.
    TooHigh,
    /// Faster links do not decrease the ratio to it: round trips take that long.
    TooLow,
}

/// The ratio of BSP's time per clock over a plan's WAN to that with the same machines on one LAN.
///
/// `probe` executes a short run and returns its evaluations.
///
/// # Errors
/// The first error of `probe`.
pub fn bsp_over_lan<E>(
    plan: &Plan,
    mut probe: impl FnMut(&Plan) -> Result<Vec<Progress>, E>,
) -> Result<f64, E> {
    let over_wan = seconds_per_clock(plan, &mut probe)?;
    Ok(over_wan / seconds_per_clock(&plan.on_lan(), &mut probe)?)
}

/// The time per clock of a short run in seconds, without its first clocks, which do not wait for a clock before.
fn seconds_per_clock<E>(
    plan: &Plan,
    probe: &mut impl FnMut(&Plan) -> Result<Vec<Progress>, E>,
) -> Result<f64, E> {
    let mut plan = plan.clone();
    plan.evaluate.every = SKIPPED;
    plan.stop = StopRules { clocks: Some(SKIPPED + COUNTED), ..StopRules::default() };
    let progress = probe(&plan)?;
    let first = progress.iter().find(|at| at.clock >= SKIPPED);
    let (Some(first), Some(last)) = (first, progress.last()) else { return Ok(f64::NAN) };
    Ok((last.time_s - first.time_s) / last.clock.saturating_sub(first.clock) as f64)
}

/// Finds the scale at which `ratio_at` is `target`. The ratio must decrease with the scale.
///
/// `ratio_at` is `None` at a scale at which some link is slower than any link may be. If no scale reaches the target,
/// the result is the closest one that was tried.
///
/// # Errors
/// The first error of `ratio_at`.
pub fn fit<E>(
    target: f64,
    mut ratio_at: impl FnMut(f64) -> Result<Option<f64>, E>,
) -> Result<Fit, E> {
    let mut error_at = |log_scale: f64| -> Result<Option<f64>, E> {
        Ok(ratio_at(log_scale.exp())?.map(|ratio| (ratio / target).ln()))
    };

    let bracket = Bracket::around(START.ln(), &mut error_at)?;
    let best = match bracket.closest_if_open() {
        Some(closest) => closest,
        None => bracket.root(&mut error_at)?,
    };

    let reach = match best.error {
        error if error.abs() < NEAR => Reach::Found,
        ..0.0 => Reach::TooHigh,
        _ => Reach::TooLow,
    };
    Ok(Fit { scale: best.log_scale.exp(), ratio: target * best.error.exp(), reach })
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
    fn around<E>(
        start: f64,
        error_at: &mut impl FnMut(f64) -> Result<Option<f64>, E>,
    ) -> Result<Self, E> {
        let mut start = start;
        let mut first = error_at(start)?;
        for _ in 0..STEPS_MAX {
            if first.is_some() {
                break;
            }
            start += STEP.ln();
            first = error_at(start)?;
        }
        let first = Tried { log_scale: start, error: first.unwrap_or(f64::NAN) };
        let mut bracket = Self { slow: first, fast: first };
        bracket.extend_slow(error_at)?;
        bracket.extend_fast(error_at)?;
        Ok(bracket)
    }

    fn extend_slow<E>(
        &mut self,
        error_at: &mut impl FnMut(f64) -> Result<Option<f64>, E>,
    ) -> Result<(), E> {
        let mut step = STEP.ln();
        for _ in 0..STEPS_MAX {
            if self.slow.error >= 0.0 {
                break;
            }
            let log_scale = self.slow.log_scale - step;
            // No link may be that slow: the scale is closer.
            let Some(error) = error_at(log_scale)? else {
                step /= 2.0;
                continue;
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

    fn extend_fast<E>(
        &mut self,
        error_at: &mut impl FnMut(f64) -> Result<Option<f64>, E>,
    ) -> Result<(), E> {
        for _ in 0..STEPS_MAX {
            if self.fast.error <= 0.0 {
                break;
            }
            let log_scale = self.fast.log_scale + STEP.ln();
            // No link may be that fast.
            let Some(error) = error_at(log_scale)? else { break };
            self.slow = self.fast;
            self.fast = Tried { log_scale, error };
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
    fn root<E>(
        &self,
        error_at: &mut impl FnMut(f64) -> Result<Option<f64>, E>,
    ) -> Result<Tried, E> {
        let Self { slow, fast } = *self;
        let mut best = if slow.error.abs() < fast.error.abs() { slow } else { fast };
        let (mut slow, mut slow_weight) = (slow.log_scale, slow.error);
        let (mut fast, mut fast_weight) = (fast.log_scale, fast.error);

        for _ in 0..STEPS_MAX {
            if best.error.abs() < TOLERANCE {
                break;
            }
            let middle = (slow * fast_weight - fast * slow_weight) / (fast_weight - slow_weight);
            let Some(error) = error_at(middle)? else { break };
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
/// The relative error up to which a ratio is the one asked for.
const NEAR: f64 = 0.02;
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
        let fit = fit(target, |scale| Ok::<_, ()>(Some(ratio(scale, work, wan)))).unwrap();
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
        let found =
            fit(target, |scale| Ok::<_, ()>((scale >= slowest).then(|| ratio(scale, 1e-3, 60.0))));
        let found = found.unwrap();
        assert!((found.ratio / target).ln().abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_ratio_out_of_reach_gives_the_largest_there_is() {
        check(54.0, 1e-3, 30.0, 30.0);
        let fit = fit(54.0, |scale| Ok::<_, ()>(Some(ratio(scale, 1e-3, 30.0)))).unwrap();
        assert_eq!(fit.reach, Reach::TooHigh);
    }

    /// With round trips of three seconds no bandwidth makes a clock shorter than four.
    #[test]
    fn a_ratio_below_that_of_the_round_trips_gives_the_least_there_is() {
        let with_trips = |scale| ratio(scale, 1e-3, 60.0) + 3.0;
        let fit = fit(3.5, |scale| Ok::<_, ()>(Some(with_trips(scale)))).unwrap();
        assert_eq!(fit.reach, Reach::TooLow);
        assert!((fit.ratio / 4.0).ln().abs() < 0.02, "{fit:?}");
    }
}
