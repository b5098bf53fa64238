//! The selective barrier: an announced parameter is not read before its update, and everything else is.

use std::time::Duration;

use gaia_core::codec::{ValueFormat, decode_indexes};
use gaia_core::node::Lane;
use gaia_core::sync::{AspConfig, Brake, OnPartition, Policy, RemoteSync, WaitReason};
use gaia_core::types::{Bandwidth, DcId, DurationSetting};
use gaia_core::wire::{ControlMessage, decode_control};
use proptest::prelude::*;

use crate::cluster::{Cluster, Setup};
use crate::{POLICIES, asp};

/// Two data centers and a link that carries one update in a second, which is how long a clock takes.
fn cluster(policy: Policy, parameters: usize) -> Cluster {
    cluster_of(asp(policy, ValueFormat::F32), parameters)
}

fn cluster_of(asp: AspConfig, parameters: usize) -> Cluster {
    let remote = RemoteSync::Asp(AspConfig {
        selective_barrier: Brake::On,
        barrier_deadline: DurationSetting(DEADLINE),
        ..asp
    });
    let mut cluster = Cluster::new(&Setup {
        data_centers: 2,
        parameters,
        initial: 1.0,
        bandwidth: Bandwidth::from_bits_per_second(8.0),
        ..Setup::new(remote)
    });
    cluster.pass(Duration::from_secs(1));
    cluster
}

/// What the second data center waits for, if it waits for an announced row.
fn announced(cluster: &Cluster) -> Option<u32> {
    match cluster.servers[1].waiting()? {
        WaitReason::Announced { from: DcId(0), row } => Some(row),
        other => panic!("{other}"),
    }
}

/// Lets one update of the first data center onto its link.
fn send_one(cluster: &mut Cluster) {
    assert!(cluster.send(0, 1, Lane::Data, 1));
}

fn deliver_one(cluster: &mut Cluster) {
    assert!(cluster.deliver(0, 1, Lane::Data));
}

#[test]
fn announced_rows_block_reads_until_they_arrive_and_no_other_reads() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 8);
        assert!(cluster.step(0, &[(0, 9.0), (1, 3.0), (2, 3.0)]));
        cluster.carry(0, 1, Lane::Control);
        cluster.ask(1, &[0, 3, 7]);
        assert_eq!(cluster.answer(1), Some(&[1.0; 3][..]), "what clears the link is not announced");
        cluster.finish(1, &[]);
        for row in [1, 2] {
            cluster.ask(1, &[0, row, 5]);
            assert_eq!((cluster.answer(1), announced(&cluster)), (None, Some(row)), "{policy:?}");
            while cluster.answer(1).is_none() {
                send_one(&mut cluster);
                deliver_one(&mut cluster);
            }
            assert_eq!(cluster.answer(1), Some(&[10.0, 4.0, 1.0][..]));
            cluster.finish(1, &[]);
        }
        assert!(!cluster.send(0, 1, Lane::Data, 1), "nothing came that nobody waited for");
        assert_eq!(cluster.servers[1].brake_stats().announcements_expired, 0);
    }
}

#[test]
fn what_a_mirror_has_announced_that_cannot_be_reached_blocks_no_read_where_the_run_continues() {
    for policy in POLICIES {
        for on_partition in [OnPartition::Continue, OnPartition::Pause] {
            let asp = AspConfig { on_partition, ..asp(policy, ValueFormat::F32) };
            let mut cluster = cluster_of(asp, 8);
            assert!(cluster.step(0, &[(0, 9.0), (1, 3.0)]));
            cluster.carry(0, 1, Lane::Control);
            cluster.ask(1, &[0, 1]);
            assert_eq!((cluster.answer(1), announced(&cluster)), (None, Some(1)), "{policy:?}");
            cluster.part(1, 0);
            let continues = on_partition == OnPartition::Continue;
            assert_eq!(cluster.answer(1).is_some(), continues, "{policy:?}");

            // The update itself is not lost.
            while cluster.send(0, 1, Lane::Data, 1) {}
            while cluster.deliver(0, 1, Lane::Data) {}
            assert_eq!(cluster.servers[1].values()[..2], [10.0, 4.0], "{policy:?}");
            assert!(cluster.answer(1).is_some(), "{policy:?}");
            assert_eq!(cluster.servers[1].brake_stats().announcements_expired, 0);
        }
    }
}

