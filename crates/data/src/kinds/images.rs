//! The images of classifiers: from the folders of each data center, or generated.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::cifar::read_cifar;
use crate::formats::class_names::{places, union};
use crate::formats::dense_tables::DenseTables;
use crate::formats::files::folders_of;
use crate::formats::idx::read_idx;
use crate::formats::table::TableFormat;
use crate::homes::digest::{digest_of, digest_of_examples};
use crate::homes::home::Home;
use crate::homes::summary::{
    DataShape, DataSummary, DenseShape, Part, disagreement, joined, undeclared,
};
use crate::kinds::{agreed_features, declared_classes, read_tables};
use crate::synthetic::Generated;
use gaia_core::application::Names;
use gaia_core::types::Seed;
use gaia_ml::apps::ImageSource;
use gaia_ml::declared::DeclaredExamples;
use gaia_ml::divided::Divided;
use gaia_ml::examples::{DenseExamples, Shape};

/// The dense examples of one data center.
pub(crate) struct LocalImages {
    images: Divided<DenseExamples>,
    /// The names of the features, where each has one.
    features: Option<Vec<String>>,
}

/// Reads the images of a home, or makes them, with the accuracy of what made them.
pub(crate) fn read<G: Clone + Default>(
    home: &Home<ImageSource, G>,
    make: impl FnOnce(Seed) -> Generated<DenseExamples>,
) -> Result<(LocalImages, Option<f64>), DataError> {
    let columns = &home.data.columns;
    let (train, test, features, best) = match home.data.source {
        ImageSource::Synthetic => {
            let made = make(home.seed.child("synthetic"));
            (made.train, made.test, None, Some(made.best_accuracy))
        }
        ImageSource::Csv => {
            let tables = DenseTables::new(TableFormat::csv(columns.separator), columns);
            read_tables(home, tables)?
        }
        ImageSource::Parquet => read_tables(home, DenseTables::new(TableFormat::Parquet, columns))?,
        source @ (ImageSource::Idx | ImageSource::Cifar) => {
            let (train, mut test) = read_folders(home.path()?, source)?;
            if let Some(validation) = &home.validation {
                (_, test) = read_folders(validation, source)?;
                check_shape(validation, &test, &train)?;
            }
            (train, test, None, None)
        }
    };
    let labels = train.labels.clone();
    Ok((LocalImages { images: home.split(train, test, &labels), features }, best))
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

impl LocalImages {
    /// The number of training examples.
    pub(crate) fn len(&self) -> usize {
        self.images.train.len()
    }

    /// The digest of the held-out examples.
    pub(crate) fn digest_of_test(&self) -> u64 {
        digest_of_examples(&self.images.test)
    }

    pub(crate) fn summary(&self) -> DataSummary {
        let Divided { train, test, .. } = &self.images;
        let Shape { channels, height, width } = train.shape;
        let shape = DenseShape {
            channels,
            height,
            width,
            classes: train.classes.max(test.classes),
            class_names: train.class_names.clone(),
            features: self.features.clone(),
        };
        DataSummary::new(&self.images, digest_of(&self.images), DataShape::Images(shape))
    }

    /// The examples with the classes of all data centers. Classes without names are named by their numbers.
    fn in_model(self, all: &Names) -> Divided<DenseExamples> {
        let mut images = self.images;
        for examples in [&mut images.train, &mut images.test] {
            let numbers = || numbered(examples.classes);
            let places = places(&examples.class_names.clone().unwrap_or_else(numbers), all);
            examples.labels.iter_mut().for_each(|label| *label = places[*label as usize]);
        }
        images
    }
}

/// The numbers of classes without names, as names.
fn numbered(classes: usize) -> Names {
    Names::Numbers((0..classes as u64).collect())
}

/// The images of all data centers, of which this process has some, and the names of their features where each has one. They
/// have one shape, and the classes of all or those that are declared.
pub(crate) fn gathered(
    parts: Vec<Part<'_, LocalImages>>,
    declared: &DeclaredExamples,
) -> Result<(Divided<DenseExamples>, Option<Vec<String>>), DataError> {
    let shapes: Vec<&DenseShape> = parts.iter().filter_map(Part::shape).collect();
    let features = agreed_features(&parts, |part| part.shape()?.features.as_ref())?;

    let shape = shapes[0].shape();
    if let Some(other) = shapes.iter().position(|other| other.shape() != shape) {
        let (one, values) = match &shapes[other].class_names {
            Some(_) => ("examples", "features"),
            None => ("images", "pixels"),
        };
        let found = format!("{one} of {} {values}", shapes[other].shape());
        let values = (found, format!("{shape} {values}"));
        return Err(disagreement(&parts[other], &parts[0], values));
    }

    if let Some(values) = declared.features.filter(|values| *values != shape.values()) {
        let found = format!("examples of {} features", shape.values());
        return Err(undeclared(&parts[0], "features", (found, values.to_string())));
    }

    let is_named = shapes.iter().any(|shape| shape.class_names.is_some());
    let own_names =
        |shape: &DenseShape| shape.class_names.clone().unwrap_or_else(|| numbered(shape.classes));
    let declared = declared_classes(&parts, declared, |part| part.shape().map(own_names))?;
    let class_names = is_named.then(|| match &declared {
        Some(declared) => declared.clone(),
        None => union(shapes.iter().map(|shape| own_names(shape)).collect::<Vec<_>>().iter()),
    });
    let most = shapes.iter().map(|shape| shape.classes).max().unwrap_or(0);
    let most = declared.as_ref().map_or(most, Names::len);
    let classes = class_names.as_ref().map_or(most, Names::len);

    let in_model = |local: LocalImages| match &class_names {
        Some(all) => local.in_model(all),
        None => local.images,
    };
    let parts = parts.into_iter().map(|part| part.map(in_model)).collect();
    let mut all = joined(DenseExamples::empty(shape, classes), parts);
    for examples in [&mut all.train, &mut all.test] {
        (examples.classes, examples.class_names) = (classes, class_names.clone());
    }
    Ok((all, features))
}

impl DenseShape {
    fn shape(&self) -> Shape {
        let Self { channels, height, width, .. } = *self;
        Shape { channels, height, width }
    }
}

impl Part<'_, LocalImages> {
    fn shape(&self) -> Option<&DenseShape> {
        match &self.summary.shape {
            DataShape::Images(shape) => Some(shape),
            _ => None,
        }
    }
}

/// Training and test images.
type Images = (DenseExamples, DenseExamples);

/// Reads the images of a folder, or of the folders that match a pattern.
pub(crate) fn read_folders(path: &Path, source: ImageSource) -> Result<Images, DataError> {
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
