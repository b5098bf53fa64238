//! The coordinator of a cluster whose nodes fail and return, and whose data centers join and leave.
//!
//! It decides which data centers take part, which node is given up and which data centers leave with it, and which data
//! center joins. It decides whose copy a server without one takes, which worker stands in for a lost one, and which
//! orders a node receives again. It has no connection and no clock: which nodes are connected, what the transfer of a
//! copy costs and the time are arguments. A driver carries out its decisions, and logs each one before it notifies any
//! node.

use std::collections::BTreeSet;
use std::time::Duration;

use super::absences::Absences;
use super::incarnations::Incarnations;
use super::members::leave_with;
use super::server_processes::{ServerProcess, ServerProcesses};
use super::stand_ins::StandIns;
use super::standing_orders::{NodeOrder, Recipients, StandingOrders};
use super::{Coordinator, CoordinatorConfig};
use crate::persist;
use crate::session::Incarnation;
use crate::types::{DcId, Instant, NodeId, ServerId, WorkerId};

/// How a run reacts to lost nodes.
#[derive(Clone, Copy, Debug)]
pub struct FailureRules {
    /// How long a node must be lost before it is given up.
    pub give_up_after: Duration,
    /// Whether the run continues without the data center of a node that is given up. Otherwise the run ends.
    pub may_leave: bool,
    /// How long a worker must be lost before another stands in for it. `None` if none ever does.
    pub take_over_after: Option<Duration>,
    /// Whether the application's deltas are counts. If they are, a data center that joined again would count its data
    /// twice.
    pub deltas_are_counts: bool,
}

/// The coordinator of a run and its knowledge of the nodes.
#[derive(Debug)]
pub struct ClusterCoordinator {
    /// The phases of the run. The driver passes clocks, evaluations and timeouts to it, and polls its outputs.
    pub run: Coordinator,
    rules: FailureRules,
    /// The orders so far.
    orders: StandingOrders,
    /// The process of each server that takes part.
    processes: ServerProcesses,
    /// The incarnations that this process of the coordinator assigns to servers without a state.
    incarnations: Incarnations,
    /// Servers of data centers that have joined, of which no process is registered: the first one takes a copy.
    joining: BTreeSet<ServerId>,
    /// The workers that stand in for lost ones.
    stand_ins: StandIns,
    /// The nodes that are lost.
    absences: Absences,
    /// The lost workers that have been reported as irreplaceable.
    irreplaceable: BTreeSet<WorkerId>,
}

/// Whether a data center joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// None yet: the run has not started, a server receives a copy, or no inactive data center has all its nodes
    /// connected.
    NotYet,
    /// None, and none later: the run is about to end.
    Closed,
    /// This data center joins.
    Join(DcId),
}

/// Why a node of a data center that takes no part cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It has the state of a data center without which the run has continued.
    HasState,
    /// The data that the data center counted before it was given up would be counted again.
    CountsAgain,
}

/// Why the run cannot continue without a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MustStay {
    /// The rules of the run do not allow data centers to leave, or the node belongs to none.
    NotAllowed,
    /// The drain has begun or is complete.
    Draining,
    /// Without its data center none would be left.
    IsLast,
}

/// Why a server cannot take the copy of any mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSource {
    /// The drain has begun.
    Draining,
    /// This server of the same shard receives a copy, too.
    OtherWaits(ServerId),
    /// No mirror of this server takes part.
    NoMirror,
}

/// A decision about the work of a lost worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// Another worker stands in for it.
    By {
        /// The lost worker.
        lost: WorkerId,
        /// The worker that stands in for it.
        own: WorkerId,
        /// The worker that stood in for it before, if one did.
        before: Option<WorkerId>,
    },
    /// No worker of its data center can stand in for it. Reported once for each loss.
    ByNobody {
        /// The lost worker.
        lost: WorkerId,
    },
}

/// Returns the data center whose copy is transferred soonest, of those that the argument accepts.
pub type Nearest<'a> = &'a dyn Fn(&dyn Fn(DcId) -> bool) -> Option<DcId>;

