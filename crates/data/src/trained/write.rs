//! Writes predictions as a file of columns.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::predictions::{PredictionValues, Predictions};
use crate::error::DataError;
use crate::formats::table::TableWriter;

impl Predictions {
    /// Writes a file, whole or not at all. Its ending says the format: `.csv`, `.csv.gz` or `.parquet`.
    ///
    /// # Errors
    /// [`DataError::Broken`] where it has another ending, [`DataError::Unwritable`] where it cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), DataError> {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|column| match column.values {
                PredictionValues::Floats(_) => Field::new(&column.name, DataType::Float32, true),
                PredictionValues::Integers(_) => Field::new(&column.name, DataType::Int64, false),
                PredictionValues::Texts(_) => Field::new(&column.name, DataType::Utf8, false),
            })
            .collect();
        let arrays = self.columns.iter().map(|column| array(&column.values)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays);
        let batch = batch.expect("columns are equally long and of their types");

        let mut writer = TableWriter::create(file, schema)?;
        writer.write(&batch)?;
        writer.finish()
    }
}

/// The values of a column. A number that is not known is missing.
fn array(values: &PredictionValues) -> ArrayRef {
    match values {
        PredictionValues::Floats(values) => {
            let known = values.iter().map(|value| (!value.is_nan()).then_some(*value));
            Arc::new(known.collect::<Float32Array>())
        }
        PredictionValues::Integers(values) => Arc::new(Int64Array::from(values.clone())),
        PredictionValues::Texts(values) => Arc::new(StringArray::from_iter_values(values)),
    }
}
