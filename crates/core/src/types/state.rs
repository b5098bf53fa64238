//! What machines keep while they run, taken out of them and put back.
//!
//! A machine that is to go on where another stopped is made anew from the same plan; then a [`Walk`] over its fields
//! puts back what has changed since the start. The walk that saves is the same one, so that neither can forget what
//! the other does. Large vectors are tensors of a length that the plan gives, everything else is a record.
//!
//! What is put back comes from a file: it may be of another length, out of range or missing, which is a
//! [`StateError`]. What only a forger could write, records that contradict each other, is not looked for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The state of a run, by name. Names are paths such as `server.dc0/server1.remote.client.touched`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The large vectors, by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// All other values, by name, each as MessagePack.
    pub records: BTreeMap<String, Bytes>,
}

/// One number for each of some parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// What the numbers are.
    pub content: Content,
    /// The numbers, as many as the parameters that they are of.
    pub values: Vec<f32>,
}

/// What a tensor's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Values of parameters.
    Values,
    /// Sums of changes, made and carried: residuals are their differences.
    Changes,
    /// What an optimiser remembers: momentum, outer momentum, who has changed what.
    Optimizer,
}

/// State that does not fit the machine it is put back into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The run has a part that the state does not hold.
    #[error("`{name}` is missing")]
    Missing {
        /// The path of the part.
        name: String,
    },
    /// A tensor of another length.
    #[error("`{name}` holds {found} numbers where this run has {expected}")]
    WrongLength {
        /// The path of the tensor.
        name: String,
        /// Numbers that the state holds.
        found: usize,
        /// Numbers that the run has.
        expected: usize,
    },
    /// A record that cannot be decoded.
    #[error("`{name}` cannot be read: {problem}")]
    Unreadable {
        /// The path of the record.
        name: String,
        /// What the decoder said.
        problem: String,
    },
    /// A value that is out of range for this run.
    #[error("`{name}` does not fit this run")]
    Unfit {
        /// The path of the value.
        name: String,
    },
    /// The state holds a part that the run does not have.
    #[error("`{name}` belongs to no part of this run")]
    Surplus {
        /// The path of the part.
        name: String,
    },
}

/// A walk over the fields of machines that saves them all or puts them all back.
#[derive(Debug)]
pub struct Walk<'s> {
    state: &'s mut State,
    way: Way,
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Save,
    Restore,
}

impl State {
    /// Takes the state out of whatever `walk` goes over.
    pub fn of(walk: impl FnOnce(&mut Walk<'_>) -> Result<(), StateError>) -> Self {
        let mut state = Self::default();
        let root = &mut Walk { state: &mut state, way: Way::Save, path: String::new() };
        walk(root).expect("saving looks for nothing and so misses nothing");
        state
    }

    /// Puts the state back into whatever `walk` goes over.
    ///
    /// # Errors
    /// Where something is missing, left over, or does not fit. What was walked over is then of no use.
    pub fn restore(
        mut self,
        walk: impl FnOnce(&mut Walk<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        walk(&mut Walk { state: &mut self, way: Way::Restore, path: String::new() })?;
        let names = self.tensors.into_keys().chain(self.records.into_keys());
        names.into_iter().next().map_or(Ok(()), |name| Err(StateError::Surplus { name }))
    }
}

impl Walk<'_> {
    /// The walk over a part.
    pub fn at(&mut self, part: impl Display) -> Walk<'_> {
        Walk { path: self.name(part), way: self.way, state: self.state }
    }

    /// Whether state is put back.
    pub fn restores(&self) -> bool {
        self.way == Way::Restore
    }

