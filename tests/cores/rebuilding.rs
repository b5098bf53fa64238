//! A server that has lost its copy takes a mirror's, and what was on its way to that mirror belongs to it.

use std::collections::BTreeSet;

use gaia::codec::{Changes, ValueFormat};
use gaia::node::{Lane, ServerInput};
use gaia::server::{DrainMethod, PeerError};
use gaia::types::{Clock, DcId, WorkerId};
use gaia::wire::{BulkHeader, BulkKind};

use crate::cluster::{Cluster, ROOM, Setup};
use crate::peers::{bulk, header};
use crate::tap;

const LOST: u16 = 0;
const SOURCE: u16 = 1;
const OTHER: u16 = 2;

fn setup() -> Setup {
    Setup { drain: DrainMethod::Residuals, ..Setup::new(tap(ValueFormat::F32)) }
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
    let absent = BTreeSet::from([DcId(SOURCE)]);
    for dc in [LOST, OTHER] {
        let now = cluster.now;
        let server = &mut cluster.servers[usize::from(dc)];
        server.handle_input(now, ServerInput::Left { from: DcId(SOURCE), life: 0 }).unwrap();
        if dc == LOST {
            server.place_worker(now, WorkerId { dc: DcId(dc), index: 0 }, Clock::ZERO);
        }
        let clocks = vec![if dc == LOST { Clock::ZERO } else { Clock(1) }];
        server.handle_drain(now, clocks, absent.clone());
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
    let anew = ServerInput::Anew { from: DcId(SOURCE), life: 1 };
    let error = cluster.servers[usize::from(LOST)].handle_input(cluster.now, anew).unwrap_err();
    assert_eq!(error, PeerError::PeerLostCopy { from: DcId(SOURCE), sync: "tap" });
}

#[test]
fn nothing_is_taken_for_a_debt_of_one_that_owes_nothing() {
    let header = BulkHeader { origin: DcId(OTHER), ..header(BulkKind::Debt, 1) };
    let frame = bulk(&header, Changes::Sparse { indexes: &[3], values: &[1.0] });
    for mut cluster in [Cluster::new(&setup()), copied()] {
        let error = cluster.give(OTHER, LOST, Lane::Data, frame.clone()).unwrap_err();
        let expected =
            PeerError::PeerSentUnexpectedKind { from: DcId(OTHER), found: "debt", sync: "tap" };
        assert_eq!(error, expected);
    }
}
