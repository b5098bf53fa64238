//! Rounds with a quorum: who is waited for, where a late part goes, and that each part counts once.

use std::time::Duration;

use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::node::Lane;
use gaia_core::server::{DrainMethod, PeerError, TimeoutReason};
use gaia_core::sync::{
    Combine, LocalStepsConfig, LocalSync, Outer, Overlap, RemoteSync, WaitReason,
};
use gaia_core::types::{Clock, DcId, DurationSetting, Staleness, WorkerId};
use gaia_core::wire::{BulkHeader, BulkKind};
use proptest::prelude::*;

use crate::cluster::{Cluster, Setup};
use crate::local_steps;
use crate::peers::{bulk, header, state};

/// Rounds of `steps` clocks that two of three data centers close, without overlap.
fn rounds(steps: u64) -> LocalStepsConfig {
    let overlap = Overlap::Clocks(0);
    LocalStepsConfig { quorum: 0.6, overlap, ..local_steps(steps, ValueFormat::F32) }
}

fn cluster(config: LocalStepsConfig) -> Cluster {
    Cluster::new(&Setup::new(RemoteSync::LocalSteps(config)))
}

fn seen(cluster: &Cluster, dc: usize, parameter: usize) -> f32 {
    cluster.servers[dc].values()[parameter]
}

/// The clock of rounds.
fn round_clock(cluster: &Cluster, dc: usize) -> u64 {
    cluster.servers[dc].copy_ready().0
}

#[test]
fn a_round_closes_without_the_late_part_which_joins_the_next() {
    let mut cluster = cluster(rounds(2));
    for _ in 0..2 {
        assert!(cluster.step(0, &[(7, 1.0)]) && cluster.step(1, &[(7, 10.0)]));
    }
    assert!(cluster.step(2, &[(0, 100.0)]), "one of the two clocks of its round");
    for (from, to) in [(0, 1), (1, 0)] {
        cluster.carry(from, to, Lane::Data);
    }
    cluster.carry(0, 1, Lane::Data);
    assert_eq!(cluster.servers[0].waiting(), None);
    cluster.ask(0, &[]);
    let waiting = Some(WaitReason::Updates { from: DcId(2) });
    assert_eq!(cluster.servers[0].waiting(), waiting, "the third has not closed its block");

    // The third one has its totals of the others, and its own block by their parts.
    cluster.settle();
    assert_eq!([seen(&cluster, 0, 7), seen(&cluster, 1, 7), seen(&cluster, 2, 7)], [22.0; 3]);
    assert_eq!(round_clock(&cluster, 2), 2, "it has skipped a clock");
    assert_eq!(cluster.servers[2].clock(), Clock(1));

    // Its part of the first block came after the total of the first block.
    assert_eq!([seen(&cluster, 0, 0), seen(&cluster, 1, 0)], [0.0; 2]);
    assert_eq!(seen(&cluster, 2, 0), 100.0, "what no total includes stays in its copy");

    for _ in 0..2 {
        assert!(cluster.step(0, &[]) && cluster.step(1, &[]));
    }
    cluster.settle();
    assert_eq!([seen(&cluster, 0, 0), seen(&cluster, 1, 0), seen(&cluster, 2, 0)], [100.0; 3]);
    assert_eq!(seen(&cluster, 2, 7), 22.0);
}

