//! The orders that hold until the end of the run: what a node is to know that comes back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::message::Order;
use crate::types::{Clock, DcId, NodeId, WorkerId};

/// What has been ordered so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) started: bool,
    pub(super) stop: Option<Clock>,
    pub(super) drain: BTreeMap<DcId, Vec<Clock>>,
    pub(super) tally: bool,
}

impl Standing {
    /// What a node is to be told, in order, whatever it has heard before; but for [`Order::Tally`], of which the conductor
    /// knows who has answered. `stopped` says at which clock a worker has stopped before.
    pub(super) fn orders_for(
        &self,
        node: NodeId,
        stopped: impl Fn(WorkerId) -> Clock,
    ) -> Vec<Order> {
        match node {
            NodeId::Coordinator => Vec::new(),
            NodeId::Worker(_) if !self.started => Vec::new(),
            NodeId::Worker(worker) => {
                let stop = self.stop.map(|last| Order::Stop { last: last.max(stopped(worker)) });
                [Order::Start].into_iter().chain(stop).collect()
            }
            NodeId::Server(server) => {
                let drain = self.drain.get(&server.dc);
                drain.map(|clocks| Order::Drain { clocks: clocks.clone() }).into_iter().collect()
            }
        }
    }
}
