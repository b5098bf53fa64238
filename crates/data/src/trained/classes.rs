//! The classes of given examples: as the model knows them.

use std::fmt::Display;
use std::path::Path;

use super::predictions::PredictionValues;
use crate::error::{DataError, FilePosition, shown};
use crate::formats::class_names::{UNKNOWN, listed};
use gaia_core::application::{Attachment, Names};
use gaia_ml::apps::{CLASS_NAMES, FEATURE_NAMES};
use gaia_model::TrainedModel;

/// The names of the classes of a model, in their order, where the data has names for them.
pub(super) fn class_names(trained: &TrainedModel) -> Option<Names> {
    trained.attachments.get(CLASS_NAMES).cloned()?.names()
}

/// The columns of features that a model was trained with, in their order.
pub(super) fn feature_names(trained: &TrainedModel) -> Option<Vec<String>> {
    match trained.attachments.get(FEATURE_NAMES) {
        Some(Attachment::Texts(names)) => Some(names.clone()),
        _ => None,
    }
}

/// Checks that a model knows the classes of all examples in a file. Each example has a class and a label, and each class the name
/// that the file has for it, if any, and its place among those of the model or [`UNKNOWN`].
///
/// # Errors
/// [`DataError::Broken`] with the first example of which the model does not know the class.
pub(super) fn check_known(
    examples: impl Iterator<Item = (usize, impl Display)>,
    (own, places): (Option<&Names>, &[u32]),
    model: &Names,
    (path, trained): (&Path, &TrainedModel),
) -> Result<(), DataError> {
    let mut examples = examples.enumerate();
    let unknown = examples.find(|(_, (class, _))| places[*class] == UNKNOWN);
    let Some((at, (class, label))) = unknown else { return Ok(()) };
    let found = match own.and_then(|own| own.get(class)) {
        Some(name) => format!("the class {}", shown(name.to_string().as_bytes())),
        None => format!("the label {label} of example {at}"),
    };
    let (file, classes) = (trained.file.display(), listed(model));
    let expected = format!("one of the {} classes of {file}, {classes}", model.len());
    Err(DataError::broken(path, FilePosition::Whole, found, expected))
}

/// A column of classes, given by their places.
pub(super) fn column(
    names: Option<&Names>,
    places: impl Iterator<Item = usize>,
) -> PredictionValues {
    match names {
        None => PredictionValues::Integers(places.map(|place| place as i64).collect()),
        Some(names) => {
            let text = |place| names.get(place).map(|name| name.to_string()).unwrap_or_default();
            PredictionValues::Texts(places.map(text).collect())
        }
    }
}

/// Checks that examples have labels.
pub(super) fn check_labels(is_labelled: bool, path: &Path) -> Result<(), DataError> {
    if is_labelled {
        return Ok(());
    }
    let found = "examples without labels";
    Err(DataError::broken(path, FilePosition::Whole, found, "a label for each example"))
}
