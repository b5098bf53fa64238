//! Nothing is lost, nothing arrives twice, nothing echoes.

use std::time::Duration;

use gaia_core::codec::ValueFormat;
use gaia_core::node::Lane;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{AspConfig, Brake, Goal, Policy, RemoteSync};
use gaia_core::types::{Bandwidth, DcId, Staleness};
use proptest::prelude::*;

use crate::cluster::{Cluster, ROOM, Setup};
use crate::{POLICIES, asp, tap};

/// What may happen next, the test's choice.
#[derive(Clone, Debug)]
enum Happening {
    /// A data center finishes a clock, if its read may go.
    Step {
        dc: u16,
        changes: Vec<(u32, f32)>,
    },
    Send {
        link: usize,
        lane: Lane,
        room: usize,
    },
    Deliver {
        link: usize,
        lane: Lane,
    },
    Pass {
        ms: u64,
    },
    Wake {
        dc: u16,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let lane = || prop_oneof![Just(Lane::Control), Just(Lane::Data)];
    let changes =
        prop::collection::btree_map(0..PARAMETERS, -900_i16..=900, 0..6).prop_map(|changes| {
            changes.into_iter().map(|(parameter, change)| (parameter, f32::from(change))).collect()
        });
    prop_oneof![
        4 => (0..DATA_CENTERS, changes).prop_map(|(dc, changes)| Happening::Step { dc, changes }),
        4 => (0_usize..6, lane(), 1_usize..64)
            .prop_map(|(link, lane, room)| Happening::Send { link, lane, room }),
        3 => (0_usize..6, lane()).prop_map(|(link, lane)| Happening::Deliver { link, lane }),
        1 => (1_u64..2000).prop_map(|ms| Happening::Pass { ms }),
        1 => (0..DATA_CENTERS).prop_map(|dc| Happening::Wake { dc }),
    ]
}

fn happen(cluster: &mut Cluster, happening: &Happening) {
    let pairs = cluster.pairs();
    match happening {
        Happening::Step { dc, changes } => {
            cluster.step(*dc, changes);
        }
        Happening::Send { link, lane, room } => {
            let (from, to) = pairs[*link];
            cluster.send(from.0, to.0, *lane, *room);
        }
        Happening::Deliver { link, lane } => {
            let (from, to) = pairs[*link];
            cluster.deliver(from.0, to.0, *lane);
        }
        Happening::Pass { ms } => cluster.pass(Duration::from_millis(*ms)),
        Happening::Wake { dc } => {
            cluster.wake(*dc);
        }
    }
}

/// Every model that filters or merges, over slow links, with and without ASP's brakes.
fn remote() -> impl Strategy<Value = RemoteSync> {
    let format = || prop::sample::select(&ValueFormat::ALL[..]);
    let brake = || prop::sample::select(&[Brake::On, Brake::Off][..]);
    let goal = prop::sample::select(&[Goal::Speed, Goal::Cost][..]);
    let policy = prop::sample::select(&POLICIES[..]);
    let filtered = (policy, format(), goal, brake(), brake());
    prop_oneof![
        1 => format().prop_map(tap),
        3 => filtered.prop_map(|(policy, format, goal, barrier, mirror_clock)| {
            RemoteSync::Asp(AspConfig {
                goal,
                selective_barrier: barrier,
                mirror_clock,
                data_center_staleness: Some(Staleness(3)),
                ..asp(policy, format)
            })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn sent_and_residual_are_what_was_received_at_every_moment(
        remote in remote(),
        drain in prop::sample::select(&[DrainMethod::Mean, DrainMethod::Residuals][..]),
        hub in prop::option::of(0..DATA_CENTERS),
        happenings in prop::collection::vec(happening(), 1..120),
    ) {
        let bandwidth = Bandwidth::from_bits_per_second(800.0);
        let forwards = !matches!(&remote, RemoteSync::Asp(asp) if asp.policy == Policy::Paper);
        let hub = hub.filter(|_| forwards && drain == DrainMethod::Mean);
        let ends = |hub| (0..DATA_CENTERS).filter(move |dc| *dc != hub);
        let cliques = hub.map_or(vec![], |hub| ends(hub).map(|end| vec![hub, end]).collect());
        let mut cluster = Cluster::new(&Setup {
            parameters: PARAMETERS as usize,
            initial: 1000.0,
            bandwidth,
            drain,
            cliques,
            ..Setup::new(remote)
        });
        for happening in &happenings {
            happen(&mut cluster, happening);
            cluster.assert_conserved();
        }
        cluster.settle();
        cluster.assert_conserved();
        let copies: Vec<Vec<f32>> = cluster.servers.iter().map(|server| server.values().to_vec()).collect();
        cluster.drain();
        let expected: Vec<f32> = match drain {
            DrainMethod::Residuals => cluster.everything(),
            DrainMethod::Mean => (0..PARAMETERS as usize)
                .map(|at| (copies.iter().map(|copy| f64::from(copy[at])).sum::<f64>() / 3.0) as f32)
                .collect(),
        };
        for server in &cluster.servers {
            prop_assert_eq!(server.values(), &expected[..]);
        }
    }
}

#[test]
fn tap_delivers_everything_without_a_drain() {
    for format in ValueFormat::ALL {
        let mut cluster = Cluster::new(&Setup::new(tap(format)));
        for clock in 0..20_u8 {
            for dc in 0..3 {
                assert!(cluster.step(dc, &[(u32::from(dc), 3.0), (5, f32::from(clock))]));
            }
        }
        cluster.settle();
        // What rounding loses of the last sum is sent with the next change.
        if format == ValueFormat::F32 {
            let expected = cluster.everything();
            cluster.servers.iter().for_each(|server| assert_eq!(server.values(), expected));
        }
        cluster.assert_conserved();
    }
}

#[test]
fn what_bf16_loses_is_sent_with_the_next_change() {
    let mut cluster = Cluster::new(&Setup::new(tap(ValueFormat::Bf16)));
    cluster.step(0, &[(0, 259.0)]);
    cluster.settle();
    assert_eq!(cluster.servers[1].values()[0], 260.0);
    assert_eq!(cluster.servers[0].residual(DcId(1))[0], -1.0);
    cluster.step(0, &[(0, 2.0)]);
    cluster.settle();
    assert_eq!(cluster.servers[1].values()[0], 261.0);
}

/// A small change beside a large one is below half a step of their block, so it stays until it adds up.
#[test]
fn what_a_block_has_no_step_for_stays_at_home() {
    let mut cluster = Cluster::new(&Setup::new(tap(ValueFormat::Int8)));
    for (clock, (rest, arrived)) in [(3.0, 0.0), (-2.0, 8.0), (1.0, 8.0)].into_iter().enumerate() {
        assert!(cluster.step(0, &[(0, 1000.0), (1, 3.0)]), "clock {clock}");
        cluster.settle();
        assert_eq!(cluster.servers[0].residual(DcId(1))[1], rest);
        assert_eq!(cluster.servers[1].values()[1], arrived);
        cluster.assert_conserved();
    }
}

#[test]
fn insignificant_residuals_stay_until_they_add_up() {
    for policy in POLICIES {
        let remote = RemoteSync::Asp(asp(policy, ValueFormat::F32));
        let mut cluster = Cluster::new(&Setup { initial: 10.0, ..Setup::new(remote) });
        for clock in 1_u8..=11 {
            assert!(cluster.step(0, &[(3, 1.0)]));
            cluster.settle();
            // Eleven ones pass half of 10 + 11.
            let arrived = if clock < 11 { 0.0 } else { 11.0 };
            assert_eq!(cluster.servers[1].values()[3], 10.0 + arrived, "{policy:?} {clock}");
            assert_eq!(cluster.servers[0].values()[3], 10.0 + f32::from(clock));
        }
    }
}

#[test]
fn what_a_mirror_sent_is_never_sent_back_or_on() {
    for remote in [
        tap(ValueFormat::F32),
        RemoteSync::Asp(asp(POLICIES[0], ValueFormat::F32)),
        RemoteSync::Asp(asp(POLICIES[1], ValueFormat::F32)),
    ] {
        let mut cluster = Cluster::new(&Setup::new(remote));
        assert!(cluster.step(0, &[(0, 5.0), (7, -3.0)]));
        cluster.settle();
        assert_eq!(cluster.servers[1].values()[0], 5.0);
        assert!(cluster.step(1, &[]));
        for to in [0, 2] {
            assert_eq!(cluster.servers[1].residual(DcId(to)), [0.0; 8]);
            assert!(!cluster.send(1, to, Lane::Data, ROOM), "dc1 has nothing for dc{to}");
        }
    }
}

#[test]
fn an_outbox_holds_no_more_than_the_model() {
    for remote in [tap(ValueFormat::F32), RemoteSync::Asp(asp(POLICIES[1], ValueFormat::F32))] {
        let mut cluster = Cluster::new(&Setup::new(remote));
        for clock in 0..50_u8 {
            let changes: Vec<(u32, f32)> =
                (0..8).map(|parameter| (parameter, f32::from(clock) + 1.0)).collect();
            assert!(cluster.step(0, &changes));
        }
        let before = cluster.servers[0].link_stats(DcId(1)).updates;
        cluster.carry(0, 1, Lane::Data);
        assert_eq!(cluster.servers[0].link_stats(DcId(1)).updates - before, 8);
        assert_eq!(cluster.servers[1].values(), cluster.sources[0]);
    }
}

const PARAMETERS: u32 = 24;
const DATA_CENTERS: u16 = 3;
