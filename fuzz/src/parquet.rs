//! Columns of Parquet files.

use std::sync::Arc;

use arrow_array::{Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use gaia_data::table::{TableFormat, TableWriter};

use super::columns::check_columns;
use super::files::in_folder;
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "parquet", check, seeds };

fn check(data: &[u8]) {
    check_columns("columns.parquet", TableFormat::Parquet, data);
}

fn seeds() -> Vec<Seed> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("label", DataType::Int64, false),
        Field::new("user", DataType::Utf8, false),
        Field::new("rating", DataType::Float32, true),
    ]));
    let rows = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(Int64Array::from(vec![0, 1, -1])),
            Arc::new(StringArray::from(vec!["1", "a \"b\"", "18446744073709551615"])),
            Arc::new(Float32Array::from(vec![2.5, -1e-3, 3.0])),
        ],
    );
    let rows = rows.expect("columns of the schema");
    let mut seed = Vec::new();
    in_folder(|folder| {
        let file = folder.join("seed.parquet");
        let mut writer = TableWriter::create(&file, schema).expect("room for a small file");
        writer.write(&rows).expect("room for a small file");
        writer.finish().expect("room for a small file");
        seed = std::fs::read(&file).expect("a file that was written");
    });
    vec![("rows", seed)]
}
