//! The contract between an application and the workers that run it.

mod application_error;
mod attachment;
mod breakdown;
mod evaluation;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use crate::types::{
    Clock, DcId, Deltas, Model, ModelLayout, Persist, Restorer, RowSet, Saved, Saver, Seed,
    StateError,
};

pub use application_error::ApplicationError;
pub use attachment::Attachment;
pub use breakdown::{Breakdown, Classes, RatingError};
pub use evaluation::{
    Aggregation, Direction, Evaluation, EvaluationSums, Metric, TrivialPredictor, WeightedSum,
};
pub use names::{Name, Names, usual_number};

/// One machine-learning application over data that is already split among workers.
///
/// Workers are numbered over the whole run, data center by data center, in the topology's order.
pub trait Application: Send + Sync {
    /// The tables of the model.
    fn layout(&self) -> &Arc<ModelLayout>;

    /// The number of workers of the whole run.
    fn workers(&self) -> usize;

    /// The initial values of the parameters. They depend on the seed alone and are the same in every data center. The
    /// default is zeros.
    ///
    /// The model has no rows of sparse tables ([`Model::without_sparse_rows`]): those follow from the rules of the layout, and
    /// servers make their own.
    fn initial_model(&self, _seed: Seed) -> Model {
        Model::without_sparse_rows(self.layout().clone())
    }

    /// The task of one worker: its examples, and the order in which it visits them.
    ///
    /// Equal arguments must give tasks that behave equally. Otherwise a seed does not repeat a run.
    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task>;

    /// Evaluates one copy on the examples of some workers, those that train and those that are held out. Each example is
    /// one worker's, so that the sums of all workers are those of all data.
    ///
    /// In the real driver a process has the examples of its own data center alone, and is asked for no others. Of sparse
    /// tables the copy then has the rows of [`Self::evaluated_rows`] of the one worker; elsewhere it has all rows.
    ///
    /// # Errors
    /// Where the examples are gone, or what the application calls has failed. The run then ends with this error.
    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError>;

    /// The rows that an evaluation on the examples of one worker reads, and those that the worker has of the final model. Of
    /// tables that are not sparse it is every row. Asked once the worker has its task, and the same for as long as that lives.
    ///
    /// The default has no row of sparse tables.
    fn evaluated_rows(&self, _worker: usize) -> RowSet {
        RowSet::without_sparse_rows(self.layout())
    }

    /// How many parameters the iterations of some workers can change, those of sparse tables left out. What a run holds of the
    /// others is no more than their values.
    ///
    /// It is every parameter of tables that are not sparse by default, and for workers that there are not: plans over other
    /// machines are asked about, too.
    fn parameters_in_use(&self, _workers: Range<usize>) -> usize {
        self.layout().dense_parameters()
    }

    /// Evaluates one copy on the data of all data centers.
    ///
    /// # Errors
    /// As [`Self::sums`].
    fn evaluate(&self, model: &Model) -> Result<Evaluation, ApplicationError> {
        Ok(self.metric().evaluation(self.sums(model, 0..self.workers())?))
    }

    /// The same application with evaluations that cost little: of its objective alone, on a sample of the training examples.
    /// Short simulations that compare settings evaluate often and ask for nothing else.
    ///
    /// It trains as this one does, to the bit. The default is none, for applications whose evaluations cost little as they are.
    fn for_trials(&self) -> Option<Arc<dyn Application>> {
        None
    }

    /// The name of the held-out metric, how it follows from its mean, and its direction.
    fn metric(&self) -> Metric;

    /// The predictor that a model must beat to have learnt anything. The default is none, for applications that have none
    /// and processes that do not have all examples.
    ///
    /// # Errors
    /// As [`Self::sums`].
    fn trivial_predictor(&self) -> Result<Option<TrivialPredictor>, ApplicationError> {
        Ok(None)
    }

