//! The overlay network: which data centers send updates to which, directly or through hubs.
//!
//! An overlay is a set of cliques connected like the branches of a tree. Within a clique each data center sends to
//! every other. A data center in several cliques is a hub: it forwards updates from one clique to the others. There is
//! one path between two data centers, so that no update circulates or arrives twice. The paper's mesh is one clique.
//! The paper's data center groups with hubs (Hsieh et al., NSDI 2017) are one clique for each group and one for the
//! hubs. A tree has a clique for each edge.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Topology;
use crate::types::{DcId, DurationSetting};

/// A group of data centers in a topology. The members send to each other, and the hub also sends to other hubs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The member that sends to other hubs.
    pub hub: DcId,
    /// All members, including the hub, ascending.
    pub members: Vec<DcId>,
}

/// Cliques of data centers, connected like a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Each has at least two members, ascending.
    cliques: Vec<Vec<DcId>>,
}

impl Overlay {
    /// The overlay in which each data center sends to every other.
    pub fn mesh(topology: &Topology) -> Self {
        Self::of_cliques(vec![topology.dc_ids().collect()])
    }

    /// The topology's groups. If it names none, groups chosen from bandwidth, RTT and price ([`Self::chosen`]).
    pub fn groups(topology: &Topology) -> Self {
        if topology.groups.is_empty() {
            return Self::chosen(topology);
        }
        Self::of_groups(&topology.groups)
    }

    /// The spanning tree of maximum bandwidth. Of links with the same bandwidth, the one with the lower RTT is chosen,
    /// then the one with the lower price.
    pub fn tree(topology: &Topology) -> Self {
        let mut inside = vec![false; topology.data_centers.len()];
        inside[0] = true;
        let mut edges = Vec::new();
        for _ in 1..inside.len() {
            let pairs = topology.dc_ids().flat_map(|a| topology.dc_ids().map(move |b| (a, b)));
            let crossing = pairs.filter(|(a, b)| inside[a.index()] && !inside[b.index()]);
            let best = crossing.max_by(|x, y| {
                let (x, y) = (Path::of(topology, *x), Path::of(topology, *y));
                let slower = x.bits_per_second.total_cmp(&y.bits_per_second);
                slower.then(y.rtt.total_cmp(&x.rtt)).then(y.usd_per_gb.total_cmp(&x.usd_per_gb))
            });
            let Some((a, b)) = best else { break };
            inside[b.index()] = true;
            edges.push(vec![a.min(b), a.max(b)]);
        }
        Self::of_cliques(edges)
    }

    /// The best groups with up to four hubs, or the mesh if it is better.
    ///
    /// All sets of hubs are tried. Every other data center joins the hub that it reaches best. The score of a set is a
    /// product of three costs, each relative to the mesh: the time of one byte over the slowest link in use, the price
    /// of one byte over all links in use, and the square root of the longest RTT between two data centers. The root is
    /// taken because a few clocks of delay cost a run little. The costs assume that one byte crosses each link once,
    /// which holds if hubs merge perfectly.
    pub fn chosen(topology: &Topology) -> Self {
        let mesh = Self::mesh(topology);
        let count = topology.data_centers.len();
        let reference = Quality::of(&mesh, topology);
        let mut best = (1.0, mesh);
        for hubs in 2..=HUBS_MAX {
            each_subset(count, hubs, &mut Vec::new(), &mut |hubs| {
                let overlay = Self::of_groups(&groups_around(topology, hubs));
                let score = Quality::of(&overlay, topology).relative_to(&reference);
                if score < best.0 {
                    best = (score, overlay);
                }
            });
        }
        best.1
    }

    fn of_groups(groups: &[Group]) -> Self {
        let mut cliques: Vec<Vec<DcId>> =
            groups.iter().map(|group| group.members.clone()).collect();
        let mut hubs: Vec<DcId> = groups.iter().map(|group| group.hub).collect();
        hubs.sort_unstable();
        cliques.push(hubs);
        Self::of_cliques(cliques)
    }

