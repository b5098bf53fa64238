//! Making connections to mirrors: connecting, accepting, authentication, and the settings of QUIC.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, Incoming, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::Addresses;
use super::detours::{DETOUR_HEADER_BYTES, Detours};
use super::reset::endpoint_config;
use crate::real::connections::channel::resolve;
use crate::real::connections::throttle::LogThrottle;
use crate::real::environment::Datagrams;
use crate::real::error::{LinkFault, RealError};
use crate::real::node::context::{NodeContext, Patience};
use gaia_certificates::{SERVER_NAME, accepting, connecting, identity_of, plain_reason};
use gaia_core::link::{DATAGRAM_BYTES_MAX, LinkConfig};
use gaia_core::topology::{Address, Topology};
use gaia_core::types::{DcId, NodeId, ServerId};
use gaia_core::wire::PROTOCOL_VERSION;
use gaia_quic::{
    Callers, Chosen, End, Ends, GOODBYE, LaneCounters, Lanes, TrackedFactory, Windows,
    datagram_discovery, link_config,
};

/// Makes connections to a server's mirrors.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) context: NodeContext,
    pub(super) own: ServerId,
    pub(super) endpoint: Endpoint,
    /// `None` if detours are off, or there is no third data center.
    pub(super) detours: Option<Detours>,
    pub(super) counters: BTreeMap<DcId, Arc<LaneCounters>>,
}

/// A connection to an authenticated mirror, with open lanes.
pub(super) struct Arrival {
    pub(super) peer: DcId,
    pub(super) connection: Connection,
    pub(super) lanes: Lanes,
}

/// A connection to an authenticated mirror, without lanes.
struct Accepted {
    peer: DcId,
    connection: Connection,
    factory: Arc<TrackedFactory>,
}

impl Connector {
    /// Connects to a mirror, and tries again until it answers, once its address is known. `again` is whether it was
    /// connected before, so that all errors may be temporary.
    pub(super) async fn dial(
        &self,
        peer: DcId,
        mut addresses: watch::Receiver<Addresses>,
        again: bool,
    ) -> Result<Arrival, RealError> {
        let (context, topology) = (&self.context, &self.context.run_context.plan.topology);
        let to = ServerId { dc: peer, shard: self.own.shard };
        let node = context.run_context.name(NodeId::Server(to));

        // A repaired link should be used at once, and an attempt is one or two packets.
        let mut patience = Patience::new(node, again).at_most(PAUSE_MAX);
        if again {
            sleep(BREATH).await;
        }

        let mut tried = BTreeSet::new();
        loop {
            let address = addresses.borrow_and_update().get(&to).cloned();
            let Some(address) = address else {
                if addresses.changed().await.is_err() {
                    // The owner has ended.
                    std::future::pending::<()>().await;
                }
                continue;
            };
            let factory = Arc::new(TrackedFactory::default());
            choose(&factory, context, self.own.dc, peer);
            let mut tls =
                connecting(&context.credentials, &context.run_context.identity(NodeId::Server(to)));
            tls.alpn_protocols = vec![JOIN.to_vec()];
            let dialled = async {
                let transport = transport(context, Some(factory.clone()));
                let answer_max = answer_max(topology);
                let local = self.endpoint.local_addr().map_err(|error| LinkFault::of_io(&error))?;
                let candidates = resolve_for(&address, local).await?;
                let at = next_to_try(&candidates, &mut tried);
                if let Some(detours) = &self.detours {
                    detours.set_connection_address(peer, at);
                }
                let connection = dial(&self.endpoint, at, tls, transport, answer_max).await?;
                self.open(Accepted { peer, connection, factory }).await
            };
            match dialled.await {
                Ok(arrival) => return Ok(arrival),
                Err(fault) => patience.wait(&address, fault).await?,
            }
        }
    }

    async fn open(&self, accepted: Accepted) -> Result<Arrival, LinkFault> {
        let Accepted { peer, connection, factory } = accepted;
        let (run_context, own) = (&self.context.run_context, self.own);
        let topology = &run_context.plan.topology;
        let end = End {
            peer,
            shards: own.shard.0..own.shard.0 + 1,
            at_name: self.context.name(),
            peer_name: run_context.name(NodeId::Server(ServerId { dc: peer, shard: own.shard })),
        };

        let ends = Ends {
            at: own.dc,
            end,
            connection: connection.clone(),
            flight: factory.flight.clone(),
            bandwidth: share(topology, own.dc, peer).bandwidth,
            received: windows(&self.context, peer, own.dc),
            sent: windows(&self.context, own.dc, peer),
            patience: patience(topology),
            counters: self.counters[&peer].clone(),
        };

        let lanes = ends.open().await.map_err(|error| LinkFault::Route(error.to_string()))?;
        Ok(Arrival { peer, connection, lanes })
    }
}

