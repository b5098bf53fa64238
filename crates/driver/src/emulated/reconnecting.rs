//! Tests of data centers that lose their connection and connect again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::connection::{Joined, Joining};
use super::{Certificates, Network};
use crate::test_topology::{link, mesh};
use gaia_core::node::Lane;
use gaia_core::topology::Topology;
use gaia_core::types::{Bandwidth, DcId, Seed, ShardId};
use gaia_quic::{Carriers, DcTransport, Event, TransportError};

const OREGON: DcId = DcId(0);
const TOKYO: DcId = DcId(1);
const SHARD: ShardId = ShardId(0);

/// Two data centers, and the tasks of their connections so far.
struct Pair {
    topology: Topology,
    network: Arc<Network>,
    joining: Joining,
    oregon: DcTransport,
    tokyo: DcTransport,
    /// Two pumps and two listeners for each connection.
    carriers: JoinSet<()>,
}

impl Pair {
    fn new() -> Self {
        let link = link(Bandwidth::from_mbit(20.0), Duration::from_millis(80), 500_000);
        let topology = mesh(&["oregon", "tokyo"], link);

        let network = Network::new(&topology, Seed(1));
        let certificates = Certificates::for_data_centers(&topology).unwrap();
        let joining = Joining::new(&topology, 1, &network, &certificates, Seed(1)).unwrap();
        let (oregon, tokyo) = (DcTransport::new(OREGON, 0..1), DcTransport::new(TOKYO, 0..1));
        Self { topology, network, joining, oregon, tokyo, carriers: JoinSet::new() }
    }

    /// Connects the two, in addition to existing connections.
    async fn join(&mut self) {
        let (oregon, tokyo) =
            tokio::join!(self.joining.connect(OREGON, TOKYO), self.joining.accept_next(TOKYO));
        for joined in [oregon.unwrap(), tokyo.unwrap()] {
            self.join_end(joined).await;
        }
    }

    async fn join_end(&mut self, joined: Joined) {
        let end = if joined.at == OREGON { &mut self.oregon } else { &mut self.tokyo };
        let ends = joined.ends(&self.topology, 1, Duration::from_secs(2), Arc::default());
        let Carriers { pump, listener, .. } = end.join(ends.open().await.unwrap());
        self.carriers.spawn(async move {
            pump.run().await;
        });
        self.carriers.spawn(listener.run());
    }

    fn send(&mut self, lane: Lane, frame: &'static [u8]) {
        self.oregon.send(TOKYO, SHARD, lane, frame.into()).unwrap();
    }

    /// The next frame that reaches Tokyo.
    async fn frame(&mut self) -> Vec<u8> {
        match self.tokyo.event().await {
            Event::Frame(incoming) => incoming.frame.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until at most `carriers` tasks run for connections.
    async fn settle(&mut self, carriers: usize) {
        while self.carriers.len() > carriers {
            self.carriers.join_next().await.unwrap().unwrap();
        }
    }
}

async fn lost(transport: &mut DcTransport) -> TransportError {
    loop {
        match transport.event().await {
            Event::Lost { error, .. } => return error,
            Event::Room { .. } | Event::Silent { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_was_cut_carries_frames_again_once_it_is_joined_again() {
    let mut pair = Pair::new();
    pair.join().await;
    pair.send(Lane::Data, b"before");
    assert_eq!(pair.frame().await, b"before");
    while !matches!(pair.oregon.event().await, Event::Room { .. }) {}
    pair.network.sever(OREGON, TOKYO, true);
    pair.send(Lane::Data, b"into the void");
    lost(&mut pair.oregon).await;
    lost(&mut pair.tokyo).await;
    assert!(!pair.oregon.has_room(TOKYO, SHARD, Lane::Data));
    pair.settle(0).await;
    pair.network.sever(OREGON, TOKYO, false);
    pair.join().await;
    assert!(pair.oregon.has_room(TOKYO, SHARD, Lane::Data), "what was in hand went with the old");
    pair.send(Lane::Data, b"after");
    assert_eq!(pair.frame().await, b"after");
    while !matches!(pair.oregon.event().await, Event::Room { .. }) {}
    pair.settle(4).await;
}

/// A restarted peer reconnects before the loss of its connection is detected.
#[tokio::test(start_paused = true)]
async fn a_new_connection_of_a_peer_replaces_the_old_one() {
    let mut pair = Pair::new();
    pair.join().await;
    pair.send(Lane::Control, b"old control");
    pair.send(Lane::Data, b"old data");
    tokio::time::sleep(Duration::from_secs(1)).await;

    // Both are in the inbox, and the event of room is queued in Oregon, when the new connection is made.
    pair.join().await;
    pair.settle(4).await;
    pair.send(Lane::Control, b"new control");
    assert_eq!(pair.frame().await, b"new control");
    pair.send(Lane::Data, b"new data");
    assert_eq!(pair.frame().await, b"new data");

    for _ in 0..2 {
        let event = pair.oregon.event().await;
        assert!(matches!(event, Event::Room { .. }), "{event:?}");
    }

    let quiet = tokio::time::timeout(Duration::from_secs(60), pair.tokyo.event()).await;
    assert!(quiet.is_err(), "nothing of the old connection is told: {quiet:?}");
}

/// One end has a new connection while the other end only has the old one.
#[tokio::test(start_paused = true)]
async fn who_is_replaced_learns_that_its_connection_is_lost() {
    let mut pair = Pair::new();
    pair.join().await;
    let (_again, tokyo) =
        tokio::join!(pair.joining.connect(OREGON, TOKYO), pair.joining.accept_next(TOKYO));
    pair.join_end(tokyo.unwrap()).await;
    let error = lost(&mut pair.oregon).await.to_string();
    assert!(error.contains("another connection takes its place"), "{error}");
    pair.settle(2).await;
}

#[tokio::test(start_paused = true)]
async fn who_parts_says_why_and_hears_no_more() {
    let mut pair = Pair::new();
    pair.join().await;
    pair.send(Lane::Data, b"too late");
    tokio::time::sleep(Duration::from_secs(1)).await;
    pair.tokyo.part(OREGON, "a frame that was refused");
    let error = lost(&mut pair.oregon).await.to_string();
    assert!(error.contains("a frame that was refused"), "{error}");
    pair.settle(0).await;
    assert_eq!(pair.tokyo.peers().count(), 0);
    let quiet = tokio::time::timeout(Duration::from_secs(60), pair.tokyo.event()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    pair.join().await;
    pair.send(Lane::Data, b"again");
    assert_eq!(pair.frame().await, b"again");
}
