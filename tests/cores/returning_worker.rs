//! Workers that come back behind what they were, and what they then say of where they stop.

use std::sync::Arc;

use gaia::ml::{Task, Work};
use gaia::node::RowsRead;
use gaia::recovery::{RecoverableWorker, RecoveringWorker, Turn};
use gaia::types::{
    Clock, DcId, Deltas, Model, ModelLayout, RowSet, ShardId, ShardLayout, State, StateError,
    TableLayout, Walk, WorkerId,
};
use gaia::worker::Worker;

/// Reads everything and changes nothing.
struct Idler(Arc<ModelLayout>);

impl Task for Idler {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        RowSet::all(&self.0)
    }

    fn iterate(&mut self, _clock: Clock, _model: &Model) -> (Deltas, Work) {
        (Deltas::none(&self.0), Work::default())
    }

    fn probe(&self, _model: &Model, _examples: usize) -> (f64, Work) {
        (0.0, Work::default())
    }

    fn state(&mut self, _walk: &mut Walk<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

const SERVERS: [ShardId; 2] = [ShardId(0), ShardId(1)];

/// The worker of a data center with two servers, as its disk makes it.
fn worker(disk: Option<State>) -> RecoverableWorker {
    let table = TableLayout { name: "a".into(), rows: 4, width: 1 };
    let layout = Arc::new(ModelLayout::new(vec![table]));
    let layouts = SERVERS.map(|shard| ShardLayout::new(layout.clone(), shard, SERVERS.len()));
    let id = WorkerId { dc: DcId(0), index: 0 };
    let task = Box::new(Idler(layout.clone()));
    let worker = Worker::new(id, layout, layouts.into(), task, None);
    let mut worker = RecoveringWorker::new(worker, SERVERS.len());
    if let Some(state) = disk {
        worker.restore(state).unwrap();
    }
    worker.begin(false)
}

/// Answers what the worker reads at a clock, and has it compute.
fn pass(worker: &mut RecoverableWorker, clock: u64) {
    while worker.poll_message().is_some() {}
    let rows = RowsRead {
        clock: Clock(clock),
        values: vec![0.0; 2],
        held: Vec::new(),
        probes: Vec::new(),
    };
    for server in SERVERS {
        assert!(worker.handle_rows(server, rows.clone()));
    }
    let mut computing = worker.poll_compute().unwrap();
    computing.compute();
    worker.handle_ran(computing);
    worker.handle_computed();
    while worker.poll_message().is_some() {}
}

fn read_at(clock: u64) -> Turn {
    Turn { clock: Clock(clock), updates: false }
}

#[test]
fn a_worker_says_where_it_has_stopped_once_no_server_knows_of_more() {
    let mut before = worker(None);
    before.handle_start(None);
    for server in SERVERS {
        before.handle_due(server, read_at(0), false);
    }
    pass(&mut before, 0);
    let checkpoint = before.state().unwrap();
    pass(&mut before, 1);
    // The disk is lost, but for the checkpoint; a stop comes before any server is on the line.
    let mut back = worker(Some(checkpoint));
    back.handle_start(None);
    back.handle_stop(Clock(0));
    assert_eq!(back.stopped(), None);
    assert!(back.handle_joined(SERVERS[0], read_at(1)).len() < 2);
    assert_eq!(back.stopped(), None, "the other server may know of clock 2");
    back.handle_joined(SERVERS[1], read_at(2));
    assert_eq!(back.stopped(), None);
    back.handle_due(SERVERS[0], read_at(2), false);
    back.handle_due(SERVERS[1], read_at(2), false);
    assert_eq!(back.stopped(), Some(Clock(2)));
}

#[test]
fn a_worker_that_comes_back_with_its_state_has_stopped_where_it_had() {
    let mut before = worker(None);
    before.handle_start(None);
    for server in SERVERS {
        before.handle_due(server, read_at(0), false);
    }
    pass(&mut before, 0);
    before.handle_stop(Clock(0));
    assert_eq!(before.stopped(), Some(Clock(1)));
    let mut back = worker(before.state());
    assert_eq!(back.stopped(), None);
    for server in SERVERS {
        back.handle_joined(server, read_at(1));
    }
    assert_eq!(back.stopped(), Some(Clock(1)));
}

/// One server has lost what it knew and guesses; another knows that the worker, with a state of before, has gone on.
#[test]
fn a_worker_that_is_over_where_it_begins_anew_says_so_to_a_server_that_guesses() {
    let mut before = worker(None);
    before.handle_start(None);
    for server in SERVERS {
        before.handle_due(server, read_at(0), false);
    }
    while before.poll_message().is_some() {}
    let mut back = worker(before.state());
    back.handle_start(Some(Clock(8)));
    back.handle_stop(Clock(8));
    back.handle_joined(SERVERS[1], read_at(8));
    while back.poll_message().is_some() {}
    back.handle_joined(SERVERS[0], read_at(4));
    back.handle_due(SERVERS[1], read_at(8), false);
    back.handle_due(SERVERS[0], read_at(4), true);
    let said = std::iter::from_fn(|| back.poll_message());
    let said: Vec<_> = said.map(|(to, message)| (to, Turn::of(&message))).collect();
    assert_eq!(said, SERVERS.map(|server| (server, Some(read_at(8)))));
    assert_eq!(back.stopped(), Some(Clock(8)));
}

/// Where a worker that has nothing stops, whose servers say this is due.
fn check(dues: [(u64, bool); 2], stopped_before: Option<u64>, stops_at: u64) {
    let stopped_before = stopped_before.map(Clock);
    let mut worker = worker(None);
    worker.handle_start(stopped_before);
    worker.handle_stop(stopped_before.unwrap_or_default());
    for (server, (clock, guessed)) in SERVERS.into_iter().zip(dues) {
        worker.handle_joined(server, read_at(clock));
        worker.handle_due(server, read_at(clock), guessed);
    }
    let begins_at = dues.map(|(clock, _)| clock).into_iter().min().unwrap();
    for clock in begins_at..stops_at {
        pass(&mut worker, clock);
    }
    assert_eq!(worker.stopped(), Some(Clock(stops_at)), "{dues:?}, {stopped_before:?}");
}

#[test]
fn where_servers_guess_the_coordinator_knows_where_a_worker_has_stopped() {
    let known = |clock| (clock, false);
    let guess = |clock| (clock, true);
    check([guess(9), guess(9)], None, 9);
    check([guess(9), guess(9)], Some(7), 7);
    check([known(7), guess(9)], Some(7), 7);
    check([known(6), guess(9)], Some(7), 7);
    check([known(5), known(6)], Some(7), 7);
    check([known(5), known(6)], None, 6);
}
