//! A server's connections to its mirrors: QUIC over UDP, one connection a mirror.
//!
//! Of two mirrors the one of the lower-numbered data center connects. Both prove in the handshake who they are. Windows
//! are no more than 1.25 bandwidth-delay products of the link, and 2.8 MB a stream, above which quinn may end a
//! connection that loses packets. A connection sends no faster than its server's share of the link.
//!
//! A lost connection ends the run.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use super::channel::resolve;
use super::error::{LinkFault, RealError};
use super::site::{Patience, Seat};
use crate::certificates::{SERVER_NAME, accepting, connecting, identity_of, plain_reason};
use crate::driver::journal::Carriage;
use crate::driver::quic::{
    Carriers, Chosen, DcTransport, End, Ends, Finisher, GOODBYE, LaneCounters, TrackedFactory,
    Windows, link_config,
};
use crate::link::{DATAGRAM_BYTES_MAX, IP_UDP_HEADER_BYTES, LinkConfig};
use crate::topology::{Address, Topology};
use crate::types::{DcId, NodeId, ServerId};
use crate::wire::PROTOCOL_VERSION;

/// A server's endpoint before it has met its mirrors: it answers them, and checks.
pub(super) struct Meeting {
    own: ServerId,
    endpoint: Endpoint,
    met: UnboundedReceiver<Met>,
    others: JoinSet<()>,
}

/// A server's lanes to all its mirrors, and the tasks behind them.
pub(super) struct Mirrors {
    pub(super) transport: DcTransport,
    endpoint: Endpoint,
    links: BTreeMap<DcId, MirrorLink>,
    pumps: JoinSet<bool>,
    others: JoinSet<()>,
    patience: Duration,
}

struct MirrorLink {
    connection: Connection,
    finisher: Finisher,
    counters: Arc<LaneCounters>,
}

/// A connection to a mirror that has proven itself.
struct Met {
    peer: DcId,
    connection: Connection,
    factory: Arc<TrackedFactory>,
}

impl Meeting {
    pub(super) fn open(seat: &Seat, own: ServerId, socket: UdpSocket) -> Result<Self, RealError> {
        let endpoint = open(seat, own, socket)?;
        let (sender, met) = unbounded_channel();
        let mut others = JoinSet::new();
        others.spawn(accept_lower(seat.clone(), own, endpoint.clone(), sender));
        Ok(Self { own, endpoint, met, others })
    }
}

impl Mirrors {
    /// Meets every mirror, waiting for those that have yet to start; `addresses` are the servers' of the run.
    pub(super) async fn meet(
        seat: &Seat,
        meeting: Meeting,
        addresses: &BTreeMap<ServerId, Address>,
    ) -> Result<Self, RealError> {
        let topology = &seat.site.plan.topology;
        let Meeting { own, endpoint, met: mut meeting, mut others } = meeting;
        let mut dials = JoinSet::new();
        for dc in topology.dc_ids().filter(|dc| *dc > own.dc) {
            let id = ServerId { dc, shard: own.shard };
            let (seat, endpoint) = (seat.clone(), endpoint.clone());
            let address = addresses.get(&id).cloned();
            dials.spawn(async move {
                let node = seat.site.name(NodeId::Server(id));
                let broken = || RealError::Broken {
                    from: "the coordinator".into(),
                    reason: format!("it knows no address of {node}"),
                };
                let address = address.ok_or_else(broken)?;
                join(&seat, own, id, &endpoint, &address).await
            });
        }
        let mut transport = DcTransport::new(own.dc, own.shard.0..own.shard.0 + 1);
        let patience = patience(topology);
        let mut links = BTreeMap::new();
        let mut pumps = JoinSet::new();
        while links.len() + 1 < topology.data_centers.len() {
            let Met { peer, connection, factory } = tokio::select! {
                Some(dialled) = dials.join_next() => {
                    dialled.expect("a dial does not panic and is not cancelled")?
                }
                Some(met) = meeting.recv() => met,
            };
            if links.contains_key(&peer) {
                connection.close(REFUSED, b"this mirror is connected already");
                continue;
            }
            let end = End {
                peer,
                shards: own.shard.0..own.shard.0 + 1,
                at_name: seat.name(),
                peer_name: seat.site.name(NodeId::Server(ServerId { dc: peer, shard: own.shard })),
            };
            let out = share(topology, own.dc, peer);
            let counters = Arc::<LaneCounters>::default();
            let ends = Ends {
                at: own.dc,
                end,
                connection: connection.clone(),
                flight: factory.flight.clone(),
                bandwidth: out.bandwidth,
                received: windows(seat, peer, own.dc),
                sent: windows(seat, own.dc, peer),
                patience,
                counters: counters.clone(),
            };
            let lanes = ends.open().await?;
            let Carriers { pump, listener, finisher } = transport.join(lanes);
            pumps.spawn(pump.run());
            others.spawn(listener.run());
            links.insert(peer, MirrorLink { connection, finisher, counters });
            seat.on_connected(NodeId::Server(ServerId { dc: peer, shard: own.shard }));
        }
        Ok(Self { transport, endpoint, links, pumps, others, patience })
    }

