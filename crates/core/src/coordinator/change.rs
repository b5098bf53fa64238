//! When an objective has settled: it changes little any more, and what it changes is not noise, a rise, or a beginning.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::types::{Clock, Instant};

/// The objective changes by less than `percent` of its size in `clocks` clocks.
///
/// By a trend its size is the lesser of the objective itself and of how far it is below that of a predictor that has learnt
/// nothing: a log loss is large however much has been learnt, where answers are uncertain. It is at least a tenth of the
/// objective, so that a run that learns next to nothing ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeRule {
    /// The largest change in percent: above 0 and at most 100.
    pub percent: f64,
    /// The number of clocks in which it may change as much, at least 1. Left out, [`CLOCKS`](Self::CLOCKS), and by a trend
    /// at least those of one pass over the data: a clock of many data is a small step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clocks: Option<u64>,
    /// How the change is found.
    pub by: ChangeBy,
}

/// How the change of an objective is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeBy {
    /// By the line through the evaluations of the last 2 × `clocks` clocks, with its uncertainty, and not before
    /// a pass and some round trips ([`Scale`]).
    #[default]
    Trend,
    /// By two evaluations, the last one and the one `clocks` clocks before: the rule by which the paper calls a run
    /// converged (Hsieh et al., NSDI 2017).
    Endpoints,
}

/// What is little in a run. Before a pass and some round trips what an objective has changed says nothing yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scale {
    /// Clocks of one pass over the data.
    pub clocks: u64,
    /// Several round trips over the slowest link, within which no data center has received an answer to its updates.
    pub time: Duration,
    /// The objective of a predictor that has learnt nothing, where one is known.
    pub trivial: Option<f64>,
}

/// A line through evaluations: objectives by clocks.
struct Trend {
    mean: f64,
    /// The change of the objective in a clock.
    slope: f64,
    /// The standard errors of the slope and of the mean.
    slope_error: f64,
    mean_error: f64,
}

impl Default for ChangeRule {
    fn default() -> Self {
        Self { percent: 2.0, clocks: None, by: ChangeBy::Trend }
    }
}

impl ChangeRule {
    /// Clocks that are left out are at least so many.
    pub const CLOCKS: u64 = 10;

    /// The number of clocks in which the objective may change by `percent`, where a pass over the data takes so many.
    pub fn clocks(&self, pass: u64) -> u64 {
        match (self.clocks, self.by) {
            (Some(clocks), _) => clocks,
            (None, ChangeBy::Trend) => pass.max(Self::CLOCKS),
            (None, ChangeBy::Endpoints) => Self::CLOCKS,
        }
    }

    /// Whether the objective has settled by the latest evaluation of `history`, at `now`.
    pub(super) fn is_settled(&self, now: Instant, history: &[(Clock, f64)], scale: Scale) -> bool {
        match self.by {
            ChangeBy::Trend => self.trend_is_settled(now, history, scale),
            ChangeBy::Endpoints => self.endpoints_are_settled(history, self.clocks(scale.clocks)),
        }
    }

    fn endpoints_are_settled(&self, history: &[(Clock, f64)], clocks: u64) -> bool {
        let Some(&(clock, objective)) = history.last() else { return false };
        let earlier = history.iter().rev().find(|(at, _)| clock.ahead_of(*at) >= clocks);
        earlier.is_some_and(|(_, before)| {
            let change = (before - objective).abs();
            change == 0.0 || change < self.percent / 100.0 * before.abs()
        })
    }

