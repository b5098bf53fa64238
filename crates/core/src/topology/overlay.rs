//! The overlay network: which data centers send updates to which, directly or through hubs.
//!
//! An overlay is a set of cliques connected like the branches of a tree. Within a clique each data center sends to
//! every other. A data center in several cliques is a hub: it forwards updates from one clique to the others. There is
//! one path between two data centers, so that no update circulates or arrives twice. The paper's mesh is one clique.
//! The paper's data center groups with hubs (Hsieh et al., NSDI 2017) are one clique for each group and one for the
//! hubs. A tree has a clique for each edge.

use std::collections::BTreeMap;

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
        let order = |(a, b): (DcId, DcId), (c, d): (DcId, DcId)| {
            let (x, y) = (Path::of(topology, (a, b)), Path::of(topology, (c, d)));
            let slower = x.bits_per_second.total_cmp(&y.bits_per_second);
            let farther = slower.then(y.rtt.total_cmp(&x.rtt));
            farther.then(y.usd_per_gb.total_cmp(&x.usd_per_gb)).then((a, b).cmp(&(c, d)))
        };

        // Of each data center outside the tree, the best link to it from one inside.
        let mut outside: BTreeMap<DcId, DcId> =
            topology.dc_ids().skip(1).map(|dc| (dc, DcId(0))).collect();
        let mut edges = Vec::new();
        while let Some((&b, &a)) = outside.iter().max_by(|x, y| order((*x.1, *x.0), (*y.1, *y.0))) {
            outside.remove(&b);
            edges.push(vec![a.min(b), a.max(b)]);
            for (to, from) in &mut outside {
                if order((b, *to), (*from, *to)).is_gt() {
                    *from = b;
                }
            }
        }
        Self::of_cliques(edges)
    }

    /// The best groups found, or the mesh if it is better.
    ///
    /// Of up to 20 data centers all sets of two to four hubs are tried. The number of sets grows with the fourth power
    /// of that of data centers, so of more only those sets are that spread hubs well. Every other data center joins the
    /// hub that it reaches best. The score of a set is a product of three costs, each relative to the mesh: the time of
    /// one byte over the slowest link in use, the price of one byte over all links in use, and the square root of the
    /// longest RTT between two data centers. The root is taken because a few clocks of delay cost a run little. The
    /// costs assume that one byte crosses each link once, which holds if hubs merge perfectly.
    pub fn chosen(topology: &Topology) -> Self {
        let mesh = Self::mesh(topology);
        let count = topology.data_centers.len();
        let reference = Quality::of(&mesh, topology);
        let mut best = (1.0, mesh);
        let mut try_hubs = |hubs: &[DcId]| {
            let overlay = Self::of_groups(&groups_around(topology, hubs));
            let score = Quality::of(&overlay, topology).relative_to(&reference);
            if score < best.0 {
                best = (score, overlay);
            }
        };

        if count <= EXACT_MAX {
            for hubs in 2..=HUBS_MAX {
                each_subset(count, hubs, &mut Vec::new(), &mut try_hubs);
            }
        } else {
            let hubs = spread_hubs(topology, count.isqrt());
            (2..=hubs.len()).for_each(|most| try_hubs(&hubs[..most]));
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
        let memberships = Memberships::of(&self.cliques);
        let mut longest: f64 = 0.0;
        for start in topology.dc_ids() {
            let mut ways = vec![0.0; topology.data_centers.len()];
            memberships.walk(start, |at, next| {
                let way = ways[at.index()] + length(Path::of(topology, (at, next)));
                ways[next.index()] = way;
                longest = longest.max(way);
            });
        }

        longest
    }
}

/// As [`Overlay::first_hops`], for cliques that are connected like a tree.
pub fn first_hops(cliques: &[Vec<DcId>], from: DcId) -> BTreeMap<DcId, DcId> {
    let mut hops = BTreeMap::new();
    Memberships::of(cliques).walk(from, |at, next| {
        let first = hops.get(&at).copied().unwrap_or(next);
        hops.insert(next, first);
    });
    hops
}

/// Which cliques each data center is in.
struct Memberships<'c> {
    cliques: &'c [Vec<DcId>],
    /// By data center, places in `cliques`.
    of: Vec<Vec<usize>>,
}

