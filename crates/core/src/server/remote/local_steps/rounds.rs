//! Which part of the shard has a round when, and where it is summed.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::persist;
use crate::server::blocks::block;
use crate::types::{Clock, DcId, Tightness};

/// The timetable of local steps: fragment after fragment, evenly over the clocks between two rounds of one.
///
/// Under a guard there is one fragment, and a round decides how far apart the two after it are: what data centers wish
/// for comes with their parts, so that each, being home to a block, has heard all of it once the round is over, and
/// none is over before all data centers have begun it. So all find the same without a further word.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub(super) parameters: usize,
    pub(super) data_centers: usize,
    /// Clocks between two rounds of a fragment.
    pub(super) steps: u64,
    /// At most as many as `steps`, so that no two rounds begin at one clock.
    pub(super) fragments: usize,
    /// Under a guard: for the last rounds when the one after each begins.
    pub(super) decided: Option<BTreeMap<Clock, Clock>>,
}

impl Rounds {
    /// The part of a fragment that a data center is home to.
    pub(super) fn block(&self, fragment: usize, home: DcId) -> Range<usize> {
        let start = self.parameters * fragment / self.fragments;
        let end = self.parameters * (fragment + 1) / self.fragments;
        let block = block(end - start, home.index(), self.data_centers);
        start + block.start..start + block.end
    }

    /// The clock at whose end a fragment has its first round.
    pub(super) fn first(&self, fragment: usize) -> Clock {
        Clock((self.steps * (fragment as u64 + 1)).div_ceil(self.fragments as u64))
    }

    /// When a fragment with a round at `clock` has the next one.
    pub(super) fn after(&self, clock: Clock) -> Clock {
        let decided = self.decided.as_ref().and_then(|decided| decided.get(&clock));
        decided.copied().unwrap_or_else(|| Clock(clock.0.saturating_add(self.steps)))
    }

    /// The round at `clock` is over, and all are to be so tight: under a guard that decides when the second round from
    /// here begins.
    pub(super) fn decide(&mut self, clock: Clock, tightness: Tightness) {
        let next = self.after(clock);
        if let Some(decided) = &mut self.decided {
            decided.retain(|round, _| *round >= clock);
            decided.insert(next, Clock(next.0.saturating_add(tightness.of_clocks(self.steps))));
        }
    }

    /// The fragment whose round may begin once a data center has finished `clock`.
    pub(super) fn fragment_at(&self, clock: Clock) -> Option<usize> {
        if self.decided.is_some() {
            return (self.fragments > 0).then_some(0);
        }
        let phase = clock.0.checked_sub(1)? % self.steps + 1;
        (0..self.fragments).find(|fragment| self.first(*fragment).0 == phase)
    }
}

persist! {
    impl Persist<()> for Rounds {
        fn walk(
            Self { parameters: _, data_centers: _, steps: _, fragments: _, decided },
            walk,
            (),
        ) {
            walk.record_that("decided", decided, |found, made| found.is_some() == made.is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_has_its_round_once_in_all_steps() {
        for (steps, fragments) in [(1, 1), (7, 1), (7, 3), (20, 4), (5, 5)] {
            let rounds =
                Rounds { parameters: 10, data_centers: 2, steps, fragments, decided: None };
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
            let rounds =
                Rounds { parameters, data_centers: 3, steps: 9, fragments: 4, decided: None };
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
