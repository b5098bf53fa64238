//! The order in which a worker visits its examples.

use std::sync::Arc;

use rand::seq::SliceRandom;

use gaia_core::types::{Clock, Seed};

/// Mini-batches of one worker's examples: each pass visits every example once, freshly shuffled.
///
/// What a clock visits depends on the clock and the seed alone, so a worker that restarts visits the same.
pub(super) struct Visits {
    examples: Arc<[u32]>,
    batches_per_pass: u64,
    seed: Seed,
    order: Vec<u32>,
    /// The pass that `order` belongs to.
    pass: Option<u64>,
}

impl Visits {
    /// Cuts every pass into `batches_per_pass` batches, at least 1, that differ in size by at most one.
    pub(super) fn new(examples: Arc<[u32]>, batches_per_pass: u64, seed: Seed) -> Self {
        assert!(batches_per_pass > 0);
        Self { examples, batches_per_pass, seed, order: Vec::new(), pass: None }
    }

    /// Cuts every pass into batches of about `batch` examples, at least 1.
    pub(super) fn of_size(examples: Arc<[u32]>, batch: usize, seed: Seed) -> Self {
        let batches = examples.len().div_ceil(batch).max(1);
        Self::new(examples, batches as u64, seed)
    }

    /// At most `most` of the examples, evenly taken from all: the same ones whenever asked.
    pub(super) fn sample(&self, most: usize) -> Vec<u32> {
        let taken = self.examples.len().min(most);
        (0..taken).map(|at| self.examples[at * self.examples.len() / taken]).collect()
    }

    /// The examples of one clock.
    pub(super) fn batch(&mut self, clock: Clock) -> &[u32] {
        let pass = clock.0 / self.batches_per_pass;
        if self.pass != Some(pass) {
            self.order.clear();
            self.order.extend_from_slice(&self.examples);
            self.order.shuffle(&mut self.seed.nth(pass as usize).random());
            self.pass = Some(pass);
        }
        let batch = clock.0 % self.batches_per_pass;
        let cut = |batch: u64| {
            let cut = u128::from(batch) * self.order.len() as u128;
            (cut / u128::from(self.batches_per_pass)) as usize
        };
        &self.order[cut(batch)..cut(batch + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_visits_every_example_once_and_a_restart_visits_the_same() {
        for (examples, batches) in [(10, 3), (2, 5), (0, 4), (7, 7)] {
            let all: Arc<[u32]> = (0..examples).collect();
            let mut visits = Visits::new(all.clone(), batches, Seed(1));
            let mut passes = Vec::new();

            for pass in 0..3 {
                let mut seen = Vec::new();
                for batch in 0..batches {
                    let clock = Clock(pass * batches + batch);
                    seen.extend_from_slice(visits.batch(clock));
                    let mut restarted = Visits::new(all.clone(), batches, Seed(1));
                    assert_eq!(restarted.batch(clock), visits.batch(clock));
                }

                passes.push(seen.clone());
                seen.sort_unstable();
                assert_eq!(seen, all.to_vec());
            }

            assert!(examples < 7 || passes[0] != passes[1]);
        }
    }
}
