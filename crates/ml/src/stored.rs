//! Examples that are not in memory.

use std::ops::Range;
use std::sync::Arc;

use gaia_core::application::ApplicationError;

/// One worker's examples that train or that test, to be read when they are needed.
///
/// Examples that train are in an order that was drawn at random: the first ones are a sample of all.
pub trait StoredExamples<E>: Send + Sync {
    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the examples weigh in an objective: the tokens of documents, otherwise the number of examples.
    fn weight(&self) -> u64;

    /// Runs of examples that are read at no extra cost, in their order: together all examples.
    fn blocks(&self) -> Vec<Range<usize>>;

    /// How many examples at most a worker is to hold at a time, at least 1. It may hold as many more that are being read.
    fn window(&self) -> usize;

    /// Reads the examples at some places, in their order.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn read(&self, places: Range<usize>) -> Result<E, ApplicationError>;

    /// Begins to read the examples at some places, beside the caller. What is returned waits until they are there.
    fn begin_read(&self, places: Range<usize>) -> Reading<E>;
}

/// Examples that are being read: waits until they are there.
pub type Reading<E> = Box<dyn FnOnce() -> Result<E, ApplicationError> + Send>;

/// The examples of one worker that are not in memory.
pub struct StoredParts<E> {
    /// Those that train.
    pub train: Arc<dyn StoredExamples<E>>,
    /// Those that are held out.
    pub test: Arc<dyn StoredExamples<E>>,
}

impl<E> Clone for StoredParts<E> {
    fn clone(&self) -> Self {
        Self { train: self.train.clone(), test: self.test.clone() }
    }
}
