//! Sparse examples of two classes in files of columns.

use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition};
use crate::formats::class_names::listed;
use crate::formats::example_tables::{ExampleSets, ExampleTables, NO_LABEL, numbers, take_labels};
use crate::formats::feature_columns::FeatureColumns;
use crate::formats::name_index::NameIndex;
use crate::formats::source::width_max;
use crate::formats::table::{Batch, Column, Content, Lists, Request, Table, TableFormat};
use crate::scratch::{ExampleSet, ScratchSpace};
use gaia_core::application::Names;
use gaia_ml::columns::SparseColumns;
use gaia_ml::examples::SparseExamples;

/// Sets of examples while they are read: those that train, and those of a validation set.
pub(crate) struct SparseTables<'a> {
    format: TableFormat,
    columns: &'a SparseColumns,
    features: Option<FeatureColumns>,
    /// Whether a trained model is given the examples: files may have no column of labels, and then the labels are not a number;
    /// and an index may be of any feature, since the model is as wide as it is.
    are_given: bool,
    classes: NameIndex,
    /// Labels are the places of classes until all classes are known.
    sets: Vec<ExampleSet<SparseExamples>>,
    /// Of the examples of all sets.
    entries: usize,
    width: usize,
    space: Option<&'a ScratchSpace>,
    /// The file and the row with the highest index.
    widest: (PathBuf, u64),
}

impl<'a> SparseTables<'a> {
    /// Examples go where there is space for them, or stay in memory.
    pub(crate) fn new(
        format: TableFormat,
        columns: &'a SparseColumns,
        space: Option<&'a ScratchSpace>,
    ) -> Self {
        Self {
            format,
            columns,
            features: None,
            are_given: false,
            classes: NameIndex::default(),
            sets: Vec::new(),
            entries: 0,
            width: 0,
            space,
            widest: (PathBuf::new(), 0),
        }
    }

    /// Adds the examples of a batch, whose last column has the labels if there are any.
    fn add(&mut self, mut batch: Batch, is_labelled: bool, file: &Path) -> Result<(), DataError> {
        let labels = take_labels(&mut batch, is_labelled, &mut self.classes);
        let broken = |row: usize, found: String, expected: String| {
            DataError::broken(file, FilePosition::Row(batch.rows[row]), found, expected)
        };
        let set = self.sets.last_mut().expect("examples are read into a set");

        if let Some(row) = labels.iter().position(|label| *label > 1 && *label != NO_LABEL) {
            let names = listed(&std::mem::take(&mut self.classes).into_names().0);
            let expected = "two classes in all files".into();
            return Err(broken(row, format!("a third class, one of {names}"), expected));
        }
        if set.len() + labels.len() > set.most() {
            return Err(broken(0, "more examples".into(), format!("at most {}", set.most())));
        }
        let mut more = SparseExamples::empty(self.width);

        if let [Column::IndexLists(indices), values] = batch.columns.as_slice() {
            let Column::NumberLists(values) = values else {
                unreachable!("lists of values were asked for")
            };
            let widest = add_lists(&mut more, indices, values, &labels)
                .map_err(|(row, found, expected)| broken(row, found, expected))?;
            if let Some(row) = widest {
                self.widest = (file.into(), batch.rows[row]);
            }
            self.width = more.width;
            self.entries += more.columns.len();
            set.held().append(more);
            return set.settle();
        }

        let columns: Vec<&[f32]> = match batch.columns.as_slice() {
            [Column::NumberLists(_)] => {
                let expected = "columns of numbers, or lists named by indices and values".into();
                return Err(broken(0, "lists of features".into(), expected));
            }
            columns => columns.iter().map(numbers).collect(),
        };
        self.width = columns.len();
        let (mut places, mut values) = (Vec::new(), Vec::new());
        for (row, label) in labels.iter().enumerate() {
            places.clear();
            values.clear();
            for (place, column) in
                columns.iter().enumerate().filter(|(_, column)| column[row] != 0.0)
            {
                places.push(place as u32);
                values.push(column[row]);
            }
            more.push(&places, &values, numbered(*label));
        }
        self.entries += more.columns.len();
        set.held().append(more);
        set.settle()
    }
}

