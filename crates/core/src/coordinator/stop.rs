//! The rules by which a run stops.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::change::{ChangeRule, Scale};
use crate::types::{Clock, Instant};

/// When a run stops: as soon as one of the rules holds. At least one is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRules {
    /// The worst copy's objective over all data is at or below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// How many evaluations must hold `objective`.
    #[serde(default, skip_serializing_if = "Held::is_default")]
    pub held: Held,
    /// Every data center has finished this many clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocks: Option<u64>,
    /// The driver's clock has reached this time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The objective has settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeRule>,
}

/// The latest evaluations of which the mean is compared with a target. With one, a single low value meets it, which may be
/// noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Held(pub u64);

/// The rule that stopped a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// [`StopRules::objective`]: the target was reached.
    Objective,
    /// [`StopRules::change`]: the objective has settled.
    Converged,
    /// [`StopRules::clocks`]: the clocks were finished.
    Clocks,
    /// [`StopRules::seconds`]: the time has elapsed.
    Seconds,
    /// Training has diverged: the objective or an update of a worker is not finite.
    Diverged,
    /// The user has interrupted the run.
    Interrupted,
    /// The task of a worker has no more to do.
    Ended,
}

impl Default for Held {
    fn default() -> Self {
        Self(1)
    }
}

impl Held {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The mean of as many objectives, the latest first. `None` while there are fewer.
    pub fn mean(self, latest_first: impl Iterator<Item = f64>) -> Option<f64> {
        let Self(count) = self;
        let (mut sum, mut found) = (0.0, 0);
        for objective in latest_first.take(usize::try_from(count).unwrap_or(usize::MAX)) {
            sum += objective;
            found += 1;
        }
        (found > 0 && found == count).then(|| sum / found as f64)
    }
}

impl StopReason {
    /// The reason's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Objective => "objective",
            Self::Converged => "converged",
            Self::Clocks => "clocks",
            Self::Seconds => "seconds",
            Self::Interrupted => "interrupted",
            Self::Ended => "ended",
            Self::Diverged => "diverged",
        }
    }
}

impl StopRules {
    /// When the time has elapsed. `None` if it is not limited.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let seconds = self.seconds.filter(|seconds| *seconds < u32::MAX.into())?;
        Some(Instant::ZERO + Duration::from_secs_f64(seconds.max(0.0)))
    }

    /// Whether the latest evaluations hold the target, if there is one.
    pub fn is_reached(&self, latest_first: impl Iterator<Item = f64>) -> bool {
        let mean = || self.held.mean(latest_first);
        self.objective.is_some_and(|target| mean().is_some_and(|mean| mean <= target))
    }

    /// The place of the first evaluation with which the target is held, in objectives of a run from its start.
    pub fn first_reached(&self, objectives: &[f64]) -> Option<usize> {
        let holds = |last: &usize| self.is_reached(objectives[..=*last].iter().rev().copied());
        (0..objectives.len()).find(holds)
    }

    /// The rule that holds after the latest evaluation of `history`, if one does.
    pub(super) fn met(
        &self,
        now: Instant,
        history: &[(Clock, f64)],
        scale: Scale,
    ) -> Option<StopReason> {
        let (clock, objective) = *history.last()?;
        if !objective.is_finite() {
            return Some(StopReason::Diverged);
        }
        if self.is_reached(history.iter().rev().map(|(_, objective)| *objective)) {
            return Some(StopReason::Objective);
        }
        if self.change.is_some_and(|rule| rule.is_settled(now, history, scale)) {
            return Some(StopReason::Converged);
        }
        if self.clocks.is_some_and(|clocks| clock.0 >= clocks) {
            return Some(StopReason::Clocks);
        }
        self.deadline().filter(|at| now >= *at).map(|_| StopReason::Seconds)
    }
}

/// The target for a run that must reach the `objective` of another run. It is greater by a hundred-thousandth of the
/// objective's absolute value, since runs that add in another order differ by rounding. The target for 0 is 0.
pub fn target_of(objective: f64) -> f64 {
    objective + ROUNDING * objective.abs()
}