    /// The learning rate at a clock, divided by the learning rate at clock 0. The hard threshold decays with it. The
    /// default is 1, a constant rate.
    fn learning_rate_factor(&self, _clock: Clock) -> f64 {
        1.0
    }

    /// The momentum coefficient: the share of the last step that is added to the next one. Residuals are corrected for
    /// it. The default is 0, no momentum.
    fn momentum(&self) -> f64 {
        0.0
    }

    /// Whether deltas are changes of counts. Then each delta must be added exactly once and unscaled: neither a mean of
    /// counts nor a share of one has a meaning. The default is `false`.
    fn deltas_are_counts(&self) -> bool {
        false
    }

    /// Whether the deltas of each worker are its own step of the whole model, divided by the number of all workers. Local
    /// steps whose rounds agree on a mean then let a copy move by the whole steps of its own workers, as in local SGD. The
    /// default is `false`: a copy moves by what all workers that change a parameter would change, and homes count these.
    fn deltas_are_shares(&self) -> bool {
        false
    }

    /// Clocks in one pass over a worker's data, at least 1. A threshold that decays with passes uses it. The default is
    /// 1: each iteration visits all of a worker's data.
    fn clocks_per_pass(&self) -> u64 {
        1
    }

    /// One line that describes the data and the model: the source, the number of examples, the number of parameters.
    /// A checkpoint can only be continued by an application with the same description.
    fn describe(&self) -> String {
        format!("{} parameters", self.layout().parameters())
    }

    /// A digest of the examples of all workers, those that are held out among them, and of which worker has which. A checkpoint
    /// can only be continued on data with the same digest. The default is none, for applications that do not know their data.
    fn data_digest(&self) -> Option<u64> {
        None
    }

    /// Says which data centers take part, wherever each worker is a process: before its first iteration, and each time that
    /// one has joined, left or was given up.
    ///
    /// The default does nothing: right for tasks that repeat, since logs do not hold it. An application that divides changes
    /// by the number of workers divides by those of these data centers.
    fn handle_data_centers(&self, _present: &BTreeSet<DcId>) {}

    /// Hands the final copy of the model to workers of this process, once the run is over. After the drain all data centers
    /// have this copy. It is not called where the run has failed.
    ///
    /// The default does nothing: the run writes the model. An application that trains a model of its caller's puts the
    /// values there. As of [`Self::sums`], the copy may have the rows of [`Self::evaluated_rows`] alone.
    fn finish(&self, _model: &Model, _workers: Range<usize>) {}

    /// What predictions need beside the tables of the model, by name. It is written into the file of the model. Names
    /// differ from those of tables. The default is nothing.
    fn attachments(&self) -> BTreeMap<String, Attachment> {
        BTreeMap::new()
    }

    /// Where the final model is right and where it is wrong, over the held-out examples of all workers. The default is none,
    /// for applications that have no such view and processes that do not have all examples.
    ///
    /// # Errors
    /// As [`Self::sums`].
    fn breakdown(&self, _model: &Model) -> Result<Option<Breakdown>, ApplicationError> {
        Ok(None)
    }

    /// Lines that show what the model has learnt, the most informative first. The default is none: the figures of the
    /// evaluation are enough.
    fn highlights(&self, _model: &Model) -> Vec<String> {
        Vec::new()
    }
}

/// The part of an application that one worker runs, clock by clock.
pub trait Task: Send {
    /// Says, before the first iteration, after how many clocks at the latest all workers read what an iteration changes, at
    /// least 1. Changes of many workers that are added so late overshoot with steps that are sound at once. Not called
    /// where nobody knows a bound. The default takes no notice.
    fn expect_delay(&mut self, _clocks: u64) {}

    /// Says, before the first iteration, that reads have the changes of this data center at once and those of others clocks
    /// later. Then what every worker moves towards a value that it measures passes that value: each corrects again what others
    /// have corrected and it has not read yet. The default takes no notice.
    fn expect_late_changes(&mut self) {}

    /// The rows that the iteration starting at `clock` reads.
    fn rows(&mut self, clock: Clock) -> RowSet;

