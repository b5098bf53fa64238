//! Links that are dead between two data centers while a third one exchanges updates with both, and which of the two pauses.
//!
//! Copies that add up what reaches them diverge under such a partial partition (`docs/src/partial-partitions.md`). Every server
//! tells its mirrors which of them it does not hear, whenever that changes. From these words alone each server decides
//! whether its own data center pauses, without asking anybody: of two that do not hear each other, the one pauses that more
//! links have failed of, and of equals the one that the topology names later. It pauses until it has what it missed.
//!
//! A word is not queued but looked up when it leaves, so that a link that comes and goes leaves no backlog.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::DcId;
use crate::wire::{ControlMessage, LinkReport};

/// What one server knows of who hears whom.
#[derive(Debug)]
pub(super) struct Reachability {
    own: DcId,
    /// The cliques of the overlay that this data center is in, without itself.
    cliques: Vec<Vec<DcId>>,
    /// What this server says, and the mirrors that have yet to be told.
    report: LinkReport,
    due: BTreeSet<DcId>,
    /// What mirrors have last said.
    reports: BTreeMap<DcId, LinkReport>,
    pause: Option<Pause>,
}

/// Why this data center pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pause {
    /// The mirror whose updates are missed.
    pub(super) missed: DcId,
    /// Whether a third data center has said that the mirror lost links, too. Until then the mirror may be the one to pause.
    agreed: bool,
    /// Whether updates of others have come since it began.
    drifted: bool,
}

impl Reachability {
    /// Every mirror is heard. `cliques` are those of the overlay that `own` is in, without itself.
    pub(super) fn new(own: DcId, cliques: Vec<Vec<DcId>>) -> Self {
        Self {
            own,
            cliques,
            report: LinkReport::default(),
            due: BTreeSet::new(),
            reports: BTreeMap::new(),
            pause: None,
        }
    }

    /// Nothing comes from a mirror any more. Gives the version of the word that says so.
    pub(super) fn on_disconnected(&mut self, mirror: DcId) -> u64 {
        self.report.behind.remove(&mirror);
        if self.report.silent.insert(mirror) {
            self.queue_report();
        }
        self.report.version
    }

    /// A mirror is heard, again if it was not: what it has sent meanwhile is still missed then.
    pub(super) fn on_received(&mut self, mirror: DcId) {
        if self.report.silent.remove(&mirror) {
            self.report.behind.insert(mirror);
            self.queue_report();
        }
    }

    /// All that was missed of a mirror has come, or is not owed any more.
    pub(super) fn on_caught_up(&mut self, mirror: DcId) {
        if self.report.silent.remove(&mirror) | self.report.behind.remove(&mirror) {
            self.queue_report();
        }
    }

