//! Whatever a mirror sends, a server answers with a typed error or goes on, and a refused frame leaves no trace.

use std::collections::BTreeSet;

use bytes::Bytes;
use gaia_core::codec::{Changes, ValueFormat, encode_indexes};
use gaia_core::node::Lane;
use gaia_core::server::{DrainMethod, PeerError};
use gaia_core::sync::{AspConfig, Brake, Combine, LocalStepsConfig, RemoteSync};
use gaia_core::types::{Clock, DcId, Instant, ShardId, Staleness, Tightness};
use gaia_core::wire::{
    BulkHeader, BulkKind, ControlMessage, Hello, LinkReport, decode_bulk, decode_control,
    encode_bulk, encode_control,
};
use proptest::prelude::*;

use crate::cluster::{Cluster, ROOM, Setup};
use crate::{POLICIES, asp, bsp, local_steps, ssp, tap};

pub fn header(kind: BulkKind, sequence: u64) -> BulkHeader {
    BulkHeader {
        kind,
        origin: DcId(1),
        shard: ShardId(0),
        sequence,
        clock: Clock(0),
        last: true,
        relayed: false,
        tightness: Tightness::NONE,
    }
}

pub fn bulk(header: &BulkHeader, changes: Changes<'_>) -> Bytes {
    let mut frame = Vec::new();
    encode_bulk(header, changes, ValueFormat::F32, &mut frame);
    frame.into()
}

fn control(message: &ControlMessage) -> Bytes {
    let mut frame = Vec::new();
    encode_control(message, &mut frame);
    frame.into()
}

fn braked() -> RemoteSync {
    RemoteSync::Asp(AspConfig {
        selective_barrier: Brake::On,
        mirror_clock: Brake::On,
        data_center_staleness: Some(Staleness(2)),
        ..asp(POLICIES[1], ValueFormat::F32)
    })
}

fn models() -> [RemoteSync; 8] {
    let paper = RemoteSync::Asp(asp(POLICIES[0], ValueFormat::F32));
    let [sum, mean] = [Combine::Sum, Combine::Mean].map(|combine| {
        let config = LocalStepsConfig { combine, ..local_steps(1, ValueFormat::F32) };
        RemoteSync::LocalSteps(config)
    });
    let quorum = LocalStepsConfig { quorum: 0.5, ..local_steps(1, ValueFormat::F32) };
    let quorum = RemoteSync::LocalSteps(quorum);
    [bsp(ValueFormat::F32), ssp(2), tap(ValueFormat::F32), paper, braked(), sum, mean, quorum]
}

/// What a refused frame must not change.
pub fn state(cluster: &Cluster) -> (Vec<u32>, Vec<u32>, Option<gaia_core::sync::WaitReason>) {
    let server = &cluster.servers[0];
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    (bits(server.values()), bits(server.copy()), server.waiting())
}

/// Gives the first of two data centers a frame that its mirror must not have sent.
fn refused(remote: &RemoteSync, lane: Lane, frame: &Bytes) -> PeerError {
    let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote.clone()) });
    cluster.ask(0, &[]);
    let before = state(&cluster);
    let error = cluster.give(1, 0, lane, frame.clone()).expect_err("the frame is refused");
    assert_eq!(state(&cluster), before, "{error}");
    error
}