    fn of_cliques(mut cliques: Vec<Vec<DcId>>) -> Self {
        cliques.retain(|clique| clique.len() > 1);
        Self { cliques }
    }

    /// The cliques, each with at least two members, ascending.
    pub fn cliques(&self) -> &[Vec<DcId>] {
        &self.cliques
    }

    /// The data centers that a data center sends to, clique by clique.
    pub fn neighbours(&self, of: DcId) -> Vec<Vec<DcId>> {
        let own = self.cliques.iter().filter(|clique| clique.contains(&of));
        own.map(|clique| clique.iter().copied().filter(|dc| *dc != of).collect()).collect()
    }

    /// For each other data center, the neighbour that is the first hop of the path to it. The first hop of a neighbour
    /// is the neighbour itself.
    pub fn first_hops(&self, from: DcId) -> BTreeMap<DcId, DcId> {
        first_hops(&self.cliques, from)
    }

    /// Whether a data center forwards updates of others.
    pub fn is_hub(&self, dc: DcId) -> bool {
        self.cliques.iter().filter(|clique| clique.contains(&dc)).count() > 1
    }

    /// The largest number of links on a path between two data centers. 0 if there is only one data center.
    pub fn hops(&self, topology: &Topology) -> usize {
        self.longest(topology, |_| 1.0) as usize
    }

    /// The longest RTT of a path between two data centers: the sum over its links.
    pub fn rtt_max(&self, topology: &Topology) -> DurationSetting {
        let seconds = self.longest(topology, |path| path.rtt);
        DurationSetting(std::time::Duration::from_secs_f64(seconds))
    }

    /// The length of the longest path between two data centers, for a length of links.
    fn longest(&self, topology: &Topology, length: impl Fn(Path) -> f64) -> f64 {
        let count = topology.data_centers.len();
        let mut longest: f64 = 0.0;
        for start in topology.dc_ids() {
            let mut ways: Vec<Option<f64>> = vec![None; count];
            ways[start.index()] = Some(0.0);
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                let way = ways[at.index()].unwrap_or_default();
                for next in self.neighbours(at).into_iter().flatten() {
                    if ways[next.index()].is_none() {
                        ways[next.index()] = Some(way + length(Path::of(topology, (at, next))));
                        open.push(next);
                    }
                }
            }
            longest = ways.into_iter().flatten().fold(longest, f64::max);
        }

        longest
    }
}

/// As [`Overlay::first_hops`], for cliques that are connected like a tree.
pub fn first_hops(cliques: &[Vec<DcId>], from: DcId) -> BTreeMap<DcId, DcId> {
    let neighbours = |of: DcId| {
        let own = cliques.iter().filter(move |clique| clique.contains(&of));
        own.flatten().copied().filter(move |dc| *dc != of)
    };
    let mut hops: BTreeMap<DcId, DcId> = neighbours(from).map(|dc| (dc, dc)).collect();
    let mut open: Vec<DcId> = hops.keys().copied().collect();
    while let Some(at) = open.pop() {
        let first = hops[&at];
        for next in neighbours(at).filter(|next| *next != from) {
            if let Entry::Vacant(vacant) = hops.entry(next) {
                vacant.insert(first);
                open.push(next);
            }
        }
    }
    hops
}

/// The properties of a directed link that the choice of an overlay depends on.
#[derive(Clone, Copy, Debug)]
struct Path {
    bits_per_second: f64,
    rtt: f64,
    usd_per_gb: f64,
}

impl Path {
    fn of(topology: &Topology, (from, to): (DcId, DcId)) -> Self {
        let link = topology.link(from, to);
        Self {
            bits_per_second: link.bandwidth.bits_per_second(),
            rtt: link.rtt.0.as_secs_f64(),
            usd_per_gb: link.price.0,
        }
    }

