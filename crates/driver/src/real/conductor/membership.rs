//! Which nodes are connected to the coordinator, and what they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{self, timeout};
use tracing::warn;

use crate::real::SILENCE_MAX;
use crate::real::conductor::hearing::{Heard, hear};
use crate::real::connections::acceptor::{Acceptor, ProvenCaller};
use crate::real::connections::channel::Parcel;
use crate::real::connections::message::{Answer, Order, pack};
use crate::real::node::context::RunContext;
use gaia_core::coordinator::{ClusterCoordinator, ServerProcess};
use gaia_core::types::{Instant, NodeId, ServerId, ShardLayout, WorkerId};
use gaia_core::wire::LanKind;

/// The lines of all nodes.
pub(in crate::real) struct Membership {
    run_context: RunContext,
    layouts: Vec<ShardLayout>,
    acceptor: Acceptor,
    lines: BTreeMap<NodeId, NodeConnection>,
    /// Where servers listen.
    listening: BTreeMap<ServerId, String>,
    /// As nodes said of themselves.
    server_processes: BTreeMap<NodeId, ServerProcess>,
    /// When times of absence are zero.
    origin: time::Instant,
    heard: Receiver<Heard>,
    hears: Sender<Heard>,
    /// Connections so far: each has a number.
    connections: u64,
    /// Ends with the membership.
    reading: JoinSet<()>,
    writing: Vec<JoinHandle<()>>,
}

struct NodeConnection {
    connection: u64,
    /// Who has called in the node's place, if another has.
    stand_in: Option<WorkerId>,
    parcels: Sender<Parcel>,
}

/// What can come over lines.
pub(in crate::real) enum MembershipEvent {
    /// A node is on the line, for the first time or again.
    Joined(NodeId),
    Heard(Heard),
}

impl Membership {
    pub(in crate::real) fn new(
        run_context: RunContext,
        layouts: Vec<ShardLayout>,
        acceptor: Acceptor,
    ) -> Self {
        let (hears, heard) = channel(HEARD_MAX);
        Self {
            run_context,
            layouts,
            acceptor,
            lines: BTreeMap::new(),
            listening: BTreeMap::new(),
            server_processes: BTreeMap::new(),
            origin: time::Instant::now(),
            heard,
            hears,
            connections: 0,
            reading: JoinSet::new(),
            writing: Vec::new(),
        }
    }

    /// The next of anything. Dropping the future loses nothing but a caller that is being greeted, who calls again.
    pub(in crate::real) async fn news(
        &mut self,
        coordinator: &mut ClusterCoordinator,
    ) -> MembershipEvent {
        loop {
            tokio::select! {
                biased;
                proven_caller = self.acceptor.proven_caller() => {
                    if let Some(node) = self.admit(coordinator, proven_caller).await {
                        return MembershipEvent::Joined(node);
                    }
                }
                Some(heard) = self.heard.recv() => {
                    // What is left of a connection that another has replaced says nothing of the node.
                    let current = self.lines.get(&heard.node).map(|line| line.connection);
                    if current == Some(heard.connection) {
                        return MembershipEvent::Heard(heard);
                    }
                }
            }
        }
    }

