//! A worker: reads rows, runs one iteration, sends deltas; clock by clock.
//!
//! It decides when to read, iterate and update, and nothing about freshness: its data center's servers hold back
//! what may not be read yet. Like the paper's workers it talks to its own data center alone.

mod prober;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::application::{Task, Work};
use crate::node::{RowsRead, WorkerMessage};
use crate::persist;
use crate::store::{ShardDeltas, ShardRows};
use crate::sync::{GuardConfig, WaitReason};
use crate::types::{Clock, Content, Deltas, Model, ModelLayout, ShardId, ShardLayout, WorkerId};

use prober::Prober;

/// One worker.
pub struct Worker {
    id: WorkerId,
    layouts: Vec<ShardLayout>,
    task: Box<dyn Task>,
    model: Model,
    clock: Clock,
    state: State,
    /// The clock at which to stop.
    last: Option<Clock>,
    /// What is to be finished before any stop.
    owed: Clock,
    outputs: VecDeque<WorkerOutput>,
    held: Vec<(WaitReason, Duration)>,
    prober: Option<Prober>,
}

/// What a worker wants done.
#[derive(Clone, Debug)]
pub enum WorkerOutput {
    ToServer {
        shard: ShardId,
        message: WorkerMessage,
    },
    /// Everything read: call [`Worker::compute`] now and [`Worker::handle_computed`] when its time is over.
    Compute,
    /// No further iteration will start; `clock` are finished.
    Stopped {
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
    /// With the read that it was stopped in, which is taken up again where the worker must go on after all.
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
    /// `layouts` are those of the data center's servers, by shard; `guard` is the run's, with the model before training.
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
            model: Model::zeros(layout),
            clock: Clock::ZERO,
            state: State::Idle,
            last: None,
            owed: Clock::ZERO,
            outputs: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Begins the first iteration.
    pub fn handle_start(&mut self) {
        assert!(matches!(self.state, State::Idle), "a worker starts once");
        self.begin();
    }

    /// Begins at a clock, as a worker that has nothing of what it did before. It does not stop before `owed`, which a
    /// server knows it to have finished, and reads though it may be over: a server that has guessed the clock hears it so.
    pub fn handle_take_up(&mut self, clock: Clock, owed: Clock) {
        assert!(matches!(self.state, State::Idle), "a worker starts once");
        (self.clock, self.owed) = (clock, owed);
        self.read();
        if self.is_over() {
            self.rest();
        }
    }

    /// Lets go of the iteration that it is at: servers know of more than it does itself. It is to take up its work anew.
    pub fn handle_outrun(&mut self) {
        self.outputs.clear();
        self.state = State::Idle;
    }

    /// Whether this answers what a server was asked and has not answered.
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

    /// Takes rows from a server.
    pub fn handle_rows(&mut self, from: ShardId, reply: RowsRead) {
        let (State::Reading(reading) | State::Stopped { reading: Some(reading) }) = &mut self.state
        else {
            panic!("{} gets rows that it has not asked for", self.id);
        };
        assert_eq!(reply.clock, self.clock, "a reply answers the clock that asked");
        let shard = from.index();
        assert!(!reading.replied[shard], "a server answers once");
        reading.replied[shard] = true;
        reading.requests[shard].scatter(&reply.values, &self.layouts[shard], &mut self.model);

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

    /// Runs the iteration on what was read and returns the work done. The deltas leave with
    /// [`Self::handle_computed`].
    pub fn compute(&mut self) -> Work {
        let State::Computing { deltas } = &mut self.state else {
            panic!("{} computes once it has read", self.id);
        };
        let (computed, mut work) = self.task.iterate(self.clock, &self.model);
        *deltas = Some(computed);
        if let Some(prober) = &mut self.prober {
            work += prober.measure(&*self.task);
        }
        work
    }

    /// The iteration's time is over: its deltas leave, and the next iteration begins.
    pub fn handle_computed(&mut self) {
        let State::Computing { deltas } = &mut self.state else {
            panic!("{} finishes what it computes", self.id);
        };
        let deltas = deltas.take().expect("an iteration that ran has deltas");
        let probed = self.prober.as_mut().map_or_else(Vec::new, Prober::take_measured);
        for (shard, deltas) in ShardDeltas::split(deltas, &self.layouts).into_iter().enumerate() {
            let probed = probed.clone();
            let message = WorkerMessage::Update { clock: self.clock, deltas, probed };
            self.outputs
                .push_back(WorkerOutput::ToServer { shard: ShardId(shard as u16), message });
        }
        self.clock = self.clock.next();
        self.begin();
    }

    /// Stops at clock `last`, or after the iteration at work where that is later; a read beyond it is laid aside.
    /// A worker that has stopped before a later `last` goes on until there.
    pub fn handle_stop(&mut self, last: Clock) {
        self.last = Some(last);
        if self.is_over() {
            self.rest();
            return;
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Stopped { reading: None } => self.begin(),
            State::Stopped { reading: Some(reading) } => {
                self.state = State::Reading(reading);
                self.compute_once_read();
            }
            state => self.state = state,
        }
    }

    pub fn poll_output(&mut self) -> Option<WorkerOutput> {
        self.outputs.pop_front()
    }

    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Clocks finished.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// How long reads were held back, and why: of several servers, the one that held back longest.
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

    /// Stops, unless an iteration runs; a read is laid aside.
    fn rest(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.stop(None),
            State::Reading(reading) => self.stop(Some(reading)),
            state => self.state = state,
        }
    }

    fn stop(&mut self, reading: Option<Reading>) {
        self.state = State::Stopped { reading };
        self.outputs.push_back(WorkerOutput::Stopped { clock: self.clock });
    }

    /// Whether no further iteration is to start.
    fn is_over(&self) -> bool {
        self.last.is_some_and(|last| self.clock >= last.max(self.owed))
    }

    fn begin(&mut self) {
        if self.is_over() {
            self.stop(None);
            return;
        }
        self.read();
    }

    fn read(&mut self) {
        let rows = self.task.rows(self.clock);
        let requests: Vec<ShardRows> =
            self.layouts.iter().map(|layout| ShardRows::of(&rows, layout)).collect();
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

impl State {
    fn reading(&self) -> Option<&Reading> {
        match self {
            Self::Reading(reading) | Self::Stopped { reading: Some(reading) } => Some(reading),
            _ => None,
        }
    }

    /// Whether some rows are here and others are not.
    fn has_read(&self) -> bool {
        self.reading().is_some_and(|reading| reading.replied.contains(&true))
    }

    /// Whether this is about rows that the shards have.
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

fn total(held: &[(WaitReason, Duration)]) -> Duration {
    held.iter().map(|(_, time)| *time).sum()
}
