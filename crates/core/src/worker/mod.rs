//! A worker: in each clock it reads rows, runs one iteration and sends deltas.
//!
//! It decides when to read, iterate and update. It does not decide how fresh its reads are: the servers of its data
//! center hold back reads. Like the paper's workers, it communicates with its own data center only.

mod prober;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::application::{ApplicationError, Task, Work};
use crate::node::{RowsRead, Stretch, WorkerMessage};
use crate::persist;
use crate::store::{ShardDeltas, ShardRows};
use crate::sync::{TravelingConfig, WaitReason};
use crate::types::{
    Clock, Content, Deltas, Model, ModelLayout, ShardId, ShardLayout, SharedValues, TableRows,
    WorkerId,
};

use prober::Prober;

/// The state machine of one worker.
///
/// The driver starts it, passes in replies of servers, runs the iteration when the worker outputs
/// [`WorkerOutput::Compute`], and carries out the outputs after each call.
pub struct Worker {
    id: WorkerId,
    layouts: Vec<ShardLayout>,
    task: Box<dyn Task>,
    model: Model,
    clock: Clock,
    state: State,
    /// The clock at which to stop.
    last: Option<Clock>,
    /// The clock before which the worker does not stop.
    owed: Clock,
    outputs: VecDeque<WorkerOutput>,
    held: Vec<(WaitReason, Duration)>,
    prober: Option<Prober>,
    /// `None` if the task hands over the changes of each iteration.
    keeping: Option<Keeping>,
}

/// How a worker that is alone with its server lets its task keep changes.
#[derive(Debug, Default)]
struct Keeping {
    /// Whether the task keeps changes of finished iterations.
    keeps: bool,
    /// Whether the task kept changes at the current read.
    holds: bool,
    /// Whether the last answer had values.
    is_fresh: bool,
    /// Which iterations may keep their changes, as the last answer says.
    stretch: Option<Stretch>,
}

/// An action that the driver carries out for a worker.
#[derive(Clone, Debug)]
pub enum WorkerOutput {
    /// Send a message to a server of the worker's data center.
    ToServer {
        /// The server's shard.
        shard: ShardId,
        /// The message.
        message: WorkerMessage,
    },
    /// All rows were read: call [`Worker::compute`] at once, and [`Worker::handle_computed`] when its time is over.
    Compute,
    /// The task has no more to do. The worker starts no further iteration until it is told where to stop.
    Ended {
        /// The number of finished clocks.
        clock: Clock,
    },
    /// The worker has stopped and starts no further iteration.
    Stopped {
        /// The number of finished clocks.
        clock: Clock,
    },
}

#[derive(Serialize, Deserialize)]
enum State {
    Idle,
    Reading(Reading),
    Computing {
        deltas: Option<Deltas>,
        /// The clock of the values that were read.
        at: Clock,
    },
    /// Its task has no more to do, and no stop has arrived.
    Ended,
    /// With the read during which it was stopped. The worker continues it if it has to stop later after all.
    Stopped {
        reading: Option<Reading>,
    },
    /// It has been stopped, or its task has ended, and the task hands over the changes that it keeps. No state is saved of a
    /// worker whose task keeps changes.
    #[serde(skip)]
    HandingOver {
        deltas: Option<Deltas>,
    },
}

/// A read that not every server has answered.
#[derive(Serialize, Deserialize)]
struct Reading {
    requests: Vec<ShardRows>,
    replied: Vec<bool>,
    held: Vec<(WaitReason, Duration)>,
    /// The latest clock of the values, over the servers that have replied.
    at: Clock,
}

