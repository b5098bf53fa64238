//! Where the data of a run lies: in one place for all data centers, or in each data center its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::homes::split::{hold_out, split};
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::ConfigError;
use gaia_ml::columns::DataSource;
use gaia_ml::config::DataConfig;
use gaia_ml::divided::{Divided, Examples};

/// A part of the data that is read, held out and split on its own.
pub(crate) struct Home<S: DataSource, G: Default> {
    /// The data center that has the data, or all that share it.
    pub(crate) name: String,
    pub(crate) data: DataConfig<S, G>,
    pub(crate) workers: usize,
    /// What is held out and how it is split are drawn from it. With data of its own a data center draws the same whichever
    /// others there are.
    pub(crate) seed: Seed,
    /// The validation set that stands in for what would be held out.
    pub(crate) validation: Option<PathBuf>,
    /// The workers of each data center that trains on this data. Each of them has the whole validation set.
    validators: Vec<usize>,
}

/// The homes of some data: one with all workers, or one for each data center if each has data of its own.
///
/// # Errors
/// Where `at` names no data center; where a data center has no path, or that of another one; where generated data is
/// asked of some data centers alone.
pub(crate) fn homes<S, G>(
    data: &DataConfig<S, G>,
    all: &[DataHome],
    seed: Seed,
    validation: Option<&Path>,
) -> Result<Vec<Home<S, G>>, ConfigError>
where
    S: DataSource,
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
        let name = "all data centers".into();
        let validators = all.iter().map(|home| home.workers).collect();
        let validation = validation.map(Path::to_owned);
        let data = data.clone();
        return Ok(vec![Home { name, data, workers, seed, validation, validators }]);
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
        let DataHome { name, workers } = home.clone();
        let (validation, validators) = (validation.map(Path::to_owned), vec![workers]);
        homes.push(Home { name, data: own, workers, seed, validation, validators });
    }
    Ok(homes)
}

impl<S: DataSource, G: Default> Home<S, G> {
    /// The examples that train and those that test, of the sets that were read: all examples, and a validation set if there
    /// is one.
    pub(crate) fn train_and_test<E: Examples>(&self, sets: Vec<E>) -> (E, E) {
        let mut sets = sets.into_iter();
        let all = sets.next().expect("a home has a set of examples");
        match sets.next() {
            Some(validation) => (all, validation),
            None => self.hold_out(&all),
        }
    }

    /// Holds out a share of the examples: those that train, and those that test.
    pub(crate) fn hold_out<E: Examples>(&self, all: &E) -> (E, E) {
        let (train, test) = hold_out(all.len(), self.data.held_out, self.seed.child("held out"));
        (all.select(&train), all.select(&test))
    }

    /// Splits the training examples over the workers of this home, by their `groups`.
    pub(crate) fn split<E: Examples>(&self, train: E, test: E, groups: &[u32]) -> Divided<E> {
        let seed = self.seed.child("split");
        let parts = split(self.data.split, self.data.skew, groups, self.workers, seed);
        match self.validation {
            Some(_) => Divided::with_validation(train, &test, parts, &self.validators),
            None => Divided::new(train, test, parts),
        }
    }

    /// Where its files are.
    pub(crate) fn path(&self) -> Result<&Path, ConfigError> {
        let missing = || ConfigError::new("data.path", "missing", "the path of the data files");
        self.data.path.as_deref().ok_or_else(missing)
    }
}
