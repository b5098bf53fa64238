//! Documents in the format of the UCI bag-of-words collection: three lines with the numbers of documents, words and
//! counts, then one count a row, `document word count`, numbered from 1. The words themselves are in another file, one a
//! line.

use std::path::Path;

use crate::error::{DataError, FilePosition, shown};
use crate::formats::files::files_of;
use crate::formats::source::{Source, width_max};
use crate::scratch::{ExampleSet, Gathered, ScratchSpace};
use gaia_ml::examples::Documents;

/// Reads the documents of a file, of the files in a folder, or of those that match a pattern, each plain or gzip.
///
/// Documents without words are left out, and the others are numbered from 0: file by file, in a file in the order of their
/// numbers. Rows may be in any order. Counts of the same document and word are added.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large, where the files have different numbers of words, or where there is none.
pub fn read_docword(path: &Path) -> Result<Documents, DataError> {
    gather_docword(path, None)?.into_memory()
}

/// As [`read_docword`], with the number of each document: that in its file, from 1, after all documents that the files before
/// count. Those without words are among them, so that the numbers are those of the user. At least one has words.
///
/// # Errors
/// As [`read_docword`].
pub(crate) fn read_numbered_docword(path: &Path) -> Result<(Documents, Vec<i64>), DataError> {
    let mut numbers = Vec::new();
    let documents = gather(path, None, 1, |number| numbers.push(number))?.into_memory()?;
    Ok((documents, numbers))
}

/// As [`read_docword`]. Documents go where there is space for them, or stay in memory. On disk, the rows of a file must be in
/// the order of its documents.
///
/// # Errors
/// As [`read_docword`].
pub(crate) fn gather_docword(
    path: &Path,
    space: Option<&ScratchSpace>,
) -> Result<Gathered<Documents>, DataError> {
    gather(path, space, 2, |_| {})
}

/// As [`gather_docword`], at least so many documents. Calls a function with the number of each, in their order.
fn gather(
    path: &Path,
    space: Option<&ScratchSpace>,
    least: usize,
    mut numbered: impl FnMut(i64),
) -> Result<Gathered<Documents>, DataError> {
    let files = files_of(path)?;
    let mut all = ExampleSet::new(Documents::empty(0), space)?;
    let (mut tokens, mut vocabulary, mut before) = (0, None, 0_i64);
    for file in &files {
        let mut source = Source::open(file)?;
        let header = Header::read(&mut source)?;
        let expected = *vocabulary.get_or_insert(header.vocabulary);
        if header.vocabulary != expected {
            let expected = format!("{expected} words, as in {}", files[0].display());
            let found = header.vocabulary.to_string();
            return Err(DataError::broken(file, FilePosition::Row(2), found, expected));
        }

        all.begin(Documents::empty(header.vocabulary));
        let each = |document: u32| numbered(before + i64::from(document) + 1);
        tokens += match space {
            None => read_in_any_order(&mut source, header, &mut all, each)?,
            Some(_) => read_in_order(&mut source, header, &mut all, each)?,
        };
        before += header.documents as i64;
        if tokens > TOKENS_MAX {
            let found = format!("{tokens} tokens with the files before");
            let expected = format!("at most {TOKENS_MAX} tokens in all");
            return Err(DataError::broken(file, FilePosition::Whole, found, expected));
        }
    }

    if all.len() < least {
        let found = format!("{} documents with words", all.len());
        let expected = format!("at least {least} of them");
        return Err(DataError::broken(path, FilePosition::Whole, found, expected));
    }
    all.finish()
}

/// The first three rows of a file.
#[derive(Clone, Copy)]
struct Header {
    documents: usize,
    vocabulary: usize,
    counts: usize,
}

impl Header {
    fn read(source: &mut Source<'_>) -> Result<Self, DataError> {
        Ok(Self {
            documents: header(source, "the number of documents", u32::MAX as usize)?,
            vocabulary: header(source, "the number of words", WORDS_MAX)?,
            counts: header(source, "the number of counts", COUNTS_MAX)?,
        })
    }

