//! Decides whether this data center pauses under a partial partition: the link between two data centers is dead, and a
//! third one exchanges updates with both.
//!
//! A copy is the sum of the updates that it receives. Such copies diverge under a partial partition
//! (`docs/src/partial-partitions.md`). Every server sends a link report to its mirrors whenever its links change: it
//! names the mirrors to which the server's link has failed. Each server decides from these reports alone whether its
//! own data center pauses. It sends no request for the decision. Of two data centers without a link, the one with more
//! failed links pauses. If both have the same number, the one that the topology names later pauses. The pause ends once
//! the missed updates are received.
//!
//! A link report is not queued. It is built when it is sent, so that a link that fails repeatedly leaves no backlog of
//! reports.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::DcId;
use crate::wire::{ControlMessage, LinkReport};

/// One server's knowledge of the links between data centers, and its decision to pause.
#[derive(Debug)]
pub(super) struct Reachability {
    own: DcId,
    /// The cliques of the overlay that this data center is in, without itself.
    cliques: Vec<Vec<DcId>>,
    /// This server's own report.
    report: LinkReport,
    /// The mirrors to which the current report was not sent yet.
    due: BTreeSet<DcId>,
    /// The last report of each mirror.
    reports: BTreeMap<DcId, LinkReport>,
    /// Present while this data center pauses.
    pause: Option<Pause>,
}

/// The reason why this data center pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pause {
    /// The mirror whose updates are missing.
    pub(super) missed: DcId,
    /// Whether a third data center has reported that the mirror lost links, too. Before that the decision may change,
    /// because the mirror may be the one that must pause.
    agreed: bool,
    /// Whether updates of other mirrors were received during the pause. The copy then contains only a part of all
    /// updates.
    drifted: bool,
}

impl Reachability {
    /// Begins with all links up. `cliques` are those of the overlay that `own` is in, without itself.
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

    /// Records that nothing is received from a mirror. Returns the version of the report that names it.
    pub(super) fn on_disconnected(&mut self, mirror: DcId) -> u64 {
        self.report.behind.remove(&mirror);
        if self.report.silent.insert(mirror) {
            self.queue_report();
        }
        self.report.version
    }

    /// Records that a frame of a mirror was received. If the mirror was silent, its updates of that time are still
    /// missing: returns the version of the report that says so.
    pub(super) fn on_received(&mut self, mirror: DcId) -> Option<u64> {
        self.report.silent.remove(&mirror).then(|| {
            self.report.behind.insert(mirror);
            self.queue_report();
            self.report.version
        })
    }

    /// Records that no update of a mirror is missing: all were received, or the mirror will not send them.
    pub(super) fn on_caught_up(&mut self, mirror: DcId) {
        if self.report.silent.remove(&mirror) | self.report.behind.remove(&mirror) {
            self.queue_report();
        }
    }

