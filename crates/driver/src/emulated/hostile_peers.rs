//! Tests with many peers that break the protocol of streams, each in its own way, beside a correct one.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, SendStream};

use super::connection::Joining;
use super::{Certificates, Network};
use crate::test_topology::{link, mesh};
use gaia_core::node::Lane;
use gaia_core::topology::Topology;
use gaia_core::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};
use gaia_core::types::{Bandwidth, DcId, Seed, ShardId};
use gaia_quic::frames::{Hello, with_length};
use gaia_quic::stripe::Stripe;
use gaia_quic::{Breach, Carriers, DcTransport, Event, TransportError};

const ATTACKED: DcId = DcId(0);
const HONEST: DcId = DcId(1);
const HONEST_FRAMES: u32 = 500;

/// The bytes that each hostile peer writes on its stream, which it leaves open, and the breach for which the connection
/// is closed. `None` for a peer that only announces a frame.
fn attacks(from: DcId) -> Vec<(Vec<u8>, Option<Breach>)> {
    let hello = |from, shard, lane| {
        Hello { from, shard: ShardId(shard), lane, stripe: Stripe::WHOLE }.encode()
    };
    let data = hello(from, 0, Lane::Data);
    let control = hello(from, 0, Lane::Control);
    let too_long = |lane, bytes, max| Some(Breach::FrameTooLong { lane, bytes, max });
    let flood = with_length(&[0xff; 1500]).repeat(100);
    let length = |bytes: usize| (bytes as u32).to_le_bytes();

    vec![
        (b"GET / HTTP/1.1".to_vec(), Some(Breach::NotGaia { found: *b"GET " })),
        (vec![0; 13], Some(Breach::NotGaia { found: [0; 4] })),
        (
            [&control[..4], &[9, 9], &control[6..]].concat(),
            Some(Breach::Version { found: 0x909, expected: 1 }),
        ),
        ([&control[..10], &[2, 0, 1]].concat(), Some(Breach::Lane { found: 2 })),
        (
            hello(HONEST, 0, Lane::Data).into(),
            Some(Breach::Origin { found: HONEST, expected: from }),
        ),
        (
            hello(from, u16::MAX, Lane::Data).into(),
            Some(Breach::Shard { found: ShardId(u16::MAX), shards: 1 }),
        ),
        (
            [&control[..], &[0xff; 4]].concat(),
            too_long(Lane::Control, u32::MAX as usize, CONTROL_FRAME_BYTES_MAX),
        ),
        (
            [&data[..], &length(BULK_FRAME_BYTES_MAX + 1)].concat(),
            too_long(Lane::Data, BULK_FRAME_BYTES_MAX + 1, BULK_FRAME_BYTES_MAX),
        ),
        (
            [&data[..], &flood, &[0xff; 4]].concat(),
            too_long(Lane::Data, u32::MAX as usize, BULK_FRAME_BYTES_MAX),
        ),
        // The announcement of the longest frame, without the frame.
        ([&data[..], &length(BULK_FRAME_BYTES_MAX)].concat(), None),
        (data[..7].to_vec(), None),
        (Vec::new(), None),
    ]
}

/// One attacked data center, a correct one, and one for each attack.
fn topology(attacks: usize) -> Topology {
    let names: Vec<String> = (0..2 + attacks).map(|dc| format!("dc-{dc}")).collect();
    mesh(&names, link(Bandwidth::from_mbit(100.0), Duration::from_millis(10), 1_000_000))
}

/// Sends numbered frames, one every few milliseconds, so that every attack falls between two of them.
async fn be_honest(connection: Connection) -> SendStream {
    let mut stream = connection.open_uni().await.unwrap();
    let hello = Hello { from: HONEST, shard: ShardId(0), lane: Lane::Data, stripe: Stripe::WHOLE };
    stream.write_all(&hello.encode()).await.unwrap();
    for number in 0..HONEST_FRAMES {
        stream.write_all(&with_length(&number.to_le_bytes())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    stream
}

async fn attack(connection: Connection, bytes: Vec<u8>, at: Duration) {
    tokio::time::sleep(at).await;
    let mut stream = connection.open_uni().await.unwrap();
    // The other end closes the stream while it is written.
    let _ = stream.write_all(&bytes).await;
    connection.closed().await;
}

async fn attacked_end_goes_on_serving() {
    let attacks = attacks(DcId(2)).len();
    let topology = topology(attacks);
    let network = Network::new(&topology, Seed(1));
    let certificates = Certificates::for_data_centers(&topology).unwrap();
    let joining = Joining::new(&topology, 1, &network, &certificates, Seed(1)).unwrap();
    let joined = Arc::new(joining).join_all().await.unwrap();
    let before = resident_bytes();
    let mut attacked = DcTransport::new(ATTACKED, 0..1);

    let mut expected = BTreeMap::new();
    for end in joined {
        if end.at == ATTACKED {
            let ends = end.ends(&topology, 1, Duration::from_secs(2), Arc::default());
            let Carriers { pump, listener, .. } = attacked.join(ends.open().await.unwrap());
            tokio::spawn(pump.run());
            tokio::spawn(listener.run());
        } else if end.peer == ATTACKED && end.at == HONEST {
            tokio::spawn(async move {
                let stream = be_honest(end.connection).await;
                // Left open until the correct peer has sent its frames.
                std::mem::forget(stream);
            });
        } else if end.peer == ATTACKED {
            let number = usize::from(end.at.0) - 2;
            let (bytes, breach) = self::attacks(end.at).remove(number);
            expected.extend(breach.map(|breach| (end.at, breach)));
            let at = Duration::from_millis(100 * number as u64);
            tokio::spawn(attack(end.connection, bytes, at));
        }
    }

    let mut next = 0_u32;
    while next < HONEST_FRAMES {
        match attacked.event().await {
            Event::Frame(incoming) if incoming.from == HONEST => {
                assert_eq!(incoming.frame, next.to_le_bytes().as_slice());
                next += 1;
            }
            Event::Lost { peer, error } => {
                let (at, name) = ("dc-0".into(), format!("dc-{}", peer.0));
                let breach = expected.remove(&peer).expect("who only claims is not closed");
                assert_eq!(error, TransportError::PeerBrokeProtocol { at, peer: name, breach });
            }
            _ => {}
        }
    }

    let grown = resident_bytes().saturating_sub(before);
    assert!(expected.is_empty(), "every breach is told: {expected:?}");
    assert!(grown < 32 << 20, "the resident set grew by {grown} bytes");
}

/// The resident set size of this process in bytes. 0 if the operating system has no such file.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
}

/// Runs in a process of its own, because the resident set size is that of the process.
#[test]
fn hostile_streams_neither_grow_a_transport_nor_stop_it() {
    const NAME: &str =
        "emulated::hostile_peers::hostile_streams_neither_grow_a_transport_nor_stop_it";
    if std::env::args().any(|argument| argument == NAME) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        return runtime.block_on(attacked_end_goes_on_serving());
    }
    let program = std::env::current_exe().unwrap();
    let output =
        Command::new(program).args(["--exact", NAME, "--test-threads=1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
