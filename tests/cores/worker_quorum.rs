//! Clocks that end without all workers of a data center: where a late update goes, where its worker goes on, and that
//! each update counts once.

use std::sync::Arc;
use std::time::Duration;

use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::codec::ValueFormat;
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::server::{DrainMethod, TimeoutReason};
use gaia_core::sync::{
    AspConfig, Floor, LocalBspConfig, LocalSync, Policy, RemoteSync, WaitReason,
};
use gaia_core::types::{
    Clock, DcId, Deltas, DurationSetting, Model, ModelLayout, RowSet, ShardId, ShardLayout,
    TableDeltas, TableLayout, WorkerId,
};
use gaia_core::worker::{Worker, WorkerOutput};
use proptest::prelude::*;

use crate::cluster::{Cluster, Setup};
use crate::{asp, bsp, local_steps, ssp, tap};

/// Two data centers of four workers. Three of them finish a clock.
fn setup(remote: RemoteSync, grace: Duration) -> Setup {
    Setup {
        data_centers: 2,
        workers: 4,
        local: LocalSync::Bsp(LocalBspConfig { quorum: 0.75, grace: DurationSetting(grace) }),
        ..Setup::new(remote)
    }
}

fn cluster(remote: RemoteSync) -> Cluster {
    Cluster::new(&setup(remote, Duration::ZERO))
}

fn worker(dc: u16, index: u16) -> WorkerId {
    WorkerId { dc: DcId(dc), index }
}

/// The first three workers of both data centers finish a clock. Each changes the first parameter by 1.
fn step_others(cluster: &mut Cluster) {
    let others: Vec<WorkerId> =
        (0..2).flat_map(|dc| (0..3).map(move |index| worker(dc, index))).collect();
    others.iter().for_each(|other| cluster.ask_as(*other, &[]));
    others.iter().for_each(|other| cluster.finish_as(*other, &[(0, 1.0)]));
    cluster.settle();
}

fn copies(cluster: &Cluster) -> [[f32; 2]; 2] {
    [0, 1].map(|dc: usize| {
        let copy = cluster.servers[dc].copy();
        [copy[0], copy[1]]
    })
}

#[test]
fn a_clock_ends_without_the_slowest_worker_whose_update_joins_the_next() {
    let mut cluster = cluster(bsp(ValueFormat::F32));
    let slow = worker(0, 3);
    cluster.ask_as(slow, &[]);
    for _ in 0..3 {
        step_others(&mut cluster);
    }
    assert_eq!([0, 1].map(|dc: usize| cluster.servers[dc].clock()), [Clock(3); 2]);
    assert_eq!(copies(&cluster), [[18.0, 0.0]; 2]);

    // It finishes the clock that it has begun, and goes on at the one that all others are at.
    cluster.finish_as(slow, &[(1, 100.0)]);
    assert_eq!(
        cluster.servers[0].values()[1],
        100.0,
        "its own data center sees the change at once"
    );
    assert_eq!(copies(&cluster), [[18.0, 0.0]; 2], "the clock that it joins has not ended");
    cluster.ask_as(slow, &[]);
    let reply = cluster.answer_to(slow).unwrap();
    assert_eq!((reply.clock, reply.at), (Clock(1), Clock(3)));
    assert_eq!(reply.values[..2], [18.0, 100.0]);

    step_others(&mut cluster);
    assert_eq!(copies(&cluster), [[24.0, 100.0]; 2]);
    cluster.finish_as(slow, &[(1, 1.0)]);
    assert_eq!(cluster.clock_of(slow), Clock(4));
    step_others(&mut cluster);
    assert_eq!(copies(&cluster), [[30.0, 101.0]; 2]);
}

#[test]
fn a_worker_that_is_not_late_waits_for_a_quorum() {
    let mut cluster = cluster(tap(ValueFormat::F32));
    assert!(cluster.step_as(worker(0, 0), &[]) && cluster.step_as(worker(0, 1), &[]));
    assert!(!cluster.step_as(worker(0, 0), &[]), "two of four have finished the clock");
    let slowest = Some(WaitReason::LocalWorker { worker: worker(0, 2) });
    assert_eq!(cluster.servers[0].waiting(), slowest);
    assert!(cluster.step_as(worker(0, 2), &[]));
    assert_eq!(cluster.servers[0].clock(), Clock(1));
    assert!(cluster.step_as(worker(0, 0), &[]));
}

