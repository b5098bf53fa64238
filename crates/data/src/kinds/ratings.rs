//! Matrix factorisation from the ratings of each data center: users and items are those of all.

use std::path::Path;

use crate::error::DataError;
use crate::formats::movielens::add_ratings;
use crate::formats::rating_rows::{RatingRows, Values};
use crate::formats::rating_tables::add_tables;
use crate::formats::table::TableFormat;
use crate::homes::counted_names::CountedNames;
use crate::homes::digest::{DigestedByName, digest_of, digest_of_test, digests_of_names};
use crate::homes::home::Home;
use crate::homes::summary::{
    DataShape, DataSummary, Part, RatingShape, disagreement, joined, undeclared,
};
use crate::kinds::{check_clocks_per_pass, check_parameters};
use crate::scratch::{Gathered, changed};
use crate::synthetic;
use gaia_core::application::Names;
use gaia_ml::apps::{
    MatrixFactorization, MatrixFactorizationConfig, RatingGenerator, RatingSource, RatingTotals,
};
use gaia_ml::config::DataConfig;
use gaia_ml::divided::Divided;
use gaia_ml::examples::Ratings;

/// The ratings of one data center, with its own users and items.
pub(crate) struct LocalRatings {
    ratings: Divided<Ratings>,
    /// The users and the items in the files, ascending.
    names: [Names; 2],
    summary: DataSummary,
}

/// Reads the ratings of a home.
pub(crate) fn read(home: &Home<RatingSource, RatingGenerator>) -> Result<LocalRatings, DataError> {
    let (sets, names) = match home.data.source {
        RatingSource::Synthetic => {
            let all = synthetic::ratings(&home.data.synthetic, home.seed.child("synthetic"));
            let numbers = |count: usize| Names::Numbers((0..count as u64).collect());
            let names = [numbers(all.users), numbers(all.items)];
            (vec![Gathered::InMemory(all)], names)
        }
        _ => {
            let mut rows = RatingRows::new(home.space.clone());
            for path in [home.path()?].into_iter().chain(home.validation.as_deref()) {
                rows.add_set(path, |rows| add_files(&home.data, path, rows, Values::Given))?;
            }
            rows.into_ratings()?
        }
    };
    let mut sets = sets.into_iter();
    let all = sets.next().expect("a home has a set of ratings");
    let ratings = home.divide(all, sets.next(), |ratings, at| ratings.user[at])?;
    let validation = home.validation.as_ref().map(|_| {
        let digests = [0, 1].map(|side| digests_of_names(&names[side]));
        digest_of_test(&ratings, |ratings, digest| ratings.add_named(&digests, digest))
    });
    let summary = summary(&ratings, &names, validation.transpose()?)?;
    Ok(LocalRatings { ratings, names, summary })
}

/// Adds the ratings of the files that a path names.
pub(crate) fn add_files(
    data: &DataConfig<RatingSource, RatingGenerator>,
    path: &Path,
    rows: &mut RatingRows,
    values: Values,
) -> Result<(), DataError> {
    let columns = &data.columns;
    let format = match data.source {
        RatingSource::Synthetic => return Ok(()),
        RatingSource::MovieLens => return add_ratings(path, rows, values),
        RatingSource::Csv => TableFormat::csv(columns.separator),
        RatingSource::Parquet => TableFormat::Parquet,
    };
    add_tables(path, format, columns, rows, values)
}

impl LocalRatings {
    /// The number of training examples in memory.
    pub(crate) fn len(&self) -> usize {
        self.ratings.train.len()
    }

    pub(crate) fn summary(&self) -> &DataSummary {
        &self.summary
    }

    /// The ratings with the rows that their users and items have in the model.
    fn in_model(self, all: [&Names; 2]) -> Divided<Ratings> {
        let places = |own: &Names, all: &Names| -> Vec<u32> {
            let names = (0..own.len()).filter_map(|place| own.get(place));
            names.map(|name| all.place(name).map_or(u32::MAX, |place| place as u32)).collect()
        };
        let [user_places, item_places] = [0, 1].map(|at| places(&self.names[at], all[at]));
        let counts = all.map(Names::len);
        changed(self.ratings, move |ratings| {
            ratings.user.iter_mut().for_each(|user| *user = user_places[*user as usize]);
            ratings.item.iter_mut().for_each(|item| *item = item_places[*item as usize]);
            (ratings.users, ratings.items) = (counts[0], counts[1]);
        })
    }
}

