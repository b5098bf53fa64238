//! The schedule of rounds: which part of the shard has a round when, and the home of each block.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::persist;
use crate::server::blocks::Blocks;
use crate::types::{Clock, DcId, Tightness};

/// The schedule of rounds. The fragments' rounds are evenly distributed over the clocks between two rounds of a
/// fragment.
///
/// Under a guard there is one fragment, and a round decides the distance between the two rounds after it. Data centers
/// send their requests with their parts. Each data center is home to a block, so it has received all requests when the
/// round is finished, and no round is finished before all data centers have begun it. So all compute the same schedule
/// without further messages.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub(super) parameters: usize,
    pub(super) data_centers: usize,
    /// The blocks of each fragment.
    pub(super) blocks: Blocks,
    /// The number of clocks between two rounds of a fragment.
    pub(super) steps: u64,
    /// The number of fragments, at most `steps`, so that at most one round begins at a clock.
    pub(super) fragments: usize,
    /// Under a guard: for each of the last rounds, when the next one begins.
    pub(super) decided: Option<BTreeMap<Clock, Clock>>,
}

impl Rounds {
    /// The block of a fragment whose home is a data center.
    pub(super) fn block(&self, fragment: usize, home: DcId) -> Range<usize> {
        let start = self.parameters * fragment / self.fragments;
        let end = self.parameters * (fragment + 1) / self.fragments;
        let block = self.blocks.range(end - start, home);
        start + block.start..start + block.end
    }

    /// The clock after which a fragment has its first round.
    pub(super) fn first(&self, fragment: usize) -> Clock {
        Clock((self.steps * (fragment as u64 + 1)).div_ceil(self.fragments as u64))
    }

    /// The clock of a fragment's next round after the one at `clock`.
    pub(super) fn after(&self, clock: Clock) -> Clock {
        let decided = self.decided.as_ref().and_then(|decided| decided.get(&clock));
        decided.copied().unwrap_or_else(|| Clock(clock.0.saturating_add(self.steps)))
    }

    /// Finishes the round at `clock`, in which this tightness was requested. Under a guard this decides when the second
    /// round from here begins.
    pub(super) fn decide(&mut self, clock: Clock, tightness: Tightness) {
        let next = self.after(clock);
        if let Some(decided) = &mut self.decided {
            decided.retain(|round, _| *round >= clock);
            decided.insert(next, Clock(next.0.saturating_add(tightness.of_clocks(self.steps))));
        }
    }

    /// The fragment whose round begins when a data center has finished `clock`.
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
            Self { parameters: _, data_centers: _, blocks: _, steps: _, fragments: _, decided },
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

    fn rounds(parameters: usize, data_centers: usize, steps: u64, fragments: usize) -> Rounds {
        let blocks = Blocks::weighted((1..).take(data_centers));
        Rounds { parameters, data_centers, blocks, steps, fragments, decided: None }
    }

    #[test]
    fn every_fragment_has_its_round_once_in_all_steps() {
        for (steps, fragments) in [(1, 1), (7, 1), (7, 3), (20, 4), (5, 5)] {
            let rounds = rounds(10, 2, steps, fragments);
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
            let rounds = rounds(parameters, 3, 9, 4);
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
