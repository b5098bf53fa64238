//! A link between two endpoints with the real driver's settings, for tests.

use std::sync::Arc;
use std::time::Duration;

use quinn::{
    ClientConfig, Connecting, Endpoint, Incoming, ServerConfig, TokioRuntime, TransportConfig,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::connection::endpoint_config;
use super::socket::address_of;
use super::{Certificates, Network};
use crate::test_topology::{link, mesh};
use gaia_certificates::SERVER_NAME;
use gaia_core::link::{LinkConfig, quantum};
use gaia_core::node::Lane;
use gaia_core::topology::{Topology, WanLink};
use gaia_core::types::{Bandwidth, DcId, Seed, ShardId};
use gaia_quic::{
    Carriers, Chosen, DcTransport, End, Ends, Event, TrackedFactory, TransportError, Windows,
    link_config,
};

pub(super) const OREGON: DcId = DcId(0);
pub(super) const TOKYO: DcId = DcId(1);
pub(super) const SHARD: ShardId = ShardId(0);

/// A link, the same in both directions, with an endpoint at each end.
pub(super) struct Wire {
    topology: Topology,
    pub(super) network: Arc<Network>,
    certificates: Certificates,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) windows: Windows,
    pub(super) dedicated: bool,
    /// Whether the congestion controllers know the link.
    pub(super) is_known: bool,
}

/// Both ends of a connection, and their tasks.
pub(super) struct Joined {
    pub(super) oregon: DcTransport,
    pub(super) tokyo: DcTransport,
    pub(super) _carriers: JoinSet<()>,
}

#[derive(Clone, Copy)]
pub(super) struct Like {
    pub(super) mbit: f64,
    pub(super) rtt_ms: u64,
    pub(super) loss: f64,
    /// In bandwidth-delay products.
    pub(super) queue: f64,
    pub(super) seed: u64,
    pub(super) dedicated: bool,
}

impl Default for Like {
    fn default() -> Self {
        Self { mbit: 50.0, rtt_ms: 200, loss: 0.0, queue: 1.0, seed: 1, dedicated: false }
    }
}

impl Wire {
    pub(super) fn new(like: Like) -> Self {
        let bandwidth = Bandwidth::from_mbit(like.mbit);
        let rtt = Duration::from_millis(like.rtt_ms);
        let queue = (bandwidth.bytes_in(rtt) * like.queue) as u64;
        let link = WanLink { loss: like.loss, ..link(bandwidth, rtt, queue) };
        let topology = mesh(&["oregon", "tokyo"], link);

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

    pub(super) fn link(&self) -> LinkConfig {
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

    pub(super) fn connecting(&self, factory: &Arc<TrackedFactory>) -> Connecting {
        let tls = self.certificates.connecting(&self.topology, OREGON, TOKYO).unwrap();
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(self.transport(factory));
        let to = address_of(TOKYO);
        self.endpoints[OREGON.index()].connect_with(config, to, SERVER_NAME).unwrap()
    }

    pub(super) async fn accepting(&self, factory: &Arc<TrackedFactory>) -> Connecting {
        let incoming = self.endpoints[TOKYO.index()].accept().await.unwrap();
        self.accept_with(incoming, factory)
    }

    pub(super) fn accept_with(
        &self,
        incoming: Incoming,
        factory: &Arc<TrackedFactory>,
    ) -> Connecting {
        let tls = self.certificates.accepting(&self.topology, TOKYO, Some(OREGON)).unwrap();
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(self.transport(factory));
        incoming.accept_with(Arc::new(config)).unwrap()
    }

    pub(super) async fn join(&self) -> Joined {
        self.try_join().await.expect("the handshake gets through")
    }

    /// Connects. `None` if too many packets of the handshake were lost.
    pub(super) async fn try_join(&self) -> Option<Joined> {
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

    /// The share of the link's capacity that a full data lane delivers in order within a time.
    pub(super) async fn share(&self, time: Duration) -> f64 {
        self.try_share(time).await.unwrap()
    }

    pub(super) async fn try_share(&self, time: Duration) -> Result<f64, TransportError> {
        let Joined { mut oregon, mut tokyo, _carriers } = self.join().await;
        let until = Instant::now() + time + self.link().delay;
        let bytes = quantum(self.link().bandwidth).0 as usize;
        let (mut sent, mut frames, mut received) = (0_u8, 0_u8, 0);

        loop {
            if oregon.has_room(TOKYO, SHARD, Lane::Data) {
                oregon.send(TOKYO, SHARD, Lane::Data, vec![sent; bytes].into())?;
                sent = sent.wrapping_add(1);
            }
            let event = tokio::select! {
                event = oregon.event() => event,
                event = tokyo.event() => event,
                () = sleep_until(until) => break,
            };
            match event {
                Event::Frame(incoming) => {
                    let whole = incoming.frame.iter().all(|byte| *byte == frames);
                    assert!(whole && incoming.frame.len() == bytes, "frame {frames} is another");
                    frames = frames.wrapping_add(1);
                    received += bytes;
                }
                Event::Lost { error, .. } => return Err(error),
                Event::Room { .. } | Event::Silent { .. } | Event::Left { .. } => {}
            }
        }

        Ok(received as f64 / self.link().bandwidth.bytes_in(time))
    }
}