impl ExampleTables for SparseTables<'_> {
    type Examples = SparseExamples;

    fn begin_set(&mut self) -> Result<(), DataError> {
        self.sets.push(ExampleSet::new(SparseExamples::empty(0), self.space)?);
        Ok(())
    }

    fn count(&self) -> usize {
        self.sets.last().map_or(0, ExampleSet::len)
    }

    fn set_given(&mut self) {
        self.are_given = true;
    }

    fn add_file(&mut self, file: &Path) -> Result<(), DataError> {
        let table = Table::open(file, self.format)?;
        if table.is_empty() {
            return Ok(());
        }
        let SparseColumns { label, features, indices, values, .. } = self.columns;
        let mut requests = match (indices, values) {
            (Some(indices), Some(values)) => vec![
                Request::new(indices, Content::IndexLists, Some("app.data.columns.indices")),
                Request::new(values, Content::NumberLists, Some("app.data.columns.values")),
            ],
            _ => {
                let chosen = (features.as_deref(), label.as_str());
                let features = FeatureColumns::of_file(&table, file, chosen, self.features.take())?;
                let requests = features.requests();
                self.features = Some(features);
                requests
            }
        };
        let is_labelled = !self.are_given || table.has(label);
        let label = Request::new(label, Content::Labels, Some("app.data.columns.label"));
        requests.extend(is_labelled.then_some(label));
        table.read(&requests)?.try_for_each(|batch| self.add(batch?, is_labelled, file))
    }

    /// Labels are −1 for the first of the classes and +1 for the second.
    ///
    /// # Errors
    /// Where an index is too high for so few entries.
    fn into_examples(self) -> Result<ExampleSets<SparseExamples>, DataError> {
        let (width, entries) = (self.width, self.entries);
        let features = self.features.and_then(FeatureColumns::into_names);
        if features.is_none() && !self.are_given && width > width_max(entries) {
            let (file, row) = self.widest;
            let found = format!("index {}", width - 1);
            let expected = format!("below {} for {entries} entries in all", width_max(entries));
            return Err(DataError::broken(&file, FilePosition::Row(row), found, expected));
        }

        let (names, places): (Names, Vec<u32>) = self.classes.into_names();
        let numbered = move |examples: &mut SparseExamples| {
            for label in examples.labels.iter_mut().filter(|label| !label.is_nan()) {
                *label = label_of(places[*label as usize]);
            }
            (examples.width, examples.class_names) = (width, Some(names.clone()));
        };
        Ok((ExampleSet::finish_all(self.sets, numbered)?, features))
    }
}

/// The place of a class until all classes are known. Not a number where there is no label.
fn numbered(class: u32) -> f32 {
    if class == NO_LABEL { f32::NAN } else { class as f32 }
}

/// The label of the first of two classes and of the second.
pub(crate) fn label_of(class: u32) -> f32 {
    if class == 0 { -1.0 } else { 1.0 }
}

/// Adds examples from lists of indices and values. Returns the row with a higher index than there was before, or the first
/// row that is wrong, with what was found and what was expected.
fn add_lists(
    set: &mut SparseExamples,
    indices: &Lists<u64>,
    values: &Lists<f32>,
    labels: &[u32],
) -> Result<Option<usize>, (usize, String, String)> {
    let mut widest = None;
    for (row, ((indices, values), label)) in
        indices.iter().zip(values.iter()).zip(labels).enumerate()
    {
        if indices.len() != values.len() {
            let found = format!("{} indices and {} values", indices.len(), values.len());
            return Err((row, found, "a value for each index".into()));
        }
        if let Some(index) = indices.iter().find(|index| **index > INDEX_MAX) {
            return Err((row, format!("index {index}"), format!("at most {INDEX_MAX}")));
        }
        let mut entries: Vec<(u32, f32)> =
            indices.iter().map(|index| *index as u32).zip(values.iter().copied()).collect();
        entries.sort_unstable_by_key(|(index, _)| *index);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err((row, format!("index {} twice", pair[0].0), "each index once".into()));
        }

        let (columns, values): (Vec<u32>, Vec<f32>) = entries.into_iter().unzip();
        set.push(&columns, &values, numbered(*label));
        let width = columns.last().map_or(0, |last| *last as usize + 1);
        if width > set.width {
            set.width = width;
            widest = Some(row);
        }
    }
    Ok(widest)
}

/// The highest index: one parameter each.
const INDEX_MAX: u64 = (1 << 26) - 1;
