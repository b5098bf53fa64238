//! The coordinator: what it orders, what it writes down before, and how it comes back.

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
    pub(super) is_open: bool,
    opens_at: Instant,
    /// When in its next write it dies, and how long it is gone then.
    doomed: Option<(Moment, Duration)>,
    /// What is on its disk: it is replaced whole, so that no write is torn.
    kept: Option<State>,
}

/// A coordinator that gives data centers up when a fault says so, and lets them join again.
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
            tell(&mut self.coordinator.run);
        }
    }

    /// Has the coordinator's orders carried out: what it says it has written down.
    pub(super) fn settle_coordinator(&mut self) -> Done {
        while self.coordinator_process.is_open
            && (self.coordinator.run.has_output() || self.unwritten)
        {
            self.unwritten = false;
            execute_outputs(self)?;

            let mut orders = std::mem::take(&mut self.orders);
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

        self.coordinator = cluster_coordinator(self.blueprint);
        self.unwritten = false;
        if let Some(state) = self.coordinator_process.kept.clone() {
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
                    NodeId::Server(id) => self.nodes.server_mut(id).has_stated = false,
                    NodeId::Worker(id) => self.nodes.worker_mut(id).reported_stop = None,
                    NodeId::Coordinator => {}
                }
            }
            self.work(node)?;
        }

        Ok(())
    }

    /// Says again to a node what holds.
    pub(super) fn repeat_orders(&mut self, node: NodeId) -> Done {
        for order in self.coordinator.orders_for(node) {
            self.hand(node, order.into())?;
        }
        Ok(())
    }

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
        self.coordinator_process.kept = Some(state);
        self.unwritten = false;
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
        self.become_calm()
    }
}
