//! What machines keep while they run, saved and restored.
//!
//! A machine that is to continue where another stopped is made from the same plan. Then [`Persist::restore`] replaces
//! what has changed since the start by what [`Persist::save`] has taken from the other machine. Large vectors are
//! tensors of a length that the plan gives. Everything else is a record.
//!
//! One list of fields serves both directions: the macro [`persist!`](crate::persist) compiles the same walk over a
//! machine twice, with a [`Saver`] and a shared machine, and with a [`Restorer`] and a machine that it changes. The two
//! have the same methods. So neither direction can forget what the other does, saving cannot change the machine, and it
//! cannot fail.
//!
//! What is restored comes from a file. It may be of another length, out of range or missing, which is a [`StateError`].
//! Records that are valid by themselves and contradict each other are not looked for: only a forger writes them.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt::{Display, Write as _};
use std::ops::Deref;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::messagepack;

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

/// The answer of everything that saves: it cannot fail.
pub type Saved = Result<(), Infallible>;

/// A part of a machine that is saved and restored.
///
/// `Context` is what checks of restored fields have to know, such as the layout of a shard. [`persist!`](crate::persist)
/// implements this from a list of fields. An implementation by hand is for a machine that holds its state in another
/// form than it is saved in. Names and forms of what is saved are a format: checkpoints of an earlier build have them.
pub trait Persist<Context = ()> {
    /// Saves every field that changes as time goes on.
    ///
    /// # Errors
    /// Never.
    fn save(&self, walk: &mut Saver<'_>, context: Context) -> Saved;

    /// Restores what [`Self::save`] has saved, into a machine that was made from the same plan.
    ///
    /// # Errors
    /// Where something is missing or does not fit. The machine is then of no use.
    fn restore(&mut self, walk: &mut Restorer<'_>, context: Context) -> Result<(), StateError>;
}

/// Takes the fields of machines, and puts them into a [`State`].
#[derive(Debug)]
pub struct Saver<'s> {
    state: &'s mut State,
    /// Tensors whose memory is free.
    spare: &'s mut BTreeMap<String, Tensor>,
    path: Path<'s>,
}

/// Takes fields out of a [`State`], and puts them back into machines.
#[derive(Debug)]
pub struct Restorer<'s> {
    state: &'s mut State,
    path: Path<'s>,
}