#[test]
fn frames_that_a_mirror_must_not_send_are_refused_by_name() {
    let from = DcId(1);
    let one = Changes::Sparse { indexes: &[2], values: &[1.0] };
    let check = |remote: RemoteSync, header: BulkHeader, changes, expected: PeerError| {
        assert_eq!(refused(&remote, Lane::Data, &bulk(&header, changes)), expected);
    };
    let tap = || tap(ValueFormat::F32);
    let bsp = || bsp(ValueFormat::F32);
    let update = header(BulkKind::Update, 1);

    let skipped = |expected| PeerError::PeerSentWrongSequence { from, found: 5, expected };
    check(tap(), BulkHeader { sequence: 5, ..update }, one, skipped(1));
    check(bsp(), header(BulkKind::Partial, 5), one, skipped(1));
    let foreign = PeerError::PeerSentForeignOrigin { from, origin: DcId(7) };
    check(tap(), BulkHeader { origin: DcId(7), ..update }, one, foreign);
    let (found, expected) = (ShardId(3), ShardId(0));
    let foreign = PeerError::PeerSentForeignShard { from, found, expected };
    check(braked(), BulkHeader { shard: found, ..update }, one, foreign);

    for (remote, kind, sync) in [
        (bsp(), BulkKind::Update, "bsp or ssp"),
        (bsp(), BulkKind::DrainCopy, "bsp or ssp"),
        (tap(), BulkKind::Total, "tap"),
        (tap(), BulkKind::DrainCopy, "tap"),
        (braked(), BulkKind::Partial, "asp"),
        (braked(), BulkKind::DrainResult, "asp"),
    ] {
        let found = kind.name();
        let expected = PeerError::PeerSentUnexpectedKind { from, found, sync };
        check(remote, header(kind, 1), one, expected);
    }

    let partial = header(BulkKind::Partial, 1);
    let wrong = PeerError::PeerSentWrongClock { from, found: Clock(9), expected: Clock(0) };
    check(bsp(), BulkHeader { clock: Clock(9), ..partial }, one, wrong);
    // The receiver has finished no clock, so there can be no total of one.
    let early = PeerError::PeerSentEarlyClock { from, found: Clock(0), below: Clock(0) };
    check(
        bsp(),
        header(BulkKind::Total, 1),
        Changes::Sparse { indexes: &[6], values: &[1.0] },
        early,
    );

    // The first of the two is at home in parameters 0 to 3: a frame that is wrong in its last place only.
    let straddling = Changes::Sparse { indexes: &[0, 7], values: &[1.0, 1.0] };
    let foreign =
        |index| PeerError::PeerSentForeignParameter { from, index, expected: "0..4".into() };
    check(bsp(), partial, straddling, foreign(7));
    check(bsp(), partial, Changes::Dense { start: 2, values: &[1.0; 3] }, foreign(4));
}

#[test]
fn control_that_a_model_does_not_use_is_refused() {
    let mut indexes = Vec::new();
    encode_indexes(&[1], &mut indexes);
    let announce = ControlMessage::Announce {
        announcement: 1,
        clock: Clock(1),
        sequence: 1,
        indexes: indexes.into(),
    };
    let report = ControlMessage::MirrorClock { clock: Clock(1), sequence: 0 };
    let end = ControlMessage::EndOfUpdates { sequence: 0 };
    let link_report = ControlMessage::LinkReport(LinkReport::default());
    for (remote, message, sync) in [
        (tap(ValueFormat::F32), &announce, "tap"),
        (tap(ValueFormat::F32), &report, "tap"),
        (bsp(ValueFormat::F32), &announce, "bsp or ssp"),
        (ssp(1), &end, "bsp or ssp"),
        (bsp(ValueFormat::F32), &link_report, "bsp or ssp"),
    ] {
        let found = message.name();
        let expected = PeerError::PeerSentUnexpectedKind { from: DcId(1), found, sync };
        assert_eq!(refused(&remote, Lane::Control, &control(message)), expected);
    }
}

#[test]
fn a_stranger_is_refused_in_both_lanes() {
    for remote in models() {
        let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
        let hello = control(&ControlMessage::EndOfUpdates { sequence: 0 });
        let update =
            bulk(&header(BulkKind::Update, 1), Changes::Dense { start: 0, values: &[1.0] });
        // A data center has no link to itself either.
        for stranger in [0, 2, u16::MAX] {
            let expected = Err(PeerError::UnknownPeer { from: DcId(stranger) });
            assert_eq!(cluster.give(stranger, 0, Lane::Control, hello.clone()), expected);
            assert_eq!(cluster.give(stranger, 0, Lane::Data, update.clone()), expected);
        }
    }
}

#[test]
fn a_frame_that_comes_twice_is_applied_once() {
    for remote in models() {
        let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
        assert!(cluster.step(1, &[(0, 4.0)]));
        assert!(cluster.send(1, 0, Lane::Data, ROOM));
        let frame = cluster.lanes[&(DcId(1), DcId(0), Lane::Data)][0].clone();
        assert!(cluster.deliver(1, 0, Lane::Data));
        let before = state(&cluster);
        let again = cluster.give(1, 0, Lane::Data, frame);
        let expected = PeerError::PeerSentWrongSequence { from: DcId(1), found: 1, expected: 2 };
        assert_eq!(again, Err(expected));
        assert_eq!(state(&cluster), before);
    }
}

