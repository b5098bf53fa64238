//! BSP and SSP: what every data center agrees on, and what a read may not miss.

use std::collections::BTreeMap;

use gaia_core::codec::ValueFormat;
use gaia_core::node::Lane;
use gaia_core::server::ExchangeRoute;
use gaia_core::sync::{LocalSync, RemoteSync, WaitReason};
use gaia_core::types::{Clock, DcId, Staleness, WorkerId};
use proptest::prelude::*;

use crate::cluster::{Cluster, Setup};
use crate::{FORMATS, POLICIES, UNEVEN, asp, bsp, ssp, tap};

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

/// Gives turns, in an order of the test's choice and then to all alike, until every worker has finished
/// `clocks`.
///
/// The n-th worker of the run adds one to the n-th parameter in each clock, so that a value shows how many of
/// that worker's clocks it holds; all workers add one to a parameter that they share. `on_read` sees every
/// worker's number, clock and what it read.
fn run(
    cluster: &mut Cluster,
    clocks: u64,
    order: &[Turn],
    mut on_read: impl FnMut(usize, Clock, &[f32]),
) {
    let workers: Vec<WorkerId> = cluster
        .dcs()
        .flat_map(|dc| (0..WORKERS).map(move |index| WorkerId { dc, index }))
        .collect();
    let pairs = cluster.pairs();
    let fair = (0..6).flat_map(|at| [Turn::Worker(at), Turn::Send(at, 16), Turn::Deliver(at)]);
    let order: Vec<Turn> = order.iter().copied().chain(fair).collect();
    for turn in order.iter().cycle().take(100_000) {
        match *turn {
            Turn::Worker(number) => {
                let worker = workers[number];
                let clock = cluster.clock_of(worker);
                if let Some(reply) = cluster.answer_to(worker) {
                    on_read(number, clock, &reply.values);
                    cluster.finish_as(worker, &[(number as u32, 1.0), (SHARED, 1.0)]);
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

fn setup(remote: RemoteSync, local: LocalSync, shares: Vec<u64>) -> Setup {
    let workers = usize::from(WORKERS);
    Setup { workers, parameters: 7, local, shares, ..Setup::new(remote) }
}

fn route() -> impl Strategy<Value = ExchangeRoute> {
    let [first, second, third] = [DcId(0), DcId(1), DcId(2)];
    let tree = |parents: [Option<DcId>; 3]| ExchangeRoute::Tree(parents.to_vec());
    prop::sample::select(vec![
        ExchangeRoute::Homes,
        ExchangeRoute::Ring(vec![second, first, third]),
        tree([Some(second), Some(third), None]),
        tree([Some(second), None, Some(second)]),
    ])
}

/// Equal blocks, blocks of different sizes, and blocks of which some are empty.
fn shares() -> impl Strategy<Value = Vec<u64>> {
    prop::sample::select(vec![Vec::new(), vec![1, 4, 2], UNEVEN.to_vec()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn bsp_copies_are_equal_at_every_clock_and_hold_all_of_it_and_nothing_else(
        order in prop::collection::vec(turn(), 0..200),
        staleness in 0_u64..3,
        shares in shares(),
        route in route(),
    ) {
        let local = LocalSync::Ssp { staleness: Staleness(staleness) };
        let setup = setup(bsp(ValueFormat::F32), local, shares);
        let mut cluster = Cluster::new(&Setup { route, ..setup });
        run(&mut cluster, 6, &order, |reader, clock, values| {
            for (of, value) in values[..6].iter().enumerate() {
                let same_dc = of / 2 == reader / 2;
                let clock = clock.0 as f32;
                assert!(*value == clock || (same_dc && *value > clock), "{reader} at {clock}: {values:?}");
            }
        });
        cluster.settle();
        prop_assert_eq!(cluster.copies.len(), 18);
        for (dc, Clock(clock), copy) in &cluster.copies {
            let mut expected = vec![*clock as f32; 6];
            expected.push(6.0 * *clock as f32);
            prop_assert_eq!(copy, &expected, "{}", dc);
        }
    }

    #[test]
    fn ssp_reads_miss_no_clock_older_than_the_staleness(
        order in prop::collection::vec(turn(), 0..200),
        remote in 0_u64..4,
        local in 0_u64..3,
        shares in shares(),
    ) {
        let sync = LocalSync::Ssp { staleness: Staleness(local) };
        let mut cluster = Cluster::new(&setup(ssp(remote), sync, shares));
        run(&mut cluster, 8, &order, |reader, clock, values| {
            for (of, value) in values[..6].iter().enumerate() {
                let same_dc = of / 2 == reader / 2;
                let staleness = if same_dc { local } else { remote };
                let due = clock.0.saturating_sub(staleness) as f32;
                assert!(*value >= due, "{reader} at {clock} reads {values:?}");
                assert!(of != reader || *value == clock.0 as f32, "a worker sees all its own updates");
            }
        });
        cluster.drain();
        let expected = cluster.everything();
        for server in &cluster.servers {
            prop_assert_eq!(server.copy(), &expected[..]);
        }
    }
}

#[test]
fn an_ssp_data_center_is_no_further_ahead_than_the_staleness() {
    for staleness in 0..4 {
        let mut cluster = Cluster::new(&Setup::new(ssp(staleness)));
        let mut finished = 0;
        while cluster.step(0, &[(0, 1.0)]) {
            finished += 1;
        }
        assert_eq!(finished, staleness + 1);
        let waiting = cluster.servers[0].waiting();
        assert_eq!(waiting, Some(WaitReason::Updates { from: DcId(1) }), "it waits for a part");
    }
}

/// No value that is sent has more than eight bits, and what the ninth would have held is never lost for good.
#[test]
fn rounding_to_bf16_loses_nothing_over_time() {
    let ring = ExchangeRoute::Ring(vec![DcId(0), DcId(1), DcId(2)]);
    let tree = ExchangeRoute::Tree(vec![None, Some(DcId(0)), Some(DcId(1))]);
    for route in [ExchangeRoute::Homes, ring, tree] {
        check_rounding(route);
    }
}

fn check_rounding(route: ExchangeRoute) {
    let remote = bsp(ValueFormat::Bf16);
    let mut cluster = Cluster::new(&Setup { parameters: 4, route, ..Setup::new(remote) });
    let step = 1.0 + 1.0 / 512.0;
    let clocks = 300;
    for _ in 0..clocks {
        for dc in 0..3 {
            assert!(cluster.step(dc, &[(0, step), (1, step), (2, step), (3, step)]));
        }
        cluster.settle();
    }
    let expected = 3.0 * step * clocks as f32;
    for server in &cluster.servers {
        for value in server.copy() {
            assert!((value - expected).abs() < 0.1, "{value} {expected}");
        }
    }
    let mut by_clock: BTreeMap<Clock, &[f32]> = BTreeMap::new();
    for (dc, clock, copy) in &cluster.copies {
        assert_eq!(*by_clock.entry(*clock).or_insert(copy), &copy[..], "{dc} at {clock}");
    }
}

/// Nothing is summed, rounded or kept for others.
#[test]
fn what_the_only_worker_of_a_run_has_changed_is_the_model() {
    let of_mirrors = POLICIES.map(|policy| RemoteSync::Asp(asp(policy, ValueFormat::Bf16)));
    let models = FORMATS.into_iter().flat_map(|format| [bsp(format), tap(format)]);
    for remote in models.chain([ssp(2)]).chain(of_mirrors) {
        let name = format!("{remote:?}");
        let setup = Setup { data_centers: 1, parameters: 2, ..Setup::new(remote) };
        let mut cluster = Cluster::new(&setup);
        let step = 1.0 + 1.0 / 512.0;
        for clock in 1..=5 {
            assert!(cluster.step(0, &[(1, step)]), "{name}");
            cluster.settle();
            let expected = [0.0, clock as f32 * step];
            assert_eq!(cluster.servers[0].copy(), expected, "{name}");
            assert_eq!(cluster.copies.last(), Some(&(DcId(0), Clock(clock), expected.to_vec())));
        }
        cluster.drain();
        assert_eq!(cluster.servers[0].values(), [0.0, 5.0 * step], "{name}");
        assert_eq!(cluster.servers[0].copy(), [0.0, 5.0 * step], "{name}");
    }
}

/// Chunks are summed in other orders, and the sums of a model of any size are the same everywhere.
#[test]
fn rings_and_trees_compute_the_sums_of_homes() {
    for data_centers in 1..6_usize {
        let all = || (0..data_centers as u16).map(DcId);
        let chain: Vec<Option<DcId>> = all().map(|dc| dc.0.checked_sub(1).map(DcId)).collect();
        let routes = [
            ExchangeRoute::Homes,
            ExchangeRoute::Ring(all().rev().collect()),
            ExchangeRoute::Tree(chain),
        ];
        for (parameters, format) in
            [0, 1, 3, 40, 9_000].into_iter().flat_map(|size| FORMATS.map(|format| (size, format)))
        {
            let setup = Setup { data_centers, parameters, ..Setup::new(bsp(format)) };
            let copies = routes.clone().map(|route| summed(&Setup { route, ..setup.clone() }));
            let tolerance = if format == ValueFormat::F32 { 1e-6 } else { 0.01 };
            for (value, expected) in copies[1..].iter().flat_map(|copy| copy.iter().zip(&copies[0]))
            {
                assert!((value - expected).abs() <= tolerance * expected, "{value} {expected}");
            }
        }
    }
}

/// The copy that all data centers have to the bit, after some clocks of changes that are all above 0.
fn summed(setup: &Setup) -> Vec<f32> {
    let mut cluster = Cluster::new(setup);
    for clock in 0..3 {
        for dc in cluster.dcs() {
            let mixed = |at: u32| (at + 3 * clock) % (7 + u32::from(dc.0));
            let places = 0..setup.parameters as u32;
            let changes: Vec<(u32, f32)> =
                places.map(|at| (at, 0.1 + 0.01 * mixed(at) as f32)).collect();
            assert!(cluster.step(dc.0, &changes), "{setup:?}");
        }
        cluster.settle();
    }
    cluster.drain();

    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let copy = cluster.servers[0].copy().to_vec();
    for server in &cluster.servers {
        assert!(bits(server.copy()) == bits(&copy), "{setup:?}");
    }
    copy
}

/// A dense frame holds zeros for parameters that nobody changed, and adding zero to -0 makes it 0.
#[test]
fn copies_agree_on_the_sign_of_zero() {
    let setup = Setup { parameters: 300, initial: -0.0, ..Setup::new(bsp(ValueFormat::F32)) };
    let mut cluster = Cluster::new(&setup);
    let changes: Vec<(u32, f32)> =
        (0..300).filter(|at| at % 99 != 50).map(|at| (at, 1.0)).collect();
    for dc in 0..3 {
        assert!(cluster.step(dc, &changes));
    }
    cluster.settle();
    for server in &cluster.servers {
        assert_eq!(server.copy()[50].to_bits(), (-0.0_f32).to_bits());
    }
}

/// A worker reads its data center's updates at once, before any other data center has seen them.
#[test]
fn own_updates_are_read_while_they_are_still_on_their_way() {
    let mut cluster = Cluster::new(&Setup::new(ssp(3)));
    for clock in 1..=3_u8 {
        assert!(cluster.step(0, &[(5, 2.0)]));
        assert_eq!(cluster.servers[0].values()[5], 2.0 * f32::from(clock));
        assert_eq!(cluster.servers[0].copy()[5], 0.0);
    }
    for _ in 0..3 {
        assert!(cluster.step(1, &[(5, 1.0)]) && cluster.step(2, &[]));
    }
    cluster.settle();
    for server in &cluster.servers {
        assert_eq!((server.values()[5], server.copy()[5]), (9.0, 9.0));
    }
}

const WORKERS: u16 = 2;
const SHARED: u32 = 6;
