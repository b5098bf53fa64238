//! The guard against skew: copies travel whole, alarms tighten every data center, and local steps stay in step.

use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::node::Lane;
use gaia_core::server::{PeerError, Server};
use gaia_core::sync::{AspConfig, Brake, GuardConfig, LocalStepsConfig, RemoteSync};
use gaia_core::types::{Clock, DcId, Staleness, Tightness};
use gaia_core::wire::{BulkHeader, BulkKind, ControlMessage, encode_control};

use crate::cluster::{Cluster, ROOM, Setup};
use crate::peers::{bulk, header};
use crate::{POLICIES, asp, local_steps};

fn guard(every: u64) -> Option<GuardConfig> {
    Some(GuardConfig { every, bound: 0.1, examples: 1 })
}

fn asp_under_guard(every: u64) -> RemoteSync {
    RemoteSync::Asp(AspConfig {
        guard: guard(every),
        mirror_clock: Brake::On,
        data_center_staleness: Some(Staleness(16)),
        ..asp(POLICIES[1], ValueFormat::F32)
    })
}

fn steps_under_guard(steps: u64, every: u64) -> RemoteSync {
    let config = local_steps(steps, ValueFormat::F32);
    RemoteSync::LocalSteps(LocalStepsConfig { guard: guard(every), ..config })
}

/// One clock of every data center, each changing a parameter of its own.
fn clock(cluster: &mut Cluster) {
    for dc in 0..3 {
        assert!(cluster.step(dc, &[(u32::from(dc), 8.0)]), "data center {dc} waits");
    }
    cluster.settle();
}

#[test]
fn a_copy_travels_whole_and_is_laid_beside_the_one_at_home() {
    let mut cluster = Cluster::new(&Setup { initial: 4.0, ..Setup::new(asp_under_guard(2)) });
    for _ in 0..2 {
        clock(&mut cluster);
    }
    assert!(cluster.probes.is_empty());
    let taken: Vec<Vec<f32>> = cluster.servers.iter().map(|one| one.values().to_vec()).collect();
    for _ in 0..2 {
        clock(&mut cluster);
    }
    let routes: Vec<(u16, u16)> =
        cluster.probes.iter().map(|(host, probe)| (probe.of.0, host.0)).collect();
    assert_eq!(routes, [(1, 0), (2, 1), (0, 2)], "with one turn over, each went two further");
    for (host, probe) in &cluster.probes {
        assert_eq!(probe.clock, Clock(2));
        assert_eq!(probe.away, taken[probe.of.index()]);
        // At home a clock has passed in the meantime.
        assert_eq!(probe.home[host.index()], taken[host.index()][host.index()] + 8.0);
    }
    cluster.assert_conserved();
}

#[test]
fn an_alarm_tightens_thresholds_and_clocks_everywhere() {
    let mut cluster = Cluster::new(&Setup { initial: 100.0, ..Setup::new(asp_under_guard(2)) });
    let mut finished = 0;
    while cluster.step(0, &[]) {
        finished += 1;
    }
    assert_eq!(finished, 16, "the bound as configured");
    for dc in 1..3 {
        while cluster.step(dc, &[]) {}
    }
    cluster.settle();
    cluster.lost = 0.9;
    while cluster.servers[0].tightness() == Tightness::NONE {
        clock(&mut cluster);
    }
    cluster.lost = 0.05;
    for _ in 0..6 {
        clock(&mut cluster);
    }
    // Nine times the bound is worth two steps.
    for server in &cluster.servers {
        assert_eq!(server.tightness(), Tightness::new(2).unwrap());
    }
    // 5 of 100 is below a half and above a 32nd.
    assert!(cluster.step(0, &[(7, 5.0)]));
    cluster.settle();
    assert_eq!(cluster.servers[1].values()[7], 105.0);
    assert!(!cluster.step(0, &[]), "a quarter of a quarter of 16 clocks");
}

#[test]
fn alarms_of_local_steps_bring_rounds_closer_at_all_data_centers_alike() {
    for every in [1, 3, 5] {
        let mut cluster = Cluster::new(&Setup::new(steps_under_guard(8, every)));
        cluster.lost = 0.15;
        // The first is far ahead of the others whenever it may.
        for _ in 0..60 {
            while cluster.step(0, &[(0, 1.0), (5, 1.0)]) {}
            for dc in 1..3 {
                cluster.step(dc, &[(u32::from(dc), 1.0), (5, 1.0)]);
            }
            cluster.settle();
        }
        let tightness: Vec<Tightness> = cluster.servers.iter().map(Server::tightness).collect();
        assert_eq!(tightness, [Tightness::new(2).unwrap(); 3], "8, 2, 1 clocks between rounds");
        let ahead = cluster.servers[0].clock().0 - cluster.servers[1].clock().0;
        assert!(ahead <= 1, "without overlap, after every clock there is a round: {ahead}");
        for dc in 1..3 {
            while cluster.servers[usize::from(dc)].clock() < cluster.servers[0].clock() {
                assert!(cluster.step(dc, &[]));
                cluster.settle();
            }
        }
        cluster.drain();
        let everything = cluster.everything();
        for server in &cluster.servers {
            assert_eq!(server.values(), everything, "{every}: what was changed, once");
        }
    }
}

