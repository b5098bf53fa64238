//! The nodes of a cluster, each with its disk, and their restarts after crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;

use super::disk::{Disk, DiskBug};
use super::ends::WINDOW_BYTES;
use super::fault_injector::FaultInjector;
use super::undone::Undone;
use crate::scenario::fault::Moment;
use gaia_config::Plan;
use gaia_core::coordinator::{NodeOrder, ServerProcess};
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::{
    Logging, RecoverableServer, RecoverableWorker, RecoveringServer, RecoveringWorker,
    RecoveryError, RequestSeq,
};
use gaia_core::server::Server;
use gaia_core::session::Incarnation;
use gaia_core::types::{
    Clock, DcId, Instant, NodeId, Seed, ServerId, ShardId, ShardLayout, State, WorkerId,
};
use gaia_driver::cluster::{Blueprint, server_ids, worker_ids};

/// All nodes of a cluster except the coordinator.
pub(crate) struct Nodes<'p> {
    plan: &'p Plan,
    blueprint: &'p Blueprint<'p>,
    /// The blueprint of the servers of the first data center, if it is another.
    odd: Option<&'p Blueprint<'p>>,
    windows: BTreeMap<ServerId, BTreeMap<DcId, usize>>,
    pub(crate) servers: BTreeMap<ServerId, ServerNode>,
    pub(crate) workers: BTreeMap<WorkerId, WorkerNode>,
    logging: Logging,
    disk_bug: Option<DiskBug>,
}

/// A checkpoint of a server in place of entries.
pub(crate) struct Replacing {
    /// The number of entries.
    pub(crate) entries: u64,
    /// The number of events that are not on disk before.
    events: usize,
    state: State,
}

/// The common part of servers and workers: a process and its disk.
pub(crate) struct Host {
    /// Whether the process runs.
    pub(crate) up: bool,
    /// Increases with each crash and each restart.
    pub(crate) incarnation: u64,
    /// A checkpoint that is being written in place of entries.
    pub(crate) replacing: Option<Replacing>,
    /// Whether a write is in progress. Inputs wait until it is synced.
    pub(crate) writing: bool,
    /// Whether a write of entries that nothing for another data center waits for is scheduled.
    pub(crate) write_due: bool,
    pub(crate) inbox: VecDeque<Task>,
    pub(crate) disk: Disk,
    /// Whether a worker restarts with another disk: an empty one, or one with its last checkpoint.
    pub(crate) blank: bool,
    /// The step of its next write at which it crashes, and the duration of the crash.
    pub(crate) crash_at_write: Option<(Moment, Duration)>,
    pub(crate) restart_at: Instant,
    /// Whether it restarts with an empty disk.
    pub(crate) disk_lost: bool,
    /// Whether its disk has been emptied. Without a log it then has only what mirrors have.
    pub(crate) is_blank: bool,
    /// The time from which its disk has room again.
    pub(crate) room_at: Instant,
    /// The offset of its clock in nanoseconds.
    pub(crate) clock_off: i64,
    /// The number of records that the shadow has replayed.
    replayed_to: u64,
}

pub(crate) struct ServerNode {
    pub(crate) host: Host,
    /// While the node is down, its state at the crash.
    pub(crate) machine: RecoverableServer,
    shadow: RecoveringServer,
    /// The events that are not on disk, each with the number of records that the disk has once it is. `None` if its entry was
    /// left out.
    pub(crate) unsynced: Vec<(Option<u64>, Undone)>,
    /// The number of outputs that were passed to the checkers.
    pub(crate) outputs_seen: usize,
    /// Workers that must be sent their next due request.
    pub(crate) joining: Vec<WorkerId>,
    /// Workers that wait to join until the server has received its copy.
    pub(crate) parked: Vec<WorkerId>,
    /// The description of its process for the coordinator.
    pub(crate) process: ServerProcess,
    /// The data center whose copy it has taken, if it had none.
    pub(crate) source: Option<DcId>,
    /// Whether its whole copy is on disk.
    pub(crate) has_all: bool,
    /// Whether this process has reported its state to the coordinator.
    pub(crate) has_reported: bool,
    /// The time for which a timeout is scheduled.
    pub(crate) timeout: Option<Instant>,
}

