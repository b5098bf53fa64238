//! The execution of structural faults: failed links, crashes and restarts, disks and clocks.

use std::time::Duration;

use super::wan::SILENCE;
use super::{Done, Event, Schedule};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::cluster::disk::Survives;
use crate::cluster::ends::Pair;
use crate::cluster::nodes::{ReplayPair, Task};
use crate::scenario::draws::within;
use crate::scenario::fault::{Fault, FaultKind, Moment};
use gaia_core::coordinator::NoSource;
use gaia_core::types::{DcId, Instant, NodeId, ServerId, ShardId, WorkerId};

impl Schedule<'_> {
    /// Begins or ends a structural fault.
    pub(super) fn fault(&mut self, number: usize, begins: bool) -> Done {
        let fault = self.scenario.faults[number].clone();
        self.network.set(self.now, &fault, begins);
        if !begins {
            let leaves = fault.kind == FaultKind::Leave;
            return if leaves { self.give_up(DcId(fault.dc)) } else { Ok(()) };
        }

        match fault.kind {
            FaultKind::Crash if fault.write.is_some() => {
                // Counted at the write.
                for node in self.affected_nodes(&fault) {
                    self.nodes.host(node).crash_at_write =
                        fault.write.map(|moment| (moment, fault.lasts.0));
                }
            }
            FaultKind::DiskFull => {
                for node in self.affected_nodes(&fault) {
                    let host = self.nodes.host(node);
                    host.room_at = host.room_at.max(self.now + fault.lasts.0);
                }
            }
            FaultKind::LostDisk => self.lose_disks(&fault)?,
            FaultKind::LateJoin => self.join_late(DcId(fault.dc))?,
            FaultKind::Leave => self.leave(&fault),
            FaultKind::CoordinatorCrash => self.inject_coordinator_crash(&fault),
            _ => self.begin_counted(&fault)?,
        }

        Ok(())
    }

    /// Begins a fault that is counted when it begins. The network has those of links.
    fn begin_counted(&mut self, fault: &Fault) -> Done {
        self.counts.structural.count(fault.kind);
        match fault.kind {
            FaultKind::Reset => {
                let ends = [fault.dc, fault.peer.unwrap_or(fault.dc)].map(DcId);
                let of = |pair: &Pair| ends.contains(&pair.0) && ends.contains(&pair.1);
                for pair in self.ends.pairs().into_iter().filter(of) {
                    self.reset(pair);
                }
            }
            FaultKind::SilentLink => {
                let peer = DcId(fault.peer.unwrap_or(fault.dc));
                // A server that has not taken the messages of before the silence is notified of it first.
                let is_late = within(&mut self.chance, 0, 3) == 0;
                let after = if is_late { SILENCE / 20 } else { SILENCE };
                let servers: Vec<ServerId> = self.nodes.servers.keys().copied().collect();
                for server in servers.into_iter().filter(|server| server.dc == peer) {
                    self.suspect(server, DcId(fault.dc), after);
                }
            }
            FaultKind::Crash => {
                for node in self.affected_nodes(fault) {
                    self.nodes.host(node).blank |= fault.blank;
                    self.crash(node, Survives::ByChance, fault.lasts.0);
                }
            }
            FaultKind::ClockStep => {
                for node in self.affected_nodes(fault) {
                    let host = self.nodes.host(node);
                    host.clock_off += (fault.step_s * 1e9) as i64;
                    if let NodeId::Server(id) = node {
                        self.nodes.server_mut(id).timeout = None;
                        self.work(node)?;
                    }
                }
            }
            FaultKind::DivergedUpdate => {
                for node in self.affected_nodes(fault) {
                    if let NodeId::Worker(worker) = node {
                        self.diverging.begin(worker);
                    }
                }
            }
            _ => {}
        }

        Ok(())
    }

    /// Crashes a server with the loss of its disk, if its copy can be rebuilt.
    fn lose_disks(&mut self, fault: &Fault) -> Done {
        for node in self.affected_nodes(fault) {
            let NodeId::Server(id) = node else { continue };
            let can_lose = self.nodes.can_lose_disk(id, self.coordinator.run.inactive());
            let nearest = |there: &dyn Fn(DcId) -> bool| self.nodes.nearest_to(id, there);
            let source = self.coordinator.source_for(id, |_| true, &nearest);
            let is_lost = can_lose && source.is_ok();
            self.nodes.host(node).disk_lost |= is_lost;
            self.counts.structural.count(if is_lost { fault.kind } else { FaultKind::Crash });
            self.crash(node, Survives::ByChance, fault.lasts.0);
        }
        Ok(())
    }

    /// The nodes that a fault affects: the one that it names, or all of the data center.
    fn affected_nodes(&self, fault: &Fault) -> Vec<NodeId> {
        let dc = DcId(fault.dc);
        let named = match (fault.server, fault.worker) {
            (Some(shard), _) => Some(NodeId::Server(ServerId { dc, shard: ShardId(shard) })),
            (_, Some(index)) => Some(NodeId::Worker(WorkerId { dc, index })),
            _ => None,
        };
        match named {
            _ if self.is_gone(dc) => Vec::new(),
            Some(node) => vec![node],
            None => self.nodes_of(dc),
        }
    }

    /// Writes the entries of a node to its disk.
    pub(super) fn write(&mut self, node: NodeId) -> Done {
        if let NodeId::Server(id) = node {
            self.let_out_early(id)?;
        }
        let replaces = self.replaces(node);
        let entries = match (replaces, node) {
            (true, NodeId::Server(id)) => {
                self.nodes.begin_replacing(id);
                Vec::new()
            }
            _ => self.nodes.take_entries(node),
        };
        let entries = self.fault_injector.on_entries(entries);
        let believes = self.fault_injector.has(Bug::TakesFailedWriteForDone);
        let now = self.now;
        let host = self.nodes.host(node);

        let is_full = now < host.room_at;
        if is_full && !believes {
            self.counts.structural.full_disks += 1;
            let lasts = host.room_at.since(now);
            self.crash(node, Survives::ByChance, lasts);
            return Ok(());
        }

        let crash_at_write = host.crash_at_write.take();
        if !is_full && !matches!(crash_at_write, Some((Moment::Before, _))) {
            host.disk.append(&entries);
        }

        if let Some((moment, lasts)) = crash_at_write {
            self.counts.structural.crashes_at_writes += 1;
            let survives = match moment {
                Moment::Torn => Survives::Torn,
                Moment::Before | Moment::After => Survives::ByChance,
            };
            if moment == Moment::After {
                self.sync(node);
            }
            self.crash(node, survives, lasts);
            return Ok(());
        }

        host.writing = !replaces;
        let incarnation = host.incarnation;
        let micros = within(&mut self.chance, 10, self.sync_lasts.as_micros() as u64);
        let at = self.now + Duration::from_micros(micros);
        self.events.push(at, Event::Synced { node, incarnation });

        if self.fault_injector.has(Bug::SendsBeforeSync) {
            self.nodes.handle_synced(node);
            self.let_out(node)?;
        }

        Ok(())
    }

    /// A node's write is synced: the node releases its outputs and continues.
    pub(super) fn on_synced(&mut self, node: NodeId, incarnation: u64) -> Done {
        let host = self.nodes.host(node);
        if host.incarnation != incarnation {
            return Ok(());
        }
        host.writing = false;
        self.sync(node);
        self.nodes.handle_synced(node);
        self.let_out(node)?;
        self.work(node)
    }

    /// What a node has written is on its disk.
    fn sync(&mut self, node: NodeId) {
        let host = self.nodes.host(node);
        match (host.replacing.take(), node) {
            (Some(replacing), NodeId::Server(id)) => {
                self.counts.recovery.replaced += replacing.entries;
                self.nodes.replace(id, replacing);
            }
            _ => {
                host.disk.sync();
                if let NodeId::Server(id) = node {
                    let unsynced = &mut self.nodes.server_mut(id).unsynced;
                    unsynced.retain(|(number, _)| number.is_none());
                }
            }
        }
    }

    /// Whether a node writes a checkpoint in place of its entries: where it must, or nothing else is left to write, and sometimes
    /// where it may.
    fn replaces(&mut self, node: NodeId) -> bool {
        let NodeId::Server(id) = node else { return false };
        let machine = &self.nodes.servers[&id].machine;
        machine.needs_checkpoint()
            || machine.lacks_entries() && !machine.must_write()
            || self.nodes.is_deferred() && within(&mut self.chance, 0, 3) == 0
    }

    /// Crashes a node for a time. A node that is down stays down longer.
    pub(super) fn crash(&mut self, node: NodeId, survives: Survives, lasts: Duration) {
        let now = self.now;
        let host = self.nodes.host(node);
        host.restart_at = host.restart_at.max(now + lasts);
        let restart_at = host.restart_at;

        if host.up {
            host.up = false;
            host.incarnation += 1;
            (host.writing, host.write_due, host.replacing) = (false, false, None);
            host.crash_at_write = None;
            host.inbox.clear();
            host.disk.crash(survives);
            if let NodeId::Server(id) = node {
                self.acknowledging.retain(|(server, _)| *server != id);
                for pair in self.pairs_of(id) {
                    self.reset(pair);
                }
            }
        }

        self.events.push(restart_at, Event::Restart { node });
    }

    /// Restarts a crashed node with its disk.
    pub(super) fn restart(&mut self, node: NodeId) -> Done {
        let now = self.now;
        let is_gone = node.dc().is_some_and(|dc| self.is_gone(dc));
        let host = self.nodes.host(node);
        if host.up || is_gone || now < host.restart_at {
            return Ok(());
        }

        if !self.coordinator_process.is_up {
            // A node receives the addresses of the others from the coordinator.
            self.events.push(now + RETRY_AFTER, Event::Restart { node });
            return Ok(());
        }

        let is_lost = host.disk_lost;
        if let NodeId::Server(id) = node
            && is_lost
        {
            // It could not send again the frames that mirrors have received and not synced.
            let mut mirrors = self.coordinator.mirrors_of(id);
            let unsynced = mirrors.any(|mirror| !self.nodes.servers[&mirror].unsynced.is_empty());
            let process = self.nodes.process_without_disk(id);
            if unsynced || self.coordinator.must_wait_for(id, process).is_some() {
                self.events.push(now + RETRY_AFTER, Event::Restart { node });
                return Ok(());
            }
            self.nodes.empty_disk(node);
        }

        self.start(node)
    }

    /// Starts a node with its disk.
    pub(super) fn start(&mut self, node: NodeId) -> Done {
        self.boot(node)?;
        self.begin(node)
    }

    /// Starts the process of a node, which calls the coordinator.
    pub(super) fn boot(&mut self, node: NodeId) -> Done {
        let host = self.nodes.host(node);
        host.incarnation += 1;
        if let NodeId::Worker(worker) = node {
            let is_blank = host.blank;
            self.counts.recovery.blank += u64::from(is_blank);
            if is_blank || self.nodes.has_lost_entries(worker) {
                self.see(Seen::LostState { worker })?;
            }
        }

        let back = self.nodes.restart(node, &self.fault_injector);
        let back = back.map_err(|what| self.broken("durability", format!("{node}: {what}")))?;
        self.counts.recovery.restarts += 1;
        self.counts.recovery.torn += u64::from(back.torn);
        self.see(Seen::ReplayPair { node, replay_pair: &back.replay_pair })?;

        match node {
            NodeId::Server(id) => self.register(id),
            _ => Ok(()),
        }
    }

    /// Connects a started node with the others, and repeats the orders in force to it.
    pub(super) fn begin(&mut self, node: NodeId) -> Done {
        if let NodeId::Server(id) = node {
            self.forget_unsynced(id);
            if !self.rebuild(id)? {
                self.see(Seen::Recovered { server: id })?;
            }
            for pair in self.pairs_of(id) {
                self.reconnect(pair);
            }
        }

        self.repeat_orders(node)?;
        self.rejoin(node)?;
        self.work(node)
    }

    /// Registers the process of a server with the coordinator.
    pub(super) fn register(&mut self, id: ServerId) -> Done {
        let nodes = &self.nodes;
        let node = &nodes.servers[&id];
        let nearest = |there: &dyn Fn(DcId) -> bool| nodes.nearest_to(id, there);
        let is_up = |node| matches!(node, NodeId::Server(id) if nodes.servers[&id].host.up);

        let registered = self.coordinator.register_server(id, node.process, |coordinator| {
            if let Some(source) = node.source.filter(|_| node.machine.is_rebuilding()) {
                return Ok(source);
            }
            match coordinator.source_for(id, is_up, &nearest) {
                // That a source exists was checked when the disk was lost. Since then a drain may have begun.
                Err(NoSource::Draining) => {
                    let takes_part = |dc| !coordinator.run.inactive().contains(&dc);
                    nearest(&takes_part).ok_or(NoSource::NoMirror)
                }
                source => source,
            }
        });

        let has_changed = registered
            .map_err(|reason| self.broken("durability", format!("{id} has no source: {reason:?}")));
        if has_changed? {
            // Written before the server receives the order to take a copy. Outputs that wait are written together with
            // it.
            match self.coordinator.run.has_output() {
                true => self.unwritten = true,
                false => self.save_coordinator(),
            }
        }
        Ok(())
    }

    /// Lets a server without a state take the copy of a mirror. Returns whether it does.
    fn rebuild(&mut self, id: ServerId) -> Result<bool, Box<super::Violation>> {
        let node = &self.nodes.servers[&id];
        let is_ordered = !self.fault_injector.has(Bug::BeginsWithoutCopy);
        let source = self.coordinator.copy_of(id, node.process);
        let Some(source) = source.filter(|_| node.machine.is_new() && is_ordered) else {
            return Ok(false);
        };
        let inactive = self.coordinator.run.inactive().clone();
        self.see(Seen::Lost { server: id, source })?;
        let node = self.nodes.server_mut(id);
        let now = node.host.shows(self.now);
        (node.source, node.has_all) = (Some(source), false);
        let begun = node.machine.handle_rebuild(now, source, &inactive);
        begun.map_err(|error| self.broken("peer", format!("{id}: {error}")))?;
        Ok(true)
    }

    /// Undoes the events of a server that were not on disk.
    fn forget_unsynced(&mut self, id: ServerId) {
        let node = self.nodes.server_mut(id);
        let survived = node.host.disk.next_number();
        let unsynced = std::mem::take(&mut node.unsynced);
        for (number, undone) in unsynced.into_iter().rev() {
            if number.is_none_or(|number| number > survived) {
                self.undo(&undone);
            }
        }
    }

    /// Connects a restarted node with the nodes of its data center.
    fn rejoin(&mut self, node: NodeId) -> Done {
        match node {
            NodeId::Server(id) => {
                let workers: Vec<WorkerId> = self.nodes.workers.keys().copied().collect();
                for worker in workers.into_iter().filter(|worker| worker.dc == id.dc) {
                    if self.nodes.workers[&worker].host.up {
                        self.hand(node, Task::Join { worker })?;
                    }
                }
            }
            NodeId::Worker(worker) => {
                let servers: Vec<ServerId> = self.nodes.servers.keys().copied().collect();
                for server in servers.into_iter().filter(|server| server.dc == worker.dc) {
                    self.hand(NodeId::Server(server), Task::Join { worker })?;
                }
            }
            NodeId::Coordinator => {}
        }
        Ok(())
    }

    pub(super) fn schedule_checkpoint(&mut self, node: NodeId) {
        let millis = within(&mut self.chance, 20, CHECKPOINTS_APART_MS_MAX);
        self.events.push(self.now + Duration::from_millis(millis), Event::Checkpoint { node });
    }

    pub(super) fn write_checkpoint(&mut self, node: NodeId) -> Done {
        if self.now < self.nodes.host(node).room_at || self.faults_ended {
            return Ok(());
        }
        let rotates = within(&mut self.chance, 0, 2) > 0;
        match self.nodes.write_checkpoint(node, rotates) {
            Some(replay_pair) => {
                self.counts.recovery.checkpoints += 1;
                self.see(Seen::ReplayPair { node, replay_pair: &replay_pair })
            }
            None => Ok(()),
        }
    }

    /// Compares all nodes with their shadows.
    pub(super) fn compare_all(&mut self) -> Done {
        if !self.logs {
            return Ok(());
        }
        let there = self.nodes.ids().into_iter().filter(|node| self.coordinator.takes_part(*node));
        for node in there.collect::<Vec<_>>() {
            let replay_pair: Option<ReplayPair> = self.nodes.write_checkpoint(node, false);
            if let Some(replay_pair) = replay_pair {
                self.see(Seen::ReplayPair { node, replay_pair: &replay_pair })?;
            }
        }
        Ok(())
    }

    /// Ends the safety phase: all faults end, and data centers that crashed permanently are given up.
    pub(super) fn end_faults(&mut self) -> Done {
        if self.faults_ended {
            return Ok(());
        }
        for fault in &self.scenario.faults {
            let begun = Instant::ZERO + fault.at.0 <= self.now;
            let over = Instant::ZERO + fault.at.0 + fault.lasts.0 <= self.now;
            if begun && !over {
                self.network.set(self.now, fault, false);
            }
        }

        for node in self.nodes.ids() {
            let host = self.nodes.host(node);
            (host.room_at, host.crash_at_write) = (Instant::ZERO, None);
        }

        self.coordinator_process.cancel_crash();
        self.network.end_packet_faults();
        self.faults_ended = true;
        for dc in self.leaving.clone() {
            self.give_up(dc)?;
        }
        Ok(())
    }
}

/// The interval at which a restart is tried again while mirrors have unsynced records or the coordinator is down.
const RETRY_AFTER: Duration = Duration::from_millis(1);

const CHECKPOINTS_APART_MS_MAX: u64 = 1_500;
