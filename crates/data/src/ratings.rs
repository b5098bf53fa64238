//! Matrix factorisation from the ratings of each data center: users and items are those of all.

use super::digest::{digest_of, digest_of_examples};
use super::error::DataError;
use super::homes::Home;
use super::movielens::{numbered, rating_rows};
use super::own_data::check_parameters;
use super::summary::{DataShape, DataSummary, Part, RatingShape, joined};
use super::synthetic;
use gaia_ml::apps::{
    MatrixFactorization, MatrixFactorizationConfig, RatingGenerator, RatingSource, RatingTotals,
};
use gaia_ml::divided::Divided;
use gaia_ml::examples::Ratings;

/// The ratings of one data center, with its own users and items.
pub(super) struct LocalRatings {
    ratings: Divided<Ratings>,
    /// The number of each user in the files, ascending.
    users: Vec<u32>,
    items: Vec<u32>,
}

/// Reads the ratings of a home.
pub(super) fn read(home: &Home<RatingSource, RatingGenerator>) -> Result<LocalRatings, DataError> {
    let (mut sets, users, items) = match home.data.source {
        RatingSource::Synthetic => {
            let all = synthetic::ratings(&home.data.synthetic, home.seed.child("synthetic"));
            let (users, items) = (0..all.users as u32, 0..all.items as u32);
            (vec![all], users.collect(), items.collect())
        }
        RatingSource::MovieLens => {
            let mut rows = vec![rating_rows(home.path()?)?];
            rows.extend(home.validation.as_deref().map(rating_rows).transpose()?);
            numbered(rows)
        }
    };
    let all = sets.remove(0);
    let (train, test) = match sets.pop() {
        Some(validation) => (all, validation),
        None => home.hold_out(&all),
    };
    let groups = train.user.clone();
    Ok(LocalRatings { ratings: home.split(train, test, &groups), users, items })
}

impl LocalRatings {
    /// The number of training ratings.
    pub(super) fn len(&self) -> usize {
        self.ratings.train.len()
    }

    /// The digest of the held-out ratings, whatever other users and items there are.
    pub(super) fn digest_of_test(&self) -> u64 {
        let test = &self.ratings.test;
        let ids = |ids: &[u32], rows: &[u32]| rows.iter().map(|row| ids[*row as usize]).collect();
        let (user, item) = (ids(&self.users, &test.user), ids(&self.items, &test.item));
        digest_of_examples(&Ratings { user, item, ..test.clone() })
    }

    pub(super) fn summary(&self) -> DataSummary {
        let totals = RatingTotals::of(&self.ratings.train);
        let counted =
            |ids: &[u32], counts: Vec<u64>| ids.iter().copied().zip(counts).collect::<Vec<_>>();
        let shape = RatingShape {
            users: counted(&self.users, totals.by_user),
            items: counted(&self.items, totals.by_item),
            sum: totals.sum,
        };
        DataSummary::new(&self.ratings, digest_of(&self.ratings), DataShape::Ratings(shape))
    }

    /// The ratings with the rows that their users and items have in the model.
    fn in_model(self, users: &[u32], items: &[u32]) -> Divided<Ratings> {
        let places = |own: &[u32], all: &[u32]| -> Vec<u32> {
            own.iter().map(|id| all.partition_point(|other| other < id) as u32).collect()
        };
        let (user_places, item_places) = (places(&self.users, users), places(&self.items, items));
        let moved = |ratings: Ratings| {
            let row = |places: &[u32], own: Vec<u32>| -> Vec<u32> {
                own.into_iter().map(|row| places[row as usize]).collect()
            };
            Ratings {
                users: users.len(),
                items: items.len(),
                user: row(&user_places, ratings.user),
                item: row(&item_places, ratings.item),
                value: ratings.value,
            }
        };
        let Divided { train, test, .. } = self.ratings;
        Divided { train: moved(train), test: moved(test), ..self.ratings }
    }
}

/// Builds the application from the ratings that this process has, and from the summaries of all.
pub(super) fn build(
    config: &MatrixFactorizationConfig,
    parts: Vec<Part<'_, LocalRatings>>,
    name: &str,
) -> Result<MatrixFactorization, DataError> {
    let shapes: Vec<&RatingShape> = parts.iter().filter_map(|part| part.shape()).collect();
    let users = counted(shapes.iter().map(|shape| shape.users.as_slice()));
    let items = counted(shapes.iter().map(|shape| shape.items.as_slice()));
    let totals = RatingTotals {
        sum: shapes.iter().map(|shape| shape.sum).sum(),
        by_user: users.1,
        by_item: items.1,
    };
    let (users, items) = (users.0, items.0);
    let parameters = (users.len() + items.len()) * (config.rank + usize::from(config.bias));
    check_parameters("rank", config.rank, parameters)?;

    let none = Ratings { users: users.len(), items: items.len(), ..Ratings::default() };
    let parts = parts.into_iter().map(|part| part.map(|local| local.in_model(&users, &items)));
    let ratings = joined(none, parts.collect());
    Ok(MatrixFactorization::new(config.clone(), ratings, &totals, name))
}

impl Part<'_, LocalRatings> {
    fn shape(&self) -> Option<&RatingShape> {
        match &self.summary.shape {
            DataShape::Ratings(shape) => Some(shape),
            _ => None,
        }
    }
}

/// The union of lists of numbers with counts: the numbers, ascending, and the sum of the counts of each.
fn counted<'a>(lists: impl Iterator<Item = &'a [(u32, u64)]>) -> (Vec<u32>, Vec<u64>) {
    let mut all: Vec<(u32, u64)> = lists.flatten().copied().collect();
    all.sort_unstable_by_key(|(id, _)| *id);
    let same = all.chunk_by(|one, other| one.0 == other.0);
    same.map(|same| (same[0].0, same.iter().map(|(_, count)| count).sum::<u64>())).unzip()
}
