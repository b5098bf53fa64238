//! `model.safetensors` is what other programs read: its bytes are looked at by hand here, and by Python where it has
//! the package.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::tempdir;

use super::training::Training;

/// Dense enough that each row has ratings in each data center in the first clock.
const APP: &str = "[app]\nkind = \"matrix-factorization\"\nrank = 3\nbias = false\nclocks_per_pass = 1\n\
    data.synthetic = { users = 60, items = 40, ratings = 20000, rank = 2, noise = 0.3 }";

#[test]
fn tables_are_tensors_of_rows_by_width_under_their_names() {
    let training = Training::new(APP, &[]);
    let directory = tempdir().unwrap();
    training.one_clock(directory.path(), None);
    let path = directory.path().join("clock-0001/model.safetensors");
    let file = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let numbers = &file[8 + length..];
    let mut end = 0;
    for (table, rows) in [("users", 60), ("items", 40)] {
        assert_eq!(header[table]["dtype"], "F32");
        assert_eq!(header[table]["shape"], json!([rows, 3]));
        let offsets = &header[table]["data_offsets"];
        let (from, to) = (offsets[0].as_u64().unwrap(), offsets[1].as_u64().unwrap());
        assert_eq!(to - from, rows * 3 * 4);
        end = end.max(to);
        let bytes = &numbers[from as usize..to as usize];
        let values: Vec<f32> =
            bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert!(values.iter().all(|value| value.is_finite() && *value != 0.0), "{values:?}");
    }
    assert_eq!(header.as_object().unwrap().len(), 2);
    assert_eq!(end as usize, numbers.len());

    let script = "import sys, safetensors.numpy as st\n\
                  model = st.load_file(sys.argv[1])\n\
                  print({name: (table.shape, str(table.dtype)) for name, table in sorted(model.items())})";
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let loaded = Command::new(&python).args(["-c", script]).arg(&path).output();
    match loaded {
        Ok(loaded) if loaded.status.success() => {
            let said = String::from_utf8(loaded.stdout).unwrap();
            assert_eq!(
                said.trim(),
                "{'items': ((40, 3), 'float32'), 'users': ((60, 3), 'float32')}"
            );
        }
        _ => eprintln!("{python:?} has no safetensors: the layout alone was checked"),
    }
}
