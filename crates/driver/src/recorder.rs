//! Records a run: progress, the time for which reads were held back with its causes, and the summary at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::copies::{CopyEvaluations, EvaluationData};
use super::parting::{Look, Lost, Parting};
use super::server_stats::{
    ServerStats, brakes, conserved, guard, outliers, stats_by_link, stats_of_links,
};
use super::trained::data_digest;
use gaia_config::{Decision, EvaluatePlace, Plan};
use gaia_core::application::{Application, Evaluation};
use gaia_core::coordinator::{StopReason, holds_target};
use gaia_core::node::Probed;
use gaia_core::server::Divergence;
use gaia_core::sync::{Axes, WaitReason};
use gaia_core::topology::Topology;
use gaia_core::types::limits::LINKS_LISTED_MAX;
use gaia_core::types::{Clock, DcId, Instant, Persist, Restorer, Saved, Saver, StateError};
use gaia_telemetry::{
    BlockedSeconds, DcProgress, EvaluatedOn, HomeEvaluation, LinkRecord, MembershipChange,
    MembershipRecord, MetricRecord, PartedRecord, Progress, Summary, WaitedRecord,
};

/// The traffic of one directed link, counted by the driver's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkCounters {
    pub(crate) bytes: u64,
    pub(crate) control_bytes: u64,
    pub(crate) frames: u64,
    pub(crate) busy: Duration,
}

/// Counters per directed link, in the order of the topology's links.
pub(crate) type AllLinkCounters = Vec<LinkCounters>;

/// The record of a run in progress.
#[derive(Debug)]
pub(crate) struct RunRecorder {
    plan: Plan,
    progress: Vec<Progress>,
    /// The time for which reads of a data center were held back, by cause and by the data center that they waited
    /// for.
    held: BTreeMap<HeldBy, Duration>,
    clock_lag_max: u64,
    /// The latest clock of each data center.
    clocks: Vec<Clock>,
    target: Option<Target>,
    stopped: Option<(Instant, StopReason)>,
    /// The first divergent change.
    divergence: Option<Divergence>,
    membership: Vec<MembershipRecord>,
    parting: Parting,
    pub(crate) lan_bytes: u64,
}

/// A data center whose reads were held back, the cause, and the data center that they waited for.
type HeldBy = (DcId, &'static str, Option<DcId>);

/// The first evaluation that met the target.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Target {
    time_s: f64,
    clock: u64,
    wan_bytes: u64,
}

