//! Copies that are asked for, judged, and told of.

use tracing::info;

use super::Conductor;
use crate::judge::Verdict;
use crate::real::error::RealError;
use crate::real::message::Order;
use crate::real::pending_evaluation::PendingEvaluation;
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
    pub(super) async fn evaluate(&mut self) {
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
        let clocks = of.iter().map(|dc| self.coordinator.run.clock_of(*dc)).collect();
        let judges =
            |node: &NodeId| matches!(node, NodeId::Server(server) if of.contains(&server.dc));
        self.membership.tell_all(judges, &Order::Copy { ticket }).await;

        self.pending_evaluation =
            Some(PendingEvaluation::new(ticket, self.now(), clock, clocks, link_counters, of));
    }

    pub(super) fn on_verdict(&mut self, verdict: Verdict) -> Result<(), RealError> {
        let pending_evaluation =
            self.pending_evaluation.take().expect("a verdict follows an evaluation");
        let PendingEvaluation { at, clock, clocks, link_counters, of, .. } = pending_evaluation;
        let clocks = of.into_iter().zip(clocks);
        let progress = self.recorder.on_evaluation(at, clock, &verdict, clocks, &link_counters);
        info!(clock = progress.clock, objective = progress.objective, "copies were evaluated");
        self.observer.on_progress(progress);
        let objective = verdict.worst().objective;
        self.coordinator.run.handle_evaluation(self.now(), clock, objective);
        // What that decides is carried out, and written down, by who settles.
        if self.coordinator.run.has_output() { Ok(()) } else { self.write_down() }
    }
}
