//! Examples divided among the workers of a run.

use std::ops::Range;
use std::sync::Arc;

use crate::examples::{DenseExamples, Documents, Ratings, SparseExamples};
use crate::pieces::Piece;
use crate::stored::StoredParts;

/// The examples of every worker of a run, as ascending positions among the examples that a process has.
pub type Parts = Vec<Arc<[u32]>>;

/// The examples that a process has, and which worker of the run has which of them.
///
/// Of workers whose examples are in other processes the parts are empty.
#[derive(Clone)]
pub struct Divided<E> {
    /// The examples that train, as far as they are in memory.
    pub train: E,
    /// The examples that are held out, as far as they are in memory.
    pub test: E,
    /// The positions in `train` that each worker has.
    pub train_parts: Parts,
    /// The positions in `test` that each worker has.
    pub test_parts: Parts,
    /// The examples of each worker whose examples are not in memory. Its parts are then empty.
    pub stored: Vec<Option<StoredParts<E>>>,
    /// Training examples of all workers, wherever they are.
    pub train_total: usize,
    /// Held-out examples of all workers, wherever they are.
    pub test_total: usize,
    /// Training examples of the worker that has most of them. Those that are elsewhere count as evenly divided.
    pub train_most: usize,
    /// A digest of the examples of all workers and of which worker has which, if it was taken.
    pub digest: Option<u64>,
}

/// Examples of one kind.
pub trait Examples: Sized + Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The examples at some positions, in their order.
    #[must_use]
    fn select(&self, positions: &[u32]) -> Self;

    /// Adds examples of the same shape.
    fn append(&mut self, other: Self);

    /// What some of them weigh in an objective: their number, of documents their tokens.
    fn weight(&self, positions: &[u32]) -> u64 {
        positions.len() as u64
    }
}

impl<E: Examples> Divided<E> {
    /// All examples of a run, divided by `train_parts`. Held-out examples are divided evenly, in their order.
    pub fn new(train: E, test: E, train_parts: Parts) -> Self {
        let test_parts = runs(test.len(), train_parts.len());
        Self::in_memory(train, test, train_parts, test_parts)
    }

    /// All examples of a run, divided by `train_parts`. The workers of each data center, of which `workers` has the numbers,
    /// have the whole validation set between them.
    ///
    /// # Panics
    /// Where `workers` are not as many as `train_parts`.
    pub fn with_validation(
        train: E,
        validation: &E,
        train_parts: Parts,
        workers: &[usize],
    ) -> Self {
        assert_eq!(workers.iter().sum::<usize>(), train_parts.len());
        let count = validation.len();
        let positions: Vec<u32> = workers.iter().flat_map(|_| 0..count as u32).collect();
        let test = validation.select(&positions);
        let of_data_center = |(at, workers): (usize, &usize)| {
            let start = (at * count) as u32;
            let moved = |part: Arc<[u32]>| part.iter().map(|position| start + position).collect();
            runs(count, *workers).into_iter().map(moved).collect::<Parts>()
        };
        let test_parts = workers.iter().enumerate().flat_map(of_data_center).collect();
        Self::in_memory(train, test, train_parts, test_parts)
    }

    fn in_memory(train: E, test: E, train_parts: Parts, test_parts: Parts) -> Self {
        let (train_total, test_total) = (train.len(), test.len());
        let stored = vec![None; train_parts.len()];
        let train_most = longest(train_parts.iter().map(|part| part.len()));
        Self {
            train,
            test,
            train_parts,
            test_parts,
            stored,
            train_total,
            test_total,
            train_most,
            digest: None,
        }
    }

    /// Examples of workers that are not in memory. `train` and `test` are no examples, of their shapes.
    pub fn stored(train: E, test: E, workers: Vec<StoredParts<E>>) -> Self {
        let absent = || workers.iter().map(|_| Arc::from([])).collect();
        let total = |part: fn(&StoredParts<E>) -> usize| workers.iter().map(part).sum();
        Self {
            train,
            test,
            train_parts: absent(),
            test_parts: absent(),
            train_total: total(|parts| parts.train.len()),
            test_total: total(|parts| parts.test.len()),
            train_most: longest(workers.iter().map(|parts| parts.train.len())),
            stored: workers.into_iter().map(Some).collect(),
            digest: None,
        }
    }

    /// No examples of no workers. `train` and `test` have the shape of those that will be added.
    pub fn none(train: E, test: E) -> Self {
        Self::new(train, test, Vec::new())
    }

    /// The number of workers of the run.
    pub fn workers(&self) -> usize {
        self.train_parts.len()
    }

