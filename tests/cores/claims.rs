//! What nodes claim of themselves to the coordinator: it believes what they can know, and what its own orders allow.

use std::collections::BTreeSet;

use gaia_core::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorOutput, Lockstep, Scale, StopReason, StopRules,
};
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::types::{Clock, DcId, ServerId, ShardId, Staleness, WorkerId};

const SERVER: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
const HONEST: WorkerId = WorkerId { dc: DcId(0), index: 0 };
const HOSTILE: WorkerId = WorkerId { dc: DcId(0), index: 1 };

/// A run of one data center with two workers, which has begun.
fn begun(lockstep: Option<Lockstep>) -> Coordinator {
    begun_with(vec![SERVER], vec![HONEST, HOSTILE], lockstep)
}

fn begun_with(
    servers: Vec<ServerId>,
    workers: Vec<WorkerId>,
    lockstep: Option<Lockstep>,
) -> Coordinator {
    let mut run = Coordinator::new(CoordinatorConfig {
        servers,
        workers,
        stop: StopRules { clocks: Some(5), ..StopRules::default() },
        scale: Scale::default(),
        evaluate_every: 5,
        lockstep,
        inactive: BTreeSet::new(),
    });
    run.handle_start();
    assert_eq!(run.poll_output(), Some(CoordinatorOutput::Start));
    run
}

/// That of BSP with this staleness within a data center.
fn lockstep(staleness: u64) -> Lockstep {
    Lockstep { within: Staleness(staleness), between: 1 }
}

/// All workers have finished a clock, at which the run is stopped.
fn stop_at(run: &mut Coordinator, clock: Clock) {
    run.handle_clock_finished(SERVER, clock);
    run.handle_interrupted();
    let stop = run.poll_output();
    assert!(matches!(stop, Some(CoordinatorOutput::Stop { .. })), "{stop:?}");
}

fn drain(clocks: [u64; 2]) -> Option<CoordinatorOutput> {
    let clocks = clocks.map(Clock).into();
    Some(CoordinatorOutput::Drain { dc: DcId(0), clocks, inactive: BTreeSet::new() })
}

#[test]
fn a_worker_that_says_it_has_stopped_before_it_was_ordered_to_is_not_believed() {
    for lockstep in [None, Some(lockstep(0))] {
        let mut run = begun(lockstep);
        run.handle_worker_stopped(HOSTILE, Clock(3));
        assert!(!run.has_ordered_stop());
        assert_eq!(run.stopped_at(HOSTILE), None);

        stop_at(&mut run, Clock(7));
        assert!(run.has_ordered_stop());
        run.handle_worker_stopped(HONEST, Clock(8));
        assert_eq!(run.poll_output(), None, "it drains at no clock of before");
        run.handle_worker_stopped(HOSTILE, Clock(8));
        assert_eq!(run.poll_output(), drain([8, 8]));
        run.handle_worker_stopped(HOSTILE, Clock(9));
        assert_eq!(run.stopped_at(HOSTILE), Some(Clock(8)), "the drain is ordered");
    }
}

/// All go on to the clock of the furthest worker, so that one that lies would make them train for ever.
#[test]
fn in_lockstep_nobody_goes_on_to_a_clock_that_the_servers_do_not_know_of() {
    for staleness in [0, 2] {
        let mut run = begun(Some(lockstep(staleness)));
        stop_at(&mut run, Clock(7));
        run.handle_worker_stopped(HONEST, Clock(8));
        run.handle_worker_stopped(HOSTILE, Clock(CLOCK_MAX));
        assert_eq!(run.poll_output(), None);
        run.handle_clock_finished(SERVER, Clock(8));
        assert_eq!(run.poll_output(), None);
    }
}

/// The report of the worker overtakes that of its server.
#[test]
fn in_lockstep_a_clock_counts_once_its_servers_have_reported_those_before() {
    let mut run = begun(Some(lockstep(0)));
    stop_at(&mut run, Clock(7));
    run.handle_worker_stopped(HONEST, Clock(8));
    run.handle_worker_stopped(HOSTILE, Clock(9));
    assert_eq!(run.poll_output(), None);

    run.handle_clock_finished(SERVER, Clock(8));
    let (last, reason) = (Clock(9), StopReason::Interrupted);
    assert_eq!(run.poll_output(), Some(CoordinatorOutput::Stop { last, reason }));
    run.handle_worker_stopped(HONEST, Clock(9));
    assert_eq!(run.poll_output(), drain([9, 9]));
}

/// A data center whose server and worker lie alike would else make all others train to a clock that no run has.
#[test]
fn in_lockstep_nobody_goes_on_to_a_clock_that_one_data_center_alone_claims() {
    let dcs = [DcId(0), DcId(1)];
    let [honest, hostile] = dcs.map(|dc| ServerId { dc, shard: ShardId(0) });
    let [worker, accomplice] = dcs.map(|dc| WorkerId { dc, index: 0 });
    let mut run = begun_with(vec![honest, hostile], vec![worker, accomplice], Some(lockstep(0)));
    run.handle_clock_finished(hostile, Clock(CLOCK_MAX));
    run.handle_clock_finished(honest, Clock(7));
    run.handle_interrupted();
    let (last, reason) = (Clock(9), StopReason::Interrupted);
    assert_eq!(run.poll_output(), Some(CoordinatorOutput::Stop { last, reason }));

    run.handle_worker_stopped(accomplice, Clock(CLOCK_MAX));
    for clock in [8, 9] {
        run.handle_clock_finished(honest, Clock(clock));
    }
    run.handle_worker_stopped(worker, Clock(9));
    assert_eq!(run.poll_output(), None, "it waits for a worker whose claim is not believed");
    let stopped = run.stopped_at(worker);
    assert_eq!(stopped, Some(Clock(9)), "which holds the others up, and moves them nowhere");
}
