//! The connections of data centers: one QUIC connection for each pair, opened by the one with the lower number.
//!
//! Both ends authenticate before a frame is sent. Windows, timers and packet sizes follow from the topology, those of
//! each direction from its own link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig,
    TokioRuntime, TransportConfig,
};
use rand_core::Rng;
use tokio::task::JoinSet;

use super::TransportError;
use super::certificates::Certificates;
use super::socket::{Network, address_of, dc_at};
use gaia_certificates::{SERVER_NAME, plain_reason};
use gaia_core::link::DATAGRAM_BYTES_MAX;
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, Seed};
use gaia_quic::{
    End, Ends, Flight, LaneCounters, Provision, ProvisionedFactory, Windows, link_config,
};

/// One data center's end of the connection to a peer.
pub(super) struct Joined {
    pub(super) at: DcId,
    pub(super) peer: DcId,
    pub(super) connection: Connection,
    pub(super) flight: Arc<Flight>,
}

/// The settings with which data centers connect to each other.
pub(super) struct Joining {
    topology: Topology,
    shards: usize,
    endpoints: Vec<Endpoint>,
    /// By the accepting and the connecting data center.
    accepting: BTreeMap<(DcId, DcId), Arc<QuicServerConfig>>,
    /// By the connecting and the accepting data center.
    connecting: BTreeMap<(DcId, DcId), Arc<QuicClientConfig>>,
}

impl Joined {
    /// This end for all `shards` of a data center, which may use the whole link.
    pub(super) fn ends(
        self,
        topology: &Topology,
        shards: usize,
        patience: Duration,
        counters: Arc<LaneCounters>,
    ) -> Ends {
        let Self { at, peer, connection, flight } = self;
        let end = End {
            peer,
            shards: 0..shards as u16,
            at_name: topology.dc(at).name.clone(),
            peer_name: topology.dc(peer).name.clone(),
        };
        let bandwidth = link_config(topology, at, peer).bandwidth;
        let windows = |from, to| windows(topology, from, to);
        let (received, sent) = (windows(peer, at), windows(at, peer));
        Ends { at, end, connection, flight, bandwidth, received, sent, patience, counters }
    }
}

impl Joining {
    pub(super) fn new(
        topology: &Topology,
        shards: usize,
        network: &Arc<Network>,
        certificates: &Certificates,
        seed: Seed,
    ) -> Result<Self, TransportError> {
        let mut joining = Self {
            topology: topology.clone(),
            shards,
            endpoints: Vec::new(),
            accepting: BTreeMap::new(),
            connecting: BTreeMap::new(),
        };

        for dc in topology.dc_ids() {
            let nobody = Arc::new(certificates.accepting(topology, dc, None)?);
            let server = ServerConfig::with_crypto(nobody);
            let endpoint = Endpoint::new_with_abstract_socket(
                endpoint_config(seed.nth(dc.index())),
                Some(server),
                network.socket(dc),
                Arc::new(TokioRuntime),
            );
            let name = || topology.dc(dc).name.clone();
            joining.endpoints.push(endpoint.map_err(|error| TransportError::Unreachable {
                from: name(),
                to: name(),
                reason: error.to_string(),
            })?);
            for peer in topology.dc_ids().filter(|peer| dc < *peer) {
                let accepting = Arc::new(certificates.accepting(topology, peer, Some(dc))?);
                joining.accepting.insert((peer, dc), accepting);
                let connecting = Arc::new(certificates.connecting(topology, dc, peer)?);
                joining.connecting.insert((dc, peer), connecting);
            }
        }

        Ok(joining)
    }

    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Connects all pairs, and returns both ends of each connection.
    pub(super) async fn join_all(self: Arc<Self>) -> Result<Vec<Joined>, TransportError> {
        let mut joins = JoinSet::new();
        for dc in self.topology.dc_ids() {
            joins.spawn(self.clone().accept_lower(dc));
            for peer in self.topology.dc_ids().filter(|peer| dc < *peer) {
                let joining = self.clone();
                joins.spawn(async move { Ok(vec![joining.connect(dc, peer).await?]) });
            }
        }
        let mut joined = Vec::new();
        while let Some(done) = joins.join_next().await {
            joined.extend(done.expect("joining does not panic and is not cancelled")?);
        }
        joined.sort_by_key(|end| (end.at, end.peer));
        Ok(joined)
    }

    /// Connects to a data center with a higher number.
    pub(super) async fn connect(&self, at: DcId, peer: DcId) -> Result<Joined, TransportError> {
        let flight = Arc::<Flight>::default();
        let mut config = ClientConfig::new(self.connecting[&(at, peer)].clone());
        config.transport_config(self.transport_config(at, peer, &flight));
        let connecting = self.endpoints[at.index()]
            .connect_with(config, address_of(peer), SERVER_NAME)
            .map_err(|error| self.unreachable(at, peer, error.to_string()))?;
        let connection = connecting.await.map_err(|error| self.failed(at, peer, &error))?;
        Ok(Joined { at, peer, connection, flight })
    }