#[test]
fn the_grace_lets_an_update_in_that_is_a_little_late_and_waits_no_longer() {
    let grace = Duration::from_millis(40);
    for comes in [true, false] {
        let mut cluster = Cluster::new(&setup(tap(ValueFormat::F32), grace));
        (0..3).for_each(|index| assert!(cluster.step_as(worker(0, index), &[])));
        let end = cluster.now + grace;
        assert_eq!(cluster.servers[0].clock(), Clock(0), "the fourth may still come");
        assert_eq!(cluster.servers[0].poll_timeout(), Some((end, TimeoutReason::Grace)));
        cluster.pass(Duration::from_millis(30));
        if comes {
            assert!(cluster.step_as(worker(0, 3), &[]));
        } else {
            assert!(cluster.wake(0));
            assert_eq!(cluster.now, end);
        }
        assert_eq!(cluster.servers[0].clock(), Clock(1));
        assert_eq!(cluster.servers[0].poll_timeout(), None, "no quorum of the next clock is in");
    }
}

/// The last clock of a run has ended when the update arrives. The drain brings it to all.
#[test]
fn an_update_that_is_late_for_the_last_clock_reaches_all_data_centers() {
    for remote in [bsp(ValueFormat::F32), ssp(2)] {
        let mut cluster = cluster(remote);
        let slow = worker(0, 3);
        cluster.ask_as(slow, &[]);
        step_others(&mut cluster);
        step_others(&mut cluster);
        cluster.finish_as(slow, &[(1, 100.0)]);
        cluster.ask_as(worker(1, 3), &[]);
        cluster.finish_clocks_as(worker(1, 3));
        catch_up(&mut cluster, slow, Clock(2));
        cluster.drain();
        assert_eq!(copies(&cluster), [[12.0, 100.0]; 2]);
    }
}

/// A worker that is ordered to stop at a clock which its data center has reached without it.
fn catch_up(cluster: &mut Cluster, slow: WorkerId, last: Clock) {
    while cluster.clock_of(slow) < last {
        cluster.ask_as(slow, &[]);
        let at = cluster.answer_to(slow).expect("its data center is at the last clock").at;
        assert_eq!(at, last);
        cluster.finish_clocks_as(slow);
    }
}

/// A worker of two servers, of which one is a clock ahead of the other.
fn worker_of_two_servers() -> Worker {
    struct Idle(Arc<ModelLayout>);
    impl Task for Idle {
        fn rows(&mut self, _: Clock) -> RowSet {
            RowSet::all(&self.0)
        }

        fn iterate(&mut self, clock: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
            let tables = vec![TableDeltas::all(vec![1.0 + clock.0 as f32; 2])];
            Ok((Deltas { tables }, Work::default()))
        }
    }
    let table = TableLayout { name: "a".into(), rows: 2, width: 1 };
    let layout = Arc::new(ModelLayout::new(vec![table]));
    let shards = ShardLayout::all(&layout, 2);
    let mut worker =
        Worker::new(worker(0, 0), layout.clone(), shards, Box::new(Idle(layout)), None);
    worker.handle_start();
    worker
}

/// One of the two servers' replies to a read at a clock.
fn reply(clock: Clock, at: u64) -> RowsRead {
    let (values, held, probes) = (vec![0.0].into(), Vec::new(), Vec::new());
    RowsRead { clock, at: Clock(at), values, held, probes, keeps: false, stretch: None }
}

fn answer(worker: &mut Worker, at: [u64; 2]) {
    let reads = std::iter::from_fn(|| worker.poll_output()).collect::<Vec<_>>();
    assert_eq!(reads.len(), 2, "a read from each server: {reads:?}");
    for (shard, at) in (0..).zip(at) {
        let rows = reply(worker.clock(), at);
        assert!(worker.expects(ShardId(shard), &rows));
        worker.handle_rows(ShardId(shard), rows);
    }
}

/// The clocks, from and to, of the updates that a worker sends, with their first change.
fn updates(worker: &mut Worker) -> Vec<(u64, u64, f32)> {
    let mut updates = Vec::new();
    while let Some(output) = worker.poll_output() {
        if let WorkerOutput::ToServer {
            message: WorkerMessage::Update { clock, at, deltas, .. },
            ..
        } = output
        {
            let first = deltas.tables().flat_map(|(_, changes)| changes.values.first().copied());
            updates.push((clock.0, at.0, first.sum()));
        } else {
            assert!(!matches!(output, WorkerOutput::Compute), "it has run");
        }
        if updates.len() == 2 {
            break;
        }
    }
    updates
}

