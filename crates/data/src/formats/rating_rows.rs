//! Ratings while they are read, before all users and items are known.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::name_index::NameIndex;
use gaia_core::application::Names;
use gaia_ml::examples::Ratings;

/// Whether every row has a rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Given,
    /// Rows may end after the item, and the column of ratings may be missing. Their rating is not a number.
    Optional,
}

/// Sets of ratings, such as those that train and those of a validation set, with the users and items of all.
#[derive(Default)]
pub(crate) struct RatingRows {
    pub(crate) users: NameIndex,
    pub(crate) items: NameIndex,
    /// The places of user and item, and the rating.
    sets: Vec<Vec<(u32, u32, f32)>>,
}

impl RatingRows {
    /// Adds a set of ratings, those of the files at `path`.
    ///
    /// # Errors
    /// Those of `read`, and [`DataError::Broken`] where there are fewer than two ratings.
    pub(crate) fn add_set(
        &mut self,
        path: &Path,
        read: impl FnOnce(&mut Self) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.add_any(read)?;
        let ratings = self.sets.last().map_or(0, Vec::len);
        if ratings < 2 {
            let found = format!("{ratings} in all");
            return Err(DataError::broken(path, FilePosition::Whole, found, "at least 2 ratings"));
        }
        Ok(())
    }

    /// Adds a set of ratings, however many.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn add_any(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.sets.push(Vec::new());
        read(self)
    }

    /// Adds a rating to the last set. Otherwise says how many it may have.
    pub(crate) fn push(&mut self, user: u32, item: u32, rating: f32) -> Result<(), String> {
        let set = self.sets.last_mut().expect("ratings are read into a set");
        if set.len() == RATINGS_MAX {
            return Err(format!("at most {RATINGS_MAX} ratings"));
        }
        set.push((user, item, rating));
        Ok(())
    }

    /// The sets, each sorted by user and item, and the names of users and of items.
    pub(crate) fn into_ratings(self) -> (Vec<Ratings>, [Names; 2]) {
        self.arranged(|rows| rows.sort_by_key(|&(user, item, _)| (user, item)))
    }

    /// The sets in the order in which they were read, and the names of users and of items.
    pub(crate) fn into_ratings_as_read(self) -> (Vec<Ratings>, [Names; 2]) {
        self.arranged(|_| {})
    }

    fn arranged(self, arrange: impl Fn(&mut [(u32, u32, f32)])) -> (Vec<Ratings>, [Names; 2]) {
        let (users, user_places) = self.users.into_names();
        let (items, item_places) = self.items.into_names();
        let ratings = |mut rows: Vec<(u32, u32, f32)>| {
            for (user, item, _) in &mut rows {
                *user = user_places[*user as usize];
                *item = item_places[*item as usize];
            }
            arrange(&mut rows);
            Ratings {
                users: users.len(),
                items: items.len(),
                user: rows.iter().map(|row| row.0).collect(),
                item: rows.iter().map(|row| row.1).collect(),
                value: rows.iter().map(|row| row.2).collect(),
            }
        };
        (self.sets.into_iter().map(ratings).collect(), [users, items])
    }
}

/// Positions are 32-bit, and three times this many bytes must fit in memory.
const RATINGS_MAX: usize = 1 << 30;

/// The largest absolute value of a rating.
pub(crate) const RATING_MAX: f32 = 1000.0;
