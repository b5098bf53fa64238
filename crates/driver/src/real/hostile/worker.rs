//! A worker, over TCP and TLS.

use tokio::sync::mpsc::UnboundedReceiver;

use super::reports::ManualNode;
use super::server::work_of;
use super::{HONEST, HOSTILE, Log, ManualWorker, SERVER, beside_server, conduct, with_server};
use crate::Outcome;
use crate::cluster::Blueprint;
use crate::real::connections::message::{Order, Report, decode_copy};
use crate::real::server::serve;
use crate::real::test_run::{self, Stage};
use gaia_core::application::EvaluationSums;
use gaia_core::node::encode_worker_message;
use gaia_core::server::Divergence;
use gaia_core::types::limits::{CHANGE_MAX, CLOCK_MAX};
use gaia_core::types::{Clock, Deltas, NodeId, TableId};
use gaia_core::wire::LanKind;

/// What a worker may not send at its clock, and what its server says of it.
fn forbidden(worker: &ManualWorker) -> Vec<(LanKind, Vec<u8>, &'static str)> {
    let clock = worker.clock;
    let encode = |message| encode_worker_message(&message, &worker.layout).to_vec();
    let message = LanKind::WorkerMessage;
    let mut longer = encode(worker.update(clock));
    longer.extend([0; 3]);
    let after = Clock(clock.0 + 1);

    vec![
        // Lengths and kinds.
        (message, Vec::new(), "ends within its kind"),
        (message, longer, "3 bytes after the end of a message"),
        (message, vec![9, 0, 0, 0], "peer sent message 9, expected 0 to 2"),
        (message, vec![0; 1 << 20], "expected at most"),
        (LanKind::Report, vec![0], "received Report from a worker"),
        // Clocks, and requests that are not due.
        (message, encode(worker.read_at(Clock(CLOCK_MAX + 1))), "clocks that do not fit"),
        (message, encode(worker.read_at(after)), "which is not due"),
        (message, encode(worker.update(clock)), "which is not due"),
    ]
}

/// What two workers read at the end of their clocks, the second of which does harm before each.
async fn train(clocks: u64, harm: impl AsyncFn(&mut ManualWorker)) -> [Vec<u32>; 2] {
    let mut stage = Stage::new(test_run::plan()).await;
    let mut acceptor = stage.acceptor.take().unwrap();
    beside_server(&stage, &mut acceptor, &[], async |at| {
        let mut honest = ManualWorker::join(&stage, HONEST, at).await;
        let mut hostile = ManualWorker::join(&stage, HOSTILE, at).await;
        let mut read = [Vec::new(), Vec::new()];
        for _ in 0..clocks {
            harm(&mut hostile).await;
            read = [honest.step().await, hostile.step().await];
        }
        read
    })
    .await
}

#[tokio::test]
async fn each_message_that_a_worker_may_not_send_is_refused_by_name_and_the_others_train_on() {
    let alone = train(CLOCKS, async |_| {}).await;
    let log = Log::begin();
    let harmed = train(CLOCKS, async |worker| {
        if worker.clock > Clock::ZERO {
            return;
        }
        for (kind, body, expected) in forbidden(worker) {
            worker.send(kind, body).await;
            worker.is_closed().await;
            worker.join_again().await;

            let lost = "the connection to worker 1 of a: ";
            log.says(lost, "server 0 of a ");
            log.says(lost, expected);
        }
    });
    assert_eq!(harmed.await, alone, "what is refused leaves no trace");
}

#[tokio::test]
async fn a_flood_of_refused_messages_and_connections_fills_no_log() {
    let alone = train(FLOODS, async |_| {}).await;
    let log = Log::begin();
    let harmed = train(FLOODS, async |worker| {
        worker.say(&worker.read_at(Clock(worker.clock.0 + 1))).await;
        worker.is_closed().await;
        worker.join_again().await;
    });
    assert_eq!(harmed.await, alone);

    let text = log.text();
    assert!(text.contains("which is not due"), "{text}");
    assert!(text.lines().count() < LINES_MAX, "{} lines:\n{text}", text.lines().count());
}

/// The clock of the update counts, so nobody waits for it.
#[tokio::test]
async fn a_change_that_is_not_finite_or_beyond_the_bound_is_not_applied_and_is_reported_by_name() {
    let beyond = CHANGE_MAX.next_up();
    let (alone, _) = train_with(None).await;
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -1e38, beyond] {
        let (harmed, found) = train_with(Some(value)).await;
        assert_eq!(harmed, alone, "{value}: no part of the update is applied");

        let found = found.unwrap();
        assert_eq!((found.worker, found.clock), (HOSTILE, Clock::ZERO), "{value}");
        assert_eq!((found.table, found.row), (TableId(1), 0), "{value}");
        assert_eq!(found.value.to_bits(), value.to_bits());
    }
}

