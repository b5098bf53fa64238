//! The orders that hold until the end of the run: what a node is to know that comes back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message::Order;
use gaia_core::types::{Clock, DcId, NodeId, ServerId, WorkerId};

/// What has been ordered so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) started: bool,
    pub(super) stop: Option<Clock>,
    pub(super) drain: BTreeMap<DcId, (Vec<Clock>, BTreeSet<DcId>)>,
    /// Servers of data centers that have left for good, and in which incarnation.
    pub(super) left: BTreeMap<ServerId, u64>,
    pub(super) server_stats: bool,
    /// Workers whose work others have done.
    pub(super) taken_over: BTreeSet<WorkerId>,
}

impl Standing {
    /// What a node is to be told, in order, whatever it has heard before; but for [`Order::ServerStats`], of which the conductor
    /// knows who has answered. `stopped` says at which clock a worker has stopped before: one that comes back without its
    /// state is to come as far again, and no further.
    pub(super) fn orders_for(
        &self,
        node: NodeId,
        stopped: impl Fn(WorkerId) -> Option<Clock>,
    ) -> Vec<Order> {
        match node {
            NodeId::Coordinator => Vec::new(),
            NodeId::Worker(_) if !self.started => Vec::new(),
            NodeId::Worker(worker) => {
                let stopped = stopped(worker);
                let last = |last: Clock| last.max(stopped.unwrap_or_default());
                let stop = self.stop.map(|at| Order::Stop { last: last(at) });
                [Order::Start { stopped }].into_iter().chain(stop).collect()
            }
            NodeId::Server(server) => {
                let left = self.left.iter().filter(|(left, _)| left.shard == server.shard);
                let left =
                    left.map(|(left, process)| Order::Left { from: left.dc, process: *process });
                let drain = self.drain.get(&server.dc).cloned();
                let drain = drain.map(|(clocks, inactive)| Order::Drain { clocks, inactive });
                left.chain(drain).collect()
            }
        }
    }
}
