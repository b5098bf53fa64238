//! Examples in a random order, of sets that are larger than memory.
//!
//! Each example goes to one of several buckets, drawn at random, which fit in memory one at a time. Then each bucket is
//! shuffled and written out, one after the other: every order of the examples is equally likely (Sanders, "Random
//! permutations on distributed, external and hierarchical memory", Information Processing Letters 67, 1998).

use rand::RngExt;
use rand::seq::SliceRandom;

use super::dealing::{Dealing, Receiver};
use super::encoding::Encoded;
use super::scratch_space::ScratchSpace;
use super::spool::{BLOCK_BYTES, Spool};
use super::spool_writer::SpoolWriter;
use crate::error::DataError;
use gaia_core::types::Seed;

/// The examples of each worker in a random order, and those that are held out in the order in which they were read.
pub(crate) struct Dealt<E> {
    pub(crate) train: Vec<Spool<E>>,
    /// What the examples of each worker weigh in an objective.
    pub(crate) weights: Vec<u64>,
    pub(crate) test: Spool<E>,
}

impl<E: Encoded> Dealt<E> {
    /// The bytes of all examples that train.
    pub(crate) fn bytes(&self) -> u64 {
        self.train.iter().map(Spool::bytes).sum()
    }
}

/// Deals the examples of a set, and shuffles those of each worker. At its largest, twice the examples are on disk.
///
/// # Errors
/// [`DataError::Scratch`], and where examples cannot be read again.
pub(crate) fn deal<E: Encoded>(
    all: Spool<E>,
    dealing: &Dealing,
    group: impl Fn(&E, usize) -> u32,
    space: &ScratchSpace,
) -> Result<Dealt<E>, DataError> {
    let mut census = dealing.census();
    if let Some(census) = &mut census {
        all.each_block(|examples| {
            (0..examples.len()).for_each(|at| census.see(group(examples, at)));
            Ok(())
        })?;
    }

    let mut dealer = dealing.dealer(census);
    let scratch = space.file()?;
    let (none, of_worker) = (all.like(scratch), all.bytes() / dealing.workers as u64);
    let buckets = (of_worker.div_ceil((space.memory / 4).max(1))).max(1) as usize;
    let most = space.memory as usize / 2 / (buckets * dealing.workers);
    let most = most.clamp(BUFFER_BYTES_MIN, BLOCK_BYTES);
    let mut workers: Vec<Vec<SpoolWriter<E>>> = (0..dealing.workers)
        .map(|_| (0..buckets).map(|_| SpoolWriter::new(none.clone(), most)).collect())
        .collect();

    let kept = all.like(space.file()?);
    let mut test = SpoolWriter::new(kept.clone(), BLOCK_BYTES);
    let mut random = dealing.seed.child("buckets").random();
    let mut receivers: Vec<Vec<u32>> = vec![Vec::new(); dealing.workers * buckets];
    let mut held_out = Vec::new();
    all.each_block(|examples| {
        for at in 0..examples.len() {
            match dealer.next(group(examples, at)) {
                Receiver::HeldOut => held_out.push(at as u32),
                Receiver::Worker(worker) => {
                    let bucket = random.random_range(0..buckets);
                    receivers[worker * buckets + bucket].push(at as u32);
                }
            }
        }
        let all_buckets = workers.iter_mut().flatten();
        for (bucket, received) in all_buckets.zip(&mut receivers) {
            bucket.add(examples, received)?;
            received.clear();
        }
        test.add(examples, &held_out)?;
        held_out.clear();
        Ok(())
    })?;
    // From here on the disk needs no room for them.
    drop(all);

    let seed = dealing.seed.child("shuffle");
    let (mut train, mut weights) = (Vec::new(), Vec::new());
    for (worker, buckets) in workers.into_iter().enumerate() {
        let (spool, weight) = shuffled(buckets, kept.clone(), seed.nth(worker))?;
        train.push(spool);
        weights.push(weight);
    }
    Ok(Dealt { train, weights, test: test.finish()? })
}

/// Adds the examples of buckets to `none`, each bucket shuffled, one after the other; and returns what they weigh.
fn shuffled<E: Encoded>(
    buckets: Vec<SpoolWriter<E>>,
    none: Spool<E>,
    seed: Seed,
) -> Result<(Spool<E>, u64), DataError> {
    let mut weight = 0;
    let mut all = SpoolWriter::new(none, BLOCK_BYTES);
    for (number, bucket) in buckets.into_iter().enumerate() {
        let examples = bucket.finish()?.read_as_written()?;
        let mut order: Vec<u32> = (0..examples.len() as u32).collect();
        weight += examples.weight(&order);
        order.shuffle(&mut seed.nth(number).random());
        let share = BLOCK_BYTES * examples.len().max(1) / examples.bytes().max(1);
        for some in order.chunks(share.max(1)) {
            all.add(&examples, some)?;
        }
    }
    Ok((all.finish()?, weight))
}

/// The least that is written at a time.
const BUFFER_BYTES_MIN: usize = 1 << 12;
