//! Parquet files as columns, row group by row group.
//!
//! Files of other people are decoded by a library that may panic on some of them. Panics end where they begin, as errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use super::arrays::{accepts, column};
use super::columns::{Batch, Content, Request};
use super::guarded::guarded;
use super::pages::{Allowance, Found};
use super::{ColumnInfo, Rows, Table, batch_rows};
use crate::error::{DataError, FilePosition};
use crate::formats::data_file::DataFile;

/// A file whose metadata has been read.
pub(super) struct ParquetTable {
    path: PathBuf,
    file: DataFile,
    metadata: ArrowReaderMetadata,
}

/// The rows that are left of a file.
struct Reading {
    table: ParquetTable,
    requests: Vec<Request>,
    /// Where each column that was asked for is in batches.
    order: Vec<usize>,
    columns: ProjectionMask,
    allowance: Allowance,
    next_group: usize,
    group: Option<ParquetRecordBatchReader>,
    /// The rows that have been read.
    rows: u64,
}

impl ParquetTable {
    pub(super) fn open(path: &Path) -> Result<Table, DataError> {
        let file = DataFile::open(path)?;
        let metadata =
            guarded(|| read_metadata(&file)).map_err(|found| undecodable(&file, path, &found))?;

        let column = |field: &Arc<Field>| ColumnInfo {
            name: field.name().clone(),
            kind: Some(field.data_type().to_string()),
            is_list: matches!(field.data_type(), DataType::List(_)),
        };
        let columns = metadata.schema().fields().iter().map(column).collect();
        let is_empty = metadata.metadata().row_groups().iter().all(|group| group.num_rows() == 0);
        let table = Self { path: path.into(), file, metadata };
        let rows = if is_empty { Rows::None } else { Rows::Parquet(Box::new(table)) };
        Ok(Table { file: path.into(), columns, rows })
    }

    /// Whether the column at a place can hold what is asked of it.
    pub(super) fn accepts(&self, place: usize, content: Content) -> bool {
        accepts(content, self.metadata.schema().field(place).data_type())
    }

    /// The batches of some columns, which are at these places.
    pub(super) fn read(
        self,
        requests: Vec<Request>,
        places: Vec<usize>,
    ) -> impl Iterator<Item = Result<Batch, DataError>> {
        let schema = self.metadata.parquet_schema();
        let columns = ProjectionMask::roots(schema, places.iter().copied());
        // Batches have each column once, in the order of the file.
        let mut read = places.clone();
        read.sort_unstable();
        read.dedup();
        let in_batch = |place: &usize| read.partition_point(|other| other < place);
        let mut reading = Reading {
            order: places.iter().map(in_batch).collect(),
            columns,
            allowance: Allowance::of_file(self.file.size()),
            table: self,
            requests,
            next_group: 0,
            group: None,
            rows: 0,
        };

        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let batch = reading.next().transpose();
            is_over = !matches!(batch, Some(Ok(_)));
            batch
        })
    }
}

impl Reading {
    /// The next batch that has rows.
    fn next(&mut self) -> Result<Option<Batch>, DataError> {
        loop {
            let Some(group) = &mut self.group else {
                if self.next_group == self.table.metadata.metadata().num_row_groups() {
                    return Ok(None);
                }
                self.group = Some(self.open_group()?);
                self.next_group += 1;
                continue;
            };
            match guarded(|| group.next().transpose().map_err(ParquetError::from)) {
                Ok(None) => self.group = None,
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(Some(batch)) => return self.batch(&batch).map(Some),
                Err(found) => return Err(undecodable(&self.table.file, &self.table.path, &found)),
            }
        }
    }

    /// Checks a row group and begins to read it.
    fn open_group(&mut self) -> Result<ParquetRecordBatchReader, DataError> {
        let ParquetTable { path, file, metadata, .. } = &self.table;
        let group = metadata.metadata().row_group(self.next_group);
        let is_read = |leaf| self.columns.leaf_included(leaf);
        self.allowance
            .check(file, group, is_read)
            .map_err(|found| unread(file, path).unwrap_or_else(|| broken(path, found)))?;

        let again = file
            .starting_at(0)
            .map_err(|reason| DataError::Unreadable { file: path.clone(), reason })?;
        let build = || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(again, metadata.clone())
                .with_projection(self.columns.clone())
                .with_row_groups(vec![self.next_group])
                .with_batch_size(batch_rows(&self.requests))
                .build()
        };
        guarded(build).map_err(|found| undecodable(&self.table.file, &self.table.path, &found))
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<Batch, DataError> {
        let first = self.rows + 1;
        self.rows += batch.num_rows() as u64;

        let columns = self.requests.iter().zip(&self.order).map(|(request, place)| {
            column(request, batch.column(*place)).map_err(
                |(row, (found, expected)): (usize, Found)| {
                    let position = FilePosition::Row(first + row as u64);
                    DataError::broken(&self.table.path, position, found, expected)
                },
            )
        });
        Ok(Batch {
            columns: columns.collect::<Result<_, _>>()?,
            rows: (first..self.rows + 1).collect(),
        })
    }
}

/// Reads the schema and where everything lies. Text is read as views, so that a value that is repeated is not copied.
fn read_metadata(file: &DataFile) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(file, options)?;
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 | DataType::Binary => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => field.clone(),
    };
    let fields: Vec<Arc<Field>> = metadata.schema().fields().iter().map(field).collect();
    let schema = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
}

/// The error of a file that was not read, or not decoded.
fn undecodable(file: &DataFile, path: &Path, found: &str) -> DataError {
    unread(file, path).unwrap_or_else(|| {
        // The decoder's reason may repeat what is in the file.
        let found = format!("what cannot be decoded ({})", found.escape_debug());
        broken(path, (found, "a whole Parquet file".into()))
    })
}

/// The error of a file that was not read, which decoders do not tell from a broken one.
fn unread(file: &DataFile, path: &Path) -> Option<DataError> {
    let reason = file.take_failure()?;
    Some(DataError::Unreadable { file: path.into(), reason })
}

fn broken(path: &Path, (found, expected): Found) -> DataError {
    DataError::broken(path, FilePosition::Whole, found, expected)
}
