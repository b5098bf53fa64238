//! An initial model from a file, such as the `model.safetensors` of an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::DataError;
use gaia_core::application::{
    Application, ApplicationError, Attachment, EvaluationSums, Metric, Task,
};
use gaia_core::types::{Clock, DcId, Model, ModelLayout, Seed};
use gaia_model::TrainedModel;

/// An application whose initial model was read from a file.
struct Initialized {
    application: Arc<dyn Application>,
    initial: Model,
    /// The path of the file.
    name: String,
}

/// The same application, with the tables of a safetensors file as its initial model.
///
/// # Errors
/// [`DataError::Unreadable`] where the file cannot be read. [`DataError::Model`] where it is not the file of a model, or its
/// tables or their names are not those of the application, with the first that differs.
pub fn initialized(
    application: Arc<dyn Application>,
    file: &Path,
) -> Result<Arc<dyn Application>, DataError> {
    let initial =
        TrainedModel::read(file)?.model(application.layout(), &application.attachments())?;
    Ok(Arc::new(Initialized { application, initial, name: file.display().to_string() }))
}

impl Application for Initialized {
    fn initial_model(&self, _: Seed) -> Model {
        self.initial.clone()
    }

    fn describe(&self) -> String {
        format!("{}, from {}", self.application.describe(), self.name)
    }

    fn layout(&self) -> &Arc<ModelLayout> {
        self.application.layout()
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        self.application.task(worker, seed)
    }

    fn workers(&self) -> usize {
        self.application.workers()
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        self.application.sums(model, workers)
    }

    fn metric(&self) -> Metric {
        self.application.metric()
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.application.learning_rate_factor(clock)
    }

    fn momentum(&self) -> f64 {
        self.application.momentum()
    }

    fn deltas_are_counts(&self) -> bool {
        self.application.deltas_are_counts()
    }

    fn clocks_per_pass(&self) -> u64 {
        self.application.clocks_per_pass()
    }

    fn handle_data_centers(&self, present: &BTreeSet<DcId>) {
        self.application.handle_data_centers(present);
    }

    fn finish(&self, model: &Model, workers: Range<usize>) {
        self.application.finish(model, workers);
    }

    fn attachments(&self) -> BTreeMap<String, Attachment> {
        self.application.attachments()
    }

    fn highlights(&self, model: &Model) -> Vec<String> {
        self.application.highlights(model)
    }
}
