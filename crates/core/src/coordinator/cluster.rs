//! The coordinator of a cluster whose nodes fail and come back, and whose data centers join and leave.
//!
//! It decides who takes part, who is given up and who leaves with it, who may join, whose copy a server takes that has none,
//! which worker stands in for a lost one, and which orders a node hears again. It knows no connection and no clock: who is
//! connected, what a copy costs and what time it is are arguments. Whoever drives it carries out what it decides, and writes
//! it down before any node hears of it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::absences::Absences;
use super::incarnations::Incarnations;
use super::members::leave_with;
use super::server_processes::{ServerProcess, ServerProcesses};
use super::stand_ins::StandIns;
use super::standing_orders::{NodeOrder, StandingOrders};
use super::{Coordinator, CoordinatorConfig};
use crate::types::{DcId, Instant, NodeId, ServerId, StateError, Walk, WorkerId};

/// The coordinator of a run, with what it knows of the nodes.
#[derive(Debug)]
pub struct ClusterCoordinator {
    /// When the run starts, is evaluated, stops and drains.
    pub run: Coordinator,
    /// What was ordered so far.
    pub orders: StandingOrders,
    /// Which process of each server takes part.
    pub processes: ServerProcesses,
    /// The incarnations that this process of the coordinator gives to servers that have nothing to go on from.
    pub incarnations: Incarnations,
    /// Which workers stand in for which.
    pub stand_ins: StandIns,
    /// Nodes that are away.
    pub absences: Absences,
    /// Lost workers already reported as irreplaceable.
    irreplaceable: BTreeSet<WorkerId>,
}

/// Whether a data center may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Not yet: the run has not started, a copy is on its way, or no data center is there with all its nodes.
    NotYet,
    /// Nobody joins any more: the run is about to end.
    Closed,
    /// This data center joins.
    Join(DcId),
}

/// Why a node of a data center that takes no part cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It has the state of a data center without which the run has gone on.
    HasState,
    /// What the data center had counted before it was given up would be counted again.
    CountsAgain,
}

/// Why a data center cannot leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MustStay {
    /// Copies are becoming equal, or are equal.
    Draining,
    /// Without it no data center is left.
    IsLast,
}

/// Why no mirror's copy can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSource {
    /// Copies are becoming equal.
    Draining,
    /// This server of the same shard waits for a copy, too.
    OtherWaits(ServerId),
    /// No mirror has what this server had.
    NoMirror,
}

/// What became of the work of a lost worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// Worker `own` stands in for `lost`, in place of `before` if another did.
    By { lost: WorkerId, own: WorkerId, before: Option<WorkerId> },
    /// No worker of its data center can stand in for it. Said once for each time that it is lost.
    ByNobody { lost: WorkerId },
}

/// Finds the data center whose copy is transferred soonest, of those that the argument lets through.
pub type Nearest<'a> = &'a dyn Fn(&dyn Fn(DcId) -> bool) -> Option<DcId>;

impl ClusterCoordinator {
    /// A coordinator before its run has started.
    pub fn new(run: Coordinator) -> Self {
        Self {
            run,
            orders: StandingOrders::default(),
            processes: ServerProcesses::default(),
            incarnations: Incarnations::default(),
            stand_ins: StandIns::default(),
            absences: Absences::default(),
            irreplaceable: BTreeSet::new(),
        }
    }

    /// Begins a process of the coordinator: the first, or one that has read what those before it have written down. Until it
    /// has written that down itself it gives no incarnation.
    pub fn begin_process(&mut self, is_first: bool, since_epoch: Duration) {
        self.incarnations = self.processes.give_incarnations(is_first, since_epoch);
    }

    /// Takes note of the process of a server that is connected. One that has lost its copy is to take that of a mirror, which
    /// `source` finds; but not once the run is over. Answers whether anything is known that was not.
    ///
    /// # Errors
    /// Where the copy is lost and `source` finds none. Then nothing has changed.
    pub fn meet<E>(
        &mut self,
        server: ServerId,
        process: ServerProcess,
        source: impl FnOnce(&Self) -> Result<DcId, E>,
    ) -> Result<bool, E> {
        let known = self.processes.clone();
        if self.processes.is_lost(server, process) && !self.run.is_finished() {
            let from = source(&*self)?;
            self.processes.rebuild(server, process, from);
        }

        self.processes.meet(server, process);
        Ok(self.processes != known)
    }

    /// Has a data center join that was found by [`Self::admission`].
    pub fn join(&mut self, dc: DcId) {
        self.run.handle_joined(dc);
        self.orders.left.retain(|server, _| server.dc != dc);
    }

    /// Has data centers leave that were found by [`Self::leaving_with`]. What that opens comes with [`Coordinator::advance`],
    /// so that it can be written down before.
    pub fn leave(&mut self, gone: &BTreeSet<DcId>) {
        self.run.handle_left(gone);
        for dc in gone {
            let left = self.processes.leave(*dc);
            self.orders.left.extend(left);
        }
    }

