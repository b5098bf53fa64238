//! Unauthenticated connections: how many a listener keeps, and which one it evicts for the next.
//!
//! Any host that reaches a port can open connections and leave them idle. So a listener always accepts, and keeps a
//! bounded number of unauthenticated connections. A further one evicts the oldest of the address with the most
//! connections. So a flood from one address evicts its own connections.
//!
//! There is no limit for each address, because all nodes of a machine may share one. If the flood comes from that
//! machine, a correct peer is evicted only if all slots are taken by newer connections while it authenticates.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The unauthenticated connections of one listener.
#[derive(Clone)]
pub(in crate::real) struct IncomingConnections {
    connections_max: usize,
    held: Arc<Mutex<Held>>,
}

/// One unauthenticated connection. Dropping it frees its slot.
pub(in crate::real) struct IncomingConnection {
    number: u64,
    held: Arc<Mutex<Held>>,
    evicted: Arc<Notify>,
}

#[derive(Default)]
struct Held {
    next: u64,
    /// By increasing number: the first is the oldest.
    connections: BTreeMap<u64, Entry>,
}

struct Entry {
    from: SocketAddr,
    evicted: Arc<Notify>,
}

impl IncomingConnections {
    pub(in crate::real) fn new(connections_max: usize) -> Self {
        assert!(connections_max > 0, "the newest connection is held");
        Self { connections_max, held: Arc::default() }
    }

    /// Adds a connection. Returns it, and the address of the connection that was evicted for it, if any.
    pub(in crate::real) fn admit(
        &self,
        from: SocketAddr,
    ) -> (IncomingConnection, Option<SocketAddr>) {
        let mut held = lock(&self.held);
        let number = held.next;
        held.next += 1;

        let evicted = Arc::new(Notify::new());
        held.connections.insert(number, Entry { from, evicted: evicted.clone() });
        let crowded = held.connections.len() > self.connections_max;
        let left = if crowded { held.evict() } else { None };

        (IncomingConnection { number, held: self.held.clone(), evicted }, left)
    }

    /// Evicts one connection, and returns its address.
    pub(in crate::real) fn evict(&self) -> Option<SocketAddr> {
        lock(&self.held).evict()
    }
}

impl IncomingConnection {
    /// Waits until the connection is evicted. Its owner then closes it.
    pub(in crate::real) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Frees the slot of a connection that is authenticated. Returns `false` if it was evicted before.
    pub(in crate::real) fn release(&self) -> bool {
        lock(&self.held).connections.remove(&self.number).is_some()
    }
}

impl Drop for IncomingConnection {
    fn drop(&mut self) {
        self.release();
    }
}

impl Held {
    /// Linear in the number of connections, which is cheap compared with an accept.
    fn evict(&mut self) -> Option<SocketAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for entry in self.connections.values() {
            *counts.entry(network_of(entry.from)).or_default() += 1;
        }
        let most = counts.values().copied().max()?;

        let of_busiest = |entry: &Entry| counts[&network_of(entry.from)] == most;
        let mut oldest_first = self.connections.iter();
        let (number, _) = oldest_first.find(|(_, entry)| of_busiest(entry))?;
        let number = *number;

        let entry = self.connections.remove(&number)?;
        entry.evicted.notify_one();
        Some(entry.from)
    }
}

/// The address of a peer for the count of its connections. For IPv6 it is the network, because a host can use any
/// address of it.
fn network_of(from: SocketAddr) -> IpAddr {
    match from.ip().to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & NETWORK_MASK).into(),
        v4 => v4,
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first 64 bits of an IPv6 address.
const NETWORK_MASK: u128 = u128::MAX << 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8, port: u16) -> SocketAddr {
        ([10, 0, 0, host], port).into()
    }

    /// Admits connections, and says which leave for them, in order.
    fn check(calls: &[SocketAddr], expect: &[SocketAddr]) {
        let incoming = IncomingConnections::new(3);
        let admitted: Vec<_> = calls.iter().map(|from| incoming.admit(*from)).collect();
        let left: Vec<SocketAddr> = admitted.iter().filter_map(|(_, evicted)| *evicted).collect();
        assert_eq!(left, expect);
    }

    #[test]
    fn the_oldest_connection_of_the_address_with_the_most_makes_room() {
        let (honest, next) = (at(1, 1), at(3, 1));
        let flood = |port| at(2, port);
        check(&[honest, flood(1), flood(2), flood(3), flood(4)], &[flood(1), flood(2)]);
        check(&[flood(1), honest, flood(2), next], &[flood(1)]);
        check(&[honest, flood(1), next, flood(2)], &[flood(1)]);
    }

    #[test]
    fn a_host_with_many_ipv6_addresses_is_one() {
        let of = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (honest, last) = (of("[2001:db8:1::1]:1"), of("[2001:db8:3::1]:1"));
        let flood = [of("[2001:db8:2::1]:1"), of("[2001:db8:2::ffff:2]:1")];
        check(&[honest, flood[0], flood[1], last], &[flood[0]]);
        // IPv4 over a socket for both.
        let mapped = [of("[::ffff:10.0.0.2]:1"), of("[::ffff:10.0.0.2]:2")];
        check(&[of("[::ffff:10.0.0.1]:1"), mapped[0], mapped[1], honest], &[mapped[0]]);
    }

    #[tokio::test]
    async fn one_that_is_proven_or_gone_leaves_its_place_and_is_not_evicted() {
        let incoming = IncomingConnections::new(2);
        let (proven, _) = incoming.admit(at(1, 1));
        assert!(proven.release());
        let (gone, _) = incoming.admit(at(1, 2));
        drop(gone);
        let (first, left) = incoming.admit(at(1, 3));
        assert_eq!(left, None);
        let (_second, left) = incoming.admit(at(1, 4));
        assert_eq!(left, None);
        let (_third, left) = incoming.admit(at(1, 5));
        assert_eq!(left, Some(at(1, 3)));
        first.evicted().await;
        assert!(!first.release(), "it was evicted");
    }
}
