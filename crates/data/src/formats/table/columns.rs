//! Batches of rows in columns, whichever format they were read from.

/// What a reader asks of one column of a file.
#[derive(Clone, Debug)]
pub struct Request {
    /// The column's name.
    pub name: String,
    /// What it has to hold.
    pub content: Content,
    /// The key of the run file that names the column. `None` where the file does.
    pub key: Option<&'static str>,
}

/// What a column has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Whole numbers from 0, or text.
    Names,
    /// As names, and also other whole numbers, in any form, and truth values.
    Labels,
    /// Finite numbers.
    Numbers,
    /// Lists of finite numbers.
    NumberLists,
    /// Lists of whole numbers from 0.
    IndexLists,
}

/// The rows of a batch, of at least one row.
#[derive(Debug)]
pub struct Batch {
    /// The number of each row in the file, from 1: its line in a file of text.
    pub rows: Vec<u64>,
    /// The columns that were asked for, in that order.
    pub columns: Vec<Column>,
}

/// The values of one column.
#[derive(Debug)]
pub enum Column {
    /// Names or labels.
    Names(NameColumn),
    /// Finite numbers.
    Numbers(Vec<f32>),
    /// Lists of finite numbers.
    NumberLists(Lists<f32>),
    /// Lists of whole numbers.
    IndexLists(Lists<u64>),
}

/// The values of a column of names or labels.
#[derive(Debug)]
pub enum NameColumn {
    /// Whole numbers.
    Numbers(Vec<u64>),
    /// Text, whatever it looks like.
    Text(Lists<u8>),
    /// Fields of a format without types: a whole number as it is usually written is a number.
    Untyped(Lists<u8>),
}

/// Values of different lengths, one after the other.
#[derive(Debug)]
pub struct Lists<T> {
    /// Where each list ends in `values`.
    ends: Vec<usize>,
    values: Vec<T>,
}

impl Content {
    /// What the column has to hold, in words.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Names => "whole numbers or text",
            Self::Labels => "whole numbers, text or truth values",
            Self::Numbers => "numbers",
            Self::NumberLists => "lists of numbers",
            Self::IndexLists => "lists of whole numbers",
        }
    }
}

impl Request {
    /// Asks for a column by its name. `key` is the key of the run file that names it.
    pub fn new(name: &str, content: Content, key: Option<&'static str>) -> Self {
        Self { name: name.into(), content, key }
    }
}

impl<T: Copy> Lists<T> {
    pub(super) fn new() -> Self {
        Self { ends: Vec::new(), values: Vec::new() }
    }

    /// Adds a list.
    pub(super) fn push(&mut self, values: &[T]) {
        self.values.extend_from_slice(values);
        self.ends.push(self.values.len());
    }

    /// The lists, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[T]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.values[*start..*end])
    }
}

impl Column {
    pub(super) fn of(content: Content) -> Self {
        match content {
            Content::Names | Content::Labels => Self::Names(NameColumn::Untyped(Lists::new())),
            Content::Numbers => Self::Numbers(Vec::new()),
            Content::NumberLists => Self::NumberLists(Lists::new()),
            Content::IndexLists => Self::IndexLists(Lists::new()),
        }
    }
}
