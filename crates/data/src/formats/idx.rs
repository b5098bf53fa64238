//! IDX files, the format that MNIST is published in: a folder of images and labels, to train and to test.
//!
//! A file is a magic number (two zero bytes, the type of a value, the number of dimensions), a big-endian
//! 32-bit size for each dimension, and the values.

use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition};
use crate::formats::data_file::{is_file, is_folder};
use crate::formats::source::Source;
use gaia_ml::examples::{DenseExamples, Features, Shape};

/// Reads a folder of four files, each plain or gzip: the training and the test examples.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large.
pub fn read_idx(folder: &Path) -> Result<(DenseExamples, DenseExamples), DataError> {
    if !is_folder(folder) {
        let expected = "a folder of four IDX files";
        return Err(DataError::broken(folder, FilePosition::Whole, "no folder", expected));
    }
    let train = read_pair(folder, "train")?;
    let mut test = read_pair(folder, "t10k")?;
    if test.shape != train.shape {
        let found = format!("images of {} pixels", test.shape);
        let expected = format!("{} pixels, as in the training images", train.shape);
        let file = find(folder, "t10k", IMAGES)?;
        return Err(DataError::broken(&file, FilePosition::Byte(8), found, expected));
    }
    let classes = train.classes.max(test.classes);
    test.classes = classes;
    Ok((DenseExamples { classes, ..train }, test))
}

/// The files that are read of a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let of_set = |set| [find(folder, set, IMAGES), find(folder, set, LABELS)];
    ["train", "t10k"].into_iter().flat_map(of_set).collect()
}

fn read_pair(folder: &Path, set: &str) -> Result<DenseExamples, DataError> {
    let file = find(folder, set, IMAGES)?;
    let (sizes, pixels) = parse(Source::open(&file)?, IMAGES.dimensions)?;
    let shape = Shape { channels: 1, height: sizes[1] as usize, width: sizes[2] as usize };

    if shape.values() == 0 || sizes[0] == 0 {
        let found = format!("{} images of {} pixels", sizes[0], shape.values());
        return Err(DataError::broken(&file, FilePosition::Byte(4), found, "at least one pixel"));
    }

    let file = find(folder, set, LABELS)?;
    let (counts, labels) = parse(Source::open(&file)?, LABELS.dimensions)?;
    if counts[0] != sizes[0] {
        let found = format!("{} labels", counts[0]);
        let expected = format!("as many as there are images, {}", sizes[0]);
        return Err(DataError::broken(&file, FilePosition::Byte(4), found, expected));
    }

    let largest = labels.iter().copied().max().unwrap_or(0);
    Ok(DenseExamples {
        class_names: None,
        shape,
        classes: usize::from(largest).max(1) + 1,
        features: Features::Bytes(pixels),
        labels: labels.into_iter().map(u32::from).collect(),
    })
}

/// The sizes of the dimensions and the values of a file of bytes.
fn parse(mut source: Source<'_>, dimensions: u8) -> Result<(Vec<u64>, Vec<u8>), DataError> {
    let file = source.file().to_owned();
    let broken = |at, found: String, expected: String| {
        DataError::broken(&file, FilePosition::Byte(at), found, expected)
    };

    let header_bytes = 4 + 4 * u64::from(dimensions);
    let header = source.bytes(0, header_bytes)?;
    let magic = [0, 0, UNSIGNED_BYTE, dimensions];

    if header.len() < 4 || header[..4] != magic {
        let found = format!("the bytes {:02x?}", &header[..header.len().min(4)]);
        return Err(broken(0, found, format!("an IDX file of bytes, {magic:02x?}")));
    }

    if header.len() as u64 != header_bytes {
        let at = header.len() as u64;
        return Err(broken(at, "the end of the file".into(), "the sizes of the dimensions".into()));
    }

    let (words, _) = header[4..].as_chunks::<4>();
    let sizes: Vec<u64> = words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).collect();
    let product = sizes.iter().try_fold(1_u64, |product, &size| product.checked_mul(size));

    let Some(values) = product.filter(|&values| values <= VALUES_MAX) else {
        let expected = format!("at most {VALUES_MAX} values");
        return Err(broken(4, format!("dimensions of {sizes:?}"), expected));
    };

    let bytes = source.bytes(header_bytes, values + 1)?;
    let expected = format!("{values} values, as its dimensions {sizes:?} say");
    if (bytes.len() as u64) < values {
        let at = header_bytes + bytes.len() as u64;
        return Err(broken(at, "the end of the file".into(), expected));
    }

    if bytes.len() as u64 > values {
        return Err(broken(header_bytes + values, "more bytes".into(), expected));
    }

    Ok((sizes, bytes))
}

/// One of the two files of a set.
#[derive(Clone, Copy)]
struct Member {
    name: &'static str,
    dimensions: u8,
}

/// The file of a set, under any of its usual names.
fn find(folder: &Path, set: &str, member: Member) -> Result<PathBuf, DataError> {
    let Member { name, dimensions } = member;
    for separator in ['-', '.'] {
        for ending in ["", ".gz"] {
            let file = folder.join(format!("{set}-{name}{separator}idx{dimensions}-ubyte{ending}"));
            if is_file(&file)? {
                return Ok(file);
            }
        }
    }
    let file = folder.join(format!("{set}-{name}-idx{dimensions}-ubyte"));
    Err(DataError::broken(&file, FilePosition::Whole, "no such file", "it, or the same with .gz"))
}

const IMAGES: Member = Member { name: "images", dimensions: 3 };
const LABELS: Member = Member { name: "labels", dimensions: 1 };

/// The type of a value that is one byte.
const UNSIGNED_BYTE: u8 = 8;

/// Values in one file.
const VALUES_MAX: u64 = 1 << 32;
