//! A digest of examples, to tell whether two processes have read the same.

use crate::error::DataError;
use gaia_core::application::Names;
use gaia_ml::divided::{Divided, Examples, Parts};
use gaia_ml::examples::{DenseExamples, Documents, Features, Ratings, SparseExamples};
use gaia_ml::stored::StoredExamples;

/// What a digest can be taken of.
pub(crate) trait Digested: Examples {
    /// Adds all examples, in their order.
    fn add_to(&self, digest: &mut Digest);
}

/// A digest that depends on all values and their order. It is not safe against somebody who wants two data sets to have
/// the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(FACTOR);
    }

    /// The digest of some digests, in their order.
    pub(crate) fn of(digests: impl Iterator<Item = u64>) -> u64 {
        let mut digest = Self::default();
        digests.for_each(|one| digest.add(one));
        digest.finish()
    }

    /// The digest of bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
        let mut digest = Self::default();
        digest.add_bytes(bytes);
        digest.finish()
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        self.add_all(words.iter().map(|word| u64::from_le_bytes(*word)));
        self.add_all(rest.iter().map(|byte| u64::from(*byte)));
    }

    fn add_all(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.add(values.len() as u64);
        values.for_each(|value| self.add(value));
    }

    fn add_numbers(&mut self, values: &[u32]) {
        self.add_all(values.iter().map(|value| u64::from(*value)));
    }

    fn add_floats(&mut self, values: &[f32]) {
        self.add_all(values.iter().map(|value| u64::from(value.to_bits())));
    }

    fn finish(mut self) -> u64 {
        // The last values must reach the high bits too.
        self.add(0);
        self.0
    }
}

/// The digest of examples and of which worker has which. Shows `see` all examples that train, since those on disk take long
/// to read again.
///
/// # Errors
/// Where examples on disk cannot be read.
pub(crate) fn digest_of<E: Digested>(
    divided: &Divided<E>,
    mut see: impl FnMut(&E),
) -> Result<u64, DataError> {
    let mut digest = Digest::default();
    see(&divided.train);
    for parts in divided.stored.iter().flatten() {
        digest.add(parts.train.len() as u64);
        each_block(&*parts.train, |examples| {
            see(examples);
            examples.add_to(&mut digest);
        })?;
        each_block(&*parts.test, |examples| examples.add_to(&mut digest))?;
    }
    divided.train.add_to(&mut digest);
    divided.test.add_to(&mut digest);
    let mut add_parts = |parts: &Parts| parts.iter().for_each(|part| digest.add_numbers(part));
    add_parts(&divided.train_parts);
    add_parts(&divided.test_parts);
    Ok(digest.finish())
}

/// Calls a function with the examples of each block in turn.
///
/// # Errors
/// Where they cannot be read.
pub(crate) fn each_block<E>(
    stored: &dyn StoredExamples<E>,
    mut function: impl FnMut(&E),
) -> Result<(), DataError> {
    for block in stored.blocks() {
        let examples = stored.read(block);
        function(&examples.map_err(|error| DataError::Application(error.into_inner()))?);
    }
    Ok(())
}

/// The digest of a validation set: of each of its examples in turn, as `add` adds it to a digest. It is the same however
/// the set is divided over workers.
///
/// # Errors
/// Where examples on disk cannot be read.
pub(crate) fn digest_of_test<E: Examples>(
    divided: &Divided<E>,
    add: impl Fn(&E, &mut Digest),
) -> Result<u64, DataError> {
    let mut digest = Digest::default();
    add(&divided.test, &mut digest);
    for parts in divided.stored.iter().flatten() {
        each_block(&*parts.test, |examples| {
            (0..examples.len() as u32).for_each(|at| add(&examples.select(&[at]), &mut digest));
        })?;
    }
    Ok(digest.finish())
}

/// The digest of each name: the same wherever the name is among others, and for a number and the text that it is written as.
pub(crate) fn digests_of_names(names: &Names) -> Vec<u64> {
    let names = (0..names.len()).filter_map(|place| names.get(place));
    names.map(|name| Digest::of_bytes(name.to_string().as_bytes())).collect()
}

