//! A set of examples while it is read.

use std::sync::Arc;

use super::encoding::Encoded;
use super::scratch_space::ScratchSpace;
use super::spool::{BLOCK_BYTES, Spool};
use crate::error::DataError;

/// A set of examples while it is read: in memory, or on disk but for the last ones.
pub(crate) struct ExampleSet<E> {
    /// All examples in memory, or those that do not fill a block yet.
    held: E,
    spool: Option<Spool<E>>,
}

/// A set of examples that has been read.
pub(crate) enum Gathered<E> {
    InMemory(E),
    OnDisk(Spool<E>),
}

impl<E: Encoded> ExampleSet<E> {
    /// No examples. Those that follow are on disk if there is space for them.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn new(none: E, space: Option<&ScratchSpace>) -> Result<Self, DataError> {
        let scratch = space.map(ScratchSpace::file).transpose()?;
        let spool = scratch.map(|scratch| Spool::new(scratch, none.clone()));
        Ok(Self { held: none, spool })
    }

    /// Gives the examples a shape, before there are any.
    pub(crate) fn begin(&mut self, none: E) {
        if self.len() == 0 {
            if let Some(spool) = &mut self.spool {
                spool.begin(none.clone());
            }
            self.held = none;
        }
    }

    /// No examples, of the shape of those that are added.
    pub(crate) fn none(&self) -> E {
        self.held.none()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.spool.as_ref().map_or(0, Spool::len) + self.held.len()
    }

    /// How many there may be. Positions in memory are 32-bit.
    pub(crate) fn most(&self) -> usize {
        if self.spool.is_some() { 1 << 40 } else { 1 << 30 }
    }

    /// Where more examples are added. [`Self::settle`] follows.
    pub(crate) fn held(&mut self) -> &mut E {
        &mut self.held
    }

    /// Writes what is held to disk if it fills a block and belongs there.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn settle(&mut self) -> Result<(), DataError> {
        match &mut self.spool {
            Some(spool) if self.held.bytes() >= BLOCK_BYTES => {
                spool.push(&self.held)?;
                self.held = self.held.none();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The whole set.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn finish(self) -> Result<Gathered<E>, DataError> {
        let Some(mut spool) = self.spool else { return Ok(Gathered::InMemory(self.held)) };
        if !self.held.is_empty() {
            spool.push(&self.held)?;
        }
        Ok(Gathered::OnDisk(spool))
    }
}

impl<E: Encoded> Gathered<E> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InMemory(examples) => examples.len(),
            Self::OnDisk(spool) => spool.len(),
        }
    }

    /// No examples, of their shape.
    pub(crate) fn none(&self) -> E {
        match self {
            Self::InMemory(examples) => examples.none(),
            Self::OnDisk(spool) => spool.none(),
        }
    }

    /// The set with each of its examples, and its shape, changed.
    #[must_use]
    pub(crate) fn changed(self, change: impl Fn(&mut E) + Send + Sync + 'static) -> Self {
        match self {
            Self::InMemory(mut examples) => {
                change(&mut examples);
                Self::InMemory(examples)
            }
            Self::OnDisk(spool) => Self::OnDisk(spool.changed(Arc::new(change))),
        }
    }

    /// All examples on disk.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn into_spool(self, space: &ScratchSpace) -> Result<Spool<E>, DataError> {
        match self {
            Self::OnDisk(spool) => Ok(spool),
            Self::InMemory(examples) => {
                let mut spool = Spool::new(space.file()?, examples.none());
                spool.push(&examples)?;
                Ok(spool)
            }
        }
    }

    /// All examples in memory.
    ///
    /// # Errors
    /// Where they are on disk and cannot be read.
    pub(crate) fn into_memory(self) -> Result<E, DataError> {
        match self {
            Self::InMemory(examples) => Ok(examples),
            Self::OnDisk(spool) => spool.read(0..spool.len()),
        }
    }
}
