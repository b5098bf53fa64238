//! The training examples that an objective is taken over, where there are too many for all.

use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::divided::{Divided, Examples, Parts};
use crate::pieces::Piece;
use gaia_core::types::Seed;

/// Some of the training examples of each worker.
pub(super) struct Sampled {
    /// Of workers whose examples are in memory: their positions.
    parts: Parts,
    /// Of workers whose examples are stored: how many of the first.
    counts: Vec<usize>,
}

impl Sampled {
    /// About `most` examples of all workers: of each worker an equal share, drawn at random, at least one of those who have
    /// any. What a worker's are depends on its own examples and the total of all workers alone, so that a process needs to
    /// have no others.
    pub(super) fn new<E: Examples>(divided: &Divided<E>, most: usize, seed: Seed) -> Self {
        let total = divided.train_total;
        let share = if most < total { most as f64 / total as f64 } else { 1.0 };
        let count = |length: usize| ((length as f64 * share).round() as usize).max(1).min(length);
        let of_worker = |(worker, part): (usize, &Arc<[u32]>)| {
            if most >= total {
                return part.clone();
            }
            let mut sample = part.to_vec();
            sample.shuffle(&mut seed.nth(worker).random());
            sample.truncate(count(sample.len()));
            sample.sort_unstable();
            sample.into()
        };
        let parts = divided.train_parts.iter().enumerate().map(of_worker).collect();
        let counts = (0..divided.workers()).map(|worker| count(divided.train_len(worker)));
        Self { parts, counts: counts.collect() }
    }

    /// About `most` of these examples: of each worker an equal share, spread evenly, at least one of those who have any.
    pub(super) fn at_most(&self, most: usize) -> Self {
        let total: usize = self.counts.iter().sum();
        let fewer = |count: usize| (count * most).div_ceil(total.max(1)).min(count);
        let of_worker = |part: &Arc<[u32]>| {
            let count = fewer(part.len());
            (0..count).map(|at| part[at * part.len() / count]).collect()
        };
        Self {
            parts: self.parts.iter().map(of_worker).collect(),
            counts: self.counts.iter().map(|count| fewer(*count)).collect(),
        }
    }

    /// The examples of a worker. Those in memory are one piece.
    pub(super) fn pieces<'a, E: Examples>(
        &'a self,
        divided: &'a Divided<E>,
        worker: usize,
    ) -> Vec<Piece<'a, E>> {
        match &divided.stored[worker] {
            None => vec![Piece::InMemory(&divided.train, &self.parts[worker])],
            Some(parts) => Piece::of_stored(&*parts.train, self.counts[worker]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::Ratings;

    #[test]
    fn each_worker_gives_an_equal_share_whether_others_are_here_or_not() {
        let divided = |parts: &Parts| Divided {
            train_total: 301,
            ..Divided::new(Ratings::default(), Ratings::default(), parts.clone())
        };
        let parts: Parts = vec![(0..100).collect(), (100..101).collect(), (101..301).collect()];
        let all = divided(&parts);
        let sizes = |most| -> Vec<usize> {
            Sampled::new(&all, most, Seed(1)).parts.iter().map(|sample| sample.len()).collect()
        };
        assert_eq!(sizes(301), [100, 1, 200]);
        assert_eq!(sizes(30), [10, 1, 20]);

        let alone = divided(&vec![Arc::from([]), Arc::from([]), parts[2].clone()]);
        let [all, own] = [&all, &alone].map(|divided| Sampled::new(divided, 30, Seed(1)));
        assert_eq!(all.parts[2], own.parts[2]);
        assert!(own.parts[0].is_empty());
    }

    #[test]
    fn fewer_of_a_sample_are_an_equal_share_of_each_worker_spread_evenly() {
        let parts: Parts = vec![(0..100).collect(), Arc::from([]), (100..300).collect()];
        let divided = Divided::new(Ratings::default(), Ratings::default(), parts.clone());
        let divided = Divided { train_total: 300, ..divided };
        let all = Sampled::new(&divided, 300, Seed(1));

        let fewer = all.at_most(6);
        let expected: [&[u32]; 3] = [&[0, 50], &[], &[100, 150, 200, 250]];
        assert_eq!(fewer.parts.iter().map(|part| &part[..]).collect::<Vec<_>>(), expected);
        assert_eq!(fewer.counts, [2, 0, 4]);
        assert_eq!(all.at_most(300).parts, parts);
        assert_eq!(all.at_most(1_000).parts, parts);
    }
}
