//! A trained logistic regression, and sparse examples that it is given.

use std::path::PathBuf;

use super::classes::{check_known, check_labels, class_names, column, feature_names};
use super::predictions::{PredictionValues, Predictions, check_finite, numbers};
use super::{GIVEN, for_one_worker};
use crate::error::DataError;
use crate::formats::class_names::UNKNOWN;
use crate::formats::example_tables::ExampleTables;
use crate::formats::libsvm::read_given_libsvm;
use crate::formats::sparse_tables::{SparseTables, label_of};
use crate::formats::table::TableFormat;
use crate::rescaled::rescaling_of;
use gaia_core::application::{Name, Names};
use gaia_core::types::Model;
use gaia_ml::apps::{LogisticRegression, LogisticRegressionConfig, SparseSource};
use gaia_ml::columns::SparseColumns;
use gaia_ml::examples::SparseExamples;
use gaia_model::TrainedModel;

/// Sparse examples of the features of a trained model. Features that it does not know are left out.
pub(super) struct GivenSparse {
    pub(super) regression: LogisticRegression,
    examples: SparseExamples,
    class_names: Option<Names>,
    is_labelled: bool,
    path: PathBuf,
}

impl GivenSparse {
    /// Reads examples.
    pub(super) fn read(
        config: &LogisticRegressionConfig,
        trained: &TrainedModel,
    ) -> Result<Self, DataError> {
        let (data, path) = (&config.data, super::path(&config.data)?);
        let columns = &data.columns;
        let tables = |format| {
            let is_given = columns.features.is_some() || columns.indices.is_some();
            let features = if is_given { columns.features.clone() } else { feature_names(trained) };
            let columns = SparseColumns { features, ..columns.clone() };
            SparseTables::new(format, &columns, None).read_any(path)
        };
        let all = match data.source {
            SparseSource::Synthetic | SparseSource::Libsvm => read_given_libsvm(path)?,
            SparseSource::Csv => tables(TableFormat::csv(columns.separator))?,
            SparseSource::Parquet => tables(TableFormat::Parquet)?,
        };

        let is_labelled = !all.labels.iter().any(|label| label.is_nan());
        let class_names = class_names(trained);
        let width = trained.tables.get("weights").map_or(all.width, |weights| weights.rows);
        let mut examples = SparseExamples::empty(width);
        let (own, known) = (all.class_names.as_ref(), class_names.as_ref());
        let places = places(own, known);
        let class = |label: f32| usize::from(label > 0.0);
        if is_labelled {
            let known = known.cloned().unwrap_or_else(unnamed);
            let examples = all.labels.iter().map(|label| (class(*label), label));
            check_known(examples, (own, &places), &known, (path, trained))?;
        }
        for example in 0..all.len() {
            let (columns, values) = all.example(example);
            let count = columns.partition_point(|&column| (column as usize) < width);
            let label = match all.labels[example] {
                label if label.is_nan() => 1.0,
                label => label_of(places[class(label)]),
            };
            examples.push(&columns[..count], &values[..count], label);
        }
        examples.class_names.clone_from(&class_names);

        let (rescaling, _) = rescaling_of(trained)?;
        rescaling.apply_to_sparse(&mut examples);
        let divided = for_one_worker(examples.clone());
        let regression = LogisticRegression::new(config.clone(), divided, GIVEN)
            .with_feature_names(feature_names(trained))
            .with_rescaling(rescaling);
        Ok(Self { regression, examples, class_names, is_labelled, path: path.to_owned() })
    }

    /// The number of examples.
    pub(super) fn len(&self) -> usize {
        self.examples.len()
    }

    /// Checks that examples have labels.
    pub(super) fn check_labels(&self) -> Result<(), DataError> {
        check_labels(self.is_labelled, &self.path)
    }

    /// The labels where there are any, the more likely classes, and the probability of the second class.
    ///
    /// # Errors
    /// [`DataError::Broken`] with the first example of which the model predicts no finite number.
    pub(super) fn predictions(&self, model: &Model) -> Result<Predictions, DataError> {
        let Self { regression, examples, class_names, is_labelled, path } = self;
        let probabilities = regression.probabilities(model, examples);
        check_finite(&probabilities, 1, path, |at| format!("example {at}"))?;
        let classes = |positive: Vec<bool>| match class_names {
            Some(names) => column(Some(names), positive.into_iter().map(usize::from)),
            None => {
                let sign = |is_positive| if is_positive { 1 } else { -1 };
                PredictionValues::Integers(positive.into_iter().map(sign).collect())
            }
        };
        let mut columns = vec![numbers(examples.len())];
        if *is_labelled {
            let labels = examples.labels.iter().map(|label| *label > 0.0).collect();
            columns.push(("label".into(), classes(labels)));
        }
        let more_likely = probabilities.iter().map(|probability| *probability > 0.5).collect();
        columns.push(("class".into(), classes(more_likely)));
        columns.push(("probability".into(), PredictionValues::Floats(probabilities)));
        Ok(Predictions::new(columns))
    }
}

/// For each of the classes of examples its place among those of a model, or [`UNKNOWN`]. Either may have no names.
fn places(own: Option<&Names>, known: Option<&Names>) -> Vec<u32> {
    let known = spellings(known);
    let place = |own: Vec<String>| {
        known.iter().position(|known| known.iter().any(|name| own.contains(name)))
    };
    let places = spellings(own).into_iter().map(place);
    places.map(|place| place.map_or(UNKNOWN, |place| place as u32)).collect()
}

/// The names that each class may have. Without names, as in libsvm files, negative examples are −1 or 0, and positive ones are 1.
fn spellings(names: Option<&Names>) -> Vec<Vec<String>> {
    let Some(names) = names else { return vec![vec!["-1".into(), "0".into()], vec!["1".into()]] };
    let name = |place| names.get(place).map(|name: Name<'_>| vec![name.to_string()]);
    (0..names.len()).filter_map(name).collect()
}

/// The classes of a model without names.
fn unnamed() -> Names {
    Names::Text(vec!["-1".into(), "1".into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_found_by_their_names_and_not_by_their_places() {
        let text = |names: [&str; 2]| Names::Text(names.map(str::to_owned).to_vec());
        let numbers = |names: &[u64]| Names::Numbers(names.to_vec());
        for (own, known, expected) in [
            (None, None, vec![0, 1]),
            // A file of positives alone.
            (Some(numbers(&[1])), None, vec![1]),
            (Some(numbers(&[0, 1])), None, vec![0, 1]),
            (Some(text(["-1", "1"])), None, vec![0, 1]),
            (Some(text(["no", "yes"])), None, vec![UNKNOWN; 2]),
            (None, Some(numbers(&[0, 1])), vec![0, 1]),
            (None, Some(numbers(&[1, 2])), vec![UNKNOWN, 0]),
            (None, Some(text(["no", "yes"])), vec![UNKNOWN; 2]),
            (Some(numbers(&[1])), Some(text(["-1", "1"])), vec![1]),
        ] {
            let found = places(own.as_ref(), known.as_ref());
            assert_eq!(found, expected, "{own:?} among {known:?}");
        }
    }
}