/// Checks whether a server's mirror answers over QUIC at one of its addresses. Each is tried once. Where none answers, this is the
/// fault of the first.
pub(in crate::real) async fn check(
    context: &NodeContext,
    to: ServerId,
    address: &Address,
) -> Result<(), LinkFault> {
    let endpoint = dialling_endpoint(address).await?;
    let local = endpoint.local_addr().map_err(|error| LinkFault::of_io(&error))?;
    let mut checked = Ok(());
    for at in resolve_for(address, local).await? {
        match check_at(context, to, &endpoint, at).await {
            Ok(()) => return Ok(()),
            Err(fault) => checked = checked.and(Err(fault)),
        }
    }
    checked
}

/// Checks one address.
async fn check_at(
    context: &NodeContext,
    to: ServerId,
    endpoint: &Endpoint,
    at: SocketAddr,
) -> Result<(), LinkFault> {
    let mut tls =
        connecting(&context.credentials, &context.run_context.identity(NodeId::Server(to)));
    tls.alpn_protocols = vec![CHECK.to_vec()];
    let connection = dial(endpoint, at, tls, transport(context, None), ANSWER_MAX).await?;

    // The accepting end closes a check with its protocol version.
    let closed = timeout(ANSWER_MAX, connection.closed()).await;
    match closed {
        Ok(ConnectionError::ApplicationClosed(close)) if close.error_code == GOODBYE => {
            let theirs = String::from_utf8_lossy(&close.reason).into_owned();
            let ours = PROTOCOL_VERSION.to_string();
            if theirs == ours {
                return Ok(());
            }
            let said = format!("peer speaks protocol version {theirs}, expected {ours}");
            Err(LinkFault::Version(said))
        }
        Ok(error) => Err(fault_of(&error)),
        Err(_) => Err(LinkFault::Protocol("the peer did not answer the check".into())),
    }
}

pub(super) fn open(
    context: &NodeContext,
    own: ServerId,
    datagrams: Datagrams,
    detours: Option<&Detours>,
) -> Result<Endpoint, RealError> {
    let broken = |reason: String| RealError::Listen { address: context.name(), reason };
    let server = server_config(context, own, None).map_err(|fault| broken(fault.to_string()))?;
    let Datagrams { socket, config } = datagrams;
    let socket = detours.map_or(socket, Detours::socket);
    let mut config = config.unwrap_or_else(|| endpoint_config(&context.credentials));
    // In datagrams that are not QUIC's its fixed bit is clear, so QUIC must not clear it at random (RFC 9287).
    config.grease_quic_bit(false);
    let largest = config.get_max_udp_payload_size() as u16 + DETOUR_HEADER_BYTES;
    config.max_udp_payload_size(largest).expect("the largest datagram is one of QUIC");
    let runtime = Arc::new(TokioRuntime);
    Ok(Endpoint::new_with_abstract_socket(config, Some(server), socket, runtime)?)
}

