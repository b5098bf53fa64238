//! Columns of files, whatever their format.

use gaia_data::DataError;
use gaia_data::table::{Column, Content, Request, Table, TableFormat};

use super::files::{check_error, in_folder, write};

/// Reads a file of columns. Numbers are finite and rows ascend.
pub fn check_columns(name: &str, format: TableFormat, data: &[u8]) {
    in_folder(|folder| {
        let file = write(folder, name, data);
        let read = || -> Result<(), DataError> {
            let table = Table::open(&file, format)?;
            let requests = [
                Request::new("user", Content::Names, Some("app.data.columns.user")),
                Request::new("rating", Content::Numbers, Some("app.data.columns.rating")),
                Request::new("label", Content::Labels, None),
            ];
            for batch in table.read(&requests)? {
                let batch = batch?;
                let [_, Column::Numbers(numbers), _] = batch.columns.as_slice() else {
                    panic!("the columns that were asked for")
                };
                assert_eq!(numbers.len(), batch.rows.len());
                assert!(numbers.iter().all(|number| number.is_finite()));
                assert!(batch.rows.is_sorted_by(|one, other| one < other));
            }
            Ok(())
        };
        if let Err(error) = read() {
            check_error(&error, &file);
        }
    });
}
