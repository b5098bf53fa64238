//! A server's connections to its mirrors: QUIC over UDP, with one connection for each mirror.
//!
//! Of two mirrors the one of the data center with the lower number connects, and reconnects during the whole run. Both
//! authenticate in the handshake. Windows are at most 1.25 bandwidth-delay products of the link, and 2.8 MB for each
//! stream, because quinn may end a connection with a larger window that loses packets. A connection sends no faster
//! than its server's share of the link.
//!
//! A new connection replaces the one before, whose loss may not be detected yet. Sessions send the frames of a lost
//! connection again.

mod connect;
mod detours;
mod link;
mod refusals;
mod reset;
mod resumption;
mod stall;
#[cfg(test)]
mod test_endpoints;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::Connection;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use self::connect::{Arrival, Connector, accept_lower, chain_of, open, patience};
use self::detours::Detours;
use crate::real::connections::throttle::LogThrottle;
use crate::real::environment::Datagrams;
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use crate::recorder::LinkCounters;
use gaia_certificates::{Proof, Refusal};
use gaia_core::link::IP_UDP_HEADER_BYTES;
use gaia_core::session::Message;
use gaia_core::topology::Address;
use gaia_core::types::{DcId, Lane, NodeId, ServerId};
use gaia_quic::{
    CONTROL_IN_HAND_MAX, Carriers, DcTransport, Event, Finisher, GOODBYE, LaneCounters,
};

pub(in crate::real) use connect::check;
pub(in crate::real) use link::{LinkMonitor, windows_of};
pub(in crate::real) use resumption::Resumption;

/// A server's lanes to all its mirrors, and the tasks behind them.
pub(in crate::real) struct Mirrors {
    context: NodeContext,
    own: ServerId,
    connector: Connector,
    transport: DcTransport,
    links: BTreeMap<DcId, MirrorLink>,
    arrivals: UnboundedReceiver<Result<Arrival, RealError>>,
    sender: UnboundedSender<Result<Arrival, RealError>>,
    addresses: watch::Sender<Addresses>,
    /// Mirrors whose connection is lost, and whose `Disconnected` event is not yet returned.
    parted: VecDeque<DcId>,
    pumps: JoinSet<bool>,
    /// Waits for the revocation of certificates. Returns the mirror, and the connection that it was used on.
    revoked: JoinSet<Option<(DcId, usize, Refusal)>>,
    others: JoinSet<()>,
}

/// The addresses of servers.
pub(in crate::real) type Addresses = BTreeMap<ServerId, Address>;

/// An event of the connections to mirrors.
pub(in crate::real) enum FromMirror {
    /// A new connection has replaced the one before. Nothing has been sent on it.
    Joined {
        peer: DcId,
    },
    /// No packet of a mirror has arrived for a while. Repeated for as long as none arrives.
    Silent {
        peer: DcId,
    },
    /// The connection is lost.
    Disconnected {
        peer: DcId,
    },
    Message {
        from: DcId,
        message: Bytes,
    },
    /// This many bytes of data have been sent.
    Drained {
        to: DcId,
        bytes: u64,
        busy: Duration,
    },
    /// A control lane has room.
    Room,
}

/// The connections to one mirror, past and present.
#[derive(Default)]
struct MirrorLink {
    open: Option<(Connection, Finisher)>,
    /// Whether a connection attempt is in progress.
    dialled: bool,
    met_before: bool,
    counters: Arc<LaneCounters>,
    /// The traffic of connections that are closed.
    before: LinkCounters,
    /// The bytes that were last counted, with those of detours. They never fall: whoever adds them up takes a smaller number for
    /// that of a new process.
    counted_bytes: u64,
    /// For how long data frames have occupied the link.
    busy: Duration,
    /// Of lost connections: a mirror reconnects as often as it likes.
    lines: LogThrottle,
}