/// The TLS and transport settings of a server that accepts its mirrors.
fn server_config(
    context: &NodeContext,
    own: ServerId,
    factory: Option<Arc<TrackedFactory>>,
) -> Result<ServerConfig, LinkFault> {
    let topology = &context.run_context.plan.topology;
    let mirrors = topology.dc_ids().filter(|dc| *dc != own.dc);
    let mirrors = mirrors.map(|dc| NodeId::Server(ServerId { dc, shard: own.shard }));
    let identities = mirrors.map(|mirror| context.run_context.identity(mirror));
    let mut tls = accepting(&context.credentials, identities);
    tls.alpn_protocols = vec![JOIN.to_vec(), CHECK.to_vec()];
    let crypto = QuicServerConfig::try_from(tls)
        .map_err(|error| LinkFault::Certificate(error.to_string()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport(context, factory));
    callers(topology).limit(&mut config);
    Ok(config)
}

async fn dial(
    endpoint: &Endpoint,
    at: SocketAddr,
    tls: rustls::ClientConfig,
    transport: Arc<TransportConfig>,
    answer_max: Duration,
) -> Result<Connection, LinkFault> {
    let crypto = QuicClientConfig::try_from(tls)
        .map_err(|error| LinkFault::Certificate(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport);
    let connecting = endpoint
        .connect_with(config, at, SERVER_NAME)
        .map_err(|error| LinkFault::Route(error.to_string()))?;
    let connected = timeout(answer_max, connecting).await;
    let silent =
        || LinkFault::Route(format!("no answer over UDP within {} s", answer_max.as_secs_f64()));

    connected.map_err(|_| silent())?.map_err(|error| fault_of(&error))
}

/// The first of some addresses that was not tried since all of them were. A name may have them in another order each time.
fn next_to_try(candidates: &[SocketAddr], tried: &mut BTreeSet<SocketAddr>) -> SocketAddr {
    tried.retain(|address| candidates.contains(address));
    let untried = candidates.iter().find(|address| !tried.contains(*address));
    let at = untried.copied().unwrap_or_else(|| {
        tried.clear();
        candidates[0]
    });
    tried.insert(at);
    at
}

/// The addresses of a host for a socket that is bound to `local`, at least one.
pub(super) async fn resolve_for(
    address: &Address,
    local: SocketAddr,
) -> Result<Vec<SocketAddr>, LinkFault> {
    let candidates = reachable_from(local, &resolve(address).await?);
    if candidates.is_empty() {
        let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(LinkFault::Route(format!(
            "`{}` has no {family} address, expected one because this node uses {family}",
            address.host
        )));
    }
    Ok(candidates)
}

/// Those of some addresses that a socket bound to `local` reaches. One for all addresses of IPv6 is also for those of IPv4, in the
/// form in which packets from there arrive.
fn reachable_from(local: SocketAddr, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let of_family = addresses.iter().filter(|address| address.is_ipv4() == local.is_ipv4());
    let of_family: Vec<_> = of_family.copied().collect();
    if !of_family.is_empty() || local.ip() != Ipv6Addr::UNSPECIFIED {
        return of_family;
    }
    let mapped = addresses.iter().map(|address| match address.ip() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped(), address.port()).into(),
        IpAddr::V6(_) => *address,
    });
    mapped.collect()
}

/// An endpoint of an address's family, for a check.
async fn dialling_endpoint(address: &Address) -> Result<Endpoint, LinkFault> {
    let first = resolve(address).await?.into_iter().next();
    let first =
        first.ok_or_else(|| LinkFault::Name(format!("`{}` has no address", address.host)))?;
    let any: SocketAddr = match first.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => ([127, 0, 0, 1], 0).into(),
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    Endpoint::client(any).map_err(|error| LinkFault::of_io(&error))
}

/// Accepts mirrors of data centers with a lower number, and answers checks, until the endpoint is closed.
pub(super) async fn accept_lower(
    connector: Connector,
    arrivals: UnboundedSender<Result<Arrival, RealError>>,
) {
    let mut accepts = JoinSet::new();
    let callers = callers(&connector.context.run_context.plan.topology);
    let refusals = Arc::new(LogThrottle::default());
    while let Some(incoming) = connector.endpoint.accept().await {
        while accepts.try_join_next().is_some() {}
        let Some((incoming, handshake)) = callers.admit(incoming) else { continue };
        let (connector, arrivals) = (connector.clone(), arrivals.clone());
        let refusals = refusals.clone();
        accepts.spawn(async move {
            let _handshake = handshake;
            let from = incoming.remote_address();
            let (context, own) = (&connector.context, connector.own);
            let taken = match accept(context, own, incoming).await {
                Ok(ControlFlow::Continue(accepted)) => connector.open(accepted).await,
                Ok(ControlFlow::Break(())) => return,
                Err(fault) => Err(fault),
            };
            match taken {
                // The owner may have ended.
                Ok(arrival) => drop(arrivals.send(Ok(arrival))),
                Err(fault) => {
                    context.meter.on_caller_refused();
                    if let Some(left_out) = refusals.pass() {
                        warn!(
                            "{} refused a connection from {from}: {fault}{left_out}",
                            context.name()
                        );
                    }
                }
            }
        });
    }
}