/// The summary of ratings with their users and items.
fn summary(
    ratings: &Divided<Ratings>,
    names: &[Names; 2],
    validation: Option<u64>,
) -> Result<DataSummary, DataError> {
    let mut totals = RatingTotals::none(names[0].len(), names[1].len());
    let digest = digest_of(ratings, |train| totals.add(train))?;
    let [users, items] = names.clone();
    let shape = RatingShape {
        users: CountedNames { names: users, counts: totals.by_user },
        items: CountedNames { names: items, counts: totals.by_item },
        sum: totals.sum,
        squares: totals.squares,
    };
    Ok(DataSummary::new(ratings, digest, validation, DataShape::Ratings(shape)))
}

/// Builds the application from the ratings that this process has, and from the summaries of all.
pub(crate) fn build(
    config: &MatrixFactorizationConfig,
    parts: Vec<Part<'_, LocalRatings>>,
    name: &str,
) -> Result<MatrixFactorization, DataError> {
    let declared = &config.data.declared;
    let users = united(&parts, "users", declared.users, |shape| &shape.users)?;
    let items = united(&parts, "items", declared.items, |shape| &shape.items)?;
    let rows = |found: &CountedNames, range: Option<[u64; 2]>| {
        range.map_or(found.names.len(), |[first, last]| (last - first) as usize + 1)
    };
    let rows = rows(&users, declared.users) + rows(&items, declared.items);
    check_parameters("rank", config.rank, rows * (config.rank + usize::from(config.bias)))?;

    let in_model = |found: CountedNames, range: Option<[u64; 2]>| match range {
        Some(range) => found.in_range(range),
        None => found,
    };
    let (users, items) = (in_model(users, declared.users), in_model(items, declared.items));
    let totals = RatingTotals {
        sum: parts.iter().filter_map(Part::shape).map(|shape| shape.sum).sum(),
        squares: parts.iter().filter_map(Part::shape).map(|shape| shape.squares).sum(),
        by_user: users.counts,
        by_item: items.counts,
    };
    let names = [users.names, items.names];
    let [users, items] = names.each_ref().map(Names::len);
    let none = Ratings { users, items, ..Ratings::default() };
    let parts = parts.into_iter().map(|part| part.map(|local| local.in_model(names.each_ref())));
    let ratings = joined(none, parts.collect());
    check_clocks_per_pass(&ratings, config.clocks_per_pass)?;
    Ok(MatrixFactorization::new(config.clone(), ratings, &totals, names, name))
}

/// The users or the items of all data centers, which are whole numbers of a range if one is declared.
fn united<'a>(
    parts: &'a [Part<'_, LocalRatings>],
    what: &'static str,
    declared: Option<[u64; 2]>,
    names: impl Fn(&'a RatingShape) -> &'a CountedNames,
) -> Result<CountedNames, DataError> {
    let lists: Vec<&CountedNames> = parts.iter().filter_map(Part::shape).map(names).collect();
    if let Some([first, last]) = declared {
        for (part, list) in parts.iter().zip(&lists) {
            if let Some(name) = list.outside([first, last]) {
                let found = format!("{name} among the {what}");
                return Err(undeclared(part, what, (found, format!("numbers {first} to {last}"))));
            }
        }
    }
    CountedNames::union(&lists).map_err(|at| {
        let words = |at: usize| match lists[at].names {
            Names::Numbers(_) => format!("{what} named by numbers"),
            Names::Text(_) => format!("{what} named by text"),
        };
        disagreement(&parts[at], &parts[0], (words(at), words(0)))
    })
}

impl Part<'_, LocalRatings> {
    fn shape(&self) -> Option<&RatingShape> {
        match &self.summary.shape {
            DataShape::Ratings(shape) => Some(shape),
            _ => None,
        }
    }
}
