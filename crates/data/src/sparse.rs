//! Logistic regression from the sparse examples of each data center: features are those of all.

use super::digest::digest_of;
use super::error::DataError;
use super::homes::Home;
use super::libsvm::read_libsvm;
use super::own_data::check_parameters;
use super::summary::{DataShape, DataSummary, Part, joined};
use super::synthetic;
use gaia_ml::apps::{LogisticRegression, LogisticRegressionConfig, PlantedGenerator, SparseSource};
use gaia_ml::divided::Divided;
use gaia_ml::examples::SparseExamples;

/// Reads the examples of a home, or makes them, with the accuracy of what made them.
pub(super) fn read(
    home: &Home<SparseSource, PlantedGenerator>,
) -> Result<(Divided<SparseExamples>, Option<f64>), DataError> {
    let (train, test, best) = match home.data.source {
        SparseSource::Synthetic => {
            let (data, seed) = (&home.data, home.seed.child("synthetic"));
            let made = synthetic::planted(&data.synthetic, data.held_out, seed);
            (made.train, made.test, Some(made.best_accuracy))
        }
        SparseSource::Libsvm => {
            let (all, test) = read_libsvm(home.path()?)?;
            let validation = home.validation.as_deref().map(read_libsvm).transpose()?;
            let (train, test) = match (validation, test) {
                (Some((validation, _)), _) => (all, validation),
                (None, Some(test)) => (all, test),
                (None, None) => home.hold_out(&all),
            };
            (train, test, None)
        }
    };
    let labels: Vec<u32> = train.labels.iter().map(|&label| u32::from(label > 0.0)).collect();
    Ok((home.split(train, test, &labels), best))
}

pub(super) fn summary(examples: &Divided<SparseExamples>) -> DataSummary {
    let width = examples.train.width.max(examples.test.width);
    DataSummary::new(examples, digest_of(examples), DataShape::Sparse { width })
}

/// Builds the application from the examples that this process has, and from the summaries of all.
pub(super) fn build(
    config: &LogisticRegressionConfig,
    parts: Vec<Part<'_, Divided<SparseExamples>>>,
    name: &str,
) -> Result<LogisticRegression, DataError> {
    let widths = parts.iter().map(|part| match part.summary.shape {
        DataShape::Sparse { width } => width,
        _ => 0,
    });
    let width = widths.max().unwrap_or(0);
    check_parameters("data", "this wide", width)?;
    let mut all = joined(SparseExamples::empty(width), parts);
    (all.train.width, all.test.width) = (width, width);
    Ok(LogisticRegression::new(config.clone(), all, name))
}
