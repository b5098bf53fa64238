//! Where the data of a run lies: in one place for all data centers, or in each data center its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::DataError;
use crate::homes::split::{held_out_count, hold_out, split};
use crate::scratch::{Dealing, Encoded, Gathered, ScratchPart, ScratchSpace, deal};
use gaia_core::topology::DataHome;
use gaia_core::types::Seed;
use gaia_ml::ConfigError;
use gaia_ml::columns::DataSource;
use gaia_ml::config::DataConfig;
use gaia_ml::divided::{Divided, Examples, even_runs};
use gaia_ml::stored::StoredParts;

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
    /// The workers of each data center that trains on this data. Each data center has the whole validation set, whose examples
    /// count once.
    validators: Vec<usize>,
    /// Where the examples go, if not in memory.
    pub(crate) space: Option<ScratchSpace>,
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

    let all_workers = all.iter().map(|home| home.workers).sum();
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
        let space = ScratchSpace::of(&data, all_workers);
        return Ok(vec![Home { name, data, workers, seed, validation, validators, space }]);
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
        let space = ScratchSpace::of(&own, all_workers);
        homes.push(Home { name, data: own, workers, seed, validation, validators, space });
    }
    Ok(homes)
}

impl<S: DataSource, G: Default> Home<S, G> {
    /// Divides examples over the workers of this home by their groups. Of `all` a share is held out, unless `test` stands in
    /// for it.
    ///
    /// # Errors
    /// Where there is no room for examples on disk, or they cannot be read again.
    pub(crate) fn divide<E: Encoded>(
        &self,
        all: Gathered<E>,
        test: Option<Gathered<E>>,
        group: impl Fn(&E, usize) -> u32,
    ) -> Result<Divided<E>, DataError> {
        if let Some(space) = &self.space {
            return self.deal(space, all, test, group);
        }
        let all = all.into_memory()?;
        let (train, test) = match test {
            Some(test) => (all, test.into_memory()?),
            None => self.hold_out(&all),
        };
        let groups: Vec<u32> = (0..train.len()).map(|at| group(&train, at)).collect();
        Ok(self.split(train, test, &groups))
    }

    /// As [`Self::divide`], on disk.
    fn deal<E: Encoded>(
        &self,
        space: &ScratchSpace,
        all: Gathered<E>,
        test: Option<Gathered<E>>,
        group: impl Fn(&E, usize) -> u32,
    ) -> Result<Divided<E>, DataError> {
        let examples = all.len();
        let held_out =
            if test.is_some() { 0 } else { held_out_count(examples, self.data.held_out) };
        let DataConfig { split, skew, .. } = self.data;
        let (workers, seed) = (self.workers, self.seed.child("deal"));
        let dealing = Dealing { examples, held_out, split, skew, workers, seed };
        let dealt = deal(all.into_spool(space)?, &dealing, group, space)?;
        let window = space.window(examples - held_out, dealt.bytes());

        let test = match test {
            Some(test) => test.into_spool(space)?,
            None => dealt.test,
        };
        let (train_none, test_none) = (dealt.train[0].none(), test.none());
        let test = Arc::new(test);
        let test_places = match self.validation {
            None => even_runs(test.len(), workers).collect::<Vec<_>>(),
            Some(_) => {
                let each = self.validators.iter();
                each.flat_map(|workers| even_runs(test.len(), *workers)).collect()
            }
        };

        let train = dealt.train.into_iter().zip(dealt.weights).zip(test_places);
        let parts = train.map(|((spool, weight), places)| {
            let (train_places, spool) = (0..spool.len(), Arc::new(spool));
            let held_out = places.len() as u64;
            StoredParts {
                train: Arc::new(ScratchPart { spool, places: train_places, weight, window }),
                test: Arc::new(ScratchPart {
                    spool: test.clone(),
                    places,
                    weight: held_out,
                    window,
                }),
            }
        });
        let mut divided = Divided::stored(train_none, test_none, parts.collect());
        divided.test_total = test.len();
        Ok(divided)
    }

    /// Holds out a share of the examples: those that train, and those that test.
    fn hold_out<E: Examples>(&self, all: &E) -> (E, E) {
        let (train, test) = hold_out(all.len(), self.data.held_out, self.seed.child("held out"));
        (all.select(&train), all.select(&test))
    }

    /// Splits the training examples over the workers of this home, by their `groups`.
    pub(crate) fn split<E: Examples>(&self, train: E, test: E, groups: &[u32]) -> Divided<E> {
        let seed = self.seed.child("split");
        let parts = split(self.data.split, self.data.skew, groups, self.workers, seed);
        match self.validation {
            Some(_) => {
                let divided = Divided::with_validation(train, &test, parts, &self.validators);
                Divided { test_total: test.len(), ..divided }
            }
            None => Divided::new(train, test, parts),
        }
    }

    /// Where its files are.
    pub(crate) fn path(&self) -> Result<&Path, ConfigError> {
        let missing = || ConfigError::new("data.path", "missing", "the path of the data files");
        self.data.path.as_deref().ok_or_else(missing)
    }
}