impl Mirrors {
    /// Accepts connections of mirrors, and checks. Connections are opened from [`Self::reach`] on.
    pub(in crate::real) fn open(
        context: &NodeContext,
        own: ServerId,
        socket: Datagrams,
    ) -> Result<Self, RealError> {
        let detours = Detours::open(context, own, &socket.socket)?;
        let endpoint = open(context, own, socket, detours.as_ref())?;
        let topology = &context.run_context.plan.topology;
        let peers = topology.dc_ids().filter(|dc| *dc != own.dc);
        let links: BTreeMap<DcId, MirrorLink> =
            peers.map(|peer| (peer, MirrorLink::default())).collect();
        let counters = links.iter().map(|(peer, link)| (*peer, link.counters.clone())).collect();
        let context = context.clone();
        let connector = Connector { context: context.clone(), own, endpoint, detours, counters };
        let (sender, arrivals) = unbounded_channel();
        let addresses = watch::Sender::new(BTreeMap::new());

        let mut others = JoinSet::new();
        others.spawn(accept_lower(connector.clone(), sender.clone()));
        if let Some(detours) = &connector.detours {
            others.spawn(detours.clone().run(context.clone()));
            others.spawn(detours.clone().follow(addresses.subscribe()));
        }
        Ok(Self {
            context,
            own,
            connector,
            transport: DcTransport::new(own.dc, own.shard.0..own.shard.0 + 1),
            links,
            arrivals,
            sender,
            addresses,
            parted: VecDeque::new(),
            pumps: JoinSet::new(),
            revoked: JoinSet::new(),
            others,
        })
    }

    /// Sets the addresses of servers, and connects to the mirrors of higher-numbered data centers that are not
    /// connected. A mirror with a new address is another process. A mirror without an address takes no part.
    pub(in crate::real) fn reach(&mut self, addresses: Addresses) {
        let before = self.addresses.send_replace(addresses);
        let peers: Vec<DcId> = self.links.keys().copied().collect();
        for peer in peers {
            let id = ServerId { dc: peer, shard: self.own.shard };
            let now = self.addresses.borrow().get(&id).cloned();
            let moved = before.get(&id).is_some_and(|was| now.as_ref() != Some(was));
            match now {
                None => self.dismiss(peer),
                Some(_) if moved && peer > self.own.dc && self.is_joined(peer) => {
                    self.part(peer, "its address has changed");
                }
                Some(_) => {}
            }
            self.dial(peer);
        }
    }

    /// Closes the connection to a mirror, until [`Self::reach`] sets its address again.
    pub(in crate::real) fn dismiss(&mut self, peer: DcId) {
        let id = ServerId { dc: peer, shard: self.own.shard };
        self.addresses.send_if_modified(|addresses| addresses.remove(&id).is_some());
        if self.is_joined(peer) {
            self.part(peer, "it no longer takes part in the run");
        }
        self.context.meter.on_absent(&self.context.run_context.label(NodeId::Server(id)));
    }

    /// The next event. Cancel safe.
    ///
    /// # Errors
    /// If connecting to a mirror fails permanently.
    pub(in crate::real) async fn next(&mut self) -> Result<FromMirror, RealError> {
        loop {
            if let Some(peer) = self.parted.pop_front() {
                return Ok(FromMirror::Disconnected { peer });
            }
            let event = tokio::select! {
                biased;
                arrival = self.arrivals.recv() => {
                    let arrival = arrival.expect("this end keeps the other end")?;
                    let peer = arrival.peer;
                    if self.takes_part(peer) {
                        return Ok(FromMirror::Joined { peer: self.join(arrival) });
                    }
                    // A mirror that is about to join connects again.
                    arrival.connection.close(GOODBYE, b"this node does not expect the peer in the run");
                    self.link(peer).dialled = false;
                    self.dial(peer);
                    continue;
                }
                Some(done) = self.revoked.join_next() => {
                    if let Ok(Some((peer, connection, refusal))) = done {
                        self.on_revoked(peer, connection, &refusal);
                    }
                    continue;
                }
                event = self.transport.event() => event,
            };
            return Ok(match event {
                Event::Frame(incoming) => {
                    FromMirror::Message { from: incoming.from, message: incoming.frame }
                }
                Event::Room { to, lane: Lane::Data, bytes, busy, .. } => {
                    self.link(to).busy += busy;
                    FromMirror::Drained { to, bytes, busy }
                }
                Event::Room { lane: Lane::Control, .. } => FromMirror::Room,
                Event::Silent { peer } => FromMirror::Silent { peer },
                Event::Lost { peer, error } => {
                    if let Some(left_out) = self.link(peer).lines.pass() {
                        warn!("{error}{left_out}");
                    }
                    self.lose(peer);
                    continue;
                }
                Event::Left { peer } => {
                    self.lose(peer);
                    continue;
                }
            });
        }
    }

