//! The training examples that an objective is taken over, where there are too many for all.

use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::divided::Parts;
use gaia_core::types::Seed;

/// About `most` examples of all workers, which are `total`: of each worker an equal share, drawn at random, at least one of
/// those who have any. What a worker's are depends on its own examples and their total alone, so that a process needs to
/// have no others.
pub(super) fn sampled(parts: &Parts, total: usize, most: usize, seed: Seed) -> Parts {
    if most >= total {
        return parts.clone();
    }
    let share = most as f64 / total as f64;
    let of_worker = |(worker, part): (usize, &Arc<[u32]>)| {
        let mut sample = part.to_vec();
        sample.shuffle(&mut seed.nth(worker).random());
        let count = (sample.len() as f64 * share).round() as usize;
        sample.truncate(count.max(1));
        sample.sort_unstable();
        sample.into()
    };
    parts.iter().enumerate().map(of_worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_gives_an_equal_share_whether_others_are_here_or_not() {
        let parts: Parts = vec![(0..100).collect(), (100..101).collect(), (101..301).collect()];
        let sizes = |most| -> Vec<usize> {
            sampled(&parts, 301, most, Seed(1)).iter().map(|sample| sample.len()).collect()
        };
        assert_eq!(sizes(301), [100, 1, 200]);
        assert_eq!(sizes(30), [10, 1, 20]);

        let alone: Parts = vec![Arc::from([]), Arc::from([]), parts[2].clone()];
        let (all, own) = (sampled(&parts, 301, 30, Seed(1)), sampled(&alone, 301, 30, Seed(1)));
        assert_eq!(all[2], own[2]);
        assert!(own[0].is_empty());
    }
}
