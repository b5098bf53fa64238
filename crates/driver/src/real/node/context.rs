//! What every node of a run has: the plan, the names of nodes, and its credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::blocking::in_place;
use crate::cluster::{Blueprint, server_ids, worker_ids};
use crate::real::connections::channel::Channel;
use crate::real::connections::message::{Hello, Purpose};
use crate::real::connections::throttle::{LeftOut, LogThrottle};
use crate::real::environment::{Environment, Machine};
use crate::real::error::{LinkFault, RealError};
use crate::real::node::peers::peers;
use crate::real::node::reminder::Reminder;
use crate::table_digests::TableDigests;
use gaia_certificates::{Credentials, Identity, connecting, date, identity_of};
use gaia_config::Plan;
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, WorkerId};
use gaia_telemetry::{NodeMeter, Telemetry};

/// The run, as one process has it.
#[derive(Clone, Debug)]
pub(in crate::real) struct RunContext {
    pub(in crate::real) plan: Arc<Plan>,
    /// The hash of the settings that all nodes must have resolved alike.
    pub(in crate::real) settings: u64,
    /// The hash of what all nodes must share, the model too. Unknown until the application is built.
    plan_hash: Arc<OnceLock<u64>>,
    /// The tables behind that hash. Unknown until the application is built.
    tables: Arc<OnceLock<TableDigests>>,
    /// The folder with a folder of `gaia certs` for each node.
    certificates: PathBuf,
    pub(in crate::real) telemetry: Telemetry,
    pub(in crate::real) environment: Arc<dyn Environment>,
}

/// One node in a run.
#[derive(Clone, Debug)]
pub(in crate::real) struct NodeContext {
    pub(in crate::real) run_context: RunContext,
    pub(in crate::real) node: NodeId,
    /// The worker that stands in for the node, if one does.
    stand_in: Option<WorkerId>,
    /// A random number that distinguishes this process from others of the same node.
    instance: u64,
    pub(in crate::real) credentials: Credentials,
    pub(in crate::real) meter: NodeMeter,
    peer_lines: Arc<PeerLines>,
    /// Ends with the last clone.
    _watching: Arc<JoinSet<()>>,
}

/// By peer, the lines about its connections: a peer reconnects as often as it likes.
#[derive(Debug, Default)]
struct PeerLines(Mutex<BTreeMap<NodeId, LogThrottle>>);

impl PeerLines {
    /// As [`LogThrottle::pass`], for the lines about one peer.
    fn pass(&self, peer: NodeId) -> Option<LeftOut> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.entry(peer).or_default().pass()
    }
}

impl RunContext {
    pub(in crate::real) fn new(plan: &Plan, certificates: &Path) -> Self {
        Self {
            plan: Arc::new(plan.clone()),
            settings: plan.seed.child(&plan.agreement()).0,
            plan_hash: Arc::default(),
            tables: Arc::default(),
            certificates: certificates.to_owned(),
            telemetry: Telemetry::new(),
            environment: Arc::new(Machine),
        }
    }

    /// The same run with the remote model that it has chosen. Its settings are compared as they were before.
    #[must_use]
    pub(in crate::real) fn with_plan(&self, plan: &Plan) -> Self {
        Self { plan: Arc::new(plan.clone()), ..self.clone() }
    }

    /// Sets what all nodes must share. Has an effect once.
    pub(in crate::real) fn agree_on(&self, blueprint: &Blueprint<'_>) {
        self.tables.get_or_init(|| blueprint.table_digests());
        self.set_plan_hash(blueprint.plan_hash);
    }

    /// Sets the hash of what all nodes must share. Has an effect once.
    pub(in crate::real) fn set_plan_hash(&self, plan_hash: u64) {
        self.plan_hash.get_or_init(|| plan_hash);
    }

    /// Whether the application is built.
    pub(in crate::real) fn has_plan_hash(&self) -> bool {
        self.plan_hash.get().is_some()
    }

    /// The context of a node. Finds its certificate in its folder in the directory, or in the directory itself.
    pub(in crate::real) fn node_context(&self, node: NodeId) -> Result<NodeContext, RealError> {
        let expected = self.identity(node);
        let own = self.certificates.join("nodes").join(expected.folder());
        let folder = if own.is_dir() { own } else { self.certificates.clone() };
        let credentials = Credentials::load(&folder)?;
        if *credentials.identity() != expected {
            let (found, expected) = (credentials.identity().to_string(), expected.to_string());
            return Err(RealError::NotThisNode { found, expected });
        }
        let meter = self.meter(node);
        let mut watching = JoinSet::new();
        watching.spawn(watch_trust(credentials.clone(), folder, self.name(node)));
        Ok(NodeContext {
            run_context: self.clone(),
            node,
            stand_in: None,
            instance: self.environment.random()?,
            peer_lines: Arc::default(),
            credentials,
            meter,
            _watching: Arc::new(watching),
        })
    }