fn callers(topology: &Topology) -> Callers {
    Callers::new(topology.data_centers.len())
}

async fn accept(
    context: &NodeContext,
    own: ServerId,
    incoming: Incoming,
) -> Result<ControlFlow<(), Accepted>, LinkFault> {
    let factory = Arc::new(TrackedFactory::default());
    let config = server_config(context, own, Some(factory.clone()))?;
    let connecting = incoming.accept_with(Arc::new(config)).map_err(|error| fault_of(&error))?;
    let connected = timeout(ANSWER_MAX, connecting).await;
    let connection = connected
        .map_err(|_| {
            LinkFault::Route(format!("no handshake within {} s", ANSWER_MAX.as_secs_f64()))
        })?
        .map_err(|error| fault_of(&error))?;
    let data = connection.handshake_data();

    let data = data.and_then(|data| data.downcast::<quinn::crypto::rustls::HandshakeData>().ok());
    if data.and_then(|data| data.protocol).as_deref() == Some(CHECK) {
        connection.close(GOODBYE, PROTOCOL_VERSION.to_string().as_bytes());
        return Ok(ControlFlow::Break(()));
    }

    let proven = identity_of(&chain_of(&connection));
    let proven = proven.map_err(|refusal| LinkFault::Certificate(refusal.to_string()))?;
    let topology = &context.run_context.plan.topology;
    let peer = topology.dc_named(&proven.dc);

    match peer.filter(|peer| *peer < own.dc) {
        Some(peer) => {
            choose(&factory, context, own.dc, peer);
            Ok(ControlFlow::Continue(Accepted { peer, connection, factory }))
        }
        None => {
            let reason = format!(
                "found {proven}, expected a mirror in a data center that the topology lists before this one"
            );
            connection.close(REFUSED, reason.as_bytes());
            Err(LinkFault::Refused(reason))
        }
    }
}

/// The certificates of a connection's peer.
pub(super) fn chain_of(connection: &Connection) -> Vec<CertificateDer<'static>> {
    let chain = connection.peer_identity();
    let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    *chain.unwrap_or_default()
}

/// Sets the congestion control of a connection's link.
fn choose(factory: &TrackedFactory, context: &NodeContext, at: DcId, peer: DcId) {
    let plan = &context.run_context.plan;
    let (out, back) = (share(&plan.topology, at, peer), share(&plan.topology, peer, at));
    let dedicated = plan.deployment.dedicated.contains(&(at, peer));
    let chosen = Chosen::new(&out, &back, dedicated);
    factory.chosen.set(chosen).expect("a connection turns out to be one link's");
}

/// The windows that the receiver of a link grants one server's lanes.
fn windows(context: &NodeContext, from: DcId, to: DcId) -> Windows {
    let plan = &context.run_context.plan;
    let (link, back) = (share(&plan.topology, from, to), share(&plan.topology, to, from));
    Windows::new(&link, &back, plan.deployment.dedicated.contains(&(from, to)))
}

/// Transport settings for any peer.
fn transport(context: &NodeContext, factory: Option<Arc<TrackedFactory>>) -> Arc<TransportConfig> {
    let links = context.run_context.plan.topology.links.iter();
    let each = links.clone().map(|link| windows(context, link.from, link.to));
    let mut config = each
        .reduce(Windows::wider)
        .map_or_else(TransportConfig::default, |windows| windows.transport(SHARDS));

    let slowest = links.map(|link| link.bandwidth).reduce(|a, b| if b < a { b } else { a });
    config.initial_mtu(INITIAL_MTU).mtu_discovery_config(
        slowest.map(|slowest| datagram_discovery(slowest, DETOUR_HEADER_BYTES)),
    );
    if let Some(factory) = factory {
        config.congestion_controller_factory(factory);
    }
    Arc::new(config)
}

/// One server's share of a link.
fn share(topology: &Topology, from: DcId, to: DcId) -> LinkConfig {
    let bandwidth = topology.server_bandwidth(from, to);
    LinkConfig { bandwidth, ..link_config(topology, from, to) }
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
                "the peer refused the certificate of this node: {}",
                plain_reason(&reason)
            ))
        }
        ConnectionError::ApplicationClosed(close) if close.error_code == GOODBYE => {
            LinkFault::Port(
                "the peer closed the connection and does not accept this node at the moment".into(),
            )
        }
        ConnectionError::ConnectionClosed(_) | ConnectionError::Reset => {
            LinkFault::Port("the peer closed the connection".into())
        }
        ConnectionError::ApplicationClosed(close) => {
            LinkFault::Refused(String::from_utf8_lossy(&close.reason).into_owned())
        }
        ConnectionError::TimedOut => LinkFault::Route("no answer over UDP".into()),
        ConnectionError::VersionMismatch => {
            LinkFault::Version("the peer supports no QUIC version of this node".into())
        }
        other => LinkFault::Protocol(other.to_string()),
    }
}

