//! libsvm files: `label index:value index:value …` a row, indexes from 1 and ascending.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition, shown};
use crate::formats::data_file::is_file;
use crate::formats::files::files_of;
use crate::formats::source::{Source, width_max};
use crate::scratch::{ExampleSet, Gathered, ScratchSpace};
use gaia_ml::examples::SparseExamples;

/// Reads the examples of a file, of the files in a folder, or of those that match a pattern, each plain or gzip; and the
/// test set, which are the files `NAME.t` among or beside them.
///
/// Examples are of two classes. Labels are +1 and -1, or 1 and 0, in all files alike. `qid:` is skipped, and so is the text
/// after a `#`.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large, or where there is none.
pub fn read_libsvm(path: &Path) -> Result<(SparseExamples, Option<SparseExamples>), DataError> {
    let (train, test) = gather_libsvm(path, None, None)?;
    Ok((train.into_memory()?, test.map(Gathered::into_memory).transpose()?))
}

/// Reads the examples that a trained model is given: those of the test files that a path names or, where it names none, of all
/// files. At least one.
///
/// # Errors
/// As [`read_libsvm`].
pub(crate) fn read_given_libsvm(path: &Path) -> Result<SparseExamples, DataError> {
    let (files, tests) = files(path)?;
    // Few examples may have a feature of any number: the model is as wide as it is, and leaves out those that it does not know.
    let (given, _) = Reading::of(if tests.is_empty() { &files } else { &tests }, None)?.finish()?;
    if given.len() == 0 {
        let expected = "at least one example";
        return Err(DataError::broken(path, FilePosition::Whole, "no row", expected));
    }
    given.into_memory()
}

/// As [`read_libsvm`], with the examples of a validation set in the place of the test set where there is one. Examples go where
/// there is space for them, or stay in memory.
///
/// # Errors
/// As [`read_libsvm`].
pub(crate) fn gather_libsvm(
    path: &Path,
    validation: Option<&Path>,
    space: Option<&ScratchSpace>,
) -> Result<(Gathered<SparseExamples>, Option<Gathered<SparseExamples>>), DataError> {
    let (train_files, tests) = files(path)?;
    let (train, entries) = read(&train_files, 0, space)?;
    check_two(path, &train)?;
    if let Some(validation) = validation {
        let (files, _) = files(validation)?;
        let (test, _) = read(&files, entries, space)?;
        check_two(validation, &test)?;
        return Ok((train, Some(test)));
    }

    let (test, _) = read(&tests, entries, space)?;
    if let (Some(file), 0) = (tests.first(), test.len()) {
        let found = "no example".to_owned();
        let expected = "an example of the test set, or no such file";
        return Err(DataError::broken(file, FilePosition::Whole, found, expected));
    }
    Ok((train, (!tests.is_empty()).then_some(test)))
}

/// Checks that there are examples to train or to judge.
fn check_two(path: &Path, examples: &Gathered<SparseExamples>) -> Result<(), DataError> {
    if examples.len() >= 2 {
        return Ok(());
    }
    let found = format!("{} in all", examples.len());
    Err(DataError::broken(path, FilePosition::Whole, found, "at least 2 examples"))
}

