//! Coordinates of features that single precision cannot train on as they are.
//!
//! A time in seconds is 1.7e9, give or take some months, and a year is 2021, give or take two. Sums of squares of the one are
//! too large for a change of a model. Of both, what is left of a mean square once the square of the mean is subtracted is
//! rounding. And their weights are tied to the bias so closely that no data center may round one without the other. So such
//! features are `(x − offset) ÷ unit` once they are read. Offset and unit follow from the training examples of all data
//! centers, so coarsely that a few examples more rarely change them. All other features stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use crate::examples::{DenseExamples, Features, SparseExamples};
use gaia_core::application::Attachment;
use gaia_core::types::Model;

/// The features that are rescaled, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rescaling {
    /// Ascending.
    features: Vec<Rescaled>,
}

/// The coordinate of a feature `x`: `(x − offset) ÷ unit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rescaled {
    /// Which feature, counted from 0.
    pub feature: u32,
    /// What is subtracted.
    pub offset: f32,
    /// A power of two.
    pub unit: f32,
}

impl Rescaling {
    /// These features, in ascending order. All others stay as they are.
    ///
    /// # Panics
    ///
    /// Where they are in another order.
    pub fn new(features: Vec<Rescaled>) -> Self {
        assert!(features.is_sorted_by(|one, other| one.feature < other.feature));
        Self { features }
    }

    /// How many features are rescaled.
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Whether all features stay as they are.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// Rescales dense examples that are as they were read.
    pub fn apply_to_dense(&self, examples: &mut DenseExamples) {
        let width = examples.width();
        if self.is_empty() || examples.is_empty() {
            return;
        }

        let features = std::mem::replace(&mut examples.features, Features::Floats(Vec::new()));
        let mut values = features.into_floats();
        for example in values.chunks_exact_mut(width) {
            for rescaled in &self.features {
                if let Some(value) = example.get_mut(rescaled.feature as usize) {
                    *value = rescaled.of(*value);
                }
            }
        }
        examples.features = Features::Floats(values);
    }

    /// Rescales sparse examples that are as they were read. An example without a feature that has an offset gets the
    /// coordinate of its 0.
    pub fn apply_to_sparse(&self, examples: &mut SparseExamples) {
        if self.is_empty() {
            return;
        }

        let class_names = examples.class_names.take();
        let mut all = SparseExamples { class_names, ..SparseExamples::empty(examples.width) };
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for example in 0..examples.len() {
            let (own_columns, own_values) = examples.example(example);
            columns.clear();
            values.clear();
            let mut own = own_columns.iter().copied().zip(own_values.iter().copied()).peekable();
            let inside = |rescaled: &&Rescaled| (rescaled.feature as usize) < examples.width;
            for rescaled in self.features.iter().filter(inside) {
                while let Some((column, value)) = own.next_if(|own| own.0 < rescaled.feature) {
                    columns.push(column);
                    values.push(value);
                }
                let found = own.next_if(|own| own.0 == rescaled.feature);
                if found.is_some() || rescaled.offset != 0.0 {
                    columns.push(rescaled.feature);
                    values.push(rescaled.of(found.map_or(0.0, |found| found.1)));
                }
            }
            for (column, value) in own {
                columns.push(column);
                values.push(value);
            }
            all.push(&columns, &values, examples.labels[example]);
        }
        *examples = all;
    }

    /// What a model needs beside its tables. Nothing, where no feature is rescaled.
    pub fn attachments(&self) -> BTreeMap<String, Attachment> {
        if self.is_empty() {
            return BTreeMap::new();
        }
        let features = self.features.iter();
        let numbers = features.clone().map(|rescaled| u64::from(rescaled.feature)).collect();
        let offsets = features.clone().map(|rescaled| rescaled.offset).collect();
        let units = features.map(|rescaled| rescaled.unit).collect();
        [
            (RESCALED_FEATURES, Attachment::Integers(numbers)),
            (RESCALED_OFFSETS, Attachment::Floats(offsets)),
            (RESCALED_UNITS, Attachment::Floats(units)),
        ]
        .map(|(name, attachment)| (name.to_owned(), attachment))
        .into()
    }

