//! Where a script and the nodes of a run meet: the script declares its tensors, then answers one request after the other.
//!
//! A script runs in a thread of its own, and waits here for requests. Several may be waiting for it: an iteration, and an
//! evaluation beside it. A request's values are written into the script's buffer when the script takes the request, and the
//! next request waits until what the buffer holds after the answer has been read. So nobody else writes the script's buffer
//! while the script reads it, and a script does one thing at a time.
//!
//! A script may train on copies of its buffer, such as tensors of an accelerator. While its task keeps what an iteration has
//! changed, it need not copy them back: the buffer is then behind the script, which is asked to store its values before
//! anybody reads or writes them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::parts::{Named, NamedRows};

use gaia::{InitialRows, ScriptSettings, TensorSpec as Tensor};

/// What a script declares before its first step.
pub(crate) struct Declaration {
    pub(crate) tensors: Vec<Tensor>,
    /// All values of the tensors, one after the other, or those of the rows that the worker holds. The script's parameters,
    /// or what it copies them from and to.
    pub(crate) values: PyBuffer<f32>,
    /// The values as the script has rounded them when it took them up, where it keeps others than those of `values`.
    pub(crate) rounded: Option<PyBuffer<f32>>,
    /// Where the workers of a data center share the model among them: what this one has of it.
    pub(crate) share: Option<Share>,
    /// Of sparse tables, which are the last tensors: the rows that an evaluation reads. They are not in `values`.
    pub(crate) evaluated: NamedRows,
    pub(crate) settings: ScriptSettings,
}

/// What a worker has of a model that the workers of its data center share.
pub(crate) struct Share {
    /// Of each tensor: the rows of its first dimension that the worker holds.
    pub(crate) rows: Vec<Range<usize>>,
    /// Whether the worker sends changes of statistics, of which all workers hold all.
    pub(crate) sends_statistics: bool,
    /// The values of the whole model, until they have been taken.
    pub(crate) whole: Mutex<Option<PyBuffer<f32>>>,
}

/// A question to a script. `values` of its declaration hold the model that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Train on this model for a clock. `is_written` is whether the buffer has other values than after the iteration before,
    /// and `may_stay` whether those after this one may stay where the script has them.
    Iterate { clock: u64, is_written: bool, may_stay: bool },
    /// Evaluate this model.
    Evaluate,
    /// This is the final model.
    Finish,
    /// Put your values into the buffer, which is behind.
    Store,
}

/// What a script answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The iteration has run on so many examples. The values are those after it, and may stay in the script's buffer.
    Iterated { examples: u64, learning_rate_factor: Option<f64>, may_keep: bool },
    /// The buffer has the script's values.
    Stored,
    /// The evaluation of the model, with its weight: the number of examples.
    Evaluated { loss: f64, metric: f64, weight: f64 },
    /// The script has the final model.
    Taken,
    /// The script has no more to do.
    Ended,
}

/// The two sides of a script.
#[pyclass(frozen, module = "gaia._gaia")]
pub(crate) struct Exchange {
    /// The number of the script's worker in the run, and the number of all workers.
    #[pyo3(get)]
    rank: usize,
    #[pyo3(get)]
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    declaration: Option<Arc<Declaration>>,
    /// The rows that the next iteration needs.
    named: NamedRows,
    /// The requests that the script has not taken, in their order, each with the number of who asks.
    asked: VecDeque<(u64, Request)>,
    /// How many have asked.
    askers: u64,
    /// What the script waits for, while it waits.
    wanted: Option<Wanted>,
    /// The request that the script works on, until its asker has read the answer.
    current: Option<u64>,
    /// The request that the script works on, until the script knows.
    handed: Option<Request>,
    /// The answer to it.
    answer: Option<Answer>,
    /// Whether the worker starts no further iteration.
    stopped: bool,
    /// Whether the script's buffer has changes that its task keeps.
    keeps: bool,
    /// Whether the task may keep changes between rounds.
    sets_aside: bool,
    /// Whether the script has changed values since the buffer got them.
    is_behind: bool,
    /// What the script's buffer held when the script left its loop after its latest iteration, if the task keeps changes or may
    /// keep them.
    aside: Option<Vec<f32>>,
    /// Whether the script has no more to do.
    ended: bool,
    /// Why the script has failed.
    failed: Option<String>,
    /// Nobody asks any more.
    closed: bool,
}