/// The training files and the test files that a path names.
pub(crate) fn files(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), DataError> {
    // A file that the path names itself is a training file, whatever its name.
    let (mut tests, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files_of(path)?.into_iter().partition(|file| file != path && is_test_file(file));
    for file in &files {
        tests.extend(test_file(file)?);
    }
    tests.sort_unstable();
    tests.dedup();
    Ok((files, tests))
}

/// The files of a training or test set, as far as they are read.
struct Reading {
    examples: ExampleSet<SparseExamples>,
    /// The features of all examples.
    width: usize,
    /// The entries of all examples.
    entries: usize,
    /// How the files write negatives: -1 or 0.
    negative: Option<i8>,
    /// The file and the row with the highest index.
    widest: (PathBuf, u64),
}

/// Reads the examples of some files, and counts their entries. `others` is the number of entries in other files of the data
/// set.
///
/// # Errors
/// Where an index is too high for so few entries: a model has a weight for each.
fn read(
    files: &[PathBuf],
    others: usize,
    space: Option<&ScratchSpace>,
) -> Result<(Gathered<SparseExamples>, usize), DataError> {
    let reading = Reading::of(files, space)?;
    let all = reading.entries + others;
    if reading.width > width_max(all) {
        let (file, row) = &reading.widest;
        let found = format!("index {}", reading.width);
        let expected = format!("at most {} for {all} entries in all", width_max(all));
        return Err(DataError::broken(file, FilePosition::Row(*row), found, expected));
    }
    reading.finish()
}

impl Reading {
    /// The examples of some files.
    fn of(files: &[PathBuf], space: Option<&ScratchSpace>) -> Result<Self, DataError> {
        let examples = ExampleSet::new(SparseExamples::empty(0), space)?;
        let (negative, widest) = (None, (PathBuf::new(), 0));
        let mut reading = Self { examples, width: 0, entries: 0, negative, widest };
        files.iter().try_for_each(|file| reading.add(Source::open(file)?))?;
        Ok(reading)
    }

    /// The examples, and the number of their entries.
    fn finish(self) -> Result<(Gathered<SparseExamples>, usize), DataError> {
        let Self { examples, width, entries, .. } = self;
        Ok((examples.finish()?.changed(move |examples| examples.width = width), entries))
    }

    /// Adds the examples of a file.
    fn add(&mut self, mut source: Source<'_>) -> Result<(), DataError> {
        let file = source.file().to_owned();
        let examples = &mut self.examples;
        let mut columns = Vec::new();
        let mut values = Vec::new();

        while let Some((row, line)) = source.row()? {
            let broken = |(found, expected): Found| {
                DataError::broken(&file, FilePosition::Row(row), found, expected)
            };
            let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
            let text =
                std::str::from_utf8(text).map_err(|_| broken((shown(line), "text".into())))?;
            let mut tokens = text.split_ascii_whitespace();
            let Some(token) = tokens.next() else { continue };

            if examples.len() == examples.most() {
                let expected = format!("at most {} examples", examples.most());
                return Err(broken(("one more example".into(), expected)));
            }

            let label = label(token, &mut self.negative).map_err(broken)?;
            columns.clear();
            values.clear();

            for token in tokens.filter(|token| !token.starts_with("qid:")) {
                let (column, value) = entry(token, columns.last().copied()).map_err(broken)?;
                columns.push(column);
                values.push(value);
            }

            examples.held().push(&columns, &values, label);
            examples.settle()?;

            self.entries += columns.len();
            let width = columns.last().map_or(0, |&column| column as usize + 1);
            if width > self.width {
                self.width = width;
                self.widest = (file.clone(), row);
            }
        }

        Ok(())
    }
}

/// What was found, and what was expected instead.
type Found = (String, String);

/// A label as +1 or -1. A file that uses -1 for negatives must not use 0 as well.
fn label(token: &str, negative: &mut Option<i8>) -> Result<f32, Found> {
    let expected = match negative {
        None => "a label, +1 or -1, or 1 or 0",
        Some(0) => "a label, 1 or 0 as in the rows before",
        Some(_) => "a label, +1 or -1 as in the rows before",
    };

    let wrong = || (shown(token.as_bytes()), expected.to_owned());
    let value: f64 = token.parse().map_err(|_| wrong())?;
    if value == 1.0 {
        return Ok(1.0);
    }

    let written = if value == 0.0 {
        0
    } else if value == -1.0 {
        -1
    } else {
        return Err(wrong());
    };

    if *negative.get_or_insert(written) == written { Ok(-1.0) } else { Err(wrong()) }
}

/// The column, counted from 0, and value of an `index:value` token after the column `last`.
fn entry(token: &str, last: Option<u32>) -> Result<(u32, f32), Found> {
    let wrong = |expected: String| (shown(token.as_bytes()), expected);
    let Some((index, value)) = token.split_once(':') else {
        return Err(wrong("index:value".into()));
    };
    let index = index.parse().ok().filter(|index| (1..=INDEX_MAX).contains(index));
    let Some(index) = index else {
        return Err(wrong(format!("an index, 1 to {INDEX_MAX}, before the colon")));
    };
    if let Some(last) = last.filter(|&last| index - 1 <= last) {
        return Err(wrong(format!("an index above {}", last + 1)));
    }
    let value: Option<f32> = value.parse().ok();
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return Err(wrong("a finite value after the colon".into()));
    };
    Ok((index - 1, value))
}

/// Whether the name of a file is that of a test file.
fn is_test_file(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    name.strip_suffix(b".gz").unwrap_or(name).ends_with(b".t")
}

/// The test file beside a training file: `NAME.t`, whether or not either is compressed.
fn test_file(file: &Path) -> Result<Option<PathBuf>, DataError> {
    let Some(name) = file.file_name().and_then(OsStr::to_str) else { return Ok(None) };
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    for name in [format!("{plain}.t"), format!("{plain}.t.gz")] {
        let test = file.with_file_name(name);
        if is_file(&test)? {
            return Ok(Some(test));
        }
    }
    Ok(None)
}

/// The highest index: one parameter each.
const INDEX_MAX: u32 = 1 << 26;
