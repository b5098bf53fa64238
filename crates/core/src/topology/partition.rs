//! Which data centers may train while some links between them are dead.
//!
//! A copy is the sum of all changes that reach it. Where two data centers both exchange updates with a third and not with
//! each other, the copies hold different sums, and training on them diverges (`docs/src/partial-partitions.md`). It is stable
//! where the data centers that train form groups: within one, updates pass between any two; between two, none pass.
//! Who does not fit into a group must not train, but may go on applying what comes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::types::DcId;

/// How a link between two data centers is, both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// One end at least does not hear the other.
    Dead,
    /// Both hear each other again, and one at least has yet to get what it missed.
    Behind,
    /// What one end changes comes to the other.
    Level,
}

/// The data centers that must not train, each with one that trains in its place: not all updates of one come to the
/// other, though there is a way between the two over others.
///
/// `cliques` are those of the overlay, `present` the data centers that take part. The answer follows from the arguments
/// alone: whoever knows the same gives the same. Those that reach the most others are kept before those that reach
/// fewer, and of equals the one with the lower number.
pub fn paused(
    cliques: &[Vec<DcId>],
    present: &BTreeSet<DcId>,
    link: impl Fn(DcId, DcId) -> LinkState,
) -> BTreeMap<DcId, DcId> {
    let links = Links { cliques, present, link };
    let reached: BTreeMap<DcId, BTreeSet<DcId>> =
        present.iter().map(|dc| (*dc, links.reached_from(*dc))).collect();

    let mut order: Vec<DcId> = present.iter().copied().collect();
    order.sort_by_key(|dc| (Reverse(reached[dc].len()), *dc));

    let mut training: Vec<DcId> = Vec::new();
    let mut paused = BTreeMap::new();
    for dc in order {
        let mut apart = training.iter().filter(|other| !reached[&dc].contains(other));
        match apart.find(|other| links.has_detour(dc, **other)) {
            Some(other) => drop(paused.insert(dc, *other)),
            None => training.push(dc),
        }
    }
    paused
}

/// The links of an overlay.
struct Links<'a, F> {
    cliques: &'a [Vec<DcId>],
    present: &'a BTreeSet<DcId>,
    link: F,
}