/// The longest time of an attempt to connect: some round trips, and lost packets. It is short, so that a repaired link
/// is used soon.
fn answer_max(topology: &Topology) -> Duration {
    (topology.rtt_max().0 * 8).clamp(Duration::from_millis(1500), ANSWER_MAX)
}

/// The longest time for the shutdown: some round trips of the longest path.
pub(super) fn patience(topology: &Topology) -> Duration {
    (topology.rtt_max().0 * 8).clamp(Duration::from_secs(2), Duration::from_secs(10))
}

/// The ALPN protocol of a connection. It has no version, because a peer of another version is refused with an error
/// that names both.
const JOIN: &[u8] = b"gaia";
const CHECK: &[u8] = b"gaia-check";

/// The code of a connection that is closed because its peer is refused.
const REFUSED: VarInt = VarInt::from_u32(3);

/// Transport error codes that carry a TLS alert (RFC 9001, section 4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// The pause before a reconnect to a lost mirror.
const BREATH: Duration = Duration::from_millis(50);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The longest pause between attempts to connect to a mirror.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The number of shards of a server.
const SHARDS: usize = 1;

/// The initial MTU, which all IPv6 paths support. quinn probes for a larger one.
const INITIAL_MTU: u16 = 1200;

const _: () = assert!(DATAGRAM_BYTES_MAX >= INITIAL_MTU as u64);

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::super::test_endpoints::{client_config, credentials, server_config};
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn all_addresses_of_a_name_are_tried_in_turn_in_whatever_order_it_has_them() {
        let [one, other, new] = ["10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7"].map(at);
        let mut tried = BTreeSet::new();
        let mut next = |candidates: &[SocketAddr]| next_to_try(candidates, &mut tried);
        assert_eq!([next(&[one, other]), next(&[other, one])], [one, other]);
        assert_eq!([next(&[one, other]), next(&[one, other])], [one, other]);
        assert_eq!([next(&[one, new]), next(&[one, new])], [new, one]);
        assert_eq!([next(&[one]), next(&[one])], [one, one]);
    }

    #[test]
    fn a_socket_of_both_families_reaches_a_host_that_has_one_of_them() {
        let [v4, other_v4, v6] = ["10.0.0.1:7", "10.0.0.2:7", "[2001:db8::1]:7"].map(at);
        let mapped = at("[::ffff:10.0.0.1]:7");
        let check = |local: &str, addresses: &[SocketAddr], expected: &[SocketAddr]| {
            assert_eq!(reachable_from(at(local), addresses), expected, "{local}, {addresses:?}");
        };
        check("0.0.0.0:1", &[v6, v4, other_v4], &[v4, other_v4]);
        check("[::]:1", &[v4, v6], &[v6]);
        check("[::]:1", &[v4], &[mapped]);
        check("[::1]:1", &[v4], &[]);
        check("0.0.0.0:1", &[v6], &[]);
    }

    /// Detours find a mirror by the address of its connection.
    #[tokio::test]
    async fn packets_of_ipv4_arrive_from_the_address_that_a_socket_of_both_families_sends_to() {
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            println!("skipped: this machine has no IPv6");
            return;
        }
        let both = credentials(&["a", "b"]);
        let [a, b] = &both[..] else { unreachable!() };
        let server = Endpoint::server(server_config(a, &both[1..]), at("127.0.0.1:0")).unwrap();
        let client = Endpoint::client((Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
        let found = [server.local_addr().unwrap()];
        let to = reachable_from(client.local_addr().unwrap(), &found)[0];

        let config = client_config(b, a, TransportConfig::default());
        let connecting = client.connect_with(config, to, SERVER_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().await };
        let (connected, accepted) = tokio::join!(connecting, accepting);
        assert!(accepted.is_ok());
        assert_eq!(connected.unwrap().remote_address(), to);
    }
}
