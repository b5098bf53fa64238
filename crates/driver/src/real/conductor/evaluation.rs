//! Evaluations at home, and the model at the end of the run.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};

use super::Conductor;
use crate::copies::{CopyEvaluations, assemble};
use crate::real::connections::message::{CopyUse, KeptModel, Order};
use crate::real::error::RealError;
use crate::run_loop::{Evaluation, Evaluations};
use gaia_config::KeepModel;
use gaia_core::application::{EvaluationSums, Metric};
use gaia_core::types::{Clock, DcId, Model, NodeId, ServerId, WorkerId};

/// What the coordinator collects from nodes.
#[derive(Default)]
pub(super) struct Collected {
    /// From workers: the evaluation of the copy of their data center on their own examples, and the digest of the copy.
    pub(super) evaluations: Evaluations<WorkerId, (EvaluationSums, u64)>,
    /// From the servers of one data center: the final model, or the copy of an evaluation that is to be written.
    pub(super) copies: Evaluations<ServerId, Vec<f32>>,
}

impl Collected {
    /// Ends the evaluation in progress if all workers have reported. Returns the first worker, too, for which the objective is not
    /// finite.
    pub(super) fn results(
        &mut self,
        metric: &Metric,
    ) -> Option<(Evaluation, CopyEvaluations, Option<WorkerId>)> {
        let (_, parts) = self.evaluations.take_parts()?;
        let is_spoilt = |sums: &EvaluationSums| !sums.objective.sum.is_finite();
        let spoilt = parts.iter().find(|(_, (sums, _))| is_spoilt(sums)).map(|(worker, _)| *worker);
        let mut sums: BTreeMap<DcId, EvaluationSums> = BTreeMap::new();
        for (worker, (part, _)) in &parts {
            *sums.entry(worker.dc).or_default() += *part;
        }
        let mut digests = parts.values().map(|(_, digest)| digest);
        let first = digests.next();
        let equal = digests.all(|digest| Some(digest) == first);
        let sums: Vec<(DcId, EvaluationSums)> = sums.into_iter().collect();
        let results = CopyEvaluations::of_sums(metric, &sums, equal);
        Some((self.evaluations.finish(), results, spoilt))
    }

    /// The shards of the copy that was asked for and its clock, once all are here.
    pub(super) fn model(&mut self) -> Option<(Clock, Vec<Vec<f32>>)> {
        let (_, copies) = self.copies.take_parts()?;
        Some((self.copies.finish().clock, copies.into_values().collect()))
    }
}