    /// Adds the workers of a data center after those that are here, with their examples.
    pub fn append(&mut self, other: Self) {
        let moved = |parts: Parts, start: usize| {
            let start = start as u32;
            parts.into_iter().map(move |part| part.iter().map(|at| start + at).collect())
        };
        self.train_parts.extend(moved(other.train_parts, self.train.len()));
        self.test_parts.extend(moved(other.test_parts, self.test.len()));
        self.stored.extend(other.stored);
        self.train_total += other.train_total;
        self.test_total += other.test_total;
        self.train_most = self.train_most.max(other.train_most);
        self.train.append(other.train);
        self.test.append(other.test);
    }

    /// Adds the workers of a data center whose examples are elsewhere.
    pub fn append_absent(&mut self, workers: usize, train: usize, test: usize) {
        let absent = || (0..workers).map(|_| Arc::from([]));
        self.train_parts.extend(absent());
        self.test_parts.extend(absent());
        self.stored.extend((0..workers).map(|_| None));
        self.train_total += train;
        self.test_total += test;
        self.train_most = self.train_most.max(train.div_ceil(workers.max(1)));
    }

    /// The training examples of a worker.
    pub fn train_len(&self, worker: usize) -> usize {
        match &self.stored[worker] {
            None => self.train_parts[worker].len(),
            Some(parts) => parts.train.len(),
        }
    }

    /// Into how many batches of about `batch` examples a pass of a worker is cut, at least 1.
    pub(crate) fn batches(&self, worker: usize, batch: usize) -> u64 {
        self.train_len(worker).div_ceil(batch).max(1) as u64
    }

    /// Clocks in which workers with batches of `batch` examples see as many as there are, at least 1.
    pub(crate) fn clocks_per_pass(&self, batch: usize) -> u64 {
        let per_clock = batch * self.workers().max(1);
        self.train_total.div_ceil(per_clock).max(1) as u64
    }

    /// Whether this process has the examples of all workers.
    pub(crate) fn is_whole(&self) -> bool {
        (0..self.workers()).map(|worker| self.train_len(worker)).sum::<usize>() == self.train_total
    }

    /// The number of training examples of all workers for each one of this worker.
    pub fn ratio(&self, worker: usize) -> f64 {
        self.train_total as f64 / self.train_len(worker) as f64
    }

    /// The share of all training examples that the worker with most of them has. Of evenly divided ones it is that of each.
    pub(crate) fn largest_share(&self) -> f32 {
        let workers = self.workers().max(1);
        if self.train_most <= self.train_total.div_ceil(workers) {
            1.0 / workers as f32
        } else {
            self.train_most as f32 / self.train_total as f32
        }
    }

    /// What the training examples of a worker weigh in an objective.
    pub(crate) fn train_weight(&self, worker: usize) -> u64 {
        match &self.stored[worker] {
            None => self.train.weight(&self.train_parts[worker]),
            Some(parts) => parts.train.weight(),
        }
    }

    /// How many rows of a table the training examples of some workers have something to do with: at most `rows`, which it is
    /// where examples are not in the memory of this process, or there is no such worker. `each` names the rows of the example at a position.
    pub(crate) fn rows_in_use(
        &self,
        workers: Range<usize>,
        rows: usize,
        each: impl for<'a> Fn(&'a E, usize) -> &'a [u32],
    ) -> usize {
        let mut is_in_use = vec![false; rows];
        for worker in workers {
            let Some(part) = self.train_parts.get(worker).filter(|part| !part.is_empty()) else {
                return rows;
            };
            let named = part.iter().flat_map(|at| each(&self.train, *at as usize));
            named.for_each(|row| is_in_use[*row as usize] = true);
        }
        is_in_use.into_iter().filter(|is_in_use| *is_in_use).count()
    }

    /// The training examples of some workers, those in memory in pieces of at most `length`.
    pub(crate) fn train_pieces(&self, workers: Range<usize>, length: usize) -> Vec<Piece<'_, E>> {
        let of_worker = |worker: usize| match &self.stored[worker] {
            None => Piece::of_part(&self.train, &self.train_parts[worker], length),
            Some(parts) => Piece::of_stored(&*parts.train, usize::MAX),
        };
        workers.flat_map(of_worker).collect()
    }

    /// The held-out examples of some workers, those in memory in pieces of at most `length`.
    pub(crate) fn test_pieces(&self, workers: Range<usize>, length: usize) -> Vec<Piece<'_, E>> {
        let of_worker = |worker: usize| match &self.stored[worker] {
            None => Piece::of_part(&self.test, &self.test_parts[worker], length),
            Some(parts) => Piece::of_stored(&*parts.test, usize::MAX),
        };
        workers.flat_map(of_worker).collect()
    }

    /// The held-out examples of all workers, each once, those in memory in pieces of at most `length`.
    ///
    /// Of a validation set each data center has all examples. They count once, and the workers of the first data center, which
    /// come first, have as many.
    pub(crate) fn test_pieces_once(&self, length: usize) -> Vec<Piece<'_, E>> {
        let mut before = 0;
        let mut pieces = self.test_pieces(0..self.workers(), length);
        pieces.retain(|piece| {
            let is_first = before < self.test_total;
            before += piece.len();
            is_first
        });
        pieces
    }
}

