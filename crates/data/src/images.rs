//! The images of classifiers: from the folders of each data center, or generated.

use std::path::Path;

use super::cifar::read_cifar;
use super::digest::digest_of;
use super::error::{DataError, FilePosition};
use super::files::folders_of;
use super::homes::Home;
use super::idx::read_idx;
use super::summary::{DataShape, DataSummary, Part, disagreement, joined};
use super::synthetic::Generated;
use gaia_core::types::Seed;
use gaia_ml::apps::ImageSource;
use gaia_ml::divided::Divided;
use gaia_ml::examples::{DenseExamples, Shape};

/// Reads the images of a home, or makes them, with the accuracy of what made them.
pub(super) fn read<G: Clone + Default>(
    home: &Home<ImageSource, G>,
    make: impl FnOnce(Seed) -> Generated<DenseExamples>,
) -> Result<(Divided<DenseExamples>, Option<f64>), DataError> {
    let (train, test, best) = match home.data.source {
        ImageSource::Synthetic => {
            let made = make(home.seed.child("synthetic"));
            (made.train, made.test, Some(made.best_accuracy))
        }
        source => {
            let (train, mut test) = read_folders(home.path()?, source)?;
            if let Some(validation) = &home.validation {
                (_, test) = read_folders(validation, source)?;
                check_shape(validation, &test, &train)?;
            }
            (train, test, None)
        }
    };
    let labels = train.labels.clone();
    Ok((home.split(train, test, &labels), best))
}

/// Checks that images of a validation set are as those that train.
fn check_shape(
    validation: &Path,
    test: &DenseExamples,
    train: &DenseExamples,
) -> Result<(), DataError> {
    if test.shape == train.shape {
        return Ok(());
    }
    let found = format!("images of {} pixels", test.shape);
    let expected = format!("{} pixels, as those that train have", train.shape);
    Err(DataError::broken(validation, FilePosition::Whole, found, expected))
}

pub(super) fn summary(images: &Divided<DenseExamples>) -> DataSummary {
    let classes = images.train.classes.max(images.test.classes);
    let shape = DataShape::of_images(images.train.shape, classes);
    DataSummary::new(images, digest_of(images), shape)
}

/// The images of all data centers, of which this process has some. They have one shape, and the classes of all.
pub(super) fn gathered(
    parts: Vec<Part<'_, Divided<DenseExamples>>>,
) -> Result<Divided<DenseExamples>, DataError> {
    let first = parts[0].shape();
    if let Some(other) = parts.iter().find(|part| part.shape().0 != first.0) {
        let values =
            (format!("images of {} pixels", other.shape().0), format!("{} pixels", first.0));
        return Err(disagreement(other, &parts[0], values));
    }

    let classes = parts.iter().map(|part| part.shape().1).max().unwrap_or(first.1);
    let mut all = joined(DenseExamples::empty(first.0, classes), parts);
    (all.train.classes, all.test.classes) = (classes, classes);
    Ok(all)
}

impl Part<'_, Divided<DenseExamples>> {
    /// The shape of images and the number of classes.
    fn shape(&self) -> (Shape, usize) {
        match self.summary.shape {
            DataShape::Images { channels, height, width, classes } => {
                (Shape { channels, height, width }, classes)
            }
            _ => (Shape::row(0), 0),
        }
    }
}

/// Training and test images.
type Images = (DenseExamples, DenseExamples);

/// Reads the images of a folder, or of the folders that match a pattern.
pub(super) fn read_folders(path: &Path, source: ImageSource) -> Result<Images, DataError> {
    let read = if source == ImageSource::Idx { read_idx } else { read_cifar };
    let folders = folders_of(path)?;
    let (mut train, mut test) = read(&folders[0])?;
    for folder in &folders[1..] {
        let (more, more_test) = read(folder)?;
        if more.shape != train.shape {
            let found = format!("images of {} pixels", more.shape);
            let expected = format!("{} pixels, as in {}", train.shape, folders[0].display());
            return Err(DataError::broken(folder, FilePosition::Whole, found, expected));
        }
        if train.len() + more.len() > IMAGES_MAX {
            let found = format!("{} images with the folders before", train.len() + more.len());
            let expected = format!("at most {IMAGES_MAX} images in all folders");
            return Err(DataError::broken(folder, FilePosition::Whole, found, expected));
        }
        train.append(more);
        test.append(more_test);
    }
    let classes = train.classes.max(test.classes);
    (train.classes, test.classes) = (classes, classes);
    Ok((train, test))
}

/// Training images in all folders: positions are 32-bit.
const IMAGES_MAX: usize = 1 << 30;
