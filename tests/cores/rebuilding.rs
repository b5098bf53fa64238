//! A server that has lost its copy takes a mirror's, and what was on its way to that mirror belongs to it.

use std::collections::BTreeSet;

use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::node::{Lane, ServerInput};
use gaia_core::server::{DrainMethod, PeerError};
use gaia_core::sync::RemoteSync;
use gaia_core::types::{Clock, DcId, WorkerId};
use gaia_core::wire::{BulkHeader, BulkKind, ControlMessage, encode_control};

use crate::cluster::{Cluster, ROOM, Setup};
use crate::peers::{bulk, header};
use crate::{POLICIES, UNEVEN, asp, tap};

const LOST: u16 = 0;
const SOURCE: u16 = 1;
const OTHER: u16 = 2;

fn setup() -> Setup {
    let shares = UNEVEN.to_vec();
    Setup { drain: DrainMethod::Residuals, shares, ..Setup::new(tap(ValueFormat::F32)) }
}

/// A server takes the copy of a mirror to which an update is on its way.
fn copied() -> Cluster {
    let mut cluster = Cluster::new(&setup());
    cluster.step(OTHER, &[(0, 4.0)]);
    assert!(cluster.send(OTHER, SOURCE, Lane::Data, ROOM));
    cluster.lose(LOST, SOURCE);
    cluster.carry(LOST, SOURCE, Lane::Control);
    cluster.carry(LOST, OTHER, Lane::Control);
    cluster.carry(SOURCE, LOST, Lane::Data);
    let server = &cluster.servers[usize::from(LOST)];
    assert!(!server.is_rebuilding() && server.values()[0] == 0.0);
    assert!(!server.is_whole(), "an update is on its way to the source alone");
    cluster
}

#[test]
fn a_copy_is_whole_once_its_source_has_passed_on_what_was_on_its_way() {
    let mut cluster = copied();
    assert!(cluster.deliver(OTHER, SOURCE, Lane::Data));
    cluster.carry(SOURCE, LOST, Lane::Data);
    let server = &cluster.servers[usize::from(LOST)];
    assert!(server.values()[0] == 4.0 && !server.is_whole(), "more may come");
    cluster.carry(OTHER, SOURCE, Lane::Data);
    cluster.carry(SOURCE, LOST, Lane::Data);
    assert!(cluster.servers[usize::from(LOST)].is_whole());

    // Whoever has a whole copy needs its source no more.
    let inactive = BTreeSet::from([DcId(SOURCE)]);
    for dc in [LOST, OTHER] {
        let now = cluster.now;
        let server = &mut cluster.servers[usize::from(dc)];
        server.handle_input(now, ServerInput::Left { from: DcId(SOURCE), incarnation: 0 }).unwrap();
        if dc == LOST {
            server.place_worker(now, WorkerId { dc: DcId(dc), index: 0 }, Clock::ZERO);
        }
        let clocks = vec![if dc == LOST { Clock::ZERO } else { Clock(1) }];
        server.handle_drain(now, clocks, inactive.clone());
    }
    cluster.settle();
    for dc in [LOST, OTHER] {
        assert_eq!(cluster.servers[usize::from(dc)].copy(), [4.0, 0., 0., 0., 0., 0., 0., 0.]);
    }
}

#[test]
fn what_is_owed_when_all_end_is_for_the_drain() {
    let mut cluster = copied();
    let worker = WorkerId { dc: DcId(LOST), index: 0 };
    cluster.servers[usize::from(LOST)].place_worker(cluster.now, worker, Clock::ZERO);
    cluster.drain();
    for server in &cluster.servers {
        assert_eq!(server.copy(), [4.0, 0., 0., 0., 0., 0., 0., 0.]);
    }
}

#[test]
fn a_copy_that_is_not_whole_is_lost_with_its_source() {
    let mut cluster = copied();
    let reset = ServerInput::Reset { from: DcId(SOURCE), incarnation: 1 };
    let error = cluster.servers[usize::from(LOST)].handle_input(cluster.now, reset).unwrap_err();
    assert_eq!(error, PeerError::PeerLostCopy { from: DcId(SOURCE), sync: "tap" });
}

#[test]
fn nothing_is_taken_for_a_debt_of_one_that_owes_nothing() {
    let header = BulkHeader { origin: DcId(OTHER), ..header(BulkKind::Backlog, 1) };
    let frame = bulk(&header, Changes::Sparse { indexes: &[3], values: &[1.0] });
    for mut cluster in [Cluster::new(&setup()), copied()] {
        let error = cluster.give(OTHER, LOST, Lane::Data, frame.clone()).unwrap_err();
        let expected =
            PeerError::PeerSentUnexpectedKind { from: DcId(OTHER), found: "backlog", sync: "tap" };
        assert_eq!(error, expected);
    }
}