/// The largest of some lengths, 0 of none.
fn longest(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.max().unwrap_or(0)
}

/// Cuts positions into as many runs as there are workers. Their lengths differ by at most one.
fn runs(positions: usize, workers: usize) -> Parts {
    let all = |run: Range<usize>| (run.start as u32..run.end as u32).collect();
    even_runs(positions, workers).map(all).collect()
}

/// The ends of as many runs of so many examples as there are workers. Their lengths differ by at most one.
pub fn even_runs(examples: usize, workers: usize) -> impl Iterator<Item = Range<usize>> {
    let cut = move |worker: usize| (worker as u128 * examples as u128 / workers as u128) as usize;
    (0..workers).map(move |worker| cut(worker)..cut(worker + 1))
}

macro_rules! examples {
    ($($kind:ty),*) => {$(
        impl Examples for $kind {
            fn len(&self) -> usize {
                self.len()
            }

            fn select(&self, positions: &[u32]) -> Self {
                self.select(positions)
            }

            fn append(&mut self, other: Self) {
                self.append(other);
            }
        }
    )*};
}

examples!(Ratings, DenseExamples, SparseExamples);

impl Examples for Documents {
    fn len(&self) -> usize {
        self.len()
    }

    fn select(&self, positions: &[u32]) -> Self {
        self.select(positions)
    }

    fn append(&mut self, other: Self) {
        self.append(other);
    }

    fn weight(&self, positions: &[u32]) -> u64 {
        let tokens = |&position: &u32| {
            let (_, counts) = self.document(position as usize);
            counts.iter().map(|&count| u64::from(count)).sum::<u64>()
        };
        positions.iter().map(tokens).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratings(count: usize) -> Ratings {
        let user: Vec<u32> = (0..count as u32).collect();
        let value = user.iter().map(|user| *user as f32).collect();
        Ratings { users: 10, items: 10, item: user.clone(), user, value }
    }

    #[test]
    fn data_centers_keep_their_workers_and_examples_whether_they_are_here_or_not() {
        let here = || {
            let parts = vec![Arc::from([0, 2]), Arc::from([1])];
            Divided::new(ratings(3), ratings(2), parts)
        };
        let mut all = Divided::none(ratings(0), ratings(0));
        all.append_absent(1, 7, 4);
        all.append(here());
        all.append(here());

        let parts = |parts: &Parts| parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>();
        assert_eq!(parts(&all.train_parts), [vec![], vec![0, 2], vec![1], vec![3, 5], vec![4]]);
        assert_eq!(parts(&all.test_parts), [vec![], vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!((all.train_total, all.test_total, all.workers()), (13, 8, 5));
        assert_eq!((all.train.len(), all.test.len()), (6, 4));
        assert_eq!(all.ratio(1), 6.5);
        // Seven of the thirteen are elsewhere, with one worker.
        assert_eq!(all.largest_share(), 7.0 / 13.0);
        assert_eq!(here().largest_share(), 0.5, "two and one are even");
    }

    #[test]
    fn the_workers_of_each_data_center_have_all_of_a_validation_set() {
        let parts = vec![Arc::from([0]), Arc::from([1]), Arc::from([2])];
        let divided = Divided::with_validation(ratings(3), &ratings(4), parts, &[1, 2]);
        let users = |worker: usize| -> Vec<u32> {
            let part = divided.test_parts[worker].iter();
            part.map(|at| divided.test.user[*at as usize]).collect()
        };
        assert_eq!([users(0), users(1), users(2)], [vec![0, 1, 2, 3], vec![0, 1], vec![2, 3]]);
        assert_eq!((divided.test_total, divided.train_total), (8, 3));
    }

    #[test]
    fn held_out_examples_go_to_one_worker_each() {
        for (positions, workers) in [(0, 3), (7, 3), (2, 5), (6, 1)] {
            let parts = runs(positions, workers);
            let all: Vec<u32> = parts.iter().flat_map(|part| part.to_vec()).collect();
            assert_eq!(all, (0..positions as u32).collect::<Vec<_>>());
            assert_eq!(parts.len(), workers);
        }
    }
}
