//! Trees: each data center but the root sends to its parent.

use std::time::Duration;

use super::Topology;
use crate::types::DcId;

/// A spanning tree whose slowest link, in either direction, is the fastest. For each data center it has the parent, and
/// none for the root. Of such trees it is the one whose longest path to the root has the shortest round-trip times.
pub fn fastest_tree(topology: &Topology) -> Vec<Option<DcId>> {
    let speed = bottleneck(topology);
    let is_fast = |a, b| slower_of(topology, a, b) >= speed;
    let trees = topology.dc_ids().map(|root| shortest_paths(topology, root, is_fast));
    let (_, parents) = trees.min_by_key(|(longest, _)| *longest).expect("there is a data center");
    parents
}

/// The largest bandwidth such that the links of at least this bandwidth connect all data centers, in bits per second.
fn bottleneck(topology: &Topology) -> f64 {
    let all = || topology.dc_ids();
    let direct = |a, b| if a == b { f64::MAX } else { slower_of(topology, a, b) };
    let mut widest: Vec<Vec<f64>> = all().map(|a| all().map(|b| direct(a, b)).collect()).collect();
    let count = widest.len();
    for via in 0..count {
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            let way = widest[from][via].min(widest[via][to]);
            widest[from][to] = widest[from][to].max(way);
        }
    }
    widest[0].iter().copied().fold(f64::MAX, f64::min)
}

/// The shortest paths to a root over some of the links: the longest of them, by its round-trip times and then by its
/// number of links, and the parent of each data center (Bellman and Ford).
fn shortest_paths(
    topology: &Topology,
    root: DcId,
    is_used: impl Fn(DcId, DcId) -> bool,
) -> ((Duration, usize), Vec<Option<DcId>>) {
    let mut lengths = vec![None; topology.data_centers.len()];
    let mut parents = vec![None; topology.data_centers.len()];
    lengths[root.index()] = Some((Duration::ZERO, 0));
    let mut is_shorter = true;
    while std::mem::take(&mut is_shorter) {
        for link in topology.links.iter().filter(|link| is_used(link.from, link.to)) {
            let Some((rtt, hops)) = lengths[link.to.index()] else { continue };
            let length = (rtt + link.rtt.0, hops + 1);
            let known = &mut lengths[link.from.index()];
            if known.is_none_or(|known| length < known) {
                *known = Some(length);
                parents[link.from.index()] = Some(link.to);
                is_shorter = true;
            }
        }
    }

    let longest = lengths.into_iter().flatten().max().unwrap_or_default();
    (longest, parents)
}

/// The lower bandwidth of the two links between two data centers, in bits per second.
fn slower_of(topology: &Topology, a: DcId, b: DcId) -> f64 {
    let bits = |from, to| topology.link(from, to).bandwidth.bits_per_second();
    bits(a, b).min(bits(b, a))
}
