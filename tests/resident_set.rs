//! Ten thousand hostile frames leave a node as large as it was, and serving.
//!
//! A data center with a live server, an honest mirror and a hostile one, over real QUIC in memory. The resident set is
//! the process's, so this test is a program of its own. Only memory is measured: the clock is paused.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the package of the fuzz targets has other users of them"
)]
#[path = "../fuzz/src/lib.rs"]
mod fuzz;

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use fuzz::{Mutations, Node, Target};
use gaia_core::node::{Lane, ServerInput};
use gaia_core::server::PeerError;
use gaia_core::sync::{RemoteSync, TapConfig};
use gaia_core::topology::{DataCenter, Topology, WanLink};
use gaia_core::types::{
    Bandwidth, ByteSize, DcId, DurationSetting, Instant, Seed, ShardId, UsdPerGb,
};
use gaia_driver::emulated::{DcTransport, EmulatedWan, Event};

const SHARD: ShardId = ShardId(0);
const ATTACKED: DcId = DcId(0);
const HONEST: DcId = DcId(1);
const HOSTILE: DcId = DcId(2);
const HOSTILE_FRAMES: usize = 10_000;
const HONEST_CLOCKS: usize = 200;
const GROWTH_BYTES_MAX: u64 = 32 << 20;

#[tokio::test(start_paused = true)]
async fn ten_thousand_hostile_frames_neither_grow_a_node_nor_stop_it() {
    let (wan, transports) = EmulatedWan::start(&topology(), 1, Seed(7)).await.unwrap();
    let [attacked, honest, hostile] = transports.try_into().ok().unwrap();
    let before = resident_bytes();
    let attack = tokio::spawn(attack(hostile));
    let training = tokio::spawn(train(honest));
    let serving = tokio::spawn(serve(attacked));
    let (node, refused, most) = serving.await.unwrap();
    attack.abort();
    training.abort();
    assert_eq!(refused, HOSTILE_FRAMES, "every hostile frame came, and was refused");
    let learnt = HONEST_CLOCKS as f32 * 0.25;
    assert_eq!(node.server.values()[30..40], [learnt; 10], "every honest update came, once");
    let growth = most.saturating_sub(before);
    println!("{} hostile frames: the resident set grew by {} kB", refused, growth >> 10);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes");
    wan.close().await.unwrap();
}

/// Serves until both mirrors have said all they had to; the node, the frames refused, and the largest resident set.
async fn serve(mut transport: DcTransport) -> (Node, usize, u64) {
    let mut node = Node::new(ATTACKED.0, &RemoteSync::Tap(TapConfig::default()));
    let (mut refused, mut most) = (0, 0);
    let learnt = HONEST_CLOCKS as f32 * 0.25;
    while refused < HOSTILE_FRAMES || node.server.values()[30] < learnt {
        let Event::Frame(incoming) = transport.event().await else {
            panic!("no frame of the right length ends a connection");
        };
        let input =
            ServerInput::Frame { from: incoming.from, lane: incoming.lane, frame: incoming.frame };
        let answer = node.server.handle_input(Instant::ZERO, input);
        assert_eq!(answer.is_err(), incoming.from == HOSTILE, "{answer:?}");
        refused += usize::from(answer.is_err());
        if refused % 100 == 0 {
            most = most.max(resident_bytes());
        }
    }
    (node, refused, most)
}

