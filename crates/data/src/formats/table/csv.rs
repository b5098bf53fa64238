//! Text with a row of names first, plain or gzip, as columns.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{BufRead, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str;

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

use super::columns::{Batch, Column, Content, Lists, NameColumn, Request};
use super::quotes::Quotes;
use super::{ColumnInfo, Rows, Table, batch_rows};
use crate::error::{DataError, FilePosition, shown};
use crate::formats::name_index::NAME_BYTES_MAX;
use crate::formats::source::{BYTE_ORDER_MARK, ROW_BYTES_MAX, Source, unpack_error};

/// A file whose first row has been read.
pub(super) struct CsvTable {
    file: PathBuf,
    rows: Reader<Rationed>,
    /// Where in the file the row begins that is being read.
    start: Rc<Cell<u64>>,
    /// The line of the first quote that is known not to be closed.
    unclosed: Rc<Cell<Option<u64>>>,
    record: ByteRecord,
    /// The fields of each row.
    width: usize,
}

impl CsvTable {
    pub(super) fn open(file: &Path, separator: u8) -> Result<Table, DataError> {
        let (start, unclosed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let rationed = Rationed {
            bytes: Source::open(file)?.into_bytes(),
            given: 0,
            last: b'\n',
            start: Rc::clone(&start),
            quotes: Quotes::new(separator),
            unclosed: Rc::clone(&unclosed),
        };
        // Rows end at a line feed alone, so that their numbers are known: a carriage return before it is trimmed with the
        // blanks of the last field.
        let rows = ReaderBuilder::new()
            .delimiter(separator)
            .terminator(Terminator::Any(b'\n'))
            .flexible(true)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(rationed);
        let record = ByteRecord::new();
        let mut table = Self { file: file.into(), rows, start, unclosed, record, width: 0 };

        let names = match table.rows.byte_headers() {
            Ok(names) => names.clone(),
            Err(error) => return Err(table.error(error)),
        };
        table.check_quotes()?;
        let mut columns = Vec::new();
        for name in &names {
            let name = str::from_utf8(name).map_err(|_| {
                let expected = "the names of columns as text";
                DataError::broken(file, FilePosition::Row(1), shown(name), expected)
            })?;
            columns.push(ColumnInfo { name: name.trim().into(), kind: None, is_list: false });
        }

        table.width = columns.len();
        let rows = if columns.is_empty() { Rows::None } else { Rows::Csv(Box::new(table)) };
        Ok(Table { file: file.into(), columns, rows })
    }

    /// The batches of some columns, which are at these places.
    pub(super) fn read(
        mut self,
        requests: Vec<Request>,
        places: Vec<usize>,
    ) -> impl Iterator<Item = Result<Batch, DataError>> {
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let batch = self.batch(&requests, &places);
            is_over = batch.as_ref().map_or(true, |batch| batch.rows.is_empty());
            match batch {
                Ok(batch) if batch.rows.is_empty() => None,
                batch => Some(batch),
            }
        })
    }

    /// The next rows, none at the end of the file.
    fn batch(&mut self, requests: &[Request], places: &[usize]) -> Result<Batch, DataError> {
        let columns = requests.iter().map(|request| Column::of(request.content)).collect();
        let mut batch = Batch { rows: Vec::new(), columns };
        let most = batch_rows(requests);

        while batch.rows.len() < most {
            self.start.set(self.rows.position().byte());
            match self.rows.read_byte_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(self.error(error)),
            }
            self.check_quotes()?;
            if self.record.as_slice() == b"\r" {
                continue;
            }

            let row = self.first_line();
            if self.record.len() != self.width {
                let found = format!("{} fields", self.record.len());
                let expected = format!("{} fields, as in row 1", self.width);
                return Err(DataError::broken(&self.file, FilePosition::Row(row), found, expected));
            }
            batch.rows.push(row);
            let fields = batch.columns.iter_mut().zip(requests).zip(places);
            for ((column, request), place) in fields {
                let field = self.record.get(*place).unwrap_or_default();
                add(column, field, request.content).map_err(|expected| {
                    let name = shown(request.name.as_bytes());
                    let found = format!("{} in the column {name}", shown(field.trim_ascii()));
                    DataError::broken(&self.file, FilePosition::Row(row), found, expected)
                })?;
            }
        }
        Ok(batch)
    }

    /// Checks that all quotes of the record are closed that has just been read: the rows that a quote takes for its own
    /// would be missing without a word.
    fn check_quotes(&self) -> Result<(), DataError> {
        // The file is read ahead. Quotes of later records are told when their turn comes.
        match self.unclosed.get().filter(|line| *line < self.rows.position().line()) {
            None => Ok(()),
            Some(line) => {
                let found = "a quote that is not closed";
                let expected = "a closing quote at the end of its field";
                Err(DataError::broken(&self.file, FilePosition::Row(line), found, expected))
            }
        }
    }

    /// The line in which the record begins that has just been read. The reader stands in the line after it.
    fn first_line(&self) -> u64 {
        let within = self.record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        self.rows.position().line() - 1 - within
    }

    /// What is wrong with the file, by the error of its reader.
    fn error(&self, error: csv::Error) -> DataError {
        let line = self.rows.position().line();
        match error.into_kind() {
            csv::ErrorKind::Io(reason) if reason.kind() == ErrorKind::QuotaExceeded => {
                let place = FilePosition::Row(self.unclosed.get().unwrap_or(line));
                let found = "a longer row, or a quote that is not closed";
                let expected = format!("a row of at most {ROW_BYTES_MAX} bytes");
                DataError::broken(&self.file, place, found, expected)
            }
            csv::ErrorKind::Io(reason) => unpack_error(&self.file, FilePosition::Row(line), reason),
            other => {
                let found = format!("{other:?}");
                DataError::broken(&self.file, FilePosition::Row(line), found, "fields")
            }
        }
    }
}