/// What a script waits for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The name of the one request that it takes. `None`: any.
    only: Option<&'static str>,
    /// Whether it wants to know that its worker has stopped.
    stop: bool,
}

impl Wanted {
    fn takes(self, request: Request) -> bool {
        self.only.is_none_or(|only| only == request.told().0)
    }
}

impl Request {
    fn told(self) -> Told {
        match self {
            Self::Iterate { clock, is_written, may_stay } => (ITERATE, clock, is_written, may_stay),
            Self::Evaluate => ("evaluate", 0, true, false),
            Self::Finish => ("finish", 0, true, false),
            Self::Store => ("store", 0, false, false),
        }
    }

    fn is_iteration(self) -> bool {
        matches!(self, Self::Iterate { .. })
    }

    /// Whether its asker needs the values of the script before it is handed on.
    fn needs_values(self) -> bool {
        match self {
            Self::Iterate { is_written, .. } => is_written,
            Self::Evaluate | Self::Store => true,
            // It overwrites them.
            Self::Finish => false,
        }
    }
}

impl Exchange {
    pub(crate) fn new(rank: usize, size: usize) -> Self {
        Self { rank, size, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Waits for the declaration of the script.
    ///
    /// # Errors
    /// Why the script has failed, or that it has ended without one.
    pub(crate) fn declared(&self) -> Result<Arc<Declaration>, String> {
        let mut state = self.lock();
        loop {
            if let Some(reason) = &state.failed {
                return Err(reason.clone());
            }
            if let Some(declaration) = &state.declaration {
                return Ok(declaration.clone());
            }
            if state.ended {
                return Err("the script has ended without gaia.join(...)".into());
            }
            state = self.wait_for_change(state);
        }
    }

    /// Waits until the script takes a request, writes its values, and shows what the script's buffers hold after its answer.
    ///
    /// Of an iteration that a script that has ended is asked for, `show` alone is called.
    ///
    /// # Errors
    /// Why the script has failed, and what `write` and `show` find wrong.
    pub(crate) fn ask<T>(
        &self,
        request: Request,
        write: impl FnOnce(Python<'_>, &Declaration) -> PyResult<()>,
        show: impl FnOnce(Python<'_>, Answer, &Declaration) -> Result<T, String>,
    ) -> Result<T, String> {
        let declaration = self.declared()?;
        if !self.enter(request)? {
            return Python::attach(|py| show(py, Answer::Ended, &declaration));
        }

        let stored = if request.needs_values() && self.is_behind() {
            self.hand(Request::Store).map(|_| ())
        } else {
            Ok(())
        };
        let written = stored.and_then(|()| {
            Python::attach(|py| write(py, &declaration)).map_err(|error| error.to_string())
        });
        let answer = written.and_then(|()| match request {
            // They have just been stored, or were for an evaluation before, which has left the script with others.
            Request::Store => Ok(Answer::Stored),
            _ => self.hand(request),
        });
        let shown = answer.and_then(|answer| Python::attach(|py| show(py, answer, &declaration)));
        self.lock().current = None;
        self.changed.notify_all();
        shown
    }

    /// Shows what the script's buffers hold while it works on no request. A buffer that is behind gets its values first.
    ///
    /// # Errors
    /// Why the script has failed, and what `show` finds wrong.
    pub(crate) fn look<T>(
        &self,
        show: impl FnOnce(Python<'_>, &Declaration) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.is_behind() {
            let show = |py: Python<'_>, _: Answer, declaration: &Declaration| show(py, declaration);
            return self.ask(Request::Store, |_, _| Ok(()), show);
        }

        let declaration = self.declared()?;
        let mut state = self.lock();
        state.askers += 1;
        let own = state.askers;
        while state.current.is_some() {
            state = self.wait_for_change(state);
        }
        state.current = Some(own);
        drop(state);

        let shown = Python::attach(|py| show(py, &declaration));
        self.lock().current = None;
        self.changed.notify_all();
        shown
    }

    /// Waits until the script takes this request. False: the script has ended and takes no iteration.
    fn enter(&self, request: Request) -> Result<bool, String> {
        let mut state = self.lock();
        state.askers += 1;
        let own = state.askers;
        state.asked.push_back((own, request));
        self.changed.notify_all();

        loop {
            let has_ended = state.ended && request.is_iteration();
            let failed = state.failed.clone();
            let is_taken = state.takes(own);
            if has_ended || failed.is_some() || is_taken {
                state.asked.retain(|(asker, _)| *asker != own);
            }
            if let Some(reason) = failed {
                return Err(reason);
            }
            if has_ended {
                return Ok(false);
            }
            if is_taken {
                // The worker goes on after all.
                state.stopped &= !request.is_iteration();
                (state.current, state.answer) = (Some(own), None);
                return Ok(true);
            }
            state = self.wait_for_change(state);
        }
    }

    /// Tells the script that its buffers hold the values of the request that it takes, and waits for the answer.
    fn hand(&self, request: Request) -> Result<Answer, String> {
        let mut state = self.lock();
        if state.answer.is_none() {
            state.handed = Some(request);
            self.changed.notify_all();
        }
        loop {
            if let Some(answer) = state.answer.take() {
                return Ok(answer);
            }
            if let Some(reason) = &state.failed {
                return Err(reason.clone());
            }
            state = self.wait_for_change(state);
        }
    }

    /// The rows that the script's next iteration needs.
    pub(crate) fn named(&self) -> NamedRows {
        self.lock().named.clone()
    }

    /// Whether the script's buffer has changes that its task keeps.
    pub(crate) fn keeps(&self) -> bool {
        self.lock().keeps
    }

    /// Whether the script has changed values since its buffer got them.
    fn is_behind(&self) -> bool {
        self.lock().is_behind
    }

    /// The task keeps changes in the script's buffer, or has handed them over. Called while the script works on a request, so
    /// that none that follows overwrites them.
    pub(crate) fn set_keeps(&self, keeps: bool) {
        self.lock().keeps = keeps;
    }

    /// The task may keep changes between rounds. What the script changes in its loop after its last step then goes with that step,
    /// whether or not it has been handed over.
    pub(crate) fn set_aside_where_left(&self) {
        self.lock().sets_aside = true;
    }

    /// What the script's buffer held when the script left its loop, if it has left it since its latest iteration.
    pub(crate) fn take_aside(&self) -> Option<Vec<f32>> {
        self.lock().aside.take()
    }

    /// Whether the script has no more to do.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Tells the script that its worker starts no further iteration, unless it has to go on after all.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Tells the script that nobody asks any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The state. No code that can panic runs while it is locked, and the GIL is never waited for.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_change<'state>(
        &self,
        state: MutexGuard<'state, State>,
    ) -> MutexGuard<'state, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, answer: Answer) {
        self.lock().give(answer);
        self.changed.notify_all();
    }
}

impl State {
    /// Whether the script takes the request of this asker: it is the first that the script waits for.
    fn takes(&self, asker: u64) -> bool {
        let Some(wanted) = self.wanted.filter(|_| self.current.is_none()) else { return false };
        let first = self.asked.iter().find(|(_, request)| wanted.takes(*request));
        first.is_some_and(|(first, _)| *first == asker)
    }

    /// Answers the request that the script works on, if there is one. What the script has answered before stays, also where
    /// nobody has read it yet: a script may end right after an evaluation.
    fn give(&mut self, answer: Answer) {
        self.handed = None;
        if self.current.is_some() && self.answer.is_none() {
            self.answer = Some(answer);
        }
    }

    /// Whether a script that waits is told something.
    fn has_news(&self, wanted: Wanted) -> bool {
        self.handed.is_some() || self.closed || self.is_at_rest(wanted)
    }

    /// What a script that waits is told, if there is something.
    fn news(&mut self, wanted: Wanted) -> Option<Told> {
        if let Some(request) = self.handed.take() {
            return Some(request.told());
        }
        if self.closed {
            return Some(("closed", 0, false, false));
        }
        self.is_at_rest(wanted).then_some(("stop", 0, false, false))
    }

    /// Whether the worker has stopped and the script wants to know. A request that is on its way to the script comes first.
    fn is_at_rest(&self, wanted: Wanted) -> bool {
        let mut asked = self.asked.iter().map(|(_, request)| *request);
        let is_idle = self.current.is_none() && !asked.any(|request| wanted.takes(request));
        wanted.stop && self.stopped && is_idle
    }
}

#[pymethods]
impl Exchange {
    /// Declares the tensors of the script, by name and shape, and the buffer of their values. The last ones may be statistics.
    ///
    /// After them come the `sparse` tables: each with its name, the number and the width of its rows, the seed, the mean and the
    /// deviation of its initial values, and the rows that evaluations read with a buffer for their values.
    ///
    /// Where the workers of each data center share the model, `sharded`, a worker of several in its data center has a `share`:
    /// the rows of each tensor that it holds, whether it sends changes of statistics, and the values of the whole model.
    #[pyo3(signature = (tensors, statistics, values, rounded, metric, higher_is_better, momentum, average, sharded=false, share=None, sparse=None))]
    #[allow(clippy::too_many_arguments, reason = "called from one place, with keywords")]
    fn declare(
        &self,
        tensors: Vec<(String, Vec<usize>)>,
        statistics: usize,
        values: &Bound<'_, PyAny>,
        rounded: Option<&Bound<'_, PyAny>>,
        metric: String,
        higher_is_better: bool,
        momentum: f64,
        average: bool,
        sharded: bool,
        share: Option<ShareArgument<'_>>,
        sparse: Option<Vec<SparseArgument<'_>>>,
    ) -> PyResult<()> {
        let weights = tensors.len().saturating_sub(statistics);
        let tensor = |(at, (name, shape)): (usize, (String, Vec<usize>))| Tensor {
            name,
            shape,
            is_statistics: at >= weights,
            sparse: None,
        };
        let mut tensors: Vec<Tensor> = tensors.into_iter().enumerate().map(tensor).collect();
        let count: usize = tensors.iter().map(Tensor::len).sum();
        let (share, held) = match share {
            None => (None, count),
            Some((rows, sends_statistics, whole)) => {
                let rows = rows_of_share(&tensors, &rows)?;
                let held = tensors.iter().zip(&rows).map(|(one, rows)| one.len_of(rows)).sum();
                let whole = Mutex::new(Some(buffer_of(&whole, count)?));
                (Some(Share { rows, sends_statistics, whole }), held)
            }
        };
        let values = buffer_of(values, held)?;
        let rounded = rounded.map(|rounded| buffer_of(rounded, held)).transpose()?;
        let evaluated = evaluated_rows(&mut tensors, sparse.unwrap_or_default())?;
        let settings = ScriptSettings { metric, higher_is_better, momentum, average, sharded };
        let mut state = self.lock();
        if state.declaration.is_some() {
            return Err(PyRuntimeError::new_err(
                "gaia.join(...) was called before, expected one call",
            ));
        }
        state.declaration =
            Some(Arc::new(Declaration { tensors, values, rounded, share, evaluated, settings }));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The script has left its loop, and has put its values into the buffer. What it does with them from here on is its own,
    /// until it trains again. `is_whole` is whether it has read all rows, and has done no step in the clock that it leaves.
    fn left(&self, py: Python<'_>, is_whole: bool) -> PyResult<()> {
        let declaration = {
            let mut state = self.lock();
            state.is_behind = false;
            state.declaration.clone().filter(|_| state.keeps || (state.sets_aside && is_whole))
        };
        let aside = declaration.map(|declaration| declaration.values.to_vec(py)).transpose()?;
        self.lock().aside = aside;
        Ok(())
    }

    /// Waits for the next request, and returns its name, its clock, whether the buffer has new values, and whether those of
    /// the script may stay out of it: `iterate`, `evaluate`, `finish`, `store`, or `closed` once nobody asks any more. `only`
    /// names the one request that is taken. With `stop` the answer may be `stop`: the worker starts no further iteration.
    #[pyo3(signature = (only=None, stop=false))]
    fn wait(&self, py: Python<'_>, only: Option<&str>, stop: bool) -> PyResult<Told> {
        let only = match only {
            None => None,
            Some(name) => {
                let known = REQUESTS.into_iter().find(|known| *known == name);
                let known = known
                    .ok_or_else(|| PyValueError::new_err(format!("`{name}` is no request")))?;
                Some(known)
            }
        };
        let wanted = Wanted { only, stop };
        loop {
            let told = py.detach(|| {
                let mut state = self.lock();
                state.wanted = Some(wanted);
                self.changed.notify_all();
                let nothing = |state: &mut State| !state.has_news(wanted);
                let waited = self.changed.wait_timeout_while(state, SIGNALS_EVERY, nothing);
                let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                state.wanted = None;
                state.news(wanted)
            });
            match told {
                Some(told) => return Ok(told),
                None => py.check_signals()?,
            }
        }
    }

    /// Answers that the iteration has run. `rows` are those that the next one needs, by tensors' numbers, of sparse tables in
    /// ascending order with a buffer for their values. Of other tensors it needs all, and of other sparse tables none. The
    /// learning rate is divided by the largest so far. `may_keep` is whether nobody but the next iteration writes the buffer
    /// before the script says that it has [left](Self::left) its loop. `is_stored` is whether the buffer has the values: they
    /// may stay out of it where the request has said so, all rows are needed next, and they are kept.
    #[pyo3(signature = (examples, rows=None, learning_rate_factor=None, may_keep=false, is_stored=true))]
    fn iterated(
        &self,
        py: Python<'_>,
        examples: u64,
        rows: Option<Vec<RowsArgument>>,
        learning_rate_factor: Option<f64>,
        may_keep: bool,
        is_stored: bool,
    ) -> PyResult<()> {
        if learning_rate_factor.is_some_and(|factor| !(0.0..=1.0).contains(&factor)) {
            let found = learning_rate_factor.unwrap_or_default();
            return Err(PyValueError::new_err(format!(
                "learning_rate_factor is {found}, expected 0 to 1"
            )));
        }
        let named = match rows {
            None => NamedRows::default(),
            Some(rows) => {
                let declaration = self.lock().declaration.clone();
                let undeclared = "found rows before gaia.join(...), expected them after it";
                let declaration = declaration.ok_or_else(|| PyRuntimeError::new_err(undeclared))?;
                let list = |(tensor, rows, values): RowsArgument| {
                    Ok(Named { tensor, rows: rows.to_vec(py)?, values })
                };
                let rows = rows.into_iter().map(list).collect::<PyResult<Vec<_>>>()?;
                let held = declaration.share.as_ref().map(|share| share.rows.as_slice());
                let sharded = declaration.settings.sharded;
                let named = NamedRows::new(&declaration.tensors, sharded, held, rows);
                named.map_err(PyValueError::new_err)?
            }
        };
        let mut state = self.lock();
        (state.named, state.is_behind, state.aside) = (named, !is_stored, None);
        state.give(Answer::Iterated { examples, learning_rate_factor, may_keep });
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Answers an evaluation.
    fn evaluated(&self, loss: f64, metric: f64, weight: f64) {
        self.answer(Answer::Evaluated { loss, metric, weight });
    }

    /// Answers that the values of the script are in its buffer.
    fn stored(&self) {
        self.lock().is_behind = false;
        self.answer(Answer::Stored);
    }

    /// Answers that the final model has been taken.
    fn taken(&self) {
        self.lock().is_behind = false;
        self.answer(Answer::Taken);
    }

    /// The script has no more to do, and has put its values into the buffer. Answers an iteration that waits for it, and all
    /// later ones.
    fn end(&self) {
        let mut state = self.lock();
        (state.ended, state.is_behind) = (true, false);
        state.give(Answer::Ended);
        drop(state);
        self.changed.notify_all();
    }

    /// The script has failed. So does who waits for it.
    fn fail(&self, reason: String) {
        // What is told later is mostly what the first failure has caused.
        self.lock().failed.get_or_insert(reason);
        self.changed.notify_all();
    }
}

/// The fields of a [`Share`], as Python gives them.
type ShareArgument<'py> = (Vec<(usize, usize)>, bool, Bound<'py, PyAny>);

/// The rows of a tensor, by its number, and of a sparse table the buffer for their values.
type RowsArgument = (usize, PyBuffer<i64>, Option<PyBuffer<f32>>);

/// A sparse table, as Python gives it.
type SparseArgument<'py> =
    (String, (usize, usize), (u64, f32, f32), PyBuffer<i64>, Bound<'py, PyAny>);

/// Adds sparse tables to the tensors of a script, and returns the rows of them that evaluations read.
fn evaluated_rows(
    tensors: &mut Vec<Tensor>,
    sparse: Vec<SparseArgument<'_>>,
) -> PyResult<NamedRows> {
    let mut evaluated = Vec::new();
    for (name, (rows, width), (seed, mean, std), ids, values) in sparse {
        let rule = InitialRows::new(seed, mean, std);
        let Some(rule) = rule.filter(|_| u32::try_from(rows).is_ok()) else {
            return Err(PyValueError::new_err(format!(
                "{name} has {rows} rows with mean {mean} and deviation {std}, expected fewer than 2³² and finite numbers"
            )));
        };
        let py = values.py();
        let values = PyBuffer::<f32>::get(&values)?;
        let (tensor, ids) = (tensors.len(), ids.to_vec(py)?);
        evaluated.push(Named { tensor, rows: ids, values: Some(values) });
        let shape = vec![rows, width];
        tensors.push(Tensor { name, shape, is_statistics: false, sparse: Some(rule) });
    }
    NamedRows::new(tensors, false, None, evaluated).map_err(PyValueError::new_err)
}

/// A buffer of `count` values that may be written.
fn buffer_of(buffer: &Bound<'_, PyAny>, count: usize) -> PyResult<PyBuffer<f32>> {
    let buffer = PyBuffer::<f32>::get(buffer)?;
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("expected a contiguous buffer to write to"));
    }
    match buffer.item_count() {
        found if found == count => Ok(buffer),
        found => Err(PyValueError::new_err(format!("found {found} values, expected {count}"))),
    }
}

/// The rows of each tensor that a worker holds.
fn rows_of_share(tensors: &[Tensor], rows: &[(usize, usize)]) -> PyResult<Vec<Range<usize>>> {
    let fits = |(tensor, (start, end)): (&Tensor, &(usize, usize))| {
        start <= end && *end <= tensor.first_dimension()
    };
    if rows.len() != tensors.len() || !tensors.iter().zip(rows).all(fits) {
        return Err(PyValueError::new_err(format!("{rows:?} are no rows of the tensors")));
    }
    Ok(rows.iter().map(|(start, end)| *start..*end).collect())
}

/// What a script is told: the name of a request, its clock, whether the script's buffer has new values, and whether those
/// after it may stay out of the buffer.
type Told = (&'static str, u64, bool, bool);

const ITERATE: &str = "iterate";

/// The names of requests that a script can wait for.
const REQUESTS: [&str; 3] = [ITERATE, "evaluate", "finish"];

/// How often a script that waits looks for signals, such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
