//! Images in folders while they are read: those that train, and those that test.

use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::scratch::{ExampleSet, Gathered, ScratchSpace};
use gaia_ml::examples::{DenseExamples, Shape};

/// The images of one folder, or of several with images of one shape.
pub(crate) struct ImageSets {
    pub(super) train: ExampleSet<DenseExamples>,
    pub(super) test: ExampleSet<DenseExamples>,
    /// The folder that is read first: it decides the shape.
    pub(super) first: PathBuf,
    pub(super) classes: usize,
}

impl ImageSets {
    /// No images. They go where there is space for them, or stay in memory.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn new(first: &Path, space: Option<&ScratchSpace>) -> Result<Self, DataError> {
        let none = || ExampleSet::new(DenseExamples::empty(Shape::row(0), 0), space);
        Ok(Self { train: none()?, test: none()?, first: first.into(), classes: 0 })
    }

    /// The number of images that train, and how many there may be.
    pub(crate) fn train_count(&self) -> (usize, usize) {
        (self.train.len(), self.train.most())
    }

    /// The images that train and those that test, of the classes of both.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn finish(self) -> Result<[Gathered<DenseExamples>; 2], DataError> {
        let Self { train, test, classes, .. } = self;
        let gathered = |set: ExampleSet<DenseExamples>| {
            let changed = set.finish()?.changed(move |examples| examples.classes = classes);
            Ok::<_, DataError>(changed)
        };
        Ok([gathered(train)?, gathered(test)?])
    }
}