    /// Takes a caller in, in place of a connection that it had before.
    async fn admit(
        &mut self,
        coordinator: &mut ClusterCoordinator,
        proven_caller: ProvenCaller,
    ) -> Option<NodeId> {
        let ProvenCaller { hello, from, mut channel } = proven_caller;
        let (node, stand_in) = (hello.node, hello.stand_in);
        if let (NodeId::Worker(worker), Some(own)) = (node, stand_in)
            && !coordinator.stands_in(own, worker)
        {
            let [own, lost] = [own, worker].map(|id| self.run_context.name(NodeId::Worker(id)));
            channel.put_off(format!("{own} does not stand in for {lost}")).await;
            return None;
        }

        if let NodeId::Server(id) = node {
            let named = self.run_context.plan.deployment.server(id.dc, id.shard.index());
            let address = match (named, hello.listens) {
                (Some(named), _) => named.to_string(),
                // One that listens on every address is reached where it called from.
                (None, Some(at)) if at.ip().is_unspecified() => {
                    SocketAddr::new(from.ip(), at.port()).to_string()
                }
                (None, Some(at)) => at.to_string(),
                (None, None) => {
                    channel.refuse("a server listens somewhere".into()).await;
                    return None;
                }
            };
            self.listening.insert(id, address);
        }

        if let Some(process) = hello.process {
            self.server_processes.insert(node, process);
            if let NodeId::Server(id) = node {
                coordinator.handle_incarnation(id, process.incarnation);
            }
        }

        let answer = match (node, hello.begins) {
            (NodeId::Server(id), Some(process)) => {
                let incarnation = coordinator.assign_incarnation(id, process);
                let number = incarnation.number();
                let process = ServerProcess { began: number, incarnation: number, is_new: true };
                self.server_processes.insert(node, process);
                Answer::Begin { incarnation }
            }
            _ => Answer::Welcome,
        };

        if channel.answer(&answer).await.is_err() {
            return None;
        }
        let (reader, parcels, writing) = channel.start(ORDERS_MAX);
        self.connections += 1;
        let connection = self.connections;
        self.lines.insert(node, NodeConnection { connection, stand_in, parcels });
        coordinator.handle_connected(node);
        self.writing.retain(|writing| !writing.is_finished());
        self.writing.push(writing);

        let copy_bytes_max = match node {
            NodeId::Server(id) => 8 + 4 * self.layouts[id.shard.index()].parameters(),
            _ => 0,
        };
        while self.reading.try_join_next().is_some() {}
        self.reading.spawn(hear(node, connection, reader, copy_bytes_max, self.hears.clone()));

        Some(node)
    }

    /// A node is connected no more. Answers whether it was.
    pub(in crate::real) fn lose(&mut self, node: NodeId, reason: &str) -> bool {
        let was_connected = self.lines.remove(&node).is_some();
        if was_connected {
            warn!("{} is lost: {reason}; it is waited for", self.run_context.name(node));
        }
        was_connected
    }

    /// The connection of a node is closed once the node has heard all that was said.
    pub(in crate::real) fn close(&mut self, node: NodeId) {
        self.lines.remove(&node);
    }

    /// What time it is where absences are measured.
    pub(in crate::real) fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// The workers that are connected themselves.
    pub(in crate::real) fn workers(&self) -> BTreeSet<WorkerId> {
        let here = self.lines.iter().filter(|(_, line)| line.stand_in.is_none());
        let workers = here.filter_map(|(node, _)| match node {
            NodeId::Worker(worker) => Some(*worker),
            _ => None,
        });
        workers.collect()
    }

    /// Whether a node is on the line that is there itself.
    pub(in crate::real) fn has_itself(&self, node: NodeId) -> bool {
        self.lines.get(&node).is_some_and(|line| line.stand_in.is_none())
    }

    /// Whether a node is on the line.
    pub(in crate::real) fn has(&self, node: NodeId) -> bool {
        self.lines.contains_key(&node)
    }

    /// Which process of a node is on the line.
    pub(in crate::real) fn incarnation_of(&self, node: NodeId) -> Option<ServerProcess> {
        self.server_processes.get(&node).copied()
    }

    /// The order that tells of all servers that take part, and of stand-ins.
    pub(in crate::real) fn begin(&self, coordinator: &ClusterCoordinator) -> Order {
        let takes_part = |server: ServerId| coordinator.takes_part(NodeId::Server(server));
        let present = self.listening.iter().filter(|(server, _)| takes_part(**server));
        let servers = present.map(|(id, at)| (*id, at.clone())).collect();
        Order::Begin { servers, stand_ins: coordinator.stand_ins().clone() }
    }

    pub(in crate::real) async fn tell(&self, node: NodeId, order: &Order) {
        self.tell_all(|known| *known == node, order).await;
    }

    pub(in crate::real) async fn tell_all(&self, whom: impl Fn(&NodeId) -> bool, order: &Order) {
        let body = pack(order);
        for (_, line) in self.lines.iter().filter(|(node, _)| whom(node)) {
            // A node that has gone is noticed by who hears its line. One that does not read is, too.
            let said = line.parcels.send((LanKind::Order, body.clone()));
            let _gone = timeout(SILENCE_MAX, said).await;
        }
    }

    /// Sends what is in hand, and closes every line.
    pub(in crate::real) async fn hang_up(&mut self) {
        self.lines.clear();
        for writing in self.writing.drain(..) {
            let _late = timeout(HANG_UP_MAX, writing).await;
        }
    }
}

const HEARD_MAX: usize = 1024;
const ORDERS_MAX: usize = 64;
const HANG_UP_MAX: Duration = Duration::from_secs(2);