impl RunRecorder {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            progress: Vec::new(),
            held: BTreeMap::new(),
            clock_lag_max: 0,
            clocks: vec![Clock::ZERO; plan.topology.data_centers.len()],
            target: None,
            stopped: None,
            divergence: None,
            membership: Vec::new(),
            parting: Parting::of(plan),
            lan_bytes: 0,
        }
    }

    /// Adds the times for which a read of a data center's worker was held back until `now`, by cause, in their order. What lies
    /// after the end of training does not count.
    pub(crate) fn on_held(&mut self, now: Instant, dc: DcId, held: &[(WaitReason, Duration)]) {
        let mut after = self.stopped.map_or(Duration::ZERO, |(stopped, _)| now.since(stopped));
        for (reason, time) in held.iter().rev() {
            let counted = time.saturating_sub(after);
            after = after.saturating_sub(*time);
            if counted.is_zero() {
                continue;
            }
            let known = self.held.entry((dc, reason.name(), reason.from())).or_default();
            *known = known.saturating_add(counted);
        }
    }

    /// Records the clocks of the data centers that take part, and the largest lag between them.
    pub(crate) fn on_clocks(&mut self, clocks: impl Iterator<Item = (DcId, Clock)>) {
        let mut ends: Option<(Clock, Clock)> = None;
        for (dc, clock) in clocks {
            self.clocks[dc.index()] = clock;
            let (least, most) = ends.unwrap_or((clock, clock));
            ends = Some((least.min(clock), most.max(clock)));
        }
        if let Some((least, most)) = ends {
            self.clock_lag_max = self.clock_lag_max.max(most.ahead_of(least));
        }
    }

    /// Records an evaluation of the copies of data centers. `clocks` holds the clocks that they had.
    pub(crate) fn on_evaluation(
        &mut self,
        now: Instant,
        clock: Clock,
        results: &CopyEvaluations,
        clocks: impl Iterator<Item = (DcId, Clock)>,
        link_counters: &AllLinkCounters,
    ) -> &Progress {
        let topology = &self.plan.topology;
        let data_centers = clocks
            .zip(&results.copies)
            .map(|((dc, clock), (_, evaluation))| DcProgress {
                name: topology.dc(dc).name.clone(),
                clock: clock.0,
                objective: evaluation.objective,
                metric: evaluation.metric,
                wan_sent_bytes: self.sent_by(dc, link_counters),
                blocked_s: self.blocked(|of| of == dc).total(),
                waited: self.waited(dc),
                sent_bytes: self.sent_over_links(dc, link_counters),
            })
            .collect();

        let progress = Progress {
            time_s: now.as_secs_f64(),
            clock: clock.0,
            objective: results.run.objective,
            objective_mean: results.mean_objective(),
            metric: results.run.metric,
            wan_bytes: carried(link_counters),
            data_centers,
        };

        self.progress.push(progress);
        let latest_first = self.progress.iter().rev().map(|progress| progress.objective);
        if self.target.is_none() && self.plan.stop.is_reached(latest_first) {
            self.target = self.progress.last().map(Target::at);
        }

        &self.progress[self.progress.len() - 1]
    }

    /// How copies are looked at with the evaluation of a clock, if that is due.
    pub(crate) fn look_due(&self, clock: Clock) -> Option<Look> {
        self.parting.due(&self.plan, clock)
    }

    /// Records what a look at copies found. Returns the record if they have parted, the first time.
    pub(crate) fn on_lost(&mut self, clock: Clock, lost: Lost) -> Option<&PartedRecord> {
        self.parting.on_lost(clock, lost)
    }

    /// Records what a data center has measured of a copy that has traveled to it. Returns the record if copies have parted, the
    /// first time.
    pub(crate) fn on_probed(&mut self, at: DcId, probed: Probed) -> Option<&PartedRecord> {
        let data_centers = self.plan.topology.data_centers.len();
        self.parting.on_probed(at, probed, data_centers)
    }

    /// Records that a data center joins or leaves.
    pub(crate) fn on_membership(&mut self, now: Instant, dc: DcId, change: MembershipChange) {
        let data_center = self.plan.topology.dc(dc).name.clone();
        let time_s = now.as_secs_f64();
        self.membership.push(MembershipRecord { data_center, change, time_s });
    }

    /// Records that the run stops. If its objective has converged and the run names no target, the last evaluation is where it
    /// has met its own. Only the first call has an effect.
    pub(crate) fn on_stop(&mut self, now: Instant, reason: StopReason) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some((now, reason));
        if reason == StopReason::Converged && self.plan.stop.objective.is_none() {
            self.target = self.progress.last().map(Target::at);
        }
    }

    /// Records that a worker's changes have diverged. Only the first call has an effect.
    pub(crate) fn on_diverged(&mut self, divergence: Divergence) {
        self.divergence.get_or_insert(divergence);
    }

    /// The summary of a run that has not begun: no figure is one, and nothing was sent.
    pub(crate) fn summary_before(plan: &Plan, application: &dyn Application) -> Summary {
        let nothing = Evaluation { objective: f64::NAN, metric: f64::NAN };
        let results =
            CopyEvaluations { copies: Vec::new(), run: nothing, equal: false, lost: None };
        let link_counters = vec![LinkCounters::default(); plan.topology.links.len()];
        Self::new(plan).summary(&[], application, &results, &link_counters, Duration::ZERO)
    }

    /// The summary of a run. `results` are those of the copies after the drain.
    pub(crate) fn summary(
        &self,
        all_server_stats: &[ServerStats],
        application: &dyn Application,
        results: &CopyEvaluations,
        link_counters: &AllLinkCounters,
        wall: Duration,
    ) -> Summary {
        let plan = &self.plan;
        let topology = &plan.topology;
        let (stopped_at, reason) = self.stopped.unwrap_or((Instant::ZERO, StopReason::Clocks));
        let run = results.run;
        let diverged = self.diverged(application, run.objective);
        let reason = if diverged.is_some() { StopReason::Diverged } else { reason };
        let target = self.target.filter(|_| self.holds_target(run.objective));
        let links = self.links(all_server_stats, link_counters, stopped_at);

        Summary {
            name: plan.name.clone(),
            app: plan.app_name().into(),
            trained_on: application.describe(),
            data_digest: data_digest(application),
            driver: plan.driver.name().into(),
            seed: plan.seed.0,
            version: env!("CARGO_PKG_VERSION").into(),
            local_sync: plan.local.name().into(),
            remote_sync: plan.remote.name().into(),
            axes: Some(Axes::of(&plan.remote)),
            remote_sync_reason: match &plan.decision {
                Decision::Made(reason) => Some(reason.clone()),
                Decision::Given | Decision::Open => None,
            },
            wan: topology.name.clone(),
            bandwidth_scale: topology.bandwidth_scale,
            data_centers: topology.data_centers.iter().map(|dc| dc.name.clone()).collect(),
            membership: self.membership.clone(),
            servers: topology.servers(),
            workers: topology.workers(),
            parameters: application.layout().parameters(),
            converged: match reason {
                StopReason::Objective => target.is_some(),
                reason => reason == StopReason::Converged,
            },
            stopped_by: reason.name().into(),
            diverged,
            target_objective: plan.stop.objective,
            time_to_target_s: target.map(|target| target.time_s),
            clocks_to_target: target.map(|target| target.clock),
            wan_bytes_to_target: target.map(|target| target.wan_bytes),
            time_s: stopped_at.as_secs_f64(),
            clocks: self.progress.last().map_or(0, |progress| progress.clock),
            data_center_clocks: self.clocks.iter().map(|clock| clock.0).collect(),
            evaluated: match plan.evaluate_place() {
                EvaluatePlace::Home => EvaluatedOn::Home,
                EvaluatePlace::Everywhere => EvaluatedOn::Everywhere,
            },
            objective: run.objective,
            metric: MetricRecord { name: application.metric().name.into(), value: run.metric },
            initial: None,
            trivial: None,
            breakdown: None,
            at_home: self.at_home(results),
            wan_bytes: carried(link_counters),
            wan_cost_usd: links.iter().fold(0.0, |sum, link| sum + link.cost_usd),
            machine_cost_usd: self.machine_cost_usd(stopped_at),
            lan_bytes: self.lan_bytes,
            significant_fraction: stats_of_links(all_server_stats)
                .carried_fraction()
                .unwrap_or(1.0),
            blocked_s: self.blocked(|_| true),
            clock_lag_max: self.clock_lag_max,
            brakes: brakes(all_server_stats),
            outliers: outliers(all_server_stats, |dc| topology.dc(dc).name.clone()),
            guard: guard(all_server_stats),
            parted: self.parting.found.clone(),
            conservation: conserved(all_server_stats, |dc| topology.dc(dc).name.clone()),
            copies_equal: results.equal,
            links,
            wall_s: wall.as_secs_f64(),
        }
    }

    /// Whether the model after the drain holds the target objective, if the run has one.
    fn holds_target(&self, objective: f64) -> bool {
        let evaluated = || self.progress.iter().map(|progress| progress.objective);
        self.plan.stop.objective.is_none_or(|target| holds_target(target, evaluated(), objective))
    }

    fn at_home(&self, results: &CopyEvaluations) -> Vec<HomeEvaluation> {
        if self.plan.evaluate_place() == EvaluatePlace::Everywhere {
            return Vec::new();
        }
        let of_copy = |(dc, evaluation): &(DcId, Evaluation)| HomeEvaluation {
            name: self.plan.topology.dc(*dc).name.clone(),
            objective: evaluation.objective,
            metric: evaluation.metric,
        };
        results.copies.iter().map(of_copy).collect()
    }

    /// On what data copies are evaluated.
    pub(crate) fn evaluation_data(&self) -> EvaluationData {
        EvaluationData::of(&self.plan)
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.plan.topology
    }

    pub(crate) fn has_diverged(&self) -> bool {
        self.divergence.is_some()
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All evaluations so far.
    pub(crate) fn progress(&self) -> &[Progress] {
        &self.progress
    }

    pub(crate) fn into_progress(self) -> Vec<Progress> {
        self.progress
    }

    /// The price of all machines until `end`.
    fn machine_cost_usd(&self, end: Instant) -> f64 {
        let topology = &self.plan.topology;
        end.as_secs_f64() / SECONDS_PER_HOUR
            * (topology.servers() + topology.workers()) as f64
            * self.plan.cost.usd_per_machine_hour
    }

    fn links(
        &self,
        all_server_stats: &[ServerStats],
        link_counters: &AllLinkCounters,
        end: Instant,
    ) -> Vec<LinkRecord> {
        let topology = &self.plan.topology;
        let elapsed = end.as_secs_f64();
        let (all_stats, all_blocked) = (stats_by_link(all_server_stats), self.blocked_by_link());
        let lists_all = topology.links.len() <= LINKS_LISTED_MAX;
        let both = topology.links.iter().zip(link_counters);
        both.map(|(link, counters)| ((link.from, link.to), link, counters))
            .filter(|(pair, ..)| {
                let has_updates = all_stats.get(pair).is_some_and(|stats| stats.updates > 0);
                lists_all || has_updates || all_blocked.contains_key(pair)
            })
            .map(|(pair, link, counters)| {
                let stats = all_stats.get(&pair).copied().unwrap_or_default();
                LinkRecord {
                    from: topology.dc(link.from).name.clone(),
                    to: topology.dc(link.to).name.clone(),
                    bandwidth_bits_per_second: link.bandwidth.bits_per_second(),
                    rtt_ms: link.rtt.0.as_secs_f64() * 1e3,
                    bytes: counters.bytes,
                    control_bytes: counters.control_bytes,
                    relayed_bytes: stats.relayed_bytes,
                    frames: counters.frames,
                    updates: stats.updates,
                    held_back_fraction: 1.0 - stats.carried_fraction().unwrap_or(1.0),
                    utilisation: if elapsed > 0.0 {
                        (counters.busy.as_secs_f64() / elapsed).min(1.0)
                    } else {
                        0.0
                    },
                    blocked_s: all_blocked.get(&pair).copied().unwrap_or_default(),
                    cost_usd: counters.bytes as f64 / 1e9 * link.price.0,
                }
            })
            .collect()
    }

    /// A description of the divergence of training, if it has diverged.
    fn diverged(&self, application: &dyn Application, objective: f64) -> Option<String> {
        if let Some(Divergence { worker, clock, table, row, value }) = self.divergence {
            let dc = &self.plan.topology.dc(worker.dc).name;
            let table = application.layout().tables().get(table.index());
            let table = table.map_or("?", |table| table.name.as_str());
            return Some(format!(
                "worker {} of {dc} changed row {row} of table `{table}` by {value} at clock {clock}",
                worker.index
            ));
        }
        let evaluated = self.stopped.is_some_and(|(_, reason)| reason == StopReason::Diverged);
        (evaluated || !objective.is_finite()).then(|| "the objective is not finite".into())
    }

    /// How long reads of some data centers were held back.
    fn blocked(&self, counts: impl Fn(DcId) -> bool) -> BlockedSeconds {
        let mut blocked = BlockedSeconds::default();
        for ((dc, cause, _), time) in &self.held {
            if counts(*dc) {
                *blocked.cause_mut(cause) += time.as_secs_f64();
            }
        }
        blocked
    }

    /// How long reads were held back for the sender of each link that they have waited for.
    fn blocked_by_link(&self) -> BTreeMap<(DcId, DcId), BlockedSeconds> {
        let mut blocked = BTreeMap::<_, BlockedSeconds>::new();
        for ((to, cause, from), time) in &self.held {
            if let Some(from) = from {
                let link = blocked.entry((*from, *to)).or_default();
                *link.cause_mut(cause) += time.as_secs_f64();
            }
        }
        blocked
    }

    /// How long reads of a data center were held back, by cause and by whom they waited for.
    fn waited(&self, dc: DcId) -> Vec<WaitedRecord> {
        let held = self.held.iter().filter(|((of, _, _), _)| *of == dc);
        let record = |((_, cause, from), time): (&HeldBy, &Duration)| WaitedRecord {
            cause: (*cause).into(),
            from: from.map(|from| self.plan.topology.dc(from).name.clone()),
            seconds: time.as_secs_f64(),
        };
        held.map(record).collect()
    }

    /// The bytes that each link from a data center has carried, without those that have carried none. Nothing where there are too
    /// many links to list them at each evaluation.
    fn sent_over_links(&self, dc: DcId, link_counters: &AllLinkCounters) -> BTreeMap<String, u64> {
        let topology = &self.plan.topology;
        if topology.links.len() > LINKS_LISTED_MAX {
            return BTreeMap::new();
        }
        let links = topology.links_from(dc);
        let carried = topology.links[links.clone()].iter().zip(&link_counters[links]);
        carried
            .filter(|(_, counters)| counters.bytes > 0)
            .map(|(link, counters)| (topology.dc(link.to).name.clone(), counters.bytes))
            .collect()
    }

    /// The bytes that the links from a data center have carried.
    pub(crate) fn sent_by(&self, dc: DcId, link_counters: &AllLinkCounters) -> u64 {
        carried(&link_counters[self.plan.topology.links_from(dc)])
    }
}

