//! MovieLens ratings: `ratings.csv`, `u.data` and `ratings.dat`, distinguished by their first row.

use std::path::Path;

use super::error::{DataError, FilePosition, shown};
use super::files::files_of;
use super::source::Source;
use gaia_ml::examples::Ratings;

/// One rating: the numbers of the user and of the item in the files, and the value.
pub(super) type Row = (u32, u32, f32);

/// Reads the ratings of a file, of the files in a folder, or of those that match a pattern. Each may be plain or gzip, and
/// in any of the three formats.
///
/// Users and items are numbered from 0 in ascending order of their numbers in the files; ratings come out
/// sorted by user and item.
///
/// # Errors
/// [`DataError::Unreadable`] where a file cannot be read, [`DataError::Broken`] where it is not of this format or too
/// large, or where there is none.
pub fn read_movielens(path: &Path) -> Result<Ratings, DataError> {
    Ok(numbered(vec![rating_rows(path)?]).0.remove(0))
}

/// Reads the ratings that a path names, as they are in the files. At least two.
///
/// # Errors
/// As [`read_movielens`].
pub(super) fn rating_rows(path: &Path) -> Result<Vec<Row>, DataError> {
    let mut rows = Vec::new();
    for file in files_of(path)? {
        parse(Source::open(&file)?, &mut rows)?;
    }

    if rows.len() < 2 {
        let found = format!("{} in all", rows.len());
        return Err(DataError::broken(path, FilePosition::Whole, found, "at least 2 ratings"));
    }
    Ok(rows)
}

/// What separates the fields of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Comma,
    Tab,
    Colons,
}

/// Adds the ratings of a file.
fn parse(mut source: Source<'_>, rows: &mut Vec<Row>) -> Result<(), DataError> {
    let file = source.file().to_owned();
    let mut separator = None;

    while let Some((row, line)) = source.row()? {
        let separator = *separator.get_or_insert_with(|| Separator::of(line));

        if line.is_empty() || (row == 1 && is_header(line)) {
            continue;
        }

        if rows.len() == RATINGS_MAX {
            let expected = format!("at most {RATINGS_MAX} ratings");
            return Err(DataError::broken(
                &file,
                FilePosition::Row(row),
                "one more rating",
                expected,
            ));
        }

        let rating = separator.rating(line).map_err(|(found, expected)| {
            DataError::broken(&file, FilePosition::Row(row), found, expected)
        })?;

        rows.push(rating);
    }

    Ok(())
}

/// The ratings of each set sorted, with the users and items of all sets numbered from 0, and the numbers that these have in
/// the files.
pub(super) fn numbered(mut sets: Vec<Vec<Row>>) -> (Vec<Ratings>, Vec<u32>, Vec<u32>) {
    let users = ascending(sets.iter().flatten().map(|row| row.0));
    let items = ascending(sets.iter().flatten().map(|row| row.1));
    let ratings = |rows: &mut Vec<Row>| {
        rows.sort_by_key(|&(user, item, _)| (user, item));
        Ratings {
            users: users.len(),
            items: items.len(),
            user: rows.iter().map(|row| place(&users, row.0)).collect(),
            item: rows.iter().map(|row| place(&items, row.1)).collect(),
            value: rows.iter().map(|row| row.2).collect(),
        }
    };
    (sets.iter_mut().map(ratings).collect(), users, items)
}

impl Separator {
    fn of(line: &[u8]) -> Self {
        if line.contains(&b'\t') {
            Self::Tab
        } else if line.windows(2).any(|pair| pair == b"::") {
            Self::Colons
        } else {
            Self::Comma
        }
    }

    fn bytes(self) -> &'static str {
        match self {
            Self::Comma => ",",
            Self::Tab => "\t",
            Self::Colons => "::",
        }
    }

    /// The user, item and value of a row, or what was found and expected instead.
    fn rating(self, line: &[u8]) -> Result<Row, (String, String)> {
        let text = std::str::from_utf8(line).map_err(|_| (shown(line), "text".to_owned()))?;
        let mut fields = text.split(self.bytes());
        let mut field = |name: &str| {
            fields.next().map(str::trim).ok_or_else(|| (shown(line), format!("{name} in the row")))
        };
        let user = id(field("a user")?, "a user")?;
        let item = id(field("an item")?, "an item")?;
        let value = rating(field("a rating")?)?;
        if let Some(time) = fields.next()
            && time.trim().parse::<u64>().is_err()
        {
            return Err((shown(time.as_bytes()), "a time in whole seconds".into()));
        }
        match fields.next() {
            None => Ok((user, item, value)),
            Some(_) => Err((shown(line), "a user, an item, a rating and a time".into())),
        }
    }
}

fn id(text: &str, name: &str) -> Result<u32, (String, String)> {
    text.parse().map_err(|_| (shown(text.as_bytes()), format!("{name} number, 0 to {}", u32::MAX)))
}

fn rating(text: &str) -> Result<f32, (String, String)> {
    let value: Option<f32> = text.parse().ok();
    value
        .filter(|value| value.abs() <= RATING_MAX)
        .ok_or_else(|| (shown(text.as_bytes()), format!("a rating, -{RATING_MAX} to {RATING_MAX}")))
}

fn is_header(line: &[u8]) -> bool {
    line.to_ascii_lowercase().starts_with(b"userid,movieid,rating")
}

fn ascending(ids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut ids: Vec<u32> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn place(ids: &[u32], id: u32) -> u32 {
    ids.partition_point(|&other| other < id) as u32
}

/// Positions are 32-bit, and three times this many bytes must fit in memory.
const RATINGS_MAX: usize = 1 << 30;

/// The largest absolute value of a rating.
const RATING_MAX: f32 = 1000.0;
