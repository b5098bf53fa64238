//! A server, over TCP and TLS, against a whole worker of its data center.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::{HONEST, Log, NOBODY, SERVER};
use crate::cluster::Blueprint;
use crate::real::Exit;
use crate::real::connections::acceptor::{Acceptor, listen};
use crate::real::connections::channel::{Parcel, Reader, Received};
use crate::real::connections::message::{
    Answer, MESSAGE_BYTES_MAX, Order, Report, encode_copy, encode_copy_rows, pack,
};
use crate::real::error::{ChannelError, RealError};
use crate::real::test_run::{self, Stage};
use crate::real::worker::evaluating::Evaluating;
use crate::real::worker::work;
use gaia_core::coordinator::StandIns;
use gaia_core::node::{
    ProbeRequest, RowsRead, WorkerMessage, decode_worker_message, encode_rows_read,
};
use gaia_core::recovery::RequestSeq;
use gaia_core::sync::WaitReason;
use gaia_core::types::{Clock, DcId, NodeId, ShardLayout, WorkerId};
use gaia_core::wire::{LanBody, LanKind};

/// A server that answers a worker what a test has it answer.
struct HostileServer {
    acceptor: Acceptor,
    at: SocketAddr,
    layout: ShardLayout,
    /// The latest connection of the worker.
    connection: Option<(Reader, Sender<Parcel>)>,
    /// The clock whose read is due.
    clock: Clock,
    /// The number of values that the worker has asked for.
    asked: usize,
}

