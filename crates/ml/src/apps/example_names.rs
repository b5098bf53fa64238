//! The names that classifiers keep beside their tables.

use gaia_core::application::{Attachment, Names};

/// The attachment with the names of classes.
pub const CLASS_NAMES: &str = "classes.names";

/// The attachment with the names of features.
pub const FEATURE_NAMES: &str = "features.names";

/// The names of classes and of features as attachments, where the data has names for them.
pub(super) fn example_names(
    classes: Option<&Names>,
    features: Option<&[String]>,
) -> impl Iterator<Item = (String, Attachment)> {
    let classes = classes.map(|names| (CLASS_NAMES.into(), names.clone().into()));
    let features = features.map(|names| (FEATURE_NAMES.into(), Attachment::Texts(names.to_vec())));
    classes.into_iter().chain(features)
}
