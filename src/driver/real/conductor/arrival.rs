//! A node is on the line, for the first time or again: what it is told.

use super::Conductor;
use crate::driver::real::error::RealError;
use crate::driver::real::message::Order;
use crate::types::{NodeId, ServerId};

impl Conductor<'_> {
    /// Tells a node that is on the line, perhaps again, everything that it may not know.
    pub(super) async fn on_joined(&mut self, node: NodeId) -> Result<(), RealError> {
        self.seat.on_connected(node);
        if !self.begun {
            return Ok(());
        }
        if let NodeId::Server(server) = node {
            self.meet(server).await?;
        }
        let begin = self.roll.begin();
        match node {
            // It may listen elsewhere than before.
            NodeId::Server(_) => self.roll.tell_all(|_| true, &begin).await,
            _ => self.roll.tell(node, &begin).await,
        }
        self.tell_standing(node).await;
        Ok(())
    }

    /// Takes note of the process of a server that is on the line, and tells one that has lost its copy whose to take.
    pub(super) async fn meet(&mut self, server: ServerId) -> Result<(), RealError> {
        let Some(life) = self.roll.life_of(server) else { return Ok(()) };
        let known = self.lives.clone();
        // One that comes back to a run that is over needs no copy.
        if self.lives.is_lost(server, life) && !self.finished {
            let bytes = 4 * self.layouts[server.shard.index()].parameters() as u64;
            let (site, drains) = (&self.seat.site, !self.standing.drain.is_empty());
            let is_there = |node| self.roll.has(node);
            let source = self.lives.source_for(server, bytes, site, drains, is_there);
            let node = site.name(NodeId::Server(server));
            let from = source.map_err(|reason| RealError::CopyLost { node, reason })?;
            self.lives.rebuild(server, life, from);
        }
        self.lives.meet(server, life);
        if let Some(from) = self.lives.copy_of(server, life) {
            self.roll.tell(NodeId::Server(server), &Order::Rebuild { from }).await;
        }
        self.unwritten |= self.lives != known;
        Ok(())
    }

    /// Gives a node the orders that hold.
    pub(super) async fn tell_standing(&self, node: NodeId) {
        // A worker that comes back without its state is to come as far again.
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
