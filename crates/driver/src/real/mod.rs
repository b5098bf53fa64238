//! The cluster as processes: one for each node, on as many machines as there are.
//!
//! This room decides how nodes find each other and how their messages travel: between data centers QUIC over UDP, one
//! connection for each pair of mirrors; inside a data center, and to the coordinator, TCP. Every connection is mutual
//! TLS 1.3 with certificates of the run, but for the LAN where the topology says otherwise. A worker and a server
//! in one process hand each other values. It does not know what is in a message beyond its bounds: what arrives is
//! decoded against the layout of the shard before a node hears of it.
//!
//! **How a run comes together.** Each node calls the coordinator and says where it listens; it waits for the
//! coordinator as long as that takes. Once all are there, the coordinator tells everyone where servers listen, servers
//! meet their mirrors and workers their servers, and training begins. So nodes start in any order.
//!
//! **What is lost and found.** Every connection is made again for as long as the run goes on: mirrors resume their
//! sessions, a worker hears from its servers what is due from it, lines to the coordinator repeat what stands. Where a
//! node has a directory it writes down what has come to it before anything that follows from it leaves, so that another
//! process goes on from there after `kill -9` (see [`gaia_core::recovery`]); what was kept for another node or run is refused.
//! Without a directory a worker takes up its work where its servers say that it was. A server that comes back with
//! nothing is told by the coordinator as which incarnation to begin and which mirror's copy to take;
//! where the model has no such way, that ends the run. A mirror whose messages are refused for as long as a node may be away
//! counts as lost, though it answers.
//! Where the run file wants that, another worker stands in for one that does not come back. All of this is decided in
//! [`gaia_core::coordinator`]; this room carries it out.
//!
//! **How it ends.** The coordinator ends workers, then servers. A node that has been lost for longer than it is waited
//! for, or that fails for a reason, ends the run, and every node says which one it was. One that is told to leave writes
//! a checkpoint first.
//!
//! **What data a node needs.** Each process builds the application from the run file, as the other drivers do, and its
//! workers train on their own share of it. No example crosses a connection.

mod conductor;
mod connections;
pub mod environment;
mod error;
mod links;
mod local;
mod node;
mod server;
#[cfg(test)]
mod test_run;
mod watch;
mod worker;

use std::collections::BTreeSet;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch as watched;
use tokio::time::{self, sleep};

use self::conductor::Conductor;
use self::connections::acceptor::{Acceptor, listen};
use self::connections::channel::resolve;
use self::environment::{Environment, Machine};
use self::node::context::{RunContext, identity, nodes};
use self::node::measure::Measured;
use self::node::node_log::StateDir;
use self::server::serve;
use self::server::workers::PARCELS_MAX;
use self::worker::standing_in::{StandingIn, cost_of};
use self::worker::work;
use super::cluster::Blueprint;
use super::{Outcome, RunError};
use gaia_checkpoint::StateFile;
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::RequestSeq;
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, ServerId, ShardId, WorkerId};
use gaia_telemetry::{Observer, Telemetry};

pub use error::{LinkFault, RealError};
pub use links::{LinkCheck, check_links};
pub use local::NodeFiles;
pub(super) use local::run;
pub use watch::watch;

/// What one process is in a run, and what it needs to take part.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The nodes in this process: the coordinator alone, or a server, a worker or one of each of a data center.
    pub nodes: Vec<NodeId>,
    /// Where `gaia certs` keeps a folder for each node, or such a folder.
    pub certificates: PathBuf,
    /// Where to listen instead of at the topology's address; port 0 is any free one.
    pub listen: Option<SocketAddr>,
    /// Where the coordinator listens, instead of at the topology's address.
    pub coordinator: Option<Address>,
    /// Where the nodes of this process keep what they need to go on in another process, if they do.
    pub state: Option<PathBuf>,
    /// True once the nodes of this process are to write down where they are, and leave.
    pub interrupted: Option<Arc<AtomicBool>>,
    /// Whether the end of standard input is the end of this node: for a parent that starts nodes.
    pub ends_with_stdin: bool,
    /// Where the nodes tell of themselves.
    pub telemetry: Telemetry,
}

/// Nodes as metrics and logs call them: as their folders of certificates, such as `tokyo/server-0`.
pub fn labels(plan: &Plan, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| identity(plan, *node).folder()).collect()
}