impl ClusterCoordinator {
    /// A coordinator that knows of no order and no process.
    pub fn new(run: Coordinator, rules: FailureRules) -> Self {
        Self {
            run,
            rules,
            orders: StandingOrders::default(),
            processes: ServerProcesses::default(),
            incarnations: Incarnations::default(),
            joining: BTreeSet::new(),
            stand_ins: StandIns::default(),
            absences: Absences::default(),
            irreplaceable: BTreeSet::new(),
        }
    }

    /// Begins a process of the coordinator: the first, or one that has restored the state of those before it.
    /// Only the first process uses `since_epoch`, the time of the system clock. This process must assign no
    /// incarnation before the caller has logged the changed state.
    pub fn begin_process(&mut self, is_first: bool, since_epoch: Duration) {
        self.incarnations = self.processes.give_incarnations(is_first, since_epoch);
    }

    /// A server has connected with an incarnation.
    pub fn handle_incarnation(&mut self, server: ServerId, incarnation: u64) {
        self.incarnations.note(server, incarnation);
    }

    /// Assigns the incarnation in which a server without a state starts: higher than all that it has had. The same
    /// `process` is assigned the same incarnation when it asks again.
    pub fn assign_incarnation(&mut self, server: ServerId, process: u64) -> Incarnation {
        self.incarnations.give(server, process)
    }

    /// A node has connected.
    pub fn handle_connected(&mut self, node: NodeId) {
        self.absences.end(node);
    }

    /// A node has lost its connection.
    pub fn handle_lost(&mut self, now: Instant, node: NodeId) {
        self.absences.lose(now, node);
    }

    /// Ends the wait for a node that takes no part, or will not take part.
    pub fn handle_dismissed(&mut self, node: NodeId) {
        if let NodeId::Worker(worker) = node {
            self.stand_ins.dismiss(worker);
        }
        self.absences.end(node);
    }

    /// After a restore, marks those of `nodes` that take part as lost since `now`, if the run has started.
    pub fn handle_restored(&mut self, now: Instant, nodes: impl Iterator<Item = NodeId>) {
        if self.orders.started {
            let lost: Vec<NodeId> = nodes.filter(|node| self.takes_part(*node)).collect();
            lost.into_iter().for_each(|node| self.absences.lose(now, node));
        }
    }

    /// Whether a later process of a server has taken part, which lost the state that this process still has. The two run
    /// at the same time.
    pub fn is_outdated(&self, server: ServerId, process: ServerProcess) -> bool {
        self.processes.is_outdated(server, process)
    }

    /// The server of the same shard that this server's process must wait for before it connects, and the data center
    /// of the source of its copy: this process needs a copy, and that server may still receive one. It reports when its
    /// copy is [whole](Self::handle_whole), or it is given up.
    pub fn must_wait_for(
        &self,
        server: ServerId,
        process: ServerProcess,
    ) -> Option<(ServerId, DcId)> {
        let needs_copy = self.needs_copy(server, process);
        needs_copy.then(|| self.processes.other_copy_on_the_way(server)).flatten()
    }

    fn needs_copy(&self, server: ServerId, process: ServerProcess) -> bool {
        let is_lost = self.processes.is_lost(server, process);
        (self.joining.contains(&server) || is_lost) && !self.run.is_finished()
    }

    /// Notes the process of a connected server. A server that has lost its copy, or has just joined, takes the copy of
    /// the mirror that `source` returns, unless the run is over. Returns whether anything has changed, which the caller
    /// then logs.
    ///
    /// # Errors
    /// If the server needs a copy and `source` fails. Nothing has changed then.
    pub fn register_server<E>(
        &mut self,
        server: ServerId,
        process: ServerProcess,
        source: impl FnOnce(&Self) -> Result<DcId, E>,
    ) -> Result<bool, E> {
        let known = self.processes.clone();
        if self.needs_copy(server, process) {
            let from = source(&*self)?;
            self.processes.rebuild(server, process, from);
        }

        self.joining.remove(&server);
        self.processes.register(server, process);
        Ok(self.processes != known)
    }

    /// A server has its whole copy. Returns whether that was the last copy in transfer. If so, waiting data centers may
    /// join.
    pub fn handle_whole(&mut self, server: ServerId) -> bool {
        let had_copies = self.processes.has_copies_on_the_way();
        self.processes.on_whole(server);
        had_copies && !self.processes.has_copies_on_the_way()
    }

