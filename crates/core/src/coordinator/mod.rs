//! The coordinator: starts a run, says when to evaluate, decides when to stop, drains.
//!
//! It sees clocks and objectives, never values, and asks for nothing it could not be told over a network. What it is
//! told may be told again, as it is where a line breaks: clocks only rise, and a server drains once. Nothing
//! waits for it while training goes on: data centers keep each other's pace, as in the paper.
//!
//! Two machines: [`Coordinator`] knows the phases of a run, and [`ClusterCoordinator`], around it, which nodes and data
//! centers take part. A driver whose nodes cannot fail needs only the first.

mod absences;
mod cluster;
mod incarnations;
mod members;
mod server_processes;
mod stand_ins;
mod standing_orders;
mod stop;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

pub use cluster::{
    Admission, ClusterCoordinator, FailureRules, MustStay, Nearest, NoSource, NotAdmitted, TakeOver,
};
pub use server_processes::ServerProcess;
pub use stand_ins::StandIns;
pub use standing_orders::{NodeOrder, Recipients, StandingOrders};
pub use stop::{ChangeRule, StopReason, StopRules, target_of};

use crate::persist;
use crate::types::{Clock, DcId, Instant, ServerId, Staleness, WorkerId};

/// What a coordinator is told when it is made.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    pub servers: Vec<ServerId>,
    pub workers: Vec<WorkerId>,
    pub stop: StopRules,
    /// Clocks between evaluations, at least 1.
    pub evaluate_every: u64,
    /// Where every data center must end at the same clock (BSP, SSP, local steps): how far a worker may be ahead of the
    /// slowest of its own data center.
    pub lockstep: Option<Staleness>,
    /// Data centers that may join once the run has begun: none in lockstep.
    pub inactive: BTreeSet<DcId>,
}

/// What a coordinator wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorOutput {
    /// Tell every worker to begin.
    Start,
    /// Judge every data center's copy, which holds this clock, and answer with
    /// [`Coordinator::handle_evaluation`].
    Evaluate { clock: Clock },
    /// Tell every worker to stop at clock `last`, or after what it is at. Where some were beyond it when they
    /// heard, it is said again with the clock of the furthest, and those who have stopped go on until there.
    Stop { last: Clock, reason: StopReason },
    /// Tell the servers of a data center to drain, once their workers are at these clocks, with all data centers but those
    /// that are inactive.
    Drain { dc: DcId, clocks: Vec<Clock>, inactive: BTreeSet<DcId> },
    /// All copies are equal; the run is over.
    Finished,
}

/// The coordinator of one run.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    phase: Phase,
    /// Data centers that take no part, as they have left or have yet to join.
    inactive: BTreeSet<DcId>,
    /// Those that have joined late and not all of whose copies have come.
    arriving: BTreeSet<DcId>,
    finished: BTreeMap<ServerId, Clock>,
    copies: BTreeMap<ServerId, Clock>,
    next_evaluation: Clock,
    history: Vec<(Clock, f64)>,
    /// Why the run stops, once it does.
    reason: Option<StopReason>,
    stopped: BTreeMap<WorkerId, Clock>,
    drained: BTreeSet<ServerId>,
    outputs: VecDeque<CoordinatorOutput>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Idle,
    Training,
    Stopping,
    Draining,
    Finished,
}

impl Coordinator {
    pub fn new(config: CoordinatorConfig) -> Self {
        assert!(config.evaluate_every > 0, "evaluations are some clocks apart");
        let clocks: BTreeMap<ServerId, Clock> =
            config.servers.iter().map(|server| (*server, Clock::ZERO)).collect();
        Self {
            phase: Phase::Idle,
            inactive: config.inactive.clone(),
            arriving: BTreeSet::new(),
            finished: clocks.clone(),
            copies: clocks,
            next_evaluation: next_evaluation(&config, Clock::ZERO),
            history: Vec::new(),
            reason: None,
            stopped: BTreeMap::new(),
            drained: BTreeSet::new(),
            outputs: VecDeque::new(),
            config,
        }
    }

