//! Why an application cannot go on.

use std::error::Error;

/// Why an application cannot go on: a reason of its own, such as data that is gone. It ends the run, with the name of the
/// worker where a task has failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ApplicationError(Box<dyn Error + Send + Sync>);

impl ApplicationError {
    /// The error with this reason, such as a text or an error of the application's own.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }

    /// The reason.
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}
