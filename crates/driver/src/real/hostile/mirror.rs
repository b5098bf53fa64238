//! A mirror, over QUIC and TLS.

use std::net::SocketAddr;

use bytes::Bytes;

use super::{HONEST, Log, ManualWorker, SERVER, beside_server, with_server};
use crate::real::error::RealError;
use crate::real::server::mirrors::{FromMirror, Mirrors};
use crate::real::test_run::{self, Stage};
use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::session::{Incarnation, Message, Session, SessionConfig, SessionState};
use gaia_core::types::limits::CHANGE_MAX;
use gaia_core::types::{Clock, DcId, Lane, NodeId, ServerId, ShardId, Tightness};
use gaia_core::wire::{
    BulkHeader, BulkKind, ControlMessage, LinkReport, encode_bulk, encode_control,
};

const MIRROR: ServerId = ServerId { dc: DcId(1), shard: ShardId(0) };

/// A server that says nothing but what a test has it say.
struct HostileMirror {
    mirrors: Mirrors,
    at: SocketAddr,
    /// The control frames that it says on each connection, of which the server takes those that it has not.
    says: Vec<Bytes>,
}

impl HostileMirror {
    fn new(stage: &Stage) -> Self {
        let context = stage.run_context.node_context(NodeId::Server(MIRROR)).unwrap();
        let environment = &stage.run_context.environment;
        let datagrams = environment.datagrams(([127, 0, 0, 1], 0).into()).unwrap();
        let at = datagrams.socket.local_addr().unwrap();
        // It is far ahead, so that nobody waits for it.
        let says = vec![control(&ControlMessage::MirrorClock { clock: FAR, sequence: 0 })];
        Self { mirrors: Mirrors::open(&context, MIRROR, datagrams).unwrap(), at, says }
    }

    fn reach(&mut self, server: SocketAddr) {
        let addresses = [(SERVER, server), (MIRROR, self.at)];
        let addresses = addresses.map(|(id, at)| (id, at.to_string().parse().unwrap()));
        self.mirrors.reach(addresses.into());
    }

    /// Meets the server on its next connection. The session has the frames that it says on each.
    async fn meet(&mut self) -> Session {
        while !matches!(self.mirrors.next().await.unwrap(), FromMirror::Joined { .. }) {}
        let config = SessionConfig {
            incarnation: Incarnation::FIRST,
            sent_bytes_max: 1 << 24,
            early_bytes_max: 1 << 24,
        };
        let mut session = Session::resume(config, &SessionState::new(Incarnation::FIRST));
        self.says.iter().for_each(|frame| session.push(Lane::Control, frame.clone()));
        session.push(Lane::Data, update(|_| {}));

        let hello = session.connect();
        self.send(Lane::Control, &hello).await;
        while !session.has_hello() {
            if let FromMirror::Message { message, .. } = self.mirrors.next().await.unwrap() {
                session.handle_message(&message).unwrap();
            }
        }
        session
    }

    /// Sends all frames of a session.
    async fn send_all(&mut self, session: &mut Session) {
        for lane in Lane::ALL {
            while let Some(message) = session.poll_transmit(lane) {
                self.send(lane, &message).await;
            }
        }
    }

    async fn send(&mut self, lane: Lane, message: &Message) {
        while !self.mirrors.has_room(SERVER.dc, lane) && self.mirrors.is_joined(SERVER.dc) {
            self.mirrors.next().await.unwrap();
        }
        // The server may have closed the connection.
        let _closed = self.mirrors.send(SERVER.dc, lane, message);
    }

    /// Waits until the server closes the connection.
    async fn is_refused(&mut self) {
        while !matches!(self.mirrors.next().await.unwrap(), FromMirror::Disconnected { .. }) {}
    }
}

