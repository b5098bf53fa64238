//! The coordinator: its orders, the file that it writes before it gives them, and its restarts.

use std::time::Duration;

use super::{Done, Event, Schedule, Violation};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::scenario::fault::{Fault, Moment};
use gaia_core::coordinator::{
    ClusterCoordinator, Coordinator, FailureRules, NodeOrder, Recipients, StopReason,
};
use gaia_core::types::{Clock, Instant, NodeId, Persist, State};
use gaia_driver::cluster::Blueprint;
use gaia_driver::run_loop::{RunDriver, execute_outputs};

/// The process of the coordinator, and its disk.
pub(super) struct CoordinatorProcess {
    pub(super) is_up: bool,
    restart_at: Instant,
    /// The step of its next write at which it crashes, and the duration of the crash.
    crash_at_write: Option<(Moment, Duration)>,
    /// The state on its disk. The file is replaced as a whole, so no write is torn.
    saved: Option<State>,
}

/// A coordinator that gives up data centers only because of drawn faults, and lets them join again.
pub(super) fn cluster_coordinator(blueprint: &Blueprint<'_>) -> ClusterCoordinator {
    let rules = FailureRules {
        give_up_after: Duration::MAX,
        may_leave: true,
        take_over_after: None,
        deltas_are_counts: false,
    };
    ClusterCoordinator::new(blueprint.coordinator(), rules)
}

impl CoordinatorProcess {
    pub(super) fn new() -> Self {
        Self { is_up: true, restart_at: Instant::ZERO, crash_at_write: None, saved: None }
    }

    /// Cancels a scheduled crash that has not occurred.
    pub(super) fn cancel_crash(&mut self) {
        self.crash_at_write = None;
    }
}