    /// How well a data center reaches a hub: bandwidth divided by RTT and by price.
    fn merit(self) -> f64 {
        self.bits_per_second / (self.rtt + RTT_LEAST) / (self.usd_per_gb + PRICE_LEAST)
    }
}

/// The costs of an overlay.
#[derive(Clone, Copy, Debug)]
struct Quality {
    seconds_per_bit: f64,
    usd_per_gb: f64,
    rtt: f64,
}

impl Quality {
    fn of(overlay: &Overlay, topology: &Topology) -> Self {
        let mut quality = Self { seconds_per_bit: 0.0, usd_per_gb: 0.0, rtt: 0.0 };
        for clique in overlay.cliques() {
            for &from in clique {
                for &to in clique.iter().filter(|to| **to != from) {
                    let path = Path::of(topology, (from, to));
                    quality.seconds_per_bit =
                        quality.seconds_per_bit.max(1.0 / path.bits_per_second);
                    quality.usd_per_gb += path.usd_per_gb;
                }
            }
        }
        quality.rtt = overlay.rtt_max(topology).0.as_secs_f64();
        quality
    }

    fn relative_to(&self, other: &Self) -> f64 {
        let ratio = |own: f64, other: f64| if other > 0.0 { own / other } else { 1.0 };
        ratio(self.seconds_per_bit, other.seconds_per_bit)
            * ratio(self.usd_per_gb, other.usd_per_gb)
            * ratio(self.rtt, other.rtt).sqrt()
    }
}

fn groups_around(topology: &Topology, hubs: &[DcId]) -> Vec<Group> {
    let mut groups: Vec<Group> =
        hubs.iter().map(|&hub| Group { hub, members: vec![hub] }).collect();
    for dc in topology.dc_ids().filter(|dc| !hubs.contains(dc)) {
        let merit = |group: &Group| Path::of(topology, (dc, group.hub)).merit();
        let best = groups.iter_mut().max_by(|a, b| merit(a).total_cmp(&merit(b)));
        if let Some(group) = best {
            group.members.push(dc);
        }
    }
    groups.iter_mut().for_each(|group| group.members.sort_unstable());
    groups
}

/// Calls `visit` with each subset of `0..count` with `size` members.
fn each_subset(count: usize, size: usize, chosen: &mut Vec<DcId>, visit: &mut impl FnMut(&[DcId])) {
    if chosen.len() == size {
        visit(chosen);
        return;
    }
    let next = chosen.last().map_or(0, |last| last.index() + 1);
    for dc in next..count {
        chosen.push(DcId(dc as u16));
        each_subset(count, size, chosen, visit);
        chosen.pop();
    }
}

/// The largest number of hubs. More were never better on eleven regions, and the number of sets grows with it.
const HUBS_MAX: usize = 4;