#[test]
fn a_worker_is_at_the_latest_clock_of_its_servers() {
    let mut worker = worker_of_two_servers();
    answer(&mut worker, [4, 5]);
    assert!(matches!(worker.poll_output(), Some(WorkerOutput::Compute)));
    worker.compute().unwrap();
    worker.handle_computed();
    assert_eq!(updates(&mut worker), [(0, 5, 1.0); 2]);
    assert_eq!(worker.clock(), Clock(6));
}

#[test]
fn a_worker_whose_data_center_has_reached_its_last_clock_runs_no_iteration() {
    let mut worker = worker_of_two_servers();
    worker.handle_stop(Clock(5));
    answer(&mut worker, [5, 4]);
    assert_eq!(updates(&mut worker), [(0, 4, 0.0); 2], "it finishes the clocks without a change");
    assert!(matches!(worker.poll_output(), Some(WorkerOutput::Stopped { clock: Clock(5) })));

    // It goes on if it has to stop later after all.
    worker.handle_stop(Clock(7));
    answer(&mut worker, [5, 5]);
    assert!(matches!(worker.poll_output(), Some(WorkerOutput::Compute)));
}

#[test]
fn a_reply_of_a_clock_before_the_read_is_not_expected() {
    let worker = worker_of_two_servers();
    for (at, expected) in [(0, true), (3, true), (u64::MAX, false)] {
        let rows = reply(Clock(0), at);
        assert_eq!(worker.expects(ShardId(0), &rows), expected, "{at}");
    }
}

fn remotes() -> Vec<RemoteSync> {
    let mut rounds = local_steps(2, ValueFormat::F32);
    (rounds.outer_learning_rate, rounds.quorum) = (1.0, 1.0);
    let late_rounds = gaia_core::sync::LocalStepsConfig { quorum: 0.5, ..rounds.clone() };
    vec![
        bsp(ValueFormat::F32),
        ssp(1),
        tap(ValueFormat::F32),
        RemoteSync::Asp(AspConfig { floor: Floor::Zero, ..asp(Policy::Link, ValueFormat::F32) }),
        RemoteSync::LocalSteps(rounds),
        RemoteSync::LocalSteps(late_rounds),
    ]
}

proptest! {
    /// Workers of any speed, and frames that leave at any time: each change is in all copies once.
    #[test]
    fn each_update_counts_once_whatever_the_order(
        model in 0..remotes().len(),
        quorum in prop::sample::select(vec![0.3, 0.5, 0.75]),
        turns in prop::collection::vec((0_u16..2, 0_u16..4, prop::bool::ANY), 1..80),
    ) {
        let remote = remotes().remove(model);
        let is_lockstep = !matches!(&remote, RemoteSync::Tap(_) | RemoteSync::Asp(_))
            && !matches!(&remote, RemoteSync::LocalSteps(config) if config.has_quorum());
        let grace = DurationSetting(Duration::ZERO);
        let local = LocalSync::Bsp(LocalBspConfig { quorum, grace });
        let drain = DrainMethod::Residuals;
        let mut cluster =
            Cluster::new(&Setup { local, drain, ..setup(remote, Duration::ZERO) });
        for (number, (dc, index, settles)) in (0..).zip(turns) {
            cluster.step_as(worker(dc, index), &[(number % 8, 1.0)]);
            if settles {
                cluster.settle();
            }
        }
        cluster.settle();

        let all: Vec<WorkerId> =
            (0..2).flat_map(|dc| (0..4).map(move |index| worker(dc, index))).collect();
        // Those that compute finish it. In lockstep all go on to the same clock.
        for worker in &all {
            if cluster.answer_to(*worker).is_some() {
                cluster.finish_as(*worker, &[(0, 1.0)]);
            }
        }
        cluster.settle();
        let last = all.iter().map(|worker| cluster.clock_of(*worker)).max().unwrap();
        while is_lockstep && all.iter().any(|worker| cluster.clock_of(*worker) < last) {
            for worker in &all {
                if cluster.clock_of(*worker) < last {
                    cluster.stop_step_as(*worker, last, &[(1, 1.0)]);
                }
            }
            cluster.settle();
        }
        cluster.drain();
        let expected = cluster.everything();
        for server in &cluster.servers {
            prop_assert_eq!(server.values(), &expected[..]);
        }
    }
}
