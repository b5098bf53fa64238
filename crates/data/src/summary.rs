//! What the data of a data center amounts to: what others need to know of it for a model of the same shape.
//!
//! Sizes and names are in it and no example. Nodes exchange summaries at the start of a run in which each data center has
//! data of its own.

use serde::{Deserialize, Serialize};

use super::counted_names::CountedNames;
use super::error::DataError;
use gaia_ml::divided::{Divided, Examples};
use gaia_ml::examples::Shape;

/// The summary of one data center's data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataSummary {
    /// Examples that train.
    pub train: u64,
    /// Examples that are held out.
    pub test: u64,
    /// A digest of all examples and of which worker has which. Equal data has equal digests.
    pub digest: u64,
    /// A digest of the validation set, if there is one. It is the same in all data centers.
    pub(super) validation: Option<u64>,
    pub(super) shape: DataShape,
}

/// What decides the shape of the model, and what each application needs of the data of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum DataShape {
    Ratings(RatingShape),
    Images {
        channels: usize,
        height: usize,
        width: usize,
        classes: usize,
    },
    /// Sparse examples of this many features.
    Sparse {
        width: usize,
    },
    Documents(DocumentShape),
}

/// Users and items, each with how many training ratings it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RatingShape {
    pub(super) users: CountedNames,
    pub(super) items: CountedNames,
    /// The sum of all training ratings.
    pub(super) sum: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DocumentShape {
    /// How often each word occurs in training documents.
    pub(super) counts: Vec<u64>,
    /// The words, where they are known.
    pub(super) vocabulary: Option<Vec<String>>,
}

/// One data center in a run: its summary, and its data if this process has it.
pub(super) struct Part<'a, L> {
    pub(super) name: &'a str,
    pub(super) workers: usize,
    pub(super) summary: &'a DataSummary,
    pub(super) local: Option<L>,
}

impl<'a, L> Part<'a, L> {
    /// The same with other data.
    pub(super) fn map<M>(self, change: impl FnOnce(L) -> M) -> Part<'a, M> {
        let Self { name, workers, summary, local } = self;
        Part { name, workers, summary, local: local.map(change) }
    }
}

impl DataSummary {
    pub(super) fn new<E: Examples>(divided: &Divided<E>, digest: u64, shape: DataShape) -> Self {
        let (train, test) = (divided.train_total as u64, divided.test_total as u64);
        Self { train, test, digest, validation: None, shape }
    }

    /// Whether numbers that were received from another process can be those of data.
    pub(super) fn is_sound(&self) -> bool {
        let known = |rows: &CountedNames| rows.is_sound() && rows.total() == Some(self.train);
        let is_shaped = match &self.shape {
            DataShape::Ratings(ratings) => {
                known(&ratings.users) && known(&ratings.items) && ratings.sum.is_finite()
            }
            DataShape::Images { channels, height, width, classes } => {
                let pixels =
                    channels.checked_mul(*height).and_then(|rows| rows.checked_mul(*width));
                pixels.is_some_and(|pixels| (1..SIZE_MAX).contains(&pixels)) && *classes < SIZE_MAX
            }
            DataShape::Sparse { width } => *width < SIZE_MAX,
            DataShape::Documents(DocumentShape { counts, vocabulary }) => {
                let tokens = counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
                tokens.is_some_and(|tokens| tokens < u64::from(u32::MAX))
                    && vocabulary.as_ref().is_none_or(|words| words.len() == counts.len())
            }
        };
        let few = self.train < EXAMPLES_MAX && self.test < EXAMPLES_MAX;
        few && self.train > 0 && is_shaped
    }
}

/// All examples of a run, of which this process has those of some data centers. `none` is no example, of the right shape.
pub(super) fn joined<E: Examples + Clone>(none: E, parts: Vec<Part<'_, Divided<E>>>) -> Divided<E> {
    let mut all = Divided::none(none.clone(), none);
    for Part { workers, summary, local, .. } in parts {
        match local {
            Some(divided) => all.append(divided),
            None => all.append_absent(workers, summary.train as usize, summary.test as usize),
        }
    }
    all
}

/// The error that two data centers have data of different shapes.
pub(super) fn disagreement<L>(
    one: &Part<'_, L>,
    other: &Part<'_, L>,
    values: (String, String),
) -> DataError {
    DataError::Disagreement {
        data_centers: [one.name.into(), other.name.into()],
        found: values.0,
        expected: values.1,
    }
}

impl DataShape {
    pub(super) fn of_images(shape: Shape, classes: usize) -> Self {
        let Shape { channels, height, width } = shape;
        Self::Images { channels, height, width, classes }
    }
}

/// Examples of one data center.
const EXAMPLES_MAX: u64 = 1 << 40;

/// Features, classes.
const SIZE_MAX: usize = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name_index::NAME_BYTES_MAX;
    use gaia_core::application::Names;

    fn summary(shape: DataShape) -> DataSummary {
        DataSummary { train: 3, test: 1, digest: 0, validation: None, shape }
    }

    #[test]
    fn numbers_that_no_data_has_are_refused() {
        let counted = |names, counts: &[u64]| CountedNames { names, counts: counts.to_vec() };
        let rated = |users, sum| {
            let items = counted(Names::Text(vec!["a".into()]), &[3]);
            summary(DataShape::Ratings(RatingShape { users, items, sum }))
        };
        let ratings = |users: &[(u64, u64)], sum| {
            let (names, counts): (Vec<u64>, Vec<u64>) = users.iter().copied().unzip();
            rated(counted(Names::Numbers(names), &counts), sum)
        };
        let named = |users: &[&str]| {
            let names = users.iter().map(|user| (*user).to_owned()).collect();
            rated(counted(Names::Text(names), &[1, 2]), 7.0)
        };
        let documents = |counts: &[u64], words: Option<&[&str]>| {
            let vocabulary =
                words.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            summary(DataShape::Documents(DocumentShape { counts: counts.to_vec(), vocabulary }))
        };
        let images =
            |height, width| summary(DataShape::Images { channels: 1, height, width, classes: 2 });

        for sound in [
            ratings(&[(2, 1), (5, 2)], 7.0),
            named(&["a", "b"]),
            documents(&[1, 0, 5], Some(&["a", "b", "c"])),
            images(2, 2),
            summary(DataShape::Sparse { width: 4 }),
        ] {
            assert!(sound.is_sound(), "{sound:?}");
            assert!(!DataSummary { train: 0, ..sound }.is_sound());
        }
        for broken in [
            ratings(&[(5, 1), (2, 2)], 7.0),
            ratings(&[(2, 1), (5, 1)], 7.0),
            ratings(&[(2, u64::MAX), (5, 4)], 7.0),
            ratings(&[(2, 1), (5, 2)], f64::NAN),
            named(&["b", "a"]),
            named(&["a", "b", "c"]),
            named(&["a", &"b".repeat(NAME_BYTES_MAX + 1)]),
            documents(&[1, 2], Some(&["a"])),
            documents(&[u64::MAX, 2], None),
            images(usize::MAX, 2),
            images(0, 2),
            summary(DataShape::Sparse { width: usize::MAX }),
        ] {
            assert!(!broken.is_sound(), "{broken:?}");
        }
    }
}
