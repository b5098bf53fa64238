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
use crate::node::{RowsRead, WorkerMessage};
use crate::persist;
use crate::store::{ShardDeltas, ShardRows};
use crate::sync::{GuardConfig, WaitReason};
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
    },
    /// Its task has no more to do, and no stop has arrived.
    Ended,
    /// With the read during which it was stopped. The worker continues it if it has to stop later after all.
    Stopped {
        reading: Option<Reading>,
    },
}

/// A read that not every server has answered.
#[derive(Serialize, Deserialize)]
struct Reading {
    requests: Vec<ShardRows>,
    replied: Vec<bool>,
    held: Vec<(WaitReason, Duration)>,
}

impl Worker {
    /// A worker that has not started. `layouts` are those of its data center's servers, by shard. `guard` has the
    /// settings of the guard against skew, and the initial model.
    pub fn new(
        id: WorkerId,
        layout: Arc<ModelLayout>,
        layouts: Vec<ShardLayout>,
        task: Box<dyn Task>,
        guard: Option<(&GuardConfig, &Model)>,
    ) -> Self {
        let prober = guard.map(|(guard, initial)| Prober::new(guard, initial, &*task));
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
        }
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
            reply.clock == self.clock
                && layout.is_some_and(|layout| {
                    reply.values.len() == reading.requests[shard].parameters(layout)
                        && reply.fits(layout)
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
        if takes_whole(&reading.requests) {
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

    /// Runs the iteration on the rows read and returns the work done. [`Self::handle_computed`] then sends the deltas.
    ///
    /// # Errors
    /// Where the task cannot go on. The worker must not be used then.
    ///
    /// # Panics
    /// Unless the worker has output [`WorkerOutput::Compute`].
    pub fn compute(&mut self) -> Result<Work, ApplicationError> {
        let State::Computing { deltas } = &mut self.state else {
            panic!("{} computes once it has read", self.id);
        };
        let (computed, mut work) = self.task.iterate(self.clock, &self.model)?;
        *deltas = Some(computed);
        if self.model.values.is_shared() {
            // It is a server's reply, whose memory the server can use again.
            self.model.values = SharedValues::default();
        }
        if let Some(prober) = &mut self.prober {
            work += prober.measure(&*self.task);
        }
        Ok(work)
    }

    /// Ends the iteration: outputs its deltas and begins the next iteration.
    ///
    /// # Panics
    /// Unless [`Self::compute`] was called before.
    pub fn handle_computed(&mut self) {
        let State::Computing { deltas } = &mut self.state else {
            panic!("{} finishes what it computes", self.id);
        };
        let deltas = deltas.take().expect("an iteration that ran has deltas");
        let probed = self.prober.as_mut().map_or_else(Vec::new, Prober::take_measured);
        for (shard, deltas) in ShardDeltas::split(deltas, &self.layouts).into_iter().enumerate() {
            let probed = probed.clone();
            let (clock, learning_rate_factor) = (self.clock, self.task.learning_rate_factor());
            let message = WorkerMessage::Update { clock, deltas, probed, learning_rate_factor };
            self.outputs
                .push_back(WorkerOutput::ToServer { shard: ShardId(shard as u16), message });
        }
        self.clock = self.clock.next();
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

    fn compute_once_read(&mut self) {
        let State::Reading(reading) = &mut self.state else { return };
        if reading.replied.iter().all(|replied| *replied) {
            self.held.append(&mut reading.held);
            self.state = State::Computing { deltas: None };
            self.outputs.push_back(WorkerOutput::Compute);
        }
    }

    /// Stops, unless an iteration runs. A read is suspended.
    fn rest(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle | State::Ended => self.stop(None),
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
        self.last.is_some_and(|last| self.clock >= last.max(self.owed))
    }

    fn begin(&mut self) {
        if self.is_over() {
            self.stop(None);
            return;
        }
        if self.last.is_none() && self.task.has_ended() {
            self.state = State::Ended;
            self.outputs.push_back(WorkerOutput::Ended { clock: self.clock });
            return;
        }
        self.read();
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
        for (shard, rows) in requests.iter().enumerate() {
            let message = WorkerMessage::Read { clock: self.clock, rows: rows.clone() };
            self.outputs
                .push_back(WorkerOutput::ToServer { shard: ShardId(shard as u16), message });
        }
        let replied = vec![false; requests.len()];
        self.state = State::Reading(Reading { requests, replied, held: Vec::new() });
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
            Self::Computing { deltas: Some(deltas) } => deltas.fits(layouts[0].model()),
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
