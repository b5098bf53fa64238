//! Examples in files of columns: what dense and sparse ones have in common.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::files::files_of;
use crate::formats::name_index::NameIndex;
use crate::formats::table::{Batch, Column};
use crate::scratch::{Encoded, Gathered};

/// Sets of examples while they are read: those that train, and those of a validation set.
pub(crate) trait ExampleTables: Sized {
    type Examples: Encoded;

    /// Begins a set: the files that follow belong to it.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    fn begin_set(&mut self) -> Result<(), DataError>;

    /// The number of examples of the last set.
    fn count(&self) -> usize;

    /// From here on examples are those that a trained model is given: files may have no column of labels.
    fn set_given(&mut self);

    /// Adds the examples of a file to the last set.
    fn add_file(&mut self, file: &Path) -> Result<(), DataError>;

    /// The sets, with all classes known.
    fn into_examples(self) -> Result<ExampleSets<Self::Examples>, DataError>;

    /// Adds a set of examples, those of the files that a path names.
    fn add_files(&mut self, path: &Path) -> Result<(), DataError> {
        self.begin_set()?;
        files_of(path)?.iter().try_for_each(|file| self.add_file(file))
    }

    /// Adds a set of examples, those of the files that a path names. At least two.
    fn add_set(&mut self, path: &Path) -> Result<(), DataError> {
        self.add_files(path)?;
        match self.count() {
            0 | 1 => {
                let found = format!("{} in all", self.count());
                let expected = "at least 2 examples";
                Err(DataError::broken(path, FilePosition::Whole, found, expected))
            }
            _ => Ok(()),
        }
    }

    /// Reads the examples of the files that a path names, with or without labels. At least one.
    fn read_any(mut self, path: &Path) -> Result<Self::Examples, DataError> {
        self.set_given();
        self.add_files(path)?;
        if self.count() == 0 {
            let expected = "at least one example";
            return Err(DataError::broken(path, FilePosition::Whole, "no row", expected));
        }
        let (mut sets, _) = self.into_examples()?;
        sets.remove(0).into_memory()
    }
}

/// Sets of examples, and the names of their features where each has one.
pub(crate) type ExampleSets<E> = (Vec<Gathered<E>>, Option<Vec<String>>);

/// Takes the labels of a batch, its last column if it has any. Classes are numbered as they are found.
pub(super) fn take_labels(
    batch: &mut Batch,
    is_labelled: bool,
    classes: &mut NameIndex,
) -> Vec<u32> {
    match is_labelled.then(|| batch.columns.pop()).flatten() {
        Some(Column::Names(labels)) => classes.places(&labels),
        _ => vec![NO_LABEL; batch.rows.len()],
    }
}

/// The values of a column of numbers.
pub(super) fn numbers(column: &Column) -> &[f32] {
    match column {
        Column::Numbers(numbers) => numbers,
        _ => unreachable!("columns are those that were asked for"),
    }
}

/// Of an example without a label.
pub(crate) const NO_LABEL: u32 = u32::MAX;
