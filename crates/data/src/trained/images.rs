//! A trained network, and dense examples that it is given.

use std::path::PathBuf;

use super::classes::{check_known, check_labels, class_names, column, feature_names};
use super::predictions::{Predictions, check_finite, numbers};
use crate::error::DataError;
use crate::formats::class_names::{numbered, places};
use crate::formats::dense_tables::DenseTables;
use crate::formats::example_tables::{ExampleTables, NO_LABEL};
use crate::formats::table::TableFormat;
use crate::kinds::images::read_folders;
use crate::rescaled::rescaling_of;
use gaia_core::application::{Attachment, Names};
use gaia_core::types::Model;
use gaia_ml::apps::{CLASSES, ImageSource, Network};
use gaia_ml::columns::DenseColumns;
use gaia_ml::config::DataConfig;
use gaia_ml::examples::DenseExamples;
use gaia_ml::kernels::vector::largest;
use gaia_model::TrainedModel;

/// Dense examples of the classes of a trained network.
pub(super) struct GivenImages {
    pub(super) network: Network,
    images: DenseExamples,
    class_names: Option<Names>,
    is_labelled: bool,
    path: PathBuf,
}

impl GivenImages {
    /// Reads examples. `build` makes the application over them.
    pub(super) fn read<G: Clone + Default>(
        data: &DataConfig<ImageSource, G>,
        trained: &TrainedModel,
        build: impl FnOnce(DenseExamples) -> Result<Network, DataError>,
    ) -> Result<Self, DataError> {
        let path = super::path(data)?;
        let class_names = class_names(trained);
        let columns = &data.columns;
        let tables = |format| {
            let features = columns.features.clone().or_else(|| feature_names(trained));
            let columns = DenseColumns { features, ..columns.clone() };
            DenseTables::new(format, &columns, None).read_any(path)
        };
        let mut images = match data.source {
            ImageSource::Csv => tables(TableFormat::csv(columns.separator))?,
            ImageSource::Parquet => tables(TableFormat::Parquet)?,
            ImageSource::Synthetic | ImageSource::Idx | ImageSource::Cifar => {
                let [train, test] = read_folders(path, data.source, None)?;
                if test.len() == 0 { train.into_memory()? } else { test.into_memory()? }
            }
        };

        let classes = classes(trained).unwrap_or(images.classes);
        let is_labelled = !images.labels.contains(&NO_LABEL);
        if is_labelled {
            // Classes without names are named by their numbers.
            let own = images.class_names.as_ref();
            let known = class_names.clone().unwrap_or_else(|| numbered(classes));
            let places = places(&own.cloned().unwrap_or_else(|| numbered(images.classes)), &known);
            let examples = images.labels.iter().map(|label| (*label as usize, label));
            check_known(examples, (own, &places), &known, (path, trained))?;
            images.labels.iter_mut().for_each(|label| *label = places[*label as usize]);
        } else {
            images.labels.fill(0);
        }
        (images.classes, images.class_names) = (classes, class_names.clone());

        let (rescaling, _) = rescaling_of(trained)?;
        rescaling.apply_to_dense(&mut images);
        let network = build(images.clone())?.with_feature_names(feature_names(trained));
        let network = network.with_rescaling(rescaling);
        Ok(Self { network, images, class_names, is_labelled, path: path.to_owned() })
    }

    /// The number of examples.
    pub(super) fn len(&self) -> usize {
        self.images.len()
    }

    /// Checks that examples have labels.
    pub(super) fn check_labels(&self) -> Result<(), DataError> {
        check_labels(self.is_labelled, &self.path)
    }

    /// The labels where there are any, the most likely classes, and the probability of each class.
    ///
    /// # Errors
    /// [`DataError::Broken`] with the first example of which the model predicts no finite numbers.
    pub(super) fn predictions(&self, model: &Model) -> Result<Predictions, DataError> {
        let Self { network, images, class_names, is_labelled, path } = self;
        let probabilities = network.probabilities(model, images);
        check_finite(&probabilities, images.classes, path, |at| format!("example {at}"))?;
        let names = class_names.as_ref();
        let mut columns = vec![numbers(images.len())];
        if *is_labelled {
            let labels = images.labels.iter().map(|&label| label as usize);
            columns.push(("label".into(), column(names, labels)));
        }
        let classes = probabilities.chunks_exact(images.classes).map(largest);
        columns.push(("class".into(), column(names, classes)));
        let name = |class: usize| match names.and_then(|names| names.get(class)) {
            Some(name) => format!("probability.{name}"),
            None => format!("probability.{class}"),
        };
        Ok(Predictions::new(columns).with_each(name, &probabilities))
    }
}

/// The number of classes of a model.
fn classes(trained: &TrainedModel) -> Option<usize> {
    match trained.attachments.get(CLASSES) {
        Some(Attachment::Integers(classes)) if classes.len() == 1 => {
            usize::try_from(classes[0]).ok()
        }
        _ => None,
    }
}