    /// Has others stand in for workers that have been lost for `after` or longer, and for which nobody stands in who is
    /// connected. `here` are the workers that are connected themselves.
    pub fn take_over(
        &mut self,
        now: Instant,
        after: Duration,
        here: &BTreeSet<WorkerId>,
    ) -> Vec<TakeOver> {
        let lost = self.absences.at_least(now, after).filter_map(|node| match node {
            NodeId::Worker(worker) => Some(worker),
            _ => None,
        });
        let has_stand_in = |lost| self.stand_ins.of(lost).is_some_and(|own| here.contains(&own));
        let lost: Vec<WorkerId> = lost.filter(|lost| !has_stand_in(*lost)).collect();

        let mut all = Vec::new();
        for lost in lost {
            let before = self.stand_ins.of(lost);
            let others = here.iter().copied().filter(|own| own.dc == lost.dc && *own != lost);
            match self.stand_ins.appoint(lost, others) {
                Some(own) => {
                    self.orders.taken_over.insert(lost);
                    self.irreplaceable.remove(&lost);
                    all.push(TakeOver::By { lost, own, before });
                }
                None if self.irreplaceable.insert(lost) => all.push(TakeOver::ByNobody { lost }),
                None => {}
            }
        }
        all
    }

    /// A worker is connected, itself or by its stand-in. Answers whether it must forget where it was, since others have done
    /// its work: said on each of its connections, as the one before may have broken before it had heard.
    pub fn must_reset(&mut self, back: WorkerId) -> bool {
        self.irreplaceable.remove(&back);
        self.orders.taken_over.contains(&back)
    }

    /// Whether a node is of a data center that takes part.
    pub fn takes_part(&self, node: NodeId) -> bool {
        node.dc().is_none_or(|dc| !self.run.inactive().contains(&dc))
    }

    /// The orders that a node hears again, in this order.
    pub fn orders_for(&self, node: NodeId) -> Vec<NodeOrder> {
        self.orders.orders_for(node, |worker| self.run.stopped_at(worker))
    }

    /// Whose copy a server takes that has none: of mirrors that take part the one whose copy is there soonest, a connected one
    /// before one that is away for a moment.
    ///
    /// # Errors
    /// Where there is none to take.
    pub fn source_for(
        &self,
        server: ServerId,
        is_there: impl Fn(NodeId) -> bool,
        nearest: Nearest<'_>,
    ) -> Result<DcId, NoSource> {
        if !self.orders.drain.is_empty() {
            return Err(NoSource::Draining);
        }
        if let Some(other) = self.processes.other_copy_on_the_way(server) {
            return Err(NoSource::OtherWaits(other));
        }

        let mirror = |dc| NodeId::Server(ServerId { dc, shard: server.shard });
        let takes_part = |dc| self.takes_part(mirror(dc));
        let there = nearest(&|dc| takes_part(dc) && is_there(mirror(dc)));
        there.or_else(|| nearest(&takes_part)).ok_or(NoSource::NoMirror)
    }

    /// Which data center joins next, one at a time, of those whose nodes are all there.
    pub fn admission(&self, is_there: impl Fn(DcId) -> bool) -> Admission {
        if !self.orders.started || self.processes.has_copies_on_the_way() {
            return Admission::NotYet;
        }
        if !self.run.admits() {
            return Admission::Closed;
        }

        let mut inactive = self.run.inactive().iter().copied();
        inactive.find(|dc| is_there(*dc)).map_or(Admission::NotYet, Admission::Join)
    }

    /// Whether a node of a data center that takes no part may join with it. `process` is what it said of itself;
    /// `deltas_are_counts` whether the application would count again what was counted before.
    ///
    /// # Errors
    /// Where it may not, however long it waits.
    pub fn may_join(
        &self,
        node: NodeId,
        process: Option<ServerProcess>,
        deltas_are_counts: bool,
    ) -> Result<(), NotAdmitted> {
        if !process.is_some_and(|process| process.is_new) {
            return Err(NotAdmitted::HasState);
        }
        if deltas_are_counts && node.dc().is_some_and(|dc| self.has_left(dc)) {
            return Err(NotAdmitted::CountsAgain);
        }
        Ok(())
    }

    /// Whether a data center has taken part, and has left.
    pub fn has_left(&self, dc: DcId) -> bool {
        self.orders.left.keys().any(|left| left.dc == dc)
    }

