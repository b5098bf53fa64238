//! Logistic regression from the sparse examples of each data center: features are those of all.

use crate::error::DataError;
use crate::formats::class_names::{listed, places, union};
use crate::formats::libsvm::read_libsvm;
use crate::formats::sparse_tables::{SparseTables, label_of};
use crate::formats::table::TableFormat;
use crate::homes::digest::{digest_of, digest_of_examples};
use crate::homes::home::Home;
use crate::homes::summary::{
    DataShape, DataSummary, Part, SparseShape, disagreement, joined, undeclared,
};
use crate::kinds::{agreed_features, check_parameters, declared_classes, read_tables};
use crate::synthetic;
use gaia_core::application::Names;
use gaia_ml::ConfigError;
use gaia_ml::apps::{LogisticRegression, LogisticRegressionConfig, PlantedGenerator, SparseSource};
use gaia_ml::divided::Divided;
use gaia_ml::examples::SparseExamples;

/// The sparse examples of one data center.
pub(crate) struct LocalSparse {
    examples: Divided<SparseExamples>,
    /// The names of the features, where each has one.
    features: Option<Vec<String>>,
}

/// Reads the examples of a home, or makes them, with the accuracy of what made them.
pub(crate) fn read(
    home: &Home<SparseSource, PlantedGenerator>,
) -> Result<(LocalSparse, Option<f64>), DataError> {
    let columns = &home.data.columns;
    let (train, test, features, best) = match home.data.source {
        SparseSource::Synthetic => {
            let (data, seed) = (&home.data, home.seed.child("synthetic"));
            let made = synthetic::planted(&data.synthetic, data.held_out, seed);
            (made.train, made.test, None, Some(made.best_accuracy))
        }
        SparseSource::Libsvm => {
            let (all, test) = read_libsvm(home.path()?)?;
            let validation = home.validation.as_deref().map(read_libsvm).transpose()?;
            let (train, test) = match (validation, test) {
                (Some((validation, _)), _) => (all, validation),
                (None, Some(test)) => (all, test),
                (None, None) => home.hold_out(&all),
            };
            (train, test, None, None)
        }
        SparseSource::Csv => {
            let tables = SparseTables::new(TableFormat::csv(columns.separator), columns);
            read_tables(home, tables)?
        }
        SparseSource::Parquet => {
            read_tables(home, SparseTables::new(TableFormat::Parquet, columns))?
        }
    };
    let labels: Vec<u32> = train.labels.iter().map(|&label| u32::from(label > 0.0)).collect();
    Ok((LocalSparse { examples: home.split(train, test, &labels), features }, best))
}

impl LocalSparse {
    /// The number of training examples.
    pub(crate) fn len(&self) -> usize {
        self.examples.train.len()
    }

    /// The digest of the held-out examples.
    pub(crate) fn digest_of_test(&self) -> u64 {
        digest_of_examples(&self.examples.test)
    }

    pub(crate) fn summary(&self) -> DataSummary {
        let Divided { train, test, .. } = &self.examples;
        let shape = SparseShape {
            width: train.width.max(test.width),
            class_names: train.class_names.clone(),
            features: self.features.clone(),
        };
        DataSummary::new(&self.examples, digest_of(&self.examples), DataShape::Sparse(shape))
    }

    /// The examples with the labels that their classes have among those of all data centers.
    fn in_model(self, all: Option<&Names>) -> Divided<SparseExamples> {
        let mut divided = self.examples;
        for examples in [&mut divided.train, &mut divided.test] {
            if let (Some(own), Some(all)) = (&examples.class_names, all) {
                let places = places(own, all);
                let label = |label: f32| label_of(places[usize::from(label > 0.0)]);
                examples.labels.iter_mut().for_each(|own| *own = label(*own));
            }
        }
        divided
    }
}

/// Builds the application from the examples that this process has, and from the summaries of all.
pub(crate) fn build(
    config: &LogisticRegressionConfig,
    parts: Vec<Part<'_, LocalSparse>>,
    name: &str,
) -> Result<LogisticRegression, DataError> {
    let shapes: Vec<&SparseShape> = parts.iter().filter_map(Part::shape).collect();
    let features = agreed_features(&parts, |part| part.shape()?.features.as_ref())?;
    let declared = &config.data.declared;
    let names = |part: &Part<'_, LocalSparse>| part.shape()?.class_names.clone();
    let class_names = match declared_classes(&parts, declared, names)? {
        Some(classes) if classes.len() != 2 => {
            let found = format!("{} classes", classes.len());
            return Err(ConfigError::new("data.declared.classes", found, "two classes").into());
        }
        Some(classes) if shapes.iter().any(|shape| shape.class_names.is_some()) => Some(classes),
        _ => classes_of_all(&parts)?,
    };
    let width = shapes.iter().map(|shape| shape.width).max().unwrap_or(0);
    if let Some(features) = declared.features {
        let fits = |shape: &SparseShape| match shape.features {
            Some(_) => shape.width == features,
            None => shape.width <= features,
        };
        if let Some(other) = shapes.iter().position(|shape| !fits(shape)) {
            let values = (format!("{} features", shapes[other].width), features.to_string());
            return Err(undeclared(&parts[other], "features", values));
        }
    }
    let width = declared.features.unwrap_or(width);
    check_parameters("data", "this wide", width)?;

    let in_model = |local: LocalSparse| local.in_model(class_names.as_ref());
    let parts = parts.into_iter().map(|part| part.map(in_model)).collect();
    let mut all = joined(SparseExamples::empty(width), parts);
    for examples in [&mut all.train, &mut all.test] {
        (examples.width, examples.class_names) = (width, class_names.clone());
    }
    Ok(LogisticRegression::new(config.clone(), all, name).with_feature_names(features))
}

/// The two classes of all data centers, where the data has names for them.
fn classes_of_all(parts: &[Part<'_, LocalSparse>]) -> Result<Option<Names>, DataError> {
    let lists: Vec<(usize, &Names)> = parts
        .iter()
        .enumerate()
        .filter_map(|(at, part)| Some((at, part.shape()?.class_names.as_ref()?)))
        .collect();
    if lists.is_empty() {
        return Ok(None);
    }

    for count in 1..=lists.len() {
        let all = union(lists[..count].iter().map(|(_, names)| *names));
        if all.len() > 2 {
            let ((other, names), (first, before)) = (lists[count - 1], lists[0]);
            let found = format!("the classes {}", listed(names));
            let expected = format!("two classes in all, with {}", listed(before));
            return Err(disagreement(&parts[other], &parts[first], (found, expected)));
        }
    }
    let all = union(lists.iter().map(|(_, names)| *names));
    if all.len() < 2 {
        let found = format!("of the class {} alone", listed(&all));
        return Err(ConfigError::new("data", found, "examples of two classes").into());
    }
    Ok(Some(all))
}

impl Part<'_, LocalSparse> {
    fn shape(&self) -> Option<&SparseShape> {
        match &self.summary.shape {
            DataShape::Sparse(shape) => Some(shape),
            _ => None,
        }
    }
}