/// A late part of initial values would be a gradient of the second round.
#[test]
fn the_first_round_waits_for_the_initial_values_of_all_and_later_ones_for_a_quorum() {
    let config = rounds(2);
    let setup = Setup::new(RemoteSync::LocalSteps(config));
    let mut cluster = Cluster::new(&Setup { is_initialized_by_workers: true, ..setup });
    for _ in 0..2 {
        assert!(cluster.step(0, &[(7, 1.0)]) && cluster.step(1, &[(7, 10.0)]));
    }
    assert!(cluster.step(2, &[(0, 100.0)]));
    cluster.settle();
    for dc in [0, 1] {
        cluster.ask(dc, &[]);
        let waiting = cluster.servers[usize::from(dc)].waiting();
        assert!(matches!(waiting, Some(WaitReason::Updates { .. })), "{waiting:?}");
    }
    assert_eq!(round_clock(&cluster, 2), 1, "it has skipped no clock");
    assert!(cluster.step(2, &[(0, 100.0)]));
    cluster.settle();
    for dc in 0..3 {
        assert_eq!([seen(&cluster, dc, 0), seen(&cluster, dc, 7)], [200.0, 22.0]);
    }

    for _ in 0..2 {
        assert!(cluster.step(0, &[(7, 1.0)]) && cluster.step(1, &[(7, 10.0)]));
    }
    cluster.settle();
    assert_eq!([seen(&cluster, 0, 7), seen(&cluster, 1, 7), seen(&cluster, 2, 7)], [44.0; 3]);
}

#[test]
fn a_slow_data_center_takes_part_in_every_round_with_fewer_steps() {
    let mut cluster = cluster(rounds(4));
    for round in 1..=6 {
        for _ in 0..4 {
            assert!(cluster.step(0, &[(0, 1.0)]) && cluster.step(1, &[(0, 1.0)]));
        }
        assert!(cluster.step(2, &[(1, 1.0)]));
        cluster.settle();
        assert_eq!([0, 1, 2].map(|dc| round_clock(&cluster, dc)), [4 * round; 3]);
        assert_eq!(cluster.servers[2].clock(), Clock(round));
        let included = seen(&cluster, 0, 1);
        assert!(included >= round as f32 - 1.0, "round {round} has {included} of its steps");
        assert_eq!(seen(&cluster, 2, 1), round as f32);
    }
}

#[test]
fn the_grace_lets_a_part_in_that_is_a_little_late_and_waits_no_longer() {
    let grace = DurationSetting(Duration::from_millis(40));
    let config = LocalStepsConfig { grace, ..rounds(1) };
    for comes in [true, false] {
        let mut cluster = cluster(config.clone());
        assert!(cluster.step(0, &[(0, 1.0)]) && cluster.step(1, &[(0, 1.0)]));
        cluster.carry(0, 1, Lane::Data);
        cluster.carry(1, 0, Lane::Data);
        assert_eq!(seen(&cluster, 1, 0), 1.0, "the others may still come");
        let (at, reason) = cluster.servers[0].poll_timeout().unwrap();
        assert_eq!((at, reason), (cluster.now + grace.0, TimeoutReason::Grace));

        cluster.pass(Duration::from_millis(30));
        if comes {
            assert!(cluster.step(2, &[(0, 1.0)]));
            cluster.settle();
            assert_eq!([0, 1, 2].map(|dc| seen(&cluster, dc, 0)), [3.0; 3]);
        } else {
            (0..2).for_each(|dc| assert!(cluster.wake(dc), "each is home to a block"));
            cluster.settle();
            assert_eq!([0, 1, 2].map(|dc| seen(&cluster, dc, 0)), [2.0; 3]);
        }
        assert_eq!(cluster.servers[0].poll_timeout(), None, "no quorum of the next round is in");
    }
}

#[test]
fn a_late_home_that_has_a_quorum_begins_its_round_within_the_grace_of_others() {
    let grace = DurationSetting(Duration::from_millis(40));
    let mut cluster = cluster(LocalStepsConfig { grace, ..rounds(2) });
    for _ in 0..2 {
        assert!(cluster.step(0, &[(0, 1.0)]) && cluster.step(1, &[(0, 1.0)]));
    }
    assert!(cluster.step(2, &[(0, 100.0)]), "one of the two clocks of its round");
    cluster.settle();
    assert_eq!([0, 1, 2].map(|dc| seen(&cluster, dc, 0)), [104.0; 3]);
}