/// Implemented by hand, because the names of causes are static strings of the program and cannot be deserialized.
impl Persist for RunRecorder {
    fn save(&self, walk: &mut Saver<'_>, (): ()) -> Saved {
        let named = |((dc, cause, from), time): (&HeldBy, &Duration)| (*dc, *cause, *from, *time);
        let held: Vec<(DcId, &str, Option<DcId>, Duration)> = self.held.iter().map(named).collect();

        walk.record("progress", &self.progress)?;
        walk.record("held", &held)?;
        walk.record("clock_lag_max", &self.clock_lag_max)?;
        walk.record("clocks", &self.clocks)?;
        walk.record("membership", &self.membership)?;
        walk.record("parting", &self.parting)?;
        walk.record("target", &self.target)?;
        walk.record("stopped", &self.stopped)?;
        walk.record("divergence", &self.divergence)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, (): ()) -> Result<(), StateError> {
        let data_centers = self.plan.topology.data_centers.len();
        walk.record_that("progress", &mut self.progress, |found, _| {
            found.iter().all(|progress| progress.data_centers.len() <= data_centers)
        })?;

        let mut held: Vec<(DcId, String, Option<DcId>, Duration)> = Vec::new();
        walk.record("held", &mut held)?;
        self.held.clear();
        for (dc, cause, from, time) in held {
            let cause = WaitReason::NAMES.into_iter().find(|name| **name == *cause);
            self.held.insert((dc, cause.ok_or_else(|| walk.unfit("held"))?, from), time);
        }

        walk.record("clock_lag_max", &mut self.clock_lag_max)?;
        walk.record_that("clocks", &mut self.clocks, |found, _| found.len() == data_centers)?;
        walk.record("membership", &mut self.membership)?;
        walk.record("parting", &mut self.parting)?;
        walk.record("target", &mut self.target)?;
        walk.record("stopped", &mut self.stopped)?;
        walk.record("divergence", &mut self.divergence)
    }
}

