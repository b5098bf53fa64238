//! Connections as the real driver sets them up, over links that are long, fat, slow, lossy or bloated.
#![allow(clippy::print_stdout, reason = "the shares are the result")]

use std::sync::Arc;
use std::time::Duration;

use quinn::{ClientConfig, Connecting, Endpoint, ServerConfig, TokioRuntime, TransportConfig};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::endpoint_config;
use super::socket::address_of;
use super::{Certificates, Network};
use crate::certificates::SERVER_NAME;
use crate::driver::quic::{
    Carriers, Chosen, DcTransport, End, Ends, Event, TrackedFactory, Windows, link_config,
};
use crate::link::{LinkConfig, quantum};
use crate::node::Lane;
use crate::topology::{DataCenter, Topology, WanLink};
use crate::types::{Bandwidth, Bytes as Size, DcId, Seed, ShardId, Time, UsdPerGb};

const OREGON: DcId = DcId(0);
const TOKYO: DcId = DcId(1);
const SHARD: ShardId = ShardId(0);

/// A link, the same in both directions, with an endpoint at each end.
struct Wire {
    topology: Topology,
    network: Arc<Network>,
    certificates: Certificates,
    endpoints: Vec<Endpoint>,
    windows: Windows,
    dedicated: bool,
    /// Whether the congestion controllers know the link.
    is_known: bool,
}

/// Both ends of a connection, and what runs for them.
struct Joined {
    oregon: DcTransport,
    tokyo: DcTransport,
    _carriers: JoinSet<()>,
}

#[derive(Clone, Copy)]
struct Like {
    mbit: f64,
    rtt_ms: u64,
    loss: f64,
    /// In bandwidth-delay products.
    queue: f64,
    seed: u64,
    dedicated: bool,
}

impl Default for Like {
    fn default() -> Self {
        Self { mbit: 50.0, rtt_ms: 200, loss: 0.0, queue: 1.0, seed: 1, dedicated: false }
    }
}

impl Wire {
    fn new(like: Like) -> Self {
        let bandwidth = Bandwidth::from_mbit(like.mbit);
        let rtt = Duration::from_millis(like.rtt_ms);
        let queue = Size((bandwidth.bytes_in(rtt) * like.queue) as u64);
        let link = |from, to| WanLink {
            from,
            to,
            bandwidth,
            rtt: Time(rtt),
            price: UsdPerGb::default(),
            loss: like.loss,
            queue,
        };
        let dc = |name: &str| DataCenter {
            name: name.into(),
            servers: 1,
            workers: 1,
            lan_bandwidth: Bandwidth::from_mbit(1_000.0),
            lan_rtt: Time::default(),
            colocated: false,
        };
        let topology = Topology {
            name: "long".into(),
            data_centers: vec![dc("oregon"), dc("tokyo")],
            links: vec![link(OREGON, TOKYO), link(TOKYO, OREGON)],
            groups: Vec::new(),
            bandwidth_scale: 1.0,
        };
        let network = Network::new(&topology, Seed(like.seed));
        let certificates = Certificates::for_data_centers(&topology).unwrap();
        let endpoints = topology.dc_ids().map(|dc| {
            let nobody = certificates.accepting(&topology, dc, None).unwrap();
            Endpoint::new_with_abstract_socket(
                endpoint_config(Seed(1).nth(dc.index())),
                Some(ServerConfig::with_crypto(Arc::new(nobody))),
                network.socket(dc),
                Arc::new(TokioRuntime),
            )
        });
        let endpoints = endpoints.map(Result::unwrap).collect();
        let link = link_config(&topology, OREGON, TOKYO);
        let (dedicated, windows) = (like.dedicated, Windows::new(&link, &link, like.dedicated));
        Self { topology, network, certificates, endpoints, windows, dedicated, is_known: true }
    }

    fn link(&self) -> LinkConfig {
        link_config(&self.topology, OREGON, TOKYO)
    }

    fn transport(&self, factory: &Arc<TrackedFactory>) -> Arc<TransportConfig> {
        let link = self.link();
        if self.is_known {
            factory.chosen.set(Chosen::new(&link, &link, self.dedicated)).unwrap();
        }
        let mut config = self.windows.transport(1);
        config.initial_mtu(1_200).congestion_controller_factory(factory.clone());
        Arc::new(config)
    }

