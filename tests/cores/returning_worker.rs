//! Workers that come back behind what they were, and what they then say of where they stop.

use std::sync::Arc;

use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::{Logging, RecoverableWorker, RecoveringWorker, RequestSeq};
use gaia_core::types::{
    Clock, DcId, Deltas, Model, ModelLayout, RowSet, ShardId, ShardLayout, State, TableLayout,
    WorkerId,
};
use gaia_core::worker::Worker;

/// Reads everything and changes nothing.
struct Idler(Arc<ModelLayout>);

impl Task for Idler {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        RowSet::all(&self.0)
    }

    fn iterate(
        &mut self,
        _clock: Clock,
        _model: &Model,
    ) -> Result<(Deltas, Work), ApplicationError> {
        Ok((Deltas::none(&self.0), Work::default()))
    }
}

const SERVERS: [ShardId; 2] = [ShardId(0), ShardId(1)];

/// The worker of a data center with two servers, as its disk makes it.
fn worker(disk: Option<State>) -> RecoverableWorker {
    logged_worker(disk, Logging::Off)
}

fn logged_worker(disk: Option<State>, logging: Logging) -> RecoverableWorker {
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
    worker.begin(logging)
}

/// A worker that has begun at the first clock.
fn begun() -> RecoverableWorker {
    let mut worker = worker(None);
    worker.handle_start(None);
    for server in SERVERS {
        worker.handle_due(server, read_at(0), false);
    }
    worker
}

/// A worker that reads at clock 1, which the first server has answered.
fn halfway() -> RecoverableWorker {
    let mut worker = worker(None);
    worker.handle_start(None);
    for server in SERVERS {
        assert!(matches!(*worker.handle_joined(server, turn(0, false)), [WorkerMessage::Reset]));
        worker.handle_due(server, turn(0, false), false);
    }
    pass(&mut worker, 0);
    answer(&mut worker, SERVERS[0], 1);
    worker
}

/// Answers what the worker reads at a clock, and has it compute.
fn pass(worker: &mut RecoverableWorker, clock: u64) {
    said(worker);
    SERVERS.into_iter().for_each(|server| answer(worker, server, clock));
    compute(worker);
    said(worker);
}

fn answer(worker: &mut RecoverableWorker, from: ShardId, clock: u64) {
    let (values, held, probes) = (vec![0.0; 2].into(), Vec::new(), Vec::new());
    let (clock, at) = (Clock(clock), Clock(clock));
    let rows = RowsRead { clock, at, values, held, probes, keeps: false, stretch: None };
    assert!(worker.handle_rows(from, rows));
}

fn compute(worker: &mut RecoverableWorker) {
    let mut computing = worker.poll_compute().unwrap();
    computing.compute().unwrap();
    worker.handle_ran(computing);
    worker.handle_computed();
}

/// What the worker has said since it was last asked.
fn said(worker: &mut RecoverableWorker) -> Vec<(ShardId, Option<RequestSeq>)> {
    let said = std::iter::from_fn(|| worker.poll_message());
    said.map(|(to, message)| (to, RequestSeq::of(&message))).collect()
}

fn turn(clock: u64, updates: bool) -> RequestSeq {
    RequestSeq { clock: Clock(clock), updates }
}

fn read_at(clock: u64) -> RequestSeq {
    turn(clock, false)
}

#[test]
fn a_worker_says_where_it_has_stopped_once_no_server_knows_of_more() {
    let mut before = begun();
    pass(&mut before, 0);
    let checkpoint = before.begin_checkpoint(State::default()).unwrap();
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
    let mut before = begun();
    pass(&mut before, 0);
    before.handle_stop(Clock(0));
    assert_eq!(before.stopped(), Some(Clock(1)));
    let mut back = worker(before.begin_checkpoint(State::default()));
    assert_eq!(back.stopped(), None);
    for server in SERVERS {
        back.handle_joined(server, read_at(1));
    }
    assert_eq!(back.stopped(), Some(Clock(1)));
}

