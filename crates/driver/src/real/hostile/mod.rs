//! Nodes with a certificate of the run that mean harm, against the processes of this driver: over QUIC, TCP and TLS.
//!
//! What they may not send is refused with a line in the log that names them, such lines are limited in rate, and the
//! others go on as without them. Changes that are not finite or too large end the run, with the name of their sender. Which
//! frames and messages a machine refuses is tested where the machine is.

mod coordinator;
mod mirror;
pub(super) mod reports;
mod server;
mod worker;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Once;

use tempfile::TempDir;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time;

use crate::Outcome;
use crate::cluster::Blueprint;
use crate::interrupted::Interrupted;
use crate::real::conductor::Conductor;
use crate::real::connections::acceptor::Acceptor;
use crate::real::connections::channel::{Parcel, Reader, Received};
use crate::real::connections::message::{
    Answer, MESSAGE_BYTES_MAX, Order, Purpose, Report, pack, unpack,
};
use crate::real::error::{ChannelError, RealError};
use crate::real::node::context::NodeContext;
use crate::real::server::serve;
use crate::real::test_run::Stage;
use gaia_checkpoint::StateFile;
use gaia_core::coordinator::StandIns;
use gaia_core::node::{WorkerMessage, decode_rows_read, encode_worker_message};
use gaia_core::session::Incarnation;
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::topology::Address;
use gaia_core::types::{
    Clock, DcId, Deltas, NodeId, RowSet, ServerId, ShardId, ShardLayout, TableDeltas, WorkerId,
};
use gaia_core::wire::LanKind;
use gaia_telemetry::{Observer, Progress};

const SERVER: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
const HONEST: WorkerId = WorkerId { dc: DcId(0), index: 0 };
const HOSTILE: WorkerId = WorkerId { dc: DcId(0), index: 1 };
/// A worker that the data center does not have.
const NOBODY: WorkerId = WorkerId { dc: DcId(0), index: 2 };

/// The log of the nodes that run in the thread of a test.
struct Log {
    path: PathBuf,
    _folder: TempDir,
}