pub(crate) struct WorkerNode {
    pub(crate) host: Host,
    pub(crate) machine: RecoverableWorker,
    shadow: RecoveringWorker,
    /// The clock of its stop, as last reported to the coordinator.
    pub(crate) reported_stop: Option<Clock>,
    /// The incarnation in which it last began without a state. Servers ignore its earlier messages.
    pub(crate) reset_incarnation: u64,
}

impl ServerNode {
    /// Whether it has its whole copy, or can restore it from its disk.
    pub(crate) fn is_whole(&self) -> bool {
        !self.host.disk_lost && self.has_all
    }
}

/// An input of a node.
pub(crate) enum Task {
    FromWorker { from: WorkerId, incarnation: u64, message: WorkerMessage },
    Arrives { from: DcId, epoch: u64, message: Bytes },
    Drained { to: DcId, bytes: u64, busy: Duration },
    Timeout,
    Acknowledge { peer: DcId },
    Connect { peer: DcId, epoch: u64 },
    Disconnected { peer: DcId },
    Silent { peer: DcId },
    Join { worker: WorkerId },
    Drain { clocks: Vec<Clock>, inactive: BTreeSet<DcId> },
    Left { dc: DcId, incarnation: u64 },
    Checkpoint,
    Write,
    Rows { from: ShardId, rows: RowsRead },
    Computed,
    Joined { server: ShardId, due: RequestSeq },
    Due { server: ShardId, due: RequestSeq, guessed: bool },
    Start { stopped: Option<Clock> },
    Stop { last: Clock },
}

impl From<NodeOrder> for Task {
    fn from(order: NodeOrder) -> Self {
        match order {
            NodeOrder::Start { stopped } => Self::Start { stopped },
            NodeOrder::Stop { last } => Self::Stop { last },
            NodeOrder::Drain { clocks, inactive } => Self::Drain { clocks, inactive },
            NodeOrder::Left { from, process } => Self::Left { dc: from, incarnation: process },
        }
    }
}

/// The state of a node, and the state of its shadow, which has replayed exactly the records on the disk.
#[derive(Debug)]
pub(crate) struct ReplayPair {
    pub(crate) state: State,
    pub(crate) shadow: Result<State, RecoveryError>,
}

/// The result of a restart.
pub(crate) struct Back {
    pub(crate) replay_pair: ReplayPair,
    pub(crate) torn: bool,
}

impl Task {
    /// Whether it connects a worker to a server.
    pub(crate) fn is_join(&self) -> bool {
        matches!(self, Self::Join { .. })
    }

    /// Whether all entries of the node must be synced first, because the task sends messages at once or takes the
    /// state.
    pub(crate) fn needs_settled(&self) -> bool {
        matches!(
            self,
            Self::Acknowledge { .. }
                | Self::Connect { .. }
                | Self::Join { .. }
                | Self::Joined { .. }
                | Self::Checkpoint
                | Self::Write
        )
    }
}

