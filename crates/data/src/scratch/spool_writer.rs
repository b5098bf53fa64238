//! Examples on their way to a spool.

use super::encoding::Encoded;
use super::spool::Spool;
use crate::error::DataError;

/// A spool, and examples that do not fill a block of it yet.
pub(crate) struct SpoolWriter<E> {
    spool: Spool<E>,
    held: E,
    /// The bytes that fill a block.
    most: usize,
}

impl<E: Encoded> SpoolWriter<E> {
    pub(super) fn new(spool: Spool<E>, most: usize) -> Self {
        Self { held: spool.none_as_written(), spool, most }
    }

    /// Gives the examples a shape, before there are any.
    pub(super) fn begin(&mut self, none: E) {
        self.spool.begin(none.clone());
        self.held = none;
    }

    pub(super) fn len(&self) -> usize {
        self.spool.len() + self.held.len()
    }

    /// Where more examples are added. [`Self::settle`] follows.
    pub(super) fn held(&mut self) -> &mut E {
        &mut self.held
    }

    /// Writes what is held if it fills a block.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(super) fn settle(&mut self) -> Result<(), DataError> {
        if self.held.bytes() < self.most {
            return Ok(());
        }
        self.spool.push(&self.held)?;
        self.held = self.spool.none_as_written();
        Ok(())
    }

    /// Adds the chosen ones of some examples.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(super) fn add(&mut self, examples: &E, chosen: &[u32]) -> Result<(), DataError> {
        if chosen.is_empty() {
            return Ok(());
        }
        self.held.append(examples.select(chosen));
        self.settle()
    }

    /// The whole spool.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(super) fn finish(mut self) -> Result<Spool<E>, DataError> {
        if !self.held.is_empty() {
            self.spool.push(&self.held)?;
        }
        Ok(self.spool)
    }
}