    /// All data centers that leave where `dc` is given up: those that wait for a copy from one that leaves go with it.
    /// `is_there` says which data centers can go on without them.
    ///
    /// # Errors
    /// Where the run cannot go on without them.
    pub fn leaving_with(
        &self,
        dc: DcId,
        is_there: impl Fn(DcId) -> bool,
    ) -> Result<BTreeSet<DcId>, MustStay> {
        if !self.run.lets_go() {
            return Err(MustStay::Draining);
        }

        let gone = leave_with(dc, &self.processes.copies());
        let stays = |server: &ServerId| {
            let dc = server.dc;
            !self.run.inactive().contains(&dc) && !gone.contains(&dc) && is_there(dc)
        };
        if self.config().servers.iter().any(stays) { Ok(gone) } else { Err(MustStay::IsLast) }
    }

    /// The node to give up where server `at` has refused, for as long as a node may be away, what its mirror in data center
    /// `peer` says: the mirror is connected and of no use. Nothing where there is no such mirror that takes part.
    pub fn refused(&self, at: ServerId, peer: DcId) -> Option<NodeId> {
        let mirror = ServerId { dc: peer, shard: at.shard };
        let is_mirror = peer != at.dc && self.config().servers.contains(&mirror);
        let node = NodeId::Server(mirror);
        (is_mirror && self.takes_part(node)).then_some(node)
    }

    /// The servers of a shard that take part, but for `server` itself.
    pub fn mirrors_of(&self, server: ServerId) -> impl Iterator<Item = ServerId> + '_ {
        let servers = self.config().servers.iter().copied();
        let mirrors = servers.filter(move |one| one.shard == server.shard && *one != server);
        mirrors.filter(|mirror| self.takes_part(NodeId::Server(*mirror)))
    }

    /// Whether a node is to be waited for no more before the run begins: it is connected, or another stands in for it.
    pub fn is_here(&self, node: NodeId, is_connected: bool) -> bool {
        let has_stand_in = |worker| self.stand_ins.of(worker).is_some();
        is_connected || matches!(node, NodeId::Worker(worker) if has_stand_in(worker))
    }

    /// Walks over what changes as time goes on and nodes do not say again, once all outputs are polled.
    ///
    /// # Errors
    /// Where what is read does not fit this coordinator.
    pub fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        self.run.state(&mut walk.at("coordinator"))?;
        walk.record("standing", &mut self.orders)?;
        walk.record("server_processes", &mut self.processes)?;
        walk.record("stand_ins", &mut self.stand_ins)
    }

    fn config(&self) -> &CoordinatorConfig {
        &self.run.config
    }
}

#[cfg(test)]
mod tests {
    use super::super::StopRules;
    use super::*;
    use crate::types::ShardId;

    const AFTER: Duration = Duration::from_secs(10);

    fn server(dc: u16) -> ServerId {
        ServerId { dc: DcId(dc), shard: ShardId(0) }
    }

    fn worker(dc: u16, index: u16) -> WorkerId {
        WorkerId { dc: DcId(dc), index }
    }

    fn process(began: u64) -> ServerProcess {
        ServerProcess { began, incarnation: began, is_new: true }
    }

    /// Three data centers with one server and two workers each, of which the last has yet to join.
    fn cluster() -> ClusterCoordinator {
        let mut run = Coordinator::new(CoordinatorConfig {
            servers: (0..3).map(server).collect(),
            workers: (0..3).flat_map(|dc| [worker(dc, 0), worker(dc, 1)]).collect(),
            stop: StopRules { clocks: Some(9), ..StopRules::default() },
            evaluate_every: 9,
            lockstep: None,
            inactive: BTreeSet::from([DcId(2)]),
        });
        run.handle_start();
        let mut cluster = ClusterCoordinator::new(run);
        cluster.orders.started = true;
        cluster
    }

    /// The first data center that is let through.
    fn first(there: &dyn Fn(DcId) -> bool) -> Option<DcId> {
        (0..3).map(DcId).find(|dc| there(*dc))
    }

    fn source(cluster: &ClusterCoordinator, of: u16) -> Result<DcId, NoSource> {
        cluster.source_for(server(of), |_| true, &|there| first(&|dc| dc != DcId(of) && there(dc)))
    }

    #[test]
    fn a_server_that_comes_back_with_nothing_takes_a_copy_of_a_mirror_that_takes_part() {
        let mut cluster = cluster();
        let meet = |cluster: &mut ClusterCoordinator, began| {
            cluster.meet(server(0), process(began), |cluster| source(cluster, 0))
        };
        assert_eq!(meet(&mut cluster, 1), Ok(true));
        assert_eq!(cluster.processes.copy_of(server(0), process(1)), None);
        assert_eq!(meet(&mut cluster, 1), Ok(false), "it is known");

        assert_eq!(meet(&mut cluster, 2), Ok(true));
        assert_eq!(cluster.processes.copy_of(server(0), process(2)), Some(DcId(1)));
        assert_eq!(source(&cluster, 1), Err(NoSource::OtherWaits(server(0))));

        cluster.processes.on_ready(server(0));
        cluster.run.handle_left(&BTreeSet::from([DcId(1)]));
        assert_eq!(source(&cluster, 0), Err(NoSource::NoMirror));
    }