    /// Accepts the connections of all data centers with a lower number.
    async fn accept_lower(self: Arc<Self>, at: DcId) -> Result<Vec<Joined>, TransportError> {
        let mut accepts = JoinSet::new();
        for _ in 0..at.index() {
            let joining = self.clone();
            accepts.spawn(async move { joining.accept_next(at).await });
        }
        let mut joined = Vec::new();
        while let Some(done) = accepts.join_next().await {
            joined.push(done.expect("accepting does not panic and is not cancelled")?);
        }
        Ok(joined)
    }

    /// Accepts one connection.
    pub(super) async fn accept_next(&self, at: DcId) -> Result<Joined, TransportError> {
        let incoming = self.endpoints[at.index()].accept().await;
        let incoming = incoming.expect("an endpoint is not closed while it joins");
        let peer = dc_at(incoming.remote_address());
        let peer = peer.expect("only data centers have sockets on this network");
        let flight = Arc::<Flight>::default();
        let accepting = self.accepting.get(&(at, peer));
        let accepting = accepting.expect("data centers connect to those with higher numbers");
        let mut config = ServerConfig::with_crypto(accepting.clone());
        config.transport_config(self.transport_config(at, peer, &flight));
        config.migration(false);
        let connecting = incoming.accept_with(Arc::new(config));
        let connecting = connecting.map_err(|error| self.failed(at, peer, &error))?;
        let connection = connecting.await.map_err(|error| self.failed(at, peer, &error))?;
        Ok(Joined { at, peer, connection, flight })
    }

    fn transport_config(&self, at: DcId, peer: DcId, flight: &Arc<Flight>) -> Arc<TransportConfig> {
        let out = link_config(&self.topology, at, peer);
        let back = link_config(&self.topology, peer, at);
        let provision = Provision::new(&out, &back);
        let packet_time = out.serialisation(DATAGRAM_BYTES_MAX);
        let mut config = windows(&self.topology, peer, at).transport(self.shards);
        config
            .congestion_controller_factory(Arc::new(ProvisionedFactory {
                provision,
                flight: flight.clone(),
            }))
            .initial_rtt(provision.round_trip + packet_time * 2 + TIMER_SLACK)
            .initial_mtu(DATAGRAM_BYTES_MAX as u16)
            .mtu_discovery_config(None);
        Arc::new(config)
    }

    /// The error of a handshake. It names certificates as the cause if TLS does.
    fn failed(&self, at: DcId, peer: DcId, error: &ConnectionError) -> TransportError {
        match error {
            ConnectionError::TransportError(tls) if TLS_ALERTS.contains(&u64::from(tls.code)) => {
                TransportError::WrongCertificate {
                    at: self.name(at),
                    peer: self.name(peer),
                    reason: plain_reason(&tls.reason).to_owned(),
                }
            }
            ConnectionError::ConnectionClosed(close)
                if TLS_ALERTS.contains(&u64::from(close.error_code)) =>
            {
                TransportError::WrongCertificate {
                    at: self.name(peer),
                    peer: self.name(at),
                    reason: plain_reason(&String::from_utf8_lossy(&close.reason)).to_owned(),
                }
            }
            other => self.unreachable(at, peer, other.to_string()),
        }
    }

    fn unreachable(&self, from: DcId, to: DcId, reason: String) -> TransportError {
        TransportError::Unreachable { from: self.name(from), to: self.name(to), reason }
    }

    fn name(&self, dc: DcId) -> String {
        self.topology.dc(dc).name.clone()
    }
}

pub(super) fn endpoint_config(seed: Seed) -> EndpointConfig {
    let mut bytes = [0; 32];
    seed.child("quic").random().fill_bytes(&mut bytes);
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(bytes));
    config
}

/// The windows that the receiver of a link grants a sender with a provisioned window.
fn windows(topology: &Topology, from: DcId, to: DcId) -> Windows {
    let (link, back) = (link_config(topology, from, to), link_config(topology, to, from));
    Windows::provisioned(&Provision::new(&link, &back))
}

/// Transport error codes that carry a TLS alert (RFC 9001, section 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// The delay that two timers of one millisecond add to a round trip.
const TIMER_SLACK: Duration = Duration::from_millis(4);

#[cfg(test)]
mod tests {
    use quinn::VarInt;

    use super::*;
    use crate::test_topology::{link, mesh};
    use gaia_core::node::Lane;
    use gaia_core::types::{Bandwidth, ShardId};
    use gaia_quic::frames::Hello;
    use gaia_quic::listener::DATA_INBOX_FRAMES_MAX;
    use gaia_quic::stripe::Stripe;
    use gaia_quic::{Breach, Carriers, DcTransport, Event, GOODBYE};

    fn pair() -> Topology {
        mesh(&["honest", "broken"], link(Bandwidth::from_mbit(10.0), Duration::ZERO, 100_000))
    }

    fn ends(joined: Joined, topology: &Topology) -> Ends {
        joined.ends(topology, 1, Duration::from_secs(2), Arc::default())
    }

