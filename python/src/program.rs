//! The application that a script is: each worker's task is a run of the script.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::iter::once;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::buffer::numbers;
use crate::exchange::{Answer, Declaration, Exchange, Request};
use crate::own_statistics::OwnStatistics;
use crate::parts::{Before, Iteration, NOT_CONTIGUOUS, NamedRows, Parts, Shares};
use gaia::{
    Application, ApplicationError, Clock, DcId, Deltas, EvaluationSums, Metric, Model, ModelLayout,
    RowSet, ScriptModel, Seed, SharedValues, TableRows, Task, TensorSpec, WeightedSum, Work,
    different_tensor,
};

/// Starts the script of a worker.
pub(crate) struct Starter {
    /// Called with an [`Exchange`], the script's path and arguments and the seed. Returns at once.
    pub(crate) start: Py<PyAny>,
    pub(crate) script: Option<PathBuf>,
    pub(crate) arguments: Vec<String>,
    pub(crate) seed: u64,
    /// The number of workers of each data center.
    pub(crate) workers: Vec<usize>,
    /// Whether each worker is a process of its own.
    pub(crate) is_real: bool,
}

/// A model that a script declares, and the runs of the script.
pub(crate) struct Program {
    starter: Starter,
    layout: Arc<ModelLayout>,
    model: ScriptModel,
    /// Whether the run starts from values of a file, which may be others than those of scripts.
    has_values_of_a_file: bool,
    /// The script that has declared the model, until it becomes the task of its worker.
    first: Mutex<Option<Arc<Script>>>,
    /// The latest script of each worker.
    scripts: Mutex<Vec<Option<Arc<Script>>>>,
    /// The number of workers that hold a row, in the data centers that take part.
    holders: Arc<AtomicUsize>,
}

/// One run of the script. It is told when the last who asks it is gone.
struct Script(Py<Exchange>);

/// A script that has declared its model.
struct Started {
    script: Arc<Script>,
    declaration: Arc<Declaration>,
    /// The values of the whole model, without sparse tables.
    initial: Vec<f32>,
}

/// The task of a worker: a script that waits for what the task asks.
struct ScriptTask {
    script: Arc<Script>,
    layout: Arc<ModelLayout>,
    parts: Parts,
    /// Whether changes are divided by the number of workers that hold a row, and that number.
    average: bool,
    holders: Arc<AtomicUsize>,
    /// The rows that the current clock has read.
    read: NamedRows,
    /// The values of the script after its latest iteration, with those that were read since then.
    held: Vec<f32>,
    /// The values after an iteration. Kept, so that its pages are at hand in the next.
    after: Vec<f32>,
    /// The memory of the latest changes, by table.
    spare: Vec<SharedValues>,
    /// The statistics of the script, where changes of others come late.
    own_statistics: Option<OwnStatistics>,
    /// The values that the script's buffer began with, while the task keeps what the script has changed of them.
    base: Option<SharedValues>,
    /// The learning rate of the latest iteration, divided by the largest so far, if the script has one.
    learning_rate_factor: Option<f64>,
}

impl Starter {
    /// The number of workers.
    fn size(&self) -> usize {
        self.workers.iter().sum()
    }

