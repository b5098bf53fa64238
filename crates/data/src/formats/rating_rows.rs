//! Ratings while they are read, before all users and items are known.

use std::path::Path;

use crate::error::{DataError, FilePosition};
use crate::formats::name_index::NameIndex;
use crate::scratch::{ExampleSet, Gathered, ScratchSpace};
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
    /// Users and items are their places in the order of first occurrence until all are known.
    sets: Vec<ExampleSet<Ratings>>,
    space: Option<ScratchSpace>,
}

impl RatingRows {
    /// No ratings. They go where there is space for them, or stay in memory.
    pub(crate) fn new(space: Option<ScratchSpace>) -> Self {
        Self { space, ..Self::default() }
    }

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
        let ratings = self.sets.last().map_or(0, ExampleSet::len);
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
        self.sets.push(ExampleSet::new(Ratings::default(), self.space.as_ref())?);
        read(self)
    }

    /// Adds a rating of `file` to the last set.
    ///
    /// # Errors
    /// [`DataError::Broken`] where there are too many, [`DataError::Scratch`] where there is no room for it.
    pub(crate) fn push(
        &mut self,
        (user, item, rating): (u32, u32, f32),
        (file, row): (&Path, u64),
    ) -> Result<(), DataError> {
        let set = self.sets.last_mut().expect("ratings are read into a set");
        if set.len() == set.most() {
            let expected = format!("at most {} ratings", set.most());
            let position = FilePosition::Row(row);
            return Err(DataError::broken(file, position, "one more rating", expected));
        }
        let held = set.held();
        held.user.push(user);
        held.item.push(item);
        held.value.push(rating);
        set.settle()
    }

    /// The sets, and the names of users and of items. Those in memory are sorted by user and item, those on disk are in the
    /// order in which they were read.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn into_ratings(self) -> Result<(Vec<Gathered<Ratings>>, [Names; 2]), DataError> {
        let (sets, names) = self.into_ratings_as_read()?;
        let sorted = |set| match set {
            Gathered::InMemory(ratings) => Gathered::InMemory(sorted(&ratings)),
            on_disk @ Gathered::OnDisk(_) => on_disk,
        };
        Ok((sets.into_iter().map(sorted).collect(), names))
    }

    /// The sets in the order in which they were read, and the names of users and of items.
    ///
    /// # Errors
    /// [`DataError::Scratch`].
    pub(crate) fn into_ratings_as_read(
        self,
    ) -> Result<(Vec<Gathered<Ratings>>, [Names; 2]), DataError> {
        let (users, user_places) = self.users.into_names();
        let (items, item_places) = self.items.into_names();
        let counts = (users.len(), items.len());
        let numbered = move |ratings: &mut Ratings| {
            ratings.user.iter_mut().for_each(|user| *user = user_places[*user as usize]);
            ratings.item.iter_mut().for_each(|item| *item = item_places[*item as usize]);
            (ratings.users, ratings.items) = counts;
        };
        Ok((ExampleSet::finish_all(self.sets, numbered)?, [users, items]))
    }
}

/// Ratings by user, then by item.
fn sorted(ratings: &Ratings) -> Ratings {
    let mut order: Vec<u32> = (0..ratings.len() as u32).collect();
    order.sort_by_key(|&at| (ratings.user[at as usize], ratings.item[at as usize]));
    ratings.select(&order)
}

/// The largest absolute value of a rating.
pub(crate) const RATING_MAX: f32 = 1000.0;