    /// Closes a connection. If this end opened it, it reconnects.
    pub(in crate::real) fn part(&mut self, peer: DcId, reason: &str) {
        warn!("{} closes the connection to {}: {reason}", self.context.name(), self.name(peer));
        self.part_again(peer, reason);
    }

    /// As [`Self::part`], without a log line, for a reason that is already logged.
    pub(in crate::real) fn part_again(&mut self, peer: DcId, reason: &str) {
        self.transport.part(peer, reason);
        self.lose(peer);
    }

    /// Whether a lane has room for a message.
    pub(in crate::real) fn has_room(&self, to: DcId, lane: Lane) -> bool {
        self.transport.has_room(to, self.own.shard, lane)
    }

    /// Sends a message. The lane must have room.
    pub(in crate::real) fn send(
        &mut self,
        to: DcId,
        lane: Lane,
        message: &Message,
    ) -> Result<(), RealError> {
        Ok(self.transport.send_parts(to, self.own.shard, lane, message.to_parts())?)
    }

    /// Whether a mirror is connected.
    pub(in crate::real) fn is_joined(&self, peer: DcId) -> bool {
        self.links[&peer].open.is_some()
    }

    /// Whether all mirrors that take part have been connected.
    pub(in crate::real) fn are_joined(&self) -> bool {
        let mut present = self.links.iter().filter(|(peer, _)| self.takes_part(**peer));
        present.all(|(_, link)| link.met_before)
    }

    fn takes_part(&self, peer: DcId) -> bool {
        let id = ServerId { dc: peer, shard: self.own.shard };
        self.addresses.borrow().contains_key(&id)
    }

    /// The display name of a mirror.
    pub(in crate::real) fn name(&self, peer: DcId) -> String {
        self.context.run_context.name(NodeId::Server(ServerId { dc: peer, shard: self.own.shard }))
    }

    /// The traffic that this server has sent on each link.
    pub(in crate::real) fn link_counters(&mut self) -> Vec<(DcId, LinkCounters)> {
        let detours = self.connector.detours.as_ref();
        let counted = self.links.iter_mut().map(|(peer, link)| {
            let traffic = detours.map(|detours| detours.traffic(*peer)).unwrap_or_default();
            let mut counters = link.counters();
            let bytes = (counters.bytes + traffic.added_bytes).saturating_sub(traffic.moved_bytes);
            link.counted_bytes = link.counted_bytes.max(bytes);
            counters.bytes = link.counted_bytes;
            (*peer, counters)
        });
        counted.collect()
    }

    /// Whether a mirror is known to receive datagrams over a third data center, and not directly, and how many datagrams on
    /// detours to others had no room on its link.
    pub(in crate::real) fn detour_of(&self, peer: DcId) -> (bool, u64) {
        let detours = self.connector.detours.as_ref();
        detours.map_or((false, 0), |detours| {
            (detours.takes_detour(peer), detours.traffic(peer).dropped)
        })
    }