    /// The number of workers that hold a row, in data centers with so many workers. At least 1.
    ///
    /// In simulation each worker of a model that is shared has all of it, and the mean of all workers is that of the data
    /// centers' means.
    fn holders<'a>(&self, sharded: bool, workers: impl Iterator<Item = &'a usize>) -> usize {
        let each = |workers: &usize| if sharded && self.is_real { 1 } else { *workers };
        workers.map(each).sum::<usize>().max(1)
    }

    /// The number of workers in the data center of a worker.
    fn workers_beside(&self, rank: usize) -> usize {
        let mut first = 0;
        let of_rank = self.workers.iter().find(|workers| {
            first += **workers;
            rank < first
        });
        of_rank.copied().unwrap_or(1)
    }

    /// Starts the script of a worker, and waits until it has declared its model.
    fn start(&self, rank: usize) -> Result<Started, String> {
        let script = Python::attach(|py| {
            let exchange = Py::new(py, Exchange::new(rank, self.size()))?;
            // Without a script nobody reads arguments.
            let command = self.script.iter().flat_map(|script| {
                once(script.as_os_str()).chain(self.arguments.iter().map(OsStr::new))
            });
            let command: Vec<&OsStr> = command.collect();
            self.start.call1(py, (exchange.clone_ref(py), command, self.seed))?;
            Ok(Arc::new(Script(exchange)))
        });
        let script = script.map_err(|error: PyErr| error.to_string())?;
        let declaration = script.0.get().declared()?;
        let initial = Python::attach(|py| match &declaration.share {
            None => declaration.values.to_vec(py),
            Some(share) => {
                let whole = share.whole.lock().unwrap_or_else(PoisonError::into_inner).take();
                whole.map_or_else(|| Ok(Vec::new()), |whole| whole.to_vec(py))
            }
        });
        let initial = initial.map_err(|error| error.to_string())?;
        Ok(Started { script, declaration, initial })
    }
}

impl Program {
    /// The program of a script, which is started for the first of the workers of this process. A process without workers
    /// needs the model, too.
    ///
    /// # Errors
    /// Why the script has failed, that its tensors are no model, or that the worker cannot hold all of it.
    pub(crate) fn start(starter: Starter, workers: Range<usize>) -> Result<Self, String> {
        let first = if workers.is_empty() { 0 } else { workers.start };
        let Started { script, declaration, initial } = starter.start(first)?;
        let Declaration { tensors, settings, .. } = &*declaration;
        let (tensors, settings) = (tensors.clone(), settings.clone());
        let model = ScriptModel { tensors, values: initial, settings };
        model.check()?;
        let scripts = (0..starter.size()).map(|_| None).collect();
        let holders = starter.holders(model.settings.sharded, starter.workers.iter());
        let program = Self {
            layout: model.layout(),
            starter,
            model,
            has_values_of_a_file: false,
            first: Mutex::new(Some(script)),
            scripts: Mutex::new(scripts),
            holders: Arc::new(AtomicUsize::new(holders)),
        };
        if !workers.is_empty() {
            program.check_share(first, &declaration)?;
        }
        Ok(program)
    }

    /// The same program, with the values of the model in a file: what `gaia init` has written of the same script.
    ///
    /// # Errors
    /// How the model differs from that of the script, with the first tensor that does.
    pub(crate) fn with_model(self, model: ScriptModel, file: &Path) -> Result<Self, String> {
        if let Some(difference) = model.difference(&self.model) {
            let file = file.display();
            return Err(format!(
                "{difference}, as in {file}: write it again with gaia init, or run the script that it is of"
            ));
        }
        Ok(Self { model, has_values_of_a_file: true, ..self })
    }

    /// The same program, for a run that starts from other values than those of its scripts.
    pub(crate) fn with_values_of_a_file(self) -> Self {
        Self { has_values_of_a_file: true, ..self }
    }

    /// The model that the script has declared. The script ends.
    pub(crate) fn into_model(self) -> ScriptModel {
        self.model
    }

    /// The name of a sparse table, if the model has one.
    pub(crate) fn sparse_table(&self) -> Option<String> {
        let sparse = self.model.tensors.iter().find(|tensor| tensor.sparse.is_some());
        sparse.map(|tensor| tensor.name.escape_debug().to_string())
    }

    /// The script of a worker that has not trained: the one that has declared the model, or another run.
    fn script(&self, worker: usize) -> Result<Arc<Script>, String> {
        let is_of_worker = |script: &mut Arc<Script>| script.0.get().rank() == worker;
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take_if(is_of_worker);
        if let Some(first) = first {
            return Ok(first);
        }
        let Started { script, declaration, initial } = self.starter.start(worker)?;
        self.check_alike(worker, &declaration.tensors, &initial)?;
        Ok(script)
    }

