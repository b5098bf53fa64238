//! Requests for copies, and verdicts.

use tracing::info;

use super::Conductor;
use crate::real::connections::message::Order;
use crate::real::error::RealError;
use crate::run_loop::{Evaluated, Evaluation};
use gaia_core::types::{DcId, NodeId};

impl Conductor<'_> {
    /// Requests copies from servers, if an evaluation is due and none is in progress.
    pub(super) async fn take_copies(&mut self) {
        let Some(clock) = self.evaluations.poll_due() else { return };
        self.tickets += 1;
        let ticket = self.tickets;
        let link_counters = self.meters.link_counters(&self.context.run_context.plan.topology);
        let evaluation = Evaluation::new(self.now(), clock, &self.coordinator.run, link_counters);

        let of: Vec<DcId> = evaluation.clocks.iter().map(|(dc, _)| *dc).collect();
        self.evaluations.begin(ticket, evaluation);
        let is_evaluated =
            |node: &NodeId| matches!(node, NodeId::Server(server) if of.contains(&server.dc));
        self.membership.send_all(is_evaluated, &Order::Copy { ticket }).await;
    }

    pub(super) fn on_evaluated(
        &mut self,
        evaluated: Result<Evaluated, String>,
    ) -> Result<(), RealError> {
        let Evaluated { evaluation, results, .. } = evaluated.map_err(panicked)?;
        let objective = results.worst().objective;
        info!(clock = evaluation.clock.0, objective, "copies were evaluated");
        let now = self.now();
        self.monitor.handle_results(now, &mut self.coordinator.run, evaluation, &results);

        // If the coordinator has outputs, the caller executes them and writes the state with them.
        if self.coordinator.run.has_output() { Ok(()) } else { self.write_down() }
    }
}

/// The error of a panic in the evaluation.
pub(super) fn panicked(message: String) -> RealError {
    RealError::Panicked { part: "the evaluation".into(), message }
}
