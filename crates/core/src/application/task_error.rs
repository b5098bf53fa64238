//! Why a task cannot go on.

use std::error::Error;

/// Why a task cannot go on: a reason of the application. It ends the run with the name of the worker.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TaskError(Box<dyn Error + Send + Sync>);

impl TaskError {
    /// The error with this reason, such as a text or an error of the application's own.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }

    /// The reason.
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}