/// Models that share updates: a new incarnation of a mirror begins with a copy.
fn models() -> Vec<RemoteSync> {
    let asps = POLICIES.map(|policy| RemoteSync::Asp(asp(policy, ValueFormat::F32)));
    [tap(ValueFormat::F32)].into_iter().chain(asps).collect()
}

/// A mirror receives the request of the server that has lost its copy, and reports to its source where its link forks.
fn fork(cluster: &mut Cluster) {
    cluster.carry(LOST, OTHER, Lane::Control);
    cluster.carry(OTHER, SOURCE, Lane::Data);
}

/// The source receives the request for its copy, all is drained, and every copy is what all workers have changed.
fn assert_all_is_there_once(mut cluster: Cluster) {
    cluster.carry(LOST, SOURCE, Lane::Control);
    let worker = WorkerId { dc: DcId(LOST), index: 0 };
    cluster.servers[usize::from(LOST)].place_worker(cluster.now, worker, Clock::ZERO);
    cluster.drain();
    for server in &cluster.servers {
        assert_eq!(server.copy(), cluster.everything(), "{:?}", server.id());
    }
}

/// A late joiner loses its disk before its source has met it. The word of another mirror has made the source take a copy
/// for the first incarnation of the joiner, so that its link counts all that it shares as carried, of which nothing was sent. The
/// first hello that the source receives is of the second incarnation: it must count from nothing again. It once took what the
/// copy for the first incarnation held for sent to the second, and had the joiner take that off its copy.
#[test]
fn a_late_joiner_that_was_lost_before_its_source_connected_to_it_gets_a_copy_in_its_second_incarnation()
 {
    for remote in models() {
        for is_told_before in [true, false] {
            let inactive = BTreeSet::from([DcId(LOST)]);
            let mut cluster = Cluster::new(&Setup { remote: remote.clone(), inactive, ..setup() });
            cluster.step(SOURCE, &[(0, 4.0)]);
            cluster.begin_incarnation(LOST, 2, SOURCE);
            cluster.handle_input(OTHER, ServerInput::First { from: DcId(LOST), incarnation: 2 });
            fork(&mut cluster);

            cluster.begin_incarnation(LOST, 4, SOURCE);
            cluster.handle_input(OTHER, ServerInput::Reset { from: DcId(LOST), incarnation: 4 });
            if is_told_before {
                fork(&mut cluster);
            }
            cluster.handle_input(SOURCE, ServerInput::First { from: DcId(LOST), incarnation: 4 });
            cluster.step(SOURCE, &[(1, 2.0)]);
            cluster.carry(SOURCE, LOST, Lane::Data);
            if !is_told_before {
                fork(&mut cluster);
            }
            assert_all_is_there_once(cluster);
        }
    }
}

/// The word of another mirror about an incarnation of the lost server is on its way while that incarnation ends, and arrives after
/// its successor has met the source. The source once took a copy for the incarnation that was over, and then counted all of it
/// as carried to its successor, to which nothing had been sent.
#[test]
fn a_word_of_an_incarnation_before_the_first_one_met_takes_no_copy() {
    for remote in models() {
        for inactive in [BTreeSet::new(), BTreeSet::from([DcId(LOST)])] {
            let mut cluster = Cluster::new(&Setup { remote: remote.clone(), inactive, ..setup() });
            cluster.step(SOURCE, &[(0, 4.0)]);
            cluster.begin_incarnation(LOST, 2, SOURCE);
            cluster.handle_input(OTHER, ServerInput::First { from: DcId(LOST), incarnation: 2 });
            cluster.carry(LOST, OTHER, Lane::Control);
            assert!(cluster.send(OTHER, SOURCE, Lane::Data, ROOM), "where its link forks");

            cluster.begin_incarnation(LOST, 4, SOURCE);
            cluster.handle_input(SOURCE, ServerInput::First { from: DcId(LOST), incarnation: 4 });
            assert!(cluster.deliver(OTHER, SOURCE, Lane::Data), "it is out of date");
            cluster.handle_input(OTHER, ServerInput::Reset { from: DcId(LOST), incarnation: 4 });
            fork(&mut cluster);
            assert_all_is_there_once(cluster);
        }
    }
}