    /// What both ends of a connection must share.
    fn hash_for(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Agree => self.settings,
            Purpose::Join | Purpose::Check => {
                self.plan_hash.get().copied().unwrap_or(self.settings)
            }
        }
    }

    fn meter(&self, node: NodeId) -> NodeMeter {
        let peers = peers(&self.plan.topology, node);
        let peers = peers.into_iter().map(|(peer, kind)| (self.label(peer), kind)).collect();
        self.telemetry.node(&self.label(node), &self.plan.name, peers)
    }

    pub(in crate::real) fn identity(&self, node: NodeId) -> Identity {
        identity(&self.plan, node)
    }

    /// The display name of a node.
    pub(in crate::real) fn name(&self, node: NodeId) -> String {
        let topology = &self.plan.topology;
        match node {
            NodeId::Coordinator => "the coordinator".into(),
            NodeId::Server(id) => format!("server {} of {}", id.shard.0, topology.dc(id.dc).name),
            NodeId::Worker(id) => format!("worker {} of {}", id.index, topology.dc(id.dc).name),
        }
    }

    /// The name of a node in metrics and logs, which is that of its folder of certificates.
    pub(in crate::real) fn label(&self, node: NodeId) -> String {
        self.identity(node).folder()
    }

    /// Whether the connection between two nodes uses TLS. Between data centers it always does.
    pub(in crate::real) fn speaks_tls(&self, one: NodeId, other: NodeId) -> bool {
        let inside = matches!((one, other), (NodeId::Server(server), NodeId::Worker(worker))
            | (NodeId::Worker(worker), NodeId::Server(server)) if server.dc == worker.dc);
        self.plan.deployment.lan_tls || !inside
    }
}

impl NodeContext {
    /// The context of a lost worker, for the worker of this context to stand in for it.
    pub(in crate::real) fn in_place_of(&self, lost: WorkerId) -> Self {
        let NodeId::Worker(own) = self.node else { unreachable!("workers stand in for workers") };
        let node = NodeId::Worker(lost);
        Self { node, stand_in: Some(own), meter: self.run_context.meter(node), ..self.clone() }
    }

    pub(in crate::real) fn name(&self) -> String {
        let name = self.run_context.name(self.node);
        match self.stand_in {
            Some(own) => format!("{} for {name}", self.run_context.name(NodeId::Worker(own))),
            None => name,
        }
    }

    /// Records that a peer of this node is connected.
    pub(in crate::real) fn on_connected(&self, peer: NodeId) {
        if let Some(left_out) = self.peer_lines.pass(peer) {
            info!("{} is connected to {}{left_out}", self.name(), self.run_context.name(peer));
        }
        self.meter.on_connected(&self.run_context.label(peer));
    }

    /// Records that a peer of this node is disconnected.
    pub(in crate::real) fn on_lost(&self, peer: NodeId) {
        if let Some(left_out) = self.peer_lines.pass(peer) {
            info!("{} is disconnected from {}{left_out}", self.name(), self.run_context.name(peer));
        }
        self.meter.on_lost(&self.run_context.label(peer));
    }

    pub(in crate::real) fn hello(&self, purpose: Purpose) -> Hello {
        Hello {
            run: self.run_context.plan.name.clone(),
            node: self.node,
            plan: self.run_context.hash_for(purpose),
            tables: self.run_context.tables.get().map_or_else(Vec::new, |own| own.digests().into()),
            purpose,
            listens: None,
            process: None,
            instance: self.instance,
            begins: false,
            next_requests: None,
            stand_in: self.stand_in,
        }
    }

    /// Tries once to connect to another node over TCP.
    pub(in crate::real) async fn dial(
        &self,
        to: NodeId,
        address: &Address,
        hello: &Hello,
    ) -> Result<Channel, LinkFault> {
        let expected = self.run_context.identity(to);
        let tls = self.run_context.speaks_tls(self.node, to);
        let tls = tls.then(|| connecting(&self.credentials, &expected));
        let environment = &*self.run_context.environment;
        let channel = Channel::dial(environment, address, tls, hello).await;
        let channel = channel.map_err(|fault| self.explained(fault, environment.since_epoch()))?;
        Ok(channel.held_to(&self.credentials))
    }

    /// The fault of a refused certificate of this node, with its reason if that is that it has expired. `now` is since 1970.
    fn explained(&self, fault: LinkFault, now: Duration) -> LinkFault {
        let LinkFault::OwnRefused(_) = &fault else { return fault };
        match self.credentials.validity() {
            Ok(own) if own.not_after < UnixTime::since_unix_epoch(now) => {
                LinkFault::Expired(format!(
                    "that of this node expired at {}: renew it and start this node again",
                    date(own.not_after)
                ))
            }
            _ => fault,
        }
    }

