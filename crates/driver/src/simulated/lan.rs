//! The network inside each data center: each machine has a full-duplex network card, and the switch is not a
//! bottleneck. A machine runs one node, or a worker and a server if they are colocated.

use std::collections::BTreeMap;
use std::time::Duration;

use gaia_core::persist;
use gaia_core::topology::Topology;
use gaia_core::types::{Bandwidth, DcId, Instant, NodeId};

/// When each node's card is idle, and the traffic so far.
pub struct Lan {
    facts: Vec<Facts>,
    sending: BTreeMap<Machine, Instant>,
    receiving: BTreeMap<Machine, Instant>,
    bytes: u64,
}

struct Facts {
    bandwidth: Bandwidth,
    delay: Duration,
    colocated: bool,
}

/// A machine: its data center, whether it runs only a worker, and its number.
type Machine = (DcId, bool, u16);

impl Lan {
    pub fn new(topology: &Topology) -> Self {
        let facts = topology.data_centers.iter().map(|dc| Facts {
            bandwidth: dc.lan_bandwidth,
            delay: dc.lan_rtt.0 / 2,
            colocated: dc.colocated,
        });
        Self {
            facts: facts.collect(),
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Sends a message between two nodes of one data center and returns when it arrives. Within a machine it arrives at
    /// once.
    pub fn send(&mut self, now: Instant, from: NodeId, to: NodeId, bytes: u64) -> Instant {
        let (from, to) = (self.machine(from), self.machine(to));
        if from == to {
            return now;
        }
        let Facts { bandwidth, delay, .. } = self.facts[from.0.index()];
        let time = bandwidth.time_for(bytes);
        let starts = now.max(self.sending.get(&from).copied().unwrap_or_default());
        self.sending.insert(from, starts + time);
        let received = starts.max(self.receiving.get(&to).copied().unwrap_or_default()) + time;
        self.receiving.insert(to, received);
        self.bytes += bytes;
        received + delay
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn machine(&self, node: NodeId) -> Machine {
        match node {
            NodeId::Coordinator => (DcId(0), false, u16::MAX),
            NodeId::Server(id) => (id.dc, false, id.shard.0),
            NodeId::Worker(id) => (id.dc, !self.facts[id.dc.index()].colocated, id.index),
        }
    }
}

persist! {
    impl Persist<()> for Lan {
        fn walk(Self { facts: _, sending, receiving, bytes }, walk, ()) {
            walk.record("sending", sending)?;
            walk.record("receiving", receiving)?;
            walk.record("bytes", bytes)
        }
    }
}