impl Schedule<'_> {
    /// Notifies the coordinator of an event, if it runs.
    pub(super) fn inform(&mut self, notify: impl FnOnce(&mut Coordinator)) {
        if self.coordinator_process.is_up {
            notify(&mut self.coordinator.run);
        }
    }

    /// Executes the outputs of the coordinator. Orders are given after they are written to its disk.
    pub(super) fn settle_coordinator(&mut self) -> Done {
        while self.coordinator_process.is_up
            && (self.coordinator.run.has_output() || self.unwritten)
        {
            self.unwritten = false;
            execute_outputs(self)?;

            let mut orders = std::mem::take(&mut self.orders);
            if self.fault_injector.has(Bug::OrdersBeforeWriting) {
                self.give(std::mem::take(&mut orders))?;
            }
            if !self.finished && !self.write_state() {
                return Ok(());
            }
            self.give(orders)?;
        }
        Ok(())
    }

    /// Crashes the coordinator, at once or at its next write.
    pub(super) fn inject_coordinator_crash(&mut self, fault: &Fault) {
        match fault.write {
            Some(moment) => self.coordinator_process.crash_at_write = Some((moment, fault.lasts.0)),
            None => self.crash_coordinator(fault.lasts.0),
        }
    }

    /// Restarts the coordinator, unless it runs or a later crash has postponed the restart. Nodes report their state to
    /// it, and it repeats its orders to them.
    pub(super) fn restart_coordinator(&mut self) -> Done {
        if self.coordinator_process.is_up || self.now < self.coordinator_process.restart_at {
            return Ok(());
        }
        self.coordinator_process.is_up = true;

        self.coordinator = cluster_coordinator(self.blueprint);
        self.unwritten = false;
        if let Some(state) = self.coordinator_process.saved.clone() {
            let restored = state.restore(|walk| self.coordinator.restore(walk, ()));
            restored.map_err(|error| self.broken("durability", format!("coordinator: {error}")))?;
        }

        self.counts.recovery.restarts += 1;
        let orders = self.coordinator.orders();
        let (stop, drains) = (orders.stop, orders.drain.clone());
        let drains = drains.into_iter().map(|(dc, (clocks, _))| (dc, clocks)).collect();
        self.see(Seen::CoordinatorBack { stop, drains: &drains })?;

        if !self.coordinator.orders().started {
            self.coordinator.run.handle_start();
        }
        for node in self.nodes.ids() {
            if !self.nodes.host(node).up {
                continue;
            }
            if let NodeId::Server(id) = node {
                self.register(id)?;
            }
            if !self.fault_injector.has(Bug::RepeatsNoOrder) {
                self.repeat_orders(node)?;
            }
            if !self.fault_injector.has(Bug::SaysNothingAgain) {
                match node {
                    NodeId::Server(id) => self.nodes.server_mut(id).has_reported = false,
                    NodeId::Worker(id) => self.nodes.worker_mut(id).reported_stop = None,
                    NodeId::Coordinator => {}
                }
            }
            self.work(node)?;
        }

        Ok(())
    }

    /// Repeats the orders in force to a node.
    pub(super) fn repeat_orders(&mut self, node: NodeId) -> Done {
        for order in self.coordinator.orders_for(node) {
            self.hand(node, order.into())?;
        }
        Ok(())
    }

    /// Passes orders to their nodes.
    fn give(&mut self, orders: Vec<(Recipients, NodeOrder)>) -> Done {
        for (to, order) in orders {
            match (to, &order) {
                (_, NodeOrder::Stop { last }) => self.see(Seen::Stops { last: *last })?,
                (Recipients::ServersOf(dc), NodeOrder::Drain { clocks, .. }) => {
                    self.see(Seen::Drains { dc, clocks })?;
                }
                (_, _) => {}
            }
            let nodes = self.nodes.ids().into_iter();
            let nodes: Vec<NodeId> =
                nodes.filter(|node| self.coordinator.is_for(to, *node)).collect();
            for node in nodes {
                self.hand(node, order.clone().into())?;
            }
        }
        Ok(())
    }

    /// Writes the coordinator's state to its disk, with a scheduled crash. Returns whether the coordinator still runs.
    fn write_state(&mut self) -> bool {
        let crash_at_write = self.coordinator_process.crash_at_write.take();
        if !matches!(crash_at_write, Some((Moment::Before | Moment::Torn, _))) {
            self.save_coordinator();
        }
        match crash_at_write {
            Some((_, lasts)) => {
                self.crash_coordinator(lasts);
                false
            }
            None => true,
        }
    }

    /// Writes the coordinator's state to its disk. Called directly after a change of membership, so that the change is
    /// durable at once.
    pub(super) fn save_coordinator(&mut self) {
        let state = State::of(|walk| self.coordinator.save(walk, ()));
        self.coordinator_process.saved = Some(state);
        self.unwritten = false;
    }

    /// Crashes the coordinator for a time. A coordinator that is down stays down longer.
    fn crash_coordinator(&mut self, lasts: Duration) {
        self.counts.structural.coordinator_crashes += 1;
        self.coordinator_process.is_up = false;
        self.coordinator_process.crash_at_write = None;
        self.coordinator_process.restart_at =
            self.coordinator_process.restart_at.max(self.now + lasts);
        self.events.push(self.coordinator_process.restart_at, Event::RestartCoordinator);
    }
}

impl RunDriver for Schedule<'_> {
    type Error = Box<Violation>;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator.run
    }

    fn order(&mut self, to: Recipients, mut order: NodeOrder) -> Done {
        if let NodeOrder::Drain { inactive, .. } = &mut order
            && self.fault_injector.has(Bug::DrainsWithTheAbsent)
        {
            inactive.clear();
        }
        self.coordinator.record(to, &order);
        self.orders.push((to, order));
        Ok(())
    }

    fn evaluate(&mut self, clock: Clock) {
        self.coordinator.run.handle_evaluation(self.now, clock, 0.0);
    }

    fn on_stop(&mut self, _reason: StopReason) {}

    fn finish(&mut self) -> Done {
        self.finished = true;
        self.end_faults()
    }
}
