//! The order in which a worker visits examples that are not in memory.

use std::ops::Range;
use std::sync::Arc;

use rand::seq::SliceRandom;

use super::visits::Batch;
use crate::divided::Examples;
use crate::stored::{Reading, StoredExamples};
use gaia_core::application::ApplicationError;
use gaia_core::types::{Clock, Seed};

/// Mini-batches of one worker's stored examples: each pass visits every example once.
///
/// A worker holds one window of whole batches at a time, and reads the next one meanwhile. Each pass visits the windows in
/// another order and shuffles the examples of each. What a clock visits depends on the clock and the seed alone.
pub(super) struct Windows<E> {
    stored: Arc<dyn StoredExamples<E>>,
    batches_per_pass: u64,
    /// Batches in each window. The last one may have fewer.
    batches: u64,
    seed: Seed,
    /// A pass, and the order in which it visits the windows.
    order: (u64, Vec<usize>),
    held: Option<Window<E>>,
    ahead: Option<(usize, Reading<E>)>,
}

/// The examples of a window, in the order in which a pass visits them.
struct Window<E> {
    number: usize,
    pass: u64,
    examples: E,
    order: Vec<u32>,
}

impl<E: Examples> Windows<E> {
    /// Cuts every pass into `batches_per_pass` batches, at least 1, that differ in size by at most one.
    pub(super) fn new(
        stored: Arc<dyn StoredExamples<E>>,
        batches_per_pass: u64,
        seed: Seed,
    ) -> Self {
        let largest = (stored.len() as u64).div_ceil(batches_per_pass).max(1);
        let batches = (stored.window() as u64 / largest).clamp(1, batches_per_pass);
        let order = (0, window_order(batches_per_pass.div_ceil(batches), 0, seed));
        Self { stored, batches_per_pass, batches, seed, order, held: None, ahead: None }
    }

    pub(super) fn stored(&self) -> &dyn StoredExamples<E> {
        &*self.stored
    }

    /// The examples of one clock, among those of a window.
    ///
    /// # Errors
    /// Where a window cannot be read.
    pub(super) fn batch(&mut self, clock: Clock) -> Result<Batch<'_, E>, ApplicationError> {
        let (pass, batch) = (clock.0 / self.batches_per_pass, clock.0 % self.batches_per_pass);
        if self.order.0 != pass {
            self.order = (pass, window_order(self.count(), pass, self.seed));
        }
        let (slot, within) = self.slot_of(batch);

        let first = self.batches_of(self.order.1[slot]).start;
        let start = self.cut(first);
        let range = self.cut(first + within) - start..self.cut(first + within + 1) - start;
        let window = self.hold(slot)?;
        let (examples, positions) = (&window.examples, &window.order[range]);
        Ok(Batch { examples, positions, start: Some(start) })
    }

    /// The window that the current pass visits at a place of its order. The next one is being read then.
    fn hold(&mut self, slot: usize) -> Result<&Window<E>, ApplicationError> {
        let (pass, number) = (self.order.0, self.order.1[slot]);
        let window = match self.held.take() {
            Some(held) if (held.pass, held.number) == (pass, number) => held,
            held => {
                let examples = self.examples(number, held)?;
                let next = self.order.1.get(slot + 1).copied();
                let next =
                    next.unwrap_or_else(|| window_order(self.count(), pass + 1, self.seed)[0]);
                if next != number {
                    self.ahead = Some((next, self.stored.begin_read(self.places(next))));
                }
                let mut order: Vec<u32> = (0..examples.len() as u32).collect();
                let seed = self.seed.nth(pass as usize).child("window").nth(number);
                order.shuffle(&mut seed.random());
                Window { number, pass, examples, order }
            }
        };
        Ok(self.held.insert(window))
    }

    /// The examples of a window: those that are held, or are being read, or must be read now.
    fn examples(&mut self, number: usize, held: Option<Window<E>>) -> Result<E, ApplicationError> {
        match held {
            Some(held) if held.number == number => return Ok(held.examples),
            // Its memory is free before another window needs it.
            held => drop(held),
        }
        match self.ahead.take() {
            Some((ahead, reading)) if ahead == number => reading(),
            _ => self.stored.read(self.places(number)),
        }
    }

    /// How many windows there are.
    fn count(&self) -> u64 {
        self.batches_per_pass.div_ceil(self.batches)
    }

    /// The place in the current order, and in its window, of a batch of the pass. Windows are equally long but for the last.
    fn slot_of(&self, batch: u64) -> (usize, u64) {
        let last = self.count() as usize - 1;
        let of_last = self.batches_of(last);
        let before = self.order.1.iter().take_while(|&&window| window != last).count() as u64;
        let (start, length) = (before * self.batches, of_last.end - of_last.start);
        match batch {
            batch if batch < start => ((batch / self.batches) as usize, batch % self.batches),
            batch if batch < start + length => (before as usize, batch - start),
            batch => {
                let after = batch - length;
                ((after / self.batches) as usize + 1, after % self.batches)
            }
        }
    }

    /// The batches of a window.
    fn batches_of(&self, window: usize) -> Range<u64> {
        let start = window as u64 * self.batches;
        start..(start + self.batches).min(self.batches_per_pass)
    }

    /// The places of the examples of a window.
    fn places(&self, window: usize) -> Range<usize> {
        let batches = self.batches_of(window);
        self.cut(batches.start)..self.cut(batches.end)
    }

    /// Where a batch begins.
    fn cut(&self, batch: u64) -> usize {
        cut(batch, self.stored.len(), self.batches_per_pass)
    }
}