/// Implements [`Persist`] by a walk over the fields of a machine.
///
/// The walk is compiled twice. In `save` the machine is `&self` and the walk a [`Saver`]. In `restore` the machine is
/// `&mut self` and the walk a [`Restorer`]. The first parameter is a pattern that takes the machine apart. It names
/// each field, so that a new field does not compile until somebody has decided whether it is saved; `: _` marks those
/// that are not. (`..` is for a process of which little is saved.) `restored`, which may be left out, follows a
/// restore: it makes what is kept twice, and checks what no single field shows.
///
/// ```
/// # use gaia_core::persist;
/// # use gaia_core::types::{Content, Persist, State};
/// struct Average {
///     decay: f32, // from the plan
///     values: Vec<f32>,
///     clock: u64,
/// }
///
/// persist! {
///     impl Persist<()> for Average {
///         fn walk(Self { decay: _, values, clock }, walk, ()) {
///             walk.tensor("values", Content::Values, values)?;
///             walk.record("clock", clock)
///         }
///     }
/// }
///
/// let average = Average { decay: 0.9, values: vec![1.0, 2.0], clock: 7 };
/// let state = State::of(|walk| average.save(walk, ()));
///
/// let mut again = Average { decay: 0.9, values: vec![0.0; 2], clock: 0 };
/// state.restore(|walk| again.restore(walk, ())).unwrap();
/// assert_eq!((again.values, again.clock), (vec![1.0, 2.0], 7));
/// ```
#[macro_export]
macro_rules! persist {
    (
        $(#[$attribute:meta])*
        impl Persist<$context:ty> for $machine:ty {
            fn walk($fields:pat, $walk:ident, $known:pat $(,)?) $body:block
            $(fn restored($this:ident, $from:pat, $known_then:pat) $then:block)?
        }
    ) => {
        $(#[$attribute])*
        impl $crate::types::Persist<$context> for $machine {
            fn save(
                &self,
                $walk: &mut $crate::types::Saver<'_>,
                context: $context,
            ) -> $crate::types::Saved {
                let ($fields, $known) = (self, context);
                $body
            }

            fn restore(
                &mut self,
                $walk: &mut $crate::types::Restorer<'_>,
                context: $context,
            ) -> Result<(), $crate::types::StateError> {
                {
                    let ($fields, $known) = (&mut *self, context);
                    let walked: Result<(), $crate::types::StateError> = $body;
                    walked?;
                }
                $({
                    let ($this, $from, $known_then) = (&mut *self, &*$walk, context);
                    let restored: Result<(), $crate::types::StateError> = $then;
                    restored?;
                })?
                Ok(())
            }
        }
    };
}

impl State {
    /// What `save` saves.
    pub fn of(save: impl FnOnce(&mut Saver<'_>) -> Saved) -> Self {
        Self::in_memory_of(Self::default(), save)
    }

    /// As [`Self::of`], in the memory of a state that nobody needs: its tensors are filled again. A system takes longer to give a
    /// process fresh pages than copying numbers to them takes.
    pub fn in_memory_of(mut spare: Self, save: impl FnOnce(&mut Saver<'_>) -> Saved) -> Self {
        let mut state = Self::default();
        let spare = &mut spare.tensors;
        let mut name = String::new();
        let Ok(()) = save(&mut Saver { state: &mut state, spare, path: Path::begin(&mut name) });
        state
    }

    /// Restores this state by `restore`.
    ///
    /// # Errors
    /// Where something is missing, left over, or does not fit. What was restored so far is then of no use.
    pub fn restore(
        mut self,
        restore: impl FnOnce(&mut Restorer<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut name = String::new();
        restore(&mut Restorer { state: &mut self, path: Path::begin(&mut name) })?;
        let names = self.tensors.into_keys().chain(self.records.into_keys());
        names.into_iter().next().map_or(Ok(()), |name| Err(StateError::Surplus { name }))
    }
}

/// What a [`Saver`] does where a [`Restorer`] has the method of the same name, which says more of it.
impl Saver<'_> {
    /// A field of any kind.
    ///
    /// # Errors
    /// Never, as of every method here.
    pub fn record<T: Serialize>(&mut self, name: &str, field: &T) -> Saved {
        let bytes = messagepack::encode(field);
        self.state.records.insert(self.path.of(name), bytes.into());
        Ok(())
    }

    /// A field that must fit when it is restored.
    pub fn record_that<T: Serialize>(
        &mut self,
        name: &str,
        field: &T,
        _fits: impl FnOnce(&T, &T) -> bool,
    ) -> Saved {
        self.record(name, field)
    }

    /// Numbers that are as many as the plan says.
    pub fn tensor(&mut self, name: &str, content: Content, field: &[f32]) -> Saved {
        let name = self.path.of(name);
        let spare = self.spare.remove(&name).map(|tensor| tensor.values);
        let values = match spare.filter(|values| values.capacity() >= field.len()) {
            Some(mut values) => {
                values.clear();
                values.extend_from_slice(field);
                values
            }
            None => field.to_vec(),
        };
        self.state.tensors.insert(name, Tensor { content, values });
        Ok(())
    }

    /// Numbers of which the plan does not say how many.
    pub fn numbers(
        &mut self,
        name: &str,
        content: Content,
        field: &[f32],
        _fits: impl FnOnce(usize) -> bool,
    ) -> Saved {
        self.tensor(name, content, field)
    }

    /// A part, under a path of its own.
    pub fn part<T: Persist<C> + ?Sized, C>(
        &mut self,
        name: impl Display,
        part: &T,
        context: C,
    ) -> Saved {
        part.save(&mut self.at(name), context)
    }

    /// Parts that the plan makes, each under the path of its key.
    pub fn parts<K: Display, T: Persist<C>, C: Copy>(
        &mut self,
        parts: &BTreeMap<K, T>,
        context: C,
    ) -> Saved {
        parts.iter().try_for_each(|(key, part)| self.part(key, part, context))
    }

    /// A part whose fields have the path of the whole.
    pub fn flatten<T: Persist<C> + ?Sized, C>(&mut self, part: &T, context: C) -> Saved {
        part.save(self, context)
    }

    /// A part that is there at times.
    pub fn option<T>(
        &mut self,
        name: &str,
        part: &Option<T>,
        _fresh: impl FnOnce() -> Option<T>,
        walk: impl FnOnce(&T, &mut Saver<'_>) -> Saved,
    ) -> Saved {
        self.record(name, &part.is_some())?;
        part.as_ref().map_or(Ok(()), |part| walk(part, &mut self.at(name)))
    }

    /// Parts by key.
    pub fn entries<K: Ord + Clone + Serialize, T>(
        &mut self,
        name: &str,
        parts: &BTreeMap<K, T>,
        _fresh: impl FnMut(&K) -> Option<T>,
        mut walk: impl FnMut(&T, &mut Saver<'_>) -> Saved,
    ) -> Saved {
        let keys: Vec<&K> = parts.keys().collect();
        self.record(name, &keys)?;
        let mut inner = self.at(name);
        let mut numbered = parts.values().enumerate();
        numbered.try_for_each(|(number, part)| walk(part, &mut inner.at(number)))
    }

    /// Parts in a queue.
    pub fn queue<T>(
        &mut self,
        name: &str,
        parts: &VecDeque<T>,
        _fresh: impl FnMut() -> T,
        mut walk: impl FnMut(&T, &mut Saver<'_>) -> Saved,
    ) -> Saved {
        self.record(name, &parts.len())?;
        let mut inner = self.at(name);
        let mut numbered = parts.iter().enumerate();
        numbered.try_for_each(|(number, part)| walk(part, &mut inner.at(number)))
    }

    /// The walk over a part.
    pub fn at(&mut self, part: impl Display) -> Saver<'_> {
        Saver { path: self.path.at(part), state: self.state, spare: self.spare }
    }
}

impl Restorer<'_> {
    /// A field of any kind.
    ///
    /// # Errors
    /// Where it is missing or cannot be decoded.
    pub fn record<T: DeserializeOwned>(
        &mut self,
        name: &str,
        field: &mut T,
    ) -> Result<(), StateError> {
        self.record_that(name, field, |_, _| true)
    }

    /// A field that must fit: `fits` is given what is restored, and what the plan has made of the field.
    ///
    /// # Errors
    /// As [`Self::record`], and where it does not fit.
    pub fn record_that<T: DeserializeOwned>(
        &mut self,
        name: &str,
        field: &mut T,
        fits: impl FnOnce(&T, &T) -> bool,
    ) -> Result<(), StateError> {
        let path = self.path.at(name);
        let Some(bytes) = self.state.records.remove(path.name()) else {
            return Err(StateError::Missing { name: path.name().to_owned() });
        };

        let found = messagepack::decode(&bytes).map_err(|error| StateError::Unreadable {
            name: path.name().to_owned(),
            problem: error.to_string(),
        })?;
        if !fits(&found, field) {
            return Err(StateError::Unfit { name: path.name().to_owned() });
        }

        *field = found;
        Ok(())
    }

    /// Numbers that are as many as the plan says. They are not copied.
    ///
    /// # Errors
    /// Where they are missing or not as many.
    pub fn tensor<T: Deref<Target = [f32]> + From<Vec<f32>>>(
        &mut self,
        name: &str,
        _content: Content,
        field: &mut T,
    ) -> Result<(), StateError> {
        let path = self.path.at(name);
        let Some(found) = self.state.tensors.remove(path.name()) else {
            return Err(StateError::Missing { name: path.name().to_owned() });
        };
        let (found, expected) = (found.values, field.len());
        if found.len() != expected {
            let name = path.name().to_owned();
            return Err(StateError::WrongLength { name, found: found.len(), expected });
        }

        *field = found.into();
        Ok(())
    }

    /// Numbers of which the plan does not say how many; `fits` is given how many there are.
    ///
    /// # Errors
    /// Where they are missing or do not fit.
    pub fn numbers(
        &mut self,
        name: &str,
        content: Content,
        field: &mut Vec<f32>,
        fits: impl FnOnce(usize) -> bool,
    ) -> Result<(), StateError> {
        let path = self.path.at(name);
        let found = self.state.tensors.get(path.name()).map_or(0, |found| found.values.len());
        if !fits(found) {
            return Err(StateError::Unfit { name: path.name().to_owned() });
        }
        drop(path);

        *field = vec![0.0; found];
        self.tensor(name, content, field)
    }

    /// A part, under a path of its own.
    ///
    /// # Errors
    /// Those of the part.
    pub fn part<T: Persist<C> + ?Sized, C>(
        &mut self,
        name: impl Display,
        part: &mut T,
        context: C,
    ) -> Result<(), StateError> {
        part.restore(&mut self.at(name), context)
    }

    /// Parts that the plan makes, each under the path of its key.
    ///
    /// # Errors
    /// Those of the parts.
    pub fn parts<K: Display, T: Persist<C>, C: Copy>(
        &mut self,
        parts: &mut BTreeMap<K, T>,
        context: C,
    ) -> Result<(), StateError> {
        parts.iter_mut().try_for_each(|(key, part)| self.part(key, part, context))
    }

    /// A part whose fields have the path of the whole.
    ///
    /// # Errors
    /// Those of the part.
    pub fn flatten<T: Persist<C> + ?Sized, C>(
        &mut self,
        part: &mut T,
        context: C,
    ) -> Result<(), StateError> {
        part.restore(self, context)
    }

    /// A part that is there at times: `fresh` makes one to restore, or answers that there cannot be any.
    ///
    /// # Errors
    /// Where it cannot be there, and those of `walk`.
    pub fn option<T>(
        &mut self,
        name: &str,
        part: &mut Option<T>,
        fresh: impl FnOnce() -> Option<T>,
        walk: impl FnOnce(&mut T, &mut Restorer<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut present = false;
        self.record(name, &mut present)?;
        *part = present.then(fresh).flatten();
        if present && part.is_none() {
            return Err(self.unfit(name));
        }

        part.as_mut().map_or(Ok(()), |part| walk(part, &mut self.at(name)))
    }

    /// Parts by key: `fresh` makes one to restore, or answers that there cannot be any under this key.
    ///
    /// # Errors
    /// Where a part cannot be there, and those of `walk`.
    pub fn entries<K: Ord + Clone + DeserializeOwned, T>(
        &mut self,
        name: &str,
        parts: &mut BTreeMap<K, T>,
        mut fresh: impl FnMut(&K) -> Option<T>,
        mut walk: impl FnMut(&mut T, &mut Restorer<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut keys: Vec<K> = Vec::new();
        self.record(name, &mut keys)?;
        parts.clear();

        let mut inner = self.at(name);
        for (number, key) in keys.into_iter().enumerate() {
            let unfit = || StateError::Unfit { name: inner.path.name().to_owned() };
            let part = fresh(&key).ok_or_else(unfit)?;
            parts.insert(key.clone(), part);
            let part = parts.get_mut(&key).expect("a key that was inserted");
            walk(part, &mut inner.at(number))?;
        }

        Ok(())
    }

    /// Parts in a queue, each restored into one that `fresh` makes.
    ///
    /// # Errors
    /// Where there are more than the state can hold, and those of `walk`.
    pub fn queue<T>(
        &mut self,
        name: &str,
        parts: &mut VecDeque<T>,
        fresh: impl FnMut() -> T,
        mut walk: impl FnMut(&mut T, &mut Restorer<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let (mut length, most) = (0, self.state.records.len());
        self.record_that(name, &mut length, |found, _| *found <= most)?;
        *parts = std::iter::repeat_with(fresh).take(length).collect();

        let mut inner = self.at(name);
        let mut numbered = parts.iter_mut().enumerate();
        numbered.try_for_each(|(number, part)| walk(part, &mut inner.at(number)))
    }

    /// The walk over a part.
    pub fn at(&mut self, part: impl Display) -> Restorer<'_> {
        Restorer { path: self.path.at(part), state: self.state }
    }

    /// The error that a field does not fit, for a check across fields.
    pub fn unfit(&self, name: &str) -> StateError {
        StateError::Unfit { name: self.path.of(name) }
    }
}

impl<T: Persist<C> + ?Sized, C> Persist<C> for Box<T> {
    fn save(&self, walk: &mut Saver<'_>, context: C) -> Saved {
        (**self).save(walk, context)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, context: C) -> Result<(), StateError> {
        (**self).restore(walk, context)
    }
}

/// The name of the part that a walk is at. The walks over parts of this part write theirs behind it, and take it back.
#[derive(Debug)]
struct Path<'s> {
    name: &'s mut String,
    /// The length of the name of the part around this one.
    outer: usize,
}

impl<'s> Path<'s> {
    /// The path of a whole machine, which has no name.
    fn begin(name: &'s mut String) -> Self {
        Self { name, outer: 0 }
    }

    fn name(&self) -> &str {
        self.name
    }

    /// The path of a part.
    fn at(&mut self, part: impl Display) -> Path<'_> {
        let outer = self.name.len();
        let written = match outer {
            0 => write!(self.name, "{part}"),
            _ => write!(self.name, ".{part}"),
        };
        written.expect("a string takes every text");
        Path { name: self.name, outer }
    }

    /// The name of a part.
    fn of(&self, part: &str) -> String {
        match self.name() {
            "" => part.to_owned(),
            name => [name, ".", part].concat(),
        }
    }
}

impl Drop for Path<'_> {
    fn drop(&mut self) {
        self.name.truncate(self.outer);
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

    persist! {
        impl Persist<()> for Machine {
            fn walk(Self { clock, values, sums, last }, walk, ()) {
                walk.record_that("clock", clock, |clock, _| *clock < 10)?;
                walk.tensor("values", Content::Values, values)?;
                let fresh = |key: &u64| (*key < 10).then(|| vec![0.0]);
                walk.entries("sums", sums, fresh, |sum, walk| {
                    walk.tensor("sum", Content::Changes, sum)
                })?;
                walk.option("last", last, || Some(vec![0.0]), |sum, walk| {
                    walk.tensor("sum", Content::Changes, sum)
                })
            }
        }
    }

    fn saved(machine: &Machine) -> State {
        State::of(|walk| machine.save(walk, ()))
    }

    fn restored(into: &mut Machine, state: State) -> Result<(), StateError> {
        state.restore(|walk| into.restore(walk, ()))
    }

    #[test]
    fn what_is_put_back_is_what_was_taken_out_to_the_bit() {
        let state = saved(&running());
        let mut again = machine(3);
        again.sums.insert(5, vec![8.0]);
        restored(&mut again, state.clone()).unwrap();
        let bits =
            |machine: &Machine| machine.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&again), bits(&running()));
        assert_eq!((again.clock, &again.sums, &again.last), (7, &running().sums, &running().last));
        assert_eq!(saved(&again).records, state.records);
    }

    #[test]
    fn memory_of_another_state_is_filled_again_where_it_is_enough() {
        let spare = saved(&running());
        let places = |state: &State| -> Vec<*const f32> {
            state.tensors.values().map(|tensor| tensor.values.as_ptr()).collect()
        };
        let before = places(&spare);
        let mut later = running();
        later.values.fill(1.0);
        later.sums.insert(9, vec![1.0]);

        let state = State::in_memory_of(spare, |walk| later.save(walk, ()));
        assert_eq!(state, saved(&later));
        assert!(before.iter().all(|place| places(&state).contains(place)));

        let mut short = state.clone();
        short.tensors.values_mut().for_each(|tensor| tensor.values = Vec::new());
        assert_eq!(State::in_memory_of(short, |walk| later.save(walk, ())), state);
    }

    #[test]
    fn state_that_does_not_fit_is_refused() {
        let good = saved(&running());
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
