//! The health of one node: whether its loop turns, and what it waits for before it is ready.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One node of this process. Times count from the start of the process.
#[derive(Debug)]
pub(super) struct NodeHealth {
    node: String,
    /// When the loop last completed a turn, in milliseconds plus one; 0 before the first turn.
    turned: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Peers that are not connected, with their roles.
    awaited: BTreeMap<String, &'static str>,
    peers: BTreeMap<String, &'static str>,
    begun: bool,
}

impl NodeHealth {
    /// A node that is connected to none of its peers. Each peer has a role, such as `mirror`.
    pub(super) fn new(node: &str, peers: BTreeMap<String, &'static str>) -> Self {
        let inner = Inner { awaited: peers.clone(), peers, begun: false };
        Self { node: node.into(), turned: AtomicU64::new(0), inner: Mutex::new(inner) }
    }

    pub(super) fn name(&self) -> &str {
        &self.node
    }

    /// Every peer that the node needs.
    pub(super) fn peers(&self) -> Vec<String> {
        self.inner().peers.keys().cloned().collect()
    }

    pub(super) fn on_turn(&self, now: Duration) {
        self.turned.store(now.as_millis() as u64 + 1, Ordering::Relaxed);
    }

    pub(super) fn on_connected(&self, peer: &str) {
        self.inner().awaited.remove(peer);
    }

    pub(super) fn on_lost(&self, peer: &str) {
        let mut inner = self.inner();
        if let Some(kind) = inner.peers.get(peer).copied() {
            inner.awaited.insert(peer.into(), kind);
        }
    }

    pub(super) fn on_absent(&self, peer: &str) {
        self.inner().awaited.remove(peer);
    }

    pub(super) fn on_begun(&self) {
        self.inner().begun = true;
    }

    /// Whether the loop has turned lately, or has not started yet.
    ///
    /// # Errors
    /// The time for which it has not turned.
    pub(super) fn alive(&self, now: Duration) -> Result<(), String> {
        let Some(turned) = self.turned.load(Ordering::Relaxed).checked_sub(1) else {
            return Ok(());
        };
        let still = now.saturating_sub(Duration::from_millis(turned));
        if still < STILL_MAX {
            return Ok(());
        }
        Err(format!("{}: its event loop has not run for {} s", self.node, still.as_secs()))
    }

    /// Whether the run has begun here and every peer is connected.
    ///
    /// # Errors
    /// What the node waits for.
    pub(super) fn ready(&self) -> Result<(), String> {
        let inner = self.inner();
        if !inner.awaited.is_empty() {
            let mut waiting = format!("{}: waits for ", self.node);
            for (place, (peer, kind)) in inner.awaited.iter().take(NAMED_MAX).enumerate() {
                let comma = if place == 0 { "" } else { ", " };
                write!(waiting, "{comma}{kind} {peer}").expect("a string takes every text");
            }
            if let Some(more @ 1..) = inner.awaited.len().checked_sub(NAMED_MAX) {
                write!(waiting, " and {more} more").expect("a string takes every text");
            }
            return Err(waiting);
        }
        if !inner.begun {
            return Err(format!("{}: waits for the run to begin", self.node));
        }
        Ok(())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each change is one call, so that a panic leaves consistent data behind.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A loop that has not turned for this long is stuck.
const STILL_MAX: Duration = Duration::from_secs(10);

/// How many of the awaited peers are named.
const NAMED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn health(mirrors: usize) -> NodeHealth {
        let mut peers = BTreeMap::from([("north/coordinator".to_owned(), "coordinator")]);
        peers.extend((0..mirrors).map(|dc| (format!("t{dc}/server-0"), "mirror")));
        NodeHealth::new("south/server-0", peers)
    }

    #[test]
    fn a_loop_that_stands_still_is_reported() {
        let health = health(1);
        let at = Duration::from_secs;
        assert_eq!(health.alive(at(1000)), Ok(()), "a node whose loop has not started is alive");
        health.on_turn(at(1000));
        assert_eq!(health.alive(at(1009)), Ok(()));
        let waiting = health.alive(at(1012)).unwrap_err();
        assert_eq!(waiting, "south/server-0: its event loop has not run for 12 s");
        health.on_turn(at(1012));
        assert_eq!(health.alive(at(1013)), Ok(()));
    }

    #[test]
    fn a_node_is_ready_once_all_are_met_and_the_run_has_begun_and_for_as_long() {
        let health = health(1);
        let check = |expect: &str| {
            let waiting = health.ready().err().unwrap_or_default();
            assert_eq!(waiting.strip_prefix("south/server-0: ").unwrap_or(&waiting), expect);
        };

        check("waits for coordinator north/coordinator, mirror t0/server-0");
        health.on_connected("north/coordinator");
        check("waits for mirror t0/server-0");
        health.on_connected("t0/server-0");
        check("waits for the run to begin");
        health.on_begun();
        check("");
        health.on_lost("t0/server-0");
        check("waits for mirror t0/server-0");
        health.on_connected("t0/server-0");
        check("");
        health.on_lost("nobody/server-9");
        check("");
        health.on_lost("t0/server-0");
        health.on_absent("t0/server-0");
        check("");
    }

    #[test]
    fn of_many_that_are_missing_some_are_named() {
        let waiting = health(20).ready().unwrap_err();
        assert!(waiting.ends_with("t14/server-0 and 13 more"), "{waiting}");
    }
}
