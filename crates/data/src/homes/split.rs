//! How examples are partitioned over workers.
//!
//! Every example goes to exactly one worker. Data centers get examples in proportion to their workers, so that a skewed
//! split changes which examples a data center has and not how many.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand::seq::SliceRandom;

use crate::scratch::{least_loaded, skewed_count};
use gaia_core::types::Seed;
use gaia_ml::config::Split;
use gaia_ml::divided::Parts;

/// Chooses a share of the examples at random to be held out: the positions that train and those that
/// test, both ascending. Both get at least one example where there are two.
pub fn hold_out(examples: usize, share: f64, seed: Seed) -> (Vec<u32>, Vec<u32>) {
    let mut order = shuffled(examples, seed);
    let mut train = order.split_off(held_out_count(examples, share));
    train.sort_unstable();
    order.sort_unstable();
    (train, order)
}

/// How many examples a share is. Of two or more examples it is at least one and not all.
pub(crate) fn held_out_count(examples: usize, share: f64) -> usize {
    let most = examples.saturating_sub(1);
    ((examples as f64 * share).round() as usize).clamp(most.min(1), most)
}

/// Partitions examples over `workers`, at least 1.
///
/// A share `skew` of them, 0 to 1, goes where `split` decides by their `groups`, which are the user or the label of each
/// example; the rest is partitioned evenly. Returns the positions of each worker's examples.
pub fn split(split: Split, skew: f64, groups: &[u32], workers: usize, seed: Seed) -> Parts {
    let mut parts = vec![Vec::new(); workers];
    let order = shuffled(groups.len(), seed.child("order"));

    let (skewed, even) = order.split_at(skewed_count(split, skew, groups.len()));
    match split {
        Split::Even => {}
        Split::ByUser => whole_groups(skewed, groups, seed.child("groups"), &mut parts),
        Split::ByLabel => sorted_cuts(skewed, groups, seed.child("groups"), &mut parts),
    }

    for (index, &example) in even.iter().enumerate() {
        parts[index % workers].push(example);
    }

    for part in &mut parts {
        part.sort_unstable();
    }

    parts.into_iter().map(Into::into).collect()
}

/// Each group to one worker: the largest first, to the worker that has the fewest examples.
fn whole_groups(examples: &[u32], groups: &[u32], seed: Seed, parts: &mut [Vec<u32>]) {
    let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &example in examples {
        members.entry(groups[example as usize]).or_default().push(example);
    }
    let mut members: Vec<Vec<u32>> = members.into_values().collect();
    members.shuffle(&mut seed.random());
    members.sort_by_key(|members| Reverse(members.len()));
    let workers = least_loaded(members.iter().map(Vec::len), parts.len());
    for (members, worker) in members.iter().zip(workers) {
        parts[worker].extend(members);
    }
}

/// Examples sorted by group, groups in a random order, cut into as many even runs as there are workers.
fn sorted_cuts(examples: &[u32], groups: &[u32], seed: Seed, parts: &mut [Vec<u32>]) {
    let largest = groups.iter().copied().max().unwrap_or(0) as usize;
    let rank = shuffled(largest + 1, seed);
    let mut sorted = examples.to_vec();
    sorted.sort_by_key(|&example| rank[groups[example as usize] as usize]);
    let workers = parts.len();
    for (worker, part) in parts.iter_mut().enumerate() {
        let cut = |worker: usize| worker * sorted.len() / workers;
        part.extend_from_slice(&sorted[cut(worker)..cut(worker + 1)]);
    }
}

fn shuffled(count: usize, seed: Seed) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.shuffle(&mut seed.random());
    order
}
