//! The classes of given examples: as the model knows them.

use std::path::Path;

use super::predictions::PredictionValues;
use crate::error::{DataError, FilePosition, shown};
use gaia_core::application::{Attachment, Name, Names};
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
pub(super) fn places(
    own: &Names,
    model: &Names,
    (path, trained): (&Path, &TrainedModel),
) -> Result<Vec<u32>, DataError> {
    let place = |at: usize| {
        let name = own.get(at).unwrap_or(Name::Number(0));
        let text = name.to_string();
        let found = model.place(name).or_else(|| model.place(Name::Text(&text)));
        found.map(|place| place as u32).ok_or_else(|| {
            let found = format!("the class {}", shown(text.as_bytes()));
            let expected =
                format!("one of the {} classes of {}", model.len(), trained.file.display());
            DataError::broken(path, FilePosition::Whole, found, expected)
        })
    };
    (0..own.len()).map(place).collect()
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

/// The error of examples without labels where labels are needed.
pub(super) fn no_labels(path: &Path) -> DataError {
    let found = "examples without labels";
    DataError::broken(path, FilePosition::Whole, found, "a label for each example")
}
