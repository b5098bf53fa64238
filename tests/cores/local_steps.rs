//! Local steps: what a round adds up to, what goes on meanwhile, and that all end with the same bits.

use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::node::Lane;
use gaia_core::server::{DrainMethod, PeerError};
use gaia_core::sync::{
    Combine, LocalStepsConfig, LocalSync, Outer, Overlap, RemoteSync, WaitReason,
};
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::types::{Clock, DcId, Staleness, WorkerId};
use gaia_core::wire::{BulkHeader, BulkKind};
use proptest::prelude::*;

use crate::cluster::{Cluster, ROOM, Setup};
use crate::peers::{bulk, header, state};
use crate::{UNEVEN, bsp, local_steps, rounds_of_scripts};

fn cluster(config: LocalStepsConfig) -> Cluster {
    Cluster::new(&Setup::new(RemoteSync::LocalSteps(config)))
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Numbers that sums in another order would round otherwise.
fn uneven(dc: u16, clock: u64, at: u32) -> f32 {
    let mixed = (u64::from(at) * 31 + clock * 17 + u64::from(dc) * 7) % 23;
    (mixed as f32 - 11.0) * 0.1 + 1e-7 * mixed as f32
}

#[test]
fn one_step_without_overlap_is_bsp_to_the_bit() {
    for data_centers in 1..5 {
        for (parameters, shares) in [(1, vec![]), (3, vec![]), (40, vec![]), (40, UNEVEN.to_vec())]
        {
            let setup =
                |remote, shares| Setup { data_centers, parameters, shares, ..Setup::new(remote) };
            let remote = RemoteSync::LocalSteps(local_steps(1, ValueFormat::F32));
            let mut rounds = Cluster::new(&setup(remote, shares));
            let mut exchange = Cluster::new(&setup(bsp(ValueFormat::F32), Vec::new()));
            for clock in 0..6 {
                for dc in rounds.dcs() {
                    let places = (0..parameters as u32)
                        .filter(|at| !(at + u32::from(dc.0)).is_multiple_of(3));
                    let changes: Vec<(u32, f32)> =
                        places.map(|at| (at, uneven(dc.0, clock, at))).collect();
                    assert!(rounds.step(dc.0, &changes) && exchange.step(dc.0, &changes));
                }
                rounds.settle();
                exchange.settle();
                for (a, b) in rounds.servers.iter().zip(&exchange.servers) {
                    assert_eq!(bits(a.values()), bits(b.values()));
                    assert_eq!(bits(a.copy()), bits(b.copy()));
                }
            }
        }
    }
}

/// A round takes what was there when it began, and leaves what came after.
#[test]
fn progress_during_a_round_stays_when_the_round_ends() {
    let mut cluster = cluster(local_steps(2, ValueFormat::F32));
    for dc in 0..3 {
        assert!(cluster.step(dc, &[(0, 1.0)]));
        assert!(cluster.step(dc, &[(0, f32::from(dc))]));
    }
    assert!(cluster.step(0, &[(0, 10.0)]), "the round overlaps");
    assert_eq!(cluster.servers[0].values()[0], 11.0);
    cluster.settle();
    // All data centers' two steps, and the one that no round has taken.
    assert_eq!(cluster.servers[0].values()[0], 6.0 + 10.0);
    assert_eq!(cluster.servers[1].values()[0], 6.0);
}

#[test]
fn a_data_center_waits_once_a_round_has_taken_longer_than_the_overlap() {
    for (steps, fragments, overlap) in [(1, 1, 0), (3, 1, 0), (3, 1, 2), (4, 2, 3), (6, 3, 1)] {
        let config = LocalStepsConfig {
            fragments,
            overlap: Overlap::Clocks(overlap),
            ..local_steps(steps, ValueFormat::F32)
        };
        let mut cluster = cluster(config);
        let mut finished = 0;
        while cluster.step(0, &[(7, 1.0)]) {
            finished += 1;
        }
        assert_eq!(finished, steps / fragments + overlap);
        // It is itself home to the first block, of which the others' parts are missing.
        let waiting = cluster.servers[0].waiting();
        assert_eq!(waiting, Some(WaitReason::Updates { from: DcId(1) }));
        for dc in 1..3 {
            while cluster.step(dc, &[]) {}
        }
        cluster.settle();
        assert!(cluster.answer(0).is_some(), "{steps} {fragments} {overlap}");
    }
}

/// A data center that takes its own changes for everyone's must know who else makes any.
#[test]
fn the_mean_counts_own_changes_as_often_as_there_are_workers_who_change_the_parameter() {
    let mean =
        |steps| LocalStepsConfig { combine: Combine::Mean, ..local_steps(steps, ValueFormat::F32) };
    let mut cluster = cluster(mean(2));
    // All change the fifth parameter, two the sixth, one the seventh.
    let of = [vec![(4, 1.0), (5, 1.0)], vec![(4, 2.0), (5, 3.0)], vec![(4, -6.0), (6, 1.0)]];
    let seen = |cluster: &Cluster, dc: usize| cluster.servers[dc].values()[4..7].to_vec();
    for dc in 0..3 {
        assert!(cluster.step(dc, &of[usize::from(dc)]));
        assert!(cluster.step(dc, &[]));
    }
    assert_eq!(seen(&cluster, 1), [2.0, 3.0, 0.0], "no update has arrived yet");
    cluster.settle();
    (0..3).for_each(|dc| assert_eq!(seen(&cluster, dc), [-3.0, 4.0, 1.0]));
    for dc in 0..3 {
        assert!(cluster.step(dc, &of[usize::from(dc)]));
    }
    assert_eq!(seen(&cluster, 0), [-3.0 + 3.0, 4.0 + 2.0, 1.0]);
    assert_eq!(seen(&cluster, 1), [-3.0 + 6.0, 4.0 + 6.0, 1.0]);
    assert_eq!(seen(&cluster, 2), [-3.0 - 18.0, 4.0, 2.0]);
    (0..3).for_each(|dc| assert!(cluster.step(dc, &[])));
    // What comes while a round is under way counts like the rest of it.
    assert!(cluster.step(0, &[(4, 1.0)]));
    cluster.settle();
    assert_eq!(seen(&cluster, 0), [-6.0 + 3.0, 8.0, 2.0]);
    assert_eq!(seen(&cluster, 2), [-6.0, 8.0, 2.0]);
}

/// Of scripts, whose copies are to move by their own steps, no worker is counted. They may keep their changes up to a round.
#[test]
fn a_copy_moves_by_the_whole_steps_of_its_workers_where_deltas_are_shares() {
    let config = rounds_of_scripts();
    let remote = RemoteSync::LocalSteps(config.clone());
    let mut cluster = Cluster::new(&Setup { deltas_are_shares: true, ..Setup::new(remote) });
    let worker = WorkerId { dc: DcId(0), index: 0 };
    let stretch = |cluster: &Cluster| cluster.answer_to(worker).unwrap().stretch.unwrap();
    for round in 0..3 {
        let before = cluster.servers[0].values()[4];
        cluster.ask(0, &[]);
        let found = stretch(&cluster);
        assert_eq!((found.hands_over_at, found.factor), (Clock(2 * round + 1), 3.0));
        cluster.finish(0, &[(4, 1.0)]);
        assert_eq!(cluster.servers[0].values()[4], before + 3.0);
        (1..3).for_each(|dc| assert!(cluster.step(dc, &[])));
        (0..3).for_each(|dc| assert!(cluster.step(dc, &[])));
        cluster.settle();
        assert_eq!(cluster.servers[0].values()[4], before + 1.0);
    }

    let mut counted = Cluster::new(&Setup::new(RemoteSync::LocalSteps(config)));
    counted.ask(0, &[]);
    assert_eq!(counted.answer_to(worker).unwrap().stretch, None, "factors differ");
}

/// A drain that began without them would lose them: the orders of the coordinator come on another way.
#[test]
fn a_drain_waits_for_changes_that_a_worker_keeps() {
    for gives_up_a_read in [false, true] {
        let mut cluster = cluster(local_steps(4, ValueFormat::F32));
        for dc in 0..3 {
            cluster.ask(dc, &[]);
            cluster.finish_keeping(dc);
            if gives_up_a_read {
                cluster.ask(dc, &[]);
            }
            cluster.begin_drain(dc, vec![Clock(1)]);
        }
        cluster.settle();
        assert_eq!(cluster.drained, 0);
        for dc in 0..3 {
            cluster.hand_over(dc, &[(3, 3.0 * f32::from(dc))]);
        }
        cluster.settle();
        assert_eq!(cluster.drained, 3);
        (0..3).for_each(|dc| assert_eq!(cluster.servers[dc].values()[3], 3.0));
    }
}

/// What an answer lacks that was on its way when the worker handed over, the worker must not take for the copy.
#[test]
fn an_answer_says_whether_it_lacks_changes_that_the_worker_keeps() {
    let mut cluster = cluster(local_steps(8, ValueFormat::F32));
    let worker = WorkerId { dc: DcId(0), index: 0 };
    cluster.ask(0, &[]);
    assert!(!cluster.answer_to(worker).unwrap().keeps);
    cluster.finish_keeping(0);
    cluster.ask(0, &[]);
    let reply = cluster.answer_to(worker).unwrap();
    assert!(reply.keeps && reply.values.is_empty(), "the worker has the values");
    cluster.hand_over(0, &[(2, 5.0)]);
    cluster.ask(0, &[]);
    let reply = cluster.answer_to(worker).unwrap();
    assert!(!reply.keeps);
    assert_eq!(reply.values[2], 5.0);
    assert_eq!(cluster.servers[0].clock(), Clock(1), "handing over ends no clock");
}

/// A read that is held back for a round is given up by a worker that is stopped, and sent again if it goes on.
#[test]
fn a_held_read_is_forgotten_when_the_worker_hands_over() {
    let config =
        LocalStepsConfig { overlap: Overlap::Clocks(1), ..local_steps(2, ValueFormat::F32) };
    let mut cluster = cluster(config);
    assert!(cluster.step(0, &[(0, 1.0)]) && cluster.step(0, &[(0, 1.0)]));
    cluster.ask(0, &[]);
    cluster.finish_keeping(0);
    cluster.ask(0, &[]);
    assert!(cluster.answer(0).is_none() && cluster.servers[0].waiting().is_some());
    cluster.hand_over(0, &[(0, 4.0)]);
    assert_eq!(cluster.servers[0].waiting(), None);
    cluster.ask(0, &[]);
    for dc in 1..3 {
        assert!(cluster.step(dc, &[]) && cluster.step(dc, &[]));
    }
    cluster.settle();
    assert_eq!(cluster.answer(0).unwrap()[0], 6.0);
}

/// `v ← v/2 + g`, and the step is `(g + v/2)/2`.
#[test]
fn nesterovs_momentum_goes_on_where_the_changes_point() {
    let config = LocalStepsConfig {
        outer: Outer::Nesterov,
        outer_learning_rate: 0.5,
        outer_momentum: 0.5,
        ..local_steps(1, ValueFormat::F32)
    };
    let mut cluster = cluster(config);
    let mut expected = 0.0;
    for (change, step) in [(1.0, 0.75), (1.0, 0.875), (0.0, 0.1875), (-1.0, -0.65625)] {
        for dc in 0..3 {
            assert!(cluster.step(dc, &[(6, if dc == 1 { change } else { 0.0 })]));
        }
        cluster.settle();
        expected += step;
        cluster.servers.iter().for_each(|server| assert_eq!(server.values()[6], expected));
    }
}

/// Half a byte holds little of 1000 beside 1; what it does not hold follows in later rounds.
#[test]
fn what_rounding_kept_follows_until_all_copies_are_equal() {
    for format in ValueFormat::ALL {
        // Enough parameters that a step takes several frames.
        for (fragments, parameters) in [(1, 8), (2, 8), (1, 400)] {
            let config = LocalStepsConfig { fragments, ..local_steps(2, format) };
            let remote = RemoteSync::LocalSteps(config);
            let mut cluster = Cluster::new(&Setup { parameters, ..Setup::new(remote) });
            for clock in 0..40 {
                for dc in 0..3 {
                    let change = |at| if clock < 4 { 10.0 * uneven(dc, clock, at) } else { 0.0 };
                    let large = |at: u32| at.is_multiple_of(3) && (at / 70).is_multiple_of(2);
                    let scale = |at: u32| if large(at) { 1000.0 } else { 1.0 };
                    let changes: Vec<(u32, f32)> = (0..parameters as u32)
                        .map(|at| (at, (change(at) * scale(at)).round()))
                        .collect();
                    assert!(cluster.step(dc, &changes));
                }
                // Links that never have the same room cut rounds into different frames.
                for (from, to) in cluster.pairs() {
                    while cluster.send(from.0, to.0, Lane::Data, 1 + 70 * usize::from(to.0)) {}
                }
                cluster.settle();
            }
            let expected = cluster.everything();
            for server in &cluster.servers {
                assert_eq!(server.values(), expected, "{format:?}");
            }
        }
    }
}

/// Who gets the next turn, and what for.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Worker(usize),
    Send(usize, usize),
    Deliver(usize),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        (0_usize..6).prop_map(Turn::Worker),
        (0_usize..6, 1_usize..64).prop_map(|(link, room)| Turn::Send(link, room)),
        (0_usize..6).prop_map(Turn::Deliver),
    ]
}

