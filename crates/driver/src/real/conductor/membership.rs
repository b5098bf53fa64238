//! The connections of nodes to the coordinator, and the messages on them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{self, timeout};
use tracing::warn;

use crate::real::SILENCE_MAX;
use crate::real::conductor::instances::Instances;
use crate::real::conductor::receiving::{Received, receive};
use crate::real::connections::acceptor::{Acceptor, ProvenCaller};
use crate::real::connections::channel::{Channel, Parcel};
use crate::real::connections::message::{Answer, Hello, Order, pack};
use crate::real::connections::throttle::{LeftOut, LogThrottle};
use crate::real::node::context::RunContext;
use gaia_core::coordinator::{ClusterCoordinator, ServerProcess};
use gaia_core::types::{Instant, NodeId, ServerId, ShardLayout, WorkerId};
use gaia_core::wire::LanKind;

/// The connections of all nodes.
pub(in crate::real) struct Membership {
    run_context: RunContext,
    layouts: Vec<ShardLayout>,
    acceptor: Acceptor,
    lines: BTreeMap<NodeId, NodeConnection>,
    /// The addresses of servers.
    listening: BTreeMap<ServerId, String>,
    /// As reported by the nodes.
    server_processes: BTreeMap<NodeId, ServerProcess>,
    instances: Instances,
    /// Of nodes that run twice.
    twin_lines: LogThrottle,
    /// Of lost connections, by node: a node reconnects as often as it likes.
    lost_lines: BTreeMap<NodeId, LogThrottle>,
    /// Servers without a copy that wait until another has its copy, and since when.
    waiting: BTreeMap<ServerId, time::Instant>,
    /// The zero of [`Self::now`].
    origin: time::Instant,
    received: Receiver<Received>,
    received_sender: Sender<Received>,
    /// The number of connections so far. Each connection has a number.
    connections: u64,
    /// Ends with this value.
    reading: JoinSet<()>,
    writing: Vec<JoinHandle<()>>,
}

struct NodeConnection {
    connection: u64,
    /// The worker that stands in for the node, if one does.
    stand_in: Option<WorkerId>,
    parcels: Sender<Parcel>,
    reading: AbortHandle,
}

/// An event on the connections.
pub(in crate::real) enum MembershipEvent {
    /// A node has connected or reconnected.
    Joined(NodeId),
    Received(Received),
    /// A server has lost its copy while another server takes that copy from it, and no other is complete.
    CopyLost {
        server: ServerId,
        other: ServerId,
    },
}

impl Membership {
    pub(in crate::real) fn new(
        run_context: RunContext,
        layouts: Vec<ShardLayout>,
        acceptor: Acceptor,
    ) -> Self {
        let (received_sender, received) = channel(RECEIVED_MAX);
        Self {
            run_context,
            layouts,
            acceptor,
            lines: BTreeMap::new(),
            listening: BTreeMap::new(),
            server_processes: BTreeMap::new(),
            instances: Instances::default(),
            twin_lines: LogThrottle::default(),
            lost_lines: BTreeMap::new(),
            waiting: BTreeMap::new(),
            origin: time::Instant::now(),
            received,
            received_sender,
            connections: 0,
            reading: JoinSet::new(),
            writing: Vec::new(),
        }
    }

    /// The next event. If the future is dropped, only a handshake in progress is lost, and its node reconnects.
    pub(in crate::real) async fn next_event(
        &mut self,
        coordinator: &mut ClusterCoordinator,
    ) -> MembershipEvent {
        loop {
            tokio::select! {
                biased;
                proven_caller = self.acceptor.proven_caller() => {
                    if let Some(event) = self.admit(coordinator, proven_caller).await {
                        return event;
                    }
                }
                Some(received) = self.received.recv() => {
                    // Messages of a connection that was replaced do not concern the node.
                    let current = self.lines.get(&received.node).map(|line| line.connection);
                    if current == Some(received.connection) {
                        return MembershipEvent::Received(received);
                    }
                }
            }
        }
    }