/// What a mirror may not send, and what its server says of it.
fn forbidden() -> Vec<(Lane, Bytes, &'static str)> {
    let good = update(|header| header.sequence = 2);
    let damaged = [&good[..good.len() - 1], &[good[good.len() - 1] ^ 1]].concat();
    let bad = "sent a frame that cannot be read";
    let longer = [&good[..], &[0; 3]].concat();
    let foreign = bulk(&header(2), Changes::Dense { start: 1 << 20, values: &[1.0] });
    let partial = bulk(
        &BulkHeader { kind: BulkKind::Partial, ..header(2) },
        Changes::Dense { start: 0, values: &[0.0] },
    );
    let wordless = control(&ControlMessage::Tightness { steps: 1 });

    vec![
        // Lengths and a checksum.
        (Lane::Data, Bytes::new(), bad),
        (Lane::Data, good.slice(..20), bad),
        (Lane::Data, longer.into(), bad),
        (Lane::Data, damaged.into(), bad),
        (Lane::Control, good.slice(..good.len() / 2), bad),
        // A replay, and a number that is not due.
        (Lane::Data, update(|_| {}), "sent update 1, expected 2"),
        (Lane::Data, update(|header| header.sequence = u64::MAX), ", expected 2"),
        // What is of others, and what nobody has.
        (Lane::Data, update(|header| header.origin = SERVER.dc), "expected one of its own"),
        (Lane::Data, update(|header| header.shard = ShardId(7)), "of shard 7, expected shard 0"),
        (Lane::Data, foreign, bad),
        // What the model does not use.
        (Lane::Data, partial, "which asp does not use"),
        (Lane::Control, wordless, "which a run without a guard does not use"),
    ]
}

/// What a mirror may say as often as it likes.
fn permitted() -> Vec<Bytes> {
    let messages = [
        ControlMessage::MirrorClock { clock: FAR, sequence: 0 },
        ControlMessage::LinkReport(LinkReport::default()),
        ControlMessage::CaughtUp { version: u64::MAX, sequence: u64::MAX },
    ];
    messages.iter().map(control).collect()
}

fn header(sequence: u64) -> BulkHeader {
    BulkHeader {
        kind: BulkKind::Update,
        origin: MIRROR.dc,
        shard: ShardId(0),
        sequence,
        clock: Clock::ZERO,
        last: false,
        relayed: false,
        tightness: Tightness::NONE,
    }
}

/// The first update of the mirror, which changes nothing, with another header.
fn update(change: impl FnOnce(&mut BulkHeader)) -> Bytes {
    let mut header = header(1);
    change(&mut header);
    bulk(&header, Changes::Dense { start: 0, values: &[0.0] })
}

fn bulk(header: &BulkHeader, changes: Changes<'_>) -> Bytes {
    let mut frame = Vec::new();
    encode_bulk(header, changes, ValueFormat::F32, &mut frame);
    frame.into()
}

fn control(message: &ControlMessage) -> Bytes {
    let mut frame = Vec::new();
    encode_control(message, &mut frame);
    frame.into()
}

/// What the honest worker reads at the end of its clocks, before each of which the mirror does harm on a connection of its
/// own.
async fn train(
    stage: &mut Stage,
    clocks: u64,
    harm: impl AsyncFn(&mut HostileMirror, Session),
) -> Vec<u32> {
    let mut mirror = HostileMirror::new(stage);
    let mut acceptor = stage.acceptor.take().unwrap();
    let others = [(MIRROR, mirror.at)];
    let read = beside_server(stage, &mut acceptor, &others, async |at| {
        mirror.reach(at);
        let mut worker = ManualWorker::join(stage, HONEST, at).await;
        let mut read = Vec::new();
        for _ in 0..clocks {
            let mut session = mirror.meet().await;
            mirror.send_all(&mut session).await;
            harm(&mut mirror, session).await;
            read = worker.step().await;
        }
        read
    });
    let read = read.await;
    stage.acceptor = Some(acceptor);
    read
}

/// As [`train`], with a mirror that does no harm and closes its connections.
async fn train_alone(stage: &mut Stage, clocks: u64) -> Vec<u32> {
    train(stage, clocks, async |mirror, _| {
        mirror.mirrors.part(SERVER.dc, "it begins again");
        mirror.is_refused().await;
    })
    .await
}

async fn stage() -> Stage {
    Stage::new(test_run::plan_of("[sync.remote]\nmodel = \"asp\"", 1, &["a", "b"])).await
}

