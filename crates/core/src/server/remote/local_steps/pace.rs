//! What clocks and rounds take, what rounds correct, and how many clocks a round may overlap.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::sync::{LocalStepsConfig, Overlap};
use crate::types::Instant;

/// What one data center measures of its clocks and rounds.
///
/// Each data center decides its overlap by itself: the overlap says how late a step may be added to the copy, and no
/// other data center notices it.
#[derive(Debug)]
pub(super) struct Pace {
    configured: Overlap,
    /// Whether steps show what this data center has done alone. Sparse ones do not: they leave a part of what all have done to
    /// later rounds, and beside so short a step every correction is long.
    shows_correction: bool,
    measured: Measured,
    /// The overlap of the round in progress, by fragment.
    overlaps: Vec<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Measured {
    /// When the data center's clock last advanced.
    advanced: Option<Instant>,
    /// The lengths of the last clocks, the newest last.
    clocks: VecDeque<Duration>,
    /// When the round in progress began, by fragment.
    begun: Vec<Option<Instant>>,
    /// The lengths of the last rounds, the newest last.
    rounds: VecDeque<Duration>,
    /// The squared lengths of the corrections and of the steps of the round in progress, by fragment.
    squares: Vec<[f64; 2]>,
    /// The corrections of the last rounds divided by their steps, the newest last.
    corrections: VecDeque<f64>,
}

impl Pace {
    pub(super) fn new(config: &LocalStepsConfig, fragments: usize) -> Self {
        let overlap = match config.overlap {
            Overlap::Auto => 0,
            Overlap::Clocks(clocks) => clocks,
        };
        Self {
            configured: config.overlap,
            shows_correction: !config.has_sparse_totals(),
            measured: Measured {
                begun: vec![None; fragments],
                squares: vec![[0.0; 2]; fragments],
                ..Measured::default()
            },
            overlaps: vec![overlap; fragments],
        }
    }

    /// The data center's clock has advanced.
    pub(super) fn on_clock(&mut self, now: Instant) {
        let measured = &mut self.measured;
        if let Some(before) = measured.advanced.replace(now) {
            remember(&mut measured.clocks, now.since(before));
        }
    }

    /// A fragment's round begins, `steps` clocks before the next one. Decides its overlap.
    pub(super) fn on_begun(&mut self, now: Instant, fragment: usize, steps: u64) {
        self.measured.begun[fragment] = Some(now);
        if self.configured == Overlap::Auto {
            self.overlaps[fragment] = self.least_overlap(steps);
        }
    }

    /// Whether the overlap depends on corrections, so that they are worth a pass over each step.
    pub(super) fn measures_corrections(&self) -> bool {
        self.configured == Overlap::Auto && self.shows_correction
    }

    /// A part of a fragment's step was added to the agreed values, with this squared length.
    pub(super) fn on_step(&mut self, fragment: usize, square: f64) {
        self.measured.squares[fragment][1] += square;
    }

    /// A step has replaced this data center's own part in the copy of a block, which has moved the copy by this squared
    /// length.
    pub(super) fn on_corrected(&mut self, fragment: usize, square: f64) {
        self.measured.squares[fragment][0] += square;
    }

    /// A fragment's round is finished.
    pub(super) fn on_finished(&mut self, now: Instant, fragment: usize) {
        let measured = &mut self.measured;
        let [correction, step] = std::mem::take(&mut measured.squares[fragment]);
        if let Some(begun) = measured.begun[fragment].take() {
            remember(&mut measured.rounds, now.since(begun));
            let correction = (correction / step.max(f64::MIN_POSITIVE)).sqrt();
            // A copy that has diverged is corrected without bound.
            let correction = if correction.is_nan() { f64::INFINITY } else { correction };
            remember(&mut measured.corrections, correction);
        }
    }

    /// How many clocks training continues while the fragment's round is in progress.
    pub(super) fn overlap(&self, fragment: usize) -> u64 {
        self.overlaps[fragment]
    }

    /// The time of a number of rounds with the clocks before them, `steps` in each, as this data center has measured them.
    pub(super) fn typical_rounds(&self, rounds: u32, steps: u64) -> Duration {
        let measured = &self.measured;
        let Some((clock, round)) = typical(&measured.clocks).zip(typical(&measured.rounds)) else {
            return UNMEASURED;
        };
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        round.saturating_add(clock.saturating_mul(steps)).saturating_mul(rounds)
    }