    /// Updates of a mirror have come.
    pub(super) fn on_update(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.drifted = true;
        }
    }

    /// A mirror says whom it does not hear.
    pub(super) fn on_link_report(&mut self, from: DcId, report: LinkReport) {
        self.reports.insert(from, report);
    }

    /// A mirror has lost what it was told, and what it has said.
    pub(super) fn on_reset(&mut self, mirror: DcId) {
        self.on_caught_up(mirror);
        self.reports.remove(&mirror);
        if self.report.version > 0 {
            self.due.insert(mirror);
        }
    }

    /// The word for a mirror that has yet to be told, with what holds at this moment.
    pub(super) fn next(&mut self, to: DcId) -> Option<ControlMessage> {
        self.due.remove(&to).then(|| ControlMessage::LinkReport(self.report.clone()))
    }

    /// Decides whether this data center pauses, where these take part in the run.
    pub(super) fn decide(&mut self, present: &BTreeSet<DcId>) {
        let misses = |mirror: &DcId| self.misses(*mirror) && present.contains(mirror);
        // A copy that got only some of the updates has drifted: it is not trained on before it has the others.
        let holds = |pause: &Pause| pause.agreed && pause.drifted && misses(&pause.missed);
        let goes_on = self.pause.filter(holds);
        self.pause = goes_on.or_else(|| {
            let cliques = self.cliques.iter();
            let mut mirrors = cliques.flat_map(|clique| clique.iter().map(move |dc| (clique, *dc)));
            let found = mirrors.find(|(clique, dc)| {
                misses(dc) && self.yields_to(*dc) && self.has_witness(clique, *dc, present)
            });
            found.map(|(_, missed)| Pause {
                missed,
                agreed: self.failed_links_of(missed) > 0,
                drifted: self.pause.is_some_and(|pause| pause.drifted),
            })
        });

        // Who hears two that do not hear each other tells each how many links the other has lost.
        let is_heard =
            |mirror: &DcId| present.contains(mirror) && !self.report.silent.contains(mirror);
        let received = self.reports.iter().filter(|(mirror, _)| is_heard(mirror));
        let failed = received.map(|(mirror, report)| (*mirror, failed_links(report)));
        let failed: BTreeMap<DcId, u16> = failed.filter(|(_, failed)| *failed > 0).collect();

        if (self.report.pauses, &self.report.failed) != (self.pause.is_some(), &failed) {
            (self.report.pauses, self.report.failed) = (self.pause.is_some(), failed);
            self.queue_report();
        }
    }

    /// Why this data center pauses, if it does.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Whether updates do not pass between this data center and a mirror: one does not hear the other, or the mirror has yet
    /// to send what it owes since.
    fn misses(&self, mirror: DcId) -> bool {
        let is_unheard =
            self.reports.get(&mirror).is_some_and(|report| report.silent.contains(&self.own));
        is_unheard || self.report.silent.contains(&mirror) || self.report.behind.contains(&mirror)
    }

    /// Whether of the two this data center is the one that pauses.
    fn yields_to(&self, mirror: DcId) -> bool {
        // Each has lost the link to the other at the least, or is about to notice.
        let (ours, theirs) = (failed_links(&self.report), self.failed_links_of(mirror));
        (ours.max(1), self.own) > (theirs.max(1), mirror)
    }

    /// How many links of a mirror have failed, by what others say.
    fn failed_links_of(&self, mirror: DcId) -> u16 {
        let said = self.reports.values().filter_map(|report| report.failed.get(&mirror));
        said.copied().max().unwrap_or_default()
    }

    /// Whether a third data center of the clique exchanges updates with this one and with a mirror.
    fn has_witness(&self, clique: &[DcId], mirror: DcId, present: &BTreeSet<DcId>) -> bool {
        let mut others = clique.iter().filter(|dc| **dc != mirror && present.contains(dc));
        others.any(|third| {
            let says =
                |dc| self.reports.get(third).is_some_and(|report| report.silent.contains(&dc));
            !self.report.silent.contains(third) && !says(self.own) && !says(mirror)
        })
    }

    /// Has all mirrors told of a word that has changed.
    fn queue_report(&mut self) {
        self.report.version = self.report.version.saturating_add(1);
        self.due.extend(self.cliques.iter().flatten());
    }
}

/// The number of failed links of the sender of a report.
fn failed_links(report: &LinkReport) -> u16 {
    u16::try_from(report.silent.len()).unwrap_or(u16::MAX)
}