    /// What each link has carried away from here; `busy` is how long frames kept it.
    pub(super) fn carriages(&self, busy: &BTreeMap<DcId, Duration>) -> Vec<(DcId, Carriage)> {
        let links = self.links.iter().map(|(peer, link)| {
            let sent = link.connection.stats().udp_tx;
            let (control, data) = link.counters.read();
            let carriage = Carriage {
                bytes: sent.bytes + sent.datagrams * IP_UDP_HEADER_BYTES,
                control_bytes: control.wire_bytes,
                frames: control.frames + data.frames,
                busy: busy.get(peer).copied().unwrap_or_default(),
            };
            (*peer, carriage)
        });
        links.collect()
    }

    /// Sends what is in hand, says goodbye, and ends every task.
    pub(super) async fn close(mut self) {
        for link in self.links.values() {
            link.finisher.finish();
        }
        while self.pumps.join_next().await.is_some() {}
        self.endpoint.close(GOODBYE, b"the run is over");
        // Past this, what is left is cut off, which hurts nobody who has been told.
        let _late = timeout(self.patience, self.endpoint.wait_idle()).await;
        self.others.shutdown().await;
    }
}

/// Tries once whether a server's mirror answers over QUIC.
pub(super) async fn check(seat: &Seat, to: ServerId, address: &Address) -> Result<(), LinkFault> {
    let endpoint = dialling_endpoint(address).await?;
    let mut tls = connecting(&seat.credentials, &seat.site.identity(NodeId::Server(to)));
    tls.alpn_protocols = vec![CHECK.to_vec()];
    let connection = dial(&endpoint, address, tls, transport(seat, None)).await?;
    // Who accepts a check closes it with the version that it speaks.
    let closed = timeout(ANSWER_MAX, connection.closed()).await;
    match closed {
        Ok(ConnectionError::ApplicationClosed(close)) if close.error_code == GOODBYE => {
            let theirs = String::from_utf8_lossy(&close.reason).into_owned();
            let ours = PROTOCOL_VERSION.to_string();
            if theirs == ours {
                return Ok(());
            }
            let said = format!("peer speaks version {theirs} of the protocol, this node {ours}");
            Err(LinkFault::Version(said))
        }
        Ok(error) => Err(fault_of(&error)),
        Err(_) => Err(LinkFault::Protocol("the peer did not answer the check".into())),
    }
}

fn open(seat: &Seat, own: ServerId, socket: UdpSocket) -> Result<Endpoint, RealError> {
    let broken = |reason: String| RealError::Listen { address: seat.name(), reason };
    let server = server_config(seat, own, None).map_err(|fault| broken(fault.to_string()))?;
    Ok(Endpoint::new(EndpointConfig::default(), Some(server), socket, Arc::new(TokioRuntime))?)
}