impl<'p> Nodes<'p> {
    pub(crate) fn new(
        plan: &'p Plan,
        blueprint: &'p Blueprint<'p>,
        odd: Option<&'p Blueprint<'p>>,
        logging: Logging,
        fault_injector: &FaultInjector,
    ) -> Self {
        let topology = &plan.topology;
        let window = fault_injector.window(WINDOW_BYTES);
        let windows = |server: ServerId| {
            let peers = topology.dc_ids().filter(|peer| *peer != server.dc);
            (server, peers.map(|peer| (peer, window)).collect())
        };
        let mut nodes = Self {
            plan,
            blueprint,
            odd,
            windows: server_ids(topology).map(windows).collect(),
            servers: BTreeMap::new(),
            workers: BTreeMap::new(),
            logging,
            disk_bug: fault_injector.disk_bug(),
        };

        let disk_bug = nodes.disk_bug;
        let disks = plan.seed.child("disks");
        for id in server_ids(topology) {
            let host = Host::new(NodeId::Server(id), disks, blueprint.plan_hash, disk_bug);
            let node = ServerNode {
                host,
                machine: nodes.fresh_server(id).begin(logging, Incarnation::FIRST),
                shadow: nodes.fresh_server(id),
                unsynced: Vec::new(),
                outputs_seen: 0,
                joining: Vec::new(),
                parked: Vec::new(),
                process: ServerProcess { began: 1, incarnation: 1, is_new: true },
                source: None,
                has_all: true,
                has_reported: true,
                timeout: None,
            };
            nodes.servers.insert(id, node);
        }

        let late = plan.late();
        for id in worker_ids(topology) {
            let host = Host::new(NodeId::Worker(id), disks, blueprint.plan_hash, disk_bug);
            let (mut machine, shadow) =
                (nodes.fresh_worker(id).begin(logging), nodes.fresh_worker(id));
            for layout in blueprint.layouts() {
                machine.handle_due(layout.shard(), RequestSeq::default(), false);
            }
            nodes.workers.insert(
                id,
                WorkerNode { host, machine, shadow, reported_stop: None, reset_incarnation: 0 },
            );
        }

        for node in nodes.ids() {
            nodes.host(node).up = node.dc().is_none_or(|dc| !late.contains(&dc));
        }
        nodes
    }

    /// A server. While its node is down, its state at the crash.
    pub(crate) fn server(&self, id: ServerId) -> &Server {
        self.servers[&id].machine.server()
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.values().map(|node| node.machine.server())
    }

    pub(crate) fn layout(&self, shard: ShardId) -> &ShardLayout {
        &self.blueprint.layouts()[shard.index()]
    }

