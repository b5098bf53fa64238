//! A node connects, for the first time or again: what the coordinator sends to it.

use super::Conductor;
use crate::real::connections::message::Order;
use crate::real::error::RealError;
use gaia_core::coordinator::NoSource;
use gaia_core::types::{DcId, NodeId, ServerId};

impl Conductor<'_> {
    /// Sends a node that has connected or reconnected everything that it may not have received.
    pub(super) async fn on_joined(&mut self, node: NodeId) -> Result<(), RealError> {
        self.context.on_connected(node);
        self.give_back(node).await;
        if !self.begun {
            return Ok(());
        }

        if !self.coordinator.takes_part(node) {
            return self.on_newcomer(node).await;
        }
        if let NodeId::Server(server) = node {
            self.register(server)?;
            self.send_source(server).await?;
        }

        match node {
            // It may listen on another address than before.
            NodeId::Server(_) => self.send_addresses().await,
            _ => {
                let begin = self.membership.begin(&self.coordinator);
                self.membership.send(node, &begin).await;
            }
        }

        self.send_orders(node).await;
        Ok(())
    }

    /// Sends nodes that begin together everything that they need, and sends all nodes the addresses of servers.
    pub(super) async fn welcome(&mut self, nodes: Vec<NodeId>) -> Result<(), RealError> {
        for node in &nodes {
            if let NodeId::Server(server) = node {
                self.register(*server)?;
                self.send_source(*server).await?;
            }
        }
        self.send_addresses().await;
        for node in nodes {
            self.send_orders(node).await;
        }
        Ok(())
    }

    /// Records the process of a server that is connected.
    pub(super) fn register(&mut self, server: ServerId) -> Result<(), RealError> {
        let Some(process) = self.membership.incarnation_of(NodeId::Server(server)) else {
            return Ok(());
        };

        let (plan, membership) = (&self.context.run_context.plan, &self.membership);
        let bytes = 4 * self.layouts[server.shard.index()].parameters() as u64;
        let nearest = |there: &dyn Fn(DcId) -> bool| plan.copy_source(server.dc, bytes, there);
        let registered = self.coordinator.register_server(server, process, |coordinator| {
            coordinator.source_for(server, |node| membership.has(node), &nearest)
        });
        self.unwritten |= registered.map_err(|reason| self.no_source(server, reason))?;

        Ok(())
    }

    pub(super) fn no_source(&self, server: ServerId, reason: NoSource) -> RealError {
        let run_context = &self.context.run_context;
        let reason = match reason {
            NoSource::Draining => "the final drain has begun".into(),
            NoSource::OtherWaits(other) => {
                format!("{} also waits for a copy", run_context.name(NodeId::Server(other)))
            }
            NoSource::NoMirror => {
                let plan = &run_context.plan;
                let (model, dc) = (plan.remote.name(), &plan.topology.dc(server.dc).name);
                format!("under {model} no other data center has all updates of {dc}")
            }
        };
        RealError::CopyLost { node: run_context.name(NodeId::Server(server)), reason }
    }

    /// Sends a server whose copy to take, if it has no copy. The coordinator writes this decision to its state file
    /// first, unless the next outputs are written with it.
    async fn send_source(&mut self, server: ServerId) -> Result<(), RealError> {
        let process = self.membership.incarnation_of(NodeId::Server(server));
        let copy_of = |process| self.coordinator.copy_of(server, process);
        let Some(from) = process.and_then(copy_of) else { return Ok(()) };
        if self.unwritten && !self.coordinator.run.has_output() {
            self.unwritten = false;
            self.write_down()?;
        }

        let inactive = self.coordinator.run.inactive().clone();
        self.membership.send(NodeId::Server(server), &Order::Rebuild { from, inactive }).await;
        Ok(())
    }

    /// Sends the addresses of servers to all nodes that take part.
    pub(super) async fn send_addresses(&self) {
        let begin = self.membership.begin(&self.coordinator);
        self.membership.send_all(|node| self.coordinator.takes_part(*node), &begin).await;
    }

    /// Sends a node the orders that are in force.
    pub(super) async fn send_orders(&mut self, node: NodeId) {
        for order in self.coordinator.orders_for(node) {
            self.membership.send(node, &order.into()).await;
        }
        let NodeId::Server(server) = node else { return };
        self.send_requests(server).await;
        if self.coordinator.orders().server_stats && !self.all_server_stats.contains_key(&server) {
            self.membership.send(node, &Order::ServerStats).await;
        }
    }
}
