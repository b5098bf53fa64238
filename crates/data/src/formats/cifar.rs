//! CIFAR-10 in its binary form: a folder of batches to train on, `data_batch_1.bin` and on, and `test_batch.bin`.
//!
//! A batch is one record per image: a byte for the class, then the red, the green and the blue plane, row by row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition};
use crate::formats::data_file::{entries, is_file, is_folder};
use crate::formats::image_sets::ImageSets;
use crate::formats::source::Source;
use crate::scratch::ExampleSet;
use gaia_ml::examples::{DenseExamples, Features, Shape};

/// Reads a folder of batches, each plain or gzip: the training examples, batch by batch, and the test examples.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large.
pub fn read_cifar(folder: &Path) -> Result<(DenseExamples, DenseExamples), DataError> {
    let mut sets = ImageSets::new(folder, None)?;
    add_cifar(folder, &mut sets)?;
    let [train, test] = sets.finish()?;
    Ok((train.into_memory()?, test.into_memory()?))
}

/// Adds the training and the test examples of a folder to those that are there.
///
/// # Errors
/// As [`read_cifar`].
pub(crate) fn add_cifar(folder: &Path, sets: &mut ImageSets) -> Result<(), DataError> {
    add(find(folder)?.values(), &mut sets.train)?;
    add([&find_test(folder)?], &mut sets.test)?;
    sets.classes = CLASSES;
    Ok(())
}

/// The files that are read of a folder: the training batches, then the test batch.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut files: Vec<PathBuf> = find(folder)?.into_values().collect();
    files.push(find_test(folder)?);
    Ok(files)
}

fn find_test(folder: &Path) -> Result<PathBuf, DataError> {
    let [plain, packed] = ["test_batch.bin", "test_batch.bin.gz"].map(|name| folder.join(name));
    if is_file(&plain)? {
        return Ok(plain);
    }
    if is_file(&packed)? {
        return Ok(packed);
    }
    let expected = "it, or the same with .gz";
    Err(DataError::broken(&plain, FilePosition::Whole, "no such file", expected))
}

/// The training batches by their number. Of a batch that is there plain and compressed, the plain one is read.
fn find(folder: &Path) -> Result<BTreeMap<u32, PathBuf>, DataError> {
    if !is_folder(folder) {
        let expected = "a folder of CIFAR-10 batches";
        return Err(DataError::broken(folder, FilePosition::Whole, "no folder", expected));
    }

    let mut batches = BTreeMap::new();
    for file in entries(folder)? {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let plain = name.strip_suffix(".gz").unwrap_or(name);
        let number = plain.strip_prefix("data_batch_").and_then(|name| name.strip_suffix(".bin"));
        let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };

        if plain == name || !batches.contains_key(&number) {
            batches.insert(number, file);
        }
    }

    if batches.is_empty() {
        let file = folder.join("data_batch_1.bin");
        let expected = "it, or the same with .gz";
        return Err(DataError::broken(&file, FilePosition::Whole, "no such file", expected));
    }

    Ok(batches)
}

fn add<'a>(
    batches: impl IntoIterator<Item = &'a PathBuf>,
    examples: &mut ExampleSet<DenseExamples>,
) -> Result<(), DataError> {
    let none = DenseExamples::empty(SHAPE, CLASSES);
    examples.begin(none.clone());
    let start = examples.len();
    for file in batches {
        let mut source = Source::open(file)?;
        for at in (0..).step_by(RECORD_BYTES) {
            let record = source.bytes(at, RECORD_BYTES as u64)?;
            let broken = |after: usize, found: String, expected: String| {
                DataError::broken(file, FilePosition::Byte(at + after as u64), found, expected)
            };

            let Some((&label, image)) = record.split_first() else {
                if at == 0 {
                    return Err(broken(0, "an empty file".into(), "at least one image".into()));
                }
                break;
            };

            if usize::from(label) >= CLASSES {
                let expected = format!("a class below {CLASSES}");
                return Err(broken(0, format!("class {label}"), expected));
            }

            if record.len() < RECORD_BYTES {
                let expected = format!("an image of {} bytes after its class", SHAPE.values());
                return Err(broken(record.len(), "the end of the file".into(), expected));
            }

            if examples.len() - start == EXAMPLES_MAX {
                let expected = format!("at most {EXAMPLES_MAX} images in all batches");
                return Err(broken(0, "one more image".into(), expected));
            }

            let (features, labels) = (Features::Bytes(image.to_vec()), vec![u32::from(label)]);
            examples.held().append(DenseExamples { features, labels, ..none.clone() });
            examples.settle()?;
        }
    }
    Ok(())
}

const CLASSES: usize = 10;

/// Twenty times the published number of images; 4 GB of pixels.
const EXAMPLES_MAX: usize = 1 << 20;

const SHAPE: Shape = Shape { channels: 3, height: 32, width: 32 };

/// A class and an image.
const RECORD_BYTES: usize = 1 + SHAPE.values();
