//! An initial model from a file, such as the `model.safetensors` of an earlier run.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};

use super::error::{DataError, FilePosition, shown};
use super::source::check_is_file;
use gaia_core::application::{Application, EvaluationSums, Metric, Task};
use gaia_core::types::{Clock, Model, ModelLayout, Seed};

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
/// [`DataError::Unreadable`] where the file cannot be read. [`DataError::Broken`] where it is not a safetensors file or
/// its tables are not those of the application, with the first that differs; where it has a value that is not finite.
pub fn initialized(
    application: Arc<dyn Application>,
    file: &Path,
) -> Result<Arc<dyn Application>, DataError> {
    let initial = read_model(file, application.layout())?;
    Ok(Arc::new(Initialized { application, initial, name: file.display().to_string() }))
}

/// Reads the tables of a model from a safetensors file. Its metadata is ignored.
fn read_model(file: &Path, layout: &Arc<ModelLayout>) -> Result<Model, DataError> {
    let unreadable = |reason| DataError::Unreadable { file: file.into(), reason };
    let broken = |found: String, expected: String| {
        DataError::broken(file, FilePosition::Whole, found, expected)
    };
    check_is_file(file)?;
    let bytes = std::fs::read(file).map_err(unreadable)?;
    let tensors = SafeTensors::deserialize(&bytes)
        .map_err(|error| broken(error.to_string(), "a safetensors file".into()))?;

    let mut model = Model::zeros(layout.clone());
    for id in layout.table_ids() {
        let table = layout.table(id);
        let (name, shape) = (&table.name, [table.rows, table.width]);
        let expected = format!("the table `{name}` with the shape {shape:?} as F32");
        let Ok(tensor) = tensors.tensor(name) else {
            return Err(broken(listed(&tensors.names()), expected));
        };
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            return Err(broken(
                format!("`{name}` with the shape {shape:?} as {dtype:?}"),
                expected,
            ));
        }

        let values = tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        for (place, (own, value)) in model.table_mut(id).iter_mut().zip(values).enumerate() {
            if !value.is_finite() {
                let row = place / table.width;
                return Err(broken(format!("{value} in row {row} of `{name}`"), "a number".into()));
            }
            *own = value;
        }
    }

    let is_own = |name: &str| layout.tables().iter().any(|table| table.name == name);
    match tensors.names().into_iter().find(|name| !is_own(name)) {
        Some(other) => {
            let own: Vec<&str> = layout.tables().iter().map(|table| table.name.as_str()).collect();
            let found = format!("the table {}", shown(other.as_bytes()));
            Err(broken(found, format!("only {}", listed(&own))))
        }
        None => Ok(model),
    }
}

/// The names of tables, as many as fit in a message.
fn listed(names: &[&str]) -> String {
    let first: Vec<String> =
        names.iter().take(NAMES_SHOWN).map(|name| shown(name.as_bytes())).collect();
    let more = if names.len() > NAMES_SHOWN { " and others" } else { "" };
    format!("the tables {}{more}", first.join(", "))
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

    fn sums(&self, model: &Model, workers: Range<usize>) -> EvaluationSums {
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

    fn highlights(&self, model: &Model) -> Vec<String> {
        self.application.highlights(model)
    }
}

const NAMES_SHOWN: usize = 8;
