//! Files of columns in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int16Array, Int64Array,
    ListArray, RecordBatch, StringArray, StringViewArray, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in the folder, as text.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    pub(crate) fn text(&self, name: &str, text: &str) -> PathBuf {
        self.bytes(name, text.as_bytes())
    }

    pub(crate) fn bytes(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    }

    /// Writes a Parquet file of these columns.
    pub(crate) fn parquet(&self, name: &str, columns: &[(&str, ArrayRef)]) -> PathBuf {
        self.bytes(name, &parquet(columns, WriterProperties::builder().build()))
    }
}

/// The bytes of a Parquet file.
pub(crate) fn parquet(columns: &[(&str, ArrayRef)], properties: WriterProperties) -> Vec<u8> {
    let batch = batch(columns);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

pub(crate) fn compressed(compression: Compression) -> WriterProperties {
    WriterProperties::builder().set_compression(compression).build()
}

pub(crate) fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.iter().map(|(name, array)| (*name, array.clone(), true)),
    )
    .unwrap()
}

pub(crate) fn int64(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub(crate) fn int16(values: impl IntoIterator<Item = i16>) -> ArrayRef {
    Arc::new(Int16Array::from_iter_values(values))
}

pub(crate) fn uint64(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(crate) fn float32(values: impl IntoIterator<Item = f32>) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(values))
}

pub(crate) fn float64(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

pub(crate) fn bools(values: &[bool]) -> ArrayRef {
    Arc::new(BooleanArray::from(values.to_vec()))
}

pub(crate) fn text(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(crate) fn views(values: &[&str]) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values))
}

pub(crate) fn dictionary(values: &[&str]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<DictionaryArray<Int32Type>>())
}

pub(crate) fn float_lists(lists: &[&[f32]]) -> ArrayRef {
    let lists = lists.iter().map(|list| Some(list.iter().copied().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists))
}

pub(crate) fn index_lists(lists: &[&[u32]]) -> ArrayRef {
    let lists = lists.iter().map(|list| Some(list.iter().copied().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(lists))
}