impl Worker {
    /// A worker that has not started. `layouts` are those of its data center's servers, by shard. `traveling` says how copies
    /// of others are measured, with the initial model. `None` if no copies travel.
    pub fn new(
        id: WorkerId,
        layout: Arc<ModelLayout>,
        layouts: Vec<ShardLayout>,
        task: Box<dyn Task>,
        traveling: Option<(TravelingConfig, &Model)>,
    ) -> Self {
        let prober =
            traveling.map(|(traveling, initial)| Prober::new(traveling.examples, initial, &*task));
        Self {
            prober,
            id,
            layouts,
            task,
            model: Model::without_sparse_rows(layout),
            clock: Clock::ZERO,
            state: State::Idle,
            last: None,
            owed: Clock::ZERO,
            outputs: VecDeque::new(),
            held: Vec::new(),
            keeping: None,
        }
    }

    /// The same worker, whose task may keep its changes while the server needs none of them ([`Task::iterate_keeping`]). It
    /// is the only worker of its data center, and in one process with the only server. A crash of the process loses what
    /// the task has kept.
    ///
    /// # Panics
    /// If the data center has several servers, or the task's iterations are run again after a crash.
    pub fn keeping_changes(self) -> Self {
        assert_eq!(self.layouts.len(), 1, "one server has all that a worker changes");
        assert!(!self.task.repeats(), "a state has no changes that a task has kept");
        Self { keeping: Some(Keeping::default()), ..self }
    }

    /// Begins the first iteration.
    ///
    /// # Panics
    /// If the worker has started.
    pub fn handle_start(&mut self) {
        assert!(matches!(self.state, State::Idle), "a worker starts once");
        self.begin();
    }

    /// Begins at a clock, as a worker that has lost its state.
    ///
    /// The worker does not stop before clock `owed`, which a server knows it to have finished. It sends a read even if
    /// it has nothing left to do, so that a server that does not know its clock receives it.
    ///
    /// # Panics
    /// If the worker has started.
    pub fn handle_take_up(&mut self, clock: Clock, owed: Clock) {
        assert!(matches!(self.state, State::Idle), "a worker starts once");
        (self.clock, self.owed) = (clock, owed);
        self.read();
        if self.is_over() {
            self.rest();
        }
    }

    /// Discards the current iteration, because servers have received updates that the worker does not know of. The
    /// driver then calls [`Self::handle_take_up`].
    pub fn handle_outrun(&mut self) {
        self.outputs.clear();
        self.state = State::Idle;
    }

    /// Whether this replies to a read that the server has not answered.
    pub fn expects(&self, from: ShardId, reply: &RowsRead) -> bool {
        let shard = from.index();
        self.state.reading().is_some_and(|reading| {
            let layout = self.layouts.get(shard);
            // A reply that was made before the worker has handed over lacks what it kept.
            let holds = self.keeping.as_ref().is_some_and(|keeping| keeping.holds);
            reply.clock == self.clock
                && (holds || !reply.keeps)
                && layout.is_some_and(|layout| {
                    let is_complete =
                        reply.values.len() == reading.requests[shard].parameters(layout);
                    (is_complete || reply.keeps && reply.values.is_empty()) && reply.fits(layout)
                })
                && !reading.replied[shard]
        })
    }

    /// Handles a server's reply to a read.
    ///
    /// # Panics
    /// If the worker does not expect the reply ([`Self::expects`]).
    pub fn handle_rows(&mut self, from: ShardId, reply: RowsRead) {
        let (State::Reading(reading) | State::Stopped { reading: Some(reading) }) = &mut self.state
        else {
            panic!("{} gets rows that it has not asked for", self.id);
        };
        assert_eq!(reply.clock, self.clock, "a reply answers the clock that asked");
        let shard = from.index();
        assert!(!reading.replied[shard], "a server answers once");
        reading.replied[shard] = true;
        reading.at = reading.at.max(reply.at);
        let has_values = reply.keeps && reply.values.is_empty();
        if let Some(keeping) = &mut self.keeping {
            (keeping.is_fresh, keeping.stretch) = (!has_values, reply.stretch);
        }
        if has_values {
            // They are those of the last answer.
        } else if takes_whole(&reading.requests) {
            self.model.values = reply.values;
        } else {
            reading.requests[shard].scatter(&reply.values, &self.layouts[shard], &mut self.model);
        }

        if let Some(prober) = &mut self.prober {
            for request in reply.probes {
                prober.on_request(from, &request, &self.layouts, self.model.layout());
            }
        }

        if total(&reply.held) > total(&reading.held) {
            reading.held = reply.held;
        }
        self.compute_once_read();
    }