impl<'c> Memberships<'c> {
    fn of(cliques: &'c [Vec<DcId>]) -> Self {
        let last = cliques.iter().flatten().map(|dc| dc.index()).max();
        let mut of = vec![Vec::new(); last.map_or(0, |last| last + 1)];
        for (place, clique) in cliques.iter().enumerate() {
            clique.iter().for_each(|dc| of[dc.index()].push(place));
        }
        Self { cliques, of }
    }

    /// Calls `visit(at, next)` once for each other data center `next` that an update of `start` reaches, with the one
    /// before it on the path. Those before come first. The cliques must be connected like a tree.
    ///
    /// Each clique is entered once, so that a walk takes as many steps as there are data centers.
    fn walk(&self, start: DcId, mut visit: impl FnMut(DcId, DcId)) {
        let mut open = vec![(start, None)];
        while let Some((at, came_by)) = open.pop() {
            let of = self.of.get(at.index()).map_or(&[][..], Vec::as_slice);
            for &place in of.iter().filter(|place| came_by != Some(**place)) {
                for &next in self.cliques[place].iter().filter(|next| **next != at) {
                    visit(at, next);
                    open.push((next, Some(place)));
                }
            }
        }
    }
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

/// Data centers that others reach well, each chosen for what it adds to those before: at most `most` of them.
///
/// The cost of a set is the sum, over all data centers that are not in it, of the inverse of the merit of the best way
/// to a member. Greedy choices for such a sum (the k-median problem) are rarely far from the best.
fn spread_hubs(topology: &Topology, most: usize) -> Vec<DcId> {
    let mut hubs: Vec<DcId> = Vec::new();
    let mut costs = vec![f64::INFINITY; topology.data_centers.len()];
    let joined = |costs: &[f64], hub: DcId| -> Vec<f64> {
        let cost = |dc: DcId| match dc == hub {
            true => 0.0,
            false => costs[dc.index()].min(1.0 / Path::of(topology, (dc, hub)).merit()),
        };
        topology.dc_ids().map(cost).collect()
    };

    while hubs.len() < most {
        let left = topology.dc_ids().filter(|dc| !hubs.contains(dc));
        let sums = left.map(|hub| (joined(&costs, hub).iter().sum::<f64>(), hub));
        let Some((_, hub)) = sums.min_by(|x, y| x.0.total_cmp(&y.0)) else { break };
        costs = joined(&costs, hub);
        hubs.push(hub);
    }
    hubs
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

/// The largest number of data centers for which all sets of hubs are tried: 6175 of them.
const EXACT_MAX: usize = 20;

/// The largest number of hubs in these sets. More were never better on eleven regions.
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
    fn of_many_data_centers_the_hubs_are_spread_over_the_towns() {
        let town = |dc: u16| dc / 12;
        let topology = topology(48, |a, b| if town(a) == town(b) { 500.0 } else { 20.0 });
        let overlay = Overlay::chosen(&topology);
        let (hubs, groups) = overlay.cliques().split_last().unwrap();
        let towns: BTreeSet<u16> = hubs.iter().map(|hub| town(hub.0)).collect();
        assert_eq!(towns.len(), 4, "{overlay:?}");
        for group in groups {
            assert!(group.iter().all(|dc| town(dc.0) == town(group[0].0)), "{overlay:?}");
        }
        assert_eq!((overlay.hops(&topology), overlay.rtt_max(&topology).0.as_millis()), (3, 300));
    }

    #[test]
    fn the_first_hop_of_a_path_is_the_hub_on_the_way() {
        let dcs = |ids: &[u16]| ids.iter().map(|id| DcId(*id)).collect::<Vec<_>>();
        let cliques = [dcs(&[0, 1, 2]), dcs(&[2, 3]), dcs(&[3, 4, 5])];
        let hops = |from| first_hops(&cliques, DcId(from)).into_values().collect::<Vec<_>>();
        assert_eq!(hops(0), dcs(&[1, 2, 2, 2, 2]));
        assert_eq!(hops(3), dcs(&[2, 2, 2, 4, 5]));
        assert_eq!(hops(6), []);
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