    pub(crate) fn host(&mut self, node: NodeId) -> &mut Host {
        match node {
            NodeId::Server(id) => &mut self.server_mut(id).host,
            NodeId::Worker(id) => &mut self.worker_mut(id).host,
            NodeId::Coordinator => unreachable!("the coordinator has no host"),
        }
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = (NodeId, &Host)> {
        let servers = self.servers.iter().map(|(id, node)| (NodeId::Server(*id), &node.host));
        servers.chain(self.workers.iter().map(|(id, node)| (NodeId::Worker(*id), &node.host)))
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        let servers = self.servers.keys().copied().map(NodeId::Server);
        servers.chain(self.workers.keys().copied().map(NodeId::Worker)).collect()
    }

    pub(crate) fn server_mut(&mut self, id: ServerId) -> &mut ServerNode {
        self.servers.get_mut(&id).expect("a server of this cluster")
    }

    pub(crate) fn worker_mut(&mut self, id: WorkerId) -> &mut WorkerNode {
        self.workers.get_mut(&id).expect("a worker of this cluster")
    }

    /// Whether all entries of a node are synced.
    pub(crate) fn is_settled(&self, node: NodeId) -> bool {
        match node {
            NodeId::Server(id) => self.servers[&id].machine.is_settled(),
            NodeId::Worker(id) => self.workers[&id].machine.is_settled(),
            NodeId::Coordinator => true,
        }
    }

    /// Whether results of a node wait for a write that has not begun.
    pub(crate) fn must_write(&self, node: NodeId) -> bool {
        match node {
            NodeId::Server(id) => self.servers[&id].machine.must_write(),
            NodeId::Worker(id) => self.workers[&id].machine.must_write(),
            NodeId::Coordinator => false,
        }
    }

    /// Whether answers of a server to its workers wait for a write.
    pub(crate) fn delays_answers(&self, id: ServerId) -> bool {
        self.servers[&id].machine.delays_answers()
    }

    /// Whether results leave before bulky entries are on disk.
    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.logging, Logging::Deferred { .. })
    }

    /// Begins a checkpoint of a server in place of its entries.
    pub(crate) fn begin_replacing(&mut self, id: ServerId) {
        let node = self.server_mut(id);
        let (entries, events) = (node.machine.entries_waiting(), node.unsynced.len());
        let state = node.machine.begin_checkpoint(State::default());
        node.host.replacing = Some(Replacing { entries, events, state });
    }

    /// Writes the checkpoint of a server that takes the place of its entries. What is undone by a crash are then only later
    /// events.
    pub(crate) fn replace(&mut self, id: ServerId, Replacing { events, state, .. }: Replacing) {
        let shadow = self.fresh_server(id);
        let node = self.server_mut(id);
        node.host.disk.write_checkpoint(state.clone(), true);
        let written = node.host.disk.next_number();
        node.unsynced.drain(..events);
        node.shadow = shadow;
        let restored = node.shadow.restore(state);
        restored.expect("the state of a server fits it");
        node.host.replayed_to = written;
    }

    pub(crate) fn take_entries(&mut self, node: NodeId) -> Vec<Bytes> {
        match node {
            NodeId::Server(id) => self.server_mut(id).machine.take_entries(),
            NodeId::Worker(id) => self.worker_mut(id).machine.take_entries(),
            NodeId::Coordinator => Vec::new(),
        }
    }

    pub(crate) fn handle_synced(&mut self, node: NodeId) {
        match node {
            NodeId::Server(id) => self.server_mut(id).machine.handle_synced(),
            NodeId::Worker(id) => self.worker_mut(id).machine.handle_synced(),
            NodeId::Coordinator => {}
        }
    }

    /// Writes a checkpoint of a node whose entries are synced. `None` while a worker runs an iteration.
    pub(crate) fn write_checkpoint(&mut self, node: NodeId, rotates: bool) -> Option<ReplayPair> {
        let state = match node {
            NodeId::Server(id) => {
                let state = self.server_mut(id).machine.state(State::default());
                Some(state.expect("a settled server has released its outputs"))
            }
            NodeId::Worker(id) => self.begin_checkpoint(id),
            NodeId::Coordinator => None,
        }?;
        let shadow = self.shadow(node);
        self.handle_synced(node);
        self.host(node).disk.write_checkpoint(state.clone(), rotates);
        let state =
            if matches!(node, NodeId::Worker(_)) { without_leftovers(state) } else { state };
        Some(ReplayPair { state, shadow })
    }

    /// Whether a worker that is down was ahead of its disk.
    pub(crate) fn has_lost_entries(&self, id: WorkerId) -> bool {
        let machine = &self.workers[&id].machine;
        self.is_deferred() && machine.entries_waiting() > 0
    }

    /// The state of a worker, for a checkpoint. Where entries were dropped, no replay of the disk could be equal to it.
    fn begin_checkpoint(&mut self, id: WorkerId) -> Option<State> {
        let node = self.worker_mut(id);
        let has_lost = !node.machine.is_settled();
        let state = node.machine.begin_checkpoint(State::default())?;
        if has_lost {
            let shadow = self.fresh_worker(id);
            let node = self.worker_mut(id);
            node.shadow = shadow;
            let restored = node.shadow.restore(state.clone());
            restored.expect("the state of a worker fits it");
            node.host.replayed_to = node.host.disk.next_number();
        }
        Some(state)
    }

    /// Empties the disk of a node that has crashed or was never started.
    pub(crate) fn empty_disk(&mut self, node: NodeId) {
        let (plan, disks) = (self.blueprint.plan_hash, self.plan.seed.child("new disks"));
        let disk_bug = self.disk_bug;
        let host = self.host(node);
        let name = node.to_string();
        let chance = disks.child(&format!("{name} {}", host.incarnation)).random();
        host.disk = Disk::new(name, plan, chance, disk_bug);
        (host.replayed_to, host.disk_lost, host.is_blank, host.blank) = (0, false, true, false);
        let incarnation = host.incarnation;

        match node {
            NodeId::Server(id) => {
                let shadow = self.fresh_server(id);
                let server = self.server_mut(id);
                server.shadow = shadow;
                server.unsynced.clear();
            }
            NodeId::Worker(id) => {
                let shadow = self.fresh_worker(id);
                let worker = self.worker_mut(id);
                (worker.shadow, worker.reset_incarnation) = (shadow, incarnation);
            }
            NodeId::Coordinator => {}
        }
    }

    /// Whether the run can continue if a server loses its disk: all its active mirrors have their whole copies.
    pub(crate) fn can_lose_disk(&self, id: ServerId, inactive: &BTreeSet<DcId>) -> bool {
        let mut mirrors = self.servers.iter().filter(|(other, _)| {
            other.shard == id.shard && **other != id && !inactive.contains(&other.dc)
        });
        mirrors.all(|(_, node)| node.is_whole() && !node.machine.is_new())
    }

    /// The process of a server that is down and restarts with an empty disk.
    pub(crate) fn process_without_disk(&self, id: ServerId) -> ServerProcess {
        let next = self.servers[&id].host.incarnation + 1;
        let began = first_incarnation(next).number();
        ServerProcess { began, incarnation: began, is_new: true }
    }

    /// The data center whose copy a server receives soonest, of those that are `there`. `None` if there is none, or the
    /// model does not support rebuilds.
    pub(crate) fn nearest_to(&self, id: ServerId, there: impl Fn(DcId) -> bool) -> Option<DcId> {
        let bytes = 4 * self.layout(id.shard).parameters() as u64;
        self.plan.copy_source(id.dc, bytes, there)
    }

    /// Begins a process of a server that has been recovered.
    fn begin_server(&mut self, id: ServerId, recovering: RecoveringServer) {
        let logging = self.logging;
        let node = self.server_mut(id);
        let first = first_incarnation(node.host.incarnation);
        let incarnation = recovering.next_incarnation().unwrap_or(first);
        node.machine = recovering.begin(logging, incarnation);

        // A process that crashed before its first write has lost nothing. It continues as if it had just registered.
        node.process = ServerProcess {
            began: node.machine.began().number(),
            incarnation: incarnation.number(),
            is_new: node.host.is_blank && node.machine.is_new(),
        };
        (node.outputs_seen, node.has_reported, node.timeout) = (0, false, None);
        node.has_all = node.machine.server().is_whole();
        node.joining.clear();
        node.parked.clear();
    }

    /// Restarts a crashed node from its disk.
    ///
    /// # Errors
    /// If the node cannot continue from its disk.
    pub(crate) fn restart(
        &mut self,
        node: NodeId,
        fault_injector: &FaultInjector,
    ) -> Result<Back, String> {
        if std::mem::take(&mut self.host(node).blank) {
            self.lose_disk(node).map_err(|error| error.to_string())?;
        }
        let mut found = self.host(node).disk.recover().map_err(|error| error.to_string())?;
        let torn = found.torn;
        let shadow = self.shadow(node);
        fault_injector.on_recovery(node, &mut found);
        let covered = found.checkpoint.as_ref().map_or(0, |(next, _)| *next);

        let records = found.records.iter().filter(|(number, _)| *number >= covered);
        let state = found.checkpoint.as_ref().map(|(_, state)| state.clone());
        let wrong = |error: RecoveryError| error.to_string();
        let state = match node {
            NodeId::Server(id) => {
                let mut recovering = self.fresh_server(id);
                state.map_or(Ok(()), |state| recovering.restore(state)).map_err(wrong)?;
                for (_, body) in records {
                    recovering.replay(body).map_err(wrong)?;
                }
                let state = recovering.state();
                self.begin_server(id, recovering);
                state
            }
            NodeId::Worker(id) => {
                let mut recovering = self.fresh_worker(id);
                state.map_or(Ok(()), |state| recovering.restore(state)).map_err(wrong)?;
                for (_, body) in records {
                    recovering.replay(body).map_err(wrong)?;
                }
                let state = without_leftovers(recovering.state());
                let logging = self.logging;
                let has_lost = self.has_lost_entries(id);
                let node = self.worker_mut(id);
                if has_lost {
                    node.reset_incarnation = node.host.incarnation;
                }
                (node.machine, node.reported_stop) = (recovering.begin(logging), None);
                state
            }
            NodeId::Coordinator => State::default(),
        };

        self.host(node).up = true;
        Ok(Back { replay_pair: ReplayPair { state, shadow }, torn })
    }

    /// Replaces a worker's disk by an empty one, or by one with its last checkpoint.
    fn lose_disk(&mut self, node: NodeId) -> Result<(), RecoveryError> {
        let NodeId::Worker(id) = node else { return Ok(()) };
        let mut shadow = self.fresh_worker(id);
        let worker = self.worker_mut(id);
        if let Some(state) = worker.host.disk.replace() {
            shadow.restore(state)?;
        }
        worker.host.replayed_to = worker.host.disk.next_number();
        (worker.shadow, worker.reset_incarnation) = (shadow, worker.host.incarnation);
        Ok(())
    }

    /// Replays the new records on the disk in the shadow of a node, and returns the shadow's state.
    fn shadow(&mut self, node: NodeId) -> Result<State, RecoveryError> {
        let host = self.host(node);
        let records = match host.disk.read_log() {
            Ok(log) => log.records,
            Err(_) => Vec::new(),
        };
        let replayed_to = host.replayed_to;
        host.replayed_to = host.disk.next_number();
        let new = records.iter().filter(|(number, _)| *number >= replayed_to);

        match node {
            NodeId::Server(id) => {
                let shadow = &mut self.server_mut(id).shadow;
                for (_, body) in new {
                    shadow.replay(body)?;
                }
                Ok(shadow.state())
            }
            NodeId::Worker(id) => {
                let shadow = &mut self.worker_mut(id).shadow;
                for (_, body) in new {
                    shadow.replay(body)?;
                }
                Ok(without_leftovers(shadow.state()))
            }
            NodeId::Coordinator => Ok(State::default()),
        }
    }

    fn fresh_server(&self, id: ServerId) -> RecoveringServer {
        let workers = worker_ids(&self.plan.topology).filter(|worker| worker.dc == id.dc);
        let blueprint = self.odd.filter(|_| id.dc == DcId(0)).unwrap_or(self.blueprint);
        RecoveringServer::new(blueprint.server(id), workers, self.windows[&id].clone())
    }

    fn fresh_worker(&self, id: WorkerId) -> RecoveringWorker {
        RecoveringWorker::new(self.blueprint.worker(id), self.blueprint.layouts().len())
    }
}

