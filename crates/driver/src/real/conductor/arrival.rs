//! A node is on the line, for the first time or again: what it is told.

use super::Conductor;
use crate::real::error::RealError;
use crate::real::message::{Life, Order};
use gaia_core::types::{DcId, NodeId, ServerId};

impl Conductor<'_> {
    /// Tells a node that is on the line, perhaps again, everything that it may not know.
    pub(super) async fn on_joined(&mut self, node: NodeId) -> Result<(), RealError> {
        self.seat.on_connected(node);
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
            _ => self.roll.tell(node, &self.roll.begin(self.coordinator.absent())).await,
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
        let Some(life) = self.roll.life_of(NodeId::Server(server)) else { return Ok(()) };
        let known = self.lives.clone();
        // One that comes back to a run that is over needs no copy.
        if self.lives.is_lost(server, life) && !self.finished {
            let from = self.source_for(server)?;
            self.lives.rebuild(server, life, from);
        }
        self.lives.meet(server, life);
        self.unwritten |= self.lives != known;
        self.tell_source(server, life).await;
        Ok(())
    }

    /// The mirror whose copy a server gets soonest that has none.
    pub(super) fn source_for(&self, server: ServerId) -> Result<DcId, RealError> {
        let bytes = 4 * self.layouts[server.shard.index()].parameters() as u64;
        let (site, drains) = (&self.seat.site, !self.standing.drain.is_empty());
        let (takes_part, is_there) = (|node| self.takes_part(node), |node| self.roll.has(node));
        let source = self.lives.source_for(server, bytes, site, drains, [&takes_part, &is_there]);
        let node = site.name(NodeId::Server(server));
        source.map_err(|reason| RealError::CopyLost { node, reason })
    }

    /// Tells a server whose copy to take, if it has none.
    pub(super) async fn tell_source(&self, server: ServerId, life: Life) {
        if let Some(from) = self.lives.copy_of(server, life) {
            let absent = self.coordinator.absent().clone();
            self.roll.tell(NodeId::Server(server), &Order::Rebuild { from, absent }).await;
        }
    }

    /// Tells everybody who takes part where servers listen.
    pub(super) async fn tell_addresses(&self) {
        let begin = self.roll.begin(self.coordinator.absent());
        self.roll.tell_all(|node| self.takes_part(*node), &begin).await;
    }

    /// Gives a node the orders that hold.
    pub(super) async fn tell_standing(&self, node: NodeId) {
        let stopped = |worker| self.coordinator.stopped_at(worker);
        for order in self.standing.orders_for(node, stopped) {
            self.roll.tell(node, &order).await;
        }
        let NodeId::Server(server) = node else { return };
        if let Some(judging) = self.judging.as_ref().filter(|judging| judging.awaits(server)) {
            self.roll.tell(node, &Order::Copy { ticket: judging.ticket }).await;
        }
        if self.standing.tally && !self.tallies.contains_key(&server) {
            self.roll.tell(node, &Order::Tally).await;
        }
    }
}