    /// Runs one iteration on the rows read and returns the deltas and the work done.
    ///
    /// `model` holds fresh values of the rows that [`Task::rows`] named. Other rows may be stale or zero; those of sparse
    /// tables it does not hold. The deltas
    /// are added to the model as they are, so they include the sign and the learning rate. They must fit the layout
    /// ([`Deltas::fits`]).
    ///
    /// # Errors
    /// Where the task cannot go on: its data is gone, or what it calls has failed. The run then ends with this error and the
    /// name of the worker, and the task is not used again.
    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError>;

    /// As [`Task::iterate`], where nobody may need the changes before a later iteration, and a task may keep them until then.
    ///
    /// `factor` is what the copy moves by where the model moves by 1, if nobody needs the changes of this iteration. A task
    /// that keeps its changes returns no deltas. The next deltas that it returns, here or from [`Task::hand_over`], have all
    /// changes since the last ones. While it keeps changes, `model` lacks them, and has what others have changed since the
    /// task read it: the task adds its own. `is_fresh` says whether the model differs from that of the iteration before.
    ///
    /// Called in place of [`Task::iterate`] where a worker and the server of its whole model are alone in a process. The
    /// default keeps nothing.
    ///
    /// # Errors
    /// As of [`Task::iterate`].
    fn iterate_keeping(
        &mut self,
        clock: Clock,
        model: &Model,
        _is_fresh: bool,
        _factor: Option<f32>,
    ) -> Result<(Option<Deltas>, Work), ApplicationError> {
        let (deltas, work) = self.iterate(clock, model)?;
        Ok((Some(deltas), work))
    }

    /// The changes that the task keeps, without another iteration: the worker has been stopped, or the task has ended.
    /// Called only after [`Task::iterate_keeping`] has returned no deltas.
    ///
    /// # Errors
    /// As of [`Task::iterate`], or if the task keeps none.
    fn hand_over(&mut self) -> Result<Deltas, ApplicationError> {
        Err(ApplicationError::new("the task keeps no changes"))
    }

    /// Whether an iteration that is run again, with the same clock and model after the same iterations, gives the same
    /// deltas to the bit. A worker whose task does not repeat keeps no log: after a crash it continues where its servers
    /// expect it. The default is `true`.
    fn repeats(&self) -> bool {
        true
    }

    /// The learning rate of the latest iteration, divided by the largest of the iterations so far: 0 to 1. The hard
    /// threshold decays with it in place of [`Application::learning_rate_factor`], at the rate of the data center's
    /// worker whose factor is largest.
    ///
    /// For tasks whose schedule the application does not know, such as a script's. The default is `None`.
    fn learning_rate_factor(&self) -> Option<f64> {
        None
    }

    /// Whether the task has no more to do. The run then ends in order, for all workers, and until it has stopped further
    /// iterations of this task change nothing. Asked after each iteration. The default is `false`: stop rules end the run.
    fn has_ended(&self) -> bool {
        false
    }

    /// The worker has stopped: it starts no further iteration, unless it is ordered to go on to a later clock. A task that
    /// computes together with those of other workers can then let them go. The default does nothing.
    fn on_stopped(&mut self) {}

    /// The mean loss of a complete, fresh copy over at most `examples` examples of this worker, and the work done.
    ///
    /// Every call uses the same examples, so that the losses of two copies can be compared. The loss excludes
    /// regularisation. It is 0 for a worker without examples.
    ///
    /// Called where copies travel: for the guard against skew (`[sync.remote] guard`), and in the real driver to look whether
    /// copies part without one. The default returns a loss of 0: with it no difference between copies is found.
    fn probe(&self, _model: &Model, _examples: usize) -> (f64, Work) {
        (0.0, Work::default())
    }

    /// Saves whatever iterations leave behind for later ones. A task that was created again and has restored this goes on as
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

/// The work of one iteration, as input of the cost model. The `[compute]` settings decide which figure becomes time.
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