    /// Takes the attachments of a rescaling out of those of a model. `None` where they are not what
    /// [`Self::attachments`] has made.
    pub fn take(attachments: &mut BTreeMap<String, Attachment>) -> Option<Self> {
        let names = [RESCALED_FEATURES, RESCALED_OFFSETS, RESCALED_UNITS];
        match names.map(|name| attachments.remove(name)) {
            [None, None, None] => Some(Self::default()),
            [
                Some(Attachment::Integers(features)),
                Some(Attachment::Floats(offsets)),
                Some(Attachment::Floats(units)),
            ] if features.len() == offsets.len() && features.len() == units.len() => {
                let all = features.iter().zip(offsets).zip(units);
                let rescaled = |((feature, offset), unit): ((&u64, f32), f32)| {
                    let feature = u32::try_from(*feature).ok()?;
                    let is_sound = offset.is_finite() && unit.is_finite() && unit > 0.0;
                    is_sound.then_some(Rescaled { feature, offset, unit })
                };
                let features: Vec<Rescaled> = all.map(rescaled).collect::<Option<_>>()?;
                let is_ascending = features.is_sorted_by(|one, other| one.feature < other.feature);
                is_ascending.then_some(Self { features })
            }
            _ => None,
        }
    }

    /// Turns a classifier of features in these coordinates into the same one of features in others. What an optimizer knows
    /// of the features whose coordinates differ begins anew.
    pub fn convert(&self, to: &Self, model: &mut Model) {
        let layout = model.layout().clone();
        let table = |names: &[&str]| {
            layout.table_ids().find(|id| names.contains(&layout.table(*id).name.as_str()))
        };
        let (Some(weights), Some(bias)) =
            (table(&["weights", "weights0"]), table(&["bias", "bias0"]))
        else {
            return;
        };
        let inputs = table(&["inputs"]);
        let rows = layout.table(weights).rows;

        let both = self.features.iter().chain(&to.features);
        let features: BTreeSet<usize> = both.map(|rescaled| rescaled.feature as usize).collect();
        for feature in features.into_iter().filter(|feature| *feature < rows) {
            let [(offset, unit), (other_offset, other_unit)] =
                [self, to].map(|rescaling| rescaling.coordinate(feature));
            if (offset, unit) == (other_offset, other_unit) {
                continue;
            }
            for output in 0..layout.table(weights).width {
                let weight = f64::from(model.row(weights, feature)[output]);
                let moved = weight * (other_offset - offset) / unit;
                model.row_mut(bias, 0)[output] += moved as f32;
                model.row_mut(weights, feature)[output] = (weight * other_unit / unit) as f32;
            }
            if let Some(inputs) = inputs {
                model.row_mut(inputs, feature).fill(0.0);
            }
        }
    }

    /// The offset and the unit of a feature.
    fn coordinate(&self, feature: usize) -> (f64, f64) {
        let found = self.features.binary_search_by_key(&feature, |own| own.feature as usize);
        found.map_or((0.0, 1.0), |at| {
            let Rescaled { offset, unit, .. } = self.features[at];
            (f64::from(offset), f64::from(unit))
        })
    }
}

/// What the description of an application says of it: nothing, where no feature is rescaled.
impl Display for Rescaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.features.as_slice() {
            [] => Ok(()),
            [one] => write!(f, ", feature {} rescaled", one.feature),
            more => write!(f, ", {} features rescaled", more.len()),
        }
    }
}

impl Rescaled {
    /// The coordinate of a value.
    fn of(self, value: f32) -> f32 {
        ((f64::from(value) - f64::from(self.offset)) / f64::from(self.unit)) as f32
    }
}

/// The attachment with the numbers of the features that are rescaled, counted from 0.
pub const RESCALED_FEATURES: &str = "rescaled.features";

/// The attachment with their offsets.
pub const RESCALED_OFFSETS: &str = "rescaled.offsets";