thread_local! {
    /// The file of the log of this thread.
    static FILE: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Writes to the log of the thread.
struct OfThread;

impl Write for OfThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        FILE.with_borrow_mut(|file| file.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// One subscriber serves all threads: while those of single threads begin and end, lines of others can be lost.
    fn begin() -> Self {
        static SUBSCRIBED: Once = Once::new();
        SUBSCRIBED.call_once(|| {
            tracing_subscriber::fmt().with_ansi(false).with_writer(|| OfThread).init();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        FILE.set(Some(File::create(&path).unwrap()));
        Self { path, _folder: folder }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// Checks that the last line about something says this of it.
    fn says(&self, about: &str, expected: &str) {
        let text = self.text();
        let line = text.lines().rfind(|line| line.contains(about));
        assert!(line.is_some_and(|line| line.contains(expected)), "{expected}:\n{text}");
    }
}

/// Runs the server of the first data center beside a scene. The coordinator orders it to begin with these other servers.
async fn beside_server<T>(
    stage: &Stage,
    acceptor: &mut Acceptor,
    others: &[(ServerId, SocketAddr)],
    scene: impl AsyncFnOnce(SocketAddr) -> T,
) -> T {
    let seen = with_server(stage, acceptor, others, async |at, _reports| scene(at).await).await;
    seen.unwrap_or_else(|error| panic!("the server has ended: {error}"))
}

/// As [`beside_server`], for a scene that hears what the server reports.
///
/// # Errors
/// That of the server, if it ends before the scene.
async fn with_server<T>(
    stage: &Stage,
    acceptor: &mut Acceptor,
    others: &[(ServerId, SocketAddr)],
    scene: impl AsyncFnOnce(SocketAddr, UnboundedReceiver<Report>) -> T,
) -> Result<T, RealError> {
    let machine = Blueprint::new(&stage.plan, &stage.application).server(SERVER);
    let node_config = stage.node_config();
    let context = stage.run_context.node_context(NodeId::Server(SERVER)).unwrap();
    let serving = serve(context, SERVER, machine, &node_config, ([127, 0, 0, 1], 0).into(), None);

    let seen = async {
        let mut caller = acceptor.proven_caller().await;
        let begin = Answer::Begin { incarnation: Incarnation::FIRST };
        caller.channel.answer(&begin).await.unwrap();
        let at = caller.hello.listens.unwrap();
        let (reader, parcels, _) = caller.channel.start(8);
        let (heard, reports) = unbounded_channel();
        let hearing = tokio::spawn(hear(reader, heard));

        let servers = others.iter().copied().chain([(SERVER, at)]);
        let servers = servers.map(|(id, at)| (id, at.to_string())).collect();
        let order = Order::Begin { servers, stand_ins: StandIns::default() };
        parcels.send((LanKind::Order, pack(&order).into())).await.unwrap();
        let seen = scene(at, reports).await;
        hearing.abort();
        seen
    };
    tokio::select! {
        served = serving => match served {
            Ok(_) => panic!("the server has ended, and nobody has ordered that"),
            Err(error) => Err(error),
        },
        seen = seen => Ok(seen),
    }
}

/// Conducts a run, as its coordinator does, until it has ended.
async fn conduct(stage: &Stage, acceptor: Acceptor) -> Result<Outcome, RealError> {
    conduct_with_state(stage, acceptor, None).await
}

/// As [`conduct`], of a coordinator that writes its state to a file.
pub(super) async fn conduct_with_state(
    stage: &Stage,
    acceptor: Acceptor,
    file: Option<StateFile>,
) -> Result<Outcome, RealError> {
    let context = stage.run_context.node_context(NodeId::Coordinator).unwrap();
    let blueprint = Blueprint::new(&stage.plan, &stage.application);
    let (mut observer, application) = (Unseen, &stage.application);
    let interrupted = Interrupted(None);
    let conductor = Conductor::new(
        &context,
        &blueprint,
        application,
        &mut observer,
        acceptor,
        file,
        interrupted,
    );
    conductor.gather().await?.conduct(time::Instant::now()).await
}

/// Shows nothing.
struct Unseen;

impl Observer for Unseen {
    fn on_progress(&mut self, _: &Progress) {}
}

/// Hears the reports of a node, for whoever listens to them.
async fn hear(mut reader: Reader, heard: UnboundedSender<Report>) {
    while let Ok((kind, body)) = reader.next(|_| MESSAGE_BYTES_MAX, None).await {
        if kind == LanKind::Report {
            let _unheard = heard.send(unpack(&body).unwrap());
        }
    }
}

/// A worker that a test steps, connected to its server.
struct ManualWorker {
    context: NodeContext,
    at: Address,
    layout: ShardLayout,
    reader: Reader,
    parcels: Sender<Parcel>,
    clock: Clock,
}

impl ManualWorker {
    async fn join(stage: &Stage, worker: WorkerId, at: SocketAddr) -> Self {
        let layout = Blueprint::new(&stage.plan, &stage.application).layouts()[0].clone();
        let (context, at) = (stage.worker(worker), at.to_string().parse().unwrap());
        let (reader, parcels) = connect(&context, &at).await;
        Self { context, at, layout, reader, parcels, clock: Clock::ZERO }
    }

    /// Connects again, after its server has closed the connection.
    async fn join_again(&mut self) {
        (self.reader, self.parcels) = connect(&self.context, &self.at).await;
    }

    async fn send(&self, kind: LanKind, body: Vec<u8>) {
        self.parcels.send((kind, body.into())).await.unwrap();
    }

    async fn say(&self, message: &WorkerMessage) {
        self.send(LanKind::WorkerMessage, encode_worker_message(message, &self.layout).to_vec())
            .await;
    }

    async fn next(&mut self) -> Result<Received, ChannelError> {
        self.reader.next(|_| MESSAGE_BYTES_MAX, None).await
    }

    /// Waits until the server closes the connection.
    async fn is_closed(&mut self) {
        while self.next().await.is_ok() {}
    }

    /// Reads everything, changes each parameter by 1 and finishes a clock. Returns the bits of what it has read.
    async fn step(&mut self) -> Vec<u32> {
        self.step_by(self.changes(1.0)).await
    }

    /// As [`Self::step`], with other changes.
    async fn step_by(&mut self, changes: Deltas) -> Vec<u32> {
        self.say(&self.read_at(self.clock)).await;
        let body = loop {
            let (kind, body) = self.next().await.unwrap();
            if kind == LanKind::RowsRead {
                break body;
            }
        };
        self.say(&self.update_by(self.clock, changes)).await;
        self.clock = self.clock.next();
        let read = decode_rows_read(&body, &self.layout).unwrap();
        read.values.iter().map(|value| value.to_bits()).collect()
    }

    fn read_at(&self, clock: Clock) -> WorkerMessage {
        let rows = ShardRows::of(&RowSet::all(self.layout.model()), &self.layout);
        WorkerMessage::Read { clock, rows }
    }

    /// The same change to each parameter.
    fn changes(&self, change: f32) -> Deltas {
        let layout = &self.layout;
        let all = |table| layout.rows_of(table) * layout.width_of(table);
        let tables =
            layout.model().table_ids().map(|table| TableDeltas::all(vec![change; all(table)]));
        Deltas { tables: tables.collect() }
    }

    fn update(&self, clock: Clock) -> WorkerMessage {
        self.update_by(clock, self.changes(1.0))
    }

    fn update_by(&self, clock: Clock, changes: Deltas) -> WorkerMessage {
        let deltas = ShardDeltas::checked(changes, &self.layout).unwrap();
        let (probed, learning_rate_factor) = (Vec::new(), None);
        WorkerMessage::Update {
            clock,
            at: clock,
            deltas,
            probed,
            learning_rate_factor,
            keeps: false,
        }
    }
}

/// Connects a worker to its server. The first message of the server is the request that is due.
async fn connect(context: &NodeContext, at: &Address) -> (Reader, Sender<Parcel>) {
    let hello = context.hello(Purpose::Join);
    let channel = context.join(NodeId::Server(SERVER), at, &hello).await.unwrap();
    let (mut reader, parcels, _) = channel.start(16);
    let (kind, _) = reader.next(|_| MESSAGE_BYTES_MAX, None).await.unwrap();
    assert_eq!(kind, LanKind::Hello);
    (reader, parcels)
}