/// One server has lost what it knew and guesses; another knows that the worker, with a state of before, has gone on.
#[test]
fn a_worker_that_is_over_where_it_is_reset_says_so_to_a_server_that_guesses() {
    let mut before = begun();
    said(&mut before);
    let mut back = worker(before.begin_checkpoint(State::default()));
    back.handle_start(Some(Clock(8)));
    back.handle_stop(Clock(8));
    back.handle_joined(SERVERS[1], read_at(8));
    said(&mut back);
    back.handle_joined(SERVERS[0], read_at(4));
    back.handle_due(SERVERS[1], read_at(8), false);
    back.handle_due(SERVERS[0], read_at(4), true);
    assert_eq!(said(&mut back), SERVERS.map(|server| (server, Some(read_at(8)))));
    assert_eq!(back.stopped(), Some(Clock(8)));
}

/// Its servers have answered reads, as far as they know. The answers may have been on its disk, or too long for that.
#[test]
fn a_worker_whose_answers_may_not_have_been_written_asks_where_it_is() {
    for (bulky, asks) in [(1, true), (1_000, false)] {
        let mut before = begun();
        said(&mut before);
        let checkpoint = before.begin_checkpoint(State::default());
        let mut back = logged_worker(checkpoint, Logging::Deferred { bulky, bytes_max: 0 });
        let sent = SERVERS.map(|server| back.handle_joined(server, turn(0, true)));
        let resets = |sent: &Vec<WorkerMessage>| matches!(**sent, [WorkerMessage::Reset]);
        assert_eq!(sent.each_ref().map(resets), [asks; 2], "{sent:?}");
    }
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

#[test]
fn a_server_that_another_process_took_back_is_asked_again_together_with_the_others() {
    // It waits for the update, as this worker left it.
    let mut worker = halfway();
    assert!(worker.handle_joined(SERVERS[0], turn(1, true)).is_empty());
    assert_eq!(worker.handle_joined(SERVERS[1], turn(0, true)).len(), 2);
    // Another began again, and was gone before it read; or after, where the second lacked an update.
    for due in [turn(1, false), turn(0, true), turn(0, false)] {
        let mut worker = halfway();
        let reset = worker.handle_joined(SERVERS[0], due);
        assert!(matches!(*reset, [WorkerMessage::Reset]), "{due}: {reset:?}");
        assert_eq!(said(&mut worker), [(SERVERS[1], None)], "{due}");
        worker.handle_due(SERVERS[0], turn(1, false), false);
        worker.handle_due(SERVERS[1], turn(0, false), false);
        let read = Some(turn(0, false));
        assert_eq!(said(&mut worker), SERVERS.map(|server| (server, read)), "{due}");
    }
}

#[test]
fn one_whose_work_another_has_done_stops_where_its_servers_know_it_to_be() {
    let mut worker = halfway();
    worker.handle_stop(Clock::ZERO);
    assert_eq!(worker.stopped(), Some(Clock(1)));
    worker.handle_back();
    worker.handle_stop(Clock::ZERO);
    assert_eq!(worker.stopped(), None, "what it knew of its servers counts no more");
    for server in SERVERS {
        assert!(matches!(*worker.handle_joined(server, turn(5, true)), [WorkerMessage::Reset]));
    }
    SERVERS.into_iter().for_each(|server| worker.handle_due(server, turn(5, false), false));
    assert_eq!(worker.stopped(), Some(Clock(5)));
    // One that has not begun asks again, too.
    let mut blank = halfway();
    blank.handle_back();
    blank.handle_due(SERVERS[0], turn(1, false), false);
    said(&mut blank);
    blank.handle_back();
    assert_eq!(said(&mut blank), SERVERS.map(|server| (server, None)));
    blank.handle_due(SERVERS[1], turn(1, false), false);
    assert!(said(&mut blank).is_empty());
}

#[test]
fn one_that_has_stopped_goes_through_again_what_a_server_was_taken_back_to() {
    let mut worker = halfway();
    answer(&mut worker, SERVERS[1], 1);
    worker.handle_stop(Clock(2));
    compute(&mut worker);
    assert_eq!(worker.stopped(), Some(Clock(2)));
    said(&mut worker);
    for server in SERVERS {
        worker.handle_joined(server, turn(2, false));
        assert_eq!(worker.stopped(), Some(Clock(2)), "as it was left");
    }
    worker.handle_joined(SERVERS[0], turn(1, true));
    assert_eq!(worker.stopped(), None);
}
