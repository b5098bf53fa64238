//! Writes files of columns: csv or Parquet, as the name of the file says.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression as PageCompression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::fields::{Field, is_writable};
use crate::error::{DataError, FilePosition, shown};
use gaia_model::new_file;

/// A file that is being written. It is there once it is finished, and not before: until then it has another name in the same
/// folder, and what is dropped unfinished leaves nothing.
pub struct TableWriter {
    path: PathBuf,
    schema: SchemaRef,
    rows: Rows,
    partial: Partial,
}

enum Rows {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    PackedCsv(Box<csv::Writer<GzEncoder<BufWriter<File>>>>),
    Parquet(Box<ArrowWriter<File>>),
}

/// A file that is removed when it is dropped, unless it has been given its name.
struct Partial(PathBuf);

impl TableWriter {
    /// Begins a file of columns of text, whole numbers, floats or truth values. Its ending says the format: `.csv`, `.csv.gz`
    /// or `.parquet`.
    ///
    /// # Errors
    /// [`DataError::Broken`] where the ending is another one or a column has another type, [`DataError::Unwritable`] where the
    /// file cannot be created.
    pub fn create(path: &Path, schema: SchemaRef) -> Result<Self, DataError> {
        if let Some(field) = schema.fields().iter().find(|field| !is_writable(field.data_type())) {
            let found = format!(
                "a column {} of type {}",
                shown(field.name().as_bytes()),
                field.data_type()
            );
            let expected = "columns of text, whole numbers, floats or truth values";
            return Err(DataError::broken(path, FilePosition::Whole, found, expected));
        }
        let ending = ending(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unwritable = |reason| DataError::Unwritable { file: path.into(), reason };
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let file = new_file(&partial).map_err(unwritable)?;
        let partial = Partial(partial);
        let rows = match ending {
            ".csv" => Rows::Csv(Box::new(csv::Writer::from_writer(BufWriter::new(file)))),
            ".csv.gz" => {
                let packed = GzEncoder::new(BufWriter::new(file), Compression::default());
                Rows::PackedCsv(Box::new(csv::Writer::from_writer(packed)))
            }
            _ => {
                let properties = WriterProperties::builder();
                let properties = properties.set_compression(PageCompression::SNAPPY).build();
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))
                    .map_err(|error| unwritable(of_parquet(error)))?;
                Rows::Parquet(Box::new(writer))
            }
        };

        let mut writer = Self { path: path.into(), schema, rows, partial };
        let names: Vec<String> =
            writer.schema.fields().iter().map(|field| field.name().clone()).collect();
        match &mut writer.rows {
            Rows::Csv(rows) => rows.write_record(&names).map_err(of_csv),
            Rows::PackedCsv(rows) => rows.write_record(&names).map_err(of_csv),
            Rows::Parquet(_) => Ok(()),
        }
        .map_err(unwritable)?;
        Ok(writer)
    }

    /// Checks that the ending of a file says a format.
    ///
    /// # Errors
    /// [`DataError::Broken`] where it does not.
    pub fn check_name(path: &Path) -> Result<(), DataError> {
        ending(path).map(|_| ())
    }

    /// Adds rows. A value that is missing is an empty field in csv.
    ///
    /// # Errors
    /// [`DataError::Broken`] where they have other columns, [`DataError::Unwritable`] where the disk refuses.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        let kinds = |schema: &SchemaRef| -> Vec<(String, String)> {
            let fields = schema.fields().iter();
            fields.map(|field| (field.name().clone(), field.data_type().to_string())).collect()
        };
        let (found, expected) = (kinds(&batch.schema()), kinds(&self.schema));
        if found != expected {
            let words = |kinds: Vec<(String, String)>| format!("rows with the columns {kinds:?}");
            return Err(DataError::broken(
                &self.path,
                FilePosition::Whole,
                words(found),
                words(expected),
            ));
        }

        match &mut self.rows {
            Rows::Csv(rows) => write_rows(rows, batch),
            Rows::PackedCsv(rows) => write_rows(rows, batch),
            Rows::Parquet(rows) => rows.write(batch).map_err(of_parquet),
        }
        .map_err(|reason| DataError::Unwritable { file: self.path.clone(), reason })
    }

    /// Completes the file and gives it its name, in the place of a file that has it.
    ///
    /// # Errors
    /// [`DataError::Unwritable`] where the disk refuses. A file that had the name is then still there.
    pub fn finish(self) -> Result<(), DataError> {
        let Self { path, rows, partial, .. } = self;
        let unwritable = |reason| DataError::Unwritable { file: path.clone(), reason };
        let file = finished(rows).map_err(unwritable)?;
        file.sync_all().map_err(unwritable)?;
        fs::rename(&partial.0, &path).map_err(unwritable)
    }
}

/// The ending of a file that says its format.
fn ending(path: &Path) -> Result<&'static str, DataError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let endings = [".csv", ".csv.gz", ".parquet"];
    endings.into_iter().find(|ending| name.ends_with(ending)).ok_or_else(|| {
        let found = format!("the name {}", shown(name.as_bytes()));
        let expected = "a name that ends in .csv, .csv.gz or .parquet";
        DataError::broken(path, FilePosition::Whole, found, expected)
    })
}

/// Writes what is left of the rows.
fn finished(rows: Rows) -> std::io::Result<File> {
    match rows {
        Rows::Csv(rows) => whole(unfinished(*rows)?),
        Rows::PackedCsv(rows) => whole(unfinished(*rows)?.finish()?),
        Rows::Parquet(rows) => rows.into_inner().map_err(of_parquet),
    }
}

fn unfinished<W: Write>(rows: csv::Writer<W>) -> std::io::Result<W> {
    rows.into_inner().map_err(csv::IntoInnerError::into_error)
}

fn whole(bytes: BufWriter<File>) -> std::io::Result<File> {
    bytes.into_inner().map_err(std::io::IntoInnerError::into_error)
}

fn write_rows<W: Write>(rows: &mut csv::Writer<W>, batch: &RecordBatch) -> std::io::Result<()> {
    let columns: Vec<Field<'_>> = batch.columns().iter().map(Field::of).collect();
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for column in &columns {
            text.clear();
            column.write(row, &mut text);
            rows.write_field(&text).map_err(of_csv)?;
        }
        rows.write_record(None::<&[u8]>).map_err(of_csv)?;
    }
    Ok(())
}

fn of_csv(error: csv::Error) -> std::io::Error {
    error.into()
}

fn of_parquet(error: ParquetError) -> std::io::Error {
    std::io::Error::other(error)
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Once the file has its name, there is nothing to remove.
        let _gone = fs::remove_file(&self.0);
    }
}