#[test]
fn the_parts_of_a_drain_come_once_each_and_in_turn() {
    let dense = |start, values| Changes::Dense { start, values };
    let copy = |sequence, last| BulkHeader { last, ..header(BulkKind::DrainCopy, sequence) };
    let draining = || {
        let drain = DrainMethod::Mean;
        let remote = tap(ValueFormat::F32);
        let mut cluster = Cluster::new(&Setup { data_centers: 2, drain, ..Setup::new(remote) });
        cluster.servers[0].handle_drain(cluster.now, vec![Clock(0)], BTreeSet::new());
        let end = control(&ControlMessage::EndOfUpdates { sequence: 0 });
        cluster.give(1, 0, Lane::Control, end).unwrap();
        cluster
    };
    let wrong = |cluster: &mut Cluster, header, changes, found: &str, expected: &str| {
        let before = state(cluster);
        let given = cluster.give(1, 0, Lane::Data, bulk(&header, changes));
        let (found, expected) = (found.into(), expected.into());
        assert_eq!(given, Err(PeerError::PeerSentWrongPart { from: DcId(1), found, expected }));
        assert_eq!(state(cluster), before);
    };
    let cluster = &mut draining();
    wrong(cluster, copy(1, true), dense(0, &[1.0; 3]), "0..3 as the last", "0..4");
    wrong(cluster, copy(1, false), dense(0, &[1.0; 4]), "0..4 as not the last", "0..4");
    wrong(cluster, copy(1, true), dense(3, &[1.0; 4]), "3..7", "0..4");
    let scattered = Changes::Sparse { indexes: &[0, 3], values: &[1.0, 1.0] };
    wrong(cluster, copy(1, true), scattered, "scattered parameters", "0..4");
    cluster.give(1, 0, Lane::Data, bulk(&copy(1, false), dense(0, &[1.0; 2]))).unwrap();
    wrong(cluster, copy(2, false), dense(1, &[1.0; 2]), "1..3", "2..4");
    cluster.give(1, 0, Lane::Data, bulk(&copy(2, true), dense(2, &[1.0; 2]))).unwrap();
    assert_eq!(cluster.servers[0].values(), [0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]);
    wrong(cluster, copy(3, true), dense(0, &[1.0; 4]), "0..4", "nothing");
    let result = header(BulkKind::DrainResult, 3);
    wrong(cluster, result, dense(0, &[1.0; 4]), "0..4", "4..8");
    cluster.give(1, 0, Lane::Data, bulk(&result, dense(4, &[2.0; 4]))).unwrap();
    assert_eq!(cluster.servers[0].values()[4..], [2.0; 4]);

    let late = bulk(&header(BulkKind::Update, 1), dense(0, &[1.0]));
    let (found, sync) = ("update", "a drain");
    let expected = PeerError::PeerSentUnexpectedKind { from: DcId(1), found, sync };
    assert_eq!(draining().give(1, 0, Lane::Data, late), Err(expected));
}