/// The first incarnation of a server whose process has this number.
fn first_incarnation(process: u64) -> Incarnation {
    Incarnation(NonZeroU64::MIN.saturating_add(process))
}

/// The state of a worker without the two parts that may differ from the shadow's without harm.
///
/// These are the unacknowledged messages, because servers report what they have received when the worker joins, and the
/// copy of the model, because rows that were not requested keep values of an earlier read.
fn without_leftovers(mut state: State) -> State {
    state.records.remove("unacknowledged");
    state.tensors.remove("worker.model");
    state
}

impl Host {
    fn new(node: NodeId, disks: Seed, plan: u64, disk_bug: Option<DiskBug>) -> Self {
        let name = node.to_string();
        Self {
            up: true,
            incarnation: 0,
            replacing: None,
            writing: false,
            write_due: false,
            inbox: VecDeque::new(),
            disk: Disk::new(name.clone(), plan, disks.child(&name).random(), disk_bug),
            blank: false,
            crash_at_write: None,
            restart_at: Instant::ZERO,
            disk_lost: false,
            is_blank: false,
            room_at: Instant::ZERO,
            clock_off: 0,
            replayed_to: 0,
        }
    }

    /// What the node's clock shows.
    pub(crate) fn shows(&self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_add_signed(self.clock_off))
    }

    /// When the node's clock shows a time.
    pub(crate) fn when(&self, shown: Instant) -> Instant {
        let back = self.clock_off.checked_neg().unwrap_or(i64::MAX);
        Instant::from_nanos(shown.as_nanos().saturating_add_signed(back))
    }
}