    /// Makes a data center join that [`Self::admission`] has returned. The caller then
    /// [registers](Self::register_server) its servers.
    ///
    /// # Panics
    /// If no data center may join ([`Coordinator::admits`]).
    pub fn join(&mut self, dc: DcId) {
        self.run.handle_joined(dc);
        self.orders.left.retain(|server, _| server.dc != dc);
        let servers = self.run.config.servers.iter();
        self.joining.extend(servers.filter(|server| server.dc == dc));
    }

    /// Makes data centers leave that [`Self::leaving_with`] has returned. Outputs that follow from this are made by
    /// [`Coordinator::advance`], so that the caller can log the change first.
    ///
    /// # Panics
    /// If no data center may leave ([`Coordinator::lets_go`]).
    pub fn leave(&mut self, gone: &BTreeSet<DcId>) {
        self.run.handle_left(gone);
        self.joining.retain(|server| !gone.contains(&server.dc));
        for dc in gone {
            let left = self.processes.leave(*dc);
            self.orders.left.extend(left);
        }
    }

    /// Appoints stand-ins for the workers that have been lost for [`FailureRules::take_over_after`] or longer and have
    /// no connected stand-in. `here` are the connected workers. Returns the new decisions.
    pub fn take_over(&mut self, now: Instant, here: &BTreeSet<WorkerId>) -> Vec<TakeOver> {
        let Some(after) = self.rules.take_over_after else { return Vec::new() };
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

    /// A worker that was lost does its own work again. Returns the worker that stood in for it, if one did.
    pub fn give_back(&mut self, back: WorkerId) -> Option<WorkerId> {
        self.stand_ins.dismiss(back)
    }

    /// A worker is connected, itself or through its stand-in. Returns whether the caller must send it a reset, since
    /// others have done its work. The reset is sent on each connection, since the one before may have broken before the
    /// worker received it.
    pub fn must_reset(&mut self, back: WorkerId) -> bool {
        self.irreplaceable.remove(&back);
        self.orders.taken_over.contains(&back)
    }

    /// Notes an order. The caller does this before the order is given.
    pub fn record(&mut self, to: Recipients, order: &NodeOrder) {
        self.orders.record(to, order);
    }

    /// Notes that servers are asked for their statistics from this point on.
    pub fn request_server_stats(&mut self) {
        self.orders.server_stats = true;
    }

    /// Whether a node belongs to a data center that takes part, or to none.
    pub fn takes_part(&self, node: NodeId) -> bool {
        node.dc().is_none_or(|dc| !self.run.inactive().contains(&dc))
    }

    /// Whether a node is one of the recipients and takes part.
    pub fn is_for(&self, to: Recipients, node: NodeId) -> bool {
        to.include(node) && self.takes_part(node)
    }

    /// The orders that a node receives again when it connects, in this sequence.
    pub fn orders_for(&self, node: NodeId) -> Vec<NodeOrder> {
        self.orders.orders_for(node, |worker| self.run.stopped_at(worker))
    }

    /// The orders that notify mirrors that a data center has left, each with its recipient.
    pub fn orders_of_leaving(&self, dc: DcId) -> Vec<(ServerId, NodeOrder)> {
        let left = self.orders.left.iter().filter(|(server, _)| server.dc == dc);
        let orders = left.flat_map(|(server, process)| {
            let order = NodeOrder::Left { from: dc, process: *process };
            self.mirrors_of(*server).map(move |mirror| (mirror, order.clone()))
        });
        orders.collect()
    }

    /// The orders so far.
    pub fn orders(&self) -> &StandingOrders {
        &self.orders
    }

    /// The workers that stand in for lost ones.
    pub fn stand_ins(&self) -> &StandIns {
        &self.stand_ins
    }

    /// The data center whose copy a server in this process takes, if it takes one.
    pub fn copy_of(&self, server: ServerId, process: ServerProcess) -> Option<DcId> {
        self.processes.copy_of(server, process)
    }

    /// The data center of the mirror whose copy a server without one takes: of the mirrors that take part, the one
    /// whose copy arrives soonest. Connected mirrors, for which `is_there` returns true, come before lost ones.
    ///
    /// # Errors
    /// If there is no copy to take.
    pub fn source_for(
        &self,
        server: ServerId,
        is_there: impl Fn(NodeId) -> bool,
        nearest: Nearest<'_>,
    ) -> Result<DcId, NoSource> {
        if !self.orders.drain.is_empty() {
            return Err(NoSource::Draining);
        }
        if let Some((other, _)) = self.processes.other_copy_on_the_way(server) {
            return Err(NoSource::OtherWaits(other));
        }

        let mirror = |dc| NodeId::Server(ServerId { dc, shard: server.shard });
        let takes_part = |dc| self.takes_part(mirror(dc));
        let there = nearest(&|dc| takes_part(dc) && is_there(mirror(dc)));
        there.or_else(|| nearest(&takes_part)).ok_or(NoSource::NoMirror)
    }

    /// The data center that joins next, if any. `is_there` returns whether all nodes of a data center are connected.
    /// One data center joins at a time.
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

    /// Checks whether a node of an inactive data center may join with it. `process` is what the node has reported.
    ///
    /// # Errors
    /// If it may not join, however long it waits.
    pub fn may_join(
        &self,
        node: NodeId,
        process: Option<ServerProcess>,
    ) -> Result<(), NotAdmitted> {
        if !process.is_some_and(|process| process.is_new) {
            return Err(NotAdmitted::HasState);
        }
        if self.rules.deltas_are_counts && node.dc().is_some_and(|dc| self.has_left(dc)) {
            return Err(NotAdmitted::CountsAgain);
        }
        Ok(())
    }

    /// Whether a data center has taken part and has left.
    pub fn has_left(&self, dc: DcId) -> bool {
        self.orders.left.keys().any(|left| left.dc == dc)
    }

    /// Whether worker `own` stands in for worker `lost`.
    pub fn stands_in(&self, own: WorkerId, lost: WorkerId) -> bool {
        self.stand_ins.of(lost) == Some(own)
    }

    /// A node that has been lost for longer than [`FailureRules::give_up_after`], if there is one.
    pub fn given_up(&self, now: Instant) -> Option<NodeId> {
        self.absences.longer_than(now, self.rules.give_up_after)
    }

    /// All data centers that leave if `node` is given up: its own, and those that receive a copy from one that leaves.
    /// `is_there` returns whether a data center can continue without them.
    ///
    /// # Errors
    /// If the run cannot continue without them.
    pub fn leaving_with(
        &self,
        node: NodeId,
        is_there: impl Fn(DcId) -> bool,
    ) -> Result<BTreeSet<DcId>, MustStay> {
        let dc = node.dc().filter(|_| self.rules.may_leave).ok_or(MustStay::NotAllowed)?;
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

    /// The node to give up after server `at` has rejected the messages of its mirror in data center `peer` for as long
    /// as a node may be lost: the mirror, which is connected and of no use. `None` if no such mirror takes part.
    pub fn refused(&self, at: ServerId, peer: DcId) -> Option<NodeId> {
        let mirror = ServerId { dc: peer, shard: at.shard };
        let is_mirror = peer != at.dc && self.config().servers.contains(&mirror);
        let node = NodeId::Server(mirror);
        (is_mirror && self.takes_part(node)).then_some(node)
    }

    /// The other servers of the shard of `server` that take part.
    pub fn mirrors_of(&self, server: ServerId) -> impl Iterator<Item = ServerId> + '_ {
        let servers = self.config().servers.iter().copied();
        let mirrors = servers.filter(move |one| one.shard == server.shard && *one != server);
        mirrors.filter(|mirror| self.takes_part(NodeId::Server(*mirror)))
    }

    /// Whether a node is present for the start of the run: it is connected, or a worker stands in for it.
    pub fn is_here(&self, node: NodeId, is_connected: bool) -> bool {
        let has_stand_in = |worker| self.stand_ins.of(worker).is_some();
        is_connected || matches!(node, NodeId::Worker(worker) if has_stand_in(worker))
    }

    fn config(&self) -> &CoordinatorConfig {
        &self.run.config
    }
}

persist! {
    /// The part of the state that nodes do not report again.
    impl Persist<()> for ClusterCoordinator {
        fn walk(Self { run, orders, processes, stand_ins, .. }, walk, ()) {
            walk.part("coordinator", run, ())?;
            walk.record("standing", orders)?;
            walk.record("server_processes", processes)?;
            walk.record("stand_ins", stand_ins)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scale, StopRules};
    use super::*;
    use crate::types::{Clock, Persist, ShardId, State};

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
            scale: Scale::default(),
            evaluate_every: 9,
            lockstep: None,
            inactive: BTreeSet::from([DcId(2)]),
        });
        run.handle_start();
        let rules = FailureRules {
            give_up_after: 3 * AFTER,
            may_leave: true,
            take_over_after: Some(AFTER),
            deltas_are_counts: false,
        };
        let mut cluster = ClusterCoordinator::new(run, rules);
        cluster.record(Recipients::Workers, &NodeOrder::Start { stopped: None });
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
            cluster.register_server(server(0), process(began), |cluster| source(cluster, 0))
        };
        assert_eq!(meet(&mut cluster, 1), Ok(true));
        assert_eq!(cluster.copy_of(server(0), process(1)), None);
        assert_eq!(meet(&mut cluster, 1), Ok(false), "it is known");

        assert_eq!(meet(&mut cluster, 2), Ok(true));
        assert_eq!(cluster.copy_of(server(0), process(2)), Some(DcId(1)));
        assert_eq!(source(&cluster, 1), Err(NoSource::OtherWaits(server(0))));

        assert!(cluster.handle_whole(server(0)) && !cluster.handle_whole(server(0)));
        cluster.run.handle_left(&BTreeSet::from([DcId(1)]));
        assert_eq!(source(&cluster, 0), Err(NoSource::NoMirror));
    }

    #[test]
    fn a_server_of_a_data_center_that_joins_takes_a_copy_though_it_has_lost_none() {
        let mut cluster = cluster();
        cluster.join(DcId(2));
        let meet = |cluster: &mut ClusterCoordinator| {
            cluster.register_server(server(2), process(1), |cluster| source(cluster, 2))
        };
        assert_eq!(meet(&mut cluster), Ok(true));
        assert_eq!(cluster.copy_of(server(2), process(1)), Some(DcId(0)));
        assert_eq!(meet(&mut cluster), Ok(false), "it calls again over another connection");

        cluster.handle_whole(server(2));
        assert_eq!(meet(&mut cluster), Ok(false));
        assert_eq!(cluster.copy_of(server(2), process(1)), None);
    }

    #[test]
    fn a_server_without_a_copy_waits_until_a_restarted_coordinator_knows_that_another_has_its_copy()
    {
        let mut before = cluster();
        before.run.poll_output();
        for (dc, began) in [(0, 1), (1, 2), (0, 3)] {
            let source = |cluster: &ClusterCoordinator| source(cluster, dc);
            before.register_server(server(dc), process(began), source).unwrap();
        }
        assert_eq!(before.copy_of(server(0), process(3)), Some(DcId(1)));

        let state = State::of(|walk| before.save(walk, ()));
        let mut cluster = cluster();
        cluster.run.poll_output();
        state.restore(|walk| cluster.restore(walk, ())).unwrap();
        let kept = ServerProcess { is_new: false, ..process(2) };
        assert_eq!(cluster.must_wait_for(server(1), kept), None, "it has its log");
        assert_eq!(cluster.must_wait_for(server(0), process(3)), None, "it takes its own copy");
        assert_eq!(cluster.must_wait_for(server(1), process(4)), Some((server(0), DcId(1))));

        cluster.handle_whole(server(0));
        assert_eq!(cluster.must_wait_for(server(1), process(4)), None);
        let registered =
            cluster.register_server(server(1), process(4), |cluster| source(cluster, 1));
        assert_eq!(registered, Ok(true));
        assert_eq!(cluster.copy_of(server(1), process(4)), Some(DcId(0)));
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

        cluster.handle_whole(server(0));
        cluster.run.handle_diverged();
        assert_eq!(cluster.admission(|_| true), Admission::Closed);
    }

    #[test]
    fn who_was_given_up_joins_again_only_with_nothing_and_where_nothing_is_counted_twice() {
        let mut cluster = cluster();
        cluster.processes.register(server(1), process(7));
        cluster.leave(&BTreeSet::from([DcId(1)]));
        let left = NodeOrder::Left { from: DcId(1), process: 7 };
        assert_eq!(cluster.orders_of_leaving(DcId(1)), [(server(0), left.clone())]);
        assert_eq!(cluster.orders_for(NodeId::Server(server(0))), [left]);

        let node = NodeId::Server(server(1));
        let old = ServerProcess { is_new: false, ..process(7) };
        assert_eq!(cluster.may_join(node, Some(old)), Err(NotAdmitted::HasState));
        assert_eq!(cluster.may_join(node, Some(process(8))), Ok(()));
        cluster.rules.deltas_are_counts = true;
        assert_eq!(cluster.may_join(node, Some(process(8))), Err(NotAdmitted::CountsAgain));

        cluster.join(DcId(1));
        assert_eq!(cluster.orders_for(NodeId::Server(server(0))), []);
    }

    #[test]
    fn the_last_data_center_stays_and_so_do_all_once_copies_become_equal() {
        let mut cluster = cluster();
        let gone = |dcs: &[u16]| dcs.iter().copied().map(DcId).collect::<BTreeSet<_>>();
        let [a, b] = [0, 1].map(|dc| NodeId::Worker(worker(dc, 0)));
        assert_eq!(cluster.leaving_with(a, |_| true), Ok(gone(&[0])));
        assert_eq!(cluster.leaving_with(a, |_| false), Err(MustStay::IsLast));

        cluster.processes.rebuild(server(1), process(2), DcId(0));
        assert_eq!(cluster.leaving_with(a, |_| true), Err(MustStay::IsLast));
        assert_eq!(cluster.leaving_with(b, |_| true), Ok(gone(&[1])));

        cluster.run.handle_diverged();
        for (dc, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            cluster.run.handle_worker_stopped(worker(dc, index), Default::default());
        }
        assert_eq!(cluster.leaving_with(b, |_| true), Err(MustStay::Draining));
    }

    #[test]
    fn a_run_that_lets_no_data_center_leave_gives_none_up() {
        let mut cluster = cluster();
        cluster.rules.may_leave = false;
        let node = NodeId::Server(server(0));
        assert_eq!(cluster.leaving_with(node, |_| true), Err(MustStay::NotAllowed));
    }

    #[test]
    fn a_coordinator_that_comes_back_gives_up_those_that_take_part_and_do_not_call() {
        let mut cluster = cluster();
        let nodes = [0, 1, 2].map(|dc| NodeId::Server(server(dc)));
        cluster.handle_restored(Instant::ZERO, nodes[1..].iter().copied());
        let late = Instant::ZERO + 3 * AFTER + AFTER;
        assert_eq!(cluster.given_up(Instant::ZERO + 3 * AFTER), None, "not for long enough");
        assert_eq!(cluster.given_up(late), Some(nodes[1]));

        cluster.handle_connected(nodes[1]);
        assert_eq!(cluster.given_up(late), None, "the last data center takes no part");
    }

    #[test]
    fn what_a_coordinator_has_ordered_and_met_outlives_its_process() {
        let mut before = cluster();
        before.run.poll_output();
        before.register_server(server(0), process(1), |cluster| source(cluster, 0)).unwrap();
        before.register_server(server(0), process(2), |cluster| source(cluster, 0)).unwrap();
        before.record(Recipients::Workers, &NodeOrder::Stop { last: Clock(3) });

        let mut after = cluster();
        after.run.poll_output();
        State::of(|walk| before.save(walk, ())).restore(|walk| after.restore(walk, ())).unwrap();
        assert_eq!(after.copy_of(server(0), process(2)), Some(DcId(1)));
        assert_eq!(after.orders().stop, Some(Clock(3)));
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
        cluster.handle_lost(Instant::ZERO, NodeId::Worker(lost));
        let far = BTreeSet::from([worker(1, 0)]);
        assert_eq!(cluster.take_over(Instant::ZERO, &far), [], "not for long enough");
        assert_eq!(cluster.take_over(at, &far), [TakeOver::ByNobody { lost }]);
        assert_eq!(cluster.take_over(at, &far), [], "said once");

        let here = BTreeSet::from([own]);
        let before = None;
        assert_eq!(cluster.take_over(at, &here), [TakeOver::By { lost, own, before }]);
        assert_eq!(cluster.take_over(at, &here), [], "its stand-in is there");
        assert!(cluster.stands_in(own, lost) && !cluster.stands_in(lost, own));
        assert!(cluster.is_here(NodeId::Worker(lost), false));
        assert!(cluster.must_reset(lost) && !cluster.must_reset(own));
    }
}
