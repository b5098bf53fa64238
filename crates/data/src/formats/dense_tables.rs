//! Dense examples in files of columns.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::example_tables::{ExampleSets, ExampleTables, NO_LABEL, numbers, take_labels};
use crate::formats::feature_columns::FeatureColumns;
use crate::formats::name_index::NameIndex;
use crate::formats::table::{Batch, Column, Content, Request, Table, TableFormat};
use crate::scratch::{ExampleSet, ScratchSpace};
use gaia_ml::ConfigError;
use gaia_ml::columns::DenseColumns;
use gaia_ml::declared::CLASSES_MAX;
use gaia_ml::examples::{DenseExamples, Features, Shape};

/// Sets of examples while they are read: those that train, and those of a validation set.
pub(crate) struct DenseTables<'a> {
    format: TableFormat,
    columns: &'a DenseColumns,
    features: Option<FeatureColumns>,
    /// Whether files may have no column of labels. The labels of their examples are then [`NO_LABEL`].
    are_given: bool,
    /// Features of each example, once there is one.
    width: Option<usize>,
    classes: NameIndex,
    /// Labels are the places of classes until all classes are known.
    sets: Vec<ExampleSet<DenseExamples>>,
    space: Option<&'a ScratchSpace>,
}

impl<'a> DenseTables<'a> {
    /// Examples go where there is space for them, or stay in memory.
    pub(crate) fn new(
        format: TableFormat,
        columns: &'a DenseColumns,
        space: Option<&'a ScratchSpace>,
    ) -> Self {
        Self {
            format,
            columns,
            features: None,
            are_given: false,
            width: None,
            classes: NameIndex::default(),
            sets: Vec::new(),
            space,
        }
    }

    /// Adds the examples of a batch, whose last column has the labels if there are any.
    fn add(&mut self, mut batch: Batch, is_labelled: bool, file: &Path) -> Result<(), DataError> {
        let labels = take_labels(&mut batch, is_labelled, &mut self.classes);
        let broken = |row: usize, found: String, expected: String| {
            DataError::broken(file, FilePosition::Row(batch.rows[row]), found, expected)
        };
        let set = self.sets.last_mut().expect("examples are read into a set");

        let is_too_high = |label: &u32| *label != NO_LABEL && *label as usize >= CLASSES_MAX;
        if let Some(row) = labels.iter().position(is_too_high) {
            return Err(broken(row, "one more class".into(), format!("at most {CLASSES_MAX}")));
        }
        if set.len() + labels.len() > set.most() {
            return Err(broken(0, "more examples".into(), format!("at most {}", set.most())));
        }

        let mut values: Vec<f32> = Vec::new();
        if let [Column::NumberLists(lists)] = batch.columns.as_slice() {
            for (row, list) in lists.iter().enumerate() {
                let width = *self.width.get_or_insert(list.len());
                if list.len() != width || width == 0 {
                    let expected = match width {
                        0 => "at least one".into(),
                        width => format!("{width}, as in the rows before"),
                    };
                    return Err(broken(
                        row,
                        format!("a list of {} features", list.len()),
                        expected,
                    ));
                }
                values.extend_from_slice(list);
            }
        } else {
            let columns: Vec<&[f32]> = batch.columns.iter().map(numbers).collect();
            self.width = Some(columns.len());
            (0..batch.rows.len())
                .for_each(|row| values.extend(columns.iter().map(|column| column[row])));
        }

        let (shape, features) = (Shape::row(self.width.unwrap_or(0)), Features::Floats(Vec::new()));
        let none = DenseExamples { features, ..DenseExamples::empty(shape, 0) };
        set.begin(none.clone());
        set.held().append(DenseExamples { features: Features::Floats(values), labels, ..none });
        set.settle()
    }
}

impl ExampleTables for DenseTables<'_> {
    type Examples = DenseExamples;

    fn begin_set(&mut self) -> Result<(), DataError> {
        let none = DenseExamples::empty(Shape::row(0), 0);
        self.sets.push(ExampleSet::new(none, self.space)?);
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
        let chosen = (self.columns.features.as_deref(), self.columns.label.as_str());
        let features = FeatureColumns::of_file(&table, file, chosen, self.features.take())?;
        let is_labelled = !self.are_given || table.has(chosen.1);
        let label = Request::new(chosen.1, Content::Labels, Some("app.data.columns.label"));
        let mut requests = features.requests();
        requests.extend(is_labelled.then_some(label));
        self.features = Some(features);
        table.read(&requests)?.try_for_each(|batch| self.add(batch?, is_labelled, file))
    }

    /// # Errors
    /// Where examples have another number of features than the configured shape.
    fn into_examples(self) -> Result<ExampleSets<DenseExamples>, DataError> {
        let width = self.width.unwrap_or(0);
        let shape = match self.columns.shape {
            None => Shape::row(width),
            Some([channels, height, width]) => Shape { channels, height, width },
        };
        if shape.values() != width {
            let found = format!("{:?}", self.columns.shape.unwrap_or_default());
            let expected = format!("a shape of {width} values, as many as there are features");
            return Err(ConfigError::new("data.columns.shape", found, expected).into());
        }

        let (names, places) = self.classes.into_names();
        let place = move |label| if label == NO_LABEL { NO_LABEL } else { places[label as usize] };
        let numbered = move |examples: &mut DenseExamples| {
            examples.labels.iter_mut().for_each(|label| *label = place(*label));
            (examples.shape, examples.classes) = (shape, names.len());
            examples.class_names = Some(names.clone());
        };
        let sets = ExampleSet::finish_all(self.sets, numbered)?;
        Ok((sets, self.features.and_then(FeatureColumns::into_names)))
    }
}
