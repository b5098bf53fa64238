//! Examples on disk, block by block.

use std::ops::Range;
use std::sync::Arc;

use super::encoding::Encoded;
use super::scratch_file::{Block, ScratchFile};
use crate::error::DataError;

/// Examples in blocks of a scratch file, in an order.
#[derive(Clone)]
pub(crate) struct Spool<E> {
    scratch: Arc<ScratchFile>,
    blocks: Vec<Block>,
    /// The place of the first example of each block, and of the one after the last.
    starts: Vec<usize>,
    /// No examples, of the shape that was written.
    none: E,
    /// What is done to examples that were read.
    changes: Vec<Change<E>>,
}

/// A change of examples, such as other numbers for their classes.
pub(crate) type Change<E> = Arc<dyn Fn(&mut E) + Send + Sync>;

impl<E: Encoded> Spool<E> {
    /// No examples yet; `none` has their shape.
    pub(super) fn new(scratch: Arc<ScratchFile>, none: E) -> Self {
        Self { scratch, blocks: Vec::new(), starts: vec![0], none, changes: Vec::new() }
    }

    /// Gives the examples a shape, before there are any.
    pub(super) fn begin(&mut self, none: E) {
        self.none = none;
    }

    /// No examples in another file, with the changes of these.
    pub(super) fn like(&self, scratch: Arc<ScratchFile>) -> Self {
        let changes = self.changes.clone();
        Self { changes, ..Self::new(scratch, self.none.clone()) }
    }

    /// Adds a block of examples, as they are before any change.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(super) fn push(&mut self, examples: &E) -> Result<(), DataError> {
        let mut bytes = Vec::with_capacity(examples.bytes() + 64);
        examples.encode(&mut bytes);
        let end = self.len() + examples.len();
        self.blocks.push(self.scratch.append(&bytes)?);
        self.starts.push(end);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.starts[self.blocks.len()]
    }

    /// The bytes of all examples.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes() as u64).sum()
    }

    /// No examples, of the shape that was written.
    pub(super) fn none_as_written(&self) -> E {
        self.none.clone()
    }

    /// All examples, as they were written.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_as_written(&self) -> Result<E, DataError> {
        self.read_between(0..self.len())
    }

    /// No examples, of their shape.
    pub(crate) fn none(&self) -> E {
        let mut none = self.none.clone();
        self.change(&mut none);
        none
    }

    /// The same examples with one change more.
    pub(super) fn changed(mut self, change: Change<E>) -> Self {
        self.changes.push(change);
        self
    }

    /// The places of the examples of each block within some places, counted from the first of these.
    pub(super) fn blocks_within(&self, places: &Range<usize>) -> Vec<Range<usize>> {
        let clamp = |place: usize| place.clamp(places.start, places.end) - places.start;
        let within = self.starts.windows(2).map(|pair| clamp(pair[0])..clamp(pair[1]));
        within.filter(|block| !block.is_empty()).collect()
    }

    /// Calls a function with the examples of each block in turn, as they were written.
    ///
    /// # Errors
    /// Those of the function, and where a block cannot be read.
    pub(super) fn each_block(
        &self,
        mut function: impl FnMut(&E) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        (0..self.blocks.len()).try_for_each(|block| function(&self.read_block(block)?))
    }

    /// Reads the examples at some places.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] or [`DataError::Broken`].
    pub(crate) fn read(&self, places: Range<usize>) -> Result<E, DataError> {
        let mut all = self.read_between(places)?;
        self.change(&mut all);
        Ok(all)
    }

    fn read_between(&self, places: Range<usize>) -> Result<E, DataError> {
        let first = self.starts.partition_point(|start| *start <= places.start).saturating_sub(1);
        let end = self.starts.partition_point(|start| *start < places.end).min(self.blocks.len());
        let blocks = first.min(end)..end;

        let bytes = blocks.clone().map(|block| self.blocks[block].bytes()).sum();
        let mut all = self.none.clone();
        all.reserve(places.len(), bytes);
        for block in blocks {
            let (start, end) = (self.starts[block], self.starts[block + 1]);
            let wanted = start.max(places.start)..end.min(places.end);
            if wanted == (start..end) {
                self.add_block(block, &mut all)?;
            } else {
                let wanted: Vec<u32> = wanted.map(|place| (place - start) as u32).collect();
                all.append(self.read_block(block)?.select(&wanted));
            }
        }
        Ok(all)
    }

    fn read_block(&self, number: usize) -> Result<E, DataError> {
        let mut examples = self.none.clone();
        self.add_block(number, &mut examples)?;
        Ok(examples)
    }

    /// Adds the examples of a block to others.
    fn add_block(&self, number: usize, examples: &mut E) -> Result<(), DataError> {
        let block = self.blocks[number];
        let count = examples.len() + self.starts[number + 1] - self.starts[number];
        let decoded = examples.decode(&self.scratch.read(block)?);
        let decoded = decoded.filter(|()| examples.len() == count);
        decoded.ok_or_else(|| self.scratch.broken(block, "other examples in the scratch file"))
    }

    fn change(&self, examples: &mut E) {
        self.changes.iter().for_each(|change| change(examples));
    }
}

/// The bytes that fill a block: long enough that a disk reads at its full speed, and short enough for many threads.
pub(super) const BLOCK_BYTES: usize = 1 << 19;