/// Adds a field to its column, or says what was expected.
fn add(column: &mut Column, field: &[u8], content: Content) -> Result<(), String> {
    match column {
        Column::Numbers(numbers) => {
            let number = parsed::<f32>(field).filter(|number| number.is_finite());
            numbers.push(number.ok_or("a finite number of 32 bits")?);
            Ok(())
        }
        Column::Names(NameColumn::Untyped(names)) => {
            let field = field.trim_ascii();
            if field.is_empty() || field.len() > NAME_BYTES_MAX || str::from_utf8(field).is_err() {
                return Err(format!("a number or text of 1 to {NAME_BYTES_MAX} bytes"));
            }
            match parsed::<f64>(field).filter(|_| content == Content::Labels) {
                Some(label) if is_whole(label) => push_number(names, label as i64),
                _ => names.push(field),
            }
            Ok(())
        }
        _ => unreachable!("lists are refused when a column is looked up"),
    }
}

fn parsed<N: str::FromStr>(field: &[u8]) -> Option<N> {
    str::from_utf8(field).ok()?.trim().parse().ok()
}

/// Whether a label is a whole number that is exact in 64 bits of a float.
pub(super) fn is_whole(label: f64) -> bool {
    label.fract() == 0.0 && label.abs() <= (1_u64 << f64::MANTISSA_DIGITS) as f64
}

/// Adds a number as text.
pub(super) fn push_number(names: &mut Lists<u8>, number: impl Display) {
    names.push(number.to_string().as_bytes());
}

/// The bytes of a file, as long as no row is too long. The last row ends with a line feed, whether the file has it or not.
///
/// The reader takes a quote that is not closed for a field that goes on, to another quote or to the end of the file, and says
/// nothing of it. So quotes are followed here.
struct Rationed {
    bytes: Box<dyn BufRead>,
    /// Bytes that have been read.
    given: u64,
    /// The last of them.
    last: u8,
    start: Rc<Cell<u64>>,
    quotes: Quotes,
    unclosed: Rc<Cell<Option<u64>>>,
}

impl Read for Rationed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.given.saturating_sub(self.start.get()) > ROW_BYTES_MAX {
            self.unclosed.set(self.unclosed.get().or_else(|| self.quotes.open()));
            return Err(ErrorKind::QuotaExceeded.into());
        }
        let mut read = self.bytes.read(into)?;
        if read == 0 && self.last != b'\n' && !into.is_empty() {
            into[0] = b'\n';
            read = 1;
        }
        let mut bytes = &into[..read];
        if let Some(last) = bytes.last() {
            self.last = *last;
        }
        if self.given == 0 {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        let is_over = read == 0 && !into.is_empty();
        let unclosed = if is_over { self.quotes.open() } else { self.quotes.follow(bytes) };
        self.unclosed.set(self.unclosed.get().or(unclosed));
        self.given += read as u64;
        Ok(read)
    }
}

const BUFFER_BYTES: usize = 1 << 16;