/// Two halves of the data centers can wait for each other, each at another server.
#[test]
fn a_home_begins_a_round_that_others_have_begun_long_ago_if_workers_can_wait_at_another_server() {
    for servers in [1, 2] {
        let setup = Setup { servers, ..Setup::new(RemoteSync::LocalSteps(rounds(2))) };
        let mut cluster = Cluster::new(&setup);
        let second = Duration::from_secs(1);
        for _ in 0..2 {
            cluster.pass(second);
            for dc in 0..3 {
                assert!(cluster.step(dc, &[(0, 1.0)]));
            }
        }
        cluster.pass(second);
        cluster.settle();
        assert_eq!([0, 1, 2].map(|dc| round_clock(&cluster, dc)), [2; 3]);

        // The others' workers wait elsewhere, after one clock of the next round.
        assert!(cluster.step(0, &[]) && cluster.step(0, &[(0, 1.0)]) && cluster.step(1, &[]));
        cluster.settle();
        assert!(!cluster.step(0, &[]), "a quorum is missing");
        let timeout = cluster.servers[1].poll_timeout();
        if servers == 1 {
            assert_eq!(timeout, None, "whoever waits, waits here");
            continue;
        }
        // Rounds of a second after two clocks of a second each.
        let at = cluster.now + 6 * second;
        assert_eq!(timeout, Some((at, TimeoutReason::RoundNotBegun)));

        let early = cluster.now + (6 * second - Duration::from_nanos(1));
        cluster.servers[1].handle_timeout(early);
        assert_eq!(round_clock(&cluster, 1), 3, "its own workers may still come that far");
        assert!(cluster.wake(1));
        cluster.settle();
        assert_eq!([0, 1, 2].map(|dc| seen(&cluster, dc, 0)), [7.0; 3]);
        assert_eq!([0, 1, 2].map(|dc| round_clock(&cluster, dc)), [4; 3]);
        assert!(cluster.step(0, &[]));
        assert!((0..3).all(|dc| cluster.servers[dc].poll_timeout().is_none()));
    }
}

/// The parts of the third data center do not reach the first one, which closes its rounds without them, but not for ever.
#[test]
fn nobody_is_left_behind_by_more_than_four_rounds() {
    let mut cluster = cluster(rounds(1));
    let mut finished = 0;
    while cluster.step(1, &[(0, 1.0)]) {
        finished += 1;
        assert!(cluster.step(2, &[(0, 1.0)]) && finished < 20, "{finished}");
        let _ = cluster.step(0, &[]);
        for _ in 0..4 {
            for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 1)] {
                cluster.carry(from, to, Lane::Data);
            }
        }
    }
    assert_eq!(finished, 5, "four rounds are over, and the fifth has begun");

    cluster.settle();
    assert_eq!(seen(&cluster, 1, 0), 6.0, "the oldest of five late parts has closed the fifth");
    (0..3).for_each(|dc| assert!(cluster.step(dc, &[])));
    cluster.settle();
    assert_eq!([0, 1, 2].map(|dc| seen(&cluster, dc, 0)), [10.0; 3]);
}

#[test]
fn an_exact_drain_delivers_the_late_parts_by_either_method() {
    for (method, combine) in [
        (DrainMethod::Residuals, Combine::Sum),
        (DrainMethod::Residuals, Combine::Mean),
        (DrainMethod::Mean, Combine::Sum),
    ] {
        let config = LocalStepsConfig { combine, ..rounds(2) };
        let setup = Setup { drain: method, ..Setup::new(RemoteSync::LocalSteps(config)) };
        let mut cluster = Cluster::new(&setup);
        for _ in 0..2 {
            assert!(cluster.step(0, &[(0, 1.0)]) && cluster.step(1, &[(0, 1.0)]));
        }
        assert!(cluster.step(2, &[(0, 5.0)]));
        cluster.settle();
        assert_eq!(cluster.servers[0].copy()[0], 4.0, "the part of the third one is late");
        cluster.drain();
        let drained: Vec<f32> = cluster.servers.iter().map(|server| server.copy()[0]).collect();
        assert_eq!(drained, [9.0; 3], "{method:?} {combine:?}");
    }
}

