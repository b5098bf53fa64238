//! [`Counting`], which also says how far its tasks came and what the agreed model is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::config::Plan;
use crate::faults::application::Counting;
use crate::ml::{Application, Evaluation, Metric, Task, Work};
use crate::types::{Clock, Deltas, Model, ModelLayout, RowSet, Seed, StateError, Walk};

/// The clocks that workers have finished, by number. One that comes back begins anew: it computes again what it had said.
type Computed = Arc<Mutex<BTreeMap<usize, Clock>>>;

#[derive(Debug)]
pub(super) struct Watched {
    counting: Counting,
    computed: Computed,
}

struct WatchedTask {
    worker: usize,
    task: Box<dyn Task>,
    computed: Computed,
}

impl Watched {
    pub(super) fn new((rows, width, reads_all): (usize, usize, bool)) -> Self {
        Self { counting: Counting::new(rows, width, reads_all), computed: Computed::default() }
    }

    /// What the model began with, and all that workers have changed.
    pub(super) fn total(&self, plan: &Plan) -> Vec<f64> {
        let model = self.counting.initial_model(plan.seed.child("model"));
        let mut total: Vec<f64> = model.values.iter().map(|value| f64::from(*value)).collect();
        let width = self.counting.layout().tables()[0].width;
        for (worker, until) in self.computed.lock().unwrap().iter() {
            let mut task = self.counting.task(*worker, plan.seed.child("tasks").nth(*worker));
            for clock in (0..until.0).map(Clock) {
                task.rows(clock);
                let deltas = &task.iterate(clock, &model).0.tables[0];
                for (row, values) in deltas.rows.iter().zip(deltas.values.chunks(width)) {
                    let places = total[*row as usize * width..].iter_mut();
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
        let (task, computed) = (self.counting.task(worker, seed), self.computed.clone());
        computed.lock().unwrap().insert(worker, Clock::ZERO);
        Box::new(WatchedTask { worker, task, computed })
    }

    fn evaluate(&self, model: &Model) -> Evaluation {
        self.counting.evaluate(model)
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

    /// Every value, as it reads back.
    fn highlights(&self, model: &Model) -> Vec<String> {
        model.values.iter().map(f32::to_string).collect()
    }
}

impl Task for WatchedTask {
    fn rows(&mut self, clock: Clock) -> RowSet {
        self.task.rows(clock)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> (Deltas, Work) {
        self.computed.lock().unwrap().insert(self.worker, clock.next());
        self.task.iterate(clock, model)
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        self.task.probe(model, examples)
    }

    fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        self.task.state(walk)
    }
}