    /// Runs the iteration on the rows read, or takes over what the task has kept, and returns the work done.
    /// [`Self::handle_computed`] then sends the deltas.
    ///
    /// # Errors
    /// Where the task cannot go on. The worker must not be used then.
    ///
    /// # Panics
    /// Unless the worker has output [`WorkerOutput::Compute`].
    pub fn compute(&mut self) -> Result<Work, ApplicationError> {
        let is_handing_over = matches!(self.state, State::HandingOver { .. });
        let (State::Computing { deltas, .. } | State::HandingOver { deltas }) = &mut self.state
        else {
            panic!("{} computes once it has read", self.id);
        };
        let mut work = Work::default();
        let computed = if is_handing_over {
            Some(self.task.hand_over()?)
        } else if let Some(keeping) = &self.keeping {
            let (is_fresh, factor) = (keeping.is_fresh, keeping.factor_at(self.clock));
            let (computed, done) =
                self.task.iterate_keeping(self.clock, &self.model, is_fresh, factor)?;
            work += done;
            computed
        } else {
            let (computed, done) = self.task.iterate(self.clock, &self.model)?;
            work += done;
            Some(computed)
        };

        let keeps = computed.is_none();
        if let Some(keeping) = &mut self.keeping {
            keeping.keeps = keeps;
        }
        *deltas = Some(computed.unwrap_or_else(|| Deltas::none(self.model.layout())));
        if self.model.values.is_shared() && !keeps {
            // It is a server's reply, whose memory the server can use again.
            self.model.values = SharedValues::default();
        }
        if let Some(prober) = self.prober.as_mut().filter(|_| !is_handing_over) {
            work += prober.measure(&*self.task);
        }
        Ok(work)
    }

    /// Ends the iteration: outputs its deltas and begins the next iteration. What the task has handed over ends no clock.
    ///
    /// # Panics
    /// Unless [`Self::compute`] was called before.
    pub fn handle_computed(&mut self) {
        let (deltas, finishes) = match &mut self.state {
            State::Computing { deltas, at } => (deltas, Some(*at)),
            State::HandingOver { deltas } => (deltas, None),
            _ => panic!("{} finishes what it computes", self.id),
        };
        let deltas = deltas.take().expect("an iteration that ran has deltas");
        match finishes {
            Some(at) => self.update(at, deltas),
            None => self.send_parts(deltas, |deltas| WorkerMessage::HandOver { deltas }),
        }
        self.begin();
    }

    /// Stops at clock `last`, or after the current iteration if that is later. A read beyond `last` is suspended. A
    /// worker that has stopped before a later `last` continues until there, and so does one whose task has ended.
    pub fn handle_stop(&mut self, last: Clock) {
        self.last = Some(last);
        if self.is_over() {
            self.rest();
            return;
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Stopped { reading: None } | State::Ended => self.begin(),
            State::Stopped { reading: Some(reading) } => {
                self.state = State::Reading(reading);
                self.compute_once_read();
            }
            state => self.state = state,
        }
    }

    /// The most bytes that the answer to a read can have. Copies to measure come with it where copies travel.
    pub(crate) fn answer_bytes_max(&self, server: ShardId, rows: &ShardRows) -> u64 {
        match self.prober {
            Some(_) => u64::MAX,
            None => RowsRead::lan_bytes_of(rows.parameters(&self.layouts[server.index()])),
        }
    }

    /// Whether iterations that are run again give the same deltas ([`Task::repeats`]).
    pub fn repeats(&self) -> bool {
        self.task.repeats()
    }

