//! Which process of each node is its own: two processes may have the identity of one node.
//!
//! A node that restarts has a new process, and the process before it does not connect again. If it does, both run, for
//! example because the node was started on two machines. Each would replace the connections of the other. So the newest
//! process takes part, and an earlier one is refused.

use std::collections::{BTreeMap, VecDeque};

use gaia_core::types::NodeId;

/// The processes of nodes that have connected to this process of the coordinator.
#[derive(Debug, Default)]
pub(super) struct Instances {
    of_nodes: BTreeMap<NodeId, OfNode>,
}

#[derive(Debug, Default)]
struct OfNode {
    newest: u64,
    /// The latest last.
    replaced: VecDeque<u64>,
}

impl Instances {
    /// Whether the process of a node may connect: it is new, or the newest of the node.
    pub(super) fn admit(&mut self, node: NodeId, instance: u64) -> bool {
        let of_node = self
            .of_nodes
            .entry(node)
            .or_insert_with(|| OfNode { newest: instance, ..OfNode::default() });
        if of_node.replaced.contains(&instance) {
            return false;
        }
        if of_node.newest != instance {
            let before = std::mem::replace(&mut of_node.newest, instance);
            of_node.replaced.push_back(before);
            if of_node.replaced.len() > REPLACED_MAX {
                of_node.replaced.pop_front();
            }
        }
        true
    }
}

/// More processes than a node has in any run. One that calls itself another all the time takes no more memory.
const REPLACED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::{DcId, WorkerId};

    #[test]
    fn the_newest_process_of_a_node_may_reconnect_and_earlier_ones_may_not() {
        let worker = |index| NodeId::Worker(WorkerId { dc: DcId(0), index });
        let mut instances = Instances::default();
        assert!(instances.admit(worker(0), 1) && instances.admit(worker(0), 1));
        assert!(instances.admit(worker(1), 3), "another node");
        assert!(instances.admit(worker(0), 2), "a restart");
        assert!(!instances.admit(worker(0), 1) && instances.admit(worker(0), 2));
        assert!(instances.admit(worker(0), 4) && !instances.admit(worker(0), 2));
        assert!((5..5 + REPLACED_MAX as u64).all(|instance| instances.admit(worker(0), instance)));
        let OfNode { replaced, .. } = &instances.of_nodes[&worker(0)];
        assert_eq!((replaced.len(), replaced[0]), (REPLACED_MAX, 4), "the oldest is left out");
    }
}
