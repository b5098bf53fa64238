//! The order in which a worker visits its examples.

use std::sync::{Arc, OnceLock};

use rand::seq::SliceRandom;

use super::windows::{Windows, cut};
use crate::divided::{Divided, Examples};
use gaia_core::application::{ApplicationError, Work};
use gaia_core::types::{Clock, Seed};

/// Mini-batches of one worker's examples: each pass visits every example once, in an order of its own.
///
/// What a clock visits depends on the clock and the seed alone, so a worker that restarts visits the same.
pub(super) struct Visits<E> {
    source: Source<E>,
    /// Why the next batch fails.
    failure: OnceLock<ApplicationError>,
}

/// The examples of one clock.
pub(super) struct Batch<'a, E> {
    /// These examples and others.
    pub(super) examples: &'a E,
    /// Which of them they are.
    pub(super) positions: &'a [u32],
    /// Of stored examples: the place of the first of `examples` among all of the worker.
    pub(super) start: Option<usize>,
}

/// Where the examples are.
enum Source<E> {
    InMemory(Passes),
    Stored(Windows<E>),
}

/// Mini-batches of examples that are in memory: each pass shuffles all of them.
struct Passes {
    /// The positions of the examples.
    examples: Arc<[u32]>,
    batches_per_pass: u64,
    seed: Seed,
    order: Vec<u32>,
    /// The pass that `order` belongs to.
    pass: Option<u64>,
}

impl<E: Examples> Visits<E> {
    /// Cuts every pass over a worker's examples into `batches_per_pass` batches, at least 1, that differ in size by at most
    /// one.
    pub(super) fn new(
        divided: &Divided<E>,
        worker: usize,
        batches_per_pass: u64,
        seed: Seed,
    ) -> Self {
        assert!(batches_per_pass > 0);
        let source = match &divided.stored[worker] {
            None => {
                let examples = divided.train_parts[worker].clone();
                Source::InMemory(Passes::new(examples, batches_per_pass, seed))
            }
            Some(parts) => {
                Source::Stored(Windows::new(parts.train.clone(), batches_per_pass, seed))
            }
        };
        Self { source, failure: OnceLock::new() }
    }

    /// Cuts every pass into batches of about `batch` examples, at least 1.
    pub(super) fn of_size(divided: &Divided<E>, worker: usize, batch: usize, seed: Seed) -> Self {
        Self::new(divided, worker, divided.batches(worker, batch), seed)
    }

    /// The examples of one clock. `in_memory` are all that are in memory.
    ///
    /// # Errors
    /// Where stored examples cannot be read, now or since the last batch.
    pub(super) fn batch<'a>(
        &'a mut self,
        clock: Clock,
        in_memory: &'a E,
    ) -> Result<Batch<'a, E>, ApplicationError> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        match &mut self.source {
            Source::InMemory(passes) => {
                let positions = passes.batch(clock);
                Ok(Batch { examples: in_memory, positions, start: None })
            }
            Source::Stored(windows) => windows.batch(clock),
        }
    }

    /// Keeps an error, where the caller cannot return it. The next batch fails with it.
    pub(super) fn fail(&self, error: ApplicationError) {
        // Of several errors the first is the reason for the others.
        let _ = self.failure.set(error);
    }

    /// How many examples a worker may look at beside its batches: all that are in memory, and a few of others.
    pub(super) fn looked_at_max(&self) -> usize {
        match &self.source {
            Source::InMemory(_) => usize::MAX,
            Source::Stored(_) => STORED_LOOKED_AT_MAX,
        }
    }

    /// The loss of a copy over at most `most` of the examples, the same ones whenever asked. It is not a number where
    /// examples cannot be read; the next batch fails then.
    pub(super) fn probe(
        &self,
        in_memory: &E,
        most: usize,
        loss: impl FnOnce(&E, &[u32]) -> (f64, Work),
    ) -> (f64, Work) {
        match &self.source {
            Source::InMemory(passes) => loss(in_memory, &passes.sample(most)),
            Source::Stored(windows) => {
                let stored = windows.stored();
                let taken = stored.len().min(most);
                match stored.read(0..taken) {
                    Ok(examples) => loss(&examples, &(0..taken as u32).collect::<Vec<u32>>()),
                    Err(error) => {
                        self.fail(error);
                        (f64::NAN, Work::default())
                    }
                }
            }
        }
    }
}

impl Passes {
    fn new(examples: Arc<[u32]>, batches_per_pass: u64, seed: Seed) -> Self {
        Self { examples, batches_per_pass, seed, order: Vec::new(), pass: None }
    }

    /// At most `most` of the examples, evenly taken from all.
    fn sample(&self, most: usize) -> Vec<u32> {
        let taken = self.examples.len().min(most);
        (0..taken).map(|at| self.examples[at * self.examples.len() / taken]).collect()
    }

    fn batch(&mut self, clock: Clock) -> &[u32] {
        let pass = clock.0 / self.batches_per_pass;
        if self.pass != Some(pass) {
            self.order.clear();
            self.order.extend_from_slice(&self.examples);
            self.order.shuffle(&mut self.seed.nth(pass as usize).random());
            self.pass = Some(pass);
        }
        let batch = clock.0 % self.batches_per_pass;
        let cut = |batch: u64| cut(batch, self.order.len(), self.batches_per_pass);
        &self.order[cut(batch)..cut(batch + 1)]
    }
}

/// Those on disk are more than memory has room for.
const STORED_LOOKED_AT_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_visits_every_example_once_and_a_restart_visits_the_same() {
        for (examples, batches) in [(10, 3), (2, 5), (0, 4), (7, 7)] {
            let all: Arc<[u32]> = (0..examples).collect();
            let mut visits = Passes::new(all.clone(), batches, Seed(1));
            let mut passes = Vec::new();

            for pass in 0..3 {
                let mut seen = Vec::new();
                for batch in 0..batches {
                    let clock = Clock(pass * batches + batch);
                    seen.extend_from_slice(visits.batch(clock));
                    let mut restarted = Passes::new(all.clone(), batches, Seed(1));
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
