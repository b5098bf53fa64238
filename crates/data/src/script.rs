//! The application of a script, in a process that does not run it.

use std::ops::Range;
use std::sync::Arc;

use crate::error::DataError;
use crate::own_data::not_built_in;
use gaia_core::application::{Application, ApplicationError, EvaluationSums, Metric, Task, Work};
use gaia_core::types::{Clock, Deltas, Model, ModelLayout, RowSet, Seed};
use gaia_ml::ConfigError;
use gaia_ml::apps::ExternalConfig;
use gaia_model::ScriptModel;

/// A script's model, without the script: what a coordinator and servers need.
struct ScriptElsewhere {
    model: ScriptModel,
    layout: Arc<ModelLayout>,
    workers: usize,
    /// The path of the file.
    name: String,
}

/// The task of a worker whose script is elsewhere.
struct TaskElsewhere {
    layout: Arc<ModelLayout>,
}

/// The application of a script over `workers`, from the file that `gaia init` has written, for a process that runs the tasks
/// of `own`, which is none. Its tasks and evaluations are errors: they are those of processes that run the script.
///
/// # Errors
/// [`DataError::Config`] where there is no such file, or the process has workers. [`DataError::Unreadable`] where the file
/// cannot be read, [`DataError::Model`] where it is another one.
pub fn script(
    config: &ExternalConfig,
    workers: usize,
    own: &Range<usize>,
) -> Result<Arc<dyn Application>, DataError> {
    if !own.is_empty() {
        return Err(not_built_in().into());
    }
    let file = config.model.as_ref().ok_or_else(|| {
        let expected =
            "what gaia init has written of the script, in a process that does not run it";
        ConfigError::new("model", "missing", expected)
    })?;
    let model = ScriptModel::read(file)?;
    let layout = model.layout();
    Ok(Arc::new(ScriptElsewhere { model, layout, workers, name: file.display().to_string() }))
}

impl Application for ScriptElsewhere {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn initial_model(&self, _: Seed) -> Model {
        self.model.initial_model(&self.layout)
    }

    fn task(&self, _: usize, _: Seed) -> Box<dyn Task> {
        Box::new(TaskElsewhere { layout: self.layout.clone() })
    }

    fn sums(&self, _: &Model, _: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        Err(ApplicationError::new(NO_SCRIPT))
    }

    fn metric(&self) -> Metric {
        self.model.settings.metric()
    }

    fn momentum(&self) -> f64 {
        self.model.settings.momentum
    }

    fn deltas_are_shares(&self) -> bool {
        self.model.deltas_are_shares()
    }

    fn describe(&self) -> String {
        let (parameters, tensors) = (self.layout.parameters(), self.model.tensors.len());
        format!("{}, {parameters} parameters in {tensors} tensors", self.name)
    }
}

impl Task for TaskElsewhere {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::without_sparse_rows(&self.layout)
    }

    fn iterate(&mut self, _: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        Err(ApplicationError::new(NO_SCRIPT))
    }

    fn repeats(&self) -> bool {
        false
    }
}

const NO_SCRIPT: &str =
    "this process does not run the script of the model, expected a worker of a process that does";
