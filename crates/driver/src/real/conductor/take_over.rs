//! Stand-ins: another worker of the data center does the work of a lost worker until that returns.

use tracing::{info, warn};

use super::Conductor;
use crate::real::connections::message::Order;
use gaia_core::coordinator::TakeOver;
use gaia_core::types::{NodeId, WorkerId};

impl Conductor<'_> {
    /// Appoints stand-ins for workers that have been lost for long enough, if the run file enables that.
    pub(super) async fn take_over(&mut self) {
        let (now, here) = (self.membership.now(), self.membership.workers());
        let mut changed = false;
        for taken in self.coordinator.take_over(now, &here) {
            match taken {
                TakeOver::By { lost, own, before } => {
                    warn!("{} takes over the work of {}", self.name_of(own), self.name_of(lost));
                    if let Some(before) = before {
                        self.show_given_back(lost, before);
                    }
                    self.show_taken_over(lost, own);
                    changed = true;
                }
                TakeOver::ByNobody { lost } => {
                    let dc = &self.context.run_context.plan.topology.dc(lost.dc).name;
                    let lost = self.name_of(lost);
                    warn!(
                        "the run waits for {lost}: no worker of {dc} is connected that could take over its work"
                    );
                }
            }
        }

        if changed {
            self.say_who_stands_in().await;
        }
    }

    /// Returns its work to a worker that has connected, if others stood in for it.
    pub(super) async fn give_back(&mut self, node: NodeId) {
        let NodeId::Worker(back) = node else { return };
        // After this order the process of that worker has no state but what servers send it.
        if self.coordinator.must_reset(back) {
            self.membership.send(node, &Order::Reset).await;
        }

        if !self.membership.has_itself(node) {
            return;
        }
        if let Some(own) = self.coordinator.give_back(back) {
            info!(
                "{} has reconnected and takes its work back from {}",
                self.name_of(back),
                self.name_of(own)
            );
            self.show_given_back(back, own);
            self.say_who_stands_in().await;
        }
    }

    pub(super) fn show_taken_over(&mut self, lost: WorkerId, own: WorkerId) {
        let [lost, own] = [lost, own].map(|id| self.context.run_context.label(NodeId::Worker(id)));
        self.monitor.observer.on_taken_over(&lost, &own);
    }

    fn show_given_back(&mut self, back: WorkerId, own: WorkerId) {
        let [back, own] = [back, own].map(|id| self.context.run_context.label(NodeId::Worker(id)));
        self.monitor.observer.on_given_back(&back, &own);
    }

    /// Sends the stand-ins to all nodes. Servers are first, so that few workers connect to a server that does not
    /// expect them.
    async fn say_who_stands_in(&mut self) {
        self.unwritten = true;
        if self.begun {
            self.send_addresses().await;
        }
    }

    fn name_of(&self, worker: WorkerId) -> String {
        self.context.run_context.name(NodeId::Worker(worker))
    }
}