impl<F: Fn(DcId, DcId) -> LinkState> Links<'_, F> {
    /// The data centers that all updates pass to and from, with the one that is asked about. A hub passes on to its other
    /// cliques alone, so that a dead link within a clique is not made good by a third member.
    fn reached_from(&self, start: DcId) -> BTreeSet<DcId> {
        let mut reached = BTreeSet::from([start]);
        let mut open = vec![(start, None)];
        while let Some((at, came_by)) = open.pop() {
            for (clique, next, state) in self.from(at) {
                let passes = state == LinkState::Level && Some(clique) != came_by;
                if passes && reached.insert(next) {
                    open.push((next, Some(clique)));
                }
            }
        }
        reached
    }

    /// Whether any way leads from one data center to another over links that are not dead, and over a third.
    fn has_detour(&self, from: DcId, to: DcId) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for (_, next, state) in self.from(at) {
                let is_direct = (at, next) == (from, to);
                if state == LinkState::Dead || is_direct || !seen.insert(next) {
                    continue;
                }
                if next == to {
                    return true;
                }
                open.push(next);
            }
        }
        false
    }

    /// The links of a data center: the number of the clique, the other end and how it is.
    fn from(&self, at: DcId) -> impl Iterator<Item = (usize, DcId, LinkState)> + '_ {
        let own = self.cliques.iter().enumerate().filter(move |(_, one)| one.contains(&at));
        let ends = own.flat_map(|(clique, members)| members.iter().map(move |dc| (clique, *dc)));
        let ends = ends.filter(move |(_, dc)| *dc != at && self.present.contains(dc));
        ends.map(move |(clique, dc)| (clique, dc, (self.link)(at, dc)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dcs(ids: impl IntoIterator<Item = u16>) -> Vec<DcId> {
        ids.into_iter().map(DcId).collect()
    }

    /// Who pauses, and for whom, where links within `cliques` are dead or behind.
    fn check(
        cliques: &[&[u16]],
        dead: &[(u16, u16)],
        behind: &[(u16, u16)],
        expect: &[(u16, u16)],
    ) {
        let cliques: Vec<Vec<DcId>> = cliques.iter().map(|one| dcs(one.iter().copied())).collect();
        let present = cliques.iter().flatten().copied().collect();
        let link = |a: DcId, b: DcId| {
            let pair = (a.0.min(b.0), a.0.max(b.0));
            match () {
                () if dead.contains(&pair) => LinkState::Dead,
                () if behind.contains(&pair) => LinkState::Behind,
                () => LinkState::Level,
            }
        };

        let expect = expect.iter().map(|(dc, by)| (DcId(*dc), DcId(*by))).collect();
        let found = paused(&cliques, &present, link);
        assert_eq!(found, expect, "{cliques:?}: {dead:?} dead, {behind:?} behind");
    }

    #[test]
    fn of_two_that_only_a_third_hears_the_later_pauses() {
        check(&[&[0, 1, 2]], &[], &[], &[]);
        check(&[&[0, 1, 2]], &[(1, 2)], &[], &[(2, 1)]);
        check(&[&[0, 1, 2]], &[(0, 1)], &[], &[(1, 0)]);
        check(&[&[0, 1, 2]], &[(0, 2)], &[], &[(2, 0)]);
    }

    #[test]
    fn on_both_sides_of_a_clean_split_all_train() {
        check(&[&[0, 1, 2]], &[(0, 2), (1, 2)], &[], &[]);
        check(&[&[0, 1, 2, 3]], &[(0, 2), (0, 3), (1, 2), (1, 3)], &[], &[]);
        check(&[&[0, 1, 2]], &[(0, 1), (0, 2), (1, 2)], &[], &[]);
    }

    #[test]
    fn one_that_hears_few_makes_way_for_many() {
        check(&[&[0, 1, 2, 3, 4]], &[(0, 2), (0, 3), (0, 4)], &[], &[(0, 2)]);
    }

    #[test]
    fn who_has_missed_something_pauses_until_it_has_come_but_for_two_alone() {
        check(&[&[0, 1, 2]], &[], &[(1, 2)], &[(2, 1)]);
        check(&[&[0, 1, 2]], &[], &[(0, 2), (1, 2)], &[(2, 0)]);
        check(&[&[0, 1, 2]], &[(1, 2)], &[(0, 2)], &[(2, 1)]);
        check(&[&[0, 1]], &[], &[(0, 1)], &[]);
    }

    #[test]
    fn a_dead_link_of_a_tree_splits_it_cleanly() {
        check(&[&[0, 1], &[1, 2]], &[(1, 2)], &[], &[]);
    }

    #[test]
    fn a_dead_link_within_a_group_pauses_all_that_lie_behind_it() {
        // 1 is the hub between 0 and the group, 3 between 4 and the group: what 0 and 1 change does not reach 3 and 4.
        check(&[&[0, 1], &[1, 2, 3], &[3, 4]], &[(1, 3)], &[], &[(3, 0), (4, 0)]);
    }

    proptest! {
        /// In a mesh of which some links are dead.
        #[test]
        fn whoever_trains_reaches_all_that_train_on_its_side(
            count in 2..7_u16,
            dead in prop::collection::vec(prop::bool::weighted(0.3), 49),
        ) {
            let joined = |a: DcId, b: DcId| !dead[usize::from(a.0.min(b.0) * 7 + a.0.max(b.0))];
            let link = |a, b| if joined(a, b) { LinkState::Level } else { LinkState::Dead };
            let present: BTreeSet<DcId> = dcs(0..count).into_iter().collect();
            let cliques = [dcs(0..count)];
            let found = paused(&cliques, &present, link);
            let training: Vec<DcId> =
                present.iter().copied().filter(|dc| !found.contains_key(dc)).collect();

            // Hearing each other is transitive among those that train, which is to say that they form groups.
            for a in &training {
                for b in training.iter().filter(|b| *b != a && joined(*a, **b)) {
                    for c in training.iter().filter(|c| *c != a && *c != b && joined(*b, **c)) {
                        prop_assert!(joined(*a, *c), "{a} and {c} by way of {b}");
                    }
                }
            }
            // Nobody pauses without need.
            for (dc, by) in &found {
                prop_assert!(!found.contains_key(by) && !joined(*dc, *by));
            }
            for dc in &present {
                let alone = present.iter().all(|other| other == dc || !joined(*dc, *other));
                prop_assert!(!(alone && found.contains_key(dc)));
            }
        }
    }
}