/// How the part of one process in a run ended.
#[derive(Debug)]
pub enum NodeEnd {
    /// The run is over, which this process coordinated.
    Conducted(Box<Outcome>),
    /// The run is over.
    Over,
    /// This process was told to leave; another goes on from what it kept.
    Interrupted,
}

/// What the nodes of one process are told.
struct NodeConfig {
    coordinator: Address,
    state_dir: Option<StateDir>,
    interrupted: Interrupted,
    /// Where the worker says for whom it stands in.
    stands_in_for: watched::Sender<BTreeSet<WorkerId>>,
}

/// Whether this process is to leave.
#[derive(Clone)]
struct Interrupted(Option<Arc<AtomicBool>>);

/// How the part of one node in a run ended.
enum Exit {
    Over,
    Interrupted,
}

/// The server's end of what a worker in its process says and hears.
struct NearWorker {
    worker: WorkerId,
    next_requests: watched::Receiver<NextRequests>,
    says: Receiver<WorkerMessage>,
    hears: Sender<FromNear>,
}

/// The worker's end of it.
struct NearServer {
    shard: ShardId,
    next_requests: watched::Sender<NextRequests>,
    says: Sender<WorkerMessage>,
    hears: Receiver<FromNear>,
}

/// What a worker will say next to each server that does not know, where the worker does.
type NextRequests = Vec<Option<RequestSeq>>;

/// What a server says to a worker in its process.
enum FromNear {
    /// At first, what is due.
    Joined(RequestSeq),
    /// What is due from one that begins anew.
    Due((RequestSeq, bool)),
    Rows(Arc<RowsRead>),
}

/// Runs the nodes of one process until the run is over, or they are told to leave.
///
/// # Errors
/// Where a node cannot take part, is lost or fails.
pub fn node(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &NodeOptions,
    observer: &mut dyn Observer,
) -> Result<NodeEnd, RunError> {
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = take_part(plan, application, options, observer, Arc::new(Machine)) => ended,
            () = parent_gone(options.ends_with_stdin) => {
                let reason = "who started this node is gone".into();
                Err(RealError::Ended { reason })
            }
        }
    });

    // An iteration at work is not waited for.
    runtime.shutdown_background();
    Ok(ended?)
}

/// As [`node()`], on the runtime that it is called in and on whatever environment there is. To drop the future is to kill the
/// process.
///
/// # Errors
/// As [`node()`].
pub async fn take_part(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &NodeOptions,
    observer: &mut dyn Observer,
    environment: Arc<dyn Environment>,
) -> Result<NodeEnd, RealError> {
    let blueprint = Blueprint::new(plan, application);
    let mut run_context = RunContext::new(plan, blueprint.plan_hash, &options.certificates);
    run_context.telemetry = options.telemetry.clone();
    run_context.environment = environment;
    let named = options.coordinator.as_ref().or(plan.deployment.coordinator.as_ref());

    if options.nodes.contains(&NodeId::Coordinator) {
        let context = run_context.node_context(NodeId::Coordinator)?;
        let at = match (options.listen, named) {
            (Some(at), _) => at,
            (None, Some(named)) => local(named).await?,
            (None, None) => return Err(no_address(&run_context, NodeId::Coordinator)),
        };
        let listener = listen(&*run_context.environment, at).await?;
        let acceptor = Acceptor::open(&context, listener, nodes(&context.run_context).collect());
        let wall = time::Instant::now();
        let file = options
            .state
            .as_deref()
            .map(|folder| StateFile::new(&folder.join("coordinator"), blueprint.plan_hash));
        let file = file.transpose()?;
        let mut observer = Measured { observer, meter: &context.meter, plan };
        let conductor =
            Conductor::gather(&context, &blueprint, application, &mut observer, acceptor, file)
                .await?;
        let outcome = conductor.conduct(wall).await?;
        return Ok(NodeEnd::Conducted(Box::new(outcome)));
    }

    let coordinator = named.ok_or_else(|| no_address(&run_context, NodeId::Coordinator))?;
    let servers = options.nodes.iter().find_map(|node| match node {
        NodeId::Server(id) => Some(*id),
        _ => None,
    });
    let workers = options.nodes.iter().find_map(|node| match node {
        NodeId::Worker(id) => Some(*id),
        _ => None,
    });

    let (near_worker, near_server) = match (servers, workers) {
        (Some(server), Some(worker)) if server.dc == worker.dc => {
            let (near_worker, near_server) = near(server, worker);
            (Some(near_worker), Some(near_server))
        }
        _ => (None, None),
    };

    let state_dir = options
        .state
        .clone()
        .map(|folder| StateDir::new(folder, blueprint.plan_hash, plan, application.as_ref()));
    let interrupted = Interrupted(options.interrupted.clone());
    let (stands_in_for, lost) = watched::channel(BTreeSet::new());
    let node_config =
        NodeConfig { coordinator: coordinator.clone(), state_dir, interrupted, stands_in_for };

    let context = workers.map(|id| run_context.node_context(NodeId::Worker(id))).transpose()?;
    let serving = async {
        let Some(id) = servers else { return Ok(Exit::Over) };
        let at = match (options.listen, plan.deployment.server(id.dc, id.shard.index())) {
            (Some(at), _) => at,
            (None, Some(named)) => local(named).await?,
            (None, None) => return Err(no_address(&run_context, NodeId::Server(id))),
        };
        let context = run_context.node_context(NodeId::Server(id))?;
        let kept =
            node_config.state_dir.as_ref().is_some_and(|state_dir| state_dir.has_state(&context));
        let server = if kept { blueprint.server_without_values(id) } else { blueprint.server(id) };
        serve(context, id, server, &node_config, at, near_worker).await
    };

    let working = async {
        let (Some(id), Some(context)) = (workers, context.clone()) else { return Ok(Exit::Over) };
        let layouts = blueprint.layouts().to_vec();
        work(context, blueprint.worker(id), layouts, &node_config, cost_of(plan), near_server).await
    };
    let mut standing_in = StandingIn::default();
    let following = async {
        match &context {
            Some(context) => standing_in.follow(context, &blueprint, coordinator, lost).await,
            None => std::future::pending().await,
        }
    };

    let ended = async { tokio::try_join!(serving, working) };
    let ended = tokio::select! {
        biased;
        ended = ended => ended?,
        failed = following => return Err(failed),
    };
    let (Exit::Over, Exit::Over) = ended else { return Ok(NodeEnd::Interrupted) };
    standing_in.finish().await;

    Ok(NodeEnd::Over)
}