    /// A field of any kind.
    ///
    /// # Errors
    /// Where it is put back, and is missing or cannot be decoded. Saving never fails.
    pub fn record<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        field: &mut T,
    ) -> Result<(), StateError> {
        self.record_that(name, field, |_, _| true)
    }

    /// A field that must fit: `fits` is told what is put back, and what the plan has made of the field.
    ///
    /// # Errors
    /// As [`Self::record`], and where it does not fit.
    pub fn record_that<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        field: &mut T,
        fits: impl FnOnce(&T, &T) -> bool,
    ) -> Result<(), StateError> {
        let name = self.name(name);
        match self.way {
            Way::Save => {
                let bytes = rmp_serde::to_vec(field).expect("a vector takes every record");
                self.state.records.insert(name, bytes.into());
            }
            Way::Restore => {
                let Some(bytes) = self.state.records.remove(&name) else {
                    return Err(StateError::Missing { name });
                };
                let found = rmp_serde::from_slice(&bytes);
                let found = found.map_err(|error| StateError::Unreadable {
                    name: name.clone(),
                    problem: error.to_string(),
                })?;
                if !fits(&found, field) {
                    return Err(StateError::Unfit { name });
                }
                *field = found;
            }
        }

        Ok(())
    }

    /// Numbers that are as many as the plan says. What is put back is not copied.
    ///
    /// # Errors
    /// Where they are put back, and are missing or not as many.
    pub fn tensor(
        &mut self,
        name: &str,
        content: Content,
        field: &mut Vec<f32>,
    ) -> Result<(), StateError> {
        let name = self.name(name);
        match self.way {
            Way::Save => {
                self.state.tensors.insert(name, Tensor { content, values: field.clone() });
            }
            Way::Restore => {
                let Some(found) = self.state.tensors.remove(&name) else {
                    return Err(StateError::Missing { name });
                };
                let (found, expected) = (found.values, field.len());
                if found.len() != expected {
                    return Err(StateError::WrongLength { name, found: found.len(), expected });
                }
                *field = found;
            }
        }

        Ok(())
    }

    /// Numbers of which the plan does not say how many; `fits` is told.
    ///
    /// # Errors
    /// Where they are put back, and are missing or do not fit.
    pub fn numbers(
        &mut self,
        name: &str,
        content: Content,
        field: &mut Vec<f32>,
        fits: impl FnOnce(usize) -> bool,
    ) -> Result<(), StateError> {
        if self.restores() {
            let full_name = self.name(name);
            let found = self.state.tensors.get(&full_name).map_or(0, |found| found.values.len());
            if !fits(found) {
                return Err(StateError::Unfit { name: full_name });
            }
            *field = vec![0.0; found];
        }
        self.tensor(name, content, field)
    }

    /// A part that is there at times: `fresh` makes one to put state into, or answers that there cannot be any.
    ///
    /// # Errors
    /// Where it is put back and cannot be there, and those of `walk`.
    pub fn option<T>(
        &mut self,
        name: &str,
        part: &mut Option<T>,
        fresh: impl FnOnce() -> Option<T>,
        walk: impl FnOnce(&mut T, &mut Walk<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut present = part.is_some();
        self.record(name, &mut present)?;
        if self.restores() {
            *part = present.then(fresh).flatten();
            if present && part.is_none() {
                return Err(self.unfit(name));
            }
        }
        part.as_mut().map_or(Ok(()), |part| walk(part, &mut self.at(name)))
    }

    /// Parts by key: `fresh` makes one to put state into, or answers that there cannot be any under this key.
    ///
    /// # Errors
    /// Where a part is put back and cannot be there, and those of `walk`.
    pub fn entries<K, T>(
        &mut self,
        name: &str,
        parts: &mut BTreeMap<K, T>,
        mut fresh: impl FnMut(&K) -> Option<T>,
        mut walk: impl FnMut(&mut T, &mut Walk<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError>
    where
        K: Ord + Clone + Serialize + DeserializeOwned,
    {
        let mut keys: Vec<K> = parts.keys().cloned().collect();
        self.record(name, &mut keys)?;
        if self.restores() {
            parts.clear();
        }
        let unfit = self.unfit(name);
        let mut inner = self.at(name);

        for (number, key) in keys.into_iter().enumerate() {
            if inner.restores() {
                let part = fresh(&key).ok_or_else(|| unfit.clone())?;
                parts.insert(key.clone(), part);
            }
            let part = parts.get_mut(&key).expect("a key that was listed or inserted");
            walk(part, &mut inner.at(number))?;
        }

        Ok(())
    }

    /// Parts in a queue, each put into one that `fresh` makes.
    ///
    /// # Errors
    /// Where there are more than the state can hold, and those of `walk`.
    pub fn queue<T>(
        &mut self,
        name: &str,
        parts: &mut VecDeque<T>,
        fresh: impl FnMut() -> T,
        mut walk: impl FnMut(&mut T, &mut Walk<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut length = parts.len();
        let most = self.state.records.len();
        self.record_that(name, &mut length, |found, _| *found <= most)?;
        if self.restores() {
            *parts = std::iter::repeat_with(fresh).take(length).collect();
        }
        let mut inner = self.at(name);
        let mut numbered = parts.iter_mut().enumerate();
        numbered.try_for_each(|(number, part)| walk(part, &mut inner.at(number)))
    }

    /// The error that a field does not fit, for a check across fields.
    pub fn unfit(&self, name: &str) -> StateError {
        StateError::Unfit { name: self.name(name) }
    }

    fn name(&self, name: impl Display) -> String {
        match self.path.as_str() {
            "" => name.to_string(),
            path => format!("{path}.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Machine {
        clock: u64,
        values: Vec<f32>,
        sums: BTreeMap<u64, Vec<f32>>,
        last: Option<Vec<f32>>,
    }

    fn machine(values: usize) -> Machine {
        Machine { clock: 0, values: vec![0.0; values], sums: BTreeMap::new(), last: None }
    }

    fn running() -> Machine {
        Machine {
            clock: 7,
            values: vec![-0.0, f32::NAN, 1e-45],
            sums: BTreeMap::from([(3, vec![1.5]), (9, vec![2.5])]),
            last: Some(vec![4.0]),
        }
    }

    impl Machine {
        fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
            let sum =
                |sum: &mut Vec<f32>, walk: &mut Walk<'_>| walk.tensor("sum", Content::Changes, sum);
            walk.record_that("clock", &mut self.clock, |clock, _| *clock < 10)?;
            walk.tensor("values", Content::Values, &mut self.values)?;
            walk.entries("sums", &mut self.sums, |key| (*key < 10).then(|| vec![0.0]), sum)?;
            walk.option("last", &mut self.last, || Some(vec![0.0]), sum)
        }
    }

    fn restored(into: &mut Machine, state: State) -> Result<(), StateError> {
        state.restore(|walk| into.state(walk))
    }

    #[test]
    fn what_is_put_back_is_what_was_taken_out_to_the_bit() {
        let state = State::of(|walk| running().state(walk));
        let mut again = machine(3);
        again.sums.insert(5, vec![8.0]);
        restored(&mut again, state.clone()).unwrap();
        let bits =
            |machine: &Machine| machine.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&again), bits(&running()));
        assert_eq!((again.clock, &again.sums, &again.last), (7, &running().sums, &running().last));
        assert_eq!(State::of(|walk| again.state(walk)).records, state.records);
    }

    #[test]
    fn state_that_does_not_fit_is_refused() {
        let good = State::of(|walk| running().state(walk));
        let name = |name: &str| name.to_owned();
        let refused = |damage: &dyn Fn(&mut State), expect: StateError| {
            let mut state = good.clone();
            damage(&mut state);
            assert_eq!(restored(&mut machine(3), state), Err(expect));
        };
        refused(
            &|state| drop(state.tensors.remove("values")),
            StateError::Missing { name: name("values") },
        );
        refused(
            &|state| drop(state.records.remove("clock")),
            StateError::Missing { name: name("clock") },
        );
        refused(
            &|state| drop(state.records.insert(name("clock"), vec![11].into())),
            StateError::Unfit { name: name("clock") },
        );
        refused(
            &|state| drop(state.records.insert(name("more"), vec![11].into())),
            StateError::Surplus { name: name("more") },
        );
        refused(
            &|state| drop(state.records.insert(name("sums"), vec![0x92, 3, 10].into())),
            StateError::Unfit { name: name("sums") },
        );
        assert_eq!(
            restored(&mut machine(2), good.clone()),
            Err(StateError::WrongLength { name: name("values"), found: 3, expected: 2 })
        );

        let mut state = good;
        state.records.insert(name("clock"), vec![0xc1].into());
        let error = restored(&mut machine(3), state).unwrap_err();
        assert!(matches!(error, StateError::Unreadable { name, .. } if name == "clock"));
    }
}