#[test]
fn a_drain_awaits_all_however_different_the_clocks() {
    let setup =
        Setup { drain: DrainMethod::Residuals, ..Setup::new(RemoteSync::LocalSteps(rounds(3))) };
    let mut cluster = Cluster::new(&setup);
    for clock in 0..7 {
        for dc in 0..2 {
            assert!(cluster.step(dc, &[(3, 1.0)]), "{clock}");
        }
        cluster.settle();
    }
    assert!(cluster.step(2, &[(3, 1.0)]));
    assert!(cluster.step(0, &[(3, 1.0)]));
    cluster.drain();
    for server in &cluster.servers {
        assert_eq!(server.copy(), cluster.everything());
    }
}

/// Who gets the next turn, and what for.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Worker(usize),
    Send(usize, usize),
    Deliver(usize),
    Wake(u16),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (0_usize..6).prop_map(Turn::Worker),
        4 => (0_usize..6, 1_usize..64).prop_map(|(link, room)| Turn::Send(link, room)),
        4 => (0_usize..6).prop_map(Turn::Deliver),
        1 => (0_u16..3).prop_map(Turn::Wake),
    ]
}

/// Six workers of three data centers, the n-th of which adds one to the n-th parameter in each clock. Ends once the fastest
/// has finished all clocks.
fn run(
    cluster: &mut Cluster,
    clocks: u64,
    order: &[Turn],
    mut on_read: impl FnMut(usize, u64, &[f32]),
) {
    let workers: Vec<WorkerId> =
        cluster.dcs().flat_map(|dc| (0..2).map(move |index| WorkerId { dc, index })).collect();
    let pairs = cluster.pairs();
    let fair = (0..6).flat_map(|at| [Turn::Send(at, 16), Turn::Deliver(at), Turn::Worker(at)]);
    let order: Vec<Turn> =
        order.iter().copied().chain(fair).chain([0, 1, 2].map(Turn::Wake)).collect();
    for turn in order.iter().cycle().take(100_000) {
        match *turn {
            Turn::Worker(number) => {
                let worker = workers[number];
                let clock = cluster.clock_of(worker);
                if let Some(reply) = cluster.answer_to(worker) {
                    on_read(number, clock.0, &reply.values);
                    cluster.finish_as(worker, &[(number as u32, 1.0)]);
                } else if clock.0 < clocks && !cluster.has_asked(worker) {
                    cluster.ask_as(worker, &[]);
                }
            }
            Turn::Send(link, room) => {
                cluster.send(pairs[link].0.0, pairs[link].1.0, Lane::Data, room);
            }
            Turn::Deliver(link) => {
                cluster.deliver(pairs[link].0.0, pairs[link].1.0, Lane::Data);
            }
            Turn::Wake(dc) => {
                cluster.wake(dc);
            }
        }
        if workers.iter().any(|worker| cluster.clock_of(*worker).0 == clocks) {
            return;
        }
    }
    panic!("the run is stuck");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However late each data center and link is, wherever the run ends.
    #[test]
    fn each_part_counts_once_and_a_worker_sees_all_its_own_updates(
        order in prop::collection::vec(turn(), 0..300),
        steps in 1_u64..6,
        fragments in 1_u64..4,
        overlap in 0_u64..6,
        ahead in 0_u64..3,
        quorum in prop::sample::select(vec![0.01, 0.5, 0.9]),
        grace in prop::sample::select(vec![0, 5]),
        combine in prop::sample::select(vec![Combine::Sum, Combine::Mean]),
        // The formats that hold sums of late parts, which are whole numbers.
        format in prop::sample::select(vec![ValueFormat::F32, ValueFormat::Bf16, ValueFormat::Int8]),
    ) {
        let (fragments, overlap) = (fragments.min(steps), overlap.min(steps - 1));
        let config = LocalStepsConfig {
            fragments,
            overlap: Overlap::Clocks(overlap),
            combine,
            quorum,
            grace: DurationSetting(Duration::from_millis(grace)),
            ..local_steps(steps, format)
        };
        let mut cluster = Cluster::new(&Setup {
            workers: 2,
            parameters: 6,
            local: LocalSync::Ssp { staleness: Staleness(ahead) },
            drain: DrainMethod::Residuals,
            ..Setup::new(RemoteSync::LocalSteps(config))
        });
        run(&mut cluster, 13, &order, |reader, clock, values| {
            assert_eq!(values[reader], clock as f32, "a worker sees all its own updates, once");
        });
        cluster.drain();
        let expected = cluster.everything();
        for server in &cluster.servers {
            prop_assert_eq!(server.copy(), &expected[..]);
        }
    }

    #[test]
    fn sparse_rounds_with_a_quorum_and_momentum_lose_nothing(
        order in prop::collection::vec(turn(), 0..300),
        steps in 1_u64..5,
        quorum in prop::sample::select(vec![0.3, 0.6]),
        density in prop::sample::select(vec![0.01, 0.4, 1.0]),
        total_density in prop::sample::select(vec![0.3, 1.0]),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
        outer in prop::sample::select(vec![Outer::Plain, Outer::Nesterov]),
        (combine, drift_correction) in
            prop::sample::select(vec![(Combine::Sum, 0.0), (Combine::Mean, 0.5)]),
    ) {
        let config = LocalStepsConfig {
            density,
            total_density,
            quorum,
            outer,
            combine,
            drift_correction,
            ..local_steps(steps, format)
        };
        let mut cluster = Cluster::new(&Setup {
            workers: 2,
            parameters: 6,
            drain: DrainMethod::Residuals,
            ..Setup::new(RemoteSync::LocalSteps(config))
        });
        run(&mut cluster, 13, &order, |_, _, _| {});
        cluster.drain();
        let expected = cluster.everything();
        for server in &cluster.servers {
            prop_assert_eq!(server.copy(), cluster.servers[0].copy());
            for (value, expected) in server.copy().iter().zip(&expected) {
                let is_equal = outer == Outer::Nesterov || (value - expected).abs() < 1e-3;
                prop_assert!(is_equal, "{value} {expected}");
            }
        }
    }
}