impl Interrupted {
    fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Waits until it is; nobody else tells.
    async fn set(&self) {
        while !self.is_set() {
            sleep(HEARTBEAT).await;
        }
    }
}

/// A way between a server and a worker that share a process.
fn near(server: ServerId, worker: WorkerId) -> (NearWorker, NearServer) {
    let (to_server, from_worker) = channel(PARCELS_MAX);
    let (to_worker, from_server) = channel(PARCELS_MAX);
    let (tells, told) = watched::channel(NextRequests::new());
    let (says, hears) = (from_worker, to_worker);
    let near_worker = NearWorker { worker, next_requests: told, says, hears };
    let (says, hears) = (to_server, from_server);
    let near_server = NearServer { shard: server.shard, next_requests: tells, says, hears };
    (near_worker, near_server)
}

/// The first address of this machine that a name stands for.
async fn local(named: &Address) -> Result<SocketAddr, RealError> {
    let found = resolve(named).await.map_err(|fault| RealError::Listen {
        address: named.to_string(),
        reason: fault.to_string(),
    })?;
    found.into_iter().next().ok_or_else(|| RealError::Listen {
        address: named.to_string(),
        reason: "the name has no address".into(),
    })
}

fn no_address(run_context: &RunContext, node: NodeId) -> RealError {
    let (key, instead) = match node {
        NodeId::Coordinator => ("`coordinator_address`", "GAIA_COORDINATOR"),
        _ => ("`server_addresses`", "--listen"),
    };
    RealError::NoAddress { node: run_context.name(node), key, instead }
}

/// Waits for the end of standard input, where that is the end of this node; otherwise for ever.
async fn parent_gone(watched: bool) {
    if !watched {
        return std::future::pending().await;
    }
    let (gone, parent) = tokio::sync::oneshot::channel();
    // A read of standard input cannot be called off; a thread of its own ends with the process.
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while matches!(std::io::stdin().read(&mut bytes), Ok(read) if read > 0) {}
        // A node that has ended needs no end.
        let _ended = gone.send(());
    });
    let _gone = parent.await;
}

fn runtime() -> Result<Runtime, RunError> {
    Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .thread_name("gaia-network")
        .enable_all()
        .build()
        .map_err(RunError::Runtime)
}

const NETWORK_THREADS: usize = 2;

/// How often nodes and the coordinator hear of each other at least.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Who has not been heard for this long is lost. A transfer that goes on counts as a sign of life, however slow it is.
const SILENCE_MAX: Duration = Duration::from_secs(10);