/// What a digest can be taken of by names, which data centers may have in places of their own.
pub(crate) trait DigestedByName: Digested {
    /// The digests of all names.
    type Names;

    /// Adds all examples, in their order, with their names in the place of the numbers of these.
    fn add_named(&self, names: &Self::Names, digest: &mut Digest);
}

impl DigestedByName for Ratings {
    /// Of users and of items.
    type Names = [Vec<u64>; 2];

    fn add_named(&self, [users, items]: &Self::Names, digest: &mut Digest) {
        for (rows, names) in [(&self.user, users), (&self.item, items)] {
            digest.add_all(rows.iter().map(|row| names[*row as usize]));
        }
        digest.add_floats(&self.value);
    }
}

impl DigestedByName for DenseExamples {
    /// Of classes. `None` of classes without names.
    type Names = Option<Vec<u64>>;

    fn add_named(&self, names: &Self::Names, digest: &mut Digest) {
        let Some(names) = names else { return self.add_to(digest) };
        add_features(&self.features, digest);
        digest.add_all(self.labels.iter().map(|label| names[*label as usize]));
    }
}

impl DigestedByName for SparseExamples {
    /// Of the two classes. `None` of classes without names.
    type Names = Option<Vec<u64>>;

    fn add_named(&self, names: &Self::Names, digest: &mut Digest) {
        let Some(names) = names else { return self.add_to(digest) };
        add_entries(self, digest);
        digest.add_all(self.labels.iter().map(|label| names[usize::from(*label > 0.0)]));
    }
}

fn add_features(features: &Features, digest: &mut Digest) {
    match features {
        Features::Bytes(bytes) => digest.add_bytes(bytes),
        Features::Floats(values) => digest.add_floats(values),
    }
}

fn add_entries(examples: &SparseExamples, digest: &mut Digest) {
    digest.add_all(examples.offsets.iter().map(|offset| *offset as u64));
    digest.add_numbers(&examples.columns);
    digest.add_floats(&examples.values);
}

impl Digested for Ratings {
    fn add_to(&self, digest: &mut Digest) {
        digest.add_numbers(&self.user);
        digest.add_numbers(&self.item);
        digest.add_floats(&self.value);
    }
}

impl Digested for DenseExamples {
    fn add_to(&self, digest: &mut Digest) {
        add_features(&self.features, digest);
        digest.add_numbers(&self.labels);
    }
}

impl Digested for SparseExamples {
    fn add_to(&self, digest: &mut Digest) {
        add_entries(self, digest);
        digest.add_floats(&self.labels);
    }
}

impl Digested for Documents {
    fn add_to(&self, digest: &mut Digest) {
        digest.add_all(self.offsets.iter().map(|offset| *offset as u64));
        digest.add_numbers(&self.words);
        digest.add_numbers(&self.counts);
    }
}

/// Odd, so that multiplication loses no information.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_value_an_order_or_a_worker_changes_the_digest() {
        let digest = |value: &[f32], parts: &[&[u32]]| {
            let row: Vec<u32> = (0..value.len() as u32).collect();
            let train =
                Ratings { users: 3, items: 3, user: row.clone(), item: row, value: value.to_vec() };
            let parts: Parts = parts.iter().map(|part| Arc::from(*part)).collect();
            digest_of(&Divided::new(train, Ratings::default(), parts), |_| {}).unwrap()
        };

        let own = digest(&[1.0, 2.0, 3.0], &[&[0, 1], &[2]]);
        assert_eq!(own, digest(&[1.0, 2.0, 3.0], &[&[0, 1], &[2]]));
        for other in [
            digest(&[1.0, 2.0, -3.0], &[&[0, 1], &[2]]),
            digest(&[2.0, 1.0, 3.0], &[&[0, 1], &[2]]),
            digest(&[1.0, 2.0, 3.0], &[&[0], &[1, 2]]),
            digest(&[1.0, 2.0, 3.0], &[&[0, 1, 2]]),
        ] {
            assert_ne!(own, other);
        }
    }
}