    #[test]
    fn one_that_is_away_is_the_source_only_where_nobody_else_is() {
        let mut cluster = cluster();
        cluster.join(DcId(2));
        let source = |there: &[u16]| {
            let is_there = |node: NodeId| node.dc().is_some_and(|dc| there.contains(&dc.0));
            cluster.source_for(server(0), is_there, &|there| first(&|dc| dc.0 > 0 && there(dc)))
        };
        assert_eq!(source(&[2]), Ok(DcId(2)));
        assert_eq!(source(&[]), Ok(DcId(1)));
    }

    #[test]
    fn no_data_center_joins_while_a_copy_is_on_its_way_or_once_the_run_stops() {
        let mut cluster = cluster();
        assert_eq!(cluster.admission(|_| false), Admission::NotYet);
        assert_eq!(cluster.admission(|_| true), Admission::Join(DcId(2)));

        cluster.processes.rebuild(server(0), process(2), DcId(1));
        assert_eq!(cluster.admission(|_| true), Admission::NotYet);

        cluster.processes.on_ready(server(0));
        cluster.run.handle_diverged();
        assert_eq!(cluster.admission(|_| true), Admission::Closed);
    }

    #[test]
    fn who_was_given_up_joins_again_only_with_nothing_and_where_nothing_is_counted_twice() {
        let mut cluster = cluster();
        cluster.processes.meet(server(1), process(7));
        cluster.leave(&BTreeSet::from([DcId(1)]));
        let left = NodeOrder::Left { from: DcId(1), process: 7 };
        assert_eq!(cluster.orders_for(NodeId::Server(server(0))), [left]);

        let node = NodeId::Server(server(1));
        let old = ServerProcess { is_new: false, ..process(7) };
        assert_eq!(cluster.may_join(node, Some(old), false), Err(NotAdmitted::HasState));
        assert_eq!(cluster.may_join(node, Some(process(8)), true), Err(NotAdmitted::CountsAgain));
        assert_eq!(cluster.may_join(node, Some(process(8)), false), Ok(()));

        cluster.join(DcId(1));
        assert_eq!(cluster.orders_for(NodeId::Server(server(0))), []);
    }

    #[test]
    fn the_last_data_center_stays_and_so_do_all_once_copies_become_equal() {
        let mut cluster = cluster();
        let gone = |dcs: &[u16]| dcs.iter().copied().map(DcId).collect::<BTreeSet<_>>();
        assert_eq!(cluster.leaving_with(DcId(0), |_| true), Ok(gone(&[0])));
        assert_eq!(cluster.leaving_with(DcId(0), |_| false), Err(MustStay::IsLast));

        cluster.processes.rebuild(server(1), process(2), DcId(0));
        assert_eq!(cluster.leaving_with(DcId(0), |_| true), Err(MustStay::IsLast));
        assert_eq!(cluster.leaving_with(DcId(1), |_| true), Ok(gone(&[1])));

        cluster.run.handle_diverged();
        for (dc, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            cluster.run.handle_worker_stopped(worker(dc, index), Default::default());
        }
        assert_eq!(cluster.leaving_with(DcId(1), |_| true), Err(MustStay::Draining));
    }

    #[test]
    fn only_a_mirror_that_takes_part_is_given_up_where_it_is_refused() {
        let cluster = cluster();
        assert_eq!(cluster.refused(server(0), DcId(1)), Some(NodeId::Server(server(1))));
        for peer in [0, 2, 9] {
            assert_eq!(cluster.refused(server(0), DcId(peer)), None, "{peer}");
        }
    }

    #[test]
    fn a_lost_worker_is_taken_over_and_has_to_forget_where_it_was() {
        let mut cluster = cluster();
        let (lost, own) = (worker(0, 0), worker(0, 1));
        let at = Instant::ZERO + AFTER;
        cluster.absences.lose(Instant::ZERO, NodeId::Worker(lost));
        let far = BTreeSet::from([worker(1, 0)]);
        assert_eq!(cluster.take_over(Instant::ZERO, AFTER, &far), [], "not for long enough");
        assert_eq!(cluster.take_over(at, AFTER, &far), [TakeOver::ByNobody { lost }]);
        assert_eq!(cluster.take_over(at, AFTER, &far), [], "said once");

        let here = BTreeSet::from([own]);
        let before = None;
        assert_eq!(cluster.take_over(at, AFTER, &here), [TakeOver::By { lost, own, before }]);
        assert_eq!(cluster.take_over(at, AFTER, &here), [], "its stand-in is there");
        assert!(cluster.is_here(NodeId::Worker(lost), false));
        assert!(cluster.must_reset(lost) && !cluster.must_reset(own));
    }
}
