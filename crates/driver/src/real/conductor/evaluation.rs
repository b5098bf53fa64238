//! Copies that are asked for, judged, and told of.

use tracing::info;

use super::Conductor;
use crate::judge::Verdict;
use crate::real::error::RealError;
use crate::real::message::Order;
use crate::real::pending_evaluation::PendingEvaluation;
use crate::run_loop::Evaluation;
use gaia_core::types::{DcId, NodeId, ServerId};

impl Conductor<'_> {
    pub(super) fn on_copy(&mut self, server: ServerId, ticket: u64, values: Vec<f32>) {
        if let Some(pending_evaluation) = self
            .pending_evaluation
            .as_mut()
            .filter(|pending_evaluation| pending_evaluation.ticket == ticket)
        {
            pending_evaluation.take(server, values, &self.layouts, self.application);
        }
    }

    /// Asks servers for their copies, where an evaluation is due and none at work.
    pub(super) async fn take_copies(&mut self) {
        if self.pending_evaluation.is_some() {
            return;
        }
        let Some(clock) = self.due.take() else { return };
        self.tickets += 1;
        let ticket = self.tickets;
        let link_counters = self.meters.link_counters(&self.context.run_context.plan.topology);

        // In the end all copies are equal, and counted or not whole.
        let is_judged = |dc: &DcId| self.coordinator.run.is_judged(*dc) || self.finished;
        let present = self.context.run_context.plan.topology.dc_ids();
        let present = present.filter(|dc| !self.coordinator.run.inactive().contains(dc));
        let of: Vec<DcId> = present.filter(is_judged).collect();
        let clock_of = |dc: &DcId| (*dc, self.coordinator.run.clock_of(*dc));
        let clocks = of.iter().map(clock_of).collect();
        let evaluation = Evaluation { at: self.now(), clock, clocks, link_counters };
        let judges =
            |node: &NodeId| matches!(node, NodeId::Server(server) if of.contains(&server.dc));
        self.membership.tell_all(judges, &Order::Copy { ticket }).await;

        self.pending_evaluation = Some(PendingEvaluation::new(ticket, evaluation));
    }

    pub(super) fn on_verdict(&mut self, verdict: Verdict) -> Result<(), RealError> {
        let pending_evaluation =
            self.pending_evaluation.take().expect("a verdict follows an evaluation");
        let evaluation = pending_evaluation.evaluation;
        let objective = verdict.worst().objective;
        info!(clock = evaluation.clock.0, objective, "copies were evaluated");
        let (now, coordinator) = (self.now(), &mut self.coordinator.run);
        evaluation.conclude(now, &verdict, coordinator, &mut self.recorder, self.observer);
        // What that decides is carried out, and written down, by who settles.
        if self.coordinator.run.has_output() { Ok(()) } else { self.write_down() }
    }
}
