//! Ratings in files of columns.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::files::files_of;
use crate::formats::rating_rows::{RATING_MAX, RatingRows, Values};
use crate::formats::table::{Column, Content, Request, Table, TableFormat};
use gaia_ml::columns::RatingColumns;

/// Adds the ratings of the files that a path names.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format, a column or
/// a value cannot be used, or there is no file.
pub(crate) fn add_tables(
    path: &Path,
    format: TableFormat,
    columns: &RatingColumns,
    rows: &mut RatingRows,
    values: Values,
) -> Result<(), DataError> {
    let request = |name: &str, content, key| Request::new(name, content, Some(key));
    let pair = [
        request(&columns.user, Content::Names, "app.data.columns.user"),
        request(&columns.item, Content::Names, "app.data.columns.item"),
    ];
    let rating = request(&columns.rating, Content::Numbers, "app.data.columns.rating");
    for file in files_of(path)? {
        let table = Table::open(&file, format)?;
        let is_rated = values == Values::Given || table.has(&columns.rating);
        let mut requests = pair.to_vec();
        requests.extend(is_rated.then(|| rating.clone()));
        for batch in table.read(&requests)? {
            let mut batch = batch?;
            if !is_rated {
                batch.columns.push(Column::Numbers(vec![f32::NAN; batch.rows.len()]));
            }
            let [Column::Names(users), Column::Names(items), Column::Numbers(ratings)] =
                batch.columns.as_slice()
            else {
                unreachable!("columns are those that were asked for")
            };

            let (users, items) = (rows.users.places(users), rows.items.places(items));
            let places = users.into_iter().zip(items);
            for ((row, (user, item)), rating) in batch.rows.iter().zip(places).zip(ratings) {
                let broken = |found: String, expected| {
                    DataError::broken(&file, FilePosition::Row(*row), found, expected)
                };
                if rating.abs() > RATING_MAX {
                    let expected = format!("a rating, -{RATING_MAX} to {RATING_MAX}");
                    return Err(broken(rating.to_string(), expected));
                }
                rows.push((user, item, *rating), (&file, *row))?;
            }
        }
    }
    Ok(())
}
