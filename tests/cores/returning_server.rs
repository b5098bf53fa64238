//! A server that comes back from a checkpoint gives the answer that it gave before.

use std::sync::Arc;

use gaia_core::codec::ValueFormat;
use gaia_core::node::RowsRead;
use gaia_core::recovery::{Logging, Output, RecoverableServer, RecoveringServer, RequestOrder};
use gaia_core::session::Incarnation;
use gaia_core::sync::LocalSync;
use gaia_core::types::{Clock, DcId, Instant, Staleness, State, WorkerId};

use crate::cluster::Setup;
use crate::hostile_worker::{read, update};
use crate::tap;

const WAITS: WorkerId = WorkerId { dc: DcId(0), index: 0 };
const TRAINS: WorkerId = WorkerId { dc: DcId(0), index: 1 };

fn setup() -> Setup {
    let local = LocalSync::Ssp { staleness: Staleness(4) };
    Setup { data_centers: 1, workers: 2, local, ..Setup::new(tap(ValueFormat::F32)) }
}

/// A server of one data center with two workers, from a checkpoint or new.
fn server(state: Option<State>) -> RecoverableServer {
    let mut server =
        RecoveringServer::new(setup().server(DcId(0)), [WAITS, TRAINS], Default::default());
    if let Some(state) = state {
        server.restore(state).unwrap();
    }
    let incarnation = server.next_incarnation().unwrap_or(Incarnation::FIRST);
    server.begin(Logging::Off, incarnation)
}

/// The answer to a worker's read at clock 0.
fn answered(server: &mut RecoverableServer, worker: WorkerId) -> (RequestOrder, Arc<RowsRead>) {
    let order = server.handle_worker(Instant::ZERO, worker, read(Clock::ZERO, &setup().layout()));
    let answers = std::iter::from_fn(|| server.poll_output()).filter_map(|output| match output {
        Output::ToWorker { message, .. } => Some(message),
        _ => None,
    });
    (order, answers.last().unwrap())
}

/// The server comes back while a worker that has read has yet to send its update. Returns the bytes of the checkpoint's
/// sessions with workers.
fn gives_the_same_answer_again(before: &mut RecoverableServer, answer: &RowsRead) -> usize {
    let state = before.begin_checkpoint(State::default());
    let bytes = state.records["worker_sessions"].len();
    let mut back = server(Some(state));
    let (order, again) = answered(&mut back, WAITS);
    assert_eq!(order, RequestOrder::Repeated);
    assert_eq!((&again.values[..], again.at), (&answer.values[..], answer.at));
    bytes
}

#[test]
fn a_server_repeats_its_last_answer_whether_its_values_have_changed_since_or_not() {
    let mut before = server(None);
    let (order, answer) = answered(&mut before, WAITS);
    assert_eq!(order, RequestOrder::Due);
    let shorter = gives_the_same_answer_again(&mut before, &answer);

    answered(&mut before, TRAINS);
    let changes = update((Clock::ZERO, Clock::ZERO), &[(0, 1.0)], &setup().layout());
    assert_eq!(before.handle_worker(Instant::ZERO, TRAINS, changes), RequestOrder::Due);
    assert_ne!(before.server().values(), &answer.values[..]);
    let longer = gives_the_same_answer_again(&mut before, &answer);

    // Each of the two answers: what is stored is not kept a second time.
    let values = size_of_val(&answer.values[..]);
    assert!(longer >= shorter + values, "{shorter}, {longer}, {values}");
}