    /// Admits an authenticated node. Its connection replaces the one before.
    async fn admit(
        &mut self,
        coordinator: &mut ClusterCoordinator,
        proven_caller: ProvenCaller,
    ) -> Option<MembershipEvent> {
        let ProvenCaller { hello, from, mut channel } = proven_caller;
        let (node, stand_in) = (hello.node, hello.stand_in);
        let address = match self.check(coordinator, &hello, from) {
            Ok(address) => address,
            Err(answer) => {
                channel.dismiss(&answer).await;
                return None;
            }
        };

        let (process, answer) = process_of(coordinator, &hello);
        if let (NodeId::Server(id), Some(process)) = (node, process)
            && let Some((other, from)) = coordinator.must_wait_for(id, process)
        {
            channel.put_off(self.wait_reason(id, other)).await;
            let is_lost = from == id.dc && self.has_waited_for(id, other);
            return is_lost.then_some(MembershipEvent::CopyLost { server: id, other });
        }

        if channel.answer(&answer).await.is_err() {
            return None;
        }
        if let Some(process) = process {
            self.server_processes.insert(node, process);
        }
        if let (NodeId::Server(id), Some(address)) = (node, address) {
            self.listening.insert(id, address);
            self.waiting.remove(&id);
        }
        self.connect(node, stand_in, channel);
        coordinator.handle_connected(node);
        Some(MembershipEvent::Joined(node))
    }

    /// Checks who connects. Returns the address at which a server is reached, or the answer that refuses the node.
    fn check(
        &mut self,
        coordinator: &ClusterCoordinator,
        hello: &Hello,
        from: SocketAddr,
    ) -> Result<Option<String>, Answer> {
        if let (NodeId::Worker(worker), Some(own)) = (hello.node, hello.stand_in) {
            if coordinator.stands_in(own, worker) {
                return Ok(None);
            }
            let [own, lost] = [own, worker].map(|id| self.run_context.name(NodeId::Worker(id)));
            return Err(Answer::Later { reason: format!("{own} does not stand in for {lost}") });
        }

        let is_outdated = match (hello.node, hello.process) {
            (NodeId::Server(id), Some(process)) => coordinator.is_outdated(id, process),
            _ => false,
        };
        if is_outdated || !self.instances.admit(hello.node, hello.instance) {
            let name = self.run_context.name(hello.node);
            // The earlier process calls again as often as it likes.
            if let Some(left_out) = self.twin_lines.pass() {
                warn!("{name} runs twice: the earlier process, at {from}, is refused{left_out}");
            }
            let reason = format!("a later process of {name} takes part, expected only one");
            return Err(Answer::Refused { reason });
        }

        let NodeId::Server(id) = hello.node else { return Ok(None) };
        let address = self.address_of(id, hello.listens, from);
        let reason = "the hello has no address, expected that of the server";
        address.map(Some).ok_or_else(|| Answer::Refused { reason: reason.into() })
    }

    /// Why a server without a copy must wait until another has its copy. Logged once.
    fn wait_reason(&mut self, id: ServerId, other: ServerId) -> String {
        let [own, other] = [id, other].map(|id| self.run_context.name(NodeId::Server(id)));
        self.waiting.entry(id).or_insert_with(|| {
            warn!("{own} has lost its copy, and waits until that of {other} is complete");
            time::Instant::now()
        });
        format!("the copy of {other} is not complete; {own} takes one after that")
    }

    /// Whether a server has waited for so long for the copy of another that is connected that a report of the other's
    /// would have arrived.
    fn has_waited_for(&self, id: ServerId, other: ServerId) -> bool {
        let since = self.waiting.get(&id);
        self.has(NodeId::Server(other)) && since.is_some_and(|since| since.elapsed() > SILENCE_MAX)
    }

    /// The address at which a server that connects is reached. `None` if it listens nowhere.
    fn address_of(
        &self,
        id: ServerId,
        listens: Option<SocketAddr>,
        from: SocketAddr,
    ) -> Option<String> {
        let named = self.run_context.plan.deployment.server(id.dc, id.shard.index());
        match (named, listens) {
            (Some(named), _) => Some(named.to_string()),
            (None, at) => at.map(|at| reached_at(at, from).to_string()),
        }
    }