    /// Records that updates of a mirror were received. During a pause the copy drifts because of them.
    pub(super) fn on_update(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.drifted = true;
        }
    }

    /// Records a mirror's report.
    pub(super) fn on_link_report(&mut self, from: DcId, report: LinkReport) {
        self.reports.insert(from, report);
    }

    /// Resets a mirror that has lost its state: its report is discarded, and this server's report is sent to it again, if it is
    /// in a clique with this server.
    pub(super) fn on_reset(&mut self, mirror: DcId) {
        self.on_caught_up(mirror);
        self.reports.remove(&mirror);
        if self.report.version > 0 && is_in(&self.cliques, mirror) {
            self.due.insert(mirror);
        }
    }

    /// This server's current report, if it must be sent to the mirror `to`. It then counts as sent.
    pub(super) fn next(&mut self, to: DcId) -> Option<ControlMessage> {
        self.due.remove(&to).then(|| ControlMessage::LinkReport(self.report.clone()))
    }

    /// Whether this server has not received all updates of a mirror since the link to it failed.
    pub(super) fn awaits_updates_of(&self, mirror: DcId) -> bool {
        self.report.silent.contains(&mirror) || self.report.behind.contains(&mirror)
    }

    /// Whether a mirror takes part in the run, as others report, but has never reached this server. `present` are the
    /// mirrors that this server knows as active.
    pub(super) fn is_unmet(&self, mirror: DcId, present: &BTreeSet<DcId>) -> bool {
        let named = |report: &LinkReport| report.failed.contains_key(&mirror);
        !present.contains(&mirror)
            && is_in(&self.cliques, mirror)
            && self.received_reports(present).any(|(_, report)| named(report))
    }

    /// Decides whether this data center pauses. `present` are the mirrors that this server knows as active.
    ///
    /// Queues a report if the decision, a failed link, or the number of a mirror's failed links has changed.
    pub(super) fn decide(&mut self, present: &BTreeSet<DcId>) {
        let neighbours = self.cliques.iter().flatten().copied();
        let unmet = neighbours.filter(|dc| self.is_unmet(*dc, present));
        let unmet: BTreeSet<DcId> = unmet.collect();
        let failed_links = self.failed_links(present, &unmet);
        let links_changed = self.report.failed_links != failed_links;
        self.report.failed_links = failed_links;

        let active: BTreeSet<DcId> = present.union(&unmet).copied().collect();
        self.pause = self.decided_pause(&active);

        // A data center that receives from both ends of a dead link reports to each end how many links the other has
        // lost.
        let failed = self.received_reports(present).map(|(dc, report)| (dc, failed_count(report)));
        let failed: BTreeMap<DcId, u16> = failed.filter(|(_, failed)| *failed > 0).collect();
        let pauses = self.pause.is_some();
        if links_changed || (self.report.pauses, &self.report.failed) != (pauses, &failed) {
            (self.report.pauses, self.report.failed) = (pauses, failed);
            self.queue_report();
        }
    }

    /// The reason why this data center pauses. `None` if it does not pause.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// The pause that the reports ask for. `active` are the mirrors that take part in the run.
    fn decided_pause(&self, active: &BTreeSet<DcId>) -> Option<Pause> {
        let misses = |mirror: DcId| active.contains(&mirror) && self.misses(mirror);

        // A copy that received only some of the updates has drifted. Workers must not train on it before it has the
        // others.
        let must_last = |pause: &Pause| pause.agreed && pause.drifted && misses(pause.missed);
        self.pause.filter(must_last).or_else(|| {
            let cliques = self.cliques.iter();
            let mut mirrors = cliques.flat_map(|clique| clique.iter().map(move |dc| (clique, *dc)));
            let found = mirrors.find(|(clique, dc)| {
                misses(*dc) && self.yields_to(*dc, active) && self.has_witness(clique, *dc, active)
            });
            found.map(|(_, missed)| Pause {
                missed,
                agreed: self.failed_links_of(missed, active) > 0,
                drifted: self.pause.is_some_and(|pause| pause.drifted),
            })
        })
    }

    /// The mirrors to which this server's link has failed, in at least one direction.
    fn failed_links(&self, present: &BTreeSet<DcId>, unmet: &BTreeSet<DcId>) -> BTreeSet<DcId> {
        let unheard = self.received_reports(present);
        let unheard = unheard.filter(|(_, report)| report.silent.contains(&self.own));
        let unheard = unheard.map(|(mirror, _)| mirror);
        self.report.silent.iter().chain(unmet).copied().chain(unheard).collect()
    }

    /// Whether updates between this data center and a mirror are missing: the link has failed, or the mirror has not yet
    /// sent all missed updates.
    fn misses(&self, mirror: DcId) -> bool {
        self.report.failed_links.contains(&mirror) || self.report.behind.contains(&mirror)
    }

    /// Whether this data center is the one of the two that pauses.
    fn yields_to(&self, mirror: DcId, active: &BTreeSet<DcId>) -> bool {
        // Each has lost at least the link to the other, or will soon detect that.
        let (ours, theirs) = (failed_count(&self.report), self.failed_links_of(mirror, active));
        (ours.max(1), self.own) > (theirs.max(1), mirror)
    }

    /// The number of failed links of a mirror, as reported by others. 0 if no report names it.
    fn failed_links_of(&self, mirror: DcId, active: &BTreeSet<DcId>) -> u16 {
        let reports = self.received_reports(active);
        let reported = reports.filter_map(|(_, report)| report.failed.get(&mirror));
        reported.copied().max().unwrap_or_default()
    }

    /// The reports of those `active` mirrors from which this server receives. The last report of another may be
    /// outdated.
    fn received_reports<'r>(
        &'r self,
        active: &'r BTreeSet<DcId>,
    ) -> impl Iterator<Item = (DcId, &'r LinkReport)> {
        let reports = self.reports.iter().map(|(mirror, report)| (*mirror, report));
        reports
            .filter(|(mirror, _)| active.contains(mirror) && !self.report.silent.contains(mirror))
    }

    /// Whether a third data center of the clique exchanges updates with both this one and a mirror.
    fn has_witness(&self, clique: &[DcId], mirror: DcId, active: &BTreeSet<DcId>) -> bool {
        let mut others = clique.iter().filter(|dc| **dc != mirror && active.contains(dc));
        others.any(|third| {
            let reports_silent =
                |dc| self.reports.get(third).is_some_and(|report| report.silent.contains(&dc));
            !self.report.failed_links.contains(third) && !reports_silent(mirror)
        })
    }

    /// Queues the changed report for all mirrors.
    fn queue_report(&mut self) {
        self.report.version = self.report.version.saturating_add(1);
        self.due.extend(self.cliques.iter().flatten());
    }
}

