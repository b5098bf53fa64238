//! Where the data of a run lies: in one place for all data centers, or in each data center its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::DataError;
use super::split::{hold_out, split};
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::ConfigError;
use gaia_ml::config::DataConfig;
use gaia_ml::examples::{DenseExamples, Documents, Parts, Ratings, SparseExamples};

/// A part of the data that is read, held out and split on its own.
pub(super) struct Home<S: Default, G: Default> {
    pub(super) data: DataConfig<S, G>,
    pub(super) workers: usize,
    /// What is held out and how it is split are drawn from it. With data of its own a data center draws the same whichever
    /// others there are.
    seed: Seed,
}

/// The homes of some data: one with all workers, or one for each data center if each has data of its own.
///
/// # Errors
/// Where `at` names no data center; where a data center has no path, or that of another one; where generated data is
/// asked of some data centers alone.
pub(super) fn homes<S, G>(
    data: &DataConfig<S, G>,
    all: &[DataHome],
    seed: Seed,
) -> Result<Vec<Home<S, G>>, ConfigError>
where
    S: Copy + Default + PartialEq,
    G: Clone + Default,
{
    if let Some(name) = data.at.keys().find(|name| all.iter().all(|home| home.name != **name)) {
        let names: Vec<&str> = all.iter().map(|home| home.name.as_str()).collect();
        let expected = format!("a data center: {}", names.join(", "));
        return Err(ConfigError::new("data.at", format!("a table for `{name}`"), expected));
    }

    if !data.is_per_data_center() {
        if !data.at.is_empty() {
            let expected =
                "data of its own for each data center: `{dc}` in app.data.path, or a path for each";
            return Err(ConfigError::new("data.at", "set", expected));
        }
        let workers = all.iter().map(|home| home.workers).sum::<usize>().max(1);
        return Ok(vec![Home { data: data.clone(), workers, seed }]);
    }

    let mut homes = Vec::new();
    let mut owners: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for home in all {
        let own = data.in_data_center(&home.name);
        let key = format!("data.at.{}", home.name);

        if own.source == S::default() {
            let expected = "the format of the files, since each data center has its own";
            return Err(ConfigError::new("data.source", "synthetic", expected));
        }
        let Some(path) = &own.path else {
            let expected = "the path of its data files, as other data centers have one";
            return Err(ConfigError::new(&format!("{key}.path"), "missing", expected));
        };
        if let Some(other) = owners.insert(path.clone(), &home.name) {
            let expected = format!("another path than `{other}` has: an example counts once");
            return Err(ConfigError::new(&format!("{key}.path"), path.display(), expected));
        }

        let seed = seed.child("at").child(&home.name);
        homes.push(Home { data: own, workers: home.workers, seed });
    }
    Ok(homes)
}

impl<S: Default, G: Default> Home<S, G> {
    /// Holds out a share of the examples: those that train, and those that test.
    pub(super) fn hold_out<E: Examples>(&self, all: &E) -> (E, E) {
        let (train, test) = hold_out(all.len(), self.data.held_out, self.seed.child("held out"));
        (all.select(&train), all.select(&test))
    }

    /// Splits the training examples over the workers of this home, by their `groups`.
    pub(super) fn split<E: Examples>(&self, train: E, test: E, groups: &[u32]) -> Divided<E> {
        let seed = self.seed.child("split");
        let parts = split(self.data.split, self.data.skew, groups, self.workers, seed);
        Divided { train, test, parts }
    }
}

/// Examples that train and that test, and which worker has which of those that train.
pub(super) struct Divided<E> {
    pub(super) train: E,
    pub(super) test: E,
    pub(super) parts: Parts,
}

/// Puts the homes of a run together: examples one after the other, and workers too. At least one home.
pub(super) fn joined<E: Examples>(homes: Vec<Divided<E>>) -> Result<Divided<E>, DataError> {
    let mut homes = homes.into_iter();
    let mut all = homes.next().expect("a run has a data center");
    for home in homes {
        let start = all.train.len();
        if start + home.train.len() > POSITIONS_MAX {
            let expected = format!("at most {POSITIONS_MAX} examples in all data centers");
            let found = format!("of {} examples", start + home.train.len());
            return Err(ConfigError::new("data", found, expected).into());
        }
        let start = start as u32;
        let moved = |part: &Arc<[u32]>| part.iter().map(|at| start + at).collect();
        all.parts.extend(home.parts.iter().map(moved));
        all.train.append(home.train);
        all.test.append(home.test);
    }
    Ok(all)
}

/// Training data of one kind.
pub(super) trait Examples: Sized {
    fn len(&self) -> usize;

    /// The examples at some positions, in their order.
    fn select(&self, positions: &[u32]) -> Self;

    /// Adds examples of the same shape.
    fn append(&mut self, other: Self);
}

macro_rules! examples {
    ($($kind:ty),*) => {$(
        impl Examples for $kind {
            fn len(&self) -> usize {
                self.len()
            }

            fn select(&self, positions: &[u32]) -> Self {
                self.select(positions)
            }

            fn append(&mut self, other: Self) {
                self.append(other);
            }
        }
    )*};
}

examples!(Ratings, DenseExamples, SparseExamples, Documents);

/// Positions of examples are 32-bit.
const POSITIONS_MAX: usize = u32::MAX as usize;