/// Added to an RTT in seconds, so that a quotient by an RTT of 0 is finite.
const RTT_LEAST: f64 = 1e-3;
/// Half a cent, added to a price, so that a quotient by a price of 0 is finite.
const PRICE_LEAST: f64 = 0.005;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::topology::{DataCenter, WanLink};
    use crate::types::{Bandwidth, ByteSize, UsdPerGb};

    fn topology(count: u16, mbit: impl Fn(u16, u16) -> f64) -> Topology {
        let dc = |index: u16| DataCenter {
            name: format!("dc{index}"),
            servers: 1,
            workers: 1,
            lan_bandwidth: Bandwidth::from_mbit(1000.0),
            lan_rtt: DurationSetting::default(),
            colocated: false,
            stands_for: Vec::new(),
        };

        let mut links = Vec::new();
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                links.push(WanLink {
                    from: DcId(from),
                    to: DcId(to),
                    bandwidth: Bandwidth::from_mbit(mbit(from.min(to), from.max(to))),
                    rtt: DurationSetting(Duration::from_millis(100)),
                    price: UsdPerGb(0.1),
                    loss: 0.0,
                    queue: ByteSize(1 << 16),
                });
            }
        }

        let data_centers = (0..count).map(dc).collect();
        let name = "test".into();
        Topology { name, data_centers, links, groups: vec![], bandwidth_scale: 1.0 }
    }

    /// How often an update of one data center reaches each other one, forwarded as hubs do.
    fn deliveries(overlay: &Overlay, start: DcId, count: usize) -> Vec<usize> {
        let mut reached = vec![0; count];
        let mut open: Vec<(DcId, Option<BTreeSet<DcId>>)> = vec![(start, None)];
        while let Some((at, came_from)) = open.pop() {
            for clique in overlay.neighbours(at) {
                let clique: BTreeSet<DcId> = clique.into_iter().chain([at]).collect();
                if came_from.as_ref() == Some(&clique) {
                    continue;
                }
                for next in clique.iter().copied().filter(|next| *next != at) {
                    reached[next.index()] += 1;
                    assert!(reached[next.index()] < 3, "an update circles");
                    open.push((next, Some(clique.clone())));
                }
            }
        }
        reached
    }

    proptest! {
        #[test]
        fn every_update_comes_to_everyone_else_once(
            count in 2..9_u16,
            speeds in proptest::collection::vec(1.0..1000.0_f64, 64),
        ) {
            let topology = topology(count, |a, b| speeds[usize::from(a * 8 + b) % 64]);
            for overlay in
                [Overlay::mesh(&topology), Overlay::tree(&topology), Overlay::chosen(&topology)]
            {
                for start in topology.dc_ids() {
                    let mut expected = vec![1; usize::from(count)];
                    expected[start.index()] = 0;
                    prop_assert_eq!(deliveries(&overlay, start, usize::from(count)), expected);
                }
            }
        }
    }

    #[test]
    fn a_tree_takes_the_fastest_links() {
        let topology = topology(4, |a, b| if b == a + 1 { 100.0 } else { 10.0 });
        let tree = Overlay::tree(&topology);
        let edges: Vec<Vec<u16>> =
            tree.cliques().iter().map(|edge| edge.iter().map(|dc| dc.0).collect()).collect();
        assert_eq!(edges, [[0, 1], [1, 2], [2, 3]]);
        assert_eq!(tree.hops(&topology), 3);
        assert!(tree.is_hub(DcId(1)) && !tree.is_hub(DcId(0)));
    }

    #[test]
    fn two_towns_with_a_slow_link_between_them_get_a_hub_each() {
        let near = |a: u16, b: u16| (a < 3) == (b < 3);
        let topology = topology(6, |a, b| if near(a, b) { 500.0 } else { 20.0 });
        let overlay = Overlay::chosen(&topology);
        assert_eq!(overlay.cliques().len(), 3, "{overlay:?}");
        for clique in &overlay.cliques()[..2] {
            assert!(near(clique[0].0, clique[1].0) && clique.len() == 3, "{overlay:?}");
        }
        assert_eq!(overlay.hops(&topology), 3);
    }

    #[test]
    fn named_groups_are_taken_as_they_are() {
        let mut topology = topology(4, |_, _| 10.0);
        let dcs = |ids: &[u16]| ids.iter().map(|id| DcId(*id)).collect::<Vec<_>>();
        topology.groups = vec![
            Group { hub: DcId(3), members: dcs(&[0, 3]) },
            Group { hub: DcId(1), members: dcs(&[1, 2]) },
        ];
        let overlay = Overlay::groups(&topology);
        assert_eq!(overlay.cliques(), [dcs(&[0, 3]), dcs(&[1, 2]), dcs(&[1, 3])]);
        assert_eq!(overlay.neighbours(DcId(3)), [dcs(&[0]), dcs(&[1])]);
        assert_eq!(overlay.neighbours(DcId(0)), [dcs(&[3])]);
    }
}
