//! Logistic regression from the sparse examples of each data center: features are those of all.

use crate::error::DataError;
use crate::formats::class_names::{listed, places, union};
use crate::formats::libsvm::gather_libsvm;
use crate::formats::sparse_tables::{SparseTables, label_of};
use crate::formats::table::TableFormat;
use crate::homes::digest::{DigestedByName, digest_of, digest_of_test, digests_of_names};
use crate::homes::home::Home;
use crate::homes::moments::Moments;
use crate::homes::summary::{
    DataShape, DataSummary, Part, SparseShape, disagreement, joined, undeclared,
};
use crate::kinds::{
    agreed_features, agreed_rescaling, check_batch, check_parameters, declared_classes, read_tables,
};
use crate::scratch::changed;
use crate::synthetic;
use gaia_core::application::Names;
use gaia_ml::ConfigError;
use gaia_ml::apps::{LogisticRegression, LogisticRegressionConfig, PlantedGenerator, SparseSource};
use gaia_ml::divided::Divided;
use gaia_ml::examples::SparseExamples;

/// The sparse examples of one data center.
pub(crate) struct LocalSparse {
    examples: Divided<SparseExamples>,
    summary: DataSummary,
}

/// Reads the examples of a home, or makes them, with the accuracy of what made them.
pub(crate) fn read(
    home: &Home<SparseSource, PlantedGenerator>,
) -> Result<(LocalSparse, Option<f64>), DataError> {
    let (columns, space) = (&home.data.columns, home.space.as_ref());
    let tables = |format| read_tables(home, SparseTables::new(format, columns, space));
    let (all, test, features) = match home.data.source {
        SparseSource::Synthetic => {
            let (data, seed) = (&home.data, home.seed.child("synthetic"));
            let made = synthetic::planted(&data.synthetic, data.held_out, seed);
            let labels: Vec<u32> = (0..made.train.len()).map(|at| class(&made.train, at)).collect();
            let divided = home.split(made.train, made.test, &labels);
            return Ok((LocalSparse::new(divided, None, None)?, Some(made.best_accuracy)));
        }
        SparseSource::Libsvm => {
            let (all, test) = gather_libsvm(home.path()?, home.validation.as_deref(), space)?;
            (all, test, None)
        }
        SparseSource::Csv => tables(TableFormat::csv(columns.separator))?,
        SparseSource::Parquet => tables(TableFormat::Parquet)?,
    };
    let examples = home.divide(all, test, class)?;
    let validation = home.validation.as_ref().map(|_| {
        let names = examples.train.class_names.as_ref().map(digests_of_names);
        digest_of_test(&examples, |examples, digest| examples.add_named(&names, digest))
    });
    Ok((LocalSparse::new(examples, features, validation.transpose()?)?, None))
}

/// The class of an example.
fn class(examples: &SparseExamples, at: usize) -> u32 {
    u32::from(examples.labels[at] > 0.0)
}

impl LocalSparse {
    fn new(
        examples: Divided<SparseExamples>,
        features: Option<Vec<String>>,
        validation: Option<u64>,
    ) -> Result<Self, DataError> {
        let mut moments = Moments::default();
        let digest = digest_of(&examples, |train| moments.see_sparse(train))?;
        let Divided { train, test, .. } = &examples;
        let shape = SparseShape {
            width: train.width.max(test.width),
            class_names: train.class_names.clone(),
            features,
            moments: moments.unusual(),
        };
        let summary = DataSummary::new(&examples, digest, validation, DataShape::Sparse(shape));
        Ok(Self { examples, summary })
    }

    /// The number of training examples in memory.
    pub(crate) fn len(&self) -> usize {
        self.examples.train.len()
    }

    pub(crate) fn summary(&self) -> &DataSummary {
        &self.summary
    }

    /// The examples with the labels that their classes have among those of all data centers.
    fn in_model(self, all: Option<&Names>) -> Divided<SparseExamples> {
        let (Some(own), Some(all)) = (&self.examples.train.class_names, all) else {
            return self.examples;
        };
        let places = places(own, all);
        changed(self.examples, move |examples| {
            let label = |label: f32| label_of(places[usize::from(label > 0.0)]);
            examples.labels.iter_mut().for_each(|own| *own = label(*own));
        })
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
    let rescaling = agreed_rescaling(&parts);

    let in_model = |local: LocalSparse| local.in_model(class_names.as_ref());
    let parts = parts.into_iter().map(|part| part.map(in_model)).collect();
    let mut all = joined(SparseExamples::empty(width), parts);
    for examples in [&mut all.train, &mut all.test] {
        (examples.width, examples.class_names) = (width, class_names.clone());
    }
    check_batch(&all, config.batch_max())?;

    if !rescaling.is_empty() {
        let own = rescaling.clone();
        all = changed(all, move |examples| own.apply_to_sparse(examples));
    }
    let regression = LogisticRegression::new(config.clone(), all, name);
    Ok(regression.with_feature_names(features).with_rescaling(rescaling))
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