    /// Connects to another node over TCP. Retries while that node may still be starting.
    pub(in crate::real) async fn join(
        &self,
        to: NodeId,
        address: &Address,
        hello: &Hello,
    ) -> Result<Channel, RealError> {
        let patience = Patience::new(self.run_context.name(to), false);
        self.join_with(patience, to, address, hello).await
    }

    /// As [`Self::join`], for a node that has been connected to the other one. A certificate that has expired since does not
    /// end it: the other one may get a new one, and this one trains on meanwhile.
    pub(in crate::real) async fn join_again(
        &self,
        to: NodeId,
        address: &Address,
        hello: &Hello,
    ) -> Result<Channel, RealError> {
        let patience = Patience::new(self.run_context.name(to), false).after_joining();
        self.join_with(patience, to, address, hello).await
    }

    async fn join_with(
        &self,
        mut patience: Patience,
        to: NodeId,
        address: &Address,
        hello: &Hello,
    ) -> Result<Channel, RealError> {
        loop {
            match self.dial(to, address, hello).await {
                Ok(channel) => return Ok(channel),
                Err(fault) => patience.wait(address, fault).await?,
            }
        }
    }

    /// Checks that a caller has the identity that it claims, and belongs to this run.
    pub(in crate::real) fn believe(
        &self,
        hello: &Hello,
        chain: Option<&[rustls::pki_types::CertificateDer<'static>]>,
    ) -> Result<(), String> {
        let run_context = &self.run_context;
        if let Some(chain) = chain {
            let proven = identity_of(chain).map_err(|refusal| refusal.to_string())?;
            let claimed = run_context.identity(hello.stand_in.map_or(hello.node, NodeId::Worker));
            if proven != claimed {
                return Err(format!(
                    "the certificate is for {proven}, expected {claimed} as in the hello"
                ));
            }
        }
        let own = &run_context.plan.name;
        if hello.run != *own {
            return Err(format!("the hello is for run `{}`, expected `{own}`", hello.run));
        }
        if hello.purpose == Purpose::Join && !run_context.has_plan_hash() {
            // Nothing to compare it with yet.
            return Ok(());
        }
        let ours = run_context.hash_for(hello.purpose);
        // A node without the data of others can check no more than its settings.
        let is_checked = hello.purpose == Purpose::Check && hello.plan == run_context.settings;
        if hello.plan != ours && !is_checked {
            let theirs = hello.plan;
            let own = run_context.tables.get().filter(|_| !hello.tables.is_empty());
            let differs = own.and_then(|own| own.difference(&hello.tables));
            let differs = differs.map_or_else(String::new, |differs| format!("{differs}; "));
            return Err(format!(
                "the hello has plan {theirs:016x}, expected {ours:016x}: {differs}start all nodes with the same run file, \
                 topology and settings, and the same initial values of the model"
            ));
        }
        Ok(())
    }
}

/// Checks regularly whether the trusted certificates have changed, so that connections to a removed node are closed.
async fn watch_trust(credentials: Credentials, folder: PathBuf, name: String) {
    let mut complained = String::new();
    loop {
        sleep(TRUST_READ_EVERY).await;
        match in_place(|| credentials.reload(&folder)) {
            Ok(true) => info!("{name} has reloaded its trusted certificates"),
            Ok(false) => {}
            Err(error) => {
                let complaint = error.to_string();
                if complaint != complained {
                    warn!(
                        "{name} cannot reload its trusted certificates and keeps the previous ones: {complaint}"
                    );
                    complained = complaint;
                }
            }
        }
    }
}

/// All nodes of a run except the coordinator.
pub(in crate::real) fn nodes(run_context: &RunContext) -> impl Iterator<Item = NodeId> + '_ {
    let topology = &run_context.plan.topology;
    server_ids(topology).map(NodeId::Server).chain(worker_ids(topology).map(NodeId::Worker))
}

/// The identity in a node's certificate. The coordinator's names the first data center of the topology.
pub(in crate::real) fn identity(plan: &Plan, node: NodeId) -> Identity {
    let (run, topology) = (&plan.name, &plan.topology);
    match node {
        NodeId::Coordinator => Identity::coordinator(run, &topology.data_centers[0].name),
        NodeId::Server(id) => Identity::server(run, &topology.dc(id.dc).name, id.shard.0),
        NodeId::Worker(id) => Identity::worker(run, &topology.dc(id.dc).name, id.index),
    }
}

/// Waits between attempts to reach a node, and logs after some seconds which one it waits for.
pub(in crate::real) struct Patience {
    node: String,
    /// Whether the node was reached before, so that all errors may be temporary.
    endless: bool,
    /// Whether expired certificates may be temporary, because they were valid before.
    has_joined: bool,
    pause: Duration,
    pause_max: Duration,
    reminder: Reminder,
}

