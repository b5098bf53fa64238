//! A digest of examples, to tell whether two processes have read the same.

use gaia_core::application::{Name, Names};
use gaia_ml::divided::{Divided, Parts};
use gaia_ml::examples::{DenseExamples, Documents, Features, Ratings, SparseExamples};

/// What a digest can be taken of.
pub(crate) trait Digested {
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
}

/// The digest of examples and of which worker has which.
pub(crate) fn digest_of<E: Digested>(divided: &Divided<E>) -> u64 {
    let mut digest = Digest::default();
    divided.train.add_to(&mut digest);
    divided.test.add_to(&mut digest);
    let mut add_parts = |parts: &Parts| parts.iter().for_each(|part| digest.add_numbers(part));
    add_parts(&divided.train_parts);
    add_parts(&divided.test_parts);
    // The last values must reach the high bits too.
    digest.add(0);
    digest.0
}

/// The digest of ratings with the names of their users and items, whatever their rows are.
pub(crate) fn digest_of_named(ratings: &Ratings, [users, items]: &[Names; 2]) -> u64 {
    let mut digest = Digest::default();
    for (rows, names) in [(&ratings.user, users), (&ratings.item, items)] {
        digest.add(rows.len() as u64);
        rows.iter().filter_map(|row| names.get(*row as usize)).for_each(|name| match name {
            Name::Number(number) => digest.add(number),
            Name::Text(text) => digest.add_all(text.bytes().map(u64::from)),
        });
    }
    digest.add_floats(&ratings.value);
    digest.add(0);
    digest.0
}

/// The digest of examples alone.
pub(crate) fn digest_of_examples(examples: &impl Digested) -> u64 {
    let mut digest = Digest::default();
    examples.add_to(&mut digest);
    digest.add(0);
    digest.0
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
        match &self.features {
            Features::Bytes(bytes) => {
                let (words, rest) = bytes.as_chunks();
                digest.add_all(words.iter().map(|word| u64::from_le_bytes(*word)));
                digest.add_all(rest.iter().map(|byte| u64::from(*byte)));
            }
            Features::Floats(values) => digest.add_floats(values),
        }
        digest.add_numbers(&self.labels);
    }
}

impl Digested for SparseExamples {
    fn add_to(&self, digest: &mut Digest) {
        digest.add_all(self.offsets.iter().map(|offset| *offset as u64));
        digest.add_numbers(&self.columns);
        digest.add_floats(&self.values);
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
            digest_of(&Divided::new(train, Ratings::default(), parts))
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
