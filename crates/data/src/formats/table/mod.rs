//! Files of columns, csv or Parquet, as batches of rows.
//!
//! A reader names the columns that it needs and what each has to hold. It gets them batch by batch, and does not know which
//! format a file has. What a file claims about itself makes no room: memory follows what has been read of it.

mod arrays;
mod columns;
mod csv;
mod fields;
mod guarded;
mod pages;
mod parquet;
mod quotes;
mod thrift;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition, shown};
pub use columns::{Batch, Column, Content, Lists, NameColumn, Request};
use csv::CsvTable;
use parquet::ParquetTable;
pub use write::TableWriter;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Text with a row of names first, plain or gzip, with this byte between fields.
    Csv(u8),
    /// Columns of typed values.
    Parquet,
}

/// A file whose columns are known and whose rows are yet to be read.
pub struct Table {
    file: PathBuf,
    /// The columns of the file, in its order.
    columns: Vec<ColumnInfo>,
    rows: Rows,
}

/// A column of a file.
#[derive(Debug)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type. `None` in a format without types.
    kind: Option<String>,
    /// Whether it holds lists.
    is_list: bool,
}

enum Rows {
    Csv(Box<CsvTable>),
    Parquet(Box<ParquetTable>),
    None,
}

impl TableFormat {
    /// Text with this ASCII character between fields, plain or gzip.
    pub fn csv(separator: char) -> Self {
        Self::Csv(u8::try_from(separator).unwrap_or(b','))
    }
}

impl Table {
    /// Opens a file and reads which columns it has.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] where it cannot be read, [`DataError::Broken`] where it is not of the format.
    pub fn open(file: &Path, format: TableFormat) -> Result<Self, DataError> {
        match format {
            TableFormat::Csv(separator) => CsvTable::open(file, separator),
            TableFormat::Parquet => ParquetTable::open(file),
        }
    }

    /// Whether the file has a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// The columns of the file, in its order.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    /// Whether a column of this name holds lists.
    pub fn is_list(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name && column.is_list)
    }

    /// Whether it is known that there is no row. Then its columns mean nothing.
    pub fn is_empty(&self) -> bool {
        matches!(self.rows, Rows::None)
    }

    /// Reads some columns, batch by batch.
    ///
    /// # Errors
    /// [`DataError::Broken`] where a column is missing or of another type. Batches are errors where a value cannot be used.
    pub fn read(
        self,
        requests: &[Request],
    ) -> Result<Box<dyn Iterator<Item = Result<Batch, DataError>>>, DataError> {
        let places: Vec<usize> = match self.rows {
            Rows::None => Vec::new(),
            _ => {
                let named = self.columns_by_name();
                let place = |request| self.place(request, &named);
                requests.iter().map(place).collect::<Result<_, _>>()?
            }
        };
        match self.rows {
            Rows::None => Ok(Box::new(std::iter::empty())),
            Rows::Csv(table) => Ok(Box::new(table.read(requests.to_vec(), places))),
            Rows::Parquet(table) => Ok(Box::new(table.read(requests.to_vec(), places))),
        }
    }

    /// For each name the first column that has it, and whether it is the only one. Files can have as many columns as features.
    fn columns_by_name(&self) -> BTreeMap<&str, (usize, bool)> {
        let mut named = BTreeMap::new();
        for (place, column) in self.columns.iter().enumerate() {
            let same = named.entry(column.name.as_str());
            same.and_modify(|(_, is_only)| *is_only = false).or_insert((place, true));
        }
        named
    }

    /// The place of a column in the file.
    fn place(
        &self,
        request: &Request,
        named: &BTreeMap<&str, (usize, bool)>,
    ) -> Result<usize, DataError> {
        let Some(&(place, is_only)) = named.get(request.name.as_str()) else {
            let key = request.key.map_or(String::new(), |key| format!(" ({key})"));
            let expected = format!(
                "a column {}{key}{}",
                shown(request.name.as_bytes()),
                other_separator(&self.columns)
            );
            return Err(self.broken(listed(&self.columns), expected));
        };
        if !is_only {
            let found = format!("two columns {}", shown(request.name.as_bytes()));
            return Err(self.broken(found, "columns of different names".into()));
        }
        let accepts = match &self.rows {
            Rows::Parquet(table) => table.accepts(place, request.content),
            _ => !matches!(request.content, Content::NumberLists | Content::IndexLists),
        };
        if accepts {
            return Ok(place);
        }
        let column = &self.columns[place];
        let kind = column.kind.as_deref().unwrap_or("text");
        let name = shown(column.name.as_bytes());
        let found = format!("the column {name} of type {kind} in {}", listed(&self.columns));
        Err(self.broken(found, format!("{} in {name}", request.content.in_words())))
    }

    fn broken(&self, found: String, expected: String) -> DataError {
        DataError::broken(&self.file, FilePosition::Whole, found, expected)
    }
}

/// The columns of a file, as many as fit in a message.
fn listed(columns: &[ColumnInfo]) -> String {
    let words = |column: &ColumnInfo| {
        let name = shown(column.name.as_bytes());
        match &column.kind {
            Some(kind) => format!("{name} ({kind})"),
            None => name,
        }
    };
    let first: Vec<String> = columns.iter().take(COLUMNS_SHOWN).map(words).collect();
    let more = columns.len().saturating_sub(COLUMNS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("the columns {}{more}", first.join(", "))
}

/// The setting that a file needs whose single column is a row with another separator. Empty for other files.
fn other_separator(columns: &[ColumnInfo]) -> String {
    let [only] = columns else { return String::new() };
    let used = SEPARATORS.iter().find(|separator| only.name.contains(**separator));
    used.map_or_else(String::new, |separator| {
        format!(
            "; for fields with {separator:?} between them, app.data.columns.separator = \"{}\"",
            separator.escape_default()
        )
    })
}

/// Rows of a batch of some columns: few of wide ones.
fn batch_rows(requests: &[Request]) -> usize {
    let is_list =
        |request: &Request| matches!(request.content, Content::NumberLists | Content::IndexLists);
    let values = if requests.iter().any(is_list) { LIST_VALUES } else { requests.len() };
    (BATCH_VALUES / values.max(1)).clamp(1, BATCH_ROWS)
}

/// Values of a batch. More than a processor keeps close would be read from far away again.
const BATCH_VALUES: usize = 1 << 18;

/// Rows of a batch of few columns.
const BATCH_ROWS: usize = 1 << 13;

/// As many values a list is taken to have.
const LIST_VALUES: usize = 1 << 8;

const COLUMNS_SHOWN: usize = 20;

/// What separates the fields of files that are not separated by commas.
const SEPARATORS: [char; 4] = [';', '\t', '|', ','];