    pub fn handle_start(&mut self) {
        assert!(self.phase == Phase::Idle, "a run starts once");
        self.phase = Phase::Training;
        self.outputs.push_back(CoordinatorOutput::Start);
    }

    /// A server's workers have all finished a clock.
    pub fn handle_clock_finished(&mut self, server: ServerId, clock: Clock) {
        raise(&mut self.finished, server, clock);
    }

    /// A server's copy holds a clock.
    pub fn handle_copy_ready(&mut self, server: ServerId, clock: Clock) {
        raise(&mut self.copies, server, clock);
        let mut of_dc = self.copies.iter().filter(|(other, _)| other.dc == server.dc);
        if of_dc.all(|(_, clock)| *clock > Clock::ZERO) {
            self.arriving.remove(&server.dc);
        }
        self.evaluate_once_ready();
    }

    /// A data center joins: from here on the run is over only with it. Its copies count once they have come.
    pub fn handle_joined(&mut self, dc: DcId) {
        assert!(self.admits(), "while training goes on, data centers may join");
        if self.inactive.remove(&dc) {
            self.arriving.insert(dc);
            for clocks in [&mut self.finished, &mut self.copies] {
                let own = clocks.iter_mut().filter(|(server, _)| server.dc == dc);
                own.for_each(|(_, clock)| *clock = Clock::ZERO);
            }
        }
    }

    /// Data centers leave: the run goes on without them. What that opens comes with [`Self::advance`], so that it can be
    /// written down before.
    pub fn handle_left(&mut self, dcs: &BTreeSet<DcId>) {
        assert!(self.lets_go(), "once copies become equal, nobody leaves");
        self.inactive.extend(dcs);
        self.arriving.retain(|dc| !dcs.contains(dc));
        self.stopped.retain(|worker, _| !dcs.contains(&worker.dc));
    }

    /// Goes on with what only waited for data centers that have left.
    pub fn advance(&mut self) {
        self.evaluate_once_ready();
        self.drain_once_stopped();
    }

    /// The worst copy's objective at a clock.
    pub fn handle_evaluation(&mut self, now: Instant, clock: Clock, objective: f64) {
        self.history.push((clock, objective));
        if self.phase != Phase::Training {
            return;
        }
        if let Some(reason) = self.config.stop.met(now, &self.history) {
            self.stop(reason);
        }
    }

    /// A worker's changes have diverged: nothing more can be learnt.
    pub fn handle_diverged(&mut self) {
        if self.phase == Phase::Training {
            self.stop(StopReason::Diverged);
        }
    }

