//! The classes of given examples: as the model knows them.

use std::path::Path;

use super::predictions::PredictionValues;
use crate::error::{DataError, FilePosition, shown};
use crate::formats::class_names::{UNKNOWN, places};
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

/// For each of the classes in a file its place among those of the model.
///
/// # Errors
/// [`DataError::Broken`] with the first class that the model does not know.
pub(super) fn known_places(
    own: &Names,
    model: &Names,
    (path, trained): (&Path, &TrainedModel),
) -> Result<Vec<u32>, DataError> {
    let places = places(own, model);
    let Some(unknown) = places.iter().position(|&place| place == UNKNOWN) else {
        return Ok(places);
    };
    let name = own.get(unknown).map(|name| name.to_string()).unwrap_or_default();
    let found = format!("the class {}", shown(name.as_bytes()));
    let expected = format!("one of the {} classes of {}", model.len(), trained.file.display());
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