    /// Checks how a worker holds the model.
    ///
    /// # Errors
    /// That a worker of several in its data center holds the whole model, where they should share it.
    fn check_share(&self, worker: usize, declaration: &Declaration) -> Result<(), String> {
        let beside = self.starter.workers_beside(worker);
        if self.model.settings.sharded
            && self.starter.is_real
            && declaration.share.is_none()
            && beside > 1
        {
            return Err(format!(
                "rank {worker}: gaia.join(..., sharded=True) in a data center with {beside} workers, expected its workers to \
                 share the model: one process of torch.distributed each, and fully_shard"
            ));
        }
        Ok(())
    }

    /// Checks that another run of the script has declared the same model.
    fn check_alike(
        &self,
        worker: usize,
        tensors: &[TensorSpec],
        values: &[f32],
    ) -> Result<(), String> {
        if let Some(difference) = different_tensor(tensors, &self.model.tensors) {
            return Err(format!(
                "rank {worker}: {difference} as elsewhere: all workers build the same model"
            ));
        }
        if self.has_values_of_a_file {
            return Ok(());
        }

        let mut offset = 0;
        let dense = tensors.iter().filter(|tensor| tensor.sparse.is_none());
        for (at, tensor) in dense.enumerate() {
            let end = offset + tensor.len();
            let (own, elsewhere) = (&values[offset..end], &self.model.values[offset..end]);
            if own != elsewhere {
                let (at, name) = (at + 1, &tensor.name);
                if own.iter().any(|value| value.is_nan()) {
                    return Err(format!(
                        "rank {worker}: tensor {at}, {name}, begins with values that are NaN, expected numbers: initialise it \
                         before gaia.join(...)"
                    ));
                }
                return Err(format!(
                    "rank {worker}: the initial values of tensor {at}, {name}, differ from those elsewhere, expected the same: \
                     set the seed of the weights in the script, before the model is built"
                ));
            }
            offset = end;
        }
        Ok(())
    }

    /// Writes what a script holds of a model that is evaluated into its buffers: of sparse tables the rows that it evaluates.
    fn write(&self, model: &Model) -> impl FnOnce(Python<'_>, &Declaration) -> PyResult<()> {
        move |py, declaration| {
            for (table, hand) in declaration.evaluated.hands() {
                hand.write(py, table, model)?;
            }
            match &declaration.share {
                None => {
                    let values = &model.values[..declaration.values.item_count()];
                    declaration.values.copy_from_slice(py, values)
                }
                Some(share) => {
                    let parts = Parts::new(&self.layout, Some(&share.rows), share.sends_statistics);
                    declaration.values.copy_from_slice(py, &parts.of(&model.values))
                }
            }
        }
    }

    /// The script of a worker that trains.
    fn running(&self, worker: usize) -> Result<Arc<Script>, ApplicationError> {
        let scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        let script = scripts.get(worker).cloned().flatten();
        script.ok_or_else(|| ApplicationError::new(format!("no script runs for rank {worker}")))
    }
}