/// Trains for some clocks, and sends what a server sends.
async fn train(mut transport: DcTransport) {
    let mut node = Node::new(HONEST.0, &RemoteSync::Tap(TapConfig::default()));
    for _ in 0..HONEST_CLOCKS {
        node.work();
        node.work();
        for lane in [Lane::Control, Lane::Data] {
            while !transport.has_room(ATTACKED, SHARD, lane) {
                transport.event().await;
            }
            if let Some(frame) = node.server.poll_transmit(Instant::ZERO, ATTACKED, lane, 4096) {
                transport.send(ATTACKED, SHARD, lane, frame).unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stay(transport).await;
}

async fn attack(mut transport: DcTransport) {
    let mut frames = HostileFrames::new();
    for number in 0..HOSTILE_FRAMES {
        let (lane, frame) = frames.next_frame(number);
        while !transport.has_room(ATTACKED, SHARD, lane) {
            transport.event().await;
        }
        transport.send(ATTACKED, SHARD, lane, frame).unwrap();
    }
    stay(transport).await;
}

/// Keeps a transport until the run is over, since QUIC has yet to deliver what it took.
async fn stay(mut transport: DcTransport) {
    loop {
        transport.event().await;
    }
}

/// Random, cut, oversized and forged frames, and whole ones of another data center, none of which may be believed.
struct HostileFrames {
    bulk: Mutations,
    control: Mutations,
}

impl HostileFrames {
    fn new() -> Self {
        let mutations = |name| Mutations::new(&Target::named(name).unwrap(), Vec::new(), 7);
        Self { bulk: mutations("bulk"), control: mutations("control") }
    }

    fn next_frame(&mut self, number: usize) -> (Lane, Bytes) {
        loop {
            let bulk = self.bulk.next_input();
            let bulk = bulk.get(1..).unwrap_or_default();
            let control = self.control.next_input();
            let (lane, frame) = match number % 6 {
                0 => (Lane::Data, bulk.to_vec()),
                1 => (Lane::Data, fuzz::sealed(bulk, b"GAIB").unwrap_or_default()),
                2 => (Lane::Control, control),
                // Of the other family, and longer than any of its own.
                3 => (Lane::Control, [bulk, &control].concat().repeat(9)),
                4 => (Lane::Data, vec![number as u8; 1 << (number % 18)]),
                _ => (Lane::Control, forged_length(&control, number)),
            };
            // A lucky one may be whole; it is not hostile then.
            let mut hostile = Node::new(ATTACKED.0, &RemoteSync::Tap(TapConfig::default()));
            let frame = Bytes::from(frame);
            let input = ServerInput::Frame { from: HOSTILE, lane, frame: frame.clone() };
            let answer: Result<(), PeerError> = hostile.server.handle_input(Instant::ZERO, input);
            if answer.is_err() {
                return (lane, frame);
            }
        }
    }
}

/// A frame whose header says another length than it has.
fn forged_length(frame: &[u8], number: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let claims = [0, 15, 1 << 22, 1 << 26, u32::MAX];
    if let Some(place) = frame.get_mut(8..12) {
        place.copy_from_slice(&claims[number % claims.len()].to_le_bytes());
    }
    frame
}

/// What of this process lies in memory.
fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    // The page size of x86-64 and of nearly every arm64.
    pages * 4096
}

fn topology() -> Topology {
    let bandwidth = Bandwidth::from_mbit(1000.0);
    let link = |from, to| WanLink {
        from,
        to,
        bandwidth,
        rtt: DurationSetting(Duration::from_millis(20)),
        price: UsdPerGb(0.0),
        loss: 0.0,
        queue: ByteSize(1 << 20),
    };
    let dcs = [ATTACKED, HONEST, HOSTILE];
    let pairs = dcs.into_iter().flat_map(|from| dcs.into_iter().map(move |to| (from, to)));
    Topology {
        name: "hostile".into(),
        data_centers: ["attacked", "honest", "hostile"]
            .map(|name| DataCenter {
                name: name.into(),
                servers: 1,
                workers: 1,
                lan_bandwidth: bandwidth,
                lan_rtt: DurationSetting(Duration::from_micros(100)),
                colocated: false,
                stands_for: Vec::new(),
            })
            .into(),
        links: pairs.filter(|(from, to)| from != to).map(|(from, to)| link(from, to)).collect(),
        groups: Vec::new(),
        bandwidth_scale: 1.0,
    }
}