    /// The time given to the run may be over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::Training && self.config.stop.deadline().is_some_and(|at| now >= at)
        {
            self.stop(StopReason::Seconds);
        }
    }

    /// A worker has stopped at a clock.
    pub fn handle_worker_stopped(&mut self, worker: WorkerId, clock: Clock) {
        if !self.inactive.contains(&worker.dc) {
            let known = self.stopped.entry(worker).or_default();
            *known = clock.max(*known);
            self.drain_once_stopped();
        }
    }

    /// A server's copy equals its mirrors'.
    pub fn handle_drained(&mut self, server: ServerId) {
        self.drained.insert(server);
        let mut servers = self.config.servers.iter().filter(|one| !self.inactive.contains(&one.dc));
        let all = servers.all(|server| self.drained.contains(server));
        if self.phase == Phase::Draining && all {
            self.phase = Phase::Finished;
            self.outputs.push_back(CoordinatorOutput::Finished);
        }
    }

    /// Whether something waits for [`Self::poll_output`].
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Whether the run is over.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    pub fn poll_output(&mut self) -> Option<CoordinatorOutput> {
        self.outputs.pop_front()
    }

    /// When this coordinator wants [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.config.stop.deadline().filter(|_| self.phase == Phase::Training)
    }

    /// Whether a data center may join.
    pub fn admits(&self) -> bool {
        self.phase == Phase::Training
    }

    /// Whether a data center may leave: copies are not being made equal.
    pub fn lets_go(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Training | Phase::Stopping)
    }

    /// Data centers that take no part, as they have left or have yet to join.
    pub fn inactive(&self) -> &BTreeSet<DcId> {
        &self.inactive
    }

    /// Whether the copies of a data center are to be judged: it takes part, and has them.
    pub fn is_judged(&self, dc: DcId) -> bool {
        !self.inactive.contains(&dc) && !self.arriving.contains(&dc)
    }

    /// The data centers whose copies an evaluation is of, each with the clock that it has finished. Once the run is over all
    /// copies are equal, those of data centers that have joined late, too.
    pub fn evaluated(&self) -> Vec<(DcId, Clock)> {
        let dcs: BTreeSet<DcId> = self.config.servers.iter().map(|server| server.dc).collect();
        let present = dcs.into_iter().filter(|dc| !self.inactive.contains(dc));
        let evaluated = present.filter(|dc| self.is_judged(*dc) || self.is_finished());
        evaluated.map(|dc| (dc, self.clock_of(dc))).collect()
    }

    /// The clock that a data center has finished.
    pub fn clock_of(&self, dc: DcId) -> Clock {
        let servers = self.finished.iter().filter(|(server, _)| server.dc == dc);
        servers.map(|(_, clock)| *clock).min().unwrap_or_default()
    }

    /// The clock at which a worker has stopped, if it has.
    pub fn stopped_at(&self, worker: WorkerId) -> Option<Clock> {
        self.stopped.get(&worker).copied()
    }

    /// Has copies judged, where every one of them holds the clock that calls for it.
    fn evaluate_once_ready(&mut self) {
        let judged = self.copies.iter().filter(|(server, _)| self.is_judged(server.dc));
        let ready = judged.map(|(_, clock)| *clock).min().unwrap_or_default();
        if self.phase == Phase::Training && ready >= self.next_evaluation {
            self.outputs.push_back(CoordinatorOutput::Evaluate { clock: ready });
            self.next_evaluation = next_evaluation(&self.config, ready);
        }
    }

    /// Has copies made equal, once all workers have stopped.
    fn drain_once_stopped(&mut self) {
        let mut workers = self.config.workers.iter().filter(|one| !self.inactive.contains(&one.dc));
        let all = workers.all(|worker| self.stopped.contains_key(worker));
        if self.phase != Phase::Stopping || !all || self.level() {
            return;
        }
        self.phase = Phase::Draining;
        let mut clocks: BTreeMap<DcId, Vec<Clock>> = BTreeMap::new();
        for (worker, clock) in &self.stopped {
            clocks.entry(worker.dc).or_default().push(*clock);
        }
        let drain = |(dc, clocks)| {
            let inactive = self.inactive.clone();
            CoordinatorOutput::Drain { dc, clocks, inactive }
        };
        self.outputs.extend(clocks.into_iter().map(drain));
    }

    /// Where all must end at one clock and have not, has the others go on to the furthest; says whether any must.
    fn level(&mut self) -> bool {
        let furthest = self.stopped.values().copied().max().unwrap_or_default();
        let reason = self.reason.filter(|_| self.config.lockstep.is_some());
        let Some(reason) = reason.filter(|_| self.stopped.values().any(|at| *at < furthest)) else {
            return false;
        };
        self.stopped.retain(|_, at| *at >= furthest);
        self.outputs.push_back(CoordinatorOutput::Stop { last: furthest, reason });
        true
    }

    fn stop(&mut self, reason: StopReason) {
        self.phase = Phase::Stopping;
        self.reason = Some(reason);
        let last = match self.config.lockstep {
            Some(staleness) => {
                let fastest = self.finished.values().copied().max().unwrap_or_default();
                Clock(fastest.0 + staleness.0 + 1)
            }
            None => Clock::ZERO,
        };
        self.outputs.push_back(CoordinatorOutput::Stop { last, reason });
    }
}