impl Application for Program {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.starter.size()
    }

    fn initial_model(&self, _: Seed) -> Model {
        self.model.initial_model(&self.layout)
    }

    fn task(&self, worker: usize, _: Seed) -> Box<dyn Task> {
        let script = match self.script(worker) {
            Ok(script) => script,
            Err(reason) => return Box::new(Unstarted { reason, layout: self.layout.clone() }),
        };
        let task = script.0.get().declared().and_then(|declaration| {
            self.check_share(worker, &declaration)?;
            let parts = match &declaration.share {
                None => Parts::new(&self.layout, None, true),
                Some(own) => Parts::new(&self.layout, Some(&own.rows), own.sends_statistics),
            };
            let (held, after) = (vec![0.0; parts.len()], vec![0.0; parts.len()]);
            let (layout, read) = (self.layout.clone(), NamedRows::default());
            let script = script.clone();
            Ok(ScriptTask {
                script,
                layout,
                parts,
                average: self.model.settings.average,
                holders: self.holders.clone(),
                read,
                held,
                after,
                spare: Vec::new(),
                own_statistics: None,
                base: None,
                learning_rate_factor: None,
            })
        });
        let task = match task {
            Ok(task) => task,
            Err(reason) => return Box::new(Unstarted { reason, layout: self.layout.clone() }),
        };
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        scripts[worker] = Some(script);
        Box::new(task)
    }

    fn evaluated_rows(&self, worker: usize) -> RowSet {
        let declared = self.running(worker).ok().and_then(|script| script.0.get().declared().ok());
        let mut rows = RowSet::without_sparse_rows(&self.layout);
        for (table, hand) in declared.iter().flat_map(|declared| declared.evaluated.hands()) {
            rows.tables[table.index()] = TableRows::Listed(hand.rows.clone());
        }
        rows
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        let of_worker = |worker| {
            let script = self.running(worker)?;
            let exchange = script.0.get();
            let kept = RefCell::new(None);
            let write = |py: Python<'_>, declaration: &Declaration| {
                if exchange.keeps() {
                    kept.replace(Some(declaration.values.to_vec(py)?));
                }
                self.write(model)(py, declaration)
            };
            let show = |py: Python<'_>, answer: Answer, declaration: &Declaration| {
                let kept = kept.take().map(|kept| declaration.values.copy_from_slice(py, &kept));
                kept.transpose().map_err(|error| error.to_string())?;
                Ok(answer)
            };
            let answer = exchange.ask(Request::Evaluate, write, show);
            match answer.map_err(ApplicationError::new)? {
                Answer::Evaluated { loss, metric, weight } => {
                    let sum = |mean: f64| WeightedSum { sum: mean * weight, weight };
                    Ok(EvaluationSums { objective: sum(loss), metric: sum(metric) })
                }
                other => Err(ApplicationError::new(format!("expected an evaluation: {other:?}"))),
            }
        };
        workers.map(of_worker).sum()
    }

    fn metric(&self) -> Metric {
        self.model.settings.metric()
    }

    fn momentum(&self) -> f64 {
        self.model.settings.momentum
    }

    fn deltas_are_shares(&self) -> bool {
        self.model.deltas_are_shares()
    }

    fn describe(&self) -> String {
        let script = self.starter.script.as_ref().and_then(|script| script.file_name());
        let script =
            script.map_or_else(|| "a Python function".into(), |name| name.to_string_lossy());
        let (parameters, tensors) = (self.layout.parameters(), self.model.tensors.len());
        format!("{script}, {parameters} parameters in {tensors} tensors")
    }

    fn handle_data_centers(&self, present: &BTreeSet<DcId>) {
        let present = present.iter().filter_map(|dc| self.starter.workers.get(dc.index()));
        self.holders
            .store(self.starter.holders(self.model.settings.sharded, present), Ordering::Relaxed);
    }

    fn finish(&self, model: &Model, workers: Range<usize>) {
        for worker in workers {
            let Ok(script) = self.running(worker) else { continue };
            let show = |_: Python<'_>, _: Answer, _: &Declaration| Ok(());
            // What the script does after the run is its own.
            let _failed = script.0.get().ask(Request::Finish, self.write(model), show);
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.0.get().close();
    }
}

impl Task for ScriptTask {
    fn expect_late_changes(&mut self) {
        self.own_statistics = OwnStatistics::at(self.parts.sent_statistics());
    }

    fn rows(&mut self, _: Clock) -> RowSet {
        self.read = self.script.0.get().named();
        self.parts.rows(&self.read, self.layout.tables().len())
    }

