//! A server names the links that an event has given something to send, so that a driver need not ask all of them.

use gaia_core::node::Lane;
use gaia_core::server::LinksToPoll;
use gaia_core::sync::{AspConfig, Brake, OnPartition, Policy, RemoteSync, ValueFormat};
use gaia_core::types::DcId;

use crate::cluster::{Cluster, ROOM, Setup};
use crate::{asp, tap};

/// Polls the links that a server names, until it names none. No other link has anything then. Returns how many were
/// polled.
fn poll(cluster: &mut Cluster, dc: u16) -> usize {
    let all: Vec<u16> = cluster.dcs().map(|to| to.0).filter(|to| *to != dc).collect();
    let mut polls = 0;
    loop {
        let named: Vec<u16> = match cluster.servers[usize::from(dc)].take_links_to_poll() {
            LinksToPoll::Some(links) => links.into_iter().map(|to| to.0).collect(),
            LinksToPoll::All => all.clone(),
        };
        if named.is_empty() {
            break;
        }
        polls += named.len();
        for to in named {
            let mut send = |lane| cluster.send(dc, to, lane, ROOM);
            while send(Lane::Control) || send(Lane::Data) {}
        }
    }
    for to in all {
        for lane in [Lane::Control, Lane::Data] {
            let unnamed = cluster.send(dc, to, lane, ROOM);
            assert!(
                !unnamed,
                "{dc} has a frame for {to} in the {lane:?} lane, and has not named it"
            );
        }
    }
    polls
}

/// Delivers all frames and those that follow from them. Returns how many there were, and the polls that they took.
fn settle(cluster: &mut Cluster) -> (usize, usize) {
    let (mut frames, mut polls) = (0, 0);
    loop {
        let waiting = cluster.lanes.iter().filter(|(_, frames)| !frames.is_empty());
        let waiting: Vec<(DcId, DcId, Lane)> = waiting.map(|(lane, _)| *lane).collect();
        if waiting.is_empty() {
            return (frames, polls);
        }
        for (from, to, lane) in waiting {
            while cluster.deliver(from.0, to.0, lane) {
                frames += 1;
                polls += poll(cluster, to.0);
            }
        }
    }
}

#[test]
fn sixty_data_centers_over_hubs_poll_few_links_for_each_frame() {
    let group = |hub: u16| (0..10).map(|member| hub + 6 * member).collect::<Vec<u16>>();
    let cliques: Vec<Vec<u16>> = (0..6).map(group).chain([(0..6).collect()]).collect();
    let strict = AspConfig { mirror_clock: Brake::On, ..asp(Policy::Link, ValueFormat::F32) };
    let paper = asp(Policy::Paper, ValueFormat::F32);

    for remote in [RemoteSync::Asp(strict), RemoteSync::Asp(paper), tap(ValueFormat::F32)] {
        let setup = Setup { data_centers: 60, cliques: cliques.clone(), ..Setup::new(remote) };
        let mut cluster = Cluster::new(&setup);
        let dcs: Vec<u16> = cluster.dcs().map(|dc| dc.0).collect();
        let (mut frames, mut polls) = (0, 0);
        let mut add = |(more, polled): (usize, usize)| {
            frames += more;
            polls += polled;
        };

        for dc in &dcs {
            poll(&mut cluster, *dc);
        }
        for clock in 0..3 {
            for dc in &dcs {
                assert!(cluster.step(*dc, &[(clock, 2.0)]));
                add((0, poll(&mut cluster, *dc)));
            }
            add(settle(&mut cluster));
        }
        cluster.assert_conserved();
        assert!(polls < 12 * frames, "{polls} links were polled for {frames} frames");

        for dc in &dcs {
            let clock = cluster.servers[usize::from(*dc)].clock();
            cluster.begin_drain(*dc, vec![clock]);
            poll(&mut cluster, *dc);
        }
        let (frames, polls) = settle(&mut cluster);
        assert_eq!(cluster.drained, dcs.len());
        assert!(polls < 4 * frames, "{polls} links were polled for {frames} frames of the drain");
    }
}

#[test]
fn a_link_is_named_when_mirrors_fail_return_and_lose_their_state() {
    for on_partition in [OnPartition::Continue, OnPartition::Pause] {
        let strict = AspConfig {
            mirror_clock: Brake::On,
            selective_barrier: Brake::On,
            on_partition,
            ..asp(Policy::Link, ValueFormat::F32)
        };
        let setup = Setup { data_centers: 4, ..Setup::new(RemoteSync::Asp(strict)) };
        let mut cluster = Cluster::new(&setup);
        let poll_all = |cluster: &mut Cluster| {
            for dc in 0..4 {
                poll(cluster, dc);
            }
            settle(cluster);
        };
        poll_all(&mut cluster);
        for dc in 0..4 {
            cluster.step(dc, &[(u32::from(dc), 3.0)]);
        }
        poll_all(&mut cluster);
        cluster.part(1, 2);
        cluster.part(2, 1);
        poll_all(&mut cluster);
        for dc in 0..4 {
            cluster.step(dc, &[(7, 1.0)]);
            cluster.wake(dc);
        }
        poll_all(&mut cluster);
        cluster.lose(3, 0);
        poll_all(&mut cluster);
        for dc in 0..3 {
            cluster.step(dc, &[(5, 1.0)]);
        }
        poll_all(&mut cluster);
        for dc in 0..4 {
            cluster.wake(dc);
        }
        poll_all(&mut cluster);
    }
}
