//! The coordinator: starts a run, requests evaluations, decides when the run stops, and drains it.
//!
//! It receives clocks and objectives, but no parameter values. All its inputs are messages that can be sent over a
//! network. A message may be repeated, since a node sends it again after its connection has broken: clocks only rise,
//! and a server drains once. No node waits for the coordinator while training runs: data centers limit each other's
//! progress, as in the paper.
//!
//! The room has two machines. [`Coordinator`] knows the phases of a run. [`ClusterCoordinator`] contains it, and knows
//! which nodes and data centers take part. A driver whose nodes cannot fail needs only the first.

mod absences;
mod change;
mod cluster;
mod incarnations;
mod members;
mod server_processes;
mod stand_ins;
mod standing_orders;
mod stop;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use change::{ChangeBy, ChangeRule, Scale};
pub use cluster::{
    Admission, ClusterCoordinator, FailureRules, MustStay, Nearest, NoSource, NotAdmitted, TakeOver,
};
pub use server_processes::ServerProcess;
pub use stand_ins::StandIns;
pub use standing_orders::{NodeOrder, Recipients, StandingOrders};
pub use stop::{Held, StopReason, StopRules, holds_target, target_of};

use crate::persist;
use crate::types::{Clock, DcId, Instant, ServerId, ShardId, Staleness, WorkerId};

/// The settings of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The servers of all data centers, including inactive ones.
    pub servers: Vec<ServerId>,
    /// The workers of all data centers, including inactive ones.
    pub workers: Vec<WorkerId>,
    /// When the run stops.
    pub stop: StopRules,
    /// What is a little change of the objective.
    pub scale: Scale,
    /// The number of clocks between evaluations, at least 1.
    pub evaluate_every: u64,
    /// If all data centers must stop at the same clock (BSP, SSP, local steps without a quorum): how far nodes may be
    /// ahead of others. Otherwise `None`.
    pub lockstep: Option<Lockstep>,
    /// Data centers that take no part at the start and may join later. Empty with `lockstep`.
    pub inactive: BTreeSet<DcId>,
}

/// How far nodes may be ahead of others where all data centers stop at the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockstep {
    /// How far a worker may be ahead of the slowest worker of its data center, in clocks.
    pub within: Staleness,
    /// How far a data center may be ahead of the slowest one, in clocks
    /// ([`RemoteSync::delay_max`](crate::sync::RemoteSync::delay_max)).
    pub between: u64,
}

/// An action that the driver carries out for a coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorOutput {
    /// Order every worker to start.
    Start,
    /// Evaluate the copy of every data center that is [judged](Coordinator::is_evaluated), and pass the result to
    /// [`Coordinator::handle_evaluation`].
    Evaluate {
        /// The clock that all these copies have reached.
        clock: Clock,
    },
    /// Order every worker to stop at a clock, or after its current iteration if it is past that clock. In lockstep the
    /// output is repeated with the clock of the furthest worker if some have stopped past `last`. Those that have
    /// stopped before then continue to that clock.
    Stop {
        /// The clock.
        last: Clock,
        /// The rule that stopped the run.
        reason: StopReason,
    },
    /// Order the servers of a data center to drain, once their workers have finished their clocks, together with all
    /// active data centers.
    Drain {
        /// The data center.
        dc: DcId,
        /// The clocks at which its workers have stopped, by worker.
        clocks: Vec<Clock>,
        /// The data centers that take no part.
        inactive: BTreeSet<DcId>,
    },
    /// All copies are equal, and the run is over.
    Finished,
}

