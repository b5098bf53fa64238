//! Who is on the line to the coordinator, and who was lost and is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{self, timeout};
use tracing::warn;

use super::SILENCE_MAX;
use super::acceptor::{Acceptor, ProvenCaller};
use super::channel::Parcel;
use super::context::RunContext;
use super::hearing::{Heard, hear};
use super::incarnations::Incarnations;
use super::message::{Answer, Order, ServerProcess, pack};
use super::stand_ins::StandIns;
use gaia_core::persist;
use gaia_core::types::{DcId, NodeId, ServerId, ShardLayout, WorkerId};
use gaia_core::wire::LanKind;

/// The lines of all nodes.
pub(super) struct Membership {
    run_context: RunContext,
    layouts: Vec<ShardLayout>,
    acceptor: Acceptor,
    lines: BTreeMap<NodeId, NodeConnection>,
    /// Where servers listen.
    listening: BTreeMap<ServerId, String>,
    /// As nodes said of themselves.
    server_processes: BTreeMap<NodeId, ServerProcess>,
    incarnations: Incarnations,
    /// Since when.
    lost: BTreeMap<NodeId, time::Instant>,
    stand_ins: StandIns,
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
pub(super) enum MembershipEvent {
    /// A node is on the line, for the first time or again.
    Joined(NodeId),
    Heard(Heard),
}

impl Membership {
    pub(super) fn new(
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
            incarnations: Incarnations::default(),
            lost: BTreeMap::new(),
            stand_ins: StandIns::default(),
            heard,
            hears,
            connections: 0,
            reading: JoinSet::new(),
            writing: Vec::new(),
        }
    }

    /// The next of anything. Dropping the future loses nothing but a caller that is being greeted, who calls again.
    pub(super) async fn news(&mut self) -> MembershipEvent {
        loop {
            tokio::select! {
                biased;
                proven_caller = self.acceptor.proven_caller() => {
                    if let Some(node) = self.admit(proven_caller).await {
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
    async fn admit(&mut self, proven_caller: ProvenCaller) -> Option<NodeId> {
        let ProvenCaller { hello, from, mut channel } = proven_caller;
        let (node, stand_in) = (hello.node, hello.stand_in);
        if let (NodeId::Worker(worker), Some(own)) = (node, stand_in)
            && self.stand_ins.of(worker) != Some(own)
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
                self.incarnations.note(id, process.incarnation);
            }
        }

        let answer = match (node, hello.begins) {
            (NodeId::Server(id), Some(process)) => {
                let incarnation = self.incarnations.give(id, process);
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
        self.lost.remove(&node);
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

    /// What servers are to begin as that have nothing to go on from.
    pub(super) fn set_incarnations(&mut self, incarnations: Incarnations) {
        self.incarnations = incarnations;
    }

    /// A node is on the line no more.
    pub(super) fn lose(&mut self, node: NodeId, reason: &str) {
        if self.lines.remove(&node).is_some() {
            warn!("{} is lost: {reason}; it is waited for", self.run_context.name(node));
            self.lost.insert(node, time::Instant::now());
        }
    }

    /// A node is not waited for, and its line is closed once it has heard all that was said.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.lines.remove(&node);
        self.lost.remove(&node);
    }

    /// A node that was lost for longer than it is waited for.
    pub(super) fn given_up(&self, after: Duration) -> Option<NodeId> {
        let mut lost = self.lost.iter();
        lost.find(|(_, since)| since.elapsed() > after).map(|(node, _)| *node)
    }

    /// Counts everyone as lost who is not on the line.
    pub(super) fn miss(&mut self, all: impl Iterator<Item = NodeId>) {
        let now = time::Instant::now();
        self.lost.extend(all.filter(|node| !self.lines.contains_key(node)).map(|node| (node, now)));
    }

    /// Workers that have been lost for so long, and nobody stands in for them who is there.
    pub(super) fn to_take_over(&self, after: Duration) -> Vec<WorkerId> {
        let lost = self.lost.iter().filter(|(_, since)| since.elapsed() >= after);
        let lost = lost.filter_map(|(node, _)| match node {
            NodeId::Worker(worker) => Some(*worker),
            _ => None,
        });
        let is_there = |own| self.has_itself(NodeId::Worker(own));
        lost.filter(|worker| !self.stand_ins.of(*worker).is_some_and(is_there)).collect()
    }

    /// Has another worker of its data center stand in for a lost one, if there is one.
    pub(super) fn appoint(&mut self, lost: WorkerId) -> Option<WorkerId> {
        let here = self.lines.iter().filter(|(_, line)| line.stand_in.is_none());
        let here = here.filter_map(|(node, _)| match node {
            NodeId::Worker(id) if id.dc == lost.dc && *id != lost => Some(*id),
            _ => None,
        });
        self.stand_ins.appoint(lost, here)
    }

    /// Who stands in for whom.
    pub(super) fn stand_ins(&self) -> &StandIns {
        &self.stand_ins
    }

    pub(super) fn stand_ins_mut(&mut self) -> &mut StandIns {
        &mut self.stand_ins
    }

    /// Whether a node is on the line that is there itself.
    pub(super) fn has_itself(&self, node: NodeId) -> bool {
        self.lines.get(&node).is_some_and(|line| line.stand_in.is_none())
    }

    /// Whether a node is on the line.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.lines.contains_key(&node)
    }

    /// Which process of a node is on the line.
    pub(super) fn incarnation_of(&self, node: NodeId) -> Option<ServerProcess> {
        self.server_processes.get(&node).copied()
    }

    /// The order that tells of all servers but those that are inactive.
    pub(super) fn begin(&self, inactive: &BTreeSet<DcId>) -> Order {
        let present = self.listening.iter().filter(|(server, _)| !inactive.contains(&server.dc));
        let servers = present.map(|(id, at)| (*id, at.clone())).collect();
        Order::Begin { servers, stand_ins: self.stand_ins.clone() }
    }

    pub(super) async fn tell(&self, node: NodeId, order: &Order) {
        self.tell_all(|known| *known == node, order).await;
    }

    pub(super) async fn tell_all(&self, whom: impl Fn(&NodeId) -> bool, order: &Order) {
        let body = pack(order);
        for (_, line) in self.lines.iter().filter(|(node, _)| whom(node)) {
            // A node that has gone is noticed by who hears its line. One that does not read is, too.
            let said = line.parcels.send((LanKind::Order, body.clone()));
            let _gone = timeout(SILENCE_MAX, said).await;
        }
    }

    /// Sends what is in hand, and closes every line.
    pub(super) async fn hang_up(&mut self) {
        self.lines.clear();
        for writing in self.writing.drain(..) {
            let _late = timeout(HANG_UP_MAX, writing).await;
        }
    }
}

persist! {
    /// What stands of its connections nodes say again.
    impl Persist<()> for Membership {
        fn walk(Self { stand_ins, .. }, walk, ()) {
            walk.record("stand_ins", stand_ins)
        }
    }
}

const HEARD_MAX: usize = 1024;
const ORDERS_MAX: usize = 64;
const HANG_UP_MAX: Duration = Duration::from_secs(2);