    /// The next action to carry out. `None` if there is none.
    pub fn poll_output(&mut self) -> Option<WorkerOutput> {
        self.outputs.pop_front()
    }

    /// The identifier of the worker.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The number of finished clocks.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// How long reads were held back for each reason since the last call. Of several servers, the one that held back
    /// the read longest counts.
    pub fn take_held(&mut self) -> Vec<(WaitReason, Duration)> {
        std::mem::take(&mut self.held)
    }

    /// Begins the iteration once all rows are read. A worker whose data center has reached the clock at which it stops,
    /// without it, finishes the clocks that it has missed up to there and stops, though others be further: it may have said
    /// before that it stopped there.
    fn compute_once_read(&mut self) {
        let State::Reading(reading) = &mut self.state else { return };
        if !reading.replied.iter().all(|replied| *replied) {
            return;
        }
        let at = reading.at;
        self.held.append(&mut reading.held);
        let is_missed = |stop: &Clock| self.clock < *stop && *stop <= at;
        if let Some(stop) = self.stops_at().filter(is_missed) {
            self.update(Clock(stop.0 - 1), Deltas::none(self.model.layout()));
            self.stop(None);
        } else {
            self.state = State::Computing { deltas: None, at };
            self.outputs.push_back(WorkerOutput::Compute);
        }
    }

    /// Sends the changes of the iteration that has started at clock `at`, and finishes that clock.
    fn update(&mut self, at: Clock, deltas: Deltas) {
        let probed = self.prober.as_mut().map_or_else(Vec::new, Prober::take_measured);
        let (clock, keeps) = (self.clock, self.keeps_changes());
        let learning_rate_factor = self.task.learning_rate_factor();
        self.send_parts(deltas, |deltas| {
            let probed = probed.clone();
            WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps }
        });
        self.clock = at.next();
    }

    /// Sends each server its part of the changes.
    fn send_parts(&mut self, deltas: Deltas, message: impl Fn(ShardDeltas) -> WorkerMessage) {
        for (shard, deltas) in ShardDeltas::split(deltas, &self.layouts).into_iter().enumerate() {
            self.send(shard, message(deltas));
        }
    }

    fn send(&mut self, shard: usize, message: WorkerMessage) {
        self.outputs.push_back(WorkerOutput::ToServer { shard: ShardId(shard as u16), message });
    }

    /// Stops, unless an iteration runs. A read is suspended, or given up for handing over what the task keeps: the answer may
    /// wait for a round that no data center begins any more.
    fn rest(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle | State::Ended => self.stop(None),
            State::Reading(_) if self.keeps_changes() => self.hand_over(),
            State::Reading(reading) => self.stop(Some(reading)),
            state => self.state = state,
        }
    }

    fn stop(&mut self, reading: Option<Reading>) {
        self.task.on_stopped();
        self.state = State::Stopped { reading };
        self.outputs.push_back(WorkerOutput::Stopped { clock: self.clock });
    }

    /// Whether no further iteration starts.
    fn is_over(&self) -> bool {
        self.stops_at().is_some_and(|stop| self.clock >= stop)
    }

    /// The clock at which the worker stops, if it was told to.
    fn stops_at(&self) -> Option<Clock> {
        self.last.map(|last| last.max(self.owed))
    }

    fn keeps_changes(&self) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| keeping.keeps)
    }

    fn begin(&mut self) {
        let has_ended = self.last.is_none() && self.task.has_ended();
        if (self.is_over() || has_ended) && self.keeps_changes() {
            self.hand_over();
        } else if self.is_over() {
            self.stop(None);
        } else if has_ended {
            self.state = State::Ended;
            self.outputs.push_back(WorkerOutput::Ended { clock: self.clock });
        } else {
            self.read();
        }
    }

    /// Begins to take over what the task keeps.
    fn hand_over(&mut self) {
        self.state = State::HandingOver { deltas: None };
        self.outputs.push_back(WorkerOutput::Compute);
    }

    fn read(&mut self) {
        let rows = self.task.rows(self.clock);
        let requests: Vec<ShardRows> =
            self.layouts.iter().map(|layout| ShardRows::of(&rows, layout)).collect();
        if self.model.layout().has_sparse_tables() {
            self.model.hold(&rows);
        } else if self.model.values.is_empty() && !takes_whole(&requests) {
            self.model = Model::zeros(self.model.layout().clone());
        }
        let holds = self.keeps_changes();
        assert!(!holds || takes_whole(&requests), "a task that keeps changes reads all rows");
        if let Some(keeping) = &mut self.keeping {
            keeping.holds = holds;
        }
        for (shard, rows) in requests.iter().enumerate() {
            self.send(shard, WorkerMessage::Read { clock: self.clock, rows: rows.clone() });
        }
        let (replied, at) = (vec![false; requests.len()], self.clock);
        self.state = State::Reading(Reading { requests, replied, held: Vec::new(), at });
    }
}

