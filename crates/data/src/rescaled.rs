//! How the features of a trained model are rescaled, by its file.

use std::collections::BTreeMap;

use crate::error::DataError;
use gaia_core::application::Attachment;
use gaia_ml::rescaling::Rescaling;
use gaia_model::{ModelError, TrainedModel};

/// How the features of a trained model are rescaled, and its other attachments.
///
/// # Errors
/// [`DataError::Model`] where the attachments are not those of a model that this program has written.
pub(crate) fn rescaling_of(
    trained: &TrainedModel,
) -> Result<(Rescaling, BTreeMap<String, Attachment>), DataError> {
    let mut others = trained.attachments.clone();
    match Rescaling::take(&mut others) {
        Some(rescaling) => Ok((rescaling, others)),
        None => Err(DataError::Model(ModelError::Broken {
            file: trained.file.clone(),
            found: "other tensors `rescaled.…`".into(),
            expected: "ascending numbers of features, and for each an offset and a unit above 0"
                .into(),
        })),
    }
}