    /// Checks the header once all rows were read, `found` of them.
    fn check(self, file: &Path, found: usize) -> Result<(), DataError> {
        let Self { vocabulary, counts, .. } = self;
        if found < counts {
            let found = format!("{found} counts");
            let expected = format!("{counts} of them, as row 3 says");
            return Err(DataError::broken(file, FilePosition::Whole, found, expected));
        }
        if vocabulary > width_max(counts) {
            let expected = format!("at most {} for {counts} counts", width_max(counts));
            let found = vocabulary.to_string();
            return Err(DataError::broken(file, FilePosition::Row(2), found, expected));
        }
        Ok(())
    }
}

/// Adds the documents of a file, and returns the number of their tokens. Calls a function with each of them, counted from 0
/// in the file. All rows are in memory.
fn read_in_any_order(
    source: &mut Source<'_>,
    header: Header,
    all: &mut ExampleSet<Documents>,
    each: impl FnMut(u32),
) -> Result<u64, DataError> {
    let mut rows: Vec<(u32, u32, u32)> = Vec::new();
    let (count, tokens) = each_row(source, header, |_, row| {
        rows.push(row);
        Ok(())
    })?;
    header.check(source.file(), count)?;
    all.held().append(gathered(rows, header.vocabulary, each));
    Ok(tokens)
}

/// As [`read_in_any_order`], of rows in the order of their documents. Those of one document are in memory.
fn read_in_order(
    source: &mut Source<'_>,
    header: Header,
    all: &mut ExampleSet<Documents>,
    mut each: impl FnMut(u32),
) -> Result<u64, DataError> {
    let file = source.file().to_owned();
    let mut rows: Vec<(u32, u32, u32)> = Vec::new();
    let (count, tokens) = each_row(source, header, |number, row| {
        if let Some(&(last, ..)) = rows.last().filter(|last| last.0 != row.0) {
            if row.0 < last {
                let found = format!("document {} after document {}", row.0 + 1, last + 1);
                let expected =
                    "rows in the order of their documents, since app.data.examples is \"disk\"";
                return Err(DataError::broken(&file, FilePosition::Row(number), found, expected));
            }
            let document = gathered(std::mem::take(&mut rows), header.vocabulary, &mut each);
            all.held().append(document);
            all.settle()?;
        }
        rows.push(row);
        Ok(())
    })?;
    header.check(&file, count)?;
    all.held().append(gathered(rows, header.vocabulary, each));
    all.settle()?;
    Ok(tokens)
}

/// Calls a function with the rows after the header as `(document, word, count)`, and their numbers in the file. Returns the
/// number of rows and of tokens.
fn each_row(
    source: &mut Source<'_>,
    Header { documents, vocabulary, counts }: Header,
    mut each: impl FnMut(u64, (u32, u32, u32)) -> Result<(), DataError>,
) -> Result<(usize, u64), DataError> {
    let file = source.file().to_owned();
    let (mut rows, mut tokens) = (0, 0_u64);

    while let Some((row, line)) = source.row()? {
        let broken = |found: String, expected: String| {
            DataError::broken(&file, FilePosition::Row(row), found, expected)
        };

        if line.is_empty() {
            continue;
        }

        if rows == counts {
            return Err(broken(
                shown(line),
                format!("no more than {counts} counts, as row 3 says"),
            ));
        }

        let counted = parse(line, documents, vocabulary)
            .map_err(|(found, expected)| broken(found, expected))?;
        tokens += u64::from(counted.2);

        if tokens > TOKENS_MAX {
            let expected = format!("at most {TOKENS_MAX} tokens in all");
            return Err(broken(counted.2.to_string(), expected));
        }

        rows += 1;
        each(row, counted)?;
    }

    Ok((rows, tokens))
}

