//! The images of classifiers: from the folders of each data center, or generated.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::cifar::add_cifar;
use crate::formats::class_names::{listed, numbered, places, union};
use crate::formats::dense_tables::DenseTables;
use crate::formats::files::folders_of;
use crate::formats::idx::add_idx;
use crate::formats::image_sets::ImageSets;
use crate::formats::table::TableFormat;
use crate::homes::digest::{DigestedByName, digest_of, digest_of_test, digests_of_names};
use crate::homes::home::Home;
use crate::homes::moments::Moments;
use crate::homes::summary::{
    DataShape, DataSummary, DenseShape, Part, disagreement, joined, undeclared,
};
use crate::kinds::{agreed_features, agreed_rescaling, check_batch, declared_classes, read_tables};
use crate::scratch::{Gathered, ScratchSpace, changed};
use crate::synthetic::Generated;
use gaia_core::application::Names;
use gaia_core::types::Seed;
use gaia_ml::ConfigError;
use gaia_ml::apps::ImageSource;
use gaia_ml::declared::DeclaredExamples;
use gaia_ml::divided::Divided;
use gaia_ml::examples::{DenseExamples, Shape};
use gaia_ml::rescaling::Rescaling;

/// The dense examples of one data center.
pub(crate) struct LocalImages {
    images: Divided<DenseExamples>,
    summary: DataSummary,
}

/// Reads the images of a home, or makes them, with the accuracy of what made them.
pub(crate) fn read<G: Clone + Default>(
    home: &Home<ImageSource, G>,
    make: impl FnOnce(Seed) -> Generated<DenseExamples>,
) -> Result<(LocalImages, Option<f64>), DataError> {
    let (columns, space) = (&home.data.columns, home.space.as_ref());
    let tables = |format| read_tables(home, DenseTables::new(format, columns, space));
    let (all, test, features) = match home.data.source {
        ImageSource::Synthetic => {
            let Generated { train, test, best_accuracy, .. } = make(home.seed.child("synthetic"));
            let labels = train.labels.clone();
            let local = LocalImages::new(home.split(train, test, &labels), None, None)?;
            return Ok((local, Some(best_accuracy)));
        }
        ImageSource::Csv => tables(TableFormat::csv(columns.separator))?,
        ImageSource::Parquet => tables(TableFormat::Parquet)?,
        source @ (ImageSource::Idx | ImageSource::Cifar) => {
            let [train, mut test] = read_folders(home.path()?, source, space)?;
            if let Some(validation) = &home.validation {
                [_, test] = read_folders(validation, source, space)?;
                check_shape(validation, &test.none(), &train.none())?;
            }
            (train, Some(test), None)
        }
    };
    let images = home.divide(all, test, |images, at| images.labels[at])?;
    let validation = home.validation.as_ref().map(|_| {
        let names = images.train.class_names.as_ref().map(digests_of_names);
        digest_of_test(&images, |images, digest| images.add_named(&names, digest))
    });
    Ok((LocalImages::new(images, features, validation.transpose()?)?, None))
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
    fn new(
        images: Divided<DenseExamples>,
        features: Option<Vec<String>>,
        validation: Option<u64>,
    ) -> Result<Self, DataError> {
        let mut moments = Moments::default();
        let digest = digest_of(&images, |train| moments.see_dense(train))?;
        let Divided { train, test, .. } = &images;
        let Shape { channels, height, width } = train.shape;
        let shape = DenseShape {
            channels,
            height,
            width,
            classes: train.classes.max(test.classes),
            class_names: train.class_names.clone(),
            features,
            moments: moments.unusual(),
        };
        let summary = DataSummary::new(&images, digest, validation, DataShape::Images(shape));
        Ok(Self { images, summary })
    }

    /// The number of training examples in memory.
    pub(crate) fn len(&self) -> usize {
        self.images.train.len()
    }

    pub(crate) fn summary(&self) -> &DataSummary {
        &self.summary
    }

    /// The examples with the classes of all data centers. Classes without names are named by their numbers.
    fn in_model(self, all: &Names) -> Divided<DenseExamples> {
        let places_of = |examples: &DenseExamples| {
            let numbers = || numbered(examples.classes);
            places(&examples.class_names.clone().unwrap_or_else(numbers), all)
        };
        let Divided { train, test, .. } = &self.images;
        // Examples have the classes of those that train, or more where only those that test have them.
        let all = if train.classes < test.classes { places_of(test) } else { places_of(train) };
        changed(self.images, move |examples| {
            examples.labels.iter_mut().for_each(|label| *label = all[*label as usize]);
        })
    }
}

