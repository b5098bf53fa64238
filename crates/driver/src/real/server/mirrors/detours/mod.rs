//! Detours: how datagrams between two mirrors get around a dead link between them.
//!
//! While no datagrams pass directly from a mirror to another, a third data center that exchanges datagrams with both passes
//! them on (one-hop indirection: Andersen et al., "Resilient Overlay Networks", SOSP 2001; Savage et al., "Detour: informed
//! Internet routing and transport", IEEE Micro 1999). The connection of the two goes on: the intermediate sees packets of QUIC,
//! which it can neither read nor change, and the protocol sees a slower link.
//!
//! Both ends of a path report to each other what they receive ([`datagram`]). From that each chooses how it sends ([`path`]). An
//! intermediate passes on what one mirror sends for another one, at no more than half of the link's rate ([`token_bucket`]).
//! Processes know each other by random tokens, which a host that sees no packets between them cannot forge. What a server with
//! a certificate and what the network in between can do with detours is told in `docs/src/security.md`.

mod datagram;
mod path;
mod paths;
mod socket;
mod token_bucket;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::AsyncUdpSocket;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use self::path::TICK;
use self::paths::{DetourChange, DetourTraffic, Paths};
use self::socket::DetouringSocket;
use super::Addresses;
use super::connect::resolve_for;
use crate::real::connections::throttle::LogThrottle;
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use gaia_config::Plan;
use gaia_core::topology::Address;
use gaia_core::types::{DcId, NodeId, ServerId};

/// The detours of one server to its mirrors, and those of others over it.
#[derive(Clone, Debug)]
pub(super) struct Detours {
    own: ServerId,
    socket: Arc<DetouringSocket>,
}

impl Detours {
    /// Detours for the datagrams of a socket. `None` if the run has none.
    pub(super) fn open(
        context: &NodeContext,
        own: ServerId,
        socket: &Arc<dyn AsyncUdpSocket>,
    ) -> Result<Option<Self>, RealError> {
        let plan = &context.run_context.plan;
        if !has_detours(plan) {
            return Ok(None);
        }
        let peers = plan.topology.dc_ids().filter(|dc| *dc != own.dc);
        let environment = &context.run_context.environment;
        let tokens: io::Result<BTreeMap<DcId, u64>> =
            peers.map(|peer| Ok((peer, environment.random()?))).collect();
        let paths = Paths::new(&plan.topology, own.dc, &tokens?, Duration::ZERO);
        Ok(Some(Self { own, socket: Arc::new(DetouringSocket::new(socket.clone(), paths)) }))
    }

    /// The socket that takes them.
    pub(super) fn socket(&self) -> Arc<dyn AsyncUdpSocket> {
        self.socket.clone()
    }

    /// Sets the address of a mirror's connection, or of an attempt to connect.
    pub(super) fn set_connection_address(&self, peer: DcId, at: SocketAddr) {
        self.socket.paths().set_connection_address(peer, at);
    }

    /// What detours have changed in the traffic to a mirror.
    pub(super) fn traffic(&self, peer: DcId) -> DetourTraffic {
        self.socket.paths().traffic(peer)
    }

    /// Whether a mirror is known to receive datagrams over a third data center, and not directly.
    pub(super) fn takes_detour(&self, peer: DcId) -> bool {
        self.socket.paths().takes_detour(peer)
    }

    /// Chooses the paths to mirrors, until it is dropped.
    pub(super) async fn run(self, context: NodeContext) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut log = Log::default();
        loop {
            ticks.tick().await;
            for change in self.socket.tick() {
                log.write(&context, self.own, change);
            }
        }
    }

    /// Follows the addresses of mirrors, until their owner ends.
    pub(super) async fn follow(self, mut addresses: watch::Receiver<Addresses>) {
        let mut resolved = BTreeMap::new();
        loop {
            let current = addresses.borrow_and_update().clone();
            let all_known = self.resolve(&current, &mut resolved).await;
            let again_after = if all_known { Duration::MAX } else { RESOLVE_EVERY };
            // The owner has ended.
            if let Ok(Err(_)) = timeout(again_after, addresses.changed()).await {
                return;
            }
        }
    }

    /// Sets where mirrors listen whose addresses have changed: a name may resolve to another of its addresses each time. Returns
    /// whether all could be resolved.
    async fn resolve(&self, addresses: &Addresses, resolved: &mut BTreeMap<DcId, Address>) -> bool {
        let Ok(local) = self.socket.local_addr() else { return true };
        let peers = self.socket.paths().peers();
        let mut all_known = true;
        for peer in peers {
            let Some(address) = addresses.get(&ServerId { dc: peer, shard: self.own.shard }) else {
                resolved.remove(&peer);
                self.socket.paths().set_listen_address(peer, None);
                continue;
            };
            if resolved.get(&peer) == Some(address) {
                continue;
            }
            match resolve_for(address, local).await {
                Ok(candidates) => {
                    resolved.insert(peer, address.clone());
                    self.socket.paths().set_listen_address(peer, candidates.first().copied());
                }
                Err(_) => all_known = false,
            }
        }
        all_known
    }
}

/// The log lines about detours. The end of a detour is written if its beginning was.
#[derive(Debug, Default)]
struct Log {
    throttles: BTreeMap<DcId, LogThrottle>,
    begun: BTreeSet<DcId>,
}

impl Log {
    fn write(&mut self, context: &NodeContext, own: ServerId, change: DetourChange) {
        let run_context = &context.run_context;
        let DetourChange { peer, over } = change;
        let mirror = run_context.name(NodeId::Server(ServerId { dc: peer, shard: own.shard }));
        let own = context.name();
        match over {
            Some(over) => {
                let Some(left_out) = self.throttles.entry(peer).or_default().pass() else { return };
                self.begun.insert(peer);
                let over = &run_context.plan.topology.dc(over).name;
                warn!(
                    "{own} sends to {mirror} over {over}, since {mirror} receives nothing of it directly{left_out}"
                );
            }
            None if self.begun.remove(&peer) => info!("{own} sends to {mirror} directly again"),
            None => {}
        }
    }
}

/// Whether a run has detours: a third data center, and a topology that does not turn them off.
fn has_detours(plan: &Plan) -> bool {
    plan.deployment.detours && plan.topology.data_centers.len() >= 3
}

/// The size that a detour adds to a datagram, in bytes.
pub(super) const DETOUR_HEADER_BYTES: u16 = datagram::HEADER_BYTES as u16;

/// The time between attempts to resolve the name of a host.
const RESOLVE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::test_run::plan_of;

    #[test]
    fn a_run_has_detours_if_it_has_a_third_data_center_and_is_not_told_otherwise() {
        let remote = "[sync.remote]\nmodel = \"asp\"";
        assert!(!has_detours(&plan_of(remote, 1, &["north", "south"])));
        let mut three = plan_of(remote, 1, &["north", "south", "west"]);
        assert!(has_detours(&three));
        three.deployment.detours = false;
        assert!(!has_detours(&three));
    }
}
