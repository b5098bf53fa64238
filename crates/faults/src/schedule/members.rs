//! Data centers that join late, and that leave for good.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Done, Event, Schedule};
use crate::checkers::Seen;
use crate::disk::Survives;
use crate::fault::{Fault, FaultKind};
use crate::nodes::{ServerNode, Task};
use gaia_core::coordinator::leave_with;
use gaia_core::types::{DcId, NodeId, ServerId};

impl Schedule<'_> {
    /// Whether a data center is not there, and nobody of it comes back by itself.
    pub(super) fn is_gone(&self, dc: DcId) -> bool {
        self.coordinator.inactive().contains(&dc) || self.leaving.contains(&dc)
    }

    /// All nodes of a data center begin, with nothing, once nobody else is about to take a copy.
    pub(super) fn join_late(&mut self, dc: DcId) -> Done {
        if !self.coordinator_process.is_open {
            self.events.push(self.now + LOOKS_AGAIN_AFTER, Event::Join { dc });
            return Ok(());
        }

        if !self.coordinator.admits() || !self.is_gone(dc) {
            return Ok(());
        }
        let inactive = self.coordinator.inactive();
        let mut servers = self.nodes.servers.iter().filter(|(id, _)| !inactive.contains(&id.dc));
        let are_whole = servers.clone().all(|(_, node)| node.is_whole());

        // What mirrors have heard from it before and may yet forget, it could not say again.
        let have_synced = servers.all(|(_, node)| node.unsynced.is_empty());
        let has_been = self.told.left.keys().any(|server| server.dc == dc);
        if self.leaving.contains(&dc) || !are_whole || (has_been && !have_synced) {
            self.events.push(self.now + LOOKS_AGAIN_AFTER, Event::Join { dc });
            return Ok(());
        }

        self.coordinator.handle_joined(dc);
        self.told.left.retain(|server, _| server.dc != dc);
        self.keep();
        self.counts.structural.count(FaultKind::LateJoin);

        for node in self.nodes_of(dc) {
            self.nodes.empty_disk(node);
            if let NodeId::Worker(worker) = node {
                self.see(Seen::LostState { worker })?;
            }
            self.start(node)?;
        }

        Ok(())
    }

    /// All nodes of a data center die: for good, where the run can go on without it.
    pub(super) fn leave(&mut self, fault: &Fault) {
        let dc = DcId(fault.dc);
        if self.is_gone(dc) {
            return;
        }
        if self.plan.needs_all().is_none() {
            self.leaving.insert(dc);
        } else {
            self.counts.structural.count(FaultKind::Crash);
        }
        for node in self.nodes_of(dc) {
            self.crash(node, Survives::ByChance, fault.lasts.0);
        }
    }

    /// A data center that is gone is waited for no more, and with it those whose copies it had on the way. Where copies
    /// are being made equal, or none would be left, it is back instead.
    pub(super) fn give_up(&mut self, dc: DcId) -> Done {
        if !self.coordinator_process.is_open {
            self.events.push(self.now + LOOKS_AGAIN_AFTER, Event::GiveUp { dc });
            return Ok(());
        }

        if !self.leaving.remove(&dc) {
            return Ok(());
        }
        let inactive = self.coordinator.inactive();
        let servers = self.nodes.servers.iter();
        let waiting = servers.filter(|(id, node)| !node.has_all && !inactive.contains(&id.dc));
        let copies = waiting.filter_map(|(id, node)| node.source.map(|source| (id.dc, source)));
        let gone = leave_with(dc, &copies.collect::<Vec<_>>());

        let mut dcs = self.plan.topology.dc_ids();
        let is_left = dcs.any(|dc| !self.is_gone(dc) && !gone.contains(&dc));

        // Who has lost its disk is to have a mirror yet.
        let without: BTreeSet<DcId> = inactive.union(&gone).copied().collect();
        let mut lost = self
            .nodes
            .servers
            .iter()
            .filter(|(id, node)| node.host.disk_lost && !without.contains(&id.dc));
        let can_all = lost.all(|(id, _)| self.nodes.nearest_to(*id, &without).is_some());

        if !is_left || !can_all || !self.coordinator.lets_go() {
            for node in self.nodes_of(dc) {
                self.restart(node)?;
            }
            return Ok(());
        }

        self.coordinator.handle_left(&gone);
        let server_processes =
            |(id, node): (&ServerId, &ServerNode)| (*id, node.machine.began().number());
        let left =
            self.nodes.servers.iter().filter(|(id, _)| gone.contains(&id.dc)).map(server_processes);
        self.told.left.extend(left);
        self.keep();

        for dc in gone {
            self.let_go(dc)?;
        }
        self.coordinator.advance();
        Ok(())
    }

    /// The run goes on without a data center.
    fn let_go(&mut self, dc: DcId) -> Done {
        self.leaving.remove(&dc);
        self.counts.structural.count(FaultKind::Leave);
        for node in self.nodes_of(dc) {
            self.crash(node, Survives::ByChance, Duration::ZERO);
        }
        self.see(Seen::Gone { dc })?;
        let left = self.told.left.clone().into_iter().filter(|(server, _)| server.dc == dc);
        for (server, incarnation) in left {
            for mirror in self.mirrors_of(server).collect::<Vec<_>>() {
                self.hand(NodeId::Server(mirror), Task::Left { dc, incarnation })?;
            }
        }
        Ok(())
    }

    /// Whether a node is of a data center that takes part.
    pub(super) fn takes_part(&self, node: NodeId) -> bool {
        node.dc().is_none_or(|dc| !self.coordinator.inactive().contains(&dc))
    }

    pub(super) fn nodes_of(&self, dc: DcId) -> Vec<NodeId> {
        self.nodes.ids().into_iter().filter(|node| node.dc() == Some(dc)).collect()
    }
}

/// While a data center cannot join.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(1);