persist! {
    impl Persist<()> for Reachability {
        fn walk(Self { own: _, cliques, report, due, reports, pause }, walk, ()) {
            let is_mirror = |dc: &DcId| cliques.iter().any(|clique| clique.contains(dc));
            walk.record("word", report)?;
            walk.record_that("due", due, |found, _| found.iter().all(is_mirror))?;
            walk.record_that("heard", reports, |found, _| found.keys().all(is_mirror))?;
            walk.record_that("pause", pause, |found, _| {
                found.as_ref().is_none_or(|pause| is_mirror(&pause.missed))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The servers of one shard, of which some pairs pass nothing on.
    struct Shard {
        servers: Vec<Reachability>,
        dead: BTreeSet<(u16, u16)>,
    }

    impl Shard {
        fn new(count: u16) -> Self {
            let dcs = || (0..count).map(DcId);
            let others = |own: DcId| dcs().filter(move |dc| *dc != own).collect();
            let server = |own: DcId| Reachability::new(own, vec![others(own)]);
            Self { servers: dcs().map(server).collect(), dead: BTreeSet::new() }
        }

        fn cut(&mut self, pairs: &[(u16, u16)]) {
            self.dead.extend(pairs);
            self.settle();
        }

        /// The links are back, and what was missed has come.
        fn heal(&mut self, pairs: &[(u16, u16)]) {
            for (a, b) in pairs {
                self.dead.remove(&(*a, *b));
                for (at, from) in [(*a, *b), (*b, *a)] {
                    self.servers[usize::from(at)].on_caught_up(DcId(from));
                }
            }
            self.settle();
        }

        /// Tells every server whom it does not hear, and carries words until none is left.
        fn settle(&mut self) {
            for (a, b) in &self.dead {
                for (at, from) in [(*a, *b), (*b, *a)] {
                    self.servers[usize::from(at)].on_disconnected(DcId(from));
                }
            }
            let count = self.servers.len() as u16;
            let present: BTreeSet<DcId> = (0..count).map(DcId).collect();
            loop {
                self.servers.iter_mut().for_each(|server| server.decide(&present));
                if !self.carry() {
                    return;
                }
            }
        }

        fn carry(&mut self) -> bool {
            let count = self.servers.len() as u16;
            let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
            let mut carried = false;
            for (from, to) in pairs.filter(|(from, to)| from != to).collect::<Vec<_>>() {
                if self.dead.contains(&(from.min(to), from.max(to))) {
                    continue;
                }
                let report = self.servers[usize::from(from)].next(DcId(to));
                if let Some(ControlMessage::LinkReport(report)) = report {
                    self.servers[usize::from(to)].on_link_report(DcId(from), report);
                    carried = true;
                }
            }
            carried
        }

        /// Which data centers pause, each with the one that it misses.
        fn check(&self, expect: &[(u16, u16)]) {
            let paused = self
                .servers
                .iter()
                .filter_map(|server| server.pause().map(|pause| (server.own.0, pause.missed.0)));
            assert_eq!(paused.collect::<Vec<_>>(), expect);
        }
    }

    #[test]
    fn of_two_that_do_not_hear_each_other_the_later_one_pauses() {
        let mut shard = Shard::new(4);
        shard.cut(&[(1, 2)]);
        shard.check(&[(2, 1)]);
        shard.cut(&[(0, 3)]);
        shard.check(&[(2, 1), (3, 0)]);
        shard.heal(&[(1, 2)]);
        shard.check(&[(3, 0)]);
        shard.heal(&[(0, 3)]);
        shard.check(&[]);
    }

    #[test]
    fn one_that_most_links_have_failed_of_makes_way_for_the_others() {
        let mut shard = Shard::new(5);
        shard.cut(&[(0, 2), (0, 3), (0, 4)]);
        shard.check(&[(0, 2)]);
        shard.heal(&[(0, 2), (0, 3), (0, 4)]);
        shard.check(&[]);
    }

    #[test]
    fn on_both_sides_of_a_clean_split_nobody_pauses() {
        let mut shard = Shard::new(4);
        shard.cut(&[(0, 2), (0, 3), (1, 2), (1, 3)]);
        shard.check(&[]);
    }

    #[test]
    fn who_has_paused_does_so_until_it_has_what_it_missed() {
        let mut shard = Shard::new(3);
        shard.cut(&[(1, 2)]);
        shard.servers[2].on_update();
        // 0 does not hear 2 either: a clean split, but for the copy of 2, which has got a part of the updates only.
        shard.cut(&[(0, 2)]);
        shard.check(&[(2, 1)]);
        shard.heal(&[(0, 2), (1, 2)]);
        shard.check(&[]);
    }

    #[test]
    fn links_of_one_that_is_cut_off_die_one_after_another() {
        let mut shard = Shard::new(3);
        shard.cut(&[(1, 2)]);
        shard.check(&[(2, 1)]);
        shard.cut(&[(0, 2)]);
        shard.check(&[]);
    }

    #[test]
    fn one_that_has_lost_its_state_is_told_again() {
        let mut shard = Shard::new(3);
        shard.cut(&[(0, 1)]);
        shard.servers[2] = Shard::new(3).servers.remove(2);
        shard.servers[0].on_reset(DcId(2));
        shard.servers[1].on_reset(DcId(2));
        shard.settle();
        assert_eq!(shard.servers[2].reports[&DcId(0)].silent, [DcId(1)].into());
        shard.check(&[(1, 0)]);
    }
}