/// The attachment with their units.
pub const RESCALED_UNITS: &str = "rescaled.units";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::examples::Shape;
    use gaia_core::types::{ModelLayout, TableId, TableLayout};

    fn rescaling(features: &[(u32, f32, f32)]) -> Rescaling {
        let rescaled =
            |&(feature, offset, unit): &(u32, f32, f32)| Rescaled { feature, offset, unit };
        Rescaling::new(features.iter().map(rescaled).collect())
    }

    #[test]
    fn only_features_that_are_named_change_and_an_absent_one_is_a_zero() {
        let rescaling = rescaling(&[(1, 2020.0, 2.0), (3, 0.0, 1024.0), (9, 5.0, 1.0)]);
        let mut dense = DenseExamples {
            features: Features::Floats(vec![0.1, 2021.0, 0.3, 2048.0, 0.1, 2016.0, 0.3, 0.0]),
            labels: vec![0, 1],
            ..DenseExamples::empty(Shape::row(4), 2)
        };
        rescaling.apply_to_dense(&mut dense);
        let expected = vec![0.1, 0.5, 0.3, 2.0, 0.1, -2.0, 0.3, 0.0];
        assert_eq!(dense.features, Features::Floats(expected));

        let mut sparse = SparseExamples::empty(5);
        sparse.push(&[0, 1, 3, 4], &[0.1, 2021.0, 2048.0, 7.0], 1.0);
        sparse.push(&[2], &[0.3], -1.0);
        rescaling.apply_to_sparse(&mut sparse);
        assert_eq!(sparse.example(0), (&[0, 1, 3, 4][..], &[0.1, 0.5, 2.0, 7.0][..]));
        assert_eq!(sparse.example(1), (&[1, 2][..], &[-1010.0, 0.3][..]));
        assert_eq!((sparse.width, sparse.labels), (5, vec![1.0, -1.0]));
    }

    #[test]
    fn attachments_are_read_as_they_were_written_and_others_are_refused() {
        let own = rescaling(&[(1, 2020.0, 2.0), (3, 0.0, 1024.0)]);
        let written = own.attachments();
        let mut read = written.clone();
        assert_eq!(Rescaling::take(&mut read), Some(own));
        assert!(read.is_empty());
        assert_eq!(Rescaling::take(&mut read), Some(Rescaling::default()));
        assert!(Rescaling::default().attachments().is_empty());

        for (name, broken) in [
            (RESCALED_FEATURES, Attachment::Integers(vec![3, 1])),
            (RESCALED_FEATURES, Attachment::Integers(vec![1, u64::MAX])),
            (RESCALED_OFFSETS, Attachment::Floats(vec![1.0])),
            (RESCALED_OFFSETS, Attachment::Floats(vec![f32::NAN, 1.0])),
            (RESCALED_UNITS, Attachment::Floats(vec![0.0, 1.0])),
            (RESCALED_UNITS, Attachment::Integers(vec![1, 1])),
        ] {
            let mut attachments = written.clone();
            attachments.insert(name.into(), broken.clone());
            assert_eq!(Rescaling::take(&mut attachments), None, "{name}: {broken:?}");
        }
    }

    #[test]
    fn a_model_in_other_coordinates_has_the_same_outputs() {
        let tables = [("weights0", 3, 2), ("bias0", 1, 2), ("inputs", 4, 3)]
            .map(|(name, rows, width)| TableLayout { name: name.into(), rows, width });
        let mut model = Model::zeros(Arc::new(ModelLayout::new(tables.to_vec())));
        model.table_mut(TableId(0)).copy_from_slice(&[1.0, -2.0, 0.5, 4.0, 3.0, 0.25]);
        model.table_mut(TableId(1)).copy_from_slice(&[0.5, -0.5]);
        model.table_mut(TableId(2)).fill(1.0);
        let [one, other] = [&[(0, 2020.0, 2.0)][..], &[(0, 2022.0, 4.0), (2, 0.0, 8.0)]];
        let [one, other] = [one, other].map(rescaling);
        let outputs = |model: &Model, rescaling: &Rescaling| -> Vec<f32> {
            let mut data = DenseExamples {
                features: Features::Floats(vec![2021.0, 3.0, 16.0]),
                labels: vec![0],
                ..DenseExamples::empty(Shape::row(3), 2)
            };
            rescaling.apply_to_dense(&mut data);
            let mut inputs = [0.0; 3];
            data.copy_features(0, &mut inputs);
            let weights = model.table(TableId(0));
            let output = |at: usize| {
                let products = (0..3).map(|row| inputs[row] * weights[2 * row + at]);
                products.sum::<f32>() + model.table(TableId(1))[at]
            };
            (0..2).map(output).collect()
        };

        let before = outputs(&model, &one);
        one.convert(&other, &mut model);
        assert_eq!(outputs(&model, &other), before);
        let inputs = model.table(TableId(2));
        assert_eq!(inputs, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    }
}
