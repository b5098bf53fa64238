//! Where a script and the nodes of a run meet: the script declares its tensors, then answers one request after the other.
//!
//! A script runs in a thread of its own, and waits here for requests. Who asks holds the turn until the script has answered.
//! So nobody else writes the script's buffer while the script reads it, and a script does one thing at a time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::tables::Tensor;

/// What a script declares before its first step.
pub(crate) struct Declaration {
    pub(crate) tensors: Vec<Tensor>,
    /// All values of the tensors, one after the other. The script's parameters, or what it copies them from and to.
    pub(crate) values: PyBuffer<f32>,
    /// The values as the script has rounded them when it took them up, where it keeps others than those of `values`.
    pub(crate) rounded: Option<PyBuffer<f32>>,
    pub(crate) settings: Settings,
}

/// What a script says about its training.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name of its metric, and whether a higher one is better. The objective is lower where it is better.
    pub(crate) metric: (String, bool),
    /// The momentum of its optimizer, if a clock is one step of it and the optimizer adds a share of its last step.
    pub(crate) momentum: f64,
    /// Whether changes are divided by the number of workers.
    pub(crate) average: bool,
}

/// A question to a script. `values` of its declaration hold the model that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Train on this model for a clock.
    Iterate { clock: u64 },
    /// Evaluate this model.
    Evaluate,
    /// This is the final model.
    Finish,
}

/// What a script answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The iteration has run on so many examples. The values are those after it.
    Iterated { examples: u64 },
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
    /// Held by who asks, until the script has answered.
    turn: Mutex<()>,
}

/// Who waits for an answer.
type Asker = Sender<Result<Answer, String>>;

#[derive(Default)]
struct State {
    declaration: Option<Declaration>,
    /// The request that the script has not seen. There is one at most: who asks holds the turn.
    asked: Option<(Request, Asker)>,
    /// The request that the script works on.
    current: Option<Asker>,
    /// Whether the script has no more to do.
    ended: bool,
    /// Why the script has failed.
    failed: Option<String>,
    /// Nobody asks any more.
    closed: bool,
}

