//! A set of examples while it is read.

use std::sync::Arc;

use super::encoding::Encoded;
use super::scratch_space::ScratchSpace;
use super::spool::{BLOCK_BYTES, Change, Spool};
use super::spool_writer::SpoolWriter;
use crate::error::DataError;

/// A set of examples while it is read: in memory, or on disk but for the last ones.
pub(crate) enum ExampleSet<E> {
    InMemory(E),
    OnDisk(SpoolWriter<E>),
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
        Ok(match space {
            None => Self::InMemory(none),
            Some(space) => {
                let spool = Spool::new(space.file()?, none);
                Self::OnDisk(SpoolWriter::new(spool, BLOCK_BYTES))
            }
        })
    }

    /// Gives the examples a shape, before there are any.
    pub(crate) fn begin(&mut self, none: E) {
        if self.len() > 0 {
            return;
        }
        match self {
            Self::InMemory(examples) => *examples = none,
            Self::OnDisk(writer) => writer.begin(none),
        }
    }

    /// No examples, of the shape of those that are added.
    pub(crate) fn none(&mut self) -> E {
        self.held().none()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InMemory(examples) => examples.len(),
            Self::OnDisk(writer) => writer.len(),
        }
    }

    /// How many there may be. Positions in memory are 32-bit.
    pub(crate) fn most(&self) -> usize {
        match self {
            Self::InMemory(_) => 1 << 30,
            Self::OnDisk(_) => 1 << 40,
        }
    }

    /// Where more examples are added. [`Self::settle`] follows.
    pub(crate) fn held(&mut self) -> &mut E {
        match self {
            Self::InMemory(examples) => examples,
            Self::OnDisk(writer) => writer.held(),
        }
    }

    /// Writes what is held to disk if it fills a block and belongs there.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn settle(&mut self) -> Result<(), DataError> {
        match self {
            Self::InMemory(_) => Ok(()),
            Self::OnDisk(writer) => writer.settle(),
        }
    }

    /// The whole set.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn finish(self) -> Result<Gathered<E>, DataError> {
        Ok(match self {
            Self::InMemory(examples) => Gathered::InMemory(examples),
            Self::OnDisk(writer) => Gathered::OnDisk(writer.finish()?),
        })
    }

    /// Whole sets, with each of their examples, and their shapes, changed.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn finish_all(
        sets: Vec<Self>,
        change: impl Fn(&mut E) + Send + Sync + 'static,
    ) -> Result<Vec<Gathered<E>>, DataError> {
        let change: Change<E> = Arc::new(change);
        sets.into_iter().map(|set| Ok(set.finish()?.with(change.clone()))).collect()
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
        self.with(Arc::new(change))
    }

    fn with(self, change: Change<E>) -> Self {
        match self {
            Self::InMemory(mut examples) => {
                change(&mut examples);
                Self::InMemory(examples)
            }
            Self::OnDisk(spool) => Self::OnDisk(spool.changed(change)),
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
