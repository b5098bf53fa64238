//! Handles the reports of a run: records them, shows them to the observer, and passes them to the coordinator. The
//! same for all drivers.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evaluations::Evaluation;
use crate::cluster::Cluster;
use crate::copies::{CopyEvaluations, EvaluationData, evaluate_copies, first_copy};
use crate::recorder::{AllLinkCounters, RunRecorder};
use crate::server_stats::ServerStats;
use crate::trained;
use crate::{Outcome, RunError};
use gaia_config::Plan;
use gaia_core::application::{Application, Direction};
use gaia_core::coordinator::{Coordinator, StopReason};
use gaia_core::node::Probed;
use gaia_core::server::Divergence;
use gaia_core::sync::WaitReason;
use gaia_core::types::{Clock, DcId, Instant, Model, ServerId, SharedValues, WorkerId};
use gaia_telemetry::{Observer, PartedRecord, Progress, TOLD};
use tracing::warn;

/// A report of a node that concerns the whole run.
pub(crate) enum NodeReport {
    /// All workers of a server have finished a clock.
    ClockFinished { server: ServerId, clock: Clock },
    /// The copy of a server holds a clock.
    CopyReady { server: ServerId, clock: Clock },
    /// The copy of a server equals those of its mirrors.
    Drained { server: ServerId },
    /// The changes of a worker have diverged.
    Diverged(Divergence),
    /// Reads of a data center's worker were held back, with the causes and the times.
    Held { dc: DcId, held: Vec<(WaitReason, Duration)> },
    /// The task of a worker has no more to do.
    Ended { worker: WorkerId },
    /// A worker has stopped at a clock.
    Stopped { worker: WorkerId, clock: Clock },
    /// A data center has measured the copy of another one.
    Probed { dc: DcId, probed: Probed },
}

/// The final state of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The evaluation of the final copies.
    pub(crate) results: CopyEvaluations,
    pub(crate) all_server_stats: Vec<ServerStats>,
    /// The final model: all parameters, as the application's layout places them. Empty if data centers keep it.
    pub(crate) model: SharedValues,
}

/// The record of a run in progress, and its observer.
pub(crate) struct RunMonitor<'a> {
    pub(crate) recorder: RunRecorder,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Ended {
    /// The end of a run whose nodes are all in this process. Hands the final copy to the application.
    ///
    /// # Errors
    /// [`RunError::Evaluation`].
    pub(crate) fn of(
        cluster: &Cluster,
        application: &Arc<dyn Application>,
        data: &EvaluationData,
    ) -> Result<Self, RunError> {
        let Cluster { servers, shards, .. } = cluster;
        let results = evaluate_copies(servers, *shards, application, data, None)
            .map_err(RunError::Evaluation)?;
        let model = first_copy(servers, *shards, application);
        application.finish(&model, 0..application.workers());

        let all_server_stats = ServerStats::all(servers, servers.len() / shards);
        Ok(Self { results, all_server_stats, model: model.values })
    }
}

impl<'a> RunMonitor<'a> {
    pub(crate) fn new(plan: &Plan, observer: &'a mut dyn Observer) -> Self {
        Self { recorder: RunRecorder::new(plan), observer }
    }

    /// Records a report of a node, which has come at `now`, and passes it to the coordinator.
    pub(crate) fn handle_report(
        &mut self,
        now: Instant,
        coordinator: &mut Coordinator,
        report: NodeReport,
    ) {
        match report {
            NodeReport::ClockFinished { server, clock } => {
                coordinator.handle_clock_finished(server, clock);
                let evaluated = self.recorder.topology().dc_ids();
                let evaluated = evaluated.filter(|dc| coordinator.is_evaluated(*dc));
                let clocks: Vec<(DcId, Clock)> =
                    evaluated.map(|dc| (dc, coordinator.clock_of(dc))).collect();
                self.recorder.on_clocks(clocks.into_iter());
            }
            NodeReport::CopyReady { server, clock } => coordinator.handle_copy_ready(server, clock),
            NodeReport::Drained { server } => coordinator.handle_drained(server),
            NodeReport::Diverged(divergence) => {
                self.recorder.on_diverged(divergence);
                coordinator.handle_diverged();
            }
            NodeReport::Held { dc, held } => self.recorder.on_held(now, dc, &held),
            NodeReport::Ended { worker } => coordinator.handle_worker_ended(worker),
            NodeReport::Stopped { worker, clock } => {
                coordinator.handle_worker_stopped(worker, clock);
            }
            NodeReport::Probed { dc, probed } => {
                if let Some(parted) = self.recorder.on_probed(dc, probed) {
                    warn_of(parted);
                }
            }
        }
    }

    /// Evaluates at once the copies of servers that are all in this process.
    ///
    /// # Errors
    /// [`RunError::Evaluation`].
    pub(crate) fn evaluate(
        &mut self,
        cluster: &mut Cluster,
        evaluation: Evaluation,
        application: &Arc<dyn Application>,
    ) -> Result<(), RunError> {
        let data = self.recorder.evaluation_data();
        let clock = evaluation.clock;
        let look = self.recorder.look_due(clock);
        let Cluster { servers, shards, .. } = &*cluster;
        let results = evaluate_copies(servers, *shards, application, &data, look.as_ref())
            .map_err(RunError::Evaluation)?;
        let is_due = self.is_snapshot_due(clock);
        let model = is_due.then(|| first_copy(&cluster.servers, cluster.shards, application));
        self.handle_results(evaluation.at, &mut cluster.coordinator, evaluation, &results);
        if let Some(model) = model {
            self.handle_model(application.as_ref(), clock, &model);
        }
        Ok(())
    }

