//! Which part of the shard has a round when, and where it is summed.

use std::ops::Range;

use super::drain::block;
use crate::types::{Clock, DcId};

/// The timetable of local steps: fragment after fragment, evenly over the clocks between two rounds of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) parameters: usize,
    pub(super) data_centers: usize,
    /// Clocks between two rounds of a fragment.
    pub(super) steps: u64,
    /// At most as many as `steps`, so that no two rounds begin at one clock.
    pub(super) fragments: usize,
}

impl Rounds {
    /// The part of a fragment that a data center is home to.
    pub(super) fn block(&self, fragment: usize, home: DcId) -> Range<usize> {
        let start = self.parameters * fragment / self.fragments;
        let end = self.parameters * (fragment + 1) / self.fragments;
        let block = block(end - start, home, self.data_centers);
        start + block.start..start + block.end
    }

    /// The clock at whose end a fragment has its first round.
    pub(super) fn first(&self, fragment: usize) -> Clock {
        Clock((self.steps * (fragment as u64 + 1)).div_ceil(self.fragments as u64))
    }

    /// When a fragment with a round at `clock` has the next one.
    pub(super) fn after(&self, clock: Clock) -> Clock {
        Clock(clock.0.saturating_add(self.steps))
    }

    /// How many rounds a fragment has had with the one at `clock`.
    pub(super) fn number(&self, fragment: usize, clock: Clock) -> u64 {
        clock.0.saturating_sub(self.first(fragment).0) / self.steps + 1
    }

    /// The fragment whose round begins once a data center has finished `clock`.
    pub(super) fn fragment_at(&self, clock: Clock) -> Option<usize> {
        let phase = clock.0.checked_sub(1)? % self.steps + 1;
        (0..self.fragments).find(|fragment| self.first(*fragment).0 == phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_has_its_round_once_in_all_steps() {
        for (steps, fragments) in [(1, 1), (7, 1), (7, 3), (20, 4), (5, 5)] {
            let rounds = Rounds { parameters: 10, data_centers: 2, steps, fragments };
            let mut next: Vec<Clock> = (0..fragments).map(|at| rounds.first(at)).collect();
            for clock in (0..=3 * steps).map(Clock) {
                if let Some(fragment) = rounds.fragment_at(clock) {
                    assert_eq!(next[fragment], clock);
                    next[fragment] = rounds.after(clock);
                }
            }
            assert!(next.iter().all(|next| next.0 > 3 * steps), "{steps} {fragments}");
            assert_eq!(rounds.first(fragments - 1), Clock(steps));
        }
    }

    #[test]
    fn blocks_cover_the_shard_once() {
        for parameters in [0, 1, 10, 101] {
            let rounds = Rounds { parameters, data_centers: 3, steps: 9, fragments: 4 };
            let mut end = 0;
            for (fragment, home) in (0..4).flat_map(|at| (0..3).map(move |home| (at, home))) {
                let block = rounds.block(fragment, DcId(home));
                assert_eq!(block.start, end);
                end = block.end;
            }
            assert_eq!(end, parameters);
        }
    }
}