impl Keeping {
    /// What the copy moves by where the task's values move by 1, if the iteration that starts at `clock` may keep its
    /// changes.
    fn factor_at(&self, clock: Clock) -> Option<f32> {
        self.stretch.filter(|stretch| clock < stretch.hands_over_at).map(|stretch| stretch.factor)
    }
}

persist! {
    impl Persist<()> for Worker {
        fn walk(
            Self {
                id: _,
                layouts,
                task,
                model,
                clock,
                state,
                last,
                owed,
                outputs,
                held,
                prober,
                keeping: _,
            },
            walk,
            (),
        ) {
            assert!(outputs.is_empty(), "a state is whole once outputs are polled");
            walk.part("task", task, ())?;
            walk.record("clock", clock)?;
            walk.record_that("state", state, |found, _| found.fits(layouts))?;
            walk.record("last", last)?;
            walk.record("owed", owed)?;
            walk.record("held", held)?;

            let layout = model.layout().clone();
            let model = model.holding_what_is_read(state);
            if state.has_read() {
                let Model { values, .. } = model;
                walk.tensor("model", Content::Values, values)?;
            }
            match prober {
                Some(prober) => walk.part("prober", prober, (&layout, layouts.len())),
                None => Ok(()),
            }
        }
    }
}

/// The model of a worker whose state was saved, or has just been restored.
trait HoldingWhatIsRead {
    /// The same model. One that was made anew holds the rows of sparse tables that the state reads.
    fn holding_what_is_read(self, state: &State) -> Self;
}

impl HoldingWhatIsRead for &Model {
    fn holding_what_is_read(self, _: &State) -> Self {
        self
    }
}

impl HoldingWhatIsRead for &mut Model {
    fn holding_what_is_read(self, state: &State) -> Self {
        if let Some(reading) = state.reading()
            && self.layout().has_sparse_tables()
        {
            self.hold(&ShardRows::joined(&reading.requests));
        }
        self
    }
}

impl State {
    fn reading(&self) -> Option<&Reading> {
        match self {
            Self::Reading(reading) | Self::Stopped { reading: Some(reading) } => Some(reading),
            _ => None,
        }
    }

    /// Whether some servers have replied to the current read.
    fn has_read(&self) -> bool {
        self.reading().is_some_and(|reading| reading.replied.contains(&true))
    }

    /// Whether the rows and deltas of the state fit the shards.
    fn fits(&self, layouts: &[ShardLayout]) -> bool {
        let reads = self.reading().is_none_or(|reading| {
            let rows = reading.requests.iter().zip(layouts);
            reading.requests.len() == layouts.len()
                && reading.replied.len() == layouts.len()
                && rows.clone().all(|(rows, layout)| rows.fits(layout))
        });
        let computes = match self {
            Self::Computing { deltas: Some(deltas), .. } => deltas.fits(layouts[0].model()),
            _ => true,
        };
        reads && computes
    }
}