#[test]
fn an_earlier_update_of_the_same_parameter_does_not_lift_the_barrier() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 8);
        assert!(cluster.step(0, &[(1, 3.0)]));
        send_one(&mut cluster);
        cluster.pass(Duration::from_secs(1));
        assert!(cluster.step(0, &[(0, 30.0), (1, 12.0)]));
        cluster.carry(0, 1, Lane::Control);
        cluster.ask(1, &[1]);
        deliver_one(&mut cluster);
        assert_eq!(cluster.servers[1].values()[1], 4.0, "the frame sent before the announcement");
        assert_eq!((cluster.answer(1), announced(&cluster)), (None, Some(1)), "{policy:?}");
        for _ in 0..2 {
            send_one(&mut cluster);
            deliver_one(&mut cluster);
        }
        assert_eq!(cluster.answer(1), Some(&[16.0][..]));
    }
}

#[test]
fn a_parameter_announced_again_waits_for_the_later_update() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 8);
        assert!(cluster.step(0, &[(0, 30.0), (1, 12.0)]));
        send_one(&mut cluster);
        send_one(&mut cluster);
        cluster.pass(Duration::from_secs(1));
        assert!(cluster.step(0, &[(0, 300.0), (1, 50.0)]));
        cluster.carry(0, 1, Lane::Control);
        cluster.ask(1, &[1]);
        for _ in 0..2 {
            deliver_one(&mut cluster);
            assert_eq!((cluster.answer(1), announced(&cluster)), (None, Some(1)), "{policy:?}");
        }
        for _ in 0..2 {
            send_one(&mut cluster);
            deliver_one(&mut cluster);
        }
        assert_eq!(cluster.answer(1), Some(&[63.0][..]));
    }
}

#[test]
fn an_announced_parameter_whose_change_was_taken_back_still_arrives() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 8);
        assert!(cluster.step(0, &[(0, 9.0), (1, 3.0)]));
        cluster.pass(Duration::from_secs(1));
        assert!(cluster.step(0, &[(1, -3.0)]));
        cluster.carry(0, 1, Lane::Control);
        cluster.ask(1, &[1]);
        assert_eq!(announced(&cluster), Some(1), "{policy:?}");
        cluster.settle();
        assert_eq!(cluster.answer(1), Some(&[1.0][..]), "{policy:?}");
    }
}

/// A frame that is smaller when dense holds a place between its updates whose own update has yet to come.
#[test]
fn a_dense_frame_lifts_no_barrier_that_its_holes_lie_behind() {
    for policy in POLICIES {
        let remote = RemoteSync::Asp(AspConfig {
            selective_barrier: Brake::On,
            ..asp(policy, ValueFormat::F32)
        });
        let mut cluster = Cluster::new(&Setup {
            data_centers: 2,
            parameters: 200,
            initial: 1.0,
            bandwidth: Bandwidth::from_bits_per_second(8.0 * 1001.0),
            ..Setup::new(remote)
        });
        cluster.pass(Duration::from_secs(1));
        let changes: Vec<(u32, f32)> =
            (0..200).map(|at| (at, if at == HOLE { 2.0 } else { 99.0 })).collect();
        assert!(cluster.step(0, &changes));
        cluster.carry(0, 1, Lane::Control);
        let announced = cluster.servers[0].link_stats(DcId(1)).announced;
        assert_eq!(announced, 1, "one update does not fit into a clock");
        let last = if policy == Policy::Link { HOLE } else { 199 };
        cluster.ask(1, &[last]);
        assert!(cluster.send(0, 1, Lane::Data, 1001));
        deliver_one(&mut cluster);
        let whole = cluster.sources[0][last as usize] + 1.0;
        assert!(cluster.answer(1).is_none_or(|values| values == [whole]), "{policy:?}");
        cluster.settle();
        assert_eq!(cluster.answer(1), Some(&[whole][..]), "{policy:?}");
        cluster.assert_conserved();
    }
}

#[test]
fn a_barrier_gives_way_at_its_deadline_and_says_so() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 8);
        assert!(cluster.step(0, &[(0, 9.0), (1, 3.0), (2, 3.0)]));
        cluster.carry(0, 1, Lane::Control);
        cluster.ask(1, &[1, 2]);
        let announced_at = cluster.now;
        assert!(cluster.wake(1));
        assert_eq!(cluster.now.since(announced_at), DEADLINE);
        assert_eq!(cluster.answer(1), Some(&[1.0, 1.0][..]), "{policy:?}");
        assert_eq!(cluster.servers[1].brake_stats().announcements_expired, 2);
        assert_eq!(cluster.servers[1].poll_timeout(), None);
        cluster.finish(1, &[]);
        cluster.settle();
        assert_eq!(cluster.servers[1].values()[1..3], [4.0, 4.0], "it arrives late, not never");
    }
}