    fn connecting(&self, factory: &Arc<TrackedFactory>) -> Connecting {
        let tls = self.certificates.connecting(&self.topology, OREGON, TOKYO).unwrap();
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(self.transport(factory));
        let to = address_of(TOKYO);
        self.endpoints[OREGON.index()].connect_with(config, to, SERVER_NAME).unwrap()
    }

    async fn accepting(&self, factory: &Arc<TrackedFactory>) -> Connecting {
        let tls = self.certificates.accepting(&self.topology, TOKYO, Some(OREGON)).unwrap();
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(self.transport(factory));
        let incoming = self.endpoints[TOKYO.index()].accept().await.unwrap();
        incoming.accept_with(Arc::new(config)).unwrap()
    }

    async fn join(&self) -> Joined {
        self.try_join().await.expect("the handshake gets through")
    }

    /// Nothing where loss has taken too much of the handshake.
    async fn try_join(&self) -> Option<Joined> {
        let factories = [(); 2].map(|()| Arc::<TrackedFactory>::default());
        let connecting = self.connecting(&factories[0]);
        let (one, other) = tokio::join!(connecting, async {
            let accepting = self.accepting(&factories[1]).await;
            accepting.await
        });
        let mut carriers = JoinSet::new();
        let mut transports = Vec::new();
        let connections = [one.ok()?, other.ok()?];
        for ((at, connection), factory) in
            [OREGON, TOKYO].into_iter().zip(connections).zip(factories)
        {
            let peer = DcId(1 - at.0);
            let name = |dc| self.topology.dc(dc).name.clone();
            let end = End { peer, shards: 0..1, at_name: name(at), peer_name: name(peer) };
            let ends = Ends {
                at,
                end,
                connection,
                flight: factory.flight.clone(),
                bandwidth: self.link().bandwidth,
                received: self.windows,
                sent: self.windows,
                patience: Duration::from_secs(10),
                counters: Arc::default(),
            };
            let mut transport = DcTransport::new(at, 0..1);
            let Carriers { pump, listener, .. } = transport.join(ends.open().await.unwrap());
            carriers.spawn(async move {
                pump.run().await;
            });
            carriers.spawn(listener.run());
            transports.push(transport);
        }
        let tokyo = transports.pop().unwrap();
        Some(Joined { oregon: transports.pop().unwrap(), tokyo, _carriers: carriers })
    }

    /// What arrives of a full data lane within a time, as a share of what the link could carry.
    async fn share(&self, time: Duration) -> f64 {
        let Joined { mut oregon, mut tokyo, _carriers } = self.join().await;
        let until = Instant::now() + time;
        let bytes = quantum(self.link().bandwidth).0 as usize;
        let sending = tokio::spawn(async move {
            while Instant::now() < until {
                while oregon.has_room(TOKYO, SHARD, Lane::Data) {
                    let frame = vec![0x5a; bytes].into();
                    oregon.send(TOKYO, SHARD, Lane::Data, frame).unwrap();
                }
                let event = timeout_at(until, oregon.event()).await;
                assert!(!matches!(event, Ok(Event::Lost { .. })), "{event:?}");
            }
        });
        let mut received = 0;
        while let Ok(event) = timeout_at(until + self.link().delay, tokyo.event()).await {
            let Event::Frame(incoming) = event else { panic!("{event:?}") };
            received += incoming.frame.len();
        }
        sending.await.unwrap();
        received as f64 / self.link().bandwidth.bytes_in(time)
    }
}

/// One shard's updates at 400 Mbit/s over 200 ms: one stream of 2.8 MB carries no more than that in a round trip.
#[tokio::test(start_paused = true)]
async fn stripes_fill_a_long_fat_link_that_one_stream_cannot() {
    let time = Duration::from_secs(4);
    for (dedicated, loss) in [(true, 0.0), (true, 1e-3), (false, 0.0)] {
        let like = Like { mbit: 400.0, dedicated, loss, ..Like::default() };
        let mut wire = Wire::new(like);
        let stripes = wire.windows.stripes;
        let striped = wire.share(time).await;
        wire = Wire::new(like);
        wire.windows.stripes = 1;
        wire.windows.stream = 2_800_000;
        let whole = wire.share(time).await;
        println!(
            "dedicated {dedicated}, loss {loss}: payload share {striped:.3} on {stripes} streams, {whole:.3} on one"
        );
        let least = if dedicated { 0.9 } else { 0.8 };
        assert!((least..0.9585).contains(&striped), "{striped}");
        assert!(whole < 0.3, "{whole}");
    }
}

