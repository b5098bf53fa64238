//! Rings: orders of all data centers in which each one sends to the next, and the last one to the first.

use super::Topology;
use crate::types::DcId;

/// The ring whose slowest link is the fastest. Of several such rings it is the one with the shortest round-trip times,
/// in sum.
///
/// It is the best one for up to 16 data centers. For more, a ring is built from the fastest links that are left, and
/// improved while the exchange of two data centers, or the reversal of a stretch, makes it faster.
pub fn fastest_ring(topology: &Topology) -> Vec<DcId> {
    let count = topology.data_centers.len();
    if count <= 2 {
        return topology.dc_ids().collect();
    }
    if count > EXACT_MAX {
        return improved(topology, greedy(topology));
    }

    // Rings exist over all links, and fewer of them the faster each link must be.
    let mut speeds: Vec<f64> =
        topology.links.iter().map(|link| link.bandwidth.bits_per_second()).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.dedup();
    let ring_of = |at: usize| shortest(topology, speeds[at]);
    let (mut found, mut below, mut above) = (ring_of(0), 0, speeds.len());
    while above - below > 1 {
        let middle = usize::midpoint(below, above);
        match ring_of(middle) {
            Some(ring) => (found, below) = (Some(ring), middle),
            None => above = middle,
        }
    }
    found.expect("all data centers are linked")
}

/// The ring of the shortest round-trip times over links of at least this speed, if there is one (Held and Karp, 1962).
///
/// For each set of data centers that contains the first one, and each last one of the set, it finds the shortest path
/// from the first through all of the set.
fn shortest(topology: &Topology, bits_per_second: f64) -> Option<Vec<DcId>> {
    let count = topology.data_centers.len();
    let ids: Vec<DcId> = topology.dc_ids().collect();
    let length = |from: usize, to: usize| {
        let link = topology.link(ids[from], ids[to]);
        let is_fast = link.bandwidth.bits_per_second() >= bits_per_second;
        is_fast.then_some(link.rtt.0.as_secs_f64())
    };
    let lengths: Vec<Vec<Option<f64>>> = (0..count)
        .map(|from| (0..count).map(|to| if from == to { None } else { length(from, to) }).collect())
        .collect();

    // Sets are numbers, whose bit 0 is that of the second data center.
    let last_sets = 1_usize << (count - 1);
    let mut paths: Vec<Vec<Option<(f64, usize)>>> = vec![vec![None; count]; last_sets];
    for set in 1..last_sets {
        for last in (1..count).filter(|last| set >> (last - 1) & 1 == 1) {
            let before = set & !(1 << (last - 1));
            paths[set][last] = if before == 0 {
                lengths[0][last].map(|length| (length, 0))
            } else {
                let ways = (1..count)
                    .filter(|of| before >> (of - 1) & 1 == 1)
                    .filter_map(|of| Some((paths[before][of]?.0 + lengths[of][last]?, of)));
                ways.min_by(|a, b| a.0.total_cmp(&b.0))
            };
        }
    }

    let all = last_sets - 1;
    let closed =
        (1..count).filter_map(|last| Some((paths[all][last]?.0 + lengths[last][0]?, last)));
    let (_, mut at) = closed.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (mut set, mut ring) = (all, Vec::new());
    while at != 0 {
        ring.push(ids[at]);
        let (_, before) = paths[set][at]?;
        set &= !(1 << (at - 1));
        at = before;
    }
    ring.push(ids[0]);
    ring.reverse();
    Some(ring)
}

/// From the first data center, always on to the one with the fastest link of those that are left.
fn greedy(topology: &Topology) -> Vec<DcId> {
    let mut left: Vec<DcId> = topology.dc_ids().collect();
    let mut ring = vec![left.remove(0)];
    while !left.is_empty() {
        let from = ring[ring.len() - 1];
        let speed = |to: &DcId| topology.link(from, *to).bandwidth.bits_per_second();
        let next = (0..left.len()).max_by(|a, b| speed(&left[*a]).total_cmp(&speed(&left[*b])));
        ring.push(left.remove(next.unwrap_or_default()));
    }
    ring
}

/// Improves a ring until no step makes its slowest links faster.
fn improved(topology: &Topology, mut ring: Vec<DcId>) -> Vec<DcId> {
    let count = ring.len();
    let mut best = slowest_first(topology, &ring);
    loop {
        let mut is_better = false;
        for (from, to) in (1..count).flat_map(|from| (from + 1..count).map(move |to| (from, to))) {
            for swaps in [false, true] {
                let mut tried = ring.clone();
                if swaps {
                    tried.swap(from, to);
                } else {
                    tried[from..=to].reverse();
                }
                let speeds = slowest_first(topology, &tried);
                if best.iter().zip(&speeds).find(|(a, b)| a != b).is_some_and(|(a, b)| b > a) {
                    (ring, best, is_better) = (tried, speeds, true);
                }
            }
        }
        if !is_better {
            return ring;
        }
    }
}

/// The bandwidths of a ring's links, ascending.
fn slowest_first(topology: &Topology, ring: &[DcId]) -> Vec<f64> {
    let next = ring.iter().cycle().skip(1);
    let links = ring.iter().zip(next).map(|(from, to)| topology.link(*from, *to));
    let mut speeds: Vec<f64> = links.map(|link| link.bandwidth.bits_per_second()).collect();
    speeds.sort_by(f64::total_cmp);
    speeds
}

/// The most data centers for which the best ring is searched: 2¹⁵ sets.
const EXACT_MAX: usize = 16;
