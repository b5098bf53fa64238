//! The kinds of data: how each is read at home, summed up for others, and becomes an application together with the summaries
//! of all.

pub(crate) mod documents;
pub(crate) mod images;
pub(crate) mod ratings;
pub(crate) mod sparse;

use std::fmt::Display;

use crate::error::{DataError, shown};
use crate::formats::class_names::{UNKNOWN, listed, places};
use crate::formats::example_tables::ExampleTables;
use crate::formats::feature_columns::difference;
use crate::homes::home::Home;
use crate::homes::moments::rescaling;
use crate::homes::summary::{Part, disagreement, undeclared};
use crate::scratch::Gathered;
use gaia_core::application::Names;
use gaia_core::types::limits::MODEL_PARAMETERS_MAX;
use gaia_ml::ConfigError;
use gaia_ml::columns::DataSource;
use gaia_ml::declared::{DeclaredClasses, DeclaredExamples};
use gaia_ml::divided::{Divided, Examples};
use gaia_ml::rescaling::Rescaling;

/// Examples, those that test where none are to be held out, and the names of their features where each has one.
type Read<E> = (Gathered<E>, Option<Gathered<E>>, Option<Vec<String>>);

/// Reads the examples of a home from files of columns.
fn read_tables<T, S, G>(home: &Home<S, G>, mut tables: T) -> Result<Read<T::Examples>, DataError>
where
    T: ExampleTables,
    S: DataSource,
    G: Clone + Default,
{
    for path in [home.path()?].into_iter().chain(home.validation.as_deref()) {
        tables.add_set(path)?;
    }
    let (sets, features) = tables.into_examples()?;
    let mut sets = sets.into_iter();
    let all = sets.next().expect("a home has a set of examples");
    Ok((all, sets.next(), features))
}

/// Checks that the examples of a clock fit in the memory of a worker, where examples are on disk; `batch` is how many of a
/// worker's examples the setting `key` makes one clock.
fn check_windows<E: Examples>(
    divided: &Divided<E>,
    (key, value): (&str, usize),
    batch: impl Fn(usize) -> usize,
    fitting: impl Fn(usize, usize) -> String,
) -> Result<(), ConfigError> {
    for parts in divided.stored.iter().flatten() {
        let (examples, window) = (parts.train.len(), parts.train.window());
        if batch(examples) > window {
            let expected = format!(
                "{}, so that a clock's examples of a worker fit in app.data.memory, or more of that",
                fitting(examples, window)
            );
            return Err(ConfigError::new(key, value, expected));
        }
    }
    Ok(())
}

/// As [`check_windows`], of applications that cut a pass into a number of clocks.
fn check_clocks_per_pass<E: Examples>(
    divided: &Divided<E>,
    clocks_per_pass: u64,
) -> Result<(), ConfigError> {
    let clocks = clocks_per_pass as usize;
    let fitting =
        |examples: usize, window: usize| format!("at least {}", examples.div_ceil(window));
    let batch = |examples: usize| examples.div_ceil(clocks);
    check_windows(divided, ("clocks_per_pass", clocks), batch, fitting)
}

/// As [`check_windows`], of applications that visit a number of examples in each clock.
fn check_batch<E: Examples>(divided: &Divided<E>, batch: usize) -> Result<(), ConfigError> {
    let fitting = |_: usize, window: usize| format!("at most {window}");
    check_windows(divided, ("batch", batch), |examples| batch.min(examples), fitting)
}

/// How features are rescaled, by the training examples of all data centers.
fn agreed_rescaling<L>(parts: &[Part<'_, L>]) -> Rescaling {
    let summaries = parts.iter().map(|part| part.summary);
    let moments = summaries.filter_map(|summary| Some((summary.train, summary.shape.moments()?)));
    rescaling(&moments.collect::<Vec<_>>())
}

/// The names of the features of all data centers, where they have names. They are the same in all that have any.
fn agreed_features<'p, L>(
    parts: &'p [Part<'_, L>],
    features: impl Fn(&'p Part<'_, L>) -> Option<&'p Vec<String>>,
) -> Result<Option<Vec<String>>, DataError> {
    let mut named = parts.iter().filter_map(|part| Some((part, features(part)?)));
    let Some((first, names)) = named.next() else { return Ok(None) };
    match named.find(|(_, others)| *others != names) {
        Some((other, others)) => Err(disagreement(other, first, difference(others, names))),
        None => Ok(Some(names.clone())),
    }
}

/// The classes that are declared, if any are. They have the names of every data center.
fn declared_classes<'p, L>(
    parts: &'p [Part<'_, L>],
    declared: &DeclaredExamples,
    names: impl Fn(&'p Part<'_, L>) -> Option<Names>,
) -> Result<Option<Names>, DataError> {
    let Some(declared) = declared.classes.as_ref().map(DeclaredClasses::in_order) else {
        return Ok(None);
    };
    for part in parts {
        let Some(own) = names(part) else { continue };
        let places = places(&own, &declared);
        if let Some(unknown) = places.iter().position(|&place| place == UNKNOWN) {
            let name = own.get(unknown).map(|name| name.to_string()).unwrap_or_default();
            let found = format!("the class {}", shown(name.as_bytes()));
            let expected = format!("one of {}", listed(&declared));
            return Err(undeclared(part, "classes", (found, expected)));
        }
    }
    Ok(Some(declared))
}

/// Checks that a model is not too large; `key` is the setting that it follows from.
pub(crate) fn check_parameters(
    key: &str,
    value: impl Display,
    parameters: usize,
) -> Result<(), ConfigError> {
    if parameters < MODEL_PARAMETERS_MAX {
        return Ok(());
    }
    let expected =
        format!("a model of fewer than {MODEL_PARAMETERS_MAX} parameters, not {parameters}");
    Err(ConfigError::new(key, value, expected))
}
