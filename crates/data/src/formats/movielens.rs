//! MovieLens ratings: `ratings.csv`, `u.data` and `ratings.dat`, distinguished by their first row.

use std::path::Path;

use crate::error::{DataError, FilePosition, shown};
use crate::formats::files::files_of;
use crate::formats::rating_rows::{RATING_MAX, RatingRows, Values};
use crate::formats::source::Source;
use gaia_ml::examples::Ratings;

/// One rating: the numbers of the user and of the item in the files, and the value.
type Row = (u64, u64, f32);

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
    let mut rows = RatingRows::default();
    rows.add_set(path, |rows| add_ratings(path, rows, Values::Given))?;
    rows.into_ratings()?.0.remove(0).into_memory()
}

/// Adds the ratings that a path names.
///
/// # Errors
/// As [`read_movielens`].
pub(crate) fn add_ratings(
    path: &Path,
    rows: &mut RatingRows,
    values: Values,
) -> Result<(), DataError> {
    files_of(path)?.iter().try_for_each(|file| parse(Source::open(file)?, rows, values))
}

/// What separates the fields of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Comma,
    Tab,
    Colons,
}

/// Adds the ratings of a file.
fn parse(mut source: Source<'_>, rows: &mut RatingRows, values: Values) -> Result<(), DataError> {
    let file = source.file().to_owned();
    let mut separator = None;

    while let Some((row, line)) = source.row()? {
        let separator = *separator.get_or_insert_with(|| Separator::of(line));

        if line.is_empty() || (row == 1 && is_header(line)) {
            continue;
        }

        let (user, item, rating) =
            separator.rating(line, values).map_err(|(found, expected)| {
                DataError::broken(&file, FilePosition::Row(row), found, expected)
            })?;

        let (user, item) = (rows.users.number(user), rows.items.number(item));
        rows.push((user, item, rating), (&file, row))?;
    }

    Ok(())
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
    fn rating(self, line: &[u8], values: Values) -> Result<Row, (String, String)> {
        let text = std::str::from_utf8(line).map_err(|_| (shown(line), "text".to_owned()))?;
        if self == Self::Comma && !text.contains(',') {
            let expected = "a user, an item and a rating with `,`, `::` or a tab between them; for other files, \
                            source = \"csv\" and app.data.columns.separator";
            return Err((shown(line), expected.into()));
        }
        let mut fields = text.split(self.bytes());
        let mut field = |name: &str| {
            fields.next().map(str::trim).ok_or_else(|| (shown(line), format!("{name} in the row")))
        };
        let user = id(field("a user")?, "a user")?;
        let item = id(field("an item")?, "an item")?;
        let value = match field("a rating") {
            Err(_) | Ok("") if values == Values::Optional => f32::NAN,
            value => rating(value?)?,
        };
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

fn id(text: &str, name: &str) -> Result<u64, (String, String)> {
    let expected = || {
        format!(
            "{name} number, 0 to {}; for names or another header, source = \"csv\" and app.data.columns",
            u64::MAX
        )
    };
    text.parse().map_err(|_| (shown(text.as_bytes()), expected()))
}

fn rating(text: &str) -> Result<f32, (String, String)> {
    let value: Option<f32> = text.parse().ok();
    value
        .filter(|value| value.abs() <= RATING_MAX)
        .ok_or_else(|| (shown(text.as_bytes()), format!("a rating, -{RATING_MAX} to {RATING_MAX}")))
}

fn is_header(line: &[u8]) -> bool {
    line.to_ascii_lowercase().starts_with(b"userid,movieid")
}