#[test]
fn numbers_of_missing_parts_that_cannot_be_are_refused_and_change_nothing() {
    let from = DcId(1);
    let remote = RemoteSync::LocalSteps(LocalStepsConfig { quorum: 0.5, ..rounds(3) });
    let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
    let header = BulkHeader { clock: Clock(3), ..header(BulkKind::Missing, 1) };

    // The block of the second is the parameters 4 to 7. This one has sent no part, and sends one with the total.
    for found in [0.0, 0.5, 2.0, -1.0, 1e9] {
        let before = state(&cluster);
        let count = Changes::Sparse { indexes: &[4], values: &[found] };
        let given = cluster.give(1, 0, Lane::Data, bulk(&header, count)).unwrap_err();
        let expected = PeerError::PeerSentWrongCount { from, found, most: 1 };
        assert_eq!(given.to_string(), expected.to_string());
        assert_eq!(state(&cluster), before);
    }
    let count = Changes::Sparse { indexes: &[4], values: &[1.0] };
    cluster.give(1, 0, Lane::Data, bulk(&header, count)).unwrap();

    let none = Changes::Sparse { indexes: &[], values: &[] };
    let remote = RemoteSync::LocalSteps(local_steps(3, ValueFormat::F32));
    for kind in [BulkKind::Missing, BulkKind::Closed] {
        let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote.clone()) });
        let header = BulkHeader { kind, ..header };
        let found = kind.name();
        let expected = PeerError::PeerSentUnexpectedKind { from, found, sync: "local-steps" };
        assert_eq!(cluster.give(1, 0, Lane::Data, bulk(&header, none)), Err(expected));
    }
}
