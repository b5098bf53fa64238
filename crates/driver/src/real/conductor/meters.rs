//! The traffic that nodes report, summed over all their processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::recorder::{AllLinkCounters, LinkCounters};
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, NodeId, ServerId};

/// The counters of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Meters {
    links: BTreeMap<(ServerId, DcId), Count<LinkCounters>>,
    lan: BTreeMap<NodeId, Count<u64>>,
}

/// A counter that starts at zero in each process of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Count<T> {
    /// The sum over the processes before.
    before: T,
    latest: T,
}

impl Meters {
    /// Records the traffic of a server to a data center since its process began.
    pub(super) fn on_link(&mut self, server: ServerId, to: DcId, counters: LinkCounters) {
        let count = self.links.entry((server, to)).or_default();
        if counters.bytes < count.latest.bytes {
            count.before = sum(count.before, count.latest, 1);
        }
        count.latest = counters;
    }

    /// Records the bytes that a node has sent over the LAN since its process began.
    pub(super) fn on_lan(&mut self, node: NodeId, bytes: u64) {
        let count = self.lan.entry(node).or_default();
        if bytes < count.latest {
            count.before = count.before.saturating_add(count.latest);
        }
        count.latest = bytes;
    }

    /// The traffic of each link, from the latest reports of servers.
    pub(super) fn link_counters(&self, topology: &Topology) -> AllLinkCounters {
        let of = |from: DcId, to: DcId| {
            let own =
                self.links.iter().filter(|((server, peer), _)| server.dc == from && *peer == to);
            own.fold(LinkCounters::default(), |total, (_, count)| {
                let one = sum(count.before, count.latest, 1);
                sum(total, one, topology.dc(from).servers as u32)
            })
        };
        topology.links.iter().map(|link| of(link.from, link.to)).collect()
    }

    pub(super) fn lan_bytes(&self) -> u64 {
        let bytes = self.lan.values().map(|count| count.before.saturating_add(count.latest));
        bytes.fold(0, u64::saturating_add)
    }
}

/// The sum of both. Each of `sharers` servers adds its share of the time for which the link was busy.
fn sum(total: LinkCounters, one: LinkCounters, sharers: u32) -> LinkCounters {
    LinkCounters {
        bytes: total.bytes.saturating_add(one.bytes),
        control_bytes: total.control_bytes.saturating_add(one.control_bytes),
        frames: total.frames.saturating_add(one.frames),
        busy: total.busy.saturating_add(one.busy / sharers),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::real::test_run::plan_of;
    use gaia_core::types::ShardId;

    #[test]
    fn what_a_process_before_has_sent_still_counts() {
        let mut meters = Meters::default();
        let server = ServerId { dc: DcId(0), shard: ShardId(0) };
        for bytes in [5, 9, 2, 3] {
            let counters = LinkCounters { bytes, ..LinkCounters::default() };
            meters.on_link(server, DcId(1), counters);
            meters.on_lan(NodeId::Server(server), bytes);
        }
        assert_eq!(meters.lan_bytes(), 12);
        meters.on_lan(NodeId::Coordinator, u64::MAX);
        assert_eq!(meters.lan_bytes(), u64::MAX, "a node may claim any number");
        assert_eq!(meters.links[&(server, DcId(1))].before.bytes, 9);
    }

    /// A server may claim any number, and so may its processes before and the other servers of its data center.
    #[test]
    fn traffic_that_is_too_large_to_be_added_up_is_as_large_as_can_be() {
        let plan = plan_of("[sync.remote]\nmodel = \"bsp\"", 1, &["a", "b"]);
        let most = LinkCounters {
            bytes: u64::MAX,
            control_bytes: u64::MAX,
            frames: u64::MAX,
            busy: Duration::MAX,
        };
        let mut meters = Meters::default();
        for shard in [0, 1].map(ShardId) {
            // Each fall is another process.
            for counters in [most, LinkCounters::default(), most, LinkCounters::default(), most] {
                meters.on_link(ServerId { dc: DcId(0), shard }, DcId(1), counters);
            }
        }

        let links = plan.topology.links.iter().zip(meters.link_counters(&plan.topology));
        for (link, found) in links {
            let claimed = if link.from == DcId(0) { most } else { LinkCounters::default() };
            assert_eq!(found, claimed);
        }
    }
}
