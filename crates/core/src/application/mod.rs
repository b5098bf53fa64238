//! The contract between an application and the workers that run it.

use std::ops::AddAssign;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::{
    Clock, Deltas, Model, ModelLayout, Persist, Restorer, RowSet, Saved, Saver, Seed, StateError,
};

/// One machine-learning application over data that is already split among workers.
///
/// Workers are numbered over the whole run, data center by data center, in the topology's order.
pub trait Application: Send + Sync {
    /// The tables of the model.
    fn layout(&self) -> &Arc<ModelLayout>;

    /// The values training starts from: the same in every data center, and decided by the seed. The default is zeros.
    fn initial_model(&self, _seed: Seed) -> Model {
        Model::zeros(self.layout().clone())
    }

    /// The task of one worker: its own examples, its own order of visiting them. Equal arguments have to give tasks that
    /// do the same, or a seed does not repeat a run.
    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task>;

    /// The training objective over all data of all data centers, and the held-out metric, of one copy.
    fn evaluate(&self, model: &Model) -> Evaluation;

    /// Name and direction of the held-out metric.
    fn metric(&self) -> Metric;

    /// The learning rate at a clock, relative to the first: what the hard threshold decays with. The default is 1, a rate
    /// that stays as it is.
    fn learning_rate_factor(&self, _clock: Clock) -> f64 {
        1.0
    }

    /// The share of the last step that goes into the next, 0 where there is none: what residuals are corrected
    /// for.
    fn momentum(&self) -> f64 {
        0.0
    }

    /// Whether deltas change counts: then every one of them must be added once, as it is. Neither a mean of them nor
    /// a share of one counts anything.
    fn deltas_are_counts(&self) -> bool {
        false
    }

    /// Clocks in one pass over a worker's data, at least 1: what a threshold that falls with passes counts in. The default
    /// is 1, where each iteration goes over all of it.
    fn clocks_per_pass(&self) -> u64 {
        1
    }

    /// A line for people: what data, how many examples, how many parameters. It is part of what a checkpoint belongs to.
    fn describe(&self) -> String {
        format!("{} parameters", self.layout().parameters())
    }

    /// Lines for people: what was learnt, the most telling first. None unless an application has something to tell
    /// that its figures do not.
    fn highlights(&self, _model: &Model) -> Vec<String> {
        Vec::new()
    }
}

/// The part of an application that one worker runs, clock by clock.
pub trait Task: Send {
    /// The rows that the iteration starting at `clock` reads.
    fn rows(&mut self, clock: Clock) -> RowSet;

    /// Runs one iteration on the rows read and returns the deltas and the work done.
    ///
    /// `model` holds fresh values for the rows that [`Task::rows`] named; other rows may be stale or zero. The deltas are
    /// what is to be added to the model: the sign and the learning rate are in them. They have to fit the layout
    /// ([`Deltas::fits`]).
    fn iterate(&mut self, clock: Clock, model: &Model) -> (Deltas, Work);

    /// The mean loss of a copy, whole and fresh, over at most `examples` of this worker's own: always the same ones,
    /// whatever the copy, so that two copies can be told apart. What the objective adds for regularisation is left out.
    /// 0 for a worker without examples.
    ///
    /// Only the guard against skew (`[sync.remote] guard`) asks for it. The default measures nothing and returns a loss
    /// of 0: a guard over such a task never finds a difference between copies.
    fn probe(&self, _model: &Model, _examples: usize) -> (f64, Work) {
        (0.0, Work::default())
    }

    /// Saves whatever iterations leave behind for later ones. A task that was made anew and has restored this goes on as
    /// the one that has saved it, to the bit. Called between iterations, and after [`Task::rows`] as well as before.
    ///
    /// The default keeps nothing: right where a clock and a seed say what an iteration does. A task that keeps more,
    /// such as momentum or a generator of random numbers, and leaves it out here does not continue exactly from a
    /// checkpoint.
    ///
    /// # Errors
    /// Never.
    fn save(&self, _walk: &mut Saver<'_>) -> Saved {
        Ok(())
    }

    /// Restores the fields that [`Task::save`] saves, by the same methods under the same names.
    ///
    /// # Errors
    /// Where what is restored does not fit the task.
    fn restore(&mut self, _walk: &mut Restorer<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Persist for dyn Task {
    fn save(&self, walk: &mut Saver<'_>, (): ()) -> Saved {
        Task::save(self, walk)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, (): ()) -> Result<(), StateError> {
        Task::restore(self, walk)
    }
}

/// What one iteration cost, for the cost model: `[compute]` says which of the two is turned into time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Examples visited.
    pub examples: u64,
    /// Floating-point operations.
    pub flops: f64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.examples += other.examples;
        self.flops += other.flops;
    }
}

/// How good one copy of the model is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The training objective over all data centers' data; lower is better.
    pub objective: f64,
    /// The held-out metric, as [`Metric`] names it.
    pub metric: f64,
}

/// A held-out metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As reports show it, such as `rmse`.
    pub name: &'static str,
    /// Which way it improves.
    pub direction: Direction,
}

/// Which way a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
}