persist! {
    impl Persist<()> for Coordinator {
        fn walk(
            Self {
                config,
                phase,
                inactive,
                arriving,
                finished,
                copies,
                next_evaluation,
                history,
                reason,
                stopped,
                drained,
                outputs,
            },
            walk,
            (),
        ) {
            assert!(outputs.is_empty(), "a state is whole once outputs are polled");
            let CoordinatorConfig { servers, workers, .. } = config;
            let dcs: BTreeSet<DcId> = servers.iter().map(|server| server.dc).collect();

            walk.record("phase", phase)?;
            walk.record_that("inactive", inactive, |found, _| found.is_subset(&dcs))?;
            walk.record_that("arriving", arriving, |found, _| found.is_subset(&dcs))?;
            walk.record_that("finished", finished, |found, made| found.keys().eq(made.keys()))?;
            walk.record_that("copies", copies, |found, made| found.keys().eq(made.keys()))?;
            walk.record("next_evaluation", next_evaluation)?;
            walk.record("history", history)?;
            walk.record("reason", reason)?;
            walk.record_that("stopped", stopped, |found, _| {
                found.keys().all(|worker| workers.contains(worker))
            })?;
            walk.record_that("drained", drained, |found, _| {
                found.iter().all(|server| servers.contains(server))
            })
        }
    }
}

/// Notes a clock; one that was said before changes nothing.
fn raise(clocks: &mut BTreeMap<ServerId, Clock>, server: ServerId, clock: Clock) {
    let known = clocks.entry(server).or_default();
    *known = clock.max(*known);
}