/// The late joiner has another source in its second incarnation than in its first, as a nearer data center has joined meanwhile.
#[test]
fn a_source_that_never_connected_to_an_incarnation_forks_its_link_in_the_next() {
    for remote in models() {
        let inactive = BTreeSet::from([DcId(LOST)]);
        let mut cluster = Cluster::new(&Setup { remote, inactive, ..setup() });
        cluster.step(OTHER, &[(0, 4.0)]);
        cluster.begin_incarnation(LOST, 2, OTHER);
        cluster.handle_input(SOURCE, ServerInput::First { from: DcId(LOST), incarnation: 2 });
        cluster.carry(LOST, SOURCE, Lane::Control);
        cluster.carry(SOURCE, OTHER, Lane::Data);

        cluster.begin_incarnation(LOST, 4, SOURCE);
        cluster.handle_input(SOURCE, ServerInput::Reset { from: DcId(LOST), incarnation: 4 });
        cluster.handle_input(OTHER, ServerInput::First { from: DcId(LOST), incarnation: 4 });
        fork(&mut cluster);
        assert_all_is_there_once(cluster);
    }
}

/// A server has died with its machine, so that its source still holds the connection to that incarnation open while another
/// mirror reports the next. What is sent there is lost: no update may leave until the next incarnation has asked.
#[test]
fn nothing_is_sent_to_an_incarnation_that_has_not_requested_its_copy() {
    for remote in models() {
        let mut cluster = Cluster::new(&Setup { remote, ..setup() });
        cluster.step(SOURCE, &[(0, 4.0)]);
        cluster.carry(SOURCE, LOST, Lane::Data);
        cluster.begin_incarnation(LOST, 1, SOURCE);
        cluster.handle_input(OTHER, ServerInput::Reset { from: DcId(LOST), incarnation: 1 });
        fork(&mut cluster);

        cluster.step(SOURCE, &[(1, 2.0)]);
        assert!(!cluster.servers[usize::from(SOURCE)].has_updates_for(DcId(LOST)));
        assert!(!cluster.send(SOURCE, LOST, Lane::Data, ROOM), "to the incarnation before");
        cluster.handle_input(SOURCE, ServerInput::Reset { from: DcId(LOST), incarnation: 1 });
        assert_all_is_there_once(cluster);
    }
}

/// The request of the first incarnation was on its way to the source when the server died again; the word of the second incarnation has
/// overtaken it.
#[test]
fn a_request_of_an_incarnation_that_has_ended_gets_no_copy() {
    let mut cluster = Cluster::new(&setup());
    cluster.step(SOURCE, &[(0, 4.0)]);
    cluster.handle_input(SOURCE, ServerInput::Reset { from: DcId(LOST), incarnation: 1 });
    cluster.begin_incarnation(LOST, 3, SOURCE);
    cluster.handle_input(OTHER, ServerInput::Reset { from: DcId(LOST), incarnation: 3 });
    fork(&mut cluster);

    let mut request = Vec::new();
    encode_control(&ControlMessage::Rebuild { from: DcId(SOURCE), incarnation: 1 }, &mut request);
    cluster.give(LOST, SOURCE, Lane::Control, request.into()).unwrap();
    assert!(!cluster.send(SOURCE, LOST, Lane::Data, ROOM), "the copy is for the incarnation after");
    cluster.handle_input(SOURCE, ServerInput::Reset { from: DcId(LOST), incarnation: 3 });
    assert_all_is_there_once(cluster);
}

/// No brake holds the source of a copy back before the mirror that takes it reports a clock. Reports have precedence, so those of
/// many short clocks would leave the copy no room on a slow link.
#[test]
fn no_clock_is_reported_to_a_mirror_before_its_copy_is_sent() {
    for policy in POLICIES {
        let remote = RemoteSync::Asp(asp(policy, ValueFormat::F32));
        let mut cluster = Cluster::new(&Setup { remote, ..setup() });
        cluster.lose(LOST, SOURCE);
        cluster.carry(LOST, SOURCE, Lane::Control);
        cluster.carry(SOURCE, LOST, Lane::Control);

        assert!(cluster.step(SOURCE, &[]));
        assert!(!cluster.send(SOURCE, LOST, Lane::Control, ROOM), "before the copy");
        assert!(cluster.send(SOURCE, LOST, Lane::Data, ROOM), "the copy");
        assert!(cluster.send(SOURCE, LOST, Lane::Control, ROOM), "the clock that has ended");
    }
}