impl Patience {
    pub(in crate::real) fn new(node: String, endless: bool) -> Self {
        let reminder = Reminder::new();
        let (pause, pause_max, has_joined) = (PAUSE_MIN, PAUSE_MAX, false);
        Self { node, endless, has_joined, pause, pause_max, reminder }
    }

    /// For a node that has been connected to the other one.
    fn after_joining(self) -> Self {
        Self { has_joined: true, ..self }
    }

    /// Sets the longest pause between two attempts.
    pub(in crate::real) fn at_most(self, pause_max: Duration) -> Self {
        Self { pause_max, ..self }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// If the error is permanent.
    pub(in crate::real) async fn wait(
        &mut self,
        address: &Address,
        fault: LinkFault,
    ) -> Result<(), RealError> {
        let node = &self.node;
        let is_renewable = self.has_joined && matches!(fault, LinkFault::Expired(_));
        if !self.endless && !is_renewable && !fault.may_pass() {
            let (node, address) = (node.clone(), address.to_string());
            return Err(RealError::Unreachable { node, address, fault });
        }
        self.reminder.remind(&format!("waiting for {node} at {address}: {fault}"));
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(self.pause_max);
        Ok(())
    }
}

/// Reading a file of a few kilobytes is cheap.
const TRUST_READ_EVERY: Duration = Duration::from_secs(1);

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::real::connections::acceptor::{Acceptor, listen};
    use crate::real::test_run::{Stage, plan};
    use gaia_certificates::Directory;
    use gaia_core::types::DcId;

    const WORKER: WorkerId = WorkerId { dc: DcId(0), index: 0 };

    fn address() -> Address {
        Address { host: "a".into(), port: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_expires_during_a_run_is_waited_for_and_a_revoked_one_is_not() {
        let check = async |patience: Patience, fault: LinkFault, waits: bool| {
            let mut patience = patience;
            let waited = patience.wait(&address(), fault.clone()).await;
            assert_eq!(waited.is_ok(), waits, "{fault}: {waited:?}");
        };
        let first = || Patience::new("the coordinator".into(), false);
        let expired = || LinkFault::Expired("expired".into());
        check(first(), expired(), false).await;
        check(first().after_joining(), expired(), true).await;
        check(first().after_joining(), LinkFault::Certificate("unknown".into()), false).await;
        check(first().after_joining(), LinkFault::OwnRefused("revoked".into()), false).await;
        check(first().after_joining(), LinkFault::Refused("another run".into()), false).await;
    }

    #[tokio::test]
    async fn a_node_knows_that_its_refused_certificate_has_expired() {
        let stage = Stage::new(plan()).await;
        let worker = stage.worker(WORKER);
        let refused = || LinkFault::OwnRefused("CertificateUnknown".into());
        let expires = worker.credentials.validity().unwrap().not_after.as_secs();
        let explained = |now| worker.explained(refused(), Duration::from_secs(now));
        assert_eq!(explained(expires), refused());
        let expired = explained(expires + 1);
        assert!(matches!(&expired, LinkFault::Expired(said) if said.contains("renew it")));
        assert_eq!(expired.to_string().matches("certificate").count(), 1, "{expired}");
    }

    #[tokio::test]
    async fn a_coordinator_with_an_expired_certificate_is_told_from_one_without_a_right_one() {
        let plan = plan();
        let folder = TempDir::new().unwrap();
        let run_context = RunContext::new(&plan, folder.path());
        run_context.set_plan_hash(1);
        let two = [NodeId::Coordinator, NodeId::Worker(WORKER)];
        let two = two.map(|node| run_context.identity(node));
        let yesterday = UnixTime::now().as_secs() - 86_400;
        let yesterday = UnixTime::since_unix_epoch(Duration::from_secs(yesterday));
        let hour = Duration::from_secs(3_600);
        Directory::issue_once(folder.path(), &plan.name, &two, yesterday, hour).unwrap();

        let coordinator = run_context.node_context(NodeId::Coordinator).unwrap();
        let listener = listen(&*run_context.environment, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let at: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let _acceptor = Acceptor::open(&coordinator, listener, nodes(&run_context).collect(), None);

        let worker = run_context.node_context(NodeId::Worker(WORKER)).unwrap();
        let hello = worker.hello(Purpose::Join);
        let fault = worker.dial(NodeId::Coordinator, &at, &hello).await.err().unwrap();
        assert!(matches!(fault, LinkFault::Expired(_)), "{fault}");
        let stranger = Stage::new(plan.clone()).await;
        let fault = worker.dial(NodeId::Coordinator, &stranger.coordinator, &hello).await;
        let fault = fault.err().unwrap();
        assert!(matches!(fault, LinkFault::Certificate(_)), "{fault}");
    }
}
