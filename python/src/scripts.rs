//! The applications that the Python package trains: those that are built in, and scripts.

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;

use crate::program::{Program, Starter};
use gaia::{
    Application, Applications, BuiltIn, DataError, DriverKind, ExternalConfig, Plan, ScriptModel,
};

/// What is trained: the application of the run file, or a script.
pub(crate) struct Scripts {
    start: Py<PyAny>,
    program: Vec<OsString>,
    interrupted: Option<Arc<AtomicBool>>,
}

impl Scripts {
    pub(crate) fn new(
        start: Py<PyAny>,
        program: Vec<OsString>,
        interrupted: Option<Arc<AtomicBool>>,
    ) -> Self {
        Self { start, program, interrupted }
    }
}

impl Scripts {
    /// Starts the script of a plan for the first of these workers, and waits for its model.
    fn start(
        &self,
        plan: &Plan,
        external: &ExternalConfig,
        workers: Range<usize>,
    ) -> Result<Program, DataError> {
        let starter = Starter {
            start: Python::attach(|py| self.start.clone_ref(py)),
            script: external.script.clone(),
            arguments: external.arguments.clone(),
            seed: plan.seed.0,
            workers: plan.topology.data_centers.iter().map(|dc| dc.workers).collect(),
            is_real: plan.driver == DriverKind::Real,
        };
        Program::start(starter, workers).map_err(failed)
    }
}

/// Why a script is no application of the run.
fn failed(reason: String) -> DataError {
    DataError::Application(reason.into())
}

impl Applications for Scripts {
    fn build(&self, plan: &Plan, workers: Range<usize>) -> Result<Arc<dyn Application>, DataError> {
        let external = plan.external().filter(|external| {
            // The model is in a file, and nobody runs the script.
            !(workers.is_empty() && external.model.is_some())
        });
        let Some(external) = external else { return BuiltIn.build(plan, workers) };
        let mut program = self.start(plan, external, workers)?;
        if plan.remote.guard().is_some()
            && let Some(table) = program.sparse_table()
        {
            return Err(failed(format!(
                "sync.remote.guard compares whole copies, expected none for a model with the sparse table `{table}`"
            )));
        }
        if let Some(file) = &external.model {
            program = program.with_model(ScriptModel::read(file)?, file).map_err(failed)?;
        }
        if plan.model.init.is_some() {
            program = program.with_values_of_a_file();
        }
        Ok(Arc::new(program))
    }

    fn program(&self) -> Option<Vec<OsString>> {
        Some(self.program.clone())
    }

    fn trains_scripts(&self) -> bool {
        true
    }

    fn script_model(&self, plan: &Plan) -> Result<ScriptModel, DataError> {
        let external = plan.external().cloned().unwrap_or_default();
        Ok(self.start(plan, &external, 0..0)?.into_model())
    }

    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        self.interrupted.clone()
    }
}
