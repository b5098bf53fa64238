//! What the data of a data center amounts to: what others need to know of it for a model of the same shape.
//!
//! Sizes, names and sums are in it and no example. Nodes exchange summaries at the start of a run in which each data center has
//! data of its own.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::formats::name_index::{NAME_BYTES_MAX, is_sound};
use crate::homes::counted_names::CountedNames;
use crate::homes::digest::Digest;
use crate::homes::moments::FeatureMoments;
use gaia_core::application::Names;
use gaia_core::types::messagepack;
use gaia_ml::declared::CLASSES_MAX;
use gaia_ml::divided::{Divided, Examples};

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
    pub(crate) validation: Option<u64>,
    pub(crate) shape: DataShape,
}

/// What decides the shape of the model, and what each application needs of the data of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum DataShape {
    Ratings(RatingShape),
    Images(DenseShape),
    Sparse(SparseShape),
    Documents(DocumentShape),
}

/// Users and items, each with how many training ratings it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RatingShape {
    pub(crate) users: CountedNames,
    pub(crate) items: CountedNames,
    /// The sum of all training ratings.
    pub(crate) sum: f64,
    /// The sum of their squares.
    pub(crate) squares: f64,
}

/// Dense examples of one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DenseShape {
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) classes: usize,
    /// The names of the classes, where the data has names for them.
    pub(crate) class_names: Option<Names>,
    /// The names of the features, where each has one.
    pub(crate) features: Option<Vec<String>>,
    /// What the features amount to that may have to be rescaled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) moments: Vec<FeatureMoments>,
}

/// Sparse examples of two classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SparseShape {
    /// The number of features.
    pub(crate) width: usize,
    /// The names of the classes that there are, one or two, where the data has names for them.
    pub(crate) class_names: Option<Names>,
    /// The names of the features, where each has one.
    pub(crate) features: Option<Vec<String>>,
    /// What the features amount to that may have to be rescaled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) moments: Vec<FeatureMoments>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DocumentShape {
    /// How often each word occurs in training documents.
    pub(crate) counts: Vec<u64>,
    /// The words, where they are known.
    pub(crate) vocabulary: Option<Vec<String>>,
}

/// One data center in a run: its summary, and its data if this process has it.
pub(crate) struct Part<'a, L> {
    pub(crate) name: &'a str,
    pub(crate) workers: usize,
    pub(crate) summary: &'a DataSummary,
    pub(crate) local: Option<L>,
}

impl<'a, L> Part<'a, L> {
    /// The same with other data.
    pub(crate) fn map<M>(self, change: impl FnOnce(L) -> M) -> Part<'a, M> {
        let Self { name, workers, summary, local } = self;
        Part { name, workers, summary, local: local.map(change) }
    }
}

impl DataShape {
    /// What the features amount to that may have to be rescaled. `None` of data without features.
    pub(crate) fn moments(&self) -> Option<&[FeatureMoments]> {
        match self {
            Self::Images(DenseShape { moments, .. })
            | Self::Sparse(SparseShape { moments, .. }) => Some(moments),
            Self::Ratings(_) | Self::Documents(_) => None,
        }
    }
}

impl DataSummary {
    /// The summary of examples that have this digest, to which that of names in `shape` is added: examples have numbers for
    /// them. `validation` is that of the validation set, if there is one.
    pub(crate) fn new<E: Examples>(
        divided: &Divided<E>,
        digest: u64,
        validation: Option<u64>,
        shape: DataShape,
    ) -> Self {
        let (train, test) = (divided.train_total as u64, divided.test_total as u64);
        let digest =
            Digest::of([digest, Digest::of_bytes(&messagepack::encode(&shape))].into_iter());
        Self { train, test, digest, validation, shape }
    }