/// Whether the reply to the only request is the whole model, in its order.
fn takes_whole(requests: &[ShardRows]) -> bool {
    matches!(requests, [only] if only.tables().all(|(_, rows)| *rows == TableRows::All))
}

fn total(held: &[(WaitReason, Duration)]) -> Duration {
    held.iter().map(|(_, time)| *time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DcId, RowSet, TableDeltas, TableLayout};

    /// Changes its only parameter by 1 in each iteration, and keeps what it may.
    struct Counting {
        layout: Arc<ModelLayout>,
        kept: f32,
        ends_at: u64,
        clock: u64,
    }

    impl Counting {
        fn take(&mut self) -> Deltas {
            Deltas { tables: vec![TableDeltas::all(vec![std::mem::take(&mut self.kept)])] }
        }
    }

    impl Task for Counting {
        fn rows(&mut self, _: Clock) -> RowSet {
            RowSet::all(&self.layout)
        }

        fn iterate(&mut self, _: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
            panic!("the worker is alone with its server");
        }

        fn iterate_keeping(
            &mut self,
            clock: Clock,
            model: &Model,
            is_fresh: bool,
            factor: Option<f32>,
        ) -> Result<(Option<Deltas>, Work), ApplicationError> {
            assert_eq!(model.values.len(), 1, "the values that were read stay at hand");
            assert!(is_fresh || self.kept > 0.0, "values are left out while changes are kept");
            (self.kept, self.clock) = (self.kept + 1.0, clock.0 + 1);
            Ok((factor.is_none().then(|| self.take()), Work::default()))
        }

        fn hand_over(&mut self) -> Result<Deltas, ApplicationError> {
            Ok(self.take())
        }

        fn repeats(&self) -> bool {
            false
        }

        fn has_ended(&self) -> bool {
            self.clock >= self.ends_at
        }
    }

    /// A worker alone with its server, beside what the server answers.
    struct Alone {
        worker: Worker,
        /// Whether the worker keeps changes that the server lacks.
        keeps: bool,
    }

    impl Alone {
        fn new(ends_at: u64) -> Self {
            let table = TableLayout { name: "a".into(), rows: 1, width: 1 };
            let layout = Arc::new(ModelLayout::new(vec![table]));
            let task = Counting { layout: layout.clone(), kept: 0.0, ends_at, clock: 0 };
            let layouts = ShardLayout::all(&layout, 1);
            let id = WorkerId { dc: DcId(0), index: 0 };
            let worker = Worker::new(id, layout, layouts, Box::new(task), None);
            let mut worker = worker.keeping_changes();
            worker.handle_start();
            Self { worker, keeps: false }
        }

        /// The server's answer to the read at `clock`, which lets the worker keep changes up to another clock.
        fn answer(&self, clock: Clock, hands_over_at: u64) -> RowsRead {
            let values = if self.keeps { SharedValues::default() } else { vec![0.0].into() };
            let stretch = Stretch { hands_over_at: Clock(hands_over_at), factor: 1.0 };
            let (held, probes, keeps, stretch) =
                (Vec::new(), Vec::new(), self.keeps, Some(stretch));
            RowsRead { clock, at: clock, values, held, probes, keeps, stretch }
        }

        fn read(&mut self) -> Clock {
            match self.worker.poll_output() {
                Some(WorkerOutput::ToServer {
                    message: WorkerMessage::Read { clock, .. }, ..
                }) => clock,
                other => panic!("{other:?}"),
            }
        }

        /// Runs what the worker wants to run. Returns what it sends: the clock that it has finished, if it has, and the sum
        /// of the changes.
        fn run(&mut self) -> (Option<Clock>, f32) {
            assert!(matches!(self.worker.poll_output(), Some(WorkerOutput::Compute)));
            self.worker.compute().unwrap();
            self.worker.handle_computed();
            let Some(WorkerOutput::ToServer { message, .. }) = self.worker.poll_output() else {
                panic!("what has run is sent");
            };
            let (clock, keeps, deltas) = match message {
                WorkerMessage::Update { clock, keeps, deltas, .. } => (Some(clock), keeps, deltas),
                WorkerMessage::HandOver { deltas } => (None, false, deltas),
                other => panic!("{other:?}"),
            };
            self.keeps = keeps;
            (clock, deltas.tables().map(|(_, changes)| changes.values.iter().sum::<f32>()).sum())
        }

        /// Answers the read of a worker, and runs the iteration. Returns what it hands over.
        fn turn(&mut self, hands_over_at: u64) -> f32 {
            let clock = self.read();
            let answer = self.answer(clock, hands_over_at);
            assert!(self.worker.expects(ShardId(0), &answer));
            self.worker.handle_rows(ShardId(0), answer);
            let (finished, changes) = self.run();
            assert_eq!(finished, Some(clock));
            changes
        }

        fn stopped(&mut self) -> Option<u64> {
            match self.worker.poll_output() {
                Some(WorkerOutput::Stopped { clock }) => Some(clock.0),
                _ => None,
            }
        }
    }

    #[test]
    fn changes_are_kept_until_the_clock_that_hands_them_over() {
        let mut alone = Alone::new(u64::MAX);
        assert_eq!([2, 2, 2, 5, 5].map(|at| alone.turn(at)), [0.0, 0.0, 3.0, 0.0, 0.0]);
    }

    #[test]
    fn a_worker_that_is_stopped_hands_over_what_it_has_kept_without_another_clock_or_answer() {
        let mut alone = Alone::new(u64::MAX);
        assert_eq!([9, 9].map(|at| alone.turn(at)), [0.0; 2]);
        assert_eq!(alone.read(), Clock(2));
        alone.worker.handle_stop(Clock(2));
        assert_eq!(alone.run(), (None, 2.0));
        assert_eq!(alone.stopped(), Some(2));
    }

    #[test]
    fn a_worker_that_is_stopped_while_it_computes_hands_over_after_it() {
        let mut alone = Alone::new(u64::MAX);
        let clock = alone.read();
        let answer = alone.answer(clock, 9);
        alone.worker.handle_rows(ShardId(0), answer);
        alone.worker.handle_stop(Clock(0));
        assert_eq!(alone.run(), (Some(clock), 0.0));
        assert_eq!(alone.run(), (None, 1.0));
        assert_eq!(alone.stopped(), Some(1));
    }

    /// The answer to the read that was given up lacks what was kept. A worker that took it would lose that.
    #[test]
    fn a_worker_that_goes_on_after_it_has_handed_over_reads_again() {
        let mut alone = Alone::new(u64::MAX);
        assert_eq!(alone.turn(9), 0.0);
        let clock = alone.read();
        let mut early = alone.answer(clock, 9);
        alone.worker.handle_stop(Clock(1));
        assert_eq!(alone.run(), (None, 1.0));
        assert_eq!(alone.stopped(), Some(1));
        alone.worker.handle_stop(Clock(2));
        assert!(!alone.worker.expects(ShardId(0), &early));
        early.values = vec![0.0].into();
        assert!(!alone.worker.expects(ShardId(0), &early));
        assert_eq!(alone.turn(9), 0.0);
        assert_eq!(alone.run(), (None, 1.0));
        assert_eq!(alone.stopped(), Some(2));
    }

    #[test]
    fn a_task_that_ends_hands_over_what_it_has_kept_before_the_worker_says_so() {
        let mut alone = Alone::new(2);
        assert_eq!([9, 9].map(|at| alone.turn(at)), [0.0; 2]);
        assert_eq!(alone.run(), (None, 2.0));
        let ended = alone.worker.poll_output();
        assert!(matches!(ended, Some(WorkerOutput::Ended { clock: Clock(2) })), "{ended:?}");
    }
}
