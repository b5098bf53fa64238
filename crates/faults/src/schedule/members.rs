//! Data centers that join late, and that leave permanently.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Done, Event, Schedule};
use crate::checkers::Seen;
use crate::cluster::disk::Survives;
use crate::scenario::fault::{Fault, FaultKind};
use gaia_core::coordinator::Admission;
use gaia_core::types::{DcId, NodeId, ServerId, ShardId};

impl Schedule<'_> {
    /// Whether a data center is inactive or has crashed permanently. Its nodes do not restart by themselves.
    pub(super) fn is_gone(&self, dc: DcId) -> bool {
        self.coordinator.run.inactive().contains(&dc) || self.leaving.contains(&dc)
    }

    /// Starts all nodes of a data center without a state, as soon as the coordinator admits it.
    pub(super) fn join_late(&mut self, dc: DcId) -> Done {
        if !self.coordinator_process.is_up {
            self.events.push(self.now + RETRY_AFTER, Event::Join { dc });
            return Ok(());
        }

        if !self.is_gone(dc) {
            return Ok(());
        }

        let inactive = self.coordinator.run.inactive();
        let mut servers = self.nodes.servers.iter().filter(|(id, _)| !inactive.contains(&id.dc));
        let is_lost = servers.clone().any(|(_, node)| node.host.disk_lost);

        // A mirror that crashes loses its unsynced frames of the data center's earlier servers, which cannot send them
        // again.
        let have_synced = servers.all(|(_, node)| node.unsynced.is_empty());
        let can_resend = have_synced || !self.coordinator.has_left(dc);
        let is_leaving = self.leaving.contains(&dc);
        let is_ready = |one: DcId| one == dc && !is_leaving && !is_lost && can_resend;
        match self.coordinator.admission(is_ready) {
            Admission::Closed => return Ok(()),
            Admission::NotYet => {
                self.events.push(self.now + RETRY_AFTER, Event::Join { dc });
                return Ok(());
            }
            Admission::Join(dc) => self.coordinator.join(dc),
        }

        self.counts.structural.count(FaultKind::LateJoin);
        self.see(Seen::Joins { dc })?;
        let (servers, workers): (Vec<NodeId>, Vec<NodeId>) =
            self.nodes_of(dc).into_iter().partition(|node| matches!(node, NodeId::Server(_)));

        // The join and the sources of the copies are written to the coordinator's disk at once.
        for node in &servers {
            self.nodes.empty_disk(*node);
            self.boot(*node)?;
        }
        self.save_coordinator();
        for node in servers {
            self.begin(node)?;
        }

        for node in workers {
            self.nodes.empty_disk(node);
            if let NodeId::Worker(worker) = node {
                self.see(Seen::LostState { worker })?;
            }
            self.start(node)?;
        }

        Ok(())
    }

    /// Crashes all nodes of a data center: permanently, if the run can continue without it.
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

    /// Gives up a data center that has crashed permanently, and with it those that were taking its copy. If that is
    /// impossible, because the run drains or no mirror would be left, the nodes restart instead.
    pub(super) fn give_up(&mut self, dc: DcId) -> Done {
        if !self.coordinator_process.is_up {
            self.events.push(self.now + RETRY_AFTER, Event::GiveUp { dc });
            return Ok(());
        }

        if !self.leaving.remove(&dc) {
            return Ok(());
        }

        let is_there = |dc| !self.leaving.contains(&dc);
        let node = NodeId::Server(ServerId { dc, shard: ShardId(0) });
        let gone = self.coordinator.leaving_with(node, is_there).ok();
        let Some(gone) = gone.filter(|gone| self.all_have_mirrors_without(gone)) else {
            for node in self.nodes_of(dc) {
                self.restart(node)?;
            }
            return Ok(());
        };

        self.coordinator.leave(&gone);
        self.save_coordinator();

        for dc in gone {
            self.let_go(dc)?;
        }
        self.coordinator.run.advance();
        Ok(())
    }

    /// Whether every server that has lost its disk still has a mirror without these data centers.
    fn all_have_mirrors_without(&self, gone: &BTreeSet<DcId>) -> bool {
        let inactive = self.coordinator.run.inactive();
        let stays = |dc: DcId| !inactive.contains(&dc) && !gone.contains(&dc);
        let lost = self.nodes.servers.iter().filter(|(_, node)| node.host.disk_lost);
        let mut lost = lost.filter(|(id, _)| stays(id.dc));
        lost.all(|(id, _)| self.nodes.nearest_to(*id, stays).is_some())
    }

    /// Removes a data center from the run, which continues without it.
    fn let_go(&mut self, dc: DcId) -> Done {
        self.leaving.remove(&dc);
        self.counts.structural.count(FaultKind::Leave);
        for node in self.nodes_of(dc) {
            self.crash(node, Survives::ByChance, Duration::ZERO);
        }
        self.see(Seen::Gone { dc })?;
        for (mirror, order) in self.coordinator.orders_of_leaving(dc) {
            self.hand(NodeId::Server(mirror), order.into())?;
        }
        Ok(())
    }

    pub(super) fn nodes_of(&self, dc: DcId) -> Vec<NodeId> {
        self.nodes.ids().into_iter().filter(|node| node.dc() == Some(dc)).collect()
    }
}

/// The interval at which a join or a removal is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(1);