impl Target {
    fn at(progress: &Progress) -> Self {
        Self { time_s: progress.time_s, clock: progress.clock, wan_bytes: progress.wan_bytes }
    }
}

/// The bytes that links have carried. Nodes report them, and may claim any number.
fn carried(link_counters: &[LinkCounters]) -> u64 {
    link_counters.iter().fold(0, |sum, link| sum.saturating_add(link.bytes))
}

const SECONDS_PER_HOUR: f64 = 3600.0;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::{Override, RunFile};

    const RUN: &str = "name = \"r\"\n[app]\nkind = \"matrix-factorization\"\n\
        [sync.remote]\nmodel = \"bsp\"\n[stop]\nclocks = 1\n[topology]\nname = \"t\"\n\
        wan.bandwidth = \"1 Mbit/s\"\nwan.rtt = \"1 ms\"\n[[topology.data_center]]\nname = \"a\"\n";

    #[test]
    fn waits_that_are_too_long_to_be_added_up_are_as_long_as_can_be() {
        let mut recorder =
            RunRecorder::new(&RunFile::from_text("r", RUN, &[]).unwrap().plan().unwrap());
        let held = (WaitReason::Updates { from: DcId(0) }, Duration::MAX);
        recorder.on_held(Instant::ZERO, DcId(0), &[held, held]);
        recorder.on_held(Instant::ZERO, DcId(0), &[held]);
        assert_eq!(recorder.held.values().copied().collect::<Vec<_>>(), [Duration::MAX]);
    }

    #[test]
    fn a_run_that_has_settled_above_its_target_has_not_met_it() {
        let check = |rules: &[&str], expected: Option<f64>| {
            let rules: Vec<_> = rules.iter().map(|rule| Override::parse(rule).unwrap()).collect();
            let plan = RunFile::from_text("r", RUN, &rules).unwrap().plan().unwrap();
            let mut recorder = RunRecorder::new(&plan);
            for (clock, objective) in [(1, 2.0), (2, 0.58)] {
                recorder.progress.push(Progress {
                    time_s: clock as f64,
                    clock,
                    objective,
                    objective_mean: objective,
                    metric: 0.0,
                    wan_bytes: 0,
                    data_centers: Vec::new(),
                });
            }
            recorder.on_stop(Instant::ZERO + Duration::from_secs(2), StopReason::Converged);
            assert_eq!(recorder.target.map(|target| target.time_s), expected, "{rules:?}");
        };
        check(&[], Some(2.0));
        check(&["stop.objective=0.5"], None);
    }

    #[test]
    fn what_is_waited_after_the_end_of_training_does_not_count() {
        let mut recorder =
            RunRecorder::new(&RunFile::from_text("r", RUN, &[]).unwrap().plan().unwrap());
        let seconds = Duration::from_secs;
        let (updates, mirror) =
            (WaitReason::Updates { from: DcId(0) }, WaitReason::MirrorClock { from: DcId(0) });
        recorder.on_stop(Instant::ZERO + seconds(10), StopReason::Clocks);
        recorder.on_held(
            Instant::ZERO + seconds(13),
            DcId(0),
            &[(updates, seconds(4)), (mirror, seconds(1)), (updates, seconds(1))],
        );
        recorder.on_held(Instant::ZERO + seconds(15), DcId(0), &[(mirror, seconds(2))]);
        assert_eq!(recorder.blocked(|_| true).total(), 3.0);
    }

    #[test]
    fn bytes_that_are_too_many_to_be_added_up_are_as_many_as_can_be() {
        let sent = |bytes| LinkCounters { bytes, ..LinkCounters::default() };
        assert_eq!(carried(&[sent(u64::MAX), sent(1)]), u64::MAX);
    }
}
