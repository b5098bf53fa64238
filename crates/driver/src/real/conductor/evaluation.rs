//! Copies that are asked for, judged, and told of.

use tracing::info;

use super::Conductor;
use crate::judge::Verdict;
use crate::real::error::RealError;
use crate::real::judging::Judging;
use crate::real::message::Order;
use gaia_core::types::{DcId, NodeId, ServerId};

impl Conductor<'_> {
    pub(super) fn on_copy(&mut self, server: ServerId, ticket: u64, values: Vec<f32>) {
        if let Some(judging) = self.judging.as_mut().filter(|judging| judging.ticket == ticket) {
            judging.take(server, values, &self.layouts, self.application);
        }
    }

    /// Asks servers for their copies, where an evaluation is due and none at work.
    pub(super) async fn evaluate(&mut self) {
        if self.judging.is_some() {
            return;
        }
        let Some(clock) = self.due.take() else { return };
        self.tickets += 1;
        let ticket = self.tickets;
        let carriages = self.meters.carriages(&self.seat.site.plan.topology);
        // In the end all copies are equal, and counted or not whole.
        let is_judged = |dc: &DcId| self.coordinator.is_judged(*dc) || self.finished;
        let present = self.seat.site.plan.topology.dc_ids();
        let present = present.filter(|dc| !self.coordinator.absent().contains(dc));
        let of: Vec<DcId> = present.filter(is_judged).collect();
        let clocks = of.iter().map(|dc| self.coordinator.clock_of(*dc)).collect();
        let judges =
            |node: &NodeId| matches!(node, NodeId::Server(server) if of.contains(&server.dc));
        self.roll.tell_all(judges, &Order::Copy { ticket }).await;
        self.judging = Some(Judging::new(ticket, self.now(), clock, clocks, carriages, of));
    }

    pub(super) fn on_verdict(&mut self, verdict: Verdict) -> Result<(), RealError> {
        let judging = self.judging.take().expect("a verdict follows an evaluation");
        let Judging { at, clock, clocks, carriages, of, .. } = judging;
        let clocks = of.into_iter().zip(clocks);
        let progress = self.journal.on_evaluation(at, clock, &verdict, clocks, &carriages);
        info!(clock = progress.clock, objective = progress.objective, "copies were evaluated");
        self.observer.on_progress(progress);
        let objective = verdict.worst().objective;
        self.coordinator.handle_evaluation(self.now(), clock, objective);
        // What that decides is carried out, and written down, by who settles.
        if self.coordinator.has_output() { Ok(()) } else { self.write_down() }
    }
}
