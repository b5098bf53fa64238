//! The guard against skew: requests more or less tightness after measurements of the copies that travel (Hsieh et al., ICML
//! 2020, section 7).

use serde::{Deserialize, Serialize};

use crate::node::Probed;
use crate::persist;
use crate::sync::GuardConfig;
use crate::types::{Clock, Tightness};

/// One server's part of the guard.
#[derive(Debug)]
pub(super) struct Guard {
    config: GuardConfig,
    /// The largest tightness that may be requested.
    most: Tightness,
    /// The tightness that this data center requests after its measurements.
    wish: Tightness,
    /// The tightness that all data centers apply, and since which clock of this data center.
    tightness: (Tightness, Clock),
    /// The accuracy loss of the last copy that was taken under this tightness.
    last_lost: Option<f64>,
    /// The number of consecutive measurements far below the bound, since the last loosening.
    quiet: u32,
    /// The number of such measurements after which the guard requests less tightness.
    patience: u32,
    stats: GuardStats,
}

/// The counters of a server's guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardStats {
    /// The size of the copies that this server sent, in bytes.
    pub bytes: u64,
    /// The number of copies measured in this data center.
    pub probes: u64,
    /// The number of measurements above the bound.
    pub alarms: u64,
    /// The largest accuracy loss of a copy measured here, as a share of the initial model's loss.
    pub loss_max: f64,
}

impl Guard {
    /// A guard that requests at most `most`.
    pub(super) fn new(config: &GuardConfig, most: Tightness) -> Self {
        Self {
            config: config.clone(),
            most,
            wish: Tightness::NONE,
            tightness: (Tightness::NONE, Clock::ZERO),
            last_lost: None,
            quiet: 0,
            patience: PATIENCE,
            stats: GuardStats::default(),
        }
    }

    /// Records the tightness that all data centers apply at a worker's read at `clock`.
    pub(super) fn on_read(&mut self, clock: Clock, tightness: Tightness) {
        if tightness != self.tightness.0 {
            self.tightness = (tightness, clock);
            self.last_lost = None;
            self.quiet = 0;
        }
    }

    /// Handles a measurement that a worker was asked for, and returns the tightness that this data center requests from here
    /// on.
    ///
    /// A copy that was taken before the present tightness had an effect does not count. Otherwise the mean of two
    /// consecutive measurements counts, because a hundred examples have a large variance. A single measurement far
    /// above the bound counts by itself.
    pub(super) fn on_probed(&mut self, probed: &Probed) -> Tightness {
        let lost = probed.lost();
        self.stats.probes += 1;
        self.stats.loss_max = self.stats.loss_max.max(lost);
        let (now, since) = self.tightness;
        let settled = now == Tightness::NONE || probed.clock.ahead_of(since) >= self.config.every;

        if !settled {
            return self.wish;
        }
        let bound = self.config.bound;
        let mean = self.last_lost.replace(lost).map(|last| f64::midpoint(last, lost));
        let counts = if lost > FAR * bound { Some(lost) } else { mean };

        match counts {
            Some(lost) if lost > bound => {
                self.stats.alarms += 1;
                let steps = (lost / bound).log(FAR).ceil().clamp(1.0, f64::from(STEPS_MAX));
                self.wish = self.wish.max(now.tighter(steps as u8).min(self.most));
                self.patience = (self.patience * 2).min(PATIENCE_MAX);
                self.quiet = 0;
            }
            Some(lost) if lost < bound / FAR => {
                self.quiet += 1;
                if self.quiet >= self.patience {
                    self.wish = self.wish.min(now).looser();
                    self.quiet = 0;
                }
            }
            _ => {}
        }

        self.wish
    }

    /// The counters, but for the bytes of the copies.
    pub(super) fn stats(&self) -> GuardStats {
        self.stats
    }
}

persist! {
    impl Persist<()> for Guard {
        fn walk(
            Self { config: _, most: _, wish, tightness, last_lost, quiet, patience, stats },
            walk,
            (),
        ) {
            walk.record("wish", wish)?;
            walk.record("tightness", tightness)?;
            walk.record("last_lost", last_lost)?;
            walk.record("quiet", quiet)?;
            walk.record("patience", patience)?;
            walk.record("stats", stats)
        }
    }
}

/// The factor above or below the bound that counts as far. It is the factor of one step of tightness.
const FAR: f64 = 4.0;

/// The largest number of steps that one alarm requests.
const STEPS_MAX: u8 = 3;

/// The number of measurements far below the bound before the guard first loosens. Each alarm doubles it, so that the
/// guard returns ever more rarely to a tightness that has caused an alarm.
const PATIENCE: u32 = 4;
const PATIENCE_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DcId;

    fn guard() -> Guard {
        let config = GuardConfig { every: 10, bound: 0.1, examples: 1 };
        Guard::new(&config, Tightness::MOST)
    }

    fn probed(clock: u64, lost: f64) -> Probed {
        Probed {
            of: DcId(1),
            clock: Clock(clock),
            away: 1.0 + 2.0 * lost,
            home: 1.0,
            untrained: 2.0,
        }
    }

    /// What is wished for after a worker has measured a copy.
    fn answer(guard: &mut Guard, clock: u64, lost: f64) -> Tightness {
        guard.on_probed(&probed(clock, lost))
    }

    /// What is wished for after measurements, while all become as tight as is wished at clock 10.
    fn wishes(measured: &[(u64, f64)]) -> Vec<u8> {
        let mut guard = guard();
        let wish = |(clock, lost): &(u64, f64)| {
            let wish = answer(&mut guard, *clock, *lost);
            if *clock == 10 {
                guard.on_read(Clock(12), wish);
            }
            wish.steps()
        };
        measured.iter().map(wish).collect()
    }

    #[test]
    fn one_far_alarm_counts_and_two_near_ones_do_and_one_that_scatters_does_not() {
        assert_eq!(wishes(&[(10, 0.15), (20, 0.02), (30, 0.15)]), [0, 0, 0]);
        assert_eq!(wishes(&[(10, 0.08), (20, 0.15)]), [0, 1]);
        assert_eq!(wishes(&[(10, 0.5)]), [2]);
        assert_eq!(wishes(&[(10, 100.0)]), [3]);
        assert_eq!(wishes(&[(10, f64::NAN)]), [2], "a copy that has diverged");
    }

    #[test]
    fn what_was_taken_before_the_tightening_shows_is_not_held_against_it() {
        assert_eq!(wishes(&[(10, 0.5), (10, 0.5), (20, 0.5), (30, 0.5)]), [2, 2, 2, 4]);
    }

    #[test]
    fn a_bound_that_was_passed_again_is_tried_again_more_rarely() {
        let mut guard = guard();
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(answer(&mut guard, u64::MAX, 1.0).steps(), 2);
            guard.on_read(Clock(12), Tightness::NONE.tighter(2));
            let mut wait = 0;
            while answer(&mut guard, u64::MAX, 0.0).steps() == 2 {
                wait += 1;
            }
            waits.push(wait + 1);
            guard.on_read(Clock(12), Tightness::NONE.tighter(1));
            while answer(&mut guard, u64::MAX, 0.0).steps() == 1 {}
            guard.on_read(Clock(12), Tightness::NONE);
        }
        // The first measurement alone does not count.
        assert_eq!(waits, [9, 17, 33, 65, 65, 65]);
    }
}
