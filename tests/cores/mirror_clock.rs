//! The mirror clock: no data center runs away from its slowest mirror, and none waits for ever.

use std::time::Duration;

use gaia_core::codec::ValueFormat;
use gaia_core::node::Lane;
use gaia_core::sync::{AspConfig, Brake, OnPartition, RemoteSync, WaitReason};
use gaia_core::types::{Clock, DcId, DurationSetting, Staleness, WorkerId};
use gaia_core::wire::{ControlMessage, encode_control};

use crate::cluster::{Cluster, GIVE_UP_AFTER, ROOM, Setup};
use crate::{POLICIES, asp};

/// Two data centers, at most `staleness` clocks apart.
fn cluster(policy: gaia_core::sync::Policy, staleness: u64) -> Cluster {
    let remote = RemoteSync::Asp(AspConfig {
        mirror_clock: Brake::On,
        data_center_staleness: Some(Staleness(staleness)),
        mirror_clock_deadline: DurationSetting(DEADLINE),
        ..asp(policy, ValueFormat::F32)
    });
    Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) })
}

#[test]
fn a_data_center_finishes_no_more_clocks_than_the_staleness_ahead_of_its_mirror() {
    for policy in POLICIES {
        for staleness in 1..5 {
            let mut cluster = cluster(policy, staleness);
            let mut finished = 0;
            for behind in 0..3 {
                while cluster.step(0, &[(0, 1.0)]) {
                    finished += 1;
                }
                assert_eq!(finished, staleness + behind);
                let waiting = cluster.servers[0].waiting();
                assert_eq!(waiting, Some(WaitReason::MirrorClock { from: DcId(1) }));
                assert!(cluster.step(1, &[(1, 1.0)]));
                cluster.settle();
            }
        }
    }
}

#[test]
fn a_clock_counts_only_once_the_updates_that_it_covers_have_been_applied() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 1);
        assert!(cluster.step(0, &[]));
        assert!(cluster.step(1, &[(0, 5.0)]));
        assert!(!cluster.send(1, 0, Lane::Control, ROOM), "nothing is reported ahead of the data");
        while cluster.send(1, 0, Lane::Data, ROOM) {}
        while cluster.send(1, 0, Lane::Control, ROOM) {}
        cluster.ask(0, &[]);
        while cluster.deliver(1, 0, Lane::Control) {}
        assert_eq!(cluster.answer(0), None, "{policy:?}: the report has overtaken the data");
        while cluster.deliver(1, 0, Lane::Data) {}
        assert_eq!(cluster.answer(0).map(|values| values[0]), Some(5.0));
    }
}

#[test]
fn a_silent_mirror_is_left_out_at_the_deadline_and_counts_again_when_heard() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 1);
        assert!(cluster.step(0, &[]));
        cluster.ask(0, &[]);
        cluster.pass(DEADLINE / 2);
        let due = cluster.servers[0].poll_timeout().map(|(at, _)| at);
        assert!(due.is_some_and(|at| at > cluster.now));
        assert_eq!(cluster.answer(0), None);

        assert!(cluster.wake(0));
        assert!(cluster.answer(0).is_some(), "{policy:?}: the deadline lets the read go");
        assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 1);
        let reply =
            cluster.answer_to(WorkerId { dc: DcId(0), index: 0 }).map(|reply| reply.held.clone());
        assert_eq!(reply, Some(vec![(WaitReason::MirrorClock { from: DcId(1) }, DEADLINE)]));
        cluster.finish(0, &[]);
        assert!(cluster.step(0, &[]), "who is lost holds nobody back");
        assert_eq!(cluster.servers[0].poll_timeout(), None);

        assert!(cluster.step(1, &[]));
        cluster.carry(1, 0, Lane::Control);
        assert!(
            !cluster.step(0, &[]),
            "{policy:?}: a mirror from which a frame arrives counts again"
        );
        for _ in 0..2 {
            cluster.settle();
            assert!(cluster.step(1, &[]));
        }
        cluster.settle();
        assert!(cluster.answer(0).is_some());
        assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 1);
    }
}

/// A mirror that had nothing to say for a long time is given the whole deadline by a read that begins to wait.
#[test]
fn silence_before_anybody_waits_does_not_count() {
    let mut cluster = cluster(POLICIES[1], 1);
    cluster.pass(2 * DEADLINE);
    assert!(cluster.step(0, &[]));
    cluster.ask(0, &[]);
    let asked_at = cluster.now;
    cluster.servers[0].handle_timeout(cluster.now);
    assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 0);
    assert!(cluster.wake(0));
    assert_eq!(cluster.now.since(asked_at), DEADLINE);
    assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 1);
}

#[test]
fn a_mirror_that_speaks_is_not_lost() {
    let mut cluster = cluster(POLICIES[1], 1);
    assert!(cluster.step(0, &[]));
    cluster.ask(0, &[]);
    cluster.pass(DEADLINE * 3 / 4);
    let mut frame = Vec::new();
    let report = ControlMessage::MirrorClock { clock: Clock(0), sequence: 0 };
    encode_control(&report, &mut frame);
    cluster.give(1, 0, Lane::Control, frame.into()).unwrap();
    cluster.pass(DEADLINE / 2);
    cluster.servers[0].handle_timeout(cluster.now);
    assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 0);
    assert!(cluster.wake(0));
    assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 1);
}

