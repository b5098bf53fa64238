//! Over hubs nothing is lost, nothing comes twice, nothing circles, and no clock runs ahead of what it covers.

use gaia_core::codec::Buffers;
use gaia_core::node::Lane;
use gaia_core::server::{DrainMethod, PeerError};
use gaia_core::sync::{AspConfig, Brake, Policy, RemoteSync, ValueFormat};
use gaia_core::types::{DcId, Staleness};
use gaia_core::wire::decode_bulk;

use crate::cluster::{Cluster, ROOM, Setup};
use crate::{POLICIES, asp};

/// `0 - 1 - 2`, with 1 the hub between them, over links that carry whatever is above the threshold.
fn chain(config: AspConfig) -> Setup {
    Setup { cliques: vec![vec![0, 1], vec![1, 2]], ..Setup::new(RemoteSync::Asp(config)) }
}

fn strict() -> AspConfig {
    AspConfig { mirror_clock: Brake::On, ..asp(Policy::Link, ValueFormat::F32) }
}

#[test]
fn an_update_reaches_every_copy_once_through_the_hub() {
    let mut cluster = Cluster::new(&chain(strict()));
    assert!(cluster.step(0, &[(0, 10.0), (3, -4.0)]));
    assert!(cluster.step(1, &[(0, 100.0)]));
    assert!(cluster.step(2, &[(7, 1.0)]));
    cluster.settle();
    cluster.assert_conserved();
    for dc in cluster.dcs() {
        assert_eq!(cluster.servers[dc.index()].values(), cluster.everything(), "{dc}");
    }
    assert!(!cluster.send(0, 2, Lane::Data, ROOM), "there is no way past the hub");
    cluster.drain();
}

/// Found by fault schedules: what the links behind a hub had not carried was lost to those before it.
#[test]
fn a_drain_delivers_residuals_over_hubs() {
    for policy in POLICIES {
        let config = AspConfig { threshold: 100.0, ..asp(policy, ValueFormat::F32) };
        let chain = chain(config);
        let mut cluster = Cluster::new(&Setup {
            drain: DrainMethod::Residuals,
            data_centers: 4,
            cliques: vec![vec![0, 1], vec![1, 2], vec![2, 3]],
            initial: 1.0,
            ..chain
        });
        for (dc, at) in [(0, 0), (1, 2), (2, 4), (3, 6)] {
            assert!(cluster.step(dc, &[(0, 1.0), (at + 1, f32::from(dc) + 2.0)]));
        }
        assert!(cluster.step(3, &[(3, 1000.0)]));
        cluster.carry(3, 2, Lane::Data);
        cluster.drain();
        for dc in cluster.dcs() {
            let everything = cluster.everything();
            assert_eq!(cluster.servers[dc.index()].values(), everything, "{policy:?}, {dc}");
        }
    }
}

#[test]
fn a_hub_merges_what_it_forwards_with_its_own_and_says_so() {
    let mut cluster = Cluster::new(&chain(strict()));
    assert!(cluster.step(0, &[(0, 10.0)]));
    cluster.carry(0, 1, Lane::Data);
    assert!(cluster.step(1, &[(0, 20.0)]));
    assert!(cluster.send(1, 2, Lane::Data, ROOM));
    let frame = cluster.lanes[&(DcId(1), DcId(2), Lane::Data)].back().unwrap().clone();
    let mut buffers = Buffers::default();
    let (header, changes) = decode_bulk(&frame, 8, &mut buffers).unwrap();
    assert!(header.relayed && header.origin == DcId(1));
    assert_eq!(changes.values(), [30.0]);
    assert!(cluster.send(1, 0, Lane::Data, ROOM));
    let frame = cluster.lanes[&(DcId(1), DcId(0), Lane::Data)].back().unwrap().clone();
    let (header, changes) = decode_bulk(&frame, 8, &mut buffers).unwrap();
    assert!(!header.relayed, "what came from a clique does not go back there");
    assert_eq!(changes.values(), [20.0]);
    let stats = cluster.servers[1].link_stats(DcId(2));
    assert_eq!(stats.relayed_bytes, stats.data_bytes);
    assert_eq!(cluster.servers[1].link_stats(DcId(0)).relayed_bytes, 0);
}

#[test]
fn what_comes_to_a_hub_that_waits_goes_on_at_once() {
    let config = AspConfig { data_center_staleness: Some(Staleness(1)), ..strict() };
    let mut cluster = Cluster::new(&chain(config));
    assert!(cluster.step(1, &[(1, 1.0)]));
    assert!(!cluster.step(1, &[(1, 1.0)]), "the hub is as far ahead as it may be");
    assert!(cluster.step(0, &[(0, 10.0)]));
    cluster.carry(0, 1, Lane::Data);
    cluster.carry(0, 1, Lane::Control);
    cluster.settle();
    assert_eq!(cluster.servers[2].values()[0], 10.0);
}

#[test]
fn a_hub_reports_no_clock_that_those_behind_it_have_not_reached() {
    let config = AspConfig { data_center_staleness: Some(Staleness(2)), ..strict() };
    let mut cluster = Cluster::new(&chain(config));
    for clock in 0..2 {
        for dc in [0, 1] {
            assert!(cluster.step(dc, &[(u32::from(dc), 1.0)]), "{dc} in clock {clock}");
        }
        cluster.settle();
    }
    assert!(!cluster.step(0, &[(0, 1.0)]), "2 has finished nothing, and 0 knows only through 1");
    assert!(!cluster.step(1, &[(1, 1.0)]));
    assert!(cluster.step(2, &[(2, 1.0)]));
    assert!(cluster.send(2, 1, Lane::Data, ROOM) && cluster.deliver(2, 1, Lane::Data));
    cluster.carry(2, 1, Lane::Control);
    cluster.carry(1, 0, Lane::Control);
    assert!(!cluster.step(0, &[(0, 1.0)]), "the clock is there ahead of what it covers");
    cluster.settle();
    assert!(cluster.step(0, &[(0, 1.0)]));
    assert!(cluster.step(1, &[(1, 1.0)]));
}

#[test]
fn an_update_past_the_hub_is_refused() {
    let mut mesh = Cluster::new(&Setup::new(RemoteSync::Asp(strict())));
    assert!(mesh.step(0, &[(0, 10.0)]));
    assert!(mesh.send(0, 2, Lane::Data, ROOM));
    let frame = mesh.lanes[&(DcId(0), DcId(2), Lane::Data)].back().unwrap().clone();
    let mut cluster = Cluster::new(&chain(strict()));
    let error = cluster.give(0, 2, Lane::Data, frame).unwrap_err();
    assert!(matches!(error, PeerError::PeerSentUnexpectedKind { from: DcId(0), .. }), "{error}");
    assert_eq!(cluster.servers[2].values(), [0.0; 8]);
}
