//! The images of a classifier: from the folders of each home, or generated.

use std::path::Path;

use super::cifar::read_cifar;
use super::error::{DataError, FilePosition};
use super::files::folders_of;
use super::homes::{Divided, Home, homes, joined};
use super::idx::read_idx;
use super::{files_in_words, home_in_words, path_of, synthetic};
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::apps::ImageSource;
use gaia_ml::config::DataConfig;
use gaia_ml::examples::DenseExamples;

/// Images from files, or synthetic ones, which reports call `kind`.
pub(super) fn images<G: Clone + Default>(
    data: &DataConfig<ImageSource, G>,
    all: &[DataHome],
    kind: &str,
    seed: Seed,
    make: impl FnOnce(Seed) -> synthetic::Generated<DenseExamples>,
) -> Result<(Divided<DenseExamples>, String), DataError> {
    let homes = homes(data, all, seed)?;
    let divide = |home: &Home<_, _>, train: DenseExamples, test: DenseExamples| {
        let labels = train.labels.clone();
        home.split(train, test, &labels)
    };

    if data.source == ImageSource::Synthetic && !data.is_per_data_center() {
        let made = make(seed.child("synthetic"));
        let name = format!("{kind} (best accuracy {:.3})", made.best_accuracy);
        return Ok((divide(&homes[0], made.train, made.test), name));
    }

    let mut divided: Vec<Divided<DenseExamples>> = Vec::new();
    for home in &homes {
        let path = path_of(home.data.path.as_deref())?;
        let read = if home.data.source == ImageSource::Idx { read_idx } else { read_cifar };
        let (train, test) = read_folders(path, read)?;
        if let Some(first) = divided.first().filter(|first| first.train.shape != train.shape) {
            let found = format!("images of {} pixels", train.shape);
            let expected =
                format!("{} pixels, as in {}", first.train.shape, home_in_words(&homes[0]));
            return Err(DataError::broken(path, FilePosition::Whole, found, expected));
        }
        divided.push(divide(home, train, test));
    }

    let mut all = joined(divided)?;
    let classes = all.train.classes.max(all.test.classes);
    (all.train.classes, all.test.classes) = (classes, classes);
    Ok((all, files_in_words(data, &homes)))
}

/// Training and test images.
type Images = (DenseExamples, DenseExamples);

/// Reads the images of a folder, or of the folders that match a pattern.
fn read_folders(
    path: &Path,
    read: fn(&Path) -> Result<Images, DataError>,
) -> Result<Images, DataError> {
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
