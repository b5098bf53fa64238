//! The peers that a node must be connected to.

use crate::cluster::{server_ids, worker_ids};
use gaia_core::topology::Topology;
use gaia_core::types::{NodeId, ServerId, ShardId, WorkerId};

/// The peers that a node must be connected to, each with its role.
pub(in crate::real) fn peers(topology: &Topology, node: NodeId) -> Vec<(NodeId, &'static str)> {
    let server = |dc, shard| (NodeId::Server(ServerId { dc, shard }), "server");
    let coordinator = (NodeId::Coordinator, "coordinator");
    match node {
        NodeId::Coordinator => {
            let servers = server_ids(topology).map(|id| server(id.dc, id.shard));
            servers.chain(worker_ids(topology).map(|id| (NodeId::Worker(id), "worker"))).collect()
        }
        NodeId::Server(own) => {
            let others = topology.dc_ids().filter(|dc| *dc != own.dc);
            let mirrors = others.map(|dc| (server(dc, own.shard).0, "mirror"));
            let workers = 0..topology.dc(own.dc).workers as u16;
            let workers =
                workers.map(|index| (NodeId::Worker(WorkerId { dc: own.dc, index }), "worker"));
            std::iter::once(coordinator).chain(mirrors).chain(workers).collect()
        }
        NodeId::Worker(own) => {
            let servers = 0..topology.dc(own.dc).servers as u16;
            let servers = servers.map(|shard| server(own.dc, ShardId(shard)));
            std::iter::once(coordinator).chain(servers).collect()
        }
    }
}
