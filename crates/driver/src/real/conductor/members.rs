//! Which data centers take part: they may join after the run has begun, and leave for good.
//!
//! A data center that joins has no state. Once all its nodes are connected, its servers take the copies of mirrors,
//! and its workers begin at the clocks of those. A data center that is given up loses all updates that it has not
//! sent. If its nodes come back without state, they join like others. A decision is written to the coordinator's
//! state file before any node receives it.

use tracing::{info, warn};

use super::{Conductor, nodes};
use crate::real::conductor::receiving::{Message, Received};
use crate::real::connections::message::{Order, Report};
use crate::real::error::RealError;
use gaia_core::coordinator::{Admission, MustStay, NotAdmitted};
use gaia_core::types::{DcId, NodeId, ServerId};
use gaia_telemetry::MembershipChange;

impl Conductor<'_> {
    /// The nodes that take part.
    pub(super) fn present(&self) -> impl Iterator<Item = NodeId> + '_ {
        nodes(&self.context.run_context).filter(|node| self.coordinator.takes_part(*node))
    }

    /// Shows in the metrics which nodes take no part.
    pub(super) fn show_absent(&self) {
        let run_context = &self.context.run_context;
        for node in nodes(run_context).filter(|node| !self.coordinator.takes_part(*node)) {
            self.context.meter.on_absent(&run_context.label(node));
        }
    }

    /// Handles a node that has connected and whose data center takes no part.
    pub(super) async fn on_newcomer(&mut self, node: NodeId) -> Result<(), RealError> {
        let process = self.membership.incarnation_of(node);
        let reason = match self.coordinator.may_join(node, process) {
            Ok(()) => return self.admit_all().await,
            Err(NotAdmitted::HasState) => {
                "its data center was removed from the run, so its saved state is out of date; to join again, \
                 start its nodes with empty state directories"
            }
            Err(NotAdmitted::CountsAgain) => {
                "its data center was removed from the run, and its earlier counts would be added twice"
            }
        };
        self.dismiss(node, reason).await;
        Ok(())
    }

    /// Admits data centers whose nodes are all connected, one at a time.
    pub(super) async fn admit_all(&mut self) -> Result<(), RealError> {
        let is_there = |dc| self.nodes_of(dc).iter().all(|node| self.membership.has(*node));
        match self.coordinator.admission(is_there) {
            Admission::NotYet => Ok(()),
            Admission::Closed => {
                self.dismiss_inactive("the run is about to end").await;
                Ok(())
            }
            Admission::Join(dc) => self.admit(dc).await,
        }
    }

    async fn admit(&mut self, dc: DcId) -> Result<(), RealError> {
        let nodes = self.nodes_of(dc);
        self.coordinator.join(dc);
        for node in &nodes {
            let NodeId::Server(server) = node else { continue };
            self.register(*server)?;
        }
        self.monitor.recorder.on_membership(self.now(), dc, MembershipChange::Joined);
        self.write_down()?;
        info!("{} joins the run", self.context.run_context.plan.topology.dc(dc).name);
        self.welcome(nodes).await
    }

    /// Handles a report that a server has refused the messages of its mirror in this data center for the longest
    /// absence of a node. The mirror is connected, but it counts as lost.
    pub(super) async fn on_refuses(
        &mut self,
        at: ServerId,
        peer: DcId,
        reason: &str,
    ) -> Result<(), RealError> {
        let Some(refused) = self.coordinator.refused(at, peer) else { return Ok(()) };
        let after = self.context.run_context.plan.failures.give_up_after.0.as_secs();
        let at = self.context.run_context.name(NodeId::Server(at));
        self.give_up(refused, format!("{at} has refused its messages for {after} s: {reason}"))
            .await
    }

    /// Gives up waiting for a node: its data center leaves the run.
    pub(super) async fn give_up(&mut self, node: NodeId, reason: String) -> Result<(), RealError> {
        let name = self.context.run_context.name(node);
        let gone = match self.coordinator.leaving_with(node, |_| true) {
            Ok(gone) => gone,
            Err(MustStay::NotAllowed | MustStay::Draining) => {
                return Err(RealError::Lost { node: name, reason });
            }
            Err(MustStay::IsLast) => {
                let reason = format!("{reason}; no other data center is left");
                return Err(RealError::Lost { node: name, reason });
            }
        };

        self.coordinator.leave(&gone);
        gone.iter().for_each(|dc| self.strike_off(*dc));
        self.write_down()?;
        let reason =
            format!("its data center was removed from the run because {name} is lost: {reason}");

        for dc in gone {
            self.send_left(dc, &reason).await;
        }

        // Before the run begins or resumes, no node has their addresses.
        if self.begun {
            self.send_addresses().await;
        }
        self.coordinator.run.advance();
        self.settle().await?;
        self.begin_evaluation().await;

        Ok(())
    }

    /// Removes a data center that has left from the state of the run.
    fn strike_off(&mut self, dc: DcId) {
        self.ready.retain(|node| node.dc() != Some(dc));
        self.collected.evaluations.handle_left(dc);
        self.collected.copies.handle_left(dc);
        self.monitor.recorder.on_membership(self.now(), dc, MembershipChange::Left);
    }

    /// Notifies the nodes of a data center, and its mirrors if the run has begun, that it has left.
    async fn send_left(&mut self, dc: DcId, reason: &str) {
        warn!(
            "{} has left the run permanently: {reason}",
            self.context.run_context.plan.topology.dc(dc).name
        );
        for node in self.nodes_of(dc) {
            self.dismiss(node, reason).await;
        }

        if !self.begun {
            return;
        }
        for (mirror, order) in self.coordinator.orders_of_leaving(dc) {
            self.membership.send(NodeId::Server(mirror), &order.into()).await;
        }
    }

    /// Handles a message of a node that takes no part.
    pub(super) fn on_received_from_inactive(&mut self, received: Received) {
        let Received { node, message, .. } = received;
        let name = self.context.run_context.name(node);
        match message {
            Ok(Message::Report(Report::Failed { reason })) => {
                if let Some(left_out) = self.membership.pass_line(node) {
                    warn!("{name}, which takes no part in the run, has failed: {reason}{left_out}");
                }
            }
            Ok(_) => {}
            Err(reason) => {
                if let Some(left_out) = self.membership.pass_line(node) {
                    info!(
                        "{name}, which takes no part in the run, is disconnected: {reason}{left_out}"
                    );
                }
                self.forget(node);
            }
        }
    }

    /// Dismisses the connected nodes that take no part.
    pub(super) async fn dismiss_inactive(&mut self, reason: &str) {
        let inactive =
            nodes(&self.context.run_context).filter(|node| !self.coordinator.takes_part(*node));
        for node in inactive.filter(|node| self.membership.has(*node)).collect::<Vec<_>>() {
            self.dismiss(node, reason).await;
        }
    }

    async fn dismiss(&mut self, node: NodeId, reason: &str) {
        self.membership.send(node, &Order::Dismiss { reason: reason.into() }).await;
        self.forget(node);
    }

    fn forget(&mut self, node: NodeId) {
        self.membership.close(node);
        self.coordinator.handle_dismissed(node);
        self.context.meter.on_absent(&self.context.run_context.label(node));
    }

    fn nodes_of(&self, dc: DcId) -> Vec<NodeId> {
        nodes(&self.context.run_context).filter(|node| node.dc() == Some(dc)).collect()
    }
}