impl Exchange {
    pub(crate) fn new(rank: usize, size: usize) -> Self {
        let (state, changed, turn) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { rank, size, state, changed, turn }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Waits for the declaration of the script, and shows it.
    ///
    /// # Errors
    /// Why the script has failed, or that it has ended without one.
    pub(crate) fn declared<T>(&self, show: impl FnOnce(&Declaration) -> T) -> Result<T, String> {
        let mut state = self.lock();
        loop {
            if let Some(reason) = &state.failed {
                return Err(reason.clone());
            }
            if let Some(declaration) = &state.declaration {
                return Ok(show(declaration));
            }
            if state.ended {
                return Err("the script has ended without gaia.join(...)".into());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Hands a model to the script, asks about it, and shows what the script's buffers hold after its answer.
    ///
    /// # Errors
    /// Why the script has failed.
    pub(crate) fn ask<T>(
        &self,
        request: Request,
        model: &[f32],
        show: impl FnOnce(Python<'_>, Answer, &Declaration) -> PyResult<T>,
    ) -> Result<T, String> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.hand(request, model)?;
        let closed = || Err("the script is gone".to_owned());
        let answer = receiver.recv().unwrap_or_else(|_| closed())?;
        Python::attach(|py| {
            let state = self.lock();
            let declaration = state.declaration.as_ref().expect("only who has declared is asked");
            show(py, answer, declaration).map_err(|error| error.to_string())
        })
    }

    /// Writes the model into the script's buffer, and leaves the request for it.
    fn hand(
        &self,
        request: Request,
        model: &[f32],
    ) -> Result<Receiver<Result<Answer, String>>, String> {
        let (sender, receiver) = channel();
        Python::attach(|py| {
            let mut state = self.lock();
            if let Some(reason) = &state.failed {
                return Err(reason.clone());
            }
            let Some(declaration) = &state.declaration else {
                return Err("the script has declared nothing".into());
            };
            let copied = declaration.values.copy_from_slice(py, model);
            copied.map_err(|error| error.to_string())?;
            state.asked = Some((request, sender));
            Ok(())
        })?;
        self.changed.notify_all();
        Ok(receiver)
    }

    /// Whether the script has no more to do.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
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

    fn answer(&self, answer: Result<Answer, String>) {
        if let Some(asker) = self.lock().current.take() {
            // Who has asked may be gone with its run.
            let _gone = asker.send(answer);
        }
    }
}

#[pymethods]
impl Exchange {
    /// Declares the tensors of the script, by name and shape, and the buffer of their values. The last ones may be statistics.
    #[pyo3(signature = (tensors, statistics, values, rounded, metric, higher_is_better, momentum, average))]
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
    ) -> PyResult<()> {
        let weights = tensors.len().saturating_sub(statistics);
        let tensor = |(at, (name, shape)): (usize, (String, Vec<usize>))| Tensor {
            name,
            shape,
            is_statistics: at >= weights,
        };
        let tensors: Vec<Tensor> = tensors.into_iter().enumerate().map(tensor).collect();
        let count: usize = tensors.iter().map(Tensor::len).sum();
        let buffer = |buffer: &Bound<'_, PyAny>| {
            let buffer = PyBuffer::<f32>::get(buffer)?;
            if buffer.readonly() || !buffer.is_c_contiguous() {
                return Err(PyBufferError::new_err("expected a contiguous buffer to write to"));
            }
            match buffer.item_count() {
                found if found == count => Ok(buffer),
                found => {
                    Err(PyValueError::new_err(format!("found {found} values, expected {count}")))
                }
            }
        };
        let (values, rounded) = (buffer(values)?, rounded.map(buffer).transpose()?);
        let settings = Settings { metric: (metric, higher_is_better), momentum, average };
        let mut state = self.lock();
        if state.declaration.is_some() {
            return Err(PyRuntimeError::new_err(
                "gaia.join(...) was called before, expected one call",
            ));
        }
        state.declaration = Some(Declaration { tensors, values, rounded, settings });
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for the next request: `("iterate", clock)`, `("evaluate", 0)`, `("finish", 0)`, or `("closed", 0)` once nobody
    /// asks any more.
    fn wait(&self, py: Python<'_>) -> PyResult<(&'static str, u64)> {
        loop {
            let asked = py.detach(|| {
                let state = self.lock();
                let waits = |state: &mut State| state.asked.is_none() && !state.closed;
                let waited = self.changed.wait_timeout_while(state, SIGNALS_EVERY, waits);
                let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                if let Some((request, asker)) = state.asked.take() {
                    state.current = Some(asker);
                    return Some(Some(request));
                }
                state.closed.then_some(None)
            });
            match asked {
                Some(Some(Request::Iterate { clock })) => return Ok(("iterate", clock)),
                Some(Some(Request::Evaluate)) => return Ok(("evaluate", 0)),
                Some(Some(Request::Finish)) => return Ok(("finish", 0)),
                Some(None) => return Ok(("closed", 0)),
                None => py.check_signals()?,
            }
        }
    }

    /// Answers that the iteration has run.
    fn iterated(&self, examples: u64) {
        self.answer(Ok(Answer::Iterated { examples }));
    }

    /// Answers an evaluation.
    fn evaluated(&self, loss: f64, metric: f64, weight: f64) {
        self.answer(Ok(Answer::Evaluated { loss, metric, weight }));
    }

    /// Answers that the final model has been taken.
    fn taken(&self) {
        self.answer(Ok(Answer::Taken));
    }

    /// The script has no more to do. Answers an iteration that waits for it.
    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
        self.answer(Ok(Answer::Ended));
    }

    /// The script has failed.
    fn fail(&self, reason: String) {
        {
            let mut state = self.lock();
            state.failed = Some(reason.clone());
            if let Some((_, asker)) = state.asked.take() {
                state.current = Some(asker);
            }
        }
        self.changed.notify_all();
        self.answer(Err(reason));
    }
}

/// How often a script that waits looks for signals, such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