/// The first data center announces the same parameters at each of its clocks, before their last updates arrive.
#[test]
fn a_read_that_hears_of_announcements_without_end_gives_up_at_the_deadline() {
    for policy in POLICIES {
        let asp = AspConfig { mirror_clock: Brake::Off, ..asp(policy, ValueFormat::F32) };
        let mut cluster = cluster_of(asp, 8);
        let mut change = 3.0;
        assert!(cluster.step(0, &[(0, 3.0 * change), (1, change)]));
        cluster.carry(0, 1, Lane::Control);
        cluster.ask(1, &[1]);
        let asked_at = cluster.now;

        for _ in 1..DEADLINE.as_secs() {
            send_one(&mut cluster);
            send_one(&mut cluster);
            cluster.pass(Duration::from_secs(1));
            change *= 4.0;
            assert!(cluster.step(0, &[(0, 3.0 * change), (1, change)]));
            cluster.carry(0, 1, Lane::Control);
            deliver_one(&mut cluster);
            deliver_one(&mut cluster);
            assert_eq!((cluster.answer(1), announced(&cluster)), (None, Some(1)), "{policy:?}");
        }

        assert!(cluster.wake(1));
        assert_eq!(cluster.now.since(asked_at), DEADLINE);
        assert!(cluster.answer(1).is_some(), "{policy:?}");
        assert_eq!(cluster.servers[1].brake_stats().announcements_expired, 0);
        cluster.finish(1, &[]);
        cluster.ask(1, &[1]);
        assert_eq!(
            (cluster.answer(1), announced(&cluster)),
            (None, Some(1)),
            "each read has a wait"
        );
    }
}

#[test]
fn announcements_overtake_the_data_they_announce() {
    let mut cluster = cluster(Policy::Link, 64);
    let changes: Vec<(u32, f32)> = (0..64).map(|at| (at, 5.0)).collect();
    assert!(cluster.step(0, &changes));
    for _ in 0..32 {
        send_one(&mut cluster);
    }
    assert!(cluster.send(0, 1, Lane::Control, 1), "control leaves whatever data waits");
    assert!(cluster.deliver(0, 1, Lane::Control));
    cluster.ask(1, &[63]);
    assert_eq!(announced(&cluster), Some(63));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Changes only grow values, so a read that came too early shows a value that is too small.
    #[test]
    fn no_read_returns_less_than_what_was_announced(
        policy in prop::sample::select(&POLICIES[..]),
        script in prop::collection::vec((0_u8..4, prop::collection::btree_map(0_u32..12, 1_u8..200, 0..12), 1_usize..40), 1..80),
    ) {
        let mut cluster = cluster_of(AspConfig { threshold: 1e-4, ..asp(policy, ValueFormat::F32) }, 12);
        let mut promised = [1.0_f32; 12];
        let mut asked: Vec<u32> = Vec::new();
        for (what, changes, room) in script {
            match what {
                0 => {
                    cluster.pass(Duration::from_millis(10));
                    let changes: Vec<(u32, f32)> =
                        changes.into_iter().map(|(at, by)| (at, f32::from(by))).collect();
                    cluster.step(0, &changes);
                    while cluster.send(0, 1, Lane::Control, 1) {
                        for place in places_announced(&cluster) {
                            promised[place as usize] = 1.0 + cluster.sources[0][place as usize];
                        }
                        cluster.deliver(0, 1, Lane::Control);
                    }
                }
                1 => { cluster.send(0, 1, Lane::Data, room); }
                2 => { cluster.deliver(0, 1, Lane::Data); }
                _ if asked.is_empty() => {
                    asked = changes.into_keys().collect();
                    if !asked.is_empty() {
                        cluster.ask(1, &asked);
                    }
                }
                _ => {}
            }
            if let Some(values) = cluster.answer(1) {
                for (place, value) in asked.iter().zip(values) {
                    prop_assert!(*value >= promised[*place as usize], "{place}: {value} {promised:?}");
                }
                cluster.finish(1, &[]);
                asked.clear();
            }
            cluster.assert_conserved();
        }
    }
}

/// The places in the announcement that lies next on the lane, none where that is another message.
fn places_announced(cluster: &Cluster) -> Vec<u32> {
    let lane = &cluster.lanes[&(DcId(0), DcId(1), Lane::Control)];
    let mut places = Vec::new();
    if let Some(ControlMessage::Announce { indexes, .. }) =
        lane.front().map(|frame| decode_control(frame).unwrap())
    {
        decode_indexes(&indexes, 12, &mut places).unwrap();
    }
    places
}

const DEADLINE: Duration = Duration::from_secs(10);
const HOLE: u32 = 100;