/// How a mirror may lie within a frame whose length and CRC are right.
fn lie() -> impl Strategy<Value = (Lane, Bytes)> {
    let small = || prop_oneof![4 => 0_u64..4, 1 => Just(u64::MAX), 1 => any::<u64>()];
    let places = || prop::collection::btree_set(0_u32..8, 0..8);
    let kind = prop::sample::select(&BulkKind::ALL[..]);
    let fields = (kind, small(), small(), any::<bool>(), any::<bool>());
    let changes = (places(), any::<bool>(), any::<f32>());
    let data = (fields, changes).prop_map(
        |((kind, sequence, clock, last, relayed), (places, dense, value))| {
            let header =
                BulkHeader { clock: Clock(clock), last, relayed, ..header(kind, sequence) };
            let indexes: Vec<u32> = places.into_iter().collect();
            let values = vec![value; indexes.len()];
            let start = 8 - indexes.len() as u32;
            let changes = if dense {
                Changes::Dense { start, values: &values }
            } else {
                Changes::Sparse { indexes: &indexes, values: &values }
            };
            (Lane::Data, bulk(&header, changes))
        },
    );
    let announce = (small(), small(), prop::collection::btree_set(0_u32..12, 0..8)).prop_map(
        |(clock, sequence, places)| {
            let mut indexes = Vec::new();
            encode_indexes(&places.into_iter().collect::<Vec<u32>>(), &mut indexes);
            let (announcement, clock) = (1, Clock(clock));
            ControlMessage::Announce { announcement, clock, sequence, indexes: indexes.into() }
        },
    );
    let packed = prop::collection::vec(any::<u8>(), 0..40).prop_map(|indexes| {
        let (announcement, clock, sequence) = (1, Clock(1), 1);
        ControlMessage::Announce { announcement, clock, sequence, indexes: indexes.into() }
    });
    let report = (small(), small()).prop_map(|(clock, sequence)| ControlMessage::MirrorClock {
        clock: Clock(clock),
        sequence,
    });
    let end = small().prop_map(|sequence| ControlMessage::EndOfUpdates { sequence });
    let dcs = || {
        let ids = prop::collection::btree_set(0_u16..4, 0..4);
        ids.prop_map(|ids| ids.into_iter().map(DcId).collect::<BTreeSet<DcId>>())
    };
    let link_report = (small(), dcs(), dcs(), any::<bool>());
    let link_report = link_report.prop_map(|(version, silent, behind, pauses)| {
        let failed = silent.iter().map(|dc| (*dc, 1)).collect();
        let failed_links = silent.union(&behind).copied().collect();
        ControlMessage::LinkReport(LinkReport {
            version,
            silent,
            behind,
            failed_links,
            failed,
            pauses,
        })
    });
    let caught_up = (small(), small())
        .prop_map(|(version, sequence)| ControlMessage::CaughtUp { version, sequence });
    let message = prop_oneof![announce, packed, report, end, link_report, caught_up]
        .prop_map(|message| (Lane::Control, control(&message)));
    let noise = (
        prop_oneof![Just(Lane::Control), Just(Lane::Data)],
        prop::collection::vec(any::<u8>(), 0..80),
    )
        .prop_map(|(lane, bytes)| (lane, Bytes::from(bytes)));
    prop_oneof![4 => data, 3 => message, 1 => noise]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_frame_makes_a_server_panic_and_a_refused_one_leaves_no_trace(
        which in 0_usize..8,
        draining in any::<bool>(),
        lies in prop::collection::vec(lie(), 1..12),
    ) {
        let remote = models()[which].clone();
        let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
        prop_assert!(cluster.step(0, &[(0, 1.0), (6, 2.0)]));
        cluster.ask(0, &[]);
        if draining {
            cluster.servers[0].handle_drain(cluster.now, vec![Clock(1)], BTreeSet::new());
        }
        for (lane, frame) in lies {
            let before = state(&cluster);
            if cluster.give(1, 0, lane, frame).is_err() {
                prop_assert_eq!(state(&cluster), before);
            }
            cluster.servers[0].handle_timeout(cluster.now);
            while cluster.servers[0].poll_transmit(cluster.now, DcId(1), lane, ROOM).is_some() {}
        }
        for _ in 0..8 {
            cluster.wake(0);
        }
    }

    /// An honest frame with some bytes changed is refused, whichever they are: the CRC covers all of them.
    #[test]
    fn a_damaged_frame_is_refused(
        which in 0_usize..8,
        at in any::<prop::sample::Index>(),
        by in 1_u8..=255,
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let remote = models()[which].clone();
        let mut cluster = Cluster::new(&Setup { data_centers: 2, ..Setup::new(remote) });
        prop_assert!(cluster.step(1, &[(0, 4.0), (2, 5.0)]));
        prop_assert!(cluster.send(1, 0, Lane::Data, ROOM));
        let honest = cluster.lanes[&(DcId(1), DcId(0), Lane::Data)][0].clone();
        let mut damaged = honest.to_vec();
        if cut {
            damaged.truncate(length.index(honest.len()));
        } else {
            damaged[at.index(honest.len())] ^= by;
        }
        let before = state(&cluster);
        let given = cluster.give(1, 0, Lane::Data, damaged.into());
        prop_assert!(matches!(given, Err(PeerError::PeerSentBadFrame { .. })), "{given:?}");
        prop_assert_eq!(state(&cluster), before);
        prop_assert!(decode_bulk(&honest, 8, &mut Default::default()).is_ok());
        prop_assert_eq!(cluster.give(1, 0, Lane::Data, honest), Ok(()));
    }
}

#[test]
fn a_mirror_of_another_run_is_refused_by_its_hello() {
    let setup = Setup { data_centers: 2, ..Setup::new(models()[0].clone()) };
    let first = setup.server(DcId(0)).poll_transmit(Instant::ZERO, DcId(1), Lane::Control, 64);
    let Ok(ControlMessage::Hello(own)) = decode_control(&first.unwrap()) else {
        panic!("a server says hello first")
    };
    let check = |theirs: Hello, expect: Result<(), PeerError>| {
        let frame = control(&ControlMessage::Hello(theirs));
        assert_eq!(Cluster::new(&setup).give(1, 0, Lane::Control, frame), expect);
    };
    let from = DcId(1);
    let theirs = Hello { from, ..own };
    let differs =
        |what, found, expected| Err(PeerError::PeerRunsOtherPlan { from, what, found, expected });
    check(theirs, Ok(()));
    check(own, Err(PeerError::PeerSentForeignOrigin { from, origin: DcId(0) }));
    check(
        Hello { plan: own.plan + 1, ..theirs },
        differs("a plan with hash", own.plan + 1, own.plan),
    );
    let parameters = own.parameters + 1;
    check(
        Hello { parameters, ..theirs },
        differs("a number of parameters", parameters, own.parameters),
    );
}
