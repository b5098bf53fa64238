//! The coordinator: what it orders, what it writes down before, and how it comes back.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Done, Event, Schedule, Told};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::fault::{Fault, Moment};
use crate::nodes::Task;
use gaia_core::coordinator::{Coordinator, CoordinatorOutput};
use gaia_core::types::{Clock, DcId, Instant, NodeId, Persist, ServerId, State};

/// The process of the coordinator, and its disk.
pub(super) struct CoordinatorProcess {
    pub(super) is_open: bool,
    opens_at: Instant,
    /// When in its next write it dies, and how long it is gone then.
    doomed: Option<(Moment, Duration)>,
    /// What is on its disk: it is replaced whole, so that no write is torn.
    kept: Option<(State, Told)>,
}

/// Something that holds from when it is said.
enum Order {
    Start,
    Stop { last: Clock },
    Drain { dc: DcId, clocks: Vec<Clock>, inactive: BTreeSet<DcId> },
}

impl CoordinatorProcess {
    pub(super) fn open() -> Self {
        Self { is_open: true, opens_at: Instant::ZERO, doomed: None, kept: None }
    }

    pub(super) fn spare(&mut self) {
        self.doomed = None;
    }
}

impl Schedule<'_> {
    /// Tells the coordinator of something, if it is there.
    pub(super) fn inform(&mut self, tell: impl FnOnce(&mut Coordinator)) {
        if self.coordinator_process.is_open {
            tell(&mut self.coordinator);
        }
    }

    /// Has the coordinator's orders carried out: what it says it has written down.
    pub(super) fn settle_coordinator(&mut self) -> Done {
        while self.coordinator_process.is_open && self.coordinator.has_output() {
            let mut orders = Vec::new();
            while let Some(output) = self.coordinator.poll_output() {
                match output {
                    CoordinatorOutput::Start => {
                        self.told.started = true;
                        orders.push(Order::Start);
                    }
                    CoordinatorOutput::Evaluate { clock } => {
                        self.coordinator.handle_evaluation(self.now, clock, 0.0);
                    }
                    CoordinatorOutput::Stop { last, .. } => {
                        self.told.stop = Some(last);
                        orders.push(Order::Stop { last });
                    }
                    CoordinatorOutput::Drain { dc, clocks, mut inactive } => {
                        if self.fault_injector.has(Bug::DrainsWithTheAbsent) {
                            inactive.clear();
                        }
                        self.told.drains.insert(dc, (clocks.clone(), inactive.clone()));
                        orders.push(Order::Drain { dc, clocks, inactive });
                    }
                    CoordinatorOutput::Finished => {
                        self.finished = true;
                        self.become_calm()?;
                    }
                }
            }
            if self.fault_injector.has(Bug::OrdersBeforeWriting) {
                self.give(std::mem::take(&mut orders))?;
            }
            if !self.finished && !self.write_down() {
                return Ok(());
            }
            self.give(orders)?;
        }
        Ok(())
    }

    /// Has the coordinator die, now or at its next write.
    pub(super) fn strike_coordinator(&mut self, fault: &Fault) {
        match fault.write {
            Some(moment) => self.coordinator_process.doomed = Some((moment, fault.lasts.0)),
            None => self.close_office(fault.lasts.0),
        }
    }

    /// Starts the coordinator again, unless it is there or dies once more before. It hears what stands from all nodes, and
    /// says what stands to them.
    pub(super) fn open_office(&mut self) -> Done {
        if self.coordinator_process.is_open || self.now < self.coordinator_process.opens_at {
            return Ok(());
        }
        self.coordinator_process.is_open = true;
        self.coordinator = self.blueprint.coordinator();
        self.told = Told::default();

        if let Some((state, told)) = self.coordinator_process.kept.clone() {
            let restored = state.restore(|walk| self.coordinator.restore(walk, ()));
            restored.map_err(|error| self.broken("durability", format!("coordinator: {error}")))?;
            self.told = told;
        }

        self.counts.recovery.restarts += 1;
        let Told { stop, drains, .. } = self.told.clone();
        let drains = drains.into_iter().map(|(dc, (clocks, _))| (dc, clocks)).collect();
        self.see(Seen::CoordinatorBack { stop, drains: &drains })?;

        if !self.told.started {
            self.coordinator.handle_start();
        }
        for node in self.nodes.ids() {
            if !self.nodes.host(node).up {
                continue;
            }
            if !self.fault_injector.has(Bug::RepeatsNoOrder) {
                self.repeat_orders(node)?;
            }
            if !self.fault_injector.has(Bug::SaysNothingAgain) {
                match node {
                    NodeId::Server(id) => self.nodes.server_mut(id).has_stated = false,
                    NodeId::Worker(id) => self.nodes.worker_mut(id).told = None,
                    NodeId::Coordinator => {}
                }
            }
            self.work(node)?;
        }

        Ok(())
    }

    /// Says again to a node what holds.
    pub(super) fn repeat_orders(&mut self, node: NodeId) -> Done {
        match node {
            NodeId::Worker(worker) => {
                let stopped = self.coordinator.stopped_at(worker);
                if self.told.started {
                    self.hand(node, Task::Start { stopped })?;
                }
                if let Some(last) = self.told.stop {
                    let last = last.max(stopped.unwrap_or_default());
                    self.hand(node, Task::Stop { last })?;
                }
            }
            NodeId::Server(server) => {
                for (left, incarnation) in self.told.left.clone() {
                    if left.shard == server.shard {
                        self.hand(node, Task::Left { dc: left.dc, incarnation })?;
                    }
                }
                if let Some((clocks, inactive)) = self.told.drains.get(&server.dc).cloned() {
                    self.hand(node, Task::Drain { clocks, inactive })?;
                }
            }
            NodeId::Coordinator => {}
        }
        Ok(())
    }

    fn give(&mut self, orders: Vec<Order>) -> Done {
        for order in orders {
            match order {
                Order::Start => {
                    for worker in self.all_workers() {
                        self.hand(worker, Task::Start { stopped: None })?;
                    }
                }
                Order::Stop { last } => {
                    self.see(Seen::Stops { last })?;
                    for worker in self.all_workers() {
                        self.hand(worker, Task::Stop { last })?;
                    }
                }
                Order::Drain { dc, clocks, inactive } => {
                    self.see(Seen::Drains { dc, clocks: &clocks })?;
                    let servers: Vec<ServerId> = self.nodes.servers.keys().copied().collect();
                    for server in servers.into_iter().filter(|server| server.dc == dc) {
                        let (clocks, inactive) = (clocks.clone(), inactive.clone());
                        self.hand(NodeId::Server(server), Task::Drain { clocks, inactive })?;
                    }
                }
            }
        }
        Ok(())
    }

    fn all_workers(&self) -> Vec<NodeId> {
        self.nodes.workers.keys().copied().map(NodeId::Worker).collect()
    }

    /// Writes down what the coordinator needs to go on; says whether it has lived through that.
    fn write_down(&mut self) -> bool {
        let doomed = self.coordinator_process.doomed.take();
        if !matches!(doomed, Some((Moment::Before | Moment::Torn, _))) {
            self.keep();
        }
        match doomed {
            Some((_, lasts)) => {
                self.close_office(lasts);
                false
            }
            None => true,
        }
    }

    /// Puts on disk what the coordinator needs to go on. Who takes part it has so decided as soon as it has.
    pub(super) fn keep(&mut self) {
        let state = State::of(|walk| self.coordinator.save(walk, ()));
        self.coordinator_process.kept = Some((state, self.told.clone()));
    }

    /// The coordinator dies, for a while; one that is gone already stays away longer.
    fn close_office(&mut self, lasts: Duration) {
        self.counts.structural.coordinator_crashes += 1;
        self.coordinator_process.is_open = false;
        self.coordinator_process.doomed = None;
        self.coordinator_process.opens_at = self.coordinator_process.opens_at.max(self.now + lasts);
        self.events.push(self.coordinator_process.opens_at, Event::OpenOffice);
    }
}