/// Six workers of three data centers, the n-th of which adds one to the n-th parameter in each clock.
fn run(
    cluster: &mut Cluster,
    clocks: u64,
    order: &[Turn],
    mut on_read: impl FnMut(usize, u64, &[f32]),
) {
    let workers: Vec<WorkerId> =
        cluster.dcs().flat_map(|dc| (0..2).map(move |index| WorkerId { dc, index })).collect();
    let pairs = cluster.pairs();
    let fair = (0..6).flat_map(|at| [Turn::Worker(at), Turn::Send(at, 16), Turn::Deliver(at)]);
    let order: Vec<Turn> = order.iter().copied().chain(fair).collect();
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
        }
        if workers.iter().all(|worker| cluster.clock_of(*worker).0 == clocks) {
            return;
        }
    }
    panic!("the run is stuck");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However fast each data center and link is.
    #[test]
    fn a_read_misses_no_round_older_than_the_overlap_and_the_drain_loses_nothing(
        order in prop::collection::vec(turn(), 0..200),
        steps in 1_u64..6,
        fragments in 1_u64..4,
        overlap in 0_u64..6,
        ahead in 0_u64..3,
        combine in prop::sample::select(vec![Combine::Sum, Combine::Mean]),
        // The formats that hold such small whole numbers.
        format in prop::sample::select(
            vec![ValueFormat::F32, ValueFormat::Bf16, ValueFormat::Int8, ValueFormat::Int4],
        ),
    ) {
        let (fragments, overlap) = (fragments.min(steps), overlap.min(steps - 1));
        let config =
            LocalStepsConfig { fragments, overlap: Overlap::Clocks(overlap), combine, ..local_steps(steps, format) };
        let mut cluster = Cluster::new(&Setup {
            workers: 2,
            parameters: 6,
            local: LocalSync::Ssp { staleness: Staleness(ahead) },
            drain: DrainMethod::Residuals,
            ..Setup::new(RemoteSync::LocalSteps(config))
        });
        run(&mut cluster, 13, &order, |reader, clock, values| {
            for (of, value) in values.iter().enumerate() {
                let same_dc = of / 2 == reader / 2;
                let fragment = of as u64 * fragments / 6;
                let first = (steps * (fragment + 1)).div_ceil(fragments);
                // The last round that must be over.
                let due = (clock + 1).saturating_sub(overlap + first).div_ceil(steps);
                let due = if due == 0 { 0 } else { first + (due - 1) * steps };
                let due = if same_dc { due.max(clock.saturating_sub(ahead)) } else { due };
                assert!(*value >= due as f32, "{reader} at {clock} misses {due} of {of}: {values:?}");
            }
            assert_eq!(values[reader], clock as f32, "a worker sees all its own updates");
        });
        cluster.drain();
        let expected = cluster.everything();
        for server in &cluster.servers {
            prop_assert_eq!(server.copy(), &expected[..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// What was sent and what is owed is what workers have changed: the drain of residuals delivers the rest.
    #[test]
    fn sparse_rounds_and_a_drain_of_residuals_lose_nothing(
        order in prop::collection::vec(turn(), 0..200),
        steps in 1_u64..5,
        fragments in 1_u64..3,
        density in prop::sample::select(vec![0.01, 0.4, 0.7]),
        total_density in prop::sample::select(vec![0.01, 0.5, 1.0]),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
        (combine, drift_correction) in
            prop::sample::select(vec![(Combine::Sum, 0.0), (Combine::Mean, 0.0), (Combine::Mean, 0.5)]),
    ) {
        let fragments = fragments.min(steps);
        let config = LocalStepsConfig {
            fragments,
            density,
            total_density,
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
        run(&mut cluster, 13, &order, |reader, clock, values| {
            // A worker sees its own updates of the last round on, and of others nothing that was not made, unless it is
            // expected.
            let since = clock % steps;
            let sees_own = values[reader] >= since as f32;
            assert!(sees_own || drift_correction > 0.0, "{reader} at {clock}: {values:?}");
        });
        cluster.drain();
        let expected = cluster.everything();
        for server in &cluster.servers {
            for (value, expected) in server.copy().iter().zip(&expected) {
                prop_assert!((value - expected).abs() < 1e-3, "{value} {expected}");
            }
        }
    }
}

/// Each home has one of four parameters: a round sends the larger change of its two, and owes the other one apart from
/// the copy.
#[test]
fn a_sparse_round_sends_the_largest_changes_and_owes_the_rest_apart_from_the_copy() {
    let config = LocalStepsConfig { density: 0.5, ..local_steps(1, ValueFormat::F32) };
    let remote = RemoteSync::LocalSteps(config);
    let mut cluster = Cluster::new(&Setup { data_centers: 2, parameters: 4, ..Setup::new(remote) });
    let mut round = |changes: &[(u32, f32)]| {
        assert!(cluster.step(0, changes) && cluster.step(1, &[]));
        cluster.settle();
        assert_eq!(bits(cluster.servers[0].values()), bits(cluster.servers[1].values()));
        cluster.servers[0].values().to_vec()
    };
    assert_eq!(round(&[(0, 1.0), (1, -3.0), (2, 2.0), (3, 2.0)]), [0.0, -3.0, 2.0, 0.0]);
    assert_eq!(round(&[(0, 1.0), (1, 1.5)]), [2.0, -3.0, 2.0, 2.0]);
    assert_eq!(round(&[]), [2.0, -1.5, 2.0, 2.0], "what was owed for longest is sent at last");
}

/// Each home has two of four parameters: its total has the larger step of the two, and the other one comes later. The mean
/// of copies has both.
#[test]
fn a_sparse_total_has_the_largest_steps_and_the_home_owes_the_rest() {
    let config = LocalStepsConfig { total_density: 0.5, ..local_steps(1, ValueFormat::F32) };
    let remote = RemoteSync::LocalSteps(config);
    let drain = DrainMethod::Mean;
    let setup = Setup { data_centers: 2, parameters: 4, drain, ..Setup::new(remote) };
    let mut cluster = Cluster::new(&setup);
    let mut round = |changes: &[(u32, f32)]| {
        assert!(cluster.step(0, changes) && cluster.step(1, changes));
        cluster.settle();
        assert_eq!(bits(cluster.servers[0].values()), bits(cluster.servers[1].values()));
        cluster.servers[0].values().to_vec()
    };
    assert_eq!(round(&[(0, 1.0), (1, -3.0), (2, 2.0), (3, 1.0)]), [0.0, -6.0, 4.0, 0.0]);
    assert_eq!(round(&[(0, 1.0), (1, 1.5)]), [4.0, -6.0, 4.0, 0.0]);
    cluster.drain();
    assert_eq!(cluster.servers[1].copy(), [4.0, -3.0, 4.0, 2.0]);
}

/// One data center moves the parameter by 2 in each round and the other by 4. The first expects 0.4 of the other after a
/// round and 0.76 after two, the second half as much.
#[test]
fn a_copy_begins_a_round_ahead_by_half_of_what_others_are_expected_to_contribute() {
    for drain in [DrainMethod::Mean, DrainMethod::Residuals] {
        let config = LocalStepsConfig {
            combine: Combine::Mean,
            drift_correction: 0.5,
            ..local_steps(1, ValueFormat::F32)
        };
        let remote = RemoteSync::LocalSteps(config);
        let setup = Setup { data_centers: 2, parameters: 1, drain, ..Setup::new(remote) };
        let mut cluster = Cluster::new(&setup);
        let mut round = || {
            assert!(cluster.step(0, &[(0, 2.0)]) && cluster.step(1, &[(0, 4.0)]));
            cluster.settle();
            let agreed = cluster.servers.iter().map(|server| server.copy()[0]);
            let ahead = cluster.servers.iter().map(|server| server.values()[0] - server.copy()[0]);
            agreed.zip(ahead).collect::<Vec<(f32, f32)>>()
        };
        for (number, expected) in [(1.0, [0.2, 0.1]), (2.0, [0.38, 0.19])] {
            for ((agreed, ahead), expected) in round().into_iter().zip(expected) {
                assert_eq!(agreed, 6.0 * number, "what is agreed is what was done");
                assert!((ahead - expected).abs() < 1e-5, "{number}: {ahead} is not {expected}");
            }
        }
        cluster.drain();
        let ends = cluster.servers.iter().map(|server| server.copy()[0]);
        assert_eq!(ends.collect::<Vec<f32>>(), [12.0; 2], "{drain:?}");
    }
}

/// A mean needs the number of workers that change a parameter, of which a sparse part shows the largest alone.
#[test]
fn homes_are_told_which_parameters_change_though_parts_do_not_show_them() {
    let config = LocalStepsConfig {
        combine: Combine::Mean,
        density: 0.01,
        ..local_steps(2, ValueFormat::F32)
    };
    let remote = RemoteSync::LocalSteps(config);
    let mut cluster = Cluster::new(&Setup { parameters: 12, ..Setup::new(remote) });
    // All change the first nine parameters, the first data center also the others.
    let of = |dc: u16| {
        let count = if dc == 0 { 12 } else { 9 };
        (0..count).map(|at| (at, 1.0 + at as f32)).collect::<Vec<(u32, f32)>>()
    };
    for dc in 0..3 {
        assert!(cluster.step(dc, &of(dc)) && cluster.step(dc, &[]));
    }
    cluster.settle();

    let before = cluster.servers[0].values().to_vec();
    assert!(cluster.step(0, &of(0)));
    let moved =
        cluster.servers[0].values().iter().zip(&before).map(|(after, before)| after - before);
    let expected = (0..12).map(|at| if at < 9 { 3.0 } else { 1.0 } * (1.0 + at as f32));
    assert_eq!(moved.collect::<Vec<f32>>(), expected.collect::<Vec<f32>>());
}

#[test]
fn runs_of_changed_parameters_that_cannot_be_are_refused_and_change_nothing() {
    let from = DcId(1);
    let config = LocalStepsConfig {
        combine: Combine::Mean,
        density: 0.5,
        ..local_steps(3, ValueFormat::F32)
    };
    let remote = RemoteSync::LocalSteps(config);
    let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
    let header = BulkHeader { clock: Clock(3), ..header(BulkKind::Changed, 1) };

    // The home's block is the parameters 0 to 3.
    let cases = [(1, 0.0, 3), (1, 1.5, 3), (1, -1.0, 3), (1, 4.0, 3), (0, 1e9, 4)];
    for (first, found, most) in cases {
        let before = state(&cluster);
        let runs = Changes::Sparse { indexes: &[first], values: &[found] };
        let given = cluster.give(1, 0, Lane::Data, bulk(&header, runs)).unwrap_err();
        let expected = PeerError::PeerSentWrongRun { from, first: first as usize, found, most };
        assert_eq!(given.to_string(), expected.to_string());
        assert_eq!(state(&cluster), before);
    }

    let overlapping = Changes::Sparse { indexes: &[0, 1], values: &[2.0, 2.0] };
    let given = cluster.give(1, 0, Lane::Data, bulk(&header, overlapping));
    let expected = PeerError::PeerSentWrongRun { from, first: 1, found: 2.0, most: 3 };
    assert_eq!(given, Err(expected));
    let apart = Changes::Sparse { indexes: &[0, 2], values: &[2.0, 2.0] };
    cluster.give(1, 0, Lane::Data, bulk(&header, apart)).unwrap();
}

#[test]
fn frames_out_of_turn_are_refused_by_name() {
    let from = DcId(1);
    let one = Changes::Sparse { indexes: &[2], values: &[1.0] };
    let remote = RemoteSync::LocalSteps(local_steps(3, ValueFormat::F32));
    let check = |cluster: &mut Cluster, header: BulkHeader, changes, expected: PeerError| {
        let before = state(cluster);
        let given = cluster.give(1, 0, Lane::Data, bulk(&header, changes));
        assert_eq!(given, Err(expected));
        assert_eq!(state(cluster), before);
    };
    let of = |kind, sequence, clock| BulkHeader { clock: Clock(clock), ..header(kind, sequence) };
    let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
    let cluster = &mut cluster;
    let skipped = PeerError::PeerSentWrongSequence { from, found: 2, expected: 1 };
    check(cluster, of(BulkKind::Partial, 2, 3), one, skipped);
    for clock in [0, 2, 6, CLOCK_MAX] {
        let (found, expected) = (Clock(clock), Clock(3));
        let wrong = PeerError::PeerSentWrongClock { from, found, expected };
        check(cluster, of(BulkKind::Partial, 1, clock), one, wrong.clone());
        check(cluster, of(BulkKind::Total, 1, clock), one, wrong);
    }
    // A step holds this data center's part, and its round has not begun.
    let early = |clock, below| PeerError::PeerSentEarlyClock {
        from,
        found: Clock(clock),
        below: Clock(below),
    };
    check(cluster, of(BulkKind::Total, 1, 3), one, early(3, 3));
    let foreign = PeerError::PeerSentForeignParameter { from, index: 5, expected: "0..4".into() };
    let outside = Changes::Sparse { indexes: &[2, 5], values: &[1.0; 2] };
    check(cluster, of(BulkKind::Partial, 1, 3), outside, foreign);
    let unexpected = |found, sync| PeerError::PeerSentUnexpectedKind { from, found, sync };
    check(cluster, of(BulkKind::Update, 1, 3), one, unexpected("update", "local-steps"));
    check(cluster, of(BulkKind::Workers, 1, 3), one, unexpected("workers", "local-steps"));
    let result = of(BulkKind::DrainResult, 1, 0);
    check(cluster, result, one, unexpected("drain result", "local-steps"));

    cluster.give(1, 0, Lane::Data, bulk(&of(BulkKind::Partial, 1, 3), one)).unwrap();
    // It had to wait for the step before it could begin another round, or end.
    check(cluster, of(BulkKind::Partial, 2, 6), one, early(6, 4));
    let copy = Changes::Dense { start: 0, values: &[1.0; 4] };
    let early_copy = of(BulkKind::DrainCopy, 2, 0);
    check(cluster, early_copy, copy, unexpected("drain copy", "local-steps"));
    (0..3).for_each(|_| assert!(cluster.step(0, &[])));
    cluster.give(1, 0, Lane::Data, bulk(&early_copy, copy)).unwrap();
    check(cluster, of(BulkKind::Partial, 3, 6), one, unexpected("partial", "a drain"));
}

#[test]
fn a_drain_takes_the_mean_of_copies_or_every_residual() {
    for (drain, expected) in [(DrainMethod::Mean, 3.0 + 2.0), (DrainMethod::Residuals, 3.0 + 6.0)] {
        let remote = RemoteSync::LocalSteps(local_steps(1, ValueFormat::F32));
        let mut cluster = Cluster::new(&Setup { drain, ..Setup::new(remote) });
        for dc in 0..3 {
            assert!(cluster.step(dc, &[(3, 1.0)]));
        }
        cluster.settle();
        cluster.drain();
        assert_eq!(cluster.servers[0].values()[3], 3.0);

        let remote = RemoteSync::LocalSteps(local_steps(2, ValueFormat::F32));
        let mut cluster = Cluster::new(&Setup { drain, ..Setup::new(remote) });
        for change in [1.0, 0.0, 2.0] {
            (0..3).for_each(|dc| assert!(cluster.step(dc, &[(3, change)])));
        }
        cluster.drain();
        cluster.servers.iter().for_each(|server| assert_eq!(server.values()[3], expected));
    }
}

/// A drain's frames leave behind the steps that are still on their way.
#[test]
fn a_drain_waits_for_rounds_under_way() {
    let remote = RemoteSync::LocalSteps(local_steps(2, ValueFormat::Int4));
    let drain = DrainMethod::Residuals;
    let mut cluster = Cluster::new(&Setup { drain, ..Setup::new(remote) });
    for dc in 0..3 {
        assert!(cluster.step(dc, &[(1, 5.0)]) && cluster.step(dc, &[(1, 1.0)]));
    }
    for dc in 0..3 {
        cluster.begin_drain(dc, vec![Clock(2)]);
    }
    cluster.carry(0, 1, Lane::Data);
    assert!(!cluster.send(0, 1, Lane::Data, ROOM), "no copy before the round is over");
    cluster.settle();
    assert_eq!(cluster.drained, 3);
    cluster.servers.iter().for_each(|server| assert_eq!(server.values()[1], 18.0));
}