    /// The honest end, joined, and the other as a bare connection.
    async fn join() -> (DcTransport, Connection, JoinSet<()>) {
        let topology = pair();
        let network = Network::new(&topology, Seed(1));
        let certificates = Certificates::for_data_centers(&topology).unwrap();
        let joining = Joining::new(&topology, 1, &network, &certificates, Seed(1)).unwrap();
        let mut joined = Arc::new(joining).join_all().await.unwrap();
        let mut honest = DcTransport::new(DcId(0), 0..1);
        let mut tasks = JoinSet::new();
        let lanes = ends(joined.remove(0), &topology).open().await.unwrap();
        let Carriers { pump, listener, .. } = honest.join(lanes);
        tasks.spawn(async move {
            pump.run().await;
        });
        tasks.spawn(listener.run());
        (honest, joined.remove(0).connection, tasks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_left_only_once_the_last_of_its_frames_was_taken() {
        let (mut honest, leaver, _tasks) = join().await;
        let mut stream = leaver.open_uni().await.unwrap();
        let hello =
            Hello { from: DcId(1), shard: ShardId(0), lane: Lane::Data, stripe: Stripe::WHOLE };
        stream.write_all(&hello.encode()).await.unwrap();
        let frames = 3 * DATA_INBOX_FRAMES_MAX as u8;

        for number in 0..frames {
            stream.write_all(&[1, 0, 0, 0, number]).await.unwrap();
        }
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
        leaver.close(GOODBYE, b"");
        tokio::time::sleep(Duration::from_secs(1)).await;

        for expected in 0..frames {
            let Event::Frame(incoming) = honest.event().await else { panic!("a frame is due") };
            assert_eq!(incoming.frame, [expected].as_slice());
        }

        assert_eq!(honest.event().await, Event::Left { peer: DcId(1) });
    }

    /// Sends a stream from the broken end, and checks the breach that the honest end reports and the reason that it
    /// sends.
    async fn check(stream_bytes: &[u8], expect: Breach) {
        check_all(&[stream_bytes], expect).await;
    }

    async fn check_all(streams: &[&[u8]], expect: Breach) {
        let (mut honest, broken, mut tasks) = join().await;
        for stream_bytes in streams {
            let mut stream = broken.open_uni().await.unwrap();
            stream.write_all(stream_bytes).await.unwrap();
            stream.finish().unwrap();
        }

        let error = TransportError::PeerBrokeProtocol {
            at: "honest".into(),
            peer: "broken".into(),
            breach: expect,
        };
        assert_eq!(honest.event().await, Event::Lost { peer: DcId(1), error });
        while tasks.join_next().await.is_some() {}
        let ConnectionError::ApplicationClosed(close) = broken.closed().await else {
            panic!("the broken end is not told why");
        };
        assert_eq!(close.error_code, VarInt::from_u32(1));

        assert_eq!(close.reason, expect.to_string().as_bytes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_the_protocol_ends_the_connection_with_its_reason() {
        let hello = |from, shard, lane| Hello {
            from: DcId(from),
            shard: ShardId(shard),
            lane,
            stripe: Stripe::WHOLE,
        };

        let control = hello(1, 0, Lane::Control).encode();
        check(b"GET / HTTP/1.1", Breach::NotGaia { found: *b"GET " }).await;
        check(&control[..5], Breach::Truncated).await;
        let liar = hello(0, 0, Lane::Data).encode();
        check(&liar, Breach::Origin { found: DcId(0), expected: DcId(1) }).await;
        let stray = hello(1, 7, Lane::Data).encode();
        check(&stray, Breach::Shard { found: ShardId(7), shards: 1 }).await;
        let endless = [&control[..], &[0xff; 4]].concat();

        let (bytes, max) = (u32::MAX as usize, gaia_core::types::limits::CONTROL_FRAME_BYTES_MAX);
        check(&endless, Breach::FrameTooLong { lane: Lane::Control, bytes, max }).await;
        let short = [&control[..], &[9, 0, 0, 0, 1, 2]].concat();
        check(&short, Breach::Truncated).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_on_streams_that_do_not_fit_together_ends_the_connection() {
        let lane = Lane::Data;
        let hello = |index, count| {
            let stripe = Stripe { index, count };
            Hello { from: DcId(1), shard: ShardId(0), lane, stripe }.encode()
        };

        for (index, count) in [(0, 0), (2, 2), (0, 17)] {
            check(&hello(index, count), Breach::Stripe { lane, index, count }).await;
        }
        let mut control = hello(0, 2);
        control[10] = 0;
        let breach = Breach::Stripe { lane: Lane::Control, index: 0, count: 2 };
        check(&control, breach).await;
        let shard = ShardId(0);

        let twice = |index, count| {
            let stripe = Stripe { index, count };
            Breach::StreamTwice { shard, lane, stripe }
        };
        check_all(&[&hello(1, 2), &hello(1, 2)], twice(1, 2)).await;
        check_all(&[&hello(1, 2), &hello(0, 3)], twice(0, 3)).await;

        check_all(&[&hello(0, 1), &hello(0, 1)], twice(0, 1)).await;
    }
}