/// The examples of a network.
pub(crate) struct GatheredImages {
    pub(crate) examples: Divided<DenseExamples>,
    /// The names of the features, where each has one.
    pub(crate) features: Option<Vec<String>>,
    /// How features are to be rescaled, where each has a meaning of its own.
    pub(crate) rescaling: Rescaling,
}

/// The images of all data centers, of which this process has some. They have one shape, and the classes of all or those that
/// are declared. A worker visits `batch` of them in each clock.
pub(crate) fn gathered(
    parts: Vec<Part<'_, LocalImages>>,
    declared: &DeclaredExamples,
    batch: usize,
) -> Result<GatheredImages, DataError> {
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

    if classes < 2 {
        let found = match &class_names {
            Some(names) => format!("of the class {} alone", listed(names)),
            None => "of one class alone".to_owned(),
        };
        return Err(ConfigError::new("data", found, "examples of at least two classes").into());
    }

    let examples: u64 = parts.iter().map(|part| part.summary.train + part.summary.test).sum();
    if is_named && declared.is_none() && is_quantity(classes, examples) {
        let found = format!("of {classes} different labels in {examples} examples");
        return Err(ConfigError::new("data", found, LABELS).into());
    }

    let rescaling = agreed_rescaling(&parts);

    let in_model = |local: LocalImages| match &class_names {
        Some(all) => local.in_model(all),
        None => local.images,
    };
    let parts = parts.into_iter().map(|part| part.map(in_model)).collect();
    let mut all = joined(DenseExamples::empty(shape, classes), parts);
    for examples in [&mut all.train, &mut all.test] {
        (examples.classes, examples.class_names) = (classes, class_names.clone());
    }
    check_batch(&all, batch)?;

    Ok(GatheredImages { examples: all, features, rescaling })
}

/// Whether labels are more likely amounts than classes: most of them are of one example. Few examples may have all of them
/// different by chance.
fn is_quantity(classes: usize, examples: u64) -> bool {
    classes >= CLASSES_TO_JUDGE && 2 * classes as u64 > examples
}

/// From how many classes on it is looked at how many examples they have.
const CLASSES_TO_JUDGE: usize = 20;

/// What is expected of labels.
const LABELS: &str = "classes with at least two examples on average, since a model tells classes apart and predicts no                       quantities; `declared` may name classes of which the data has few examples";

impl GatheredImages {
    /// The same with features that have been rescaled.
    pub(crate) fn rescaled(self) -> Self {
        if self.rescaling.is_empty() {
            return self;
        }
        let own = self.rescaling.clone();
        let examples = changed(self.examples, move |examples| own.apply_to_dense(examples));
        Self { examples, ..self }
    }
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

/// Reads the images of a folder, or of the folders that match a pattern: those that train and those that test. They go
/// where there is space for them, or stay in memory.
pub(crate) fn read_folders(
    path: &Path,
    source: ImageSource,
    space: Option<&ScratchSpace>,
) -> Result<[Gathered<DenseExamples>; 2], DataError> {
    let add = if source == ImageSource::Idx { add_idx } else { add_cifar };
    let folders = folders_of(path)?;
    let mut sets = ImageSets::new(&folders[0], space)?;
    for folder in &folders {
        add(folder, &mut sets)?;
        let (images, most) = sets.train_count();
        if images > most {
            let found = format!("{images} images with the folders before");
            let expected = format!("at most {most} images in all folders");
            return Err(DataError::broken(folder, FilePosition::Whole, found, expected));
        }
    }
    sets.finish()
}