#[test]
fn quiet_copies_loosen_what_an_alarm_has_tightened() {
    let mut cluster = Cluster::new(&Setup::new(steps_under_guard(8, 2)));
    cluster.lost = 0.15;
    for _ in 0..40 {
        clock(&mut cluster);
    }
    assert_ne!(cluster.servers[0].tightness(), Tightness::NONE);
    cluster.lost = 0.0;
    for _ in 0..2000 {
        clock(&mut cluster);
    }
    assert_eq!(cluster.servers[0].tightness(), Tightness::NONE);
}

/// The copies are the last frames of updates on both links, and the ends of updates overtake them.
#[test]
fn a_drain_begins_with_a_copy_that_arrives_last() {
    let setup = Setup { data_centers: 2, ..Setup::new(asp_under_guard(1)) };
    let mut cluster = Cluster::new(&setup);
    for changes in [[(0, 8.0)], [(1, 8.0)]] {
        for dc in 0..2 {
            assert!(cluster.step(dc, &changes));
        }
        cluster.carry(0, 1, Lane::Data);
        cluster.carry(1, 0, Lane::Data);
    }

    // The read at which the next copies are taken is the last one.
    for dc in 0..2 {
        assert!(cluster.step(dc, &[]));
    }
    let links = [(0, 1), (1, 0)];
    for (from, to) in links {
        while cluster.send(from, to, Lane::Data, ROOM) {}
    }
    for dc in 0..2 {
        cluster.begin_drain(dc, vec![Clock(3)]);
    }
    for (from, to) in links {
        cluster.carry(from, to, Lane::Control);
    }
    cluster.settle();
    assert_eq!(cluster.drained, 2);
}

/// Data centers that are looked at measure what came from elsewhere beside their own copy of the same clock, however late it is.
#[test]
fn copies_that_are_looked_at_travel_at_few_clocks_and_are_measured_beside_those_of_the_same() {
    let remote = RemoteSync::Asp(asp(POLICIES[1], ValueFormat::F32));
    let mut cluster =
        Cluster::new(&Setup { initial: 4.0, looks_at_copies: true, ..Setup::new(remote) });
    cluster.lost = 0.5;
    let mut taken: Vec<Vec<f32>> = Vec::new();
    for finished in 0..45 {
        if finished == 10 {
            taken = cluster.servers.iter().map(|server| server.values().to_vec()).collect();
        }
        for dc in 0..3 {
            assert!(cluster.step(dc, &[(u32::from(dc), 1.0)]));
        }
        // Nothing arrives for three clocks after the first copies were taken.
        if !(10..13).contains(&finished) {
            cluster.settle();
        }
    }

    let first: Vec<_> =
        cluster.probes.iter().filter(|(_, probe)| probe.clock == Clock(10)).collect();
    assert_eq!(first.len(), 3, "each data center measures one copy");
    for (host, probe) in first {
        for (found, copy) in [(&probe.away, probe.of), (&probe.home, *host)] {
            for (found, expected) in found.iter().zip(&taken[copy.index()]) {
                assert!((found - expected).abs() <= 14.0 / 127.0, "{found} {expected}");
            }
        }
    }
    let clocks: Vec<u64> = cluster.probed.iter().map(|(_, probed)| probed.clock.0).collect();
    assert_eq!(clocks, [10, 10, 10, 20, 20, 20, 40, 40, 40]);
    assert!(cluster.probed.iter().all(|(dc, probed)| probed.of != *dc && probed.away == 0.5));
    assert!(cluster.servers.iter().all(|server| server.tightness() == Tightness::NONE));
    cluster.assert_conserved();
    cluster.drain();
}

#[test]
fn without_a_guard_its_frames_are_refused() {
    let setup = |remote| Setup { data_centers: 2, ..Setup::new(remote) };
    let steps = RemoteSync::LocalSteps(local_steps(1, ValueFormat::F32));
    let asp = RemoteSync::Asp(asp(POLICIES[1], ValueFormat::F32));
    let refused = |remote: &RemoteSync, lane, frame| {
        let given = Cluster::new(&setup(remote.clone())).give(1, 0, lane, frame);
        matches!(given, Err(PeerError::PeerSentUnexpectedKind { from: DcId(1), .. }))
    };
    let nothing = Changes::Sparse { indexes: &[], values: &[] };
    let mut tightness = Vec::new();
    encode_control(&ControlMessage::Tightness { steps: 1 }, &mut tightness);
    for remote in [&steps, &asp] {
        let probe = bulk(&header(BulkKind::Probe, 1), nothing);
        assert!(refused(remote, Lane::Data, probe));
        assert!(refused(remote, Lane::Control, tightness.clone().into()));
    }
    let wish = Tightness::new(1).unwrap();
    let part =
        |tightness| BulkHeader { clock: Clock(1), tightness, ..header(BulkKind::Partial, 1) };
    assert!(refused(&steps, Lane::Data, bulk(&part(wish), nothing)));
    assert!(!refused(&steps, Lane::Data, bulk(&part(Tightness::NONE), nothing)));
}
