//! A CSV matrix of one figure for each directed pair of data centers: rows are senders, columns are receivers.

use std::collections::BTreeMap;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::regions::place;
use crate::document::{Fault, Problem, Span, nearest};

/// The cells of a matrix as text, with their places.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    source: usize,
    /// The ends of the header and of the whole text, where a column or a row could be added.
    header_end: usize,
    end: usize,
    /// The header's cells by name.
    columns: BTreeMap<String, usize>,
    rows: BTreeMap<String, Row>,
}

#[derive(Clone, Debug)]
struct Row {
    record: StringRecord,
    /// The line's bytes in the file.
    start: usize,
    end: usize,
}

impl Matrix {
    /// Reads a matrix. Lines that start with `#` are comments; the first other line names the columns.
    pub(crate) fn read(source: usize, text: &str) -> Result<Self, Problem> {
        let mut reader = ReaderBuilder::new()
            .comment(Some(b'#'))
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(text.as_bytes());
        let end = text.trim_end().len();
        let (columns, rows) = (BTreeMap::new(), BTreeMap::new());
        let mut matrix = Self { source, header_end: end, end, columns, rows };
        let mut width = None;

        for record in reader.records() {
            let record = record.map_err(|error| {
                let at = error.position().map_or(0, |position| position.byte() as usize);
                let message = "this is not CSV in UTF-8".to_owned();
                matrix.problem(at..at, String::new(), Fault::Syntax { message })
            })?;

            let row = Row::new(record, text);
            match width {
                None => {
                    width = Some(row.record.len());
                    matrix.read_header(&row, text)?;
                }
                Some(width) => matrix.read_row(row, width, text)?,
            }
        }

        if width.is_none() {
            let expected = "a header line with the name of each column".to_owned();
            let fault = Fault::Wrong { found: "an empty file".into(), expected, help: None };
            return Err(matrix.problem(0..0, String::new(), fault));
        }

        Ok(matrix)
    }

    fn read_header(&mut self, row: &Row, text: &str) -> Result<(), Problem> {
        self.header_end = row.start + text.get(row.start..row.end).unwrap_or("").trim_end().len();
        for (index, name) in row.record.iter().enumerate().skip(1) {
            if self.columns.insert(name.to_owned(), index).is_some() {
                return Err(self.duplicate("column", row.cell(index, text), name));
            }
        }
        Ok(())
    }

    fn read_row(&mut self, row: Row, width: usize, text: &str) -> Result<(), Problem> {
        let name = row.record.get(0).unwrap_or("").to_owned();
        if row.record.len() != width {
            let found = format!("{} cells", row.record.len());
            let expected = format!("{width} cells, as in the header");
            let fault = Fault::Wrong { found, expected, help: None };
            return Err(self.problem(row.start..row.end, format!("row `{name}`"), fault));
        }
        let first = row.cell(0, text);
        if self.rows.insert(name.clone(), row).is_some() {
            return Err(self.duplicate("row", first, &name));
        }
        Ok(())
    }

    /// The text of a directed pair's cell.
    pub(crate) fn cell(&self, from: &str, to: &str) -> Result<&str, Problem> {
        let (row, column) = self.find(from, to)?;
        Ok(row.record.get(column).unwrap_or(""))
    }

    /// A problem with a directed pair's cell, shown there.
    ///
    /// The place is looked up here and not for each cell that is read, because that takes time in the length of the row.
    pub(crate) fn cell_problem(&self, from: &str, to: &str, text: &str, fault: Fault) -> Problem {
        match self.find(from, to) {
            Ok((row, column)) => self.problem(row.cell(column, text), cell_key(from, to), fault),
            Err(problem) => problem,
        }
    }

    fn find(&self, from: &str, to: &str) -> Result<(&Row, usize), Problem> {
        let lacking = |what: &str, name: &str, names: Vec<&String>, at: usize| {
            let expected = format!("a {what} `{name}`");
            let help = nearest(name, &names).map(|near| format!("did you mean `{near}`?"));
            let fault = Fault::Wrong { found: "missing".into(), expected, help };
            self.problem(at..at, cell_key(from, to), fault)
        };
        let row = named(&self.rows, from)
            .ok_or_else(|| lacking("row", from, self.rows.keys().collect(), self.end))?;
        let column = *named(&self.columns, to)
            .ok_or_else(|| lacking("column", to, self.columns.keys().collect(), self.header_end))?;
        Ok((row, column))
    }

    fn duplicate(&self, what: &str, range: std::ops::Range<usize>, name: &str) -> Problem {
        let fault = Fault::Wrong {
            found: "listed twice".into(),
            expected: format!("each {what} once"),
            help: None,
        };
        self.problem(range, format!("{what} `{name}`"), fault)
    }

    fn problem(&self, range: std::ops::Range<usize>, key: String, fault: Fault) -> Problem {
        let span = Span { source: self.source, start: range.start, end: range.end };
        Problem { span: Some(span), path: vec![key], fault: fault.into() }
    }
}

/// The entry of a data center: by its name, or by the place that a cloud gives the name of a region.
fn named<'a, T>(entries: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    entries.get(name).or_else(|| {
        let there = |(entry, _): &(&String, &T)| place(entry) == place(name);
        entries.iter().find(there).map(|(_, value)| value)
    })
}

/// The name of a cell in messages.
fn cell_key(from: &str, to: &str) -> String {
    format!("row `{from}`, column `{to}`")
}

impl Row {
    fn new(record: StringRecord, text: &str) -> Self {
        let at = record.position().map_or(0, |position| position.byte() as usize);
        // The reader counts the blank and comment lines before a record as part of it.
        let mut start = at.min(text.len());
        for line in text.get(start..).unwrap_or("").split_inclusive('\n') {
            if !line.trim().is_empty() && !line.starts_with('#') {
                break;
            }
            start += line.len();
        }
        let rest = text.get(start..).unwrap_or("");
        let end = start + rest.find('\n').unwrap_or(rest.len());
        Self { record, start, end }
    }

    /// The bytes of a cell; of the whole line where quotes make commas ambiguous.
    fn cell(&self, index: usize, text: &str) -> std::ops::Range<usize> {
        let line = text.get(self.start..self.end).unwrap_or("");
        if line.contains('"') {
            return self.start..self.end;
        }
        let start = line.split(',').take(index).map(|cell| cell.len() + 1).sum::<usize>();
        let cell = line.split(',').nth(index).unwrap_or("");
        let start = self.start + start.min(line.len()) + (cell.len() - cell.trim_start().len());
        start..start + cell.trim().len()
    }
}