    /// Whether the line through the latest evaluations is flat beyond doubt, does not rise, and is not above what the run
    /// had reached before.
    fn trend_is_settled(
        &self,
        now: Instant,
        history: &[(Clock, f64)],
        Scale { clocks: pass, time, trivial }: Scale,
    ) -> bool {
        let Some(&(last, _)) = history.last() else { return false };
        if last.0 < pass || now.since(Instant::ZERO) < time {
            return false;
        }

        let clocks = self.clocks(pass);
        let window = 2 * clocks;
        let recent = history.iter().rev().take_while(|(at, _)| last.ahead_of(*at) <= window);
        let count = recent.count().max(EVALUATIONS_MIN);
        let Some(start) = history.len().checked_sub(count) else { return false };
        // Where evaluations are few, or the run has only begun, they are of too few clocks.
        if last.ahead_of(history[start].0) < window - window / 4 {
            return false;
        }
        let Some(trend) = Trend::through(&history[start..]) else { return false };

        let allowed = self.percent / 100.0 * size(trend.mean, trivial);
        let change = trend.slope.abs() + CERTAINTY * trend.slope_error;
        // An objective of 0 changes by nothing, of which no share is less.
        let is_flat = change == 0.0 || change * (clocks as f64) < allowed;
        let does_rise = trend.slope > CERTAINTY * trend.slope_error;
        if !is_flat || does_rise {
            return false;
        }

        let mean = |before: &[(Clock, f64)]| {
            before.iter().map(|(_, objective)| objective).sum::<f64>() / before.len() as f64
        };
        let lowest = history[..start].windows(count).map(mean).fold(f64::INFINITY, f64::min);
        trend.mean - CERTAINTY * trend.mean_error <= lowest + allowed
    }
}

/// What changes of an objective are measured against.
fn size(objective: f64, trivial: Option<f64>) -> f64 {
    let most = objective.abs();
    trivial.map_or(most, |trivial| (trivial - objective).max(LEAST_SIZE * most).min(most))
}

impl Trend {
    /// The least-squares line through at least three evaluations at different clocks.
    fn through(evaluations: &[(Clock, f64)]) -> Option<Self> {
        let count = evaluations.len() as f64;
        if evaluations.len() < 3 {
            return None;
        }
        let mean_clock = evaluations.iter().map(|(at, _)| at.0 as f64).sum::<f64>() / count;
        let mean = evaluations.iter().map(|(_, objective)| objective).sum::<f64>() / count;

        let (mut spread, mut together) = (0.0, 0.0);
        for (at, objective) in evaluations {
            let away = at.0 as f64 - mean_clock;
            spread += away * away;
            together += away * (objective - mean);
        }
        if spread == 0.0 {
            return None;
        }
        let slope = together / spread;

        let residual =
            |(at, objective): &(Clock, f64)| objective - mean - slope * (at.0 as f64 - mean_clock);
        let squares: f64 = evaluations.iter().map(|at| residual(at).powi(2)).sum();
        let variance = squares / (count - 2.0);

        Some(Self {
            mean,
            slope,
            slope_error: (variance / spread).sqrt(),
            mean_error: (variance / count).sqrt(),
        })
    }
}

/// Evaluations below which a line through them says little about its own uncertainty.
const EVALUATIONS_MIN: usize = 4;

/// The share of an objective that its size is at least.
const LEAST_SIZE: f64 = 0.1;