    /// The least overlap that hides a round: as many clocks as it takes. 0 until rounds are measured, and where waiting
    /// for them costs less than clocks of overlap do.
    ///
    /// Clocks of an overlap train on a copy that has this data center's own part in place of the agreed step. On even data
    /// the two are alike, and such clocks are worth nearly as much as others. On skewed data they are not. Then a step
    /// corrects the copy by a multiple of its own length, and even one clock of overlap can double the clocks that training
    /// needs. So overlap is chosen where steps correct little, and where waiting would take most of the time.
    fn least_overlap(&self, steps: u64) -> u64 {
        let measured = &self.measured;
        let Some((clock, round)) = typical(&measured.clocks).zip(typical(&measured.rounds)) else {
            return 0;
        };
        let clocks = round.as_secs_f64() / clock.as_secs_f64().max(1e-9);
        let is_alike =
            self.shows_correction && typical(&measured.corrections) <= Some(CORRECTION_MAX);
        let wait_max = if is_alike { WAIT_MAX } else { WAIT_MAX_OF_SKEWED };

        if clocks <= wait_max * steps as f64 {
            return 0;
        }
        (clocks.ceil() as u64).min(steps.saturating_sub(1))
    }
}

persist! {
    impl Persist<()> for Pace {
        fn walk(Self { configured: _, shows_correction: _, measured, overlaps }, walk, ()) {
            let fragments = overlaps.len();
            walk.record_that("pace", measured, |found, _| {
                let remembered = [found.clocks.len(), found.rounds.len(), found.corrections.len()];
                found.begun.len() == fragments
                    && found.squares.len() == fragments
                    && remembered.iter().all(|count| *count <= REMEMBERED)
            })?;
            walk.record_that("overlaps", overlaps, |found, _| found.len() == fragments)
        }
    }
}

fn remember<T>(last: &mut VecDeque<T>, newest: T) {
    last.push_back(newest);
    if last.len() > REMEMBERED {
        last.pop_front();
    }
}

/// The lower median. One clock in each round may include a wait, and with two clocks a round the shorter has none.
fn typical<T: Copy + PartialOrd>(last: &VecDeque<T>) -> Option<T> {
    let mut last: Vec<T> = last.iter().copied().collect();
    last.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    last.get(last.len().saturating_sub(1) / 2).copied()
}

/// The longest correction of a copy, in lengths of the step, at which data are not skewed. Measured over eleven data
/// centers: a perceptron 1.1 to 1.7 on even data and 8 to 12 with one class each, matrix factorisation 1.5 to 2.8, topics
/// about 1.
const CORRECTION_MAX: f64 = 2.5;
/// The time of a round, as a share of the clocks between two rounds, that is waited for.
const WAIT_MAX: f64 = 0.05;
/// The same on skewed data, and where it is not known whether they are.
const WAIT_MAX_OF_SKEWED: f64 = 2.0;
/// What is said to be the time of rounds before two clocks and a round are measured.
const UNMEASURED: Duration = Duration::from_secs(10);
/// The number of clocks and rounds that are remembered.
const REMEMBERED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// The overlap after some rounds of these lengths, in milliseconds, five clocks apart.
    fn overlap(clock: u64, round: u64, correction: f64, config: &LocalStepsConfig) -> u64 {
        let mut pace = Pace::new(config, 1);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut now = 0;
        for _ in 0..4 {
            for _ in 0..5 {
                now += clock;
                pace.on_clock(at(now));
            }
            pace.on_begun(at(now), 0, 5);
            pace.on_step(0, 1.0);
            pace.on_corrected(0, correction * correction);
            pace.on_finished(at(now + round), 0);
            // A data center that does not overlap waits.
            now += round.saturating_sub(clock * pace.overlap(0));
        }
        pace.on_begun(at(now), 0, 5);
        pace.overlap(0)
    }

    #[test]
    fn overlap_is_the_least_that_hides_a_round_and_none_where_a_round_costs_little() {
        let dense = LocalStepsConfig { density: 1.0, ..LocalStepsConfig::default() };
        let of = |round| overlap(100, round, 1.0, &dense);
        assert_eq!([of(20), of(30), of(100), of(101), of(250)], [0, 1, 1, 2, 3]);
        assert_eq!(of(10_000), 4, "never more than the clocks before the next round");
    }

    #[test]
    fn clocks_of_skewed_data_overlap_only_where_waiting_takes_most_of_the_time() {
        let dense = LocalStepsConfig { density: 1.0, ..LocalStepsConfig::default() };
        let sparse = LocalStepsConfig { density: 0.1, ..LocalStepsConfig::default() };
        let totals = LocalStepsConfig { total_density: 0.1, ..LocalStepsConfig::default() };
        let cases = [(8.0, &dense), (8.0, &sparse), (1.0, &sparse), (8.0, &totals), (1.0, &totals)];
        for (correction, config) in cases {
            let of = |round| overlap(100, round, correction, config);
            assert_eq!([of(20), of(250), of(1_000), of(1_001)], [0, 0, 0, 4]);
        }
    }

    #[test]
    fn an_overlap_that_is_configured_is_not_measured() {
        let overlap_of = Overlap::Clocks(2);
        let config = LocalStepsConfig { overlap: overlap_of, ..LocalStepsConfig::default() };
        assert_eq!([overlap(100, 10, 9.0, &config), overlap(100, 9_000, 1.0, &config)], [2, 2]);
    }
}