    /// Whether numbers that were received from another process can be those of data.
    pub(crate) fn is_sound(&self) -> bool {
        let known = |rows: &CountedNames| rows.is_sound() && rows.total() == Some(self.train);
        let is_shaped = match &self.shape {
            DataShape::Ratings(ratings) => {
                let is_square = ratings.squares.is_finite() && ratings.squares >= 0.0;
                let are_numbers = ratings.sum.is_finite() && is_square;
                known(&ratings.users) && known(&ratings.items) && are_numbers
            }
            DataShape::Images(dense) => {
                let rows = dense.channels.checked_mul(dense.height);
                let values = rows.and_then(|rows| rows.checked_mul(dense.width));
                let is_described = |values| {
                    are_names(dense.features.as_deref(), values)
                        && FeatureMoments::are_sound(&dense.moments, values)
                };
                values.is_some_and(|values| (1..SIZE_MAX).contains(&values) && is_described(values))
                    && dense.classes <= CLASSES_MAX
                    && are_classes(dense.class_names.as_ref(), dense.classes..=dense.classes)
            }
            DataShape::Sparse(SparseShape { width, class_names, features, moments }) => {
                *width < SIZE_MAX
                    && are_classes(class_names.as_ref(), 1..=2)
                    && are_names(features.as_deref(), *width)
                    && FeatureMoments::are_sound(moments, *width)
            }
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

/// Whether names that were received, if any, can be those of so many features.
fn are_names(names: Option<&[String]>, count: usize) -> bool {
    let is_short = |name: &String| name.len() <= NAME_BYTES_MAX;
    names.is_none_or(|names| names.len() == count && names.iter().all(is_short))
}

/// Whether names that were received, if any, can be those of so many classes.
fn are_classes(names: Option<&Names>, count: RangeInclusive<usize>) -> bool {
    names.is_none_or(|names| count.contains(&names.len()) && is_sound(names))
}

/// All examples of a run, of which this process has those of some data centers. `none` is no example, of the right shape.
///
/// A validation set is the same in all data centers, and its examples count once.
pub(crate) fn joined<E: Examples + Clone>(none: E, parts: Vec<Part<'_, Divided<E>>>) -> Divided<E> {
    let mut all = Divided::none(none.clone(), none);
    let validation = parts.iter().find(|part| part.summary.validation.is_some());
    let validation = validation.map(|part| part.summary.test as usize);
    let digest = Digest::of(parts.iter().map(|part| part.summary.digest));
    for Part { workers, summary, local, .. } in parts {
        match local {
            Some(divided) => all.append(divided),
            None => all.append_absent(workers, summary.train as usize, summary.test as usize),
        }
    }
    all.test_total = validation.unwrap_or(all.test_total);
    all.digest = Some(digest);
    all
}

/// The error that a data center has data that is not declared.
pub(crate) fn undeclared<L>(
    part: &Part<'_, L>,
    key: &'static str,
    (found, expected): (String, String),
) -> DataError {
    DataError::Undeclared { data_center: part.name.into(), key, found, expected }
}

/// The error that two data centers have data of different shapes.
pub(crate) fn disagreement<L>(
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

/// Examples of one data center.
const EXAMPLES_MAX: u64 = 1 << 40;

/// Features.
const SIZE_MAX: usize = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(shape: DataShape) -> DataSummary {
        DataSummary { train: 3, test: 1, digest: 0, validation: None, shape }
    }

    #[test]
    fn numbers_that_no_data_has_are_refused() {
        let counted = |names, counts: &[u64]| CountedNames { names, counts: counts.to_vec() };
        let rated = |users, sum, squares| {
            let items = counted(Names::Text(vec!["a".into()]), &[3]);
            summary(DataShape::Ratings(RatingShape { users, items, sum, squares }))
        };
        let ratings = |users: &[(u64, u64)], sum| {
            let (names, counts): (Vec<u64>, Vec<u64>) = users.iter().copied().unzip();
            rated(counted(Names::Numbers(names), &counts), sum, 20.0)
        };
        let named = |users: &[&str]| {
            let names = users.iter().map(|user| (*user).to_owned()).collect();
            rated(counted(Names::Text(names), &[1, 2]), 7.0, 20.0)
        };
        let documents = |counts: &[u64], words: Option<&[&str]>| {
            let vocabulary =
                words.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            summary(DataShape::Documents(DocumentShape { counts: counts.to_vec(), vocabulary }))
        };
        let dense = |height, width, class_names, features: Option<&[&str]>| {
            let features = features.map(|names| names.iter().map(|&name| name.into()).collect());
            let (channels, classes, moments) = (1, 2, Vec::new());
            summary(DataShape::Images(DenseShape {
                channels,
                height,
                width,
                classes,
                class_names,
                features,
                moments,
            }))
        };
        let images = |height, width| dense(height, width, None, None);
        let sparse = |width, class_names, features: Option<Vec<String>>| {
            let moments = Vec::new();
            summary(DataShape::Sparse(SparseShape { width, class_names, features, moments }))
        };
        let classes = |numbers: &[u64]| Some(Names::Numbers(numbers.to_vec()));

        for sound in [
            ratings(&[(2, 1), (5, 2)], 7.0),
            named(&["a", "b"]),
            documents(&[1, 0, 5], Some(&["a", "b", "c"])),
            images(2, 2),
            dense(1, 2, classes(&[3, 5]), Some(&["a", "b"])),
            sparse(4, None, None),
            sparse(1, classes(&[1]), Some(vec!["a".into()])),
        ] {
            assert!(sound.is_sound(), "{sound:?}");
            assert!(!DataSummary { train: 0, ..sound }.is_sound());
        }
        for broken in [
            ratings(&[(5, 1), (2, 2)], 7.0),
            ratings(&[(2, 1), (5, 1)], 7.0),
            ratings(&[(2, u64::MAX), (5, 4)], 7.0),
            ratings(&[(2, 1), (5, 2)], f64::NAN),
            rated(counted(Names::Numbers(vec![2, 5]), &[1, 2]), 7.0, f64::INFINITY),
            rated(counted(Names::Numbers(vec![2, 5]), &[1, 2]), 7.0, -1.0),
            named(&["b", "a"]),
            named(&["a", "b", "c"]),
            named(&["a", &"b".repeat(NAME_BYTES_MAX + 1)]),
            documents(&[1, 2], Some(&["a"])),
            documents(&[u64::MAX, 2], None),
            images(usize::MAX, 2),
            images(0, 2),
            dense(1, 2, classes(&[3]), None),
            dense(1, 2, classes(&[5, 3]), None),
            dense(1, 2, None, Some(&["a"])),
            sparse(usize::MAX, None, None),
            sparse(4, classes(&[]), None),
            sparse(4, classes(&[1, 2, 3]), None),
            sparse(2, None, Some(vec!["a".into()])),
        ] {
            assert!(!broken.is_sound(), "{broken:?}");
        }
    }
}
