//! A node is on the line, for the first time or again: what it is told.

use super::Conductor;
use crate::real::error::RealError;
use crate::real::message::{Order, ServerProcess};
use gaia_core::types::{DcId, NodeId, ServerId};

impl Conductor<'_> {
    /// Tells a node that is on the line, perhaps again, everything that it may not know.
    pub(super) async fn on_joined(&mut self, node: NodeId) -> Result<(), RealError> {
        self.context.on_connected(node);
        self.give_back(node).await;
        if !self.begun {
            return Ok(());
        }

        if !self.takes_part(node) {
            return self.on_newcomer(node).await;
        }
        if let NodeId::Server(server) = node {
            self.meet(server).await?;
        }

        match node {
            // It may listen elsewhere than before.
            NodeId::Server(_) => self.tell_addresses().await,
            _ => {
                self.membership
                    .tell(node, &self.membership.begin(self.coordinator.inactive()))
                    .await;
            }
        }

        self.tell_standing(node).await;
        Ok(())
    }

    /// Tells nodes that begin together everything, and all others where those listen.
    pub(super) async fn welcome(&mut self, nodes: Vec<NodeId>) -> Result<(), RealError> {
        for node in &nodes {
            if let NodeId::Server(server) = node {
                self.meet(*server).await?;
            }
        }
        self.tell_addresses().await;
        for node in nodes {
            self.tell_standing(node).await;
        }
        Ok(())
    }

    /// Takes note of the process of a server that is on the line, and tells one that has lost its copy whose to take.
    pub(super) async fn meet(&mut self, server: ServerId) -> Result<(), RealError> {
        let Some(process) = self.membership.incarnation_of(NodeId::Server(server)) else {
            return Ok(());
        };
        let known = self.server_processes.clone();
        // One that comes back to a run that is over needs no copy.
        if self.server_processes.is_lost(server, process) && !self.finished {
            let from = self.source_for(server)?;
            self.server_processes.rebuild(server, process, from);
        }
        self.server_processes.meet(server, process);
        self.unwritten |= self.server_processes != known;
        self.tell_source(server, process).await;
        Ok(())
    }

    /// The mirror whose copy a server gets soonest that has none.
    pub(super) fn source_for(&self, server: ServerId) -> Result<DcId, RealError> {
        let bytes = 4 * self.layouts[server.shard.index()].parameters() as u64;
        let (run_context, drains) = (&self.context.run_context, !self.standing.drain.is_empty());
        let (takes_part, is_there) =
            (|node| self.takes_part(node), |node| self.membership.has(node));
        let source = self.server_processes.source_for(
            server,
            bytes,
            run_context,
            drains,
            [&takes_part, &is_there],
        );
        let node = run_context.name(NodeId::Server(server));
        source.map_err(|reason| RealError::CopyLost { node, reason })
    }

    /// Tells a server whose copy to take, if it has none.
    pub(super) async fn tell_source(&self, server: ServerId, process: ServerProcess) {
        if let Some(from) = self.server_processes.copy_of(server, process) {
            let inactive = self.coordinator.inactive().clone();
            self.membership.tell(NodeId::Server(server), &Order::Rebuild { from, inactive }).await;
        }
    }

    /// Tells everybody who takes part where servers listen.
    pub(super) async fn tell_addresses(&self) {
        let begin = self.membership.begin(self.coordinator.inactive());
        self.membership.tell_all(|node| self.takes_part(*node), &begin).await;
    }

    /// Gives a node the orders that hold.
    pub(super) async fn tell_standing(&self, node: NodeId) {
        let stopped = |worker| self.coordinator.stopped_at(worker);
        for order in self.standing.orders_for(node, stopped) {
            self.membership.tell(node, &order).await;
        }
        let NodeId::Server(server) = node else { return };
        if let Some(pending_evaluation) = self
            .pending_evaluation
            .as_ref()
            .filter(|pending_evaluation| pending_evaluation.awaits(server))
        {
            self.membership.tell(node, &Order::Copy { ticket: pending_evaluation.ticket }).await;
        }
        if self.standing.server_stats && !self.all_server_stats.contains_key(&server) {
            self.membership.tell(node, &Order::ServerStats).await;
        }
    }
}