    fn iterate_keeping(
        &mut self,
        clock: Clock,
        model: &Model,
        is_fresh: bool,
        factor: Option<f32>,
    ) -> Result<(Option<Deltas>, Work), ApplicationError> {
        let copy_moves_as_the_script = |factor: f32| {
            let mut shares = self.parts.all_shares(self.shares());
            shares.all(|share| (factor * share - 1.0).abs() < SHARE_PRECISION)
        };
        let may_keep = factor.is_some_and(copy_moves_as_the_script);
        let can_keep = self.can_keep()?;
        if can_keep {
            self.script.0.get().set_aside_where_left();
        }
        if self.base.is_none() && !(may_keep && can_keep) {
            let (deltas, work) = self.iterate(clock, model)?;
            return Ok((Some(deltas), work));
        }
        self.iterate_beside_kept(clock, model, is_fresh, may_keep)
    }

    fn hand_over(&mut self) -> Result<Deltas, ApplicationError> {
        let shares = self.shares();
        let exchange = self.script.0.get();
        let Some(base) = self.base.take() else {
            return Err(ApplicationError::new("the script keeps no changes"));
        };
        let (parts, spare) = (&self.parts, &mut self.spare);
        let deltas = exchange.look(|py, declaration| {
            let deltas = kept_changes(py, exchange, declaration, (parts, &base, shares), spare);
            exchange.set_keeps(false);
            deltas
        });
        deltas.map_err(ApplicationError::new)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let holders = self.holders.load(Ordering::Relaxed);
        let shares = self.shares_of(holders);
        let exchange = self.script.0.get();
        if exchange.has_ended() {
            return Ok((Deltas::none(&self.layout), Work::default()));
        }
        let own_statistics = RefCell::new(self.own_statistics.take());
        let Self { layout, parts, read, held, after, spare, .. } = self;
        let factor = &mut self.learning_rate_factor;
        let is_whole = parts.are_whole(read);
        if !is_whole {
            parts.update(held, &model.values, read);
        }
        // Sparse tables come last, and are not in the buffer of all values.
        let values = &model.values[..layout.dense_parameters()];
        let before: &[f32] = if is_whole { values } else { held };
        let write = |py: Python<'_>, declaration: &Declaration| {
            for (table, hand) in read.hands() {
                hand.write(py, table, model)?;
            }
            declaration.values.copy_from_slice(py, before)?;
            if let Some(own) = &*own_statistics.borrow() {
                own.show(contiguous(py, &declaration.values)?);
            }
            Ok(())
        };