/// Where windows are larger than the link, quinn ends connections at the first overshoot: here at 50 Mbit/s with a queue of
/// four products, and at 300 with one.
#[tokio::test(start_paused = true)]
async fn an_overshoot_into_any_queue_leaves_the_connection_whole() {
    for (mbit, queue, loss) in [(50.0, 4.0, 0.0), (300.0, 1.0, 0.0), (300.0, 0.25, 1e-3)] {
        for dedicated in [false, true] {
            let wire = Wire::new(Like { mbit, queue, loss, dedicated, ..Like::default() });
            let share = wire.share(Duration::from_secs(4)).await;
            println!(
                "{mbit} Mbit/s, queue {queue}, loss {loss}, dedicated {dedicated}: {share:.3}"
            );
            assert!(share > 0.05, "{share}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cubic_need_not_search_for_what_the_topology_says() {
    let time = Duration::from_secs(1);
    let known = Wire::new(Like::default()).share(time).await;
    let mut wire = Wire::new(Like::default());
    wire.is_known = false;
    let searched = wire.share(time).await;
    println!("payload share of the first second: {known:.3}, by slow start {searched:.3}");
    assert!(known > 0.85, "{known}");
    assert!(searched < 0.5, "{searched}");
}

/// A provisioned window does not take chance for congestion, as Cubic does.
#[tokio::test(start_paused = true)]
async fn a_dedicated_link_is_full_in_spite_of_loss() {
    let time = Duration::from_secs(10);
    let lossy = Like { loss: 1e-3, ..Like::default() };
    let dedicated = Wire::new(Like { dedicated: true, ..lossy }).share(time).await;
    let shared = Wire::new(lossy).share(time).await;
    println!("payload share with a packet in a thousand lost: {dedicated:.3}, Cubic {shared:.3}");
    assert!(dedicated > 0.9, "{dedicated}");
    assert!(shared < 0.7, "{shared}");
}

/// Sends one frame and says how long it took. Nobody may be lost meanwhile.
async fn one_frame(joined: &mut Joined, bytes: usize) -> Duration {
    let sent = Instant::now();
    joined.oregon.send(TOKYO, SHARD, Lane::Data, vec![1; bytes].into()).unwrap();
    loop {
        tokio::select! {
            event = joined.oregon.event() => {
                assert!(matches!(event, Event::Room { .. }), "{event:?}");
            }
            event = joined.tokyo.event() => match event {
                Event::Frame(incoming) => {
                    assert_eq!(incoming.frame.len(), bytes);
                    return sent.elapsed();
                }
                other => panic!("{other:?}"),
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transfer_of_minutes_over_a_slow_link_is_life() {
    for (dedicated, loss, bytes, most) in [
        (false, 0.0, 20 << 20, 1.1),
        (true, 0.0, 20 << 20, 1.1),
        (false, 0.3, 500 << 10, 100.0),
        (true, 0.3, 4 << 20, 100.0),
    ] {
        let wire = Wire::new(Like { mbit: 1.0, loss, dedicated, ..Like::default() });
        let mut joined = wire.join().await;
        let took = one_frame(&mut joined, bytes).await;
        println!("1 Mbit/s, loss {loss}, dedicated {dedicated}: {bytes} bytes in {took:?}");
        assert!(took > Duration::from_secs(60), "{took:?}");
        let ideal = wire.link().bandwidth.time_for((bytes as f64 / 0.958) as u64);
        assert!(took < ideal.mul_f64(most), "{took:?} for {ideal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_nothing_to_say_is_alive_though_packets_are_lost() {
    let mut joined = 0;
    for seed in 0..8 {
        let wire = Wire::new(Like { loss: 0.3, seed, ..Like::default() });
        let Some(mut pair) = wire.try_join().await else { continue };
        joined += 1;
        sleep(Duration::from_secs(600)).await;
        one_frame(&mut pair, 10).await;
    }
    assert!(joined >= 4, "most handshakes get through: {joined} of 8");
}

/// Another connection fills a queue of seconds, behind which keep-alives wait.
#[tokio::test(start_paused = true)]
async fn keep_alives_that_come_seconds_late_are_life() {
    let wire = Wire::new(Like { mbit: 10.0, queue: 10.0, ..Like::default() });
    let mut idle = wire.join().await;
    let mut busy = wire.join().await;
    wire.network.set_bandwidth(OREGON, TOKYO, Bandwidth::from_mbit(0.6));
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let whole = tokio::spawn(async move {
            let took = one_frame(&mut busy, 2 << 20).await;
            (busy, took)
        });
        sleep(Duration::from_secs(15)).await;
        slowest = slowest.max(one_frame(&mut idle, 10).await);
        busy = whole.await.unwrap().0;
    }
    println!("a frame of ten bytes took {slowest:?} at worst");
    assert!(slowest > Duration::from_secs(2), "the queue holds seconds: {slowest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_peer_is_noticed_within_seconds_whatever_is_under_way() {
    for bytes in [0, 4 << 20] {
        let wire = Wire::new(Like::default());
        let mut joined = wire.join().await;
        joined.oregon.send(TOKYO, SHARD, Lane::Data, vec![1; bytes].into()).unwrap();
        sleep(Duration::from_millis(350)).await;
        wire.network.sever(OREGON, TOKYO, true);
        let severed = Instant::now();
        for transport in [&mut joined.oregon, &mut joined.tokyo] {
            while !matches!(transport.event().await, Event::Lost { .. }) {}
        }
        println!("with {bytes} bytes under way noticed after {:?}", severed.elapsed());
        assert!(severed.elapsed() < Duration::from_secs(7), "{:?}", severed.elapsed());
    }
}

/// An owner that takes nothing is sent no more than its windows and its inbox hold.
#[tokio::test(start_paused = true)]
async fn a_flood_that_nobody_takes_is_held_back() {
    let wire = Wire::new(Like::default());
    for (lane, bytes, most) in [
        // The windows of both ends and the longest frame, but not the thousand frames that the inbox has places for.
        (Lane::Control, 1 << 20, 12 << 20),
        (Lane::Control, 100, 12 << 20),
        (Lane::Data, 1 << 20, 14 << 20),
    ] {
        let Joined { mut oregon, mut tokyo, _carriers } = wire.join().await;
        let until = Instant::now() + Duration::from_secs(60);
        let (mut sent, mut frames) = (0, 0);
        while Instant::now() < until {
            while oregon.has_room(TOKYO, SHARD, lane) {
                oregon.send(TOKYO, SHARD, lane, vec![frames as u8; bytes].into()).unwrap();
                sent += bytes;
                frames += 1;
            }
            let event = timeout_at(until, oregon.event()).await;
            assert!(!matches!(event, Ok(Event::Lost { .. })), "{event:?}");
        }
        println!("{frames} frames of {bytes} bytes were taken in hand");
        assert!(sent < most, "{sent} bytes of {lane:?} though nobody takes them");
        for frame in 0..frames {
            let Event::Frame(incoming) = tokyo.event().await else { panic!("a frame is due") };
            assert_eq!(incoming.frame[0], frame as u8, "every one, in order");
        }
    }
}

/// Early data could be repeated by anybody who has seen it, and resumption would skip the certificates.
#[tokio::test(start_paused = true)]
async fn no_connection_begins_with_early_data() {
    let wire = Wire::new(Like::default());
    for _ in 0..2 {
        let factories = [(); 2].map(|()| Arc::<TrackedFactory>::default());
        let connecting = wire.connecting(&factories[0]).into_0rtt();
        let connecting = connecting.err().expect("nothing is known of the peer before it answers");
        let (one, other) = tokio::join!(connecting, async {
            let accepting = wire.accepting(&factories[1]).await;
            accepting.await
        });
        one.unwrap();
        other.unwrap();
        // Time for a ticket, were there one.
        sleep(Duration::from_secs(1)).await;
    }
}