/// Whether a data center is in one of the cliques.
fn is_in(cliques: &[Vec<DcId>], dc: DcId) -> bool {
    cliques.iter().any(|clique| clique.contains(&dc))
}

/// The number of failed links of a report's sender.
fn failed_count(report: &LinkReport) -> u16 {
    u16::try_from(report.failed_links.len()).unwrap_or(u16::MAX)
}

persist! {
    impl Persist<()> for Reachability {
        fn walk(Self { own: _, cliques, report, due, reports, pause }, walk, ()) {
            let is_mirror = |dc: &DcId| is_in(cliques, *dc);
            walk.record("link_report", report)?;
            walk.record_that("due", due, |found, _| found.iter().all(is_mirror))?;
            walk.record_that("link_reports", reports, |found, _| found.keys().all(is_mirror))?;
            walk.record_that("pause", pause, |found, _| {
                found.as_ref().is_none_or(|pause| is_mirror(&pause.missed))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The servers of one shard in several data centers.
    struct Shard {
        servers: Vec<Reachability>,
        /// The pairs of data centers whose link is dead, the lower number first.
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

        /// Restores links, and delivers all missed updates.
        fn heal(&mut self, pairs: &[(u16, u16)]) {
            for (a, b) in pairs {
                self.dead.remove(&(*a, *b));
                for (at, from) in [(*a, *b), (*b, *a)] {
                    self.servers[usize::from(at)].on_caught_up(DcId(from));
                }
            }
            self.settle();
        }

        /// Reports dead links to their servers, and delivers link reports until none is queued.
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
                if !self.deliver() {
                    return;
                }
            }
        }

        /// Delivers each queued report once. Returns whether there was any.
        fn deliver(&mut self) -> bool {
            let count = self.servers.len() as u16;
            let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
            let mut delivered = false;
            for (from, to) in pairs.filter(|(from, to)| from != to).collect::<Vec<_>>() {
                if self.dead.contains(&(from.min(to), from.max(to))) {
                    continue;
                }
                let report = self.servers[usize::from(from)].next(DcId(to));
                if let Some(ControlMessage::LinkReport(report)) = report {
                    self.servers[usize::from(to)].on_link_report(DcId(from), report);
                    delivered = true;
                }
            }
            delivered
        }

        /// Compares the data centers that pause, each with the one whose updates it misses.
        fn check(&self, expect: &[(u16, u16)]) {
            let paused = self
                .servers
                .iter()
                .filter_map(|server| server.pause().map(|pause| (server.own.0, pause.missed.0)));
            assert_eq!(paused.collect::<Vec<_>>(), expect);
        }
    }

    #[test]
    fn of_two_without_a_link_the_later_one_pauses() {
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
    fn the_data_center_with_the_most_failed_links_pauses() {
        let mut shard = Shard::new(5);
        shard.cut(&[(0, 2), (0, 3), (0, 4)]);
        shard.check(&[(0, 2)]);
        shard.heal(&[(0, 2), (0, 3), (0, 4)]);
        shard.check(&[]);
    }

    #[test]
    fn after_a_clean_split_no_data_center_pauses() {
        let mut shard = Shard::new(4);
        shard.cut(&[(0, 2), (0, 3), (1, 2), (1, 3)]);
        shard.check(&[]);
    }

    #[test]
    fn a_pause_lasts_until_missed_updates_are_received() {
        let mut shard = Shard::new(3);
        shard.cut(&[(1, 2)]);
        shard.servers[2].on_update();
        // The link between 0 and 2 fails, too: a clean split. But the copy of 2 has received only a part of the
        // updates.
        shard.cut(&[(0, 2)]);
        shard.check(&[(2, 1)]);
        shard.heal(&[(0, 2), (1, 2)]);
        shard.check(&[]);
    }

    #[test]
    fn a_data_center_without_any_link_does_not_pause() {
        let mut shard = Shard::new(3);
        shard.cut(&[(1, 2)]);
        shard.check(&[(2, 1)]);
        shard.cut(&[(0, 2)]);
        shard.check(&[]);
    }

    #[test]
    fn a_mirror_that_has_lost_its_state_receives_the_report_again() {
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