/// The state machine of one run's phases.
///
/// Methods are of three kinds: `handle_*` pass in events, `poll_*` return actions, and most others are queries.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    phase: Phase,
    /// Data centers that take no part: they have left or have not joined.
    inactive: BTreeSet<DcId>,
    /// Data centers that have joined late, and of whose servers some have no copy.
    arriving: BTreeSet<DcId>,
    finished: BTreeMap<ServerId, Clock>,
    copies: BTreeMap<ServerId, Clock>,
    next_evaluation: Clock,
    history: Vec<(Clock, f64)>,
    /// The rule that stopped the run.
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
    /// A coordinator whose run has not started.
    ///
    /// # Panics
    /// If [`CoordinatorConfig::evaluate_every`] is 0.
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

    /// Starts the run. The next output is [`CoordinatorOutput::Start`].
    ///
    /// # Panics
    /// If the run has started.
    pub fn handle_start(&mut self) {
        assert!(self.phase == Phase::Idle, "a run starts once");
        self.phase = Phase::Training;
        self.outputs.push_back(CoordinatorOutput::Start);
    }

    /// All workers of a server's data center have finished a clock. A lower clock than the known one changes nothing.
    pub fn handle_clock_finished(&mut self, server: ServerId, clock: Clock) {
        raise(&mut self.finished, server, clock);
        self.drain_once_stopped();
    }

    /// A server's copy is ready for the evaluation of a clock. A lower clock than the known one changes nothing.
    pub fn handle_copy_ready(&mut self, server: ServerId, clock: Clock) {
        raise(&mut self.copies, server, clock);
        if self.copies.range(servers_of(server.dc)).all(|(_, clock)| *clock > Clock::ZERO) {
            self.arriving.remove(&server.dc);
        }
        self.evaluate_once_ready();
    }

    /// A data center joins. The run then ends only with it, and its copies are judged once all have been received.
    ///
    /// # Panics
    /// If no data center may join ([`Self::admits`]).
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

    /// Data centers leave, and the run continues without them. Outputs that follow from this are made by
    /// [`Self::advance`], so that the caller can log the change first.
    ///
    /// # Panics
    /// If no data center may leave ([`Self::lets_go`]).
    pub fn handle_left(&mut self, dcs: &BTreeSet<DcId>) {
        assert!(self.lets_go(), "once copies become equal, nobody leaves");
        self.inactive.extend(dcs);
        self.arriving.retain(|dc| !dcs.contains(dc));
        self.stopped.retain(|worker, _| !dcs.contains(&worker.dc));
    }

    /// Makes the outputs that waited only for data centers that have left.
    pub fn advance(&mut self) {
        self.evaluate_once_ready();
        self.drain_once_stopped();
    }

    /// The result of an evaluation: the objective of the worst copy at a clock. Stops the run if a rule then holds.
    pub fn handle_evaluation(&mut self, now: Instant, clock: Clock, objective: f64) {
        self.history.push((clock, objective));
        if self.phase != Phase::Training {
            return;
        }
        if let Some(reason) = self.config.stop.met(now, &self.history, self.config.scale) {
            self.stop(reason);
        }
    }

    /// A worker's update was rejected because training has diverged. Stops the run.
    pub fn handle_diverged(&mut self) {
        if self.phase == Phase::Training {
            self.stop(StopReason::Diverged);
        }
    }

    /// The user has interrupted the run. Stops it. Idempotent.
    pub fn handle_interrupted(&mut self) {
        if self.phase == Phase::Training {
            self.stop(StopReason::Interrupted);
        }
    }

    /// The task of a worker has no more to do. Stops the run. A report of an inactive data center changes nothing.
    /// Idempotent.
    pub fn handle_worker_ended(&mut self, worker: WorkerId) {
        if self.phase == Phase::Training && !self.inactive.contains(&worker.dc) {
            self.stop(StopReason::Ended);
        }
    }

    /// Stops the run if its time has elapsed at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::Training && self.config.stop.deadline().is_some_and(|at| now >= at)
        {
            self.stop(StopReason::Seconds);
        }
    }

    /// A worker says that it has stopped at a clock.
    ///
    /// Before workers are [ordered to stop](Self::has_ordered_stop) this changes nothing: the run would later drain at the
    /// clock of that time. It changes nothing either once the drain is ordered, or if the data center is inactive.
    /// Idempotent.
    pub fn handle_worker_stopped(&mut self, worker: WorkerId, clock: Clock) {
        if self.phase == Phase::Stopping && !self.inactive.contains(&worker.dc) {
            let known = self.stopped.entry(worker).or_default();
            *known = clock.max(*known);
            self.drain_once_stopped();
        }
    }

    /// A server has drained: its copy equals those of its mirrors. Idempotent.
    pub fn handle_drained(&mut self, server: ServerId) {
        self.drained.insert(server);
        let mut servers = self.config.servers.iter().filter(|one| !self.inactive.contains(&one.dc));
        let all = servers.all(|server| self.drained.contains(server));
        if self.phase == Phase::Draining && all {
            self.phase = Phase::Finished;
            self.outputs.push_back(CoordinatorOutput::Finished);
        }
    }

    /// Whether [`Self::poll_output`] has an output.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Whether the run is over.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// The next action, in the order in which they were made.
    pub fn poll_output(&mut self) -> Option<CoordinatorOutput> {
        self.outputs.pop_front()
    }

    /// When the driver must call [`Self::handle_timeout`]. `None` if the time of the run is not limited, or the run is
    /// not training.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.config.stop.deadline().filter(|_| self.phase == Phase::Training)
    }

    /// Whether a data center may join: the run is training.
    pub fn admits(&self) -> bool {
        self.phase == Phase::Training
    }

    /// Whether a data center may leave: the drain has not begun.
    pub fn lets_go(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Training | Phase::Stopping)
    }

    /// Data centers that take no part: they have left or have not joined.
    pub fn inactive(&self) -> &BTreeSet<DcId> {
        &self.inactive
    }

    /// Whether the copies of a data center are evaluated while the run trains: it takes part, and has received all of
    /// them.
    pub fn is_evaluated(&self, dc: DcId) -> bool {
        !self.inactive.contains(&dc) && !self.arriving.contains(&dc)
    }

    /// The data centers whose copies an evaluation includes, each with the clock that it has finished. After the end of
    /// the run these are all data centers that take part, since their copies are equal.
    pub fn evaluated(&self) -> Vec<(DcId, Clock)> {
        let dcs: BTreeSet<DcId> = self.config.servers.iter().map(|server| server.dc).collect();
        let present = dcs.into_iter().filter(|dc| !self.inactive.contains(dc));
        let evaluated = present.filter(|dc| self.is_evaluated(*dc) || self.is_finished());
        evaluated.map(|dc| (dc, self.clock_of(dc))).collect()
    }

    /// The number of clocks that all servers of a data center have reported as finished.
    pub fn clock_of(&self, dc: DcId) -> Clock {
        let servers = self.finished.range(servers_of(dc));
        servers.map(|(_, clock)| *clock).min().unwrap_or_default()
    }

    /// The number of clocks that all servers of all data centers have reported as finished.
    pub fn clock_of_all(&self) -> Clock {
        self.finished.values().copied().min().unwrap_or_default()
    }

    /// Whether workers have been ordered to stop.
    pub fn has_ordered_stop(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Training)
    }

    /// The clock at which a worker has stopped, if it has.
    pub fn stopped_at(&self, worker: WorkerId) -> Option<Clock> {
        self.stopped.get(&worker).copied()
    }

    /// Requests an evaluation once every judged copy is ready for the next clock that needs one.
    fn evaluate_once_ready(&mut self) {
        let evaluated = self.copies.iter().filter(|(server, _)| self.is_evaluated(server.dc));
        let ready = evaluated.map(|(_, clock)| *clock).min().unwrap_or_default();
        if self.phase == Phase::Training && ready >= self.next_evaluation {
            self.outputs.push_back(CoordinatorOutput::Evaluate { clock: ready });
            self.next_evaluation = next_evaluation(&self.config, ready);
        }
    }

    /// Begins the drain once all workers have stopped, in lockstep at the same clock.
    fn drain_once_stopped(&mut self) {
        if self.phase != Phase::Stopping {
            return;
        }
        let mut workers = self.config.workers.iter().filter(|one| !self.inactive.contains(&one.dc));
        let all = workers.all(|worker| {
            self.stopped.get(worker).is_some_and(|clock| self.may_have_reached(worker.dc, *clock))
        });
        if !all || self.level() {
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

    /// In lockstep, whether a worker can be at a clock, by the clocks that the servers of its data center have reported, and
    /// by those of the slowest data center. All workers continue to the clock of the furthest, so that it is not taken from
    /// what one worker, or one data center, says alone.
    fn may_have_reached(&self, dc: DcId, clock: Clock) -> bool {
        self.config.lockstep.is_none_or(|Lockstep { within, between }| {
            let known = self.clock_of(dc).min(self.furthest(between));
            clock.ahead_of(known) <= within.0.saturating_add(1)
        })
    }

    /// The furthest clock that a data center is believed to have finished, where it may be `between` clocks ahead of the slowest
    /// one. The reports of that one may be late: then workers that are further all the same are [levelled](Self::level).
    fn furthest(&self, between: u64) -> Clock {
        let fastest = self.finished.values().copied().max().unwrap_or_default();
        fastest.min(Clock(self.clock_of_all().0.saturating_add(between)))
    }

    /// In lockstep, orders workers that have stopped before the furthest one to continue to its clock. Returns whether
    /// there are any.
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
            Some(Lockstep { within, between }) => {
                Clock(self.furthest(between).0.saturating_add(within.0).saturating_add(1))
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

/// The range of the identifiers of a data center's servers.
fn servers_of(dc: DcId) -> RangeInclusive<ServerId> {
    ServerId { dc, shard: ShardId(0) }..=ServerId { dc, shard: ShardId(u16::MAX) }
}

/// Raises a server's clock. A lower clock changes nothing.
fn raise(clocks: &mut BTreeMap<ServerId, Clock>, server: ServerId, clock: Clock) {
    let known = clocks.entry(server).or_default();
    *known = clock.max(*known);
}

/// The first clock after `clock` that needs an evaluation: the next regular one, or the last of the run if that is
/// sooner.
fn next_evaluation(config: &CoordinatorConfig, clock: Clock) -> Clock {
    let every = config.evaluate_every;
    let regular = (clock.0 / every + 1) * every;
    let last = config.stop.clocks.filter(|last| *last > clock.0);
    Clock(last.map_or(regular, |last| regular.min(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BSP: Lockstep = Lockstep { within: Staleness(0), between: 1 };

    fn coordinator(stop: StopRules, lockstep: Option<Lockstep>) -> Coordinator {
        let dcs = [DcId(0), DcId(1)];
        Coordinator::new(CoordinatorConfig {
            servers: dcs.map(|dc| ServerId { dc, shard: ShardId(0) }).into(),
            workers: dcs.map(|dc| WorkerId { dc, index: 0 }).into(),
            stop,
            scale: Scale::default(),
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
        let mut evaluated = Vec::new();
        for clock in 1..=3 {
            for dc in 0..2 {
                run.handle_copy_ready(ServerId { dc: DcId(dc), shard: ShardId(0) }, Clock(clock));
            }
            while let Some(output) = run.poll_output() {
                if let CoordinatorOutput::Evaluate { clock } = output {
                    evaluated.push(clock.0);
                }
            }
        }
        assert_eq!(evaluated, [2, 3]);
    }

    #[test]
    fn where_a_stop_comes_late_all_go_on_to_the_furthest() {
        let rules = StopRules { seconds: Some(1.0), ..StopRules::default() };
        let mut run = coordinator(rules, Some(BSP));
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
        assert_eq!(run.poll_output(), None, "no server has reported the clock before");
        for dc in [DcId(0), DcId(1)] {
            run.handle_clock_finished(ServerId { dc, shard: ShardId(0) }, Clock(1));
        }
        assert_eq!(run.poll_output(), Some(CoordinatorOutput::Stop { last: Clock(2), reason }));
        assert_eq!(run.poll_output(), None);
        run.handle_worker_stopped(workers[0], Clock(2));
        assert!(matches!(run.poll_output(), Some(CoordinatorOutput::Drain { .. })));
    }

    /// Rounds of 5 clocks with an overlap of 4. The slower data center is honest, and its reports are late.
    #[test]
    fn a_data_center_that_is_a_round_ahead_stops_where_it_is() {
        let rounds = Lockstep { within: Staleness(0), between: 9 };
        let mut run = coordinator(StopRules::default(), Some(rounds));
        run.handle_start();
        run.outputs.clear();
        let [slow, fast] = [0, 1].map(|dc| ServerId { dc: DcId(dc), shard: ShardId(0) });
        let workers = [0, 1].map(|dc| WorkerId { dc: DcId(dc), index: 0 });
        run.handle_clock_finished(slow, Clock(2));
        run.handle_clock_finished(fast, Clock(13));
        run.handle_interrupted();
        let reason = StopReason::Interrupted;
        let stop = |last| Some(CoordinatorOutput::Stop { last: Clock(last), reason });
        assert_eq!(
            run.poll_output(),
            stop(12),
            "9 ahead of what is known, and the clock in progress"
        );

        run.handle_worker_stopped(workers[1], Clock(14));
        run.handle_worker_stopped(workers[0], Clock(12));
        assert_eq!(run.poll_output(), None, "the clock of the faster one is not believed yet");
        run.handle_clock_finished(slow, Clock(12));
        assert_eq!(run.poll_output(), stop(14));
        run.handle_clock_finished(slow, Clock(13));
        run.handle_worker_stopped(workers[0], Clock(14));
        assert!(matches!(run.poll_output(), Some(CoordinatorOutput::Drain { .. })));
    }

    #[test]
    fn a_run_goes_from_start_to_finish() {
        let rules = StopRules { clocks: Some(2), ..StopRules::default() };
        let mut run = coordinator(rules, Some(BSP));
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
        let evaluated = |run: &mut Coordinator| {
            let outputs = std::mem::take(&mut run.outputs).into_iter();
            let clocks = outputs.filter_map(|output| match output {
                CoordinatorOutput::Evaluate { clock } => Some(clock.0),
                _ => None,
            });
            clocks.collect::<Vec<u64>>()
        };

        run.handle_copy_ready(server(0), Clock(2));
        assert_eq!(evaluated(&mut run), [2], "the one that is there");
        run.handle_joined(DcId(1));
        run.handle_copy_ready(server(0), Clock(4));
        assert_eq!(evaluated(&mut run), [4], "without the copy that is on its way");
        run.handle_copy_ready(server(1), Clock(4));
        run.handle_copy_ready(server(0), Clock(6));
        assert_eq!(evaluated(&mut run), [0; 0], "with the copy that is behind");
        run.handle_left(&BTreeSet::from([DcId(1)]));
        run.advance();
        assert_eq!(evaluated(&mut run), [6]);
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
