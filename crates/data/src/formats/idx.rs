//! IDX files, the format that MNIST is published in: a folder of images and labels, to train and to test.
//!
//! A file is a magic number (two zero bytes, the type of a value, the number of dimensions), a big-endian
//! 32-bit size for each dimension, and the values.

use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition};
use crate::formats::data_file::{is_file, is_folder};
use crate::formats::image_sets::ImageSets;
use crate::formats::source::Source;
use crate::scratch::ExampleSet;
use gaia_ml::examples::{DenseExamples, Features, Shape};

/// Reads a folder of four files, each plain or gzip: the training and the test examples.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large.
pub fn read_idx(folder: &Path) -> Result<(DenseExamples, DenseExamples), DataError> {
    let mut sets = ImageSets::new(folder, None)?;
    add_idx(folder, &mut sets)?;
    let [train, test] = sets.finish()?;
    Ok((train.into_memory()?, test.into_memory()?))
}

/// Adds the training and the test examples of a folder to those that are there.
///
/// # Errors
/// As [`read_idx`].
pub(crate) fn add_idx(folder: &Path, sets: &mut ImageSets) -> Result<(), DataError> {
    if !is_folder(folder) {
        let expected = "a folder of four IDX files";
        return Err(DataError::broken(folder, FilePosition::Whole, "no folder", expected));
    }
    let train = Pair::open(folder, "train")?;
    let shape = train.shape;
    sets.train.begin(DenseExamples::empty(shape, 0));
    sets.test.begin(DenseExamples::empty(shape, 0));
    let before = sets.train.none().shape;
    if shape != before {
        let found = format!("images of {shape} pixels");
        let expected = format!("{before} pixels, as in {}", sets.first.display());
        return Err(DataError::broken(folder, FilePosition::Whole, found, expected));
    }
    let train_classes = train.add_to(&mut sets.train)?;

    let test = Pair::open(folder, "t10k")?;
    if test.shape != shape {
        let found = format!("images of {} pixels", test.shape);
        let expected = format!("{shape} pixels, as in the training images");
        let file = find(folder, "t10k", IMAGES)?;
        return Err(DataError::broken(&file, FilePosition::Byte(8), found, expected));
    }
    sets.classes = sets.classes.max(train_classes).max(test.add_to(&mut sets.test)?);
    Ok(())
}

/// The files that are read of a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let of_set = |set| [find(folder, set, IMAGES), find(folder, set, LABELS)];
    ["train", "t10k"].into_iter().flat_map(of_set).collect()
}

/// A file of images and one of their labels.
struct Pair {
    images: Values,
    labels: Values,
    shape: Shape,
    count: u64,
}

impl Pair {
    /// Opens the files of a set, and checks what they say of themselves.
    fn open(folder: &Path, set: &str) -> Result<Self, DataError> {
        let file = find(folder, set, IMAGES)?;
        let mut images = Values::open(&file, IMAGES.dimensions)?;
        let [count, height, width] = [0, 1, 2].map(|dimension| images.sizes[dimension]);
        let shape = Shape { channels: 1, height: height as usize, width: width as usize };
        if shape.values() == 0 || count == 0 {
            images.end()?;
            let found = format!("{count} images of {} pixels", shape.values());
            let expected = if count == 0 { "at least one image" } else { "at least one pixel" };
            let position = FilePosition::Byte(4);
            return Err(DataError::broken(&file, position, found, expected));
        }

        let labels = Self::labels(folder, set, count);
        if labels.is_err() {
            // Where the images are not what their file says, that is the first mistake.
            images.skip_to_end()?;
        }
        let labels = labels?;
        Ok(Self { images, labels, shape, count })
    }

    fn labels(folder: &Path, set: &str, images: u64) -> Result<Values, DataError> {
        let file = find(folder, set, LABELS)?;
        let labels = Values::open(&file, LABELS.dimensions)?;
        if labels.sizes[0] != images {
            let found = format!("{} labels", labels.sizes[0]);
            let expected = format!("as many as there are images, {images}");
            return Err(DataError::broken(&file, FilePosition::Byte(4), found, expected));
        }
        Ok(labels)
    }

    /// Adds the examples to those of a set, and returns the number of their classes.
    fn add_to(mut self, examples: &mut ExampleSet<DenseExamples>) -> Result<usize, DataError> {
        let none = DenseExamples::empty(self.shape, 0);
        let pixels = self.shape.values() as u64;
        let (mut left, mut largest) = (self.count, 0);
        while left > 0 {
            let some = left.min((READ_BYTES / pixels).max(1));
            let features = Features::Bytes(self.images.next(some * pixels)?);
            let labels = self.labels.next(some)?;
            largest = largest.max(labels.iter().copied().max().unwrap_or(0));
            let labels = labels.into_iter().map(u32::from).collect();
            examples.held().append(DenseExamples { features, labels, ..none.clone() });
            examples.settle()?;
            left -= some;
        }
        self.images.end()?;
        self.labels.end()?;
        Ok(usize::from(largest).max(1) + 1)
    }
}

/// The values of a file of bytes, as they are read.
struct Values {
    source: Source<'static>,
    sizes: Vec<u64>,
    /// Where the next value is.
    at: u64,
    /// Where the values end.
    end: u64,
}

impl Values {
    /// Reads the sizes of the dimensions.
    fn open(file: &Path, dimensions: u8) -> Result<Self, DataError> {
        let mut source = Source::open(file)?;
        let broken = |at, found: String, expected: String| {
            DataError::broken(file, FilePosition::Byte(at), found, expected)
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
            let expected = "the sizes of the dimensions".into();
            return Err(broken(at, "the end of the file".into(), expected));
        }

        let (words, _) = header[4..].as_chunks::<4>();
        let sizes: Vec<u64> =
            words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).collect();
        let product = sizes.iter().try_fold(1_u64, |product, &size| product.checked_mul(size));

        let Some(values) = product.filter(|&values| values <= VALUES_MAX) else {
            let expected = format!("at most {VALUES_MAX} values");
            return Err(broken(4, format!("dimensions of {sizes:?}"), expected));
        };
        Ok(Self { source, sizes, at: header_bytes, end: header_bytes + values })
    }

    /// The next values.
    fn next(&mut self, count: u64) -> Result<Vec<u8>, DataError> {
        let bytes = self.source.bytes(self.at, count)?;
        self.at += bytes.len() as u64;
        if (bytes.len() as u64) < count {
            return Err(self.broken("the end of the file"));
        }
        Ok(bytes)
    }

    /// Reads over all values that are left, and checks that nothing follows.
    fn skip_to_end(&mut self) -> Result<(), DataError> {
        while self.at < self.end {
            self.next((self.end - self.at).min(READ_BYTES))?;
        }
        self.end()
    }

    /// Checks that nothing follows.
    fn end(&mut self) -> Result<(), DataError> {
        match self.source.bytes(self.at, 1)?.is_empty() {
            true => Ok(()),
            false => Err(self.broken("more bytes")),
        }
    }

    fn broken(&self, found: &str) -> DataError {
        let values = self.end - 4 - 4 * self.sizes.len() as u64;
        let expected = format!("{values} values, as its dimensions {:?} say", self.sizes);
        DataError::broken(self.source.file(), FilePosition::Byte(self.at), found, expected)
    }
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

/// Bytes of images that are read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Values in one file.
const VALUES_MAX: u64 = 1 << 32;