/// The first clock after `clock` that calls for a judgement: the next of the regular ones, or the last of all.
fn next_evaluation(config: &CoordinatorConfig, clock: Clock) -> Clock {
    let every = config.evaluate_every;
    let regular = (clock.0 / every + 1) * every;
    let last = config.stop.clocks.filter(|last| *last > clock.0);
    Clock(last.map_or(regular, |last| regular.min(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ShardId;

    fn coordinator(stop: StopRules, lockstep: Option<Staleness>) -> Coordinator {
        let dcs = [DcId(0), DcId(1)];
        Coordinator::new(CoordinatorConfig {
            servers: dcs.map(|dc| ServerId { dc, shard: ShardId(0) }).into(),
            workers: dcs.map(|dc| WorkerId { dc, index: 0 }).into(),
            stop,
            evaluate_every: 2,
            lockstep,
            inactive: BTreeSet::new(),
        })
    }

    #[test]
    fn a_run_is_judged_at_its_last_clock_even_between_two_regular_ones() {
        let rules = StopRules { clocks: Some(3), ..StopRules::default() };
        let mut run = coordinator(rules, None);
        run.handle_start();
        let mut judged = Vec::new();
        for clock in 1..=3 {
            for dc in 0..2 {
                run.handle_copy_ready(ServerId { dc: DcId(dc), shard: ShardId(0) }, Clock(clock));
            }
            while let Some(output) = run.poll_output() {
                if let CoordinatorOutput::Evaluate { clock } = output {
                    judged.push(clock.0);
                }
            }
        }
        assert_eq!(judged, [2, 3]);
    }

    #[test]
    fn where_a_stop_comes_late_all_go_on_to_the_furthest() {
        let rules = StopRules { seconds: Some(1.0), ..StopRules::default() };
        let mut run = coordinator(rules, Some(Staleness(0)));
        run.handle_start();
        run.handle_timeout(Instant::from_nanos(1_000_000_000));
        let reason = StopReason::Seconds;
        assert_eq!(
            run.outputs.pop_back(),
            Some(CoordinatorOutput::Stop { last: Clock(1), reason })
        );
        let workers = [DcId(0), DcId(1)].map(|dc| WorkerId { dc, index: 0 });
        run.outputs.clear();
        run.handle_worker_stopped(workers[0], Clock(1));
        run.handle_worker_stopped(workers[1], Clock(2));
        assert_eq!(run.poll_output(), Some(CoordinatorOutput::Stop { last: Clock(2), reason }));
        assert_eq!(run.poll_output(), None);
        run.handle_worker_stopped(workers[0], Clock(2));
        assert!(matches!(run.poll_output(), Some(CoordinatorOutput::Drain { .. })));
    }

    #[test]
    fn a_run_goes_from_start_to_finish() {
        let rules = StopRules { clocks: Some(2), ..StopRules::default() };
        let mut run = coordinator(rules, Some(Staleness(0)));
        run.handle_start();
        assert_eq!(run.poll_output(), Some(CoordinatorOutput::Start));

        for clock in 1..=2 {
            for dc in 0..2 {
                let server = ServerId { dc: DcId(dc), shard: ShardId(0) };
                run.handle_clock_finished(server, Clock(clock));
                run.handle_copy_ready(server, Clock(clock));
            }
        }

        assert_eq!(run.poll_output(), Some(CoordinatorOutput::Evaluate { clock: Clock(2) }));
        run.handle_evaluation(Instant::ZERO, Clock(2), 1.0);
        let stop = CoordinatorOutput::Stop { last: Clock(3), reason: StopReason::Clocks };
        assert_eq!(run.poll_output(), Some(stop));

        for dc in 0..2 {
            run.handle_worker_stopped(WorkerId { dc: DcId(dc), index: 0 }, Clock(3));
        }
        for dc in 0..2 {
            let clocks = vec![Clock(3)];
            let drain =
                CoordinatorOutput::Drain { dc: DcId(dc), clocks, inactive: BTreeSet::new() };
            assert_eq!(run.poll_output(), Some(drain));
            run.handle_drained(ServerId { dc: DcId(dc), shard: ShardId(0) });
        }

        assert_eq!(run.poll_output(), Some(CoordinatorOutput::Finished));
        assert_eq!(run.poll_output(), None);
    }

    #[test]
    fn who_joins_late_is_judged_once_its_copy_has_come_and_who_leaves_is_not_waited_for() {
        let rules = StopRules { clocks: Some(6), ..StopRules::default() };
        let mut config = coordinator(rules, None).config;
        config.inactive = BTreeSet::from([DcId(1)]);
        let mut run = Coordinator::new(config);
        run.handle_start();
        let server = |dc| ServerId { dc: DcId(dc), shard: ShardId(0) };
        let worker = |dc| WorkerId { dc: DcId(dc), index: 0 };
        let judged = |run: &mut Coordinator| {
            let outputs = std::mem::take(&mut run.outputs).into_iter();
            let clocks = outputs.filter_map(|output| match output {
                CoordinatorOutput::Evaluate { clock } => Some(clock.0),
                _ => None,
            });
            clocks.collect::<Vec<u64>>()
        };

        run.handle_copy_ready(server(0), Clock(2));
        assert_eq!(judged(&mut run), [2], "the one that is there");
        run.handle_joined(DcId(1));
        run.handle_copy_ready(server(0), Clock(4));
        assert_eq!(judged(&mut run), [4], "without the copy that is on its way");
        run.handle_copy_ready(server(1), Clock(4));
        run.handle_copy_ready(server(0), Clock(6));
        assert_eq!(judged(&mut run), [0; 0], "with the copy that is behind");
        run.handle_left(&BTreeSet::from([DcId(1)]));
        run.advance();
        assert_eq!(judged(&mut run), [6]);
        run.handle_evaluation(Instant::ZERO, Clock(6), 1.0);
        run.outputs.clear();
        run.handle_worker_stopped(worker(1), Clock(5));
        assert_eq!(run.poll_output(), None, "who has left is not heard");
        run.handle_worker_stopped(worker(0), Clock(6));

        let inactive = BTreeSet::from([DcId(1)]);
        let drain = CoordinatorOutput::Drain { dc: DcId(0), clocks: vec![Clock(6)], inactive };
        assert_eq!(run.poll_output(), Some(drain));
        run.handle_drained(server(0));
        assert_eq!(run.poll_output(), Some(CoordinatorOutput::Finished));
    }
}