    /// Whether a snapshot of the model is due at the next evaluation, of this clock.
    pub(crate) fn is_snapshot_due(&self, clock: Clock) -> bool {
        trained::is_due(self.recorder.plan(), self.recorder.progress(), clock.0)
    }

    /// The figures of the last evaluation, for a model that is written, and whether it is the best so far.
    pub(crate) fn judged(&self, direction: Direction) -> Option<(&Progress, bool)> {
        trained::judged(self.recorder.plan(), direction, self.recorder.progress())
    }

    /// The clock of the last evaluation.
    pub(crate) fn last_clock(&self) -> Clock {
        Clock(self.recorder.progress().last().map_or(0, |progress| progress.clock))
    }

    /// Whether a value of the metric is better than that of every model that was written.
    pub(crate) fn is_best(&self, direction: Direction, value: f64) -> bool {
        trained::is_best(self.recorder.plan(), direction, self.recorder.progress(), value)
    }

    /// Shows the observer the model of a recorded evaluation.
    pub(crate) fn handle_model(
        &mut self,
        application: &dyn Application,
        clock: Clock,
        model: &Model,
    ) {
        let (plan, progress) = (self.recorder.plan(), self.recorder.progress());
        let at = progress.iter().rposition(|progress| progress.clock == clock.0);
        let snapshot =
            at.and_then(|at| trained::snapshot(plan, application, &progress[..=at], model));
        if let Some(snapshot) = snapshot {
            self.observer.on_model(&snapshot);
        }
    }

    /// Records the results of an evaluation, shows them, and passes them to the coordinator. `now` is the coordinator's time.
    pub(crate) fn handle_results(
        &mut self,
        now: Instant,
        coordinator: &mut Coordinator,
        evaluation: Evaluation,
        results: &CopyEvaluations,
    ) {
        let Evaluation { at, clock, clocks, link_counters } = evaluation;
        let clocks = clocks.into_iter();
        let progress = self.recorder.on_evaluation(at, clock, results, clocks, &link_counters);
        self.observer.on_progress(progress);
        if let Some(parted) = results.lost.and_then(|lost| self.recorder.on_lost(clock, lost)) {
            warn_of(parted);
        }

        coordinator.handle_evaluation(now, clock, results.run.objective);
    }

    /// Records that the run stops.
    pub(crate) fn handle_stop(&mut self, now: Instant, reason: StopReason) {
        if reason == StopReason::Interrupted {
            warn!(target: TOLD, "interrupted: the run ends in order, and a second signal ends it at once");
        }
        self.recorder.on_stop(now, reason);
    }

    /// Shows the observer the clocks of data centers, and what they have sent.
    pub(crate) fn show(
        &mut self,
        now: Instant,
        coordinator: &Coordinator,
        link_counters: &AllLinkCounters,
    ) {
        let dcs = self.recorder.topology().dc_ids();
        let clock = |dc| {
            let is_inactive = coordinator.inactive().contains(&dc);
            (!is_inactive).then(|| coordinator.clock_of(dc).0)
        };
        let (clocks, sent): (Vec<Option<u64>>, Vec<u64>) =
            dcs.map(|dc| (clock(dc), self.recorder.sent_by(dc, link_counters))).unzip();
        self.observer.on_tick(now.as_secs_f64(), &clocks, &sent);
    }

    /// Shows the observer again the evaluations that were recorded before the run was resumed.
    pub(crate) fn show_again(&mut self) {
        for progress in self.recorder.progress() {
            self.observer.on_progress(progress);
        }
    }

    /// The outcome of a run that has ended.
    pub(crate) fn outcome(
        self,
        application: &dyn Application,
        ended: Ended,
        link_counters: &AllLinkCounters,
        wall: Duration,
    ) -> Outcome {
        let Ended { results, all_server_stats, model: values } = ended;
        let model = (!values.is_empty()).then(|| {
            let mut model = Model::zeros(application.layout().clone());
            model.values = values;
            model
        });
        let recorder = self.recorder;
        let summary =
            recorder.summary(&all_server_stats, application, &results, link_counters, wall);
        let (attachments, highlights) = (
            application.attachments(),
            model.as_ref().map(|model| application.highlights(model)).unwrap_or_default(),
        );
        let (direction, value) = (application.metric().direction, summary.metric.value);
        let is_best = trained::is_best(recorder.plan(), direction, recorder.progress(), value);
        let progress = recorder.into_progress();
        Outcome { summary, progress, model, attachments, is_best, highlights }
    }
}

/// Says that copies part, and what to do about it.
fn warn_of(parted: &PartedRecord) {
    warn!(
        clock = parted.clock,
        "the copies of data centers part: on the examples of others they lose {:.0} % of the initial loss more than the copies \
         there. Data centers seem to have different data, and ASP has no guard: training may end far from what BSP reaches. \
         Add `{}` to [sync.remote], or train in rounds (`model = \"local-steps\"` with `overlap = 0`); gaia plan says which \
         is faster",
        100.0 * parted.loss,
        parted.add
    );
}
