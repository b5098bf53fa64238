//! The applications that the Python package trains: those that are built in, and scripts.

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::program::{Program, Starter};
use gaia::{Application, Applications, BuiltIn, DataError, DriverKind, Plan};

/// What is trained: the application of the run file, or a script.
pub(crate) struct Scripts {
    start: Py<PyAny>,
    program: Vec<OsString>,
}

impl Scripts {
    pub(crate) fn new(start: Py<PyAny>, program: Vec<OsString>) -> Self {
        Self { start, program }
    }
}

impl Applications for Scripts {
    fn build(&self, plan: &Plan, workers: Range<usize>) -> Result<Arc<dyn Application>, DataError> {
        let Some(external) = plan.external() else { return BuiltIn.build(plan, workers) };
        let starter = Starter {
            start: Python::attach(|py| self.start.clone_ref(py)),
            script: external.script.clone(),
            seed: plan.seed.0,
            workers: plan.topology.data_centers.iter().map(|dc| dc.workers).collect(),
            is_real: plan.driver == DriverKind::Real,
        };
        let program = Program::start(starter, workers);
        Ok(Arc::new(program.map_err(|reason| DataError::Application(reason.into()))?))
    }

    fn program(&self) -> Option<Vec<OsString>> {
        Some(self.program.clone())
    }

    fn trains_scripts(&self) -> bool {
        true
    }
}