/// Whether the model after the drain holds the `target` that copies have met. It may lose a twentieth of what was learnt since
/// the worst evaluation of the run, or of the target, to the noise of one evaluation.
///
/// The drain adds the changes that are under way. Where links take longer than copies to their target, these are most of what
/// each data center has learnt, and their sum goes beyond what any copy has met.
pub fn holds_target(target: f64, evaluated: impl Iterator<Item = f64>, objective: f64) -> bool {
    let worst = evaluated.fold(f64::NEG_INFINITY, f64::max);
    objective <= target + LOST_MAX * (worst - target).max(target.abs())
}

const LOST_MAX: f64 = 0.05;

/// Far above what the order of single-precision sums changes, far below what one evaluation changes.
const ROUNDING: f64 = 1e-5;

#[cfg(test)]
mod tests {
    use super::super::change::ChangeBy;
    use super::*;

    fn check(rules: StopRules, objectives: &[f64], expect: Option<StopReason>) {
        let history: Vec<(Clock, f64)> = objectives
            .iter()
            .enumerate()
            .map(|(at, value)| (Clock(at as u64 + 1), *value))
            .collect();
        assert_eq!(rules.met(Instant::ZERO, &history, Scale::default()), expect, "{rules:?}");
    }

    #[test]
    fn the_first_rule_that_holds_ends_the_run() {
        let none = StopRules::default();
        let change = Some(ChangeRule { percent: 2.0, clocks: Some(2), by: ChangeBy::Endpoints });
        check(none, &[1.0, f64::NAN], Some(StopReason::Diverged));
        check(StopRules { objective: Some(0.5), ..none }, &[1.0, 0.5], Some(StopReason::Objective));
        let held = StopRules { objective: Some(0.5), held: Held(2), ..none };
        check(held, &[0.5], None);
        check(held, &[0.8, 0.4], None);
        check(held, &[0.4, 0.6], Some(StopReason::Objective));
        check(StopRules { clocks: Some(3), ..none }, &[1.0, 0.5], None);
        check(StopRules { clocks: Some(2), ..none }, &[1.0, 0.5], Some(StopReason::Clocks));
        check(StopRules { change, ..none }, &[1.0, 0.99], None);
        check(StopRules { change, ..none }, &[1.0, 0.99, 0.985], Some(StopReason::Converged));
        check(StopRules { change, ..none }, &[1.0, 0.9, 0.8], None);
    }

    #[test]
    fn a_model_that_has_lost_what_its_copies_had_learnt_holds_no_target() {
        let holds_target =
            |target, worst, objective| holds_target(target, [worst].into_iter(), objective);
        assert!(holds_target(0.6, 2.6, 0.6) && holds_target(0.6, 2.6, 0.69));
        assert!(!holds_target(0.6, 2.6, 0.71) && !holds_target(0.6, 2.6, 6.7));
        // The first evaluation may meet a target. Objectives can be below 0.
        assert!(holds_target(0.6, 0.5, 0.62) && !holds_target(0.6, 0.5, 0.64));
        assert!(holds_target(-10.0, -9.0, -9.6) && !holds_target(-10.0, -9.0, -9.4));
        assert!(!holds_target(0.6, 2.7, f64::NAN));
    }

    #[test]
    fn a_target_leaves_room_for_rounding_whatever_its_sign() {
        for (reached, rounded, short) in [
            (0.7, 0.700_001, 0.7001),
            (4e6, 4_000_020.0, 4_000_100.0),
            (0.0, 0.0, f64::MIN_POSITIVE),
            (-0.7, -0.699_999, -0.6999),
            (-4e6, -3_999_980.0, -3_999_900.0),
        ] {
            let rules = StopRules { objective: Some(target_of(reached)), ..StopRules::default() };
            check(rules, &[reached], Some(StopReason::Objective));
            check(rules, &[rounded], Some(StopReason::Objective));
            check(rules, &[short], None);
        }
    }
}
