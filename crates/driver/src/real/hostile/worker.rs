//! A worker, over TCP and TLS.

use super::{HONEST, HOSTILE, Log, ManualWorker, beside_server};
use crate::real::test_run::{self, Stage};
use gaia_core::node::encode_worker_message;
use gaia_core::types::Clock;
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::wire::LanKind;

/// What a worker may not send at its clock, and what its server says of it.
fn forbidden(worker: &ManualWorker) -> Vec<(LanKind, Vec<u8>, &'static str)> {
    let clock = worker.clock;
    let encode = |message| encode_worker_message(&message, &worker.layout);
    let message = LanKind::WorkerMessage;
    let mut longer = encode(worker.update(clock));
    longer.extend([0; 3]);
    let after = Clock(clock.0 + 1);

    vec![
        // Lengths and kinds.
        (message, Vec::new(), "ends within its kind"),
        (message, longer, "3 bytes after the end of a message"),
        (message, vec![9], "peer sent message 9, expected 0 to 2"),
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

const CLOCKS: u64 = 3;
const FLOODS: u64 = 60;

/// Each kind of line about one worker: ten at once, and one each five seconds.
const LINES_MAX: usize = 80;
