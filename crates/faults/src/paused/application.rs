//! A variant of [`Counting`] whose changes depend on the clock alone, and which reports the agreed model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::cluster::application::Counting;
use gaia_config::Plan;
use gaia_core::application::{Application, ApplicationError, EvaluationSums, Metric, Task, Work};
use gaia_core::types::{
    Clock, Deltas, Model, ModelLayout, Restorer, RowSet, Saved, Saver, Seed, StateError,
    TableLayout, WorkerId,
};

#[derive(Debug)]
pub(super) struct Watched {
    counting: Arc<Counting>,
    worked: Worked,
}

/// The numbers of the workers that have computed.
type Worked = Arc<Mutex<BTreeSet<usize>>>;

/// A task of [`Counting`] for each clock. So a worker that continues another's work without its state makes the same
/// changes.
struct WatchedTask {
    counting: Arc<Counting>,
    worker: usize,
    seed: Seed,
    task: Box<dyn Task>,
    worked: Worked,
}

impl Watched {
    pub(super) fn new((rows, width, reads_all): (usize, usize, bool)) -> Self {
        let counting = Arc::new(Counting::new(rows, width, reads_all));
        Self { counting, worked: Worked::default() }
    }

    /// Whether a worker has computed anything.
    pub(super) fn has_begun(&self) -> bool {
        !self.worked.lock().unwrap().is_empty()
    }

    pub(super) fn has_worked(&self, plan: &Plan, worker: WorkerId) -> bool {
        self.worked.lock().unwrap().contains(&number(plan, worker))
    }

    /// The initial model, plus all changes of workers that stopped at these clocks.
    pub(super) fn total(&self, plan: &Plan, stopped: &BTreeMap<WorkerId, Clock>) -> Vec<f64> {
        let model = self.counting.initial_model(plan.seed.child("model"));
        let mut total: Vec<f64> = model.values.iter().map(|value| f64::from(*value)).collect();
        let TableLayout { rows, width, .. } = self.counting.layout().tables()[0];
        for (worker, until) in stopped {
            let worker = number(plan, *worker);
            let mut task = self.task(worker, plan.seed.child("tasks").nth(worker));
            for clock in (0..until.0).map(Clock) {
                task.rows(clock);
                let deltas = &task.iterate(clock, &model).expect("it counts").0.tables[0];
                for (row, values) in deltas.rows.iter(rows).zip(deltas.values.chunks(width)) {
                    let places = total[row as usize * width..].iter_mut();
                    places.zip(values).for_each(|(sum, value)| *sum += f64::from(*value));
                }
            }
        }
        total
    }
}

impl Application for Watched {
    fn layout(&self) -> &Arc<ModelLayout> {
        self.counting.layout()
    }

    fn initial_model(&self, seed: Seed) -> Model {
        self.counting.initial_model(seed)
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        let (counting, task) = (self.counting.clone(), self.counting.task(worker, seed));
        Box::new(WatchedTask { counting, worker, seed, task, worked: self.worked.clone() })
    }

    fn workers(&self) -> usize {
        self.counting.workers()
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        self.counting.sums(model, workers)
    }

    fn metric(&self) -> Metric {
        self.counting.metric()
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.counting.learning_rate_factor(clock)
    }

    fn clocks_per_pass(&self) -> u64 {
        self.counting.clocks_per_pass()
    }

    fn describe(&self) -> String {
        self.counting.describe()
    }

    /// All values, in a form that can be parsed.
    fn highlights(&self, model: &Model) -> Vec<String> {
        model.values.iter().map(f32::to_string).collect()
    }
}

impl Task for WatchedTask {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.task = self.counting.task(self.worker, self.seed.nth(clock.0 as usize));
        self.task.rows(clock)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        self.worked.lock().unwrap().insert(self.worker);
        self.task.iterate(clock, model)
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        self.task.probe(model, examples)
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        self.task.save(walk)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        self.task.restore(walk)
    }
}

fn number(plan: &Plan, worker: WorkerId) -> usize {
    plan.topology.first_worker(worker.dc) + usize::from(worker.index)
}
