//! The wish to end a run in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// Ends a run in order once it is set.
#[pyclass(frozen, module = "gaia._gaia")]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

#[pymethods]
impl Interrupt {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Ends the run in order.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
