//! The network inside each data center: every node has a card of its own, full duplex; the switch is not a
//! bottleneck.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::topology::Topology;
use crate::types::{Bandwidth, DcId, Instant, NodeId};

/// When each node's card is free, and what has crossed.
pub(super) struct Lan {
    facts: Vec<(Bandwidth, Duration)>,
    sending: BTreeMap<NodeId, Instant>,
    receiving: BTreeMap<NodeId, Instant>,
    bytes: u64,
}

impl Lan {
    pub(super) fn new(topology: &Topology) -> Self {
        let facts = topology.data_centers.iter().map(|dc| (dc.lan_bandwidth, dc.lan_rtt.0 / 2));
        Self {
            facts: facts.collect(),
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Sends a message between two nodes of one data center and returns when it is there.
    pub(super) fn send(&mut self, now: Instant, from: NodeId, to: NodeId, bytes: u64) -> Instant {
        let (bandwidth, delay) = self.facts[dc_of(from).index()];
        let time = bandwidth.time_for(bytes);
        let starts = now.max(self.sending.get(&from).copied().unwrap_or_default());
        self.sending.insert(from, starts + time);
        let received = starts.max(self.receiving.get(&to).copied().unwrap_or_default()) + time;
        self.receiving.insert(to, received);
        self.bytes += bytes;
        received + delay
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn dc_of(node: NodeId) -> DcId {
    match node {
        NodeId::Coordinator => DcId(0),
        NodeId::Server(id) => id.dc,
        NodeId::Worker(id) => id.dc,
    }
}