/// TLS and transport of a server that accepts its mirrors.
fn server_config(
    seat: &Seat,
    own: ServerId,
    factory: Option<Arc<TrackedFactory>>,
) -> Result<ServerConfig, LinkFault> {
    let topology = &seat.site.plan.topology;
    let mirrors = topology.dc_ids().filter(|dc| *dc != own.dc);
    let mirrors = mirrors.map(|dc| NodeId::Server(ServerId { dc, shard: own.shard }));
    let identities = mirrors.map(|mirror| seat.site.identity(mirror));
    let mut tls = accepting(&seat.credentials, identities);
    tls.alpn_protocols = vec![JOIN.to_vec(), CHECK.to_vec()];
    let crypto = QuicServerConfig::try_from(tls)
        .map_err(|error| LinkFault::Certificate(error.to_string()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport(seat, factory));
    config.migration(false).max_incoming(2 * topology.data_centers.len() + HANDSHAKES_SPARE);
    Ok(config)
}

async fn join(
    seat: &Seat,
    own: ServerId,
    to: ServerId,
    endpoint: &Endpoint,
    address: &Address,
) -> Result<Met, RealError> {
    let node = seat.site.name(NodeId::Server(to));
    let mut patience = Patience::new(node.clone(), address.to_string());
    loop {
        let factory = Arc::new(TrackedFactory::default());
        choose(&factory, seat, own.dc, to.dc);
        let mut tls = connecting(&seat.credentials, &seat.site.identity(NodeId::Server(to)));
        tls.alpn_protocols = vec![JOIN.to_vec()];
        let transport = transport(seat, Some(factory.clone()));
        match dial(endpoint, address, tls, transport).await {
            Ok(connection) => return Ok(Met { peer: to.dc, connection, factory }),
            Err(fault) => patience.wait(fault).await?,
        }
    }
}

async fn dial(
    endpoint: &Endpoint,
    address: &Address,
    tls: rustls::ClientConfig,
    transport: Arc<TransportConfig>,
) -> Result<Connection, LinkFault> {
    let crypto = QuicClientConfig::try_from(tls)
        .map_err(|error| LinkFault::Certificate(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport);
    let local = endpoint.local_addr().map_err(|error| LinkFault::of_io(&error))?;
    let candidates = resolve(address).await?;
    let reachable = candidates.iter().find(|candidate| candidate.is_ipv4() == local.is_ipv4());
    let Some(to) = reachable else {
        let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
        let said = format!("`{}` has no {family} address, as this node has", address.host);
        return Err(LinkFault::Route(said));
    };
    let connecting = endpoint
        .connect_with(config, *to, SERVER_NAME)
        .map_err(|error| LinkFault::Route(error.to_string()))?;
    let connected = timeout(ANSWER_MAX, connecting).await;
    let silent =
        || LinkFault::Route(format!("no answer over UDP within {} s", ANSWER_MAX.as_secs()));
    connected.map_err(|_| silent())?.map_err(|error| fault_of(&error))
}

/// An endpoint of the address family that the address has, for a check.
async fn dialling_endpoint(address: &Address) -> Result<Endpoint, LinkFault> {
    let first = resolve(address).await?.into_iter().next();
    let first =
        first.ok_or_else(|| LinkFault::Name(format!("`{}` has no address", address.host)))?;
    let any: std::net::SocketAddr = match first.ip() {
        std::net::IpAddr::V4(ip) if ip.is_loopback() => ([127, 0, 0, 1], 0).into(),
        std::net::IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        std::net::IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    Endpoint::client(any).map_err(|error| LinkFault::of_io(&error))
}

/// Accepts mirrors of lower-numbered data centers, and answers checks, for as long as the endpoint is open.
async fn accept_lower(seat: Seat, own: ServerId, endpoint: Endpoint, met: UnboundedSender<Met>) {
    let mut accepts = JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        while accepts.try_join_next().is_some() {}
        let (seat, met) = (seat.clone(), met.clone());
        accepts.spawn(async move {
            let from = incoming.remote_address();
            match accept(&seat, own, incoming).await {
                // An owner that has met all its mirrors takes no more.
                Ok(ControlFlow::Continue(peer)) => drop(met.send(peer)),
                Ok(ControlFlow::Break(())) => {}
                Err(fault) => {
                    seat.meter.on_caller_refused();
                    warn!("{} turned away {from}: {fault}", seat.name());
                }
            }
        });
    }
}

async fn accept(
    seat: &Seat,
    own: ServerId,
    incoming: Incoming,
) -> Result<ControlFlow<(), Met>, LinkFault> {
    let factory = Arc::new(TrackedFactory::default());
    let config = server_config(seat, own, Some(factory.clone()))?;
    let connecting = incoming.accept_with(Arc::new(config)).map_err(|error| fault_of(&error))?;
    let connected = timeout(ANSWER_MAX, connecting).await;
    let connection = connected
        .map_err(|_| LinkFault::Route("the handshake took too long".into()))?
        .map_err(|error| fault_of(&error))?;
    let data = connection.handshake_data();
    let data = data.and_then(|data| data.downcast::<quinn::crypto::rustls::HandshakeData>().ok());
    if data.and_then(|data| data.protocol).as_deref() == Some(CHECK) {
        connection.close(GOODBYE, PROTOCOL_VERSION.to_string().as_bytes());
        return Ok(ControlFlow::Break(()));
    }
    let chain = connection.peer_identity();
    let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let proven = identity_of(&chain.unwrap_or_default());
    let proven = proven.map_err(|refusal| LinkFault::Certificate(refusal.to_string()))?;
    let topology = &seat.site.plan.topology;
    let peer = topology.dc_ids().find(|dc| topology.dc(*dc).name == proven.dc);
    match peer.filter(|peer| *peer < own.dc) {
        Some(peer) => {
            choose(&factory, seat, own.dc, peer);
            Ok(ControlFlow::Continue(Met { peer, connection, factory }))
        }
        None => {
            let reason = format!("{proven} is called, it does not call");
            connection.close(REFUSED, reason.as_bytes());
            Err(LinkFault::Refused(reason))
        }
    }
}

/// Gives a connection the congestion control of its link.
fn choose(factory: &TrackedFactory, seat: &Seat, at: DcId, peer: DcId) {
    let plan = &seat.site.plan;
    let (out, back) = (share(&plan.topology, at, peer), share(&plan.topology, peer, at));
    let dedicated = plan.deployment.dedicated.contains(&(at, peer));
    let chosen = Chosen::new(&out, &back, dedicated);
    factory.chosen.set(chosen).expect("a connection turns out to be one link's");
}

/// What the receiver of a link grants one server's lanes.
fn windows(seat: &Seat, from: DcId, to: DcId) -> Windows {
    let plan = &seat.site.plan;
    let (link, back) = (share(&plan.topology, from, to), share(&plan.topology, to, from));
    Windows::new(&link, &back, plan.deployment.dedicated.contains(&(from, to)))
}

/// Settings that fit whoever the peer turns out to be.
fn transport(seat: &Seat, factory: Option<Arc<TrackedFactory>>) -> Arc<TransportConfig> {
    let links = seat.site.plan.topology.links.iter();
    let widest = links.map(|link| windows(seat, link.from, link.to)).reduce(Windows::wider);
    let mut config =
        widest.map_or_else(TransportConfig::default, |windows| windows.transport(SHARDS));
    config.initial_mtu(INITIAL_MTU);
    if let Some(factory) = factory {
        config.congestion_controller_factory(factory);
    }
    Arc::new(config)
}

/// One server's share of a link.
fn share(topology: &Topology, from: DcId, to: DcId) -> LinkConfig {
    let link = link_config(topology, from, to);
    let servers = topology.dc(from).servers;
    LinkConfig { bandwidth: link.bandwidth.scaled(1.0 / servers as f64), ..link }
}

fn fault_of(error: &ConnectionError) -> LinkFault {
    match error {
        ConnectionError::TransportError(tls) if TLS_ALERTS.contains(&u64::from(tls.code)) => {
            LinkFault::Certificate(plain_reason(&tls.reason).to_owned())
        }
        ConnectionError::ConnectionClosed(close)
            if TLS_ALERTS.contains(&u64::from(close.error_code)) =>
        {
            let reason = String::from_utf8_lossy(&close.reason);
            LinkFault::Certificate(format!(
                "the peer refused this node's: {}",
                plain_reason(&reason)
            ))
        }
        ConnectionError::ApplicationClosed(close) => {
            LinkFault::Refused(String::from_utf8_lossy(&close.reason).into_owned())
        }
        ConnectionError::TimedOut => LinkFault::Route("no answer over UDP".into()),
        ConnectionError::VersionMismatch => {
            LinkFault::Version("the peer speaks no version of QUIC that this node does".into())
        }
        other => LinkFault::Protocol(other.to_string()),
    }
}

/// How long the end of a run may take: some round trips of the longest path.
fn patience(topology: &Topology) -> Duration {
    (topology.rtt_max().0 * 8).clamp(Duration::from_secs(2), Duration::from_secs(10))
}

/// What a connection is for. A version that is not this node's is refused with both named, so none stands here.
const JOIN: &[u8] = b"gaia";
const CHECK: &[u8] = b"gaia-check";

/// The code of a connection that is closed because it has no place in the run.
const REFUSED: VarInt = VarInt::from_u32(3);

/// Transport error codes that carry a TLS alert (RFC 9001, section 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Of a server there is one.
const SHARDS: usize = 1;

/// What crosses every path that IPv6 may take; quinn searches for more.
const INITIAL_MTU: u16 = 1200;

const HANDSHAKES_SPARE: usize = 16;

const _: () = assert!(DATAGRAM_BYTES_MAX >= INITIAL_MTU as u64);