/// What two workers read at the end of their clocks. The first update of the second one changes nothing, or it changes the last
/// parameter by this value: then what the server reports of it is returned, too.
async fn train_with(value: Option<f32>) -> ([Vec<u32>; 2], Option<Divergence>) {
    let mut stage = Stage::new(test_run::plan()).await;
    let mut acceptor = stage.acceptor.take().unwrap();
    let trained = with_server(&stage, &mut acceptor, &[], async |at, mut reports| {
        let mut honest = ManualWorker::join(&stage, HONEST, at).await;
        let mut hostile = ManualWorker::join(&stage, HOSTILE, at).await;
        let changes = match value {
            Some(value) => spoilt(&hostile, value),
            None => hostile.changes(0.0),
        };
        let mut read = [honest.step().await, hostile.step_by(changes).await];
        for _ in 1..CLOCKS {
            read = [honest.step().await, hostile.step().await];
        }
        let found = match value {
            Some(_) => Some(divergence(&mut reports).await),
            None => None,
        };
        (read, found)
    });
    trained.await.unwrap()
}

/// Changes to all parameters, the last of which is by this value.
fn spoilt(worker: &ManualWorker, value: f32) -> Deltas {
    let mut changes = worker.changes(1.0);
    *changes.tables.last_mut().unwrap().values.last_mut().unwrap() = value;
    changes
}

async fn divergence(reports: &mut UnboundedReceiver<Report>) -> Divergence {
    loop {
        if let Report::Diverged(found) = reports.recv().await.expect("the server reports it") {
            return found;
        }
    }
}

#[tokio::test]
async fn a_run_whose_worker_sends_a_change_that_is_not_finite_ends_as_diverged_and_names_it() {
    for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let outcome = run_beside(value).await;
        assert_eq!(outcome.summary.stopped_by, "diverged");
        let diverged = outcome.summary.diverged.expect("a reason");
        let expected =
            format!("worker 1 of a changed row 0 of table `items` by {shown} at clock 0");
        assert_eq!(diverged, expected);
    }
}

/// Conducts a whole run, in which a worker changes a parameter by this value.
async fn run_beside(value: f32) -> Outcome {
    let mut stage = Stage::new(test_run::plan()).await;
    let acceptor = stage.acceptor.take().unwrap();
    let machine = Blueprint::new(&stage.plan, &stage.application).server(SERVER);
    let node_config = stage.node_config();
    let server = stage.run_context.node_context(NodeId::Server(SERVER)).unwrap();
    let serving = serve(server, SERVER, machine, &node_config, ([127, 0, 0, 1], 0).into(), None);

    let (conducted, served, worked, ()) = tokio::join!(
        conduct(&stage, acceptor),
        serving,
        work_of(&stage, HONEST),
        harm(&stage, value),
    );
    assert!(served.is_ok() && worked.is_ok(), "{:?} {:?}", served.err(), worked.err());
    conducted.unwrap()
}

/// A worker that sends one update, and then does what it is ordered to.
async fn harm(stage: &Stage, value: f32) {
    let mut node = ManualNode::join(stage, NodeId::Worker(HOSTILE)).await;
    let at = node.await_order(|order| match order {
        Order::Begin { servers, .. } => Some(servers[0].1.parse().unwrap()),
        _ => None,
    });
    let mut worker = ManualWorker::join(stage, HOSTILE, at.await).await;
    node.await_order(|order| matches!(order, Order::Start { .. }).then_some(())).await;

    worker.step_by(spoilt(&worker, value)).await;
    let last = node.await_order(|order| match order {
        Order::Stop { last } => Some(last),
        _ => None,
    });
    let last = last.await;
    while worker.clock < last {
        worker.step().await;
    }
    node.report(&Report::Stopped(worker.clock)).await;

    // On a new connection the server sends the copy of an evaluation that is in progress.
    worker.join_again().await;
    while let Ok((kind, body)) = worker.next().await {
        if kind == LanKind::Copy {
            let (ticket, _) = decode_copy(&body).unwrap();
            let sums = EvaluationSums::default();
            node.report(&Report::Evaluated { ticket, sums, digest: 1 }).await;
        }
    }
    node.await_order(|order| matches!(order, Order::End).then_some(())).await;
}

const CLOCKS: u64 = 3;
const FLOODS: u64 = 60;

/// Each kind of line about one worker: ten at once, and one each five seconds.
const LINES_MAX: usize = 80;