#[tokio::test]
async fn each_frame_that_a_mirror_may_not_send_is_refused_by_name_and_its_server_trains_on() {
    let mut stage = stage().await;
    let alone = train_alone(&mut stage, CLOCKS).await;
    for (lane, frame, expected) in forbidden() {
        let log = Log::begin();
        let read = train(&mut stage, CLOCKS, async |mirror, mut session| {
            session.push(lane, frame.clone());
            mirror.send_all(&mut session).await;
            mirror.is_refused().await;
        });
        assert_eq!(read.await, alone, "{expected}: what is refused leaves no trace");

        let text = log.text();
        let named = "server 0 of a closes the connection to server 0 of b: ";
        let line = text.lines().find(|line| line.contains(named) && line.contains(expected));
        let line = line.unwrap_or_else(|| panic!("{expected}:\n{text}"));
        let (_, reason) = line.split_once(named).unwrap();
        assert!(reason.contains("server 0 of b") && !reason.contains("dc1"), "{line}");
    }
}

/// A header of the session is checked before the frame behind it.
#[tokio::test]
async fn a_message_whose_header_is_damaged_is_refused_by_name() {
    let mut stage = stage().await;
    let alone = train_alone(&mut stage, CLOCKS).await;
    let log = Log::begin();
    let read = train(&mut stage, CLOCKS, async |mirror, mut session| {
        session.push(Lane::Data, update(|header| header.sequence = 2));
        let mut message = session.poll_transmit(Lane::Data).unwrap();
        message.header[20] ^= 1;
        mirror.send(Lane::Data, &message).await;
        mirror.is_refused().await;
    });
    assert_eq!(read.await, alone);
    let text = log.text();
    assert!(text.contains("server 0 of a closes the connection to server 0 of b: "), "{text}");
}

/// Such a frame may be the sum of what honest workers have sent, so training has diverged wherever it came from. A server that
/// went on without it would hide that.
#[tokio::test]
async fn a_change_that_is_not_finite_or_beyond_the_bound_ends_its_server_and_names_the_mirror() {
    let mut stage = stage().await;
    let [beyond, most] = [CHANGE_MAX.next_up(), CHANGE_MAX];
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -1e38, beyond] {
        let error =
            end_by(&mut stage, bulk(&header(2), Changes::Dense { start: 0, values: &[value] }));
        let RealError::Peer { at, reason } = error.await else {
            panic!("{value}: the server blames its mirror");
        };
        assert_eq!(at, "server 0 of a");
        assert_eq!(
            reason,
            format!(
                "diverged: server 0 of b sent a change of {value} to row 0 of table `users`, expected at most {most:e}"
            )
        );
    }
}

/// The error that ends a server, whose mirror sends it this frame in the data lane.
async fn end_by(stage: &mut Stage, frame: Bytes) -> RealError {
    let mut mirror = HostileMirror::new(stage);
    let mut acceptor = stage.acceptor.take().unwrap();
    let others = [(MIRROR, mirror.at)];
    let served = with_server(stage, &mut acceptor, &others, async |at, _reports| {
        mirror.reach(at);
        let mut session = mirror.meet().await;
        session.push(Lane::Data, frame);
        mirror.send_all(&mut session).await;
        // A server that only refused the frame would close the connection, and go on.
        mirror.is_refused().await;
        mirror.meet().await;
    });
    let served = served.await;
    stage.acceptor = Some(acceptor);
    served.expect_err("the server ends, and accepts no further connection")
}

#[tokio::test]
async fn floods_of_messages_and_of_connections_change_nothing_and_fill_no_log() {
    let mut stage = stage().await;
    let alone = train_alone(&mut stage, FLOODS).await;
    let log = Log::begin();
    let read = train(&mut stage, FLOODS, async |mirror, mut session| {
        for message in permitted().iter().cycle().take(MESSAGES) {
            session.push(Lane::Control, message.clone());
            mirror.says.push(message.clone());
            mirror.send_all(&mut session).await;
        }
        // It acknowledges nothing, and repeats the first of its frames.
        session.push(Lane::Data, update(|_| {}));
        mirror.send_all(&mut session).await;
        mirror.is_refused().await;
    });
    assert_eq!(read.await, alone);

    let text = log.text();
    assert!(text.contains("sent update 1, expected 2"), "{text}");
    assert!(text.lines().count() < LINES_MAX, "{} lines:\n{text}", text.lines().count());
}

/// More clocks than the run has.
const FAR: Clock = Clock(1 << 30);
const CLOCKS: u64 = 3;
const FLOODS: u64 = 30;
const MESSAGES: usize = 100;

/// Each kind of line about one peer: ten at once, and one each five seconds. Both ends of the link log here.
const LINES_MAX: usize = 120;