    /// Sends all queued messages, closes all connections, and ends all tasks.
    pub(in crate::real) async fn close(mut self) {
        for (_, finisher) in self.links.values().flat_map(|link| &link.open) {
            finisher.finish();
        }
        while self.pumps.join_next().await.is_some() {}
        let endpoint = &self.connector.endpoint;
        endpoint.close(GOODBYE, b"the run is over");
        // Connections that are still open after this are closed. That is safe once all peers have acknowledged the
        // shutdown.
        let patience = patience(&self.context.run_context.plan.topology);
        let _late = timeout(patience, endpoint.wait_idle()).await;
        self.others.shutdown().await;
    }

    fn join(&mut self, arrival: Arrival) -> DcId {
        let Arrival { peer, connection, lanes } = arrival;
        let Carriers { pump, listener, finisher } = self.transport.join(lanes);
        while self.pumps.try_join_next().is_some() {}
        while self.others.try_join_next().is_some() {}
        self.pumps.spawn(pump.run());
        self.others.spawn(listener.run());
        if let Some(detours) = &self.connector.detours {
            detours.set_connection_address(peer, connection.remote_address());
        }
        let proof = self.context.credentials.proof(chain_of(&connection));
        self.revoked.spawn(watch_proof(peer, connection.clone(), proof));
        let link = self.link(peer);
        link.close();
        link.open = Some((connection, finisher));
        (link.dialled, link.met_before) = (false, true);
        self.parted.retain(|parted| *parted != peer);
        self.context.on_connected(NodeId::Server(ServerId { dc: peer, shard: self.own.shard }));
        peer
    }

    /// Closes the connection to a mirror whose certificate is revoked.
    fn on_revoked(&mut self, peer: DcId, connection: usize, refusal: &Refusal) {
        let open = self.links[&peer].open.as_ref();
        if open.is_some_and(|(open, _)| open.stable_id() == connection) {
            self.part(peer, &refusal.to_string());
        }
    }

    fn lose(&mut self, peer: DcId) {
        if self.is_joined(peer) {
            self.link(peer).close();
            self.parted.push_back(peer);
            self.context.on_lost(NodeId::Server(ServerId { dc: peer, shard: self.own.shard }));
        }
        self.dial(peer);
    }

    fn dial(&mut self, peer: DcId) {
        if peer < self.own.dc {
            return;
        }
        let link = self.link(peer);
        if link.dialled || link.open.is_some() {
            return;
        }
        link.dialled = true;
        let again = link.met_before;
        let (connector, addresses) = (self.connector.clone(), self.addresses.subscribe());
        let sender = self.sender.clone();
        self.others.spawn(async move {
            let arrival = connector.dial(peer, addresses, again).await;
            // The receiver is gone once the owner has ended.
            let _over = sender.send(arrival);
        });
    }

    fn link(&mut self, peer: DcId) -> &mut MirrorLink {
        self.links.get_mut(&peer).expect("every other data center has a link")
    }
}

/// Waits until the certificate of a mirror on a connection is revoked. `None` if the connection ends before.
async fn watch_proof(
    peer: DcId,
    connection: Connection,
    mut proof: Proof,
) -> Option<(DcId, usize, Refusal)> {
    tokio::select! {
        refusal = proof.revoked() => Some((peer, connection.stable_id(), refusal)),
        _ended = connection.closed() => None,
    }
}

impl MirrorLink {
    fn close(&mut self) {
        if self.open.is_some() {
            self.before = self.counters();
            self.open = None;
        }
    }

    fn counters(&self) -> LinkCounters {
        let (control, data) = self.counters.read();
        let sent = self.open.as_ref().map_or(0, |(connection, _)| {
            let sent = connection.stats().udp_tx;
            sent.bytes + sent.datagrams * IP_UDP_HEADER_BYTES
        });
        LinkCounters {
            bytes: self.before.bytes + sent,
            control_bytes: control.wire_bytes,
            frames: control.frames + data.frames,
            busy: self.busy,
        }
    }
}

/// The largest number of messages of a control lane that wait for quinn.
pub(in crate::real) const MESSAGES_IN_HAND_MAX: usize = CONTROL_IN_HAND_MAX;
