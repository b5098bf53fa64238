//! Writes predictions as csv or Parquet.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::predictions::{PredictionColumn, PredictionValues, Predictions};

/// Why predictions cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The ending of the file names no format.
    #[error("{} has no ending that is known, expected .csv or .parquet", file.display())]
    Ending {
        /// The file.
        file: PathBuf,
    },
    /// The operating system refused to write the file.
    #[error("{}: cannot be written: {reason}", file.display())]
    Unwritten {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// The format of a file with predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictionFormat {
    /// A row of names and a row for each example, fields separated by commas.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl PredictionFormat {
    /// The format that the ending of a file names.
    ///
    /// # Errors
    /// [`WriteError::Ending`] where it names none.
    pub fn of(file: &Path) -> Result<Self, WriteError> {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(WriteError::Ending { file: file.into() }),
        }
    }
}

impl Predictions {
    /// Writes a file, whole or not at all. Its ending decides the format.
    ///
    /// # Errors
    /// Where the ending names no format, or the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), WriteError> {
        let format = PredictionFormat::of(file)?;
        let written = match format {
            PredictionFormat::Csv => self.write_as(file, |out| self.write_csv(out)),
            PredictionFormat::Parquet => self.write_as(file, |out| self.write_parquet(out)),
        };
        written.map_err(|reason| WriteError::Unwritten { file: file.into(), reason })
    }

    /// Writes under another name in the same folder, and renames. A file that could not be written whole is removed.
    fn write_as(
        &self,
        file: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = file.with_file_name(name);
        let written = File::create(&partial).map_err(|error| error.to_string()).and_then(|out| {
            let mut out = BufWriter::new(out);
            write(&mut out)?;
            out.flush().map_err(|error| error.to_string())?;
            std::fs::rename(&partial, file).map_err(|error| error.to_string())
        });
        if written.is_err() {
            // There may be no such file.
            let _ = std::fs::remove_file(&partial);
        }
        written
    }

    fn write_csv(&self, out: impl Write) -> Result<(), String> {
        let mut writer = csv::Writer::from_writer(out);
        let mut write = || -> csv::Result<()> {
            writer.write_record(self.columns.iter().map(|column| &column.name))?;
            for row in 0..self.len() {
                writer.write_record(self.columns.iter().map(|column| field(column, row)))?;
            }
            writer.flush().map_err(csv::Error::from)
        };
        write().map_err(|error| error.to_string())
    }

    fn write_parquet(&self, out: impl Write + Send) -> Result<(), String> {
        let write = || -> Result<(), ParquetError> {
            let columns = self.columns.iter().map(|column| Ok(Arc::new(parquet_type(column)?)));
            let columns = columns.collect::<Result<_, ParquetError>>()?;
            let schema = Type::group_type_builder("predictions").with_fields(columns).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            let mut writer =
                SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
            let mut group = writer.next_row_group()?;
            for column in &self.columns {
                let Some(mut writer) = group.next_column()? else { break };
                write_column(&mut writer, &column.values)?;
                writer.close()?;
            }
            group.close()?;
            writer.close().map(|_| ())
        };
        write().map_err(|error| error.to_string())
    }
}

/// One value as csv writes it. A number that is not known is empty.
fn field(column: &PredictionColumn, row: usize) -> String {
    match &column.values {
        PredictionValues::Floats(values) if values[row].is_nan() => String::new(),
        PredictionValues::Floats(values) => values[row].to_string(),
        PredictionValues::Integers(values) => values[row].to_string(),
        PredictionValues::Texts(values) => values[row].clone(),
    }
}

fn parquet_type(column: &PredictionColumn) -> Result<Type, ParquetError> {
    let (physical, logical, repetition) = match column.values {
        PredictionValues::Floats(_) => (PhysicalType::FLOAT, None, Repetition::OPTIONAL),
        PredictionValues::Integers(_) => (PhysicalType::INT64, None, Repetition::REQUIRED),
        PredictionValues::Texts(_) => {
            (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED)
        }
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    values: &PredictionValues,
) -> Result<(), ParquetError> {
    match values {
        PredictionValues::Floats(values) => {
            let known: Vec<f32> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_nan())).collect();
            writer.typed::<FloatType>().write_batch(&known, Some(&levels), None)?;
        }
        PredictionValues::Integers(values) => {
            writer.typed::<Int64Type>().write_batch(values, None, None)?;
        }
        PredictionValues::Texts(values) => {
            let values: Vec<ByteArray> =
                values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
    }
    Ok(())
}