/// Standard errors on each side of an estimate within which the true value nearly always is.
const CERTAINTY: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the rule holds at each clock from 1 on, for objectives at these clocks.
    fn settled(objective: impl Fn(u64) -> f64, scale: Scale) -> Vec<bool> {
        let rule = ChangeRule { percent: 2.0, clocks: Some(10), by: ChangeBy::Trend };
        let mut history = Vec::new();
        let mut at = |clock: u64| {
            history.push((Clock(clock), objective(clock)));
            let now = Instant::ZERO + Duration::from_secs(clock);
            rule.is_settled(now, &history, scale)
        };
        (1..=400).map(&mut at).collect()
    }

    /// The first clock at which the rule holds.
    fn settles(objective: impl Fn(u64) -> f64, scale: Scale) -> Option<u64> {
        let first = settled(objective, scale).iter().position(|is_settled| *is_settled)?;
        Some(first as u64 + 1)
    }

    /// An objective that loses one percent in ten clocks is far from settled where a pass takes a hundred.
    #[test]
    fn clocks_that_are_left_out_are_those_of_a_pass() {
        let rule = |clocks, by| ChangeRule { clocks, by, ..ChangeRule::default() };
        let history: Vec<(Clock, f64)> =
            (1..=400).map(|at| (Clock(at), (-0.001 * at as f64).exp())).collect();
        let now = Instant::ZERO + Duration::from_secs(400);
        let is_settled = |rule: ChangeRule, pass| {
            rule.is_settled(now, &history, Scale { clocks: pass, ..Scale::default() })
        };

        assert!(is_settled(rule(None, ChangeBy::Trend), 1));
        assert!(!is_settled(rule(None, ChangeBy::Trend), 100));
        assert!(is_settled(rule(Some(10), ChangeBy::Trend), 100));
        assert!(is_settled(rule(None, ChangeBy::Endpoints), 100));
    }

    /// A value between -1 and 1 that differs from clock to clock without a pattern.
    fn noise(clock: u64) -> f64 {
        let mixed = clock.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) as f64 / u64::MAX as f64 * 2.0 - 1.0
    }

    fn falls(clock: u64) -> f64 {
        1.0 + (-(clock as f64) / 30.0).exp()
    }

    #[test]
    fn an_objective_that_falls_to_a_floor_settles_near_it() {
        let at = settles(falls, Scale::default()).expect("it settles");
        assert!((falls(at) - 1.0) < 0.1, "clock {at}");
        let noisy = settles(|clock| falls(clock) + 0.005 * noise(clock), Scale::default());
        assert!(noisy.is_some_and(|noisy| falls(noisy) < 1.1), "{noisy:?}");
    }

    /// The log loss of words falls from 8 to 7, of which a model without topics has 8.
    #[test]
    fn changes_count_by_what_has_been_learnt() {
        let words = |clock: u64| 6.0 + falls(clock);
        let of = |trivial| settles(words, Scale { trivial, ..Scale::default() });
        let (by_itself, by_learning) = (of(None).unwrap(), of(Some(8.0)).unwrap());
        assert!(words(by_itself) > 7.08, "clock {by_itself}");
        assert!(words(by_learning) < 7.04, "clock {by_learning}");

        // One that has next to nothing to learn ends as soon as one that changes by a tenth as much.
        assert!(of(Some(7.0)).is_some());
        // An objective that is itself small is measured by itself.
        let fits = |clock: u64| falls(clock) - 0.99;
        let of = |trivial| settles(fits, Scale { trivial, ..Scale::default() });
        assert_eq!(of(Some(1.0)), of(None));
    }

    #[test]
    fn noise_and_oscillation_are_not_a_settled_objective() {
        let oscillates = |clock: u64| if clock.is_multiple_of(2) { 0.5 } else { 1.6 };
        assert_eq!(settles(oscillates, Scale::default()), None);
        assert_eq!(settles(|clock| 1.0 + 0.2 * noise(clock), Scale::default()), None);
    }

    #[test]
    fn a_rise_is_not_a_settled_objective() {
        let turns = |clock: u64| if clock < 20 { 2.0 } else { 1.0 + 0.001 * clock as f64 };
        assert!(settled(turns, Scale::default())[45..].iter().all(|is_settled| !is_settled));
        let jumps = |clock: u64| if clock < 60 { falls(clock) } else { 1.6 };
        let before = settles(falls, Scale::default()).expect("it settles");
        assert!(before > 60, "the objective is still falling at clock 60");
        assert_eq!(settles(jumps, Scale::default()), None);
    }

    #[test]
    fn nothing_settles_before_a_pass_and_some_round_trips() {
        let pass = Scale { clocks: 200, ..Scale::default() };
        assert_eq!(settles(falls, pass), Some(200));
        let trips = Scale { time: Duration::from_secs(250), ..Scale::default() };
        assert_eq!(settles(falls, trips), Some(250));
    }
    #[test]
    fn an_objective_of_nothing_settles() {
        let nothing = |clock: u64| if clock < 50 { 1.0 / clock as f64 } else { 0.0 };
        for trivial in [None, Some(0.7)] {
            let at = settled(nothing, Scale { trivial, ..Scale::default() });
            assert!(!at[40] && at[399], "{trivial:?}");
        }
        let rule = ChangeRule { by: ChangeBy::Endpoints, ..ChangeRule::default() };
        let history: Vec<(Clock, f64)> = (0..=20).map(|at| (Clock(at), 0.0)).collect();
        assert!(rule.is_settled(Instant::ZERO, &history, Scale::default()));
    }
}
