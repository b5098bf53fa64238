//! The orders that hold until the end of the run. A node that reconnects receives them again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::types::{Clock, DcId, NodeId, ServerId, WorkerId};

/// An order of the coordinator that holds from the time that it is given.
///
/// Idempotent: a node that receives one again does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOrder {
    /// To a worker: begin the first iteration. A worker that has lost its state continues where its servers know it.
    Start {
        /// The clock at which an earlier process of the worker has stopped, if one has.
        stopped: Option<Clock>,
    },
    /// To a worker: stop at a clock, or after the current iteration if it is past that clock.
    Stop {
        /// The clock.
        last: Clock,
    },
    /// To a server: drain once its workers have finished their clocks, together with all active data centers.
    Drain {
        /// The clocks at which the workers of the server's data center have stopped, by worker.
        clocks: Vec<Clock>,
        /// The data centers that take no part.
        inactive: BTreeSet<DcId>,
    },
    /// To a server: a mirror has left for good.
    Left {
        /// The mirror's data center.
        from: DcId,
        /// The number of the incarnation that began the state with which the mirror took part.
        process: u64,
    },
}

/// The nodes that an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// The workers of all data centers that take part.
    Workers,
    /// The servers of one data center.
    ServersOf(DcId),
}

/// All orders that have been given so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StandingOrders {
    /// Whether workers were ordered to start.
    pub started: bool,
    /// The clock of the latest order to workers to stop.
    pub stop: Option<Clock>,
    /// By data center that was ordered to drain, the clocks of its workers and the data centers that were inactive.
    pub drain: BTreeMap<DcId, (Vec<Clock>, BTreeSet<DcId>)>,
    /// By server of a data center that has left for good, the incarnation that began the state with which it took part.
    pub left: BTreeMap<ServerId, u64>,
    /// Whether servers were asked for their statistics.
    pub server_stats: bool,
    /// Workers for which others have stood in at some time.
    pub taken_over: BTreeSet<WorkerId>,
}

impl Recipients {
    /// Whether a node that takes part is one of the recipients.
    pub fn include(self, node: NodeId) -> bool {
        match (self, node) {
            (Self::Workers, NodeId::Worker(_)) => true,
            (Self::ServersOf(dc), NodeId::Server(server)) => server.dc == dc,
            _ => false,
        }
    }
}

impl StandingOrders {
    /// Notes an order. The caller does this before the order is given.
    pub fn record(&mut self, to: Recipients, order: &NodeOrder) {
        match (to, order) {
            (_, NodeOrder::Start { .. }) => self.started = true,
            (_, NodeOrder::Stop { last }) => self.stop = Some(*last),
            (Recipients::ServersOf(dc), NodeOrder::Drain { clocks, inactive }) => {
                self.drain.insert(dc, (clocks.clone(), inactive.clone()));
            }
            // A data center that leaves is noted at that time, and only the servers of a data center drain.
            (_, NodeOrder::Left { .. }) | (Recipients::Workers, NodeOrder::Drain { .. }) => {}
        }
    }

    /// The orders that a node receives when it connects, in this sequence, whatever it has received before. The request
    /// for statistics is not among them: the driver knows which servers have answered it.
    ///
    /// `stopped` returns the clock at which a worker has stopped before. A worker that restarts without its state must
    /// reach that clock again, and stops there.
    pub fn orders_for(
        &self,
        node: NodeId,
        stopped: impl Fn(WorkerId) -> Option<Clock>,
    ) -> Vec<NodeOrder> {
        match node {
            NodeId::Coordinator => Vec::new(),
            NodeId::Worker(worker) => {
                let stopped = stopped(worker);
                let start = self.started.then_some(NodeOrder::Start { stopped });

                let last = |last: Clock| last.max(stopped.unwrap_or_default());
                let stop = self.stop.map(|at| NodeOrder::Stop { last: last(at) });
                start.into_iter().chain(stop).collect()
            }
            NodeId::Server(server) => {
                let left = self.left.iter().filter(|(left, _)| left.shard == server.shard);
                let left = left
                    .map(|(left, process)| NodeOrder::Left { from: left.dc, process: *process });

                let drain = self.drain.get(&server.dc).cloned();
                let drain = drain.map(|(clocks, inactive)| NodeOrder::Drain { clocks, inactive });
                left.chain(drain).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ShardId;

    const SERVER: ServerId = ServerId { dc: DcId(1), shard: ShardId(0) };
    const WORKER: WorkerId = WorkerId { dc: DcId(1), index: 0 };

    #[test]
    fn a_worker_that_comes_back_is_not_stopped_before_where_it_had_stopped() {
        let mut orders = StandingOrders::default();
        let worker = NodeId::Worker(WORKER);
        assert_eq!(orders.orders_for(worker, |_| None), [], "the run has not started");

        orders.record(Recipients::Workers, &NodeOrder::Start { stopped: None });
        orders.record(Recipients::Workers, &NodeOrder::Stop { last: Clock(3) });
        let stopped = Some(Clock(5));
        let expected = [NodeOrder::Start { stopped }, NodeOrder::Stop { last: Clock(5) }];
        assert_eq!(orders.orders_for(worker, |_| stopped), expected);
    }

    #[test]
    fn a_server_that_comes_back_hears_which_mirrors_have_left_before_it_drains() {
        let mut orders = StandingOrders::default();
        orders.left.insert(ServerId { dc: DcId(2), ..SERVER }, 7);
        orders.left.insert(ServerId { dc: DcId(2), shard: ShardId(1) }, 8);
        let drain = NodeOrder::Drain { clocks: vec![Clock(3)], inactive: [DcId(2)].into() };
        orders.record(Recipients::ServersOf(DcId(1)), &drain);

        let left = NodeOrder::Left { from: DcId(2), process: 7 };
        assert_eq!(orders.orders_for(NodeId::Server(SERVER), |_| None), [left, drain]);
    }
}