/// Where a batch begins, of so many examples that are cut into so many batches.
pub(super) fn cut(batch: u64, examples: usize, batches: u64) -> usize {
    (u128::from(batch) * examples as u128 / u128::from(batches)) as usize
}

/// The order in which a pass visits its windows.
fn window_order(windows: u64, pass: u64, seed: Seed) -> Vec<usize> {
    let mut order: Vec<usize> = (0..windows as usize).collect();
    order.shuffle(&mut seed.nth(pass as usize).child("windows").random());
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::examples::Ratings;

    /// Ratings whose users are their places. Windows are of `window` of them.
    struct Places {
        len: usize,
        window: usize,
    }

    impl StoredExamples<Ratings> for Places {
        fn len(&self) -> usize {
            self.len
        }

        fn weight(&self) -> u64 {
            self.len as u64
        }

        fn blocks(&self) -> Vec<Range<usize>> {
            let half = self.len / 2;
            vec![0..half, half..self.len]
        }

        fn window(&self) -> usize {
            self.window
        }

        fn read(&self, places: Range<usize>) -> Result<Ratings, ApplicationError> {
            let user: Vec<u32> = places.map(|place| place as u32).collect();
            let value = vec![1.0; user.len()];
            Ok(Ratings { users: self.len, items: 1, item: user.clone(), user, value })
        }

        fn begin_read(&self, places: Range<usize>) -> Reading<Ratings> {
            let ratings = self.read(places);
            Box::new(|| ratings)
        }
    }

    fn windows(len: usize, window: usize, batches: u64) -> Windows<Ratings> {
        Windows::new(Arc::new(Places { len, window }), batches, Seed(1))
    }

    fn users(windows: &mut Windows<Ratings>, clock: Clock) -> Vec<u32> {
        let Batch { examples, positions, .. } = windows.batch(clock).unwrap();
        positions.iter().map(|&at| examples.user[at as usize]).collect()
    }

    #[test]
    fn a_pass_visits_every_example_once_and_a_restart_visits_the_same() {
        for (len, window, batches) in
            [(100, 17, 13), (100, 1000, 7), (10, 1, 10), (3, 2, 5), (0, 4, 2), (64, 16, 8)]
        {
            let mut own = windows(len, window, batches);
            let mut passes = BTreeSet::new();
            for pass in 0..4 {
                let mut seen = Vec::new();
                for batch in 0..batches {
                    let clock = Clock(pass * batches + batch);
                    let visited = users(&mut own, clock);
                    assert_eq!(users(&mut own, clock), visited);
                    assert_eq!(users(&mut windows(len, window, batches), clock), visited);
                    let most = len.div_ceil(batches as usize);
                    assert!((most.saturating_sub(1)..=most).contains(&visited.len()));
                    seen.extend(visited);
                }
                passes.insert(seen.clone());
                seen.sort_unstable();
                assert_eq!(seen, (0..len as u32).collect::<Vec<_>>());
            }
            assert!(len < 10 || passes.len() == 4, "each pass has an order of its own");
        }
    }

    #[test]
    fn a_window_has_whole_batches_that_fit_and_at_least_one() {
        for (len, window, batches, expected) in
            [(100, 35, 10, 3), (100, 5, 10, 1), (100, 1000, 10, 10), (0, 1, 4, 1)]
        {
            assert_eq!(windows(len, window, batches).batches, expected);
        }
    }
}