        let show = |py: Python<'_>, answer: Answer, declaration: &Declaration| {
            let Answer::Iterated { examples, learning_rate_factor, .. } = answer else {
                let own = own_statistics.borrow();
                let statistics = own.as_ref().and_then(|own| own.before(holders, before));
                let from = Before { values, statistics };
                let left =
                    is_whole.then(|| changes_by_leaving(exchange, (parts, from, shares), spare));
                let deltas = left.flatten().unwrap_or_else(|| Deltas::none(layout));
                return Ok((deltas, Work::default()));
            };
            *factor = learning_rate_factor;
            let read_parameters = model.values.len() as f64;
            let flops = FLOPS_PER_WEIGHT * read_parameters * examples as f64;
            let work = Work { examples, flops };
            let copy_into = |after: &mut [f32]| {
                let copied = declaration.values.copy_to_slice(py, after);
                copied.map_err(|error| error.to_string())
            };
            let all = numbers(py, &declaration.values).ok_or(NOT_CONTIGUOUS)?;
            let mut own = own_statistics.borrow_mut();
            let statistics = own.as_ref().and_then(|own| own.before(holders, before));
            let mut deltas = if is_whole {
                if !parts.are_whole(&exchange.named()) {
                    // Rows that the next iteration does not read stay what they are.
                    copy_into(after)?;
                }
                match &declaration.rounded {
                    None => {
                        let before = Before { values, statistics };
                        parts.changes_of_whole(before, all, shares, spare)
                    }
                    Some(rounded) => {
                        let rounded = numbers(py, rounded).ok_or(NOT_CONTIGUOUS)?;
                        let before = Before { values: rounded, statistics };
                        parts.changes_of_whole(before, all, shares, spare)
                    }
                }
            } else {
                copy_into(after)?;
                let rounded = declaration.rounded.as_ref().map(|rounded| rounded.to_vec(py));
                let rounded = rounded.transpose().map_err(|error| error.to_string())?;
                let rounded = rounded.as_deref();
                let iteration =
                    Iteration { model: values, read, rounded, held: before, after, statistics };
                parts.changes(&iteration, shares, &declaration.tensors)?
            };
            if let Some(own) = &mut *own {
                own.keep(all, holders);
            }
            parts.add_changes_in_hand(py, &mut deltas, (model, read), shares)?;
            Ok((deltas, work))
        };
        let request = Request::Iterate { clock: clock.0, is_written: true, may_stay: false };
        let asked = exchange.ask(request, write, show);
        self.own_statistics = own_statistics.into_inner();
        std::mem::swap(&mut self.held, &mut self.after);
        asked.map_err(ApplicationError::new)
    }

    fn learning_rate_factor(&self) -> Option<f64> {
        self.learning_rate_factor
    }

    fn on_stopped(&mut self) {
        self.script.0.get().stop();
    }

    fn has_ended(&self) -> bool {
        self.script.0.get().has_ended()
    }

    fn repeats(&self) -> bool {
        false
    }
}

impl ScriptTask {
    /// The part of a change of the script that is a change of the model. Statistics are averaged where weights are added, too.
    fn shares(&self) -> Shares {
        self.shares_of(self.holders.load(Ordering::Relaxed))
    }

    /// The same, where so many workers hold a row.
    fn shares_of(&self, holders: usize) -> Shares {
        let average = 1.0 / holders as f32;
        Shares { weights: if self.average { average } else { 1.0 }, statistics: average }
    }

    /// Whether the script's buffer has the whole model and its changes to the bit.
    fn can_keep(&self) -> Result<bool, ApplicationError> {
        let declaration = self.script.0.get().declared().map_err(ApplicationError::new)?;
        let is_dense = self.layout.dense_parameters() == self.layout.parameters();
        let is_exact = declaration.rounded.is_none() && declaration.share.is_none();
        Ok(is_dense && is_exact && self.parts.are_whole(&self.read))
    }

    /// Runs an iteration whose changes may stay in the script's buffer, with those of iterations before.
    fn iterate_beside_kept(
        &mut self,
        clock: Clock,
        model: &Model,
        is_fresh: bool,
        may_keep: bool,
    ) -> Result<(Option<Deltas>, Work), ApplicationError> {
        let shares = self.shares();
        let exchange = self.script.0.get();
        let Self { parts, base, held, spare, learning_rate_factor, .. } = self;
        let (base, values) = (base.as_ref(), &model.values);

        let is_written = base.is_none() || is_fresh;
        let request = Request::Iterate { clock: clock.0, is_written, may_stay: may_keep };
        let written = Cell::new(false);
        let write = |py: Python<'_>, declaration: &Declaration| {
            written.set(true);
            let Some(base) = base else { return declaration.values.copy_from_slice(py, values) };
            if !is_written {
                return Ok(());
            }
            let buffer = contiguous(py, &declaration.values)?;
            for (own, (new, old)) in buffer.iter().zip(values.iter().zip(base.iter())) {
                own.set(own.get() + (new - old));
            }
            Ok(())
        };

