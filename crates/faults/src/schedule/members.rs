//! Data centers that join late, and that leave for good.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Done, Event, Schedule};
use crate::checkers::Seen;
use crate::cluster::disk::Survives;
use crate::scenario::fault::{Fault, FaultKind};
use gaia_core::coordinator::Admission;
use gaia_core::types::{DcId, NodeId, ServerId, ShardId};

impl Schedule<'_> {
    /// Whether a data center is not there, and nobody of it comes back by itself.
    pub(super) fn is_gone(&self, dc: DcId) -> bool {
        self.coordinator.run.inactive().contains(&dc) || self.leaving.contains(&dc)
    }

    /// All nodes of a data center begin, with nothing, once nobody else is about to take a copy.
    pub(super) fn join_late(&mut self, dc: DcId) -> Done {
        if !self.coordinator_process.is_open {
            self.events.push(self.now + LOOKS_AGAIN_AFTER, Event::Join { dc });
            return Ok(());
        }

        if !self.is_gone(dc) {
            return Ok(());
        }

        let inactive = self.coordinator.run.inactive();
        let mut servers = self.nodes.servers.iter().filter(|(id, _)| !inactive.contains(&id.dc));
        let is_lost = servers.clone().any(|(_, node)| node.host.disk_lost);

        // What mirrors have heard from it before and may yet forget, it could not say again.
        let have_synced = servers.all(|(_, node)| node.unsynced.is_empty());
        let can_say_again = have_synced || !self.coordinator.has_left(dc);
        let is_dying = self.leaving.contains(&dc);
        let is_there = |one: DcId| one == dc && !is_dying && !is_lost && can_say_again;
        match self.coordinator.admission(is_there) {
            Admission::Closed => return Ok(()),
            Admission::NotYet => {
                self.events.push(self.now + LOOKS_AGAIN_AFTER, Event::Join { dc });
                return Ok(());
            }
            Admission::Join(dc) => self.coordinator.join(dc),
        }

        self.counts.structural.count(FaultKind::LateJoin);
        let (servers, workers): (Vec<NodeId>, Vec<NodeId>) =
            self.nodes_of(dc).into_iter().partition(|node| matches!(node, NodeId::Server(_)));

        // That they have joined and whose copies they take is written at once.
        for node in &servers {
            self.nodes.empty_disk(*node);
            self.boot(*node)?;
        }
        self.keep();
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
        self.keep();

        for dc in gone {
            self.let_go(dc)?;
        }
        self.coordinator.run.advance();
        Ok(())
    }

    /// Whether every server that has lost its disk has a mirror yet, once these data centers are gone.
    fn all_have_mirrors_without(&self, gone: &BTreeSet<DcId>) -> bool {
        let inactive = self.coordinator.run.inactive();
        let stays = |dc: DcId| !inactive.contains(&dc) && !gone.contains(&dc);
        let lost = self.nodes.servers.iter().filter(|(_, node)| node.host.disk_lost);
        let mut lost = lost.filter(|(id, _)| stays(id.dc));
        lost.all(|(id, _)| self.nodes.nearest_to(*id, stays).is_some())
    }

    /// The run goes on without a data center.
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

/// While a data center cannot join.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(1);