/// A link that carries nothing for a long time has one report to catch up with, not one for every clock.
#[test]
fn reports_of_a_dead_link_do_not_pile_up() {
    for policy in POLICIES {
        let remote = RemoteSync::Asp(asp(policy, ValueFormat::F32));
        let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
        for _ in 0..100 {
            assert!(cluster.step(0, &[]));
        }
        assert!(cluster.send(0, 1, Lane::Control, ROOM));
        assert!(!cluster.send(0, 1, Lane::Control, ROOM), "{policy:?}");
    }
}

/// It is heard all the time, so that it is not silent. A report of the clock that it has had is no progress, and neither
/// is one that covers updates which it never sends.
#[test]
fn a_mirror_that_is_heard_and_reports_no_clock_is_left_out_as_a_lost_node_is() {
    for policy in POLICIES {
        for report in [(Clock(0), 0), (Clock(5), u64::MAX)] {
            let mut cluster = cluster(policy, 1);
            assert!(cluster.step(0, &[]));
            cluster.ask(0, &[]);
            let asked_at = cluster.now;
            while cluster.answer(0).is_none() {
                assert!(cluster.now.since(asked_at) < GIVE_UP_AFTER, "{policy:?}: waits for ever");
                hear(&mut cluster, report);
                cluster.pass(DEADLINE / 2);
                let due = cluster.servers[0].poll_timeout().map(|(at, _)| at);
                if due.is_some_and(|at| at <= cluster.now) {
                    cluster.wake(0);
                }
            }
            assert_eq!(cluster.now.since(asked_at), GIVE_UP_AFTER, "{policy:?}");
            assert_eq!(cluster.servers[0].stalled_mirrors(), [DcId(1)].into());
            assert_eq!(cluster.servers[0].brake_stats().mirrors_lost, 1);

            cluster.finish(0, &[]);
            hear(&mut cluster, report);
            assert!(cluster.step(0, &[]), "{policy:?}: it is not enough that it is heard");
        }
    }
}

#[test]
fn a_mirror_whose_clock_advances_after_all_counts_again() {
    for policy in POLICIES {
        let mut cluster = cluster(policy, 1);
        assert!(cluster.step(0, &[]));
        cluster.ask(0, &[]);
        cluster.pass(GIVE_UP_AFTER - DEADLINE / 2);
        hear(&mut cluster, (Clock(0), 0));
        cluster.wake(0);
        assert_eq!(cluster.servers[0].stalled_mirrors(), [DcId(1)].into());
        assert!(cluster.answer(0).is_some());
        cluster.finish(0, &[]);

        hear(&mut cluster, (Clock(1), 0));
        assert!(cluster.servers[0].stalled_mirrors().is_empty());
        assert!(!cluster.step(0, &[]), "{policy:?}: it counts again, and is behind");
    }
}

/// The others may be where they are only because they wait for it.
#[test]
fn only_the_slowest_mirror_is_left_out_where_all_wait_for_it() {
    let remote = RemoteSync::Asp(AspConfig {
        mirror_clock: Brake::On,
        data_center_staleness: Some(Staleness(1)),
        mirror_clock_deadline: DurationSetting(2 * GIVE_UP_AFTER),
        ..asp(POLICIES[1], ValueFormat::F32)
    });
    let mut cluster = Cluster::new(&Setup::new(remote));
    for dc in 0..2 {
        assert!(cluster.step(dc, &[]));
        cluster.ask(dc, &[]);
    }
    cluster.carry(0, 1, Lane::Control);
    cluster.carry(1, 0, Lane::Control);
    for dc in 0..2 {
        assert!(cluster.wake(dc));
        assert_eq!(cluster.servers[usize::from(dc)].stalled_mirrors(), [DcId(2)].into());
        assert!(cluster.answer(dc).is_some());
    }
}

/// The first data center hears a report of the second.
fn hear(cluster: &mut Cluster, (clock, sequence): (Clock, u64)) {
    let mut frame = Vec::new();
    encode_control(&ControlMessage::MirrorClock { clock, sequence }, &mut frame);
    cluster.give(1, 0, Lane::Control, frame.into()).unwrap();
}

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_mirror_that_cannot_be_reached_is_left_out_at_once_or_waited_for_as_the_run_says() {
    for policy in POLICIES {
        for on_partition in [OnPartition::Continue, OnPartition::Pause] {
            let remote = RemoteSync::Asp(AspConfig {
                mirror_clock: Brake::On,
                data_center_staleness: Some(Staleness(2)),
                mirror_clock_deadline: DurationSetting(DEADLINE),
                on_partition,
                ..asp(policy, ValueFormat::F32)
            });
            let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
            let waits = Some(WaitReason::MirrorClock { from: DcId(1) });
            assert!(cluster.step(0, &[(0, 1.0)]));
            cluster.part(0, 1);
            if on_partition == OnPartition::Continue {
                assert!((0..5).all(|_| cluster.step(0, &[(0, 1.0)])), "{policy:?}");
                assert!(cluster.step(1, &[]));
                cluster.carry(1, 0, Lane::Control);
                assert!(!cluster.step(0, &[]), "{policy:?}: it counts again, and is behind");
            } else {
                cluster.ask(0, &[]);
                cluster.pass(2 * DEADLINE);
                assert!(!cluster.wake(0), "{policy:?}: nobody is left out");
                assert_eq!(cluster.servers[0].waiting(), waits);
                assert!(cluster.step(1, &[(1, 1.0)]));
                cluster.settle();
                assert!(cluster.answer(0).is_some(), "{policy:?}: a frame of it arrived");
            }
            cluster.assert_conserved();
        }
    }
}
