//! Joining data centers: one QUIC connection for each pair, made by the lower-numbered of the two.
//!
//! Both ends prove which data center they are before a frame crosses. Windows, timers and packet sizes come
//! from the topology, each direction's from its own link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use rand_core::Rng;
use tokio::task::JoinSet;

use super::certificates::Certificates;
use super::congestion::{Flight, Provision, ProvisionedFactory};
use super::socket::{Network, address_of, dc_at, link_config};
use super::{Breach, TransportError};
use crate::certificates::{SERVER_NAME, plain_reason};
use crate::link::DATAGRAM_BYTES_MAX;
use crate::topology::Topology;
use crate::types::{DcId, Seed};

/// One data center's end of the connection to a peer.
pub(super) struct Joined {
    pub(super) at: DcId,
    pub(super) peer: DcId,
    pub(super) connection: Connection,
    pub(super) flight: Arc<Flight>,
}

/// What every data center needs in order to join the others.
pub(super) struct Joining {
    topology: Topology,
    shards: usize,
    endpoints: Vec<Endpoint>,
    /// By who accepts and who connects.
    accepting: BTreeMap<(DcId, DcId), Arc<QuicServerConfig>>,
    /// By who connects and who accepts.
    connecting: BTreeMap<(DcId, DcId), Arc<QuicClientConfig>>,
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

    /// Joins every pair, and gives both ends of each connection.
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

    async fn connect(&self, at: DcId, peer: DcId) -> Result<Joined, TransportError> {
        let flight = Arc::<Flight>::default();
        let mut config = ClientConfig::new(self.connecting[&(at, peer)].clone());
        config.transport_config(self.transport_config(at, peer, &flight));
        let connecting = self.endpoints[at.index()]
            .connect_with(config, address_of(peer), SERVER_NAME)
            .map_err(|error| self.unreachable(at, peer, error.to_string()))?;
        let connection = connecting.await.map_err(|error| self.failed(at, peer, &error))?;
        Ok(Joined { at, peer, connection, flight })
    }

    /// Accepts the connection of every data center with a lower number.
    async fn accept_lower(self: Arc<Self>, at: DcId) -> Result<Vec<Joined>, TransportError> {
        let mut accepts = JoinSet::new();
        for _ in 0..at.index() {
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
            let joining = self.clone();
            accepts.spawn(async move {
                let connecting = incoming.accept_with(Arc::new(config));
                let connecting = connecting.map_err(|error| joining.failed(at, peer, &error))?;
                let connection =
                    connecting.await.map_err(|error| joining.failed(at, peer, &error))?;
                Ok(Joined { at, peer, connection, flight })
            });
        }
        let mut joined = Vec::new();
        while let Some(done) = accepts.join_next().await {
            joined.push(done.expect("accepting does not panic and is not cancelled")?);
        }
        Ok(joined)
    }

    fn transport_config(&self, at: DcId, peer: DcId, flight: &Arc<Flight>) -> Arc<TransportConfig> {
        let out = link_config(&self.topology, at, peer);
        let back = link_config(&self.topology, peer, at);
        let provision = Provision::new(&out, &back);
        let stream_window = Provision::new(&back, &out).stream_window();
        let packet_time = out.serialisation(DATAGRAM_BYTES_MAX);
        let streams = u32::try_from(2 * self.shards).expect("shards are bounded by limits");
        let mut config = TransportConfig::default();
        config
            .congestion_controller_factory(Arc::new(ProvisionedFactory {
                provision,
                flight: flight.clone(),
            }))
            .initial_rtt(provision.round_trip + packet_time * 2 + TIMER_SLACK)
            .initial_mtu(DATAGRAM_BYTES_MAX as u16)
            .mtu_discovery_config(None)
            .stream_receive_window(varint(stream_window))
            .receive_window(VarInt::MAX)
            .max_concurrent_uni_streams(streams.into())
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .keep_alive_interval(Some(KEEP_ALIVE))
            .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS))));
        Arc::new(config)
    }

    /// The error of a handshake, blaming certificates where TLS does.
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

fn endpoint_config(seed: Seed) -> EndpointConfig {
    let mut bytes = [0; 32];
    seed.child("quic").random().fill_bytes(&mut bytes);
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(bytes));
    config
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

/// Closes a connection whose peer broke the protocol.
pub(super) fn close_for(connection: &Connection, breach: Breach) {
    connection.close(PROTOCOL_BROKEN, breach.to_string().as_bytes());
}

/// The code of a connection that is closed because the run is over.
pub(super) const GOODBYE: VarInt = VarInt::from_u32(0);
const PROTOCOL_BROKEN: VarInt = VarInt::from_u32(1);

/// Transport error codes that carry a TLS alert (RFC 9001, section 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Short, because after a partition QUIC's own back-off can add a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
const IDLE_TIMEOUT_MS: u32 = 10_000;

/// What two timers of one millisecond add to a round trip.
const TIMER_SLACK: Duration = Duration::from_millis(4);