impl Conductor<'_> {
    /// Begins an evaluation, if one is due and none is in progress.
    pub(super) async fn begin_evaluation(&mut self) {
        if !self.begun {
            return;
        }
        let Some(clock) = self.collected.evaluations.poll_due() else { return };
        let ticket = self.next_ticket();
        let evaluation = self.evaluation_of(clock);
        let of = evaluation.dcs();
        let workers = self.present().filter_map(|node| match node {
            NodeId::Worker(worker) if of.contains(&worker.dc) => Some(worker),
            _ => None,
        });
        let workers = workers.collect();
        self.collected.evaluations.begin(ticket, evaluation, workers);
        self.send_servers(&of, &Order::Evaluate { ticket }).await;
    }

    /// Asks for the copy of an evaluation of a clock that has just been recorded, if it is to be written. A snapshot
    /// whose copy is not whole by then is given up: it is no longer the newest.
    ///
    /// Returns the data center that sends its copy.
    fn begin_snapshot(&mut self, ticket: u64, clock: Clock) -> Option<DcId> {
        let evaluation = self.evaluation_of(clock);
        let dc = *evaluation.dcs().first()?;
        let servers = self.servers_of(&[dc]);
        self.collected.copies = Evaluations::default();
        self.collected.copies.begin(ticket, evaluation, servers);
        Some(dc)
    }

    /// Shows the copy of an evaluation to the observer once it is whole.
    pub(super) fn conclude_snapshot(&mut self) {
        let Some((clock, copy)) = self.collected.model() else { return };
        let model = self.whole(&copy);
        self.monitor.handle_model(self.application.as_ref(), clock, &model);
    }

    /// The model of a copy, given by shard.
    pub(super) fn whole(&self, copy: &[Vec<f32>]) -> Model {
        assemble(self.layouts.iter().zip(copy.iter().map(Vec::as_slice)), self.application)
    }

    /// Orders servers to write the final model, once. A model that has diverged is not written.
    pub(super) async fn keep_at_home(&mut self, results: &CopyEvaluations) {
        if self.keeping.is_some() || self.monitor.recorder.has_diverged() {
            return;
        }
        let metric = self.application.metric();
        let kept = KeptModel {
            clock: self.monitor.last_clock().0,
            objective: results.run.objective,
            metric: results.run.metric,
            is_best: self.monitor.is_best(metric.direction, results.run.metric),
        };
        self.keeping = Some(kept);
        let servers = |node: &NodeId| matches!(node, NodeId::Server(_));
        self.membership.send_all(servers, &Order::Keep { kept }).await;
    }

    /// Whether all servers have written the final model, if they are to.
    pub(super) fn is_kept(&self) -> bool {
        self.keeping.is_none()
            || self.present().all(|node| match node {
                NodeId::Server(server) => self.kept.contains(&server),
                _ => true,
            })
    }

    /// Where the model is kept.
    pub(super) fn keep(&self) -> KeepModel {
        self.context.run_context.plan.model.keep
    }

    /// The servers of data centers that take part.
    fn servers_of(&self, of: &[DcId]) -> BTreeSet<ServerId> {
        let servers = self.present().filter_map(|node| match node {
            NodeId::Server(server) if of.contains(&server.dc) => Some(server),
            _ => None,
        });
        servers.collect()
    }

    /// Requests the final model of the servers of a data center, if it is not requested.
    pub(super) async fn request_model(&mut self) {
        if self.collected.copies.is_at_work() {
            return;
        }
        let mut evaluation = self.evaluation_of(Clock::ZERO);
        evaluation.clocks.truncate(1);
        let of = evaluation.dcs();
        let servers = self.servers_of(&of);
        let ticket = self.next_ticket();
        self.collected.copies.begin(ticket, evaluation, servers);
        self.send_servers(&of, &Order::Copy { ticket }).await;
    }

    /// Records the evaluation in progress if all workers have reported.
    pub(super) async fn conclude_evaluation(&mut self) -> Result<(), RealError> {
        let (ticket, metric) = (self.collected.evaluations.ticket(), self.application.metric());
        let results = self.collected.results(&metric);
        let Some((ticket, (evaluation, results, spoilt))) = ticket.zip(results) else {
            return Ok(());
        };
        if let Some(worker) = spoilt {
            let name = self.context.run_context.name(NodeId::Worker(worker));
            warn!("{name} reports an objective that is not finite, at clock {}", evaluation.clock);
        }

        let (dcs, is_due) = (evaluation.dcs(), self.monitor.is_snapshot_due(evaluation.clock));
        let clock = evaluation.clock;

        let objective = results.run.objective;
        info!(clock = evaluation.clock.0, objective, "copies were evaluated");
        let now = self.now();
        self.monitor.handle_results(now, &mut self.coordinator.run, evaluation, &results);

        let judged = self.monitor.judged(self.application.metric().direction).filter(|_| is_due);
        let kept = judged.map(|(last, is_best)| KeptModel {
            clock: last.clock,
            objective: last.objective,
            metric: last.metric,
            is_best,
        });
        let sends = match (kept, self.keep()) {
            (Some(_), KeepModel::Coordinator) => self.begin_snapshot(ticket, clock),
            _ => None,
        };
        for dc in dcs {
            let copy = match (kept, self.keep()) {
                (Some(kept), KeepModel::Home) => CopyUse::Write(kept),
                (Some(_), KeepModel::Coordinator) if sends == Some(dc) => CopyUse::Send,
                _ => CopyUse::Nothing,
            };
            self.send_servers(&[dc], &Order::Evaluated { ticket, copy }).await;
        }

        // If the coordinator has outputs, the caller executes them and writes the state with them.
        if !self.coordinator.run.has_output() {
            self.write_down()?;
        }
        Ok(())
    }

    /// Sends a server the requests for its copy that it may not have received.
    pub(super) async fn send_requests(&mut self, server: ServerId) {
        let is_own =
            |node: &NodeId| matches!(node, NodeId::Worker(worker) if worker.dc == server.dc);
        let awaited = self.present().filter(is_own).find_map(|node| match node {
            NodeId::Worker(worker) => self.collected.evaluations.awaits(worker),
            _ => None,
        });
        let node = NodeId::Server(server);
        if let Some(ticket) = awaited {
            self.membership.send(node, &Order::Evaluate { ticket }).await;
        }
        if let Some(kept) = self.keeping.filter(|_| !self.kept.contains(&server)) {
            self.membership.send(node, &Order::Keep { kept }).await;
        }
        if let Some(ticket) = self.collected.copies.awaits(server) {
            if self.finished {
                self.membership.send(node, &Order::Copy { ticket }).await;
            } else {
                // Another process of the server no longer has the copy that was evaluated.
                self.collected.copies = Evaluations::default();
            }
        }
    }

    fn evaluation_of(&self, clock: Clock) -> Evaluation {
        let link_counters = self.meters.link_counters(&self.context.run_context.plan.topology);
        Evaluation::new(self.now(), clock, &self.coordinator.run, link_counters)
    }

    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    async fn send_servers(&self, of: &[DcId], order: &Order) {
        let is_meant =
            |node: &NodeId| matches!(node, NodeId::Server(server) if of.contains(&server.dc));
        self.membership.send_all(is_meant, order).await;
    }
}