/// The documents of `(document, word, count)` rows in any order. Counts of the same document and word are added. Calls a
/// function with each document.
fn gathered(
    mut rows: Vec<(u32, u32, u32)>,
    vocabulary: usize,
    mut each: impl FnMut(u32),
) -> Documents {
    rows.sort_unstable();

    let mut read = Documents::empty(vocabulary);
    let (mut words, mut of_words): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for document in rows.chunk_by(|a, b| a.0 == b.0) {
        words.clear();
        of_words.clear();
        for same in document.chunk_by(|a, b| a.1 == b.1) {
            words.push(same[0].1);
            of_words.push(same.iter().map(|row| row.2).sum());
        }
        read.push(&words, &of_words);
        each(document[0].0);
    }
    read
}

/// Reads the words of `vocabulary`, one a line, plain or gzip.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large.
pub fn read_vocabulary(file: &Path, vocabulary: usize) -> Result<Vec<String>, DataError> {
    let mut source = Source::open(file)?;
    let mut words: Vec<String> = Vec::new();
    while let Some((row, line)) = source.row()? {
        let word = std::str::from_utf8(line).map(str::trim).ok();
        let word = word.filter(|word| !word.is_empty() && !word.contains(char::is_control));

        let expected = match word {
            Some(word) if words.len() < vocabulary => {
                words.push(word.to_owned());
                continue;
            }
            // A blank line after the last word is skipped.
            None if line.is_empty() && words.len() == vocabulary => continue,
            None => "a word".to_owned(),
            Some(_) => format!("no more than {vocabulary} words, as there are in the documents"),
        };

        return Err(DataError::broken(file, FilePosition::Row(row), shown(line), expected));
    }

    if words.len() < vocabulary {
        let found = format!("{} words", words.len());
        let expected = format!("{vocabulary} of them, as there are in the documents");
        return Err(DataError::broken(file, FilePosition::Whole, found, expected));
    }

    Ok(words)
}

/// One of the numbers in the first three lines of a file.
fn header(source: &mut Source<'_>, name: &str, most: usize) -> Result<usize, DataError> {
    let file = source.file().to_owned();
    let expected = || format!("{name}, 1 to {most}");
    let Some((row, line)) = source.row()? else {
        return Err(DataError::broken(
            &file,
            FilePosition::Whole,
            "the end of the file",
            expected(),
        ));
    };
    let number = std::str::from_utf8(line).ok().and_then(|text| text.trim().parse::<usize>().ok());
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| DataError::broken(&file, FilePosition::Row(row), shown(line), expected()))
}

/// The document and word of a row, both from 0, and the count; or what was found and expected instead.
fn parse(
    line: &[u8],
    documents: usize,
    vocabulary: usize,
) -> Result<(u32, u32, u32), (String, String)> {
    let text = std::str::from_utf8(line).map_err(|_| (shown(line), "text".to_owned()))?;
    let mut fields = text.split_ascii_whitespace();

    let mut field = |name: &str, most: usize| {
        let field = fields.next().ok_or_else(|| (shown(line), format!("{name} in the row")))?;
        let number: Option<usize> = field.parse().ok();
        number
            .filter(|number| (1..=most).contains(number))
            .map(|number| number as u32)
            .ok_or_else(|| (shown(field.as_bytes()), format!("{name}, 1 to {most}")))
    };

    let document = field("a document", documents)?;
    let word = field("a word", vocabulary)?;
    let count = field("a count", COUNT_MAX)?;

    match fields.next() {
        None => Ok((document - 1, word - 1, count)),
        Some(_) => Err((shown(line), "a document, a word and a count".into())),
    }
}

/// Rows of the model.
const WORDS_MAX: usize = 1 << 26;

/// Twelve bytes each while they are read.
const COUNTS_MAX: usize = 1 << 30;

const COUNT_MAX: usize = 1 << 20;

/// Each has a topic in memory, and places of tokens are 32-bit.
const TOKENS_MAX: u64 = 1 << 30;