    /// Starts to exchange messages with a node over a connection, which replaces the one before.
    fn connect(&mut self, node: NodeId, stand_in: Option<WorkerId>, channel: Channel) {
        let (reader, parcels, writing) = channel.start(ORDERS_MAX);
        self.connections += 1;
        let connection = self.connections;
        self.writing.retain(|writing| !writing.is_finished());
        self.writing.push(writing);

        let copy_bytes_max = match node {
            NodeId::Server(id) => 8 + 4 * self.layouts[id.shard.index()].parameters(),
            _ => 0,
        };
        while self.reading.try_join_next().is_some() {}
        let reading = self.reading.spawn(receive(
            node,
            connection,
            reader,
            copy_bytes_max,
            self.received_sender.clone(),
        ));

        let line = NodeConnection { connection, stand_in, parcels, reading };
        if let Some(before) = self.lines.insert(node, line) {
            before.reading.abort();
        }
    }

    /// Closes the connection of a node that is lost, or has sent what it may not. Returns whether it was connected.
    pub(in crate::real) fn lose(&mut self, node: NodeId, reason: &str) -> bool {
        let Some(line) = self.lines.remove(&node) else { return false };
        line.reading.abort();
        if let Some(left_out) = self.pass_line(node) {
            let name = self.run_context.name(node);
            warn!("{name} is lost: {reason}; the run waits for it{left_out}");
        }
        true
    }

    /// Whether a line about a lost connection of a node may be written. If so, returns how many were left out before it.
    pub(in crate::real) fn pass_line(&mut self, node: NodeId) -> Option<LeftOut> {
        self.lost_lines.entry(node).or_default().pass()
    }

    /// Closes the connection of a node once all messages are sent.
    pub(in crate::real) fn close(&mut self, node: NodeId) {
        self.lines.remove(&node);
    }

    /// The time on the clock that measures absences.
    pub(in crate::real) fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// The workers that are connected themselves, without a stand-in.
    pub(in crate::real) fn workers(&self) -> BTreeSet<WorkerId> {
        let here = self.lines.iter().filter(|(_, line)| line.stand_in.is_none());
        let workers = here.filter_map(|(node, _)| match node {
            NodeId::Worker(worker) => Some(*worker),
            _ => None,
        });
        workers.collect()
    }

    /// Whether a node is connected itself, without a stand-in.
    pub(in crate::real) fn has_itself(&self, node: NodeId) -> bool {
        self.lines.get(&node).is_some_and(|line| line.stand_in.is_none())
    }

    /// Whether a node is connected.
    pub(in crate::real) fn has(&self, node: NodeId) -> bool {
        self.lines.contains_key(&node)
    }

    /// The process of a node that is connected.
    pub(in crate::real) fn incarnation_of(&self, node: NodeId) -> Option<ServerProcess> {
        self.server_processes.get(&node).copied()
    }

    /// The order with the addresses of all servers that take part, and the stand-ins.
    pub(in crate::real) fn begin(&self, coordinator: &ClusterCoordinator) -> Order {
        let takes_part = |server: ServerId| coordinator.takes_part(NodeId::Server(server));
        let present = self.listening.iter().filter(|(server, _)| takes_part(**server));
        let servers = present.map(|(id, at)| (*id, at.clone())).collect();
        Order::Begin { servers, stand_ins: coordinator.stand_ins().clone() }
    }

    pub(in crate::real) async fn send(&self, node: NodeId, order: &Order) {
        self.send_all(|known| *known == node, order).await;
    }

    pub(in crate::real) async fn send_all(&self, whom: impl Fn(&NodeId) -> bool, order: &Order) {
        let body = pack(order);
        for (_, line) in self.lines.iter().filter(|(node, _)| whom(node)) {
            // The reader of a connection detects that its node is gone, also if the node does not read.
            let said = line.parcels.send((LanKind::Order, body.clone().into()));
            let _gone = timeout(SILENCE_MAX, said).await;
        }
    }

    /// Sends all queued messages, and closes all connections.
    pub(in crate::real) async fn close_all(&mut self) {
        self.lines.clear();
        for writing in self.writing.drain(..) {
            let _late = timeout(HANG_UP_MAX, writing).await;
        }
    }
}

/// Where a server is reached that listens at an address and has connected from another: if it listens on all addresses, at the
/// one that it has connected from.
fn reached_at(listens: SocketAddr, from: SocketAddr) -> SocketAddr {
    match listens.ip().is_unspecified() {
        // A listener for both families has IPv4 addresses in the form of IPv6, which sockets of IPv4 cannot reach.
        true => SocketAddr::new(from.ip().to_canonical(), listens.port()),
        false => listens,
    }
}