        let show = |py: Python<'_>, answer: Answer, declaration: &Declaration| {
            let Answer::Iterated { examples, learning_rate_factor: factor, may_keep: stays } =
                answer
            else {
                // A script that has ended has what it has kept, and no step of this iteration.
                let before = if written.get() { Some(values) } else { base };
                let deltas = match before {
                    Some(before) if base.is_some() => {
                        kept_changes(py, exchange, declaration, (parts, before, shares), spare)?
                    }
                    Some(before) => {
                        changes_by_leaving(exchange, (parts, Before::model(before), shares), spare)
                            .unwrap_or_else(|| Deltas::none(model.layout()))
                    }
                    None => Deltas::none(model.layout()),
                };
                exchange.set_keeps(false);
                return Ok((Some(deltas), Work::default()));
            };

            *learning_rate_factor = factor;
            let flops = FLOPS_PER_WEIGHT * values.len() as f64 * examples as f64;
            let work = Work { examples, flops };
            let is_whole = parts.are_whole(&exchange.named());
            let keeps = may_keep && stays && is_whole;
            exchange.set_keeps(keeps);
            if keeps {
                return Ok((None, work));
            }
            if !is_whole {
                // Rows that the next iteration does not read stay what they are.
                let copied = declaration.values.copy_to_slice(py, held);
                copied.map_err(|error| error.to_string())?;
            }
            let after = numbers(py, &declaration.values).ok_or(NOT_CONTIGUOUS)?;
            Ok((Some(parts.changes_of_whole(Before::model(values), after, shares, spare)), work))
        };

        let asked = exchange.ask(request, write, show);
        let (deltas, work) = asked.map_err(ApplicationError::new)?;
        self.base = deltas.is_none().then(|| values.clone());
        Ok((deltas, work))
    }
}

/// The values of a script, for as long as this thread is attached to the interpreter.
fn contiguous<'a>(py: Python<'a>, values: &'a PyBuffer<f32>) -> PyResult<&'a [Cell<f32>]> {
    numbers(py, values).ok_or_else(|| PyBufferError::new_err(NOT_CONTIGUOUS))
}

/// What a script whose task keeps changes has changed of `before`, by the end of its loop if it has left it.
fn kept_changes(
    py: Python<'_>,
    exchange: &Exchange,
    declaration: &Declaration,
    (parts, before, shares): (&Parts, &[f32], Shares),
    spare: &mut Vec<SharedValues>,
) -> Result<Deltas, String> {
    let before = Before::model(before);
    if let Some(deltas) = changes_by_leaving(exchange, (parts, before, shares), spare) {
        return Ok(deltas);
    }
    let after = numbers(py, &declaration.values).ok_or(NOT_CONTIGUOUS)?;
    Ok(parts.changes_of_whole(before, after, shares, spare))
}

/// What a script had changed of `before`, a model and the statistics that it has kept, when it left its loop, if it has left it since its latest iteration.
fn changes_by_leaving(
    exchange: &Exchange,
    (parts, before, shares): (&Parts, Before<'_, f32>, Shares),
    spare: &mut Vec<SharedValues>,
) -> Option<Deltas> {
    let mut aside = exchange.take_aside()?;
    let after = Cell::from_mut(aside.as_mut_slice()).as_slice_of_cells();
    Some(parts.changes_of_whole(before, after, shares, spare))
}

/// The task of a worker whose script has failed before its first step.
struct Unstarted {
    reason: String,
    layout: Arc<ModelLayout>,
}

impl Task for Unstarted {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::without_sparse_rows(&self.layout)
    }

    fn iterate(&mut self, _: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        Err(ApplicationError::new(self.reason.clone()))
    }
}

/// How far the factor of a copy times a share may be from 1: what rounding makes of it.
const SHARE_PRECISION: f32 = 1e-6;

/// Of a step on one example: two for the product with a weight, and twice that for its gradients. A charged cost model takes
/// it for what an iteration costs; it is low for convolutions, whose weights are used many times.
const FLOPS_PER_WEIGHT: f64 = 6.0;