impl HostileServer {
    async fn open(stage: &Stage) -> Self {
        let context = stage.run_context.node_context(NodeId::Server(SERVER)).unwrap();
        let environment = &*stage.run_context.environment;
        let listener = listen(environment, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let at = listener.local_addr().unwrap();
        let callers = [NodeId::Worker(HONEST)].into();
        let acceptor = Acceptor::open(&context, listener, callers, None);
        let layout = Blueprint::new(&stage.plan, &stage.application).layouts()[0].clone();
        Self { acceptor, at, layout, connection: None, clock: Clock::ZERO, asked: 0 }
    }

    /// Accepts the next connection of the worker, and does not say which request is due.
    async fn accept(&mut self) {
        let mut caller = self.acceptor.proven_caller().await;
        assert_eq!(caller.hello.node, NodeId::Worker(HONEST));
        caller.channel.answer(&Answer::Welcome).await.unwrap();
        let (reader, parcels, _) = caller.channel.start(16);
        self.connection = Some((reader, parcels));
    }

    /// Accepts the next connection of the worker, and waits for the read that is due on it.
    async fn meet(&mut self) {
        self.accept().await;
        self.send((LanKind::Hello, pack(&self.due()).into())).await;
        self.hear_read().await;
    }

    fn due(&self) -> RequestSeq {
        RequestSeq { clock: self.clock, updates: false }
    }

    async fn send(&self, parcel: Parcel) {
        let (_, parcels) = self.connection.as_ref().unwrap();
        // The worker may have closed the connection.
        let _closed = parcels.send(parcel).await;
    }

    async fn next(&mut self) -> Result<Received, ChannelError> {
        let (reader, _) = self.connection.as_mut().unwrap();
        reader.next(|_| MESSAGE_BYTES_MAX, None).await
    }

    /// Waits for the read of the clock. A worker that has not started asks first where to.
    async fn hear_read(&mut self) {
        loop {
            let (_, body) = self.next().await.unwrap();
            match decode_worker_message(&body, &self.layout).unwrap() {
                WorkerMessage::Reset => {
                    self.send((LanKind::Hello, pack(&(self.due(), false)).into())).await;
                }
                WorkerMessage::Read { clock, rows } => {
                    assert_eq!(clock, self.clock);
                    self.asked = rows.parameters(&self.layout);
                    assert!(self.asked > 0, "an answer has values");
                    return;
                }
                other => panic!("the worker sends {other:?}, expected a read"),
            }
        }
    }

    /// The answer that the worker waits for.
    fn right(&self) -> RowsRead {
        RowsRead {
            clock: self.clock,
            at: self.clock,
            values: vec![0.5; self.asked].into(),
            held: vec![(WaitReason::LocalWorker { worker: OTHER }, TIME)],
            probes: Vec::new(),
            keeps: false,
            stretch: None,
        }
    }

    /// The right answer, which this too is said to have held back.
    fn held(&self, reason: WaitReason, time: Duration) -> Parcel {
        let mut read = self.right();
        read.held.push((reason, time));
        rows_read(&read)
    }

    /// The right answer, with a copy of a data center that the worker is to measure.
    fn probing(&self, of: DcId) -> Parcel {
        let copy = vec![0.5; self.layout.parameters()];
        let probe = ProbeRequest { of, clock: self.clock, away: copy.clone(), home: copy };
        rows_read(&RowsRead { probes: vec![probe], ..self.right() })
    }

    /// The copy of the shard for an evaluation, with another body.
    fn copy(&self, change: impl FnOnce(&mut Vec<u8>)) -> Parcel {
        let mut body = encode_copy(1, &vec![0.5; self.layout.parameters()]);
        change(&mut body);
        (LanKind::Copy, body.into())
    }

    /// The right answer, with another body.
    fn changed(&self, change: impl FnOnce(&mut Vec<u8>)) -> Parcel {
        let mut body = encode_rows_read(&self.right()).to_vec();
        change(&mut body);
        (LanKind::RowsRead, body.into())
    }

    /// Meets the worker again, which says nothing more on the connection before and closes it: at the latest once the next
    /// one is there.
    async fn is_refused(&mut self) {
        let (mut reader, _parcels) = self.connection.take().unwrap();
        let closes = async {
            if let Ok((kind, _)) = reader.next(|_| MESSAGE_BYTES_MAX, None).await {
                panic!(
                    "the worker goes on with a {kind:?}, expected that it closes the connection"
                );
            }
        };
        tokio::join!(closes, self.meet());
    }

    /// Answers the read of a clock rightly. Returns the update that the worker makes of it.
    async fn step(&mut self) -> Vec<u8> {
        self.send(rows_read(&self.right())).await;
        let (_, body) = self.next().await.unwrap();
        match decode_worker_message(&body, &self.layout).unwrap() {
            WorkerMessage::Update { clock, .. } => assert_eq!(clock, self.clock),
            other => panic!("the worker sends {other:?}, expected an update"),
        }
        self.clock = self.clock.next();
        self.hear_read().await;
        body.to_vec()
    }
}

/// A run whose worker reads its example at each clock, so that each right answer has values.
async fn stage() -> Stage {
    let settings = "clocks_per_pass = 1\n[sync.remote]\nmodel = \"bsp\"";
    Stage::new(test_run::plan_of(settings, 2, &["a"])).await
}

fn rows_read(read: &RowsRead) -> Parcel {
    (LanKind::RowsRead, encode_rows_read(read))
}

/// Runs a worker beside a scene at its server.
async fn beside_worker<T>(mut stage: Stage, at: SocketAddr, scene: impl Future<Output = T>) -> T {
    let acceptor = stage.acceptor.take().unwrap();
    tokio::select! {
        worked = work_of(&stage, HONEST) => panic!("the worker has ended: {:?}", worked.err()),
        () = coordinate(acceptor, at) => panic!("the worker has left its coordinator"),
        seen = scene => seen,
    }
}

/// Runs a whole worker until its coordinator ends the run.
pub(super) async fn work_of(stage: &Stage, id: WorkerId) -> Result<Exit, RealError> {
    let blueprint = Blueprint::new(&stage.plan, &stage.application);
    let evaluating = Evaluating::new(stage.application.clone(), &blueprint, id);
    let machine = (blueprint.worker(id), evaluating);
    let (context, layouts) = (stage.worker(id), blueprint.layouts().to_vec());
    work(context, machine, layouts, &stage.node_config(), None, None).await
}

/// Starts the worker, and keeps its connection to the coordinator until the worker closes it.
async fn coordinate(mut acceptor: Acceptor, server: SocketAddr) {
    let mut caller = acceptor.proven_caller().await;
    caller.channel.answer(&Answer::Welcome).await.unwrap();
    let (mut reader, parcels, _) = caller.channel.start(8);
    let servers = vec![(SERVER, server.to_string())];
    let begin = Order::Begin { servers, stand_ins: StandIns::default() };
    for order in [begin, Order::Start { stopped: None }] {
        parcels.send((LanKind::Order, pack(&order).into())).await.unwrap();
    }
    while reader.next(|_| MESSAGE_BYTES_MAX, None).await.is_ok() {
        let _closed = parcels.send((LanKind::Order, pack(&Order::Alive).into())).await;
    }
}

/// The updates of a worker, whose server does harm before it answers each of its reads.
async fn train(clocks: usize, harm: impl AsyncFn(&mut HostileServer)) -> Vec<Vec<u8>> {
    let stage = stage().await;
    let mut server = HostileServer::open(&stage).await;
    beside_worker(stage, server.at, async {
        server.meet().await;
        let mut updates = Vec::new();
        for _ in 0..clocks {
            harm(&mut server).await;
            updates.push(server.step().await);
        }
        updates
    })
    .await
}

/// A message that a server may not send, and what its worker says of it.
type Wrong = (fn(&HostileServer) -> Parcel, &'static str);

/// Sends one of these at each clock. The worker closes the connection, says why, connects again, and takes the right answer.
async fn each_is_refused(wrong: &[Wrong]) {
    let alone = train(wrong.len(), async |_| {}).await;
    let log = Log::begin();
    let harmed = train(wrong.len(), async |server| {
        let (parcel, expected) = wrong[server.clock.0 as usize];
        server.send(parcel(server)).await;
        // A worker that only leaves out the first would go on with this one.
        server.send(rows_read(&server.right())).await;
        server.is_refused().await;
        log.says(LOST, expected);
    });
    assert_eq!(harmed.await, alone, "what is refused leaves no trace");
}

/// The worker would report it on, and the coordinator would blame the worker.
#[tokio::test]
async fn an_answer_that_waited_for_what_the_run_lacks_is_refused_by_name_and_the_worker_trains_on()
{
    each_is_refused(&[
        (
            |server| server.held(WaitReason::Updates { from: ABSENT }, TIME),
            "updates of dc9 have not arrived, expected data centers and workers of the run",
        ),
        (
            |server| server.held(WaitReason::Announced { from: ABSENT, row: 0 }, TIME),
            "dc9 announced row 0, expected data centers and workers of the run",
        ),
        (
            |server| server.held(WaitReason::LocalWorker { worker: NOBODY }, TIME),
            "dc0/worker2 is behind, expected data centers and workers of the run",
        ),
        (
            |server| {
                let worker = WorkerId { dc: ABSENT, index: 0 };
                server.held(WaitReason::LocalWorker { worker }, TIME)
            },
            "dc9/worker0 is behind, expected data centers and workers of the run",
        ),
    ])
    .await;
}

/// Sums of such times would overflow.
#[tokio::test]
async fn an_answer_that_waited_for_centuries_is_refused_by_name_and_the_worker_trains_on() {
    each_is_refused(&[
        (
            |server| server.held(WaitReason::Updates { from: SERVER.dc }, LONGEST),
            "received a read that was held back for 18446744073 s (bandwidth), expected at most",
        ),
        (
            |server| server.held(WaitReason::LocalWorker { worker: OTHER }, LONGEST),
            "received a read that was held back for 18446744073 s (local), expected at most",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_answer_whose_body_is_wrong_is_refused_by_name_and_the_worker_trains_on() {
    each_is_refused(&[
        // Lengths.
        (|server| server.changed(Vec::clear), "ends within a clock"),
        (|server| server.changed(|body| body.truncate(VALUES_AT + 2)), "ends within values"),
        (|server| server.changed(|body| body.truncate(body.len() - 1)), "ends within a count"),
        (|server| server.changed(|body| body.extend([0; 3])), "3 bytes after the end of a message"),
        (|server| server.changed(|body| body.resize(1 << 20, 0)), "expected at most"),
        // Rows, workers and reasons that nobody has.
        (
            |server| {
                let values = vec![0.5; server.layout.parameters() + 1].into();
                rows_read(&RowsRead { values, ..server.right() })
            },
            "values that do not fit the shard",
        ),
        (
            |server| server.changed(|body| body[reason_at(server) + 6] = 1),
            "workers that do not fit the shard",
        ),
        (
            |server| server.changed(|body| body[reason_at(server)] = 9),
            "peer sent reason 9, expected 0 to 4",
        ),
    ])
    .await;
}

/// The worker would only leave it out, and wait for another one: its server believes to have answered.
#[tokio::test]
async fn an_answer_that_lacks_values_or_is_of_no_clock_is_refused_by_name_and_the_worker_trains_on()
{
    each_is_refused(&[
        (
            |server| {
                let values = vec![0.5; server.asked - 1].into();
                rows_read(&RowsRead { values, ..server.right() })
            },
            "values for the read of clock 0, expected",
        ),
        (
            |server| rows_read(&RowsRead { values: Vec::new().into(), ..server.right() }),
            "received 0 values for the read of clock 1, expected",
        ),
        (
            |server| rows_read(&RowsRead { at: Clock(u64::MAX), ..server.right() }),
            "clocks that do not fit the shard",
        ),
    ])
    .await;
}

/// The worker would make room for two models for each data center that its server thinks of.
#[tokio::test]
async fn a_copy_to_measure_that_no_data_center_sends_is_refused_by_name_and_the_worker_trains_on() {
    each_is_refused(&[
        (
            |server| server.probing(ABSENT),
            "received a copy of dc9 to measure, expected at most one of each other data center",
        ),
        (|server| server.probing(SERVER.dc), "received a copy of dc0 to measure, expected"),
    ])
    .await;
}

#[tokio::test]
async fn a_copy_of_another_length_is_refused_by_name_and_the_worker_trains_on() {
    each_is_refused(&[
        (|server| server.copy(|body| body.truncate(8)), "received a copy of 0 values, expected"),
        (|server| server.copy(|body| body.truncate(body.len() - 4)), "values, expected"),
        (|server| server.copy(|body| body.extend([0; 4])), "values, expected"),
        (|server| server.copy(|body| body.push(0)), "received a copy that ends within a value"),
        (
            |_| (LanKind::CopyRows, encode_copy_rows(1, 2, &[]).into()),
            "received a copy of 0 values, expected",
        ),
    ])
    .await;
}

/// Where the first reason is in the right answer, which has a count before it.
fn reason_at(server: &HostileServer) -> usize {
    VALUES_AT + 4 * server.asked + 4
}

#[tokio::test]
async fn a_message_that_no_server_sends_is_refused_by_name_and_the_worker_trains_on() {
    each_is_refused(&[
        (|_| (LanKind::Report, pack(&Report::Ready).into()), "received Report from a server"),
        (|_| (LanKind::Order, pack(&Order::End).into()), "received Order from a server"),
        (|_| (LanKind::WorkerMessage, vec![2].into()), "received WorkerMessage from a server"),
        (|_| (LanKind::Summary, LanBody::default()), "received Summary from a server"),
        (|_| (LanKind::Copy, vec![0; 7].into()), "received a copy without a ticket"),
        (|_| (LanKind::CopyRows, vec![0; 7].into()), "received a copy without a digest"),
        (|_| (LanKind::CopyRows, vec![0; 15].into()), "received a copy without a ticket"),
        (|_| (LanKind::Hello, Vec::new().into()), "the bytes end within a value"),
    ])
    .await;
}

/// Nothing is due on a connection before the server has said what.
#[tokio::test]
async fn an_answer_before_the_due_request_is_refused_by_name_and_the_worker_trains_on() {
    let alone = train(1, async |_| {}).await;
    for kind in [LanKind::RowsRead, LanKind::Copy, LanKind::CopyRows] {
        let log = Log::begin();
        let stage = stage().await;
        let mut server = HostileServer::open(&stage).await;
        let harmed = beside_worker(stage, server.at, async {
            server.accept().await;
            server.send((kind, encode_rows_read(&server.right()))).await;
            server.send((LanKind::Hello, pack(&server.due()).into())).await;
            server.is_refused().await;
            log.says(LOST, &format!("received {kind:?} from a server, which was not expected"));
            server.step().await
        });
        assert_eq!([harmed.await], alone[..], "what is refused leaves no trace");
    }
}

/// After a reconnect, servers send answers that the worker has: these are no offence.
#[tokio::test]
async fn answers_that_a_worker_has_not_asked_for_change_nothing() {
    let alone = train(CLOCKS, async |_| {}).await;
    let harmed = train(CLOCKS, async |server| {
        let of = |clock, values| {
            let values = vec![9.0; values].into();
            RowsRead { clock, at: clock, values, ..server.right() }
        };
        let before = server.clock.0.checked_sub(1).map(Clock);
        for clock in before.into_iter().chain([server.clock.next()]) {
            for values in [server.asked, server.asked - 1, 0] {
                server.send(rows_read(&of(clock, values))).await;
            }
        }
    });
    assert_eq!(harmed.await, alone);
}

/// What the worker's log says of a connection, before the reason why it has closed it.
const LOST: &str = "worker 0 of a has lost the connection to server 0 of a: ";

/// The other worker of the data center.
const OTHER: WorkerId = WorkerId { dc: DcId(0), index: 1 };
const ABSENT: DcId = DcId(9);
const TIME: Duration = Duration::from_secs(3);
/// The longest time that an answer can name: 584 years.
const LONGEST: Duration = Duration::from_nanos(u64::MAX);
/// Two clocks and a count are before the values of an answer.
const VALUES_AT: usize = 20;
const CLOCKS: usize = 3;