/// The process of a node that connects, and the answer to it: its incarnation, if it is a server that begins.
fn process_of(
    coordinator: &mut ClusterCoordinator,
    hello: &Hello,
) -> (Option<ServerProcess>, Answer) {
    if let (NodeId::Server(id), Some(process)) = (hello.node, hello.process) {
        coordinator.handle_incarnation(id, process.incarnation);
    }
    match hello.node {
        NodeId::Server(id) if hello.begins => {
            let incarnation = coordinator.assign_incarnation(id, hello.instance);
            let number = incarnation.number();
            let process = ServerProcess { began: number, incarnation: number, is_new: true };
            (Some(process), Answer::Begin { incarnation })
        }
        _ => (hello.process, Answer::Welcome),
    }
}

const RECEIVED_MAX: usize = 1024;
const ORDERS_MAX: usize = 64;
const HANG_UP_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::sync::Arc;

    use super::*;
    use crate::cluster::Blueprint;
    use crate::real::connections::acceptor::listen;
    use crate::real::connections::message::Purpose;
    use crate::real::local::issue;
    use crate::real::node::context::nodes;
    use crate::real::test_run;
    use gaia_core::coordinator::FailureRules;
    use gaia_core::types::DcId;

    const WORKER: NodeId = NodeId::Worker(WorkerId { dc: DcId(0), index: 0 });

    #[test]
    fn a_server_that_listens_on_all_addresses_is_reached_where_it_has_connected_from() {
        let check = |listens: &str, from: &str, expected: &str| {
            let found = reached_at(listens.parse().unwrap(), from.parse().unwrap());
            assert_eq!(found.to_string(), expected, "{listens}, {from}");
        };
        check("0.0.0.0:7", "10.0.0.1:9", "10.0.0.1:7");
        check("[::]:7", "[2001:db8::1]:9", "[2001:db8::1]:7");
        // The coordinator listens for both families.
        check("0.0.0.0:7", "[::ffff:10.0.0.1]:9", "10.0.0.1:7");
        check("10.0.0.2:7", "10.0.0.1:9", "10.0.0.2:7");
    }

    #[tokio::test]
    async fn a_node_that_runs_twice_is_named_and_does_not_fill_the_log() {
        let plan = test_run::plan();
        let application = test_run::application(&plan);
        let blueprint = Blueprint::new(&plan, &application);
        let folder = tempfile::tempdir().unwrap();
        let certificates = folder.path().join("certs");
        let run_context = RunContext::new(&plan, &certificates);
        issue(&run_context, &certificates).unwrap();

        let listener = listen(&*run_context.environment, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let context = run_context.node_context(NodeId::Coordinator).unwrap();
        let acceptor = Acceptor::open(&context, listener, nodes(&run_context).collect(), None);
        let rules = FailureRules {
            give_up_after: Duration::MAX,
            may_leave: false,
            take_over_after: None,
            deltas_are_counts: false,
        };
        let coordinator = ClusterCoordinator::new(blueprint.coordinator(), rules);
        let layouts = blueprint.layouts().to_vec();
        let mut membership = Membership::new(run_context.clone(), layouts, acceptor);

        let hello = run_context.node_context(WORKER).unwrap().hello(Purpose::Join);
        let later = Hello { instance: hello.instance.wrapping_add(1), ..hello.clone() };
        let from = ([10, 0, 0, 1], 1).into();
        let mut call = |hello: &Hello| membership.check(&coordinator, hello, from).map(drop);
        assert_eq!((call(&hello), call(&later)), (Ok(()), Ok(())));

        let log = folder.path().join("log");
        let subscriber =
            tracing_subscriber::fmt().with_writer(Arc::new(File::create(&log).unwrap())).finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..1000 {
                let Err(Answer::Refused { reason }) = call(&hello) else { panic!("it runs twice") };
                assert!(reason.contains("expected only one"), "{reason}");
            }
        });

        let logged = fs::read_to_string(&log).unwrap();
        let lines = logged.lines().filter(|line| line.contains("worker 0 of a runs twice")).count();
        assert!((1..100).contains(&lines), "{lines} lines:\n{logged}");
    }
}
