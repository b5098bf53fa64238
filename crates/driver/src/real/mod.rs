//! The cluster as processes: one or two nodes in each, on any number of machines.
//!
//! This room decides how nodes find each other and how their messages travel. Data centers use QUIC over UDP, with
//! one connection for each pair of mirrors. Inside a data center, and to the coordinator, nodes use TCP. Every
//! connection is mutual TLS 1.3 with certificates of the run, except on a LAN for which the topology disables it. A
//! worker and a server in one process exchange values through channels. This room validates only the bounds
//! of messages: they are decoded with the layout of the shard before a node receives them.
//!
//! **How a run begins.** Each node connects to the coordinator and sends its address. A node without a state waits for
//! the coordinator for an hour, others as long as for any lost node: the run may have ended. Once all are connected,
//! the coordinator sends the addresses of servers to all nodes. Then servers connect to their mirrors, workers connect
//! to their servers, and training begins. So nodes may start in any order.
//!
//! **How nodes recover.** Every connection is opened again during the whole run. Mirrors resume their sessions, a
//! worker receives the due requests from its servers, and nodes and the coordinator repeat what is still valid. A
//! node with a directory writes its inputs to a log before it sends anything that follows from them. So another
//! process can continue after `kill -9` (see [`gaia_core::recovery`]). A log of another node or run is refused. A
//! worker without a directory continues where its servers expect it. A server without state receives from the
//! coordinator its incarnation and the mirror whose copy it takes. If the synchronization model does not support
//! that, the run ends. A mirror whose messages are refused for the longest absence of a node counts as lost, though
//! it answers. If the run file enables it, another worker stands in for a lost one. All of this is decided in
//! [`gaia_core::coordinator`] and executed here.
//!
//! **How a run ends.** The coordinator ends workers, then servers. A node that is lost for longer than the limit, or
//! that fails with an error, ends the run, and every node reports its name. A node that is interrupted writes a
//! checkpoint first.
//!
//! **What data a node needs.** If the data is in one place, each process builds the application from the run file, as the
//! other drivers do, and its workers train on their share. If each data center has its own, a process reads that of its data
//! center and no other, and the nodes agree on the shape of the model first (`agreement.rs`). No example crosses a
//! connection. So they learn which remote model the coordinator has chosen, if the run leaves it to the program.

mod agreement;
mod conductor;
mod connections;
pub mod environment;
mod error;
#[cfg(test)]
mod hostile;
pub mod http;
mod links;
mod listening;
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
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{oneshot, watch as watched};
use tokio::time::{self, timeout};

use self::agreement::{Agreement, Chosen, Told, agree};
use self::conductor::Conductor;
use self::connections::acceptor::{Acceptor, listen};
use self::environment::{Environment, Machine};
use self::listening::listening_address;
use self::node::context::{NodeContext, RunContext, identity, nodes};
use self::node::coordinator_client::lost_for;
use self::node::measure::Measured;
use self::node::node_log::{NodeLog, Recovering, StateDir};
use self::server::model_keeper::ModelKeeper;
use self::server::serve;
use self::server::workers::PARCELS_MAX;
use self::worker::evaluating::Evaluating;
use self::worker::standing_in::{StandingIn, cost_of};
use self::worker::work;
use super::blocking::in_place;
use super::cluster::Blueprint;
use super::interrupted::Interrupted;
use super::{Outcome, RunError, trained};
use gaia_checkpoint::{NodeStore, StateFile};
use gaia_config::{Decision, Plan};
use gaia_core::application::Application;
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::RequestSeq;
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, ServerId, ShardId, WorkerId};
use gaia_telemetry::{Observer, Telemetry};

pub use agreement::{Choose, OwnData, RunData, Summary};
pub use error::{LinkFault, RealError};
pub use links::{LinkCheck, check_links};
pub use local::NodeFiles;
pub(super) use local::run;
pub use watch::watch;

/// The nodes of one process, and what they need to take part in a run.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The nodes in this process: the coordinator alone, or a server, a worker or one of each of a data center.
    pub nodes: Vec<NodeId>,
    /// The folder with a folder of `gaia certs` for each node, or one of those.
    pub certificates: PathBuf,
    /// The address to listen on, instead of the topology's. Port 0 is any free one.
    pub listen: Option<SocketAddr>,
    /// The address of the coordinator, instead of the topology's.
    pub coordinator: Option<Address>,
    /// The directory for the state that another process of these nodes needs to continue, if there is one.
    pub state: Option<PathBuf>,
    /// The folder for this server's shard of the model, if data centers keep their models.
    pub models: Option<PathBuf>,
    /// Set to `true` to make the nodes of this process write their state and end.
    pub interrupted: Option<Arc<AtomicBool>>,
    /// Whether the end of standard input ends this process. For a parent that starts nodes.
    pub ends_with_stdin: bool,
    /// The metrics of the nodes.
    pub telemetry: Telemetry,
}

impl NodeOptions {
    /// Whether an earlier process of this coordinator has left its state.
    pub fn has_conducted(&self) -> bool {
        self.state.as_deref().is_some_and(|folder| folder.join(local::COORDINATOR).is_file())
    }
}

/// The names of nodes in metrics and logs, which are those of their folders of certificates, such as
/// `tokyo/server-0`.
pub fn labels(plan: &Plan, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| identity(plan, *node).folder()).collect()
}

/// How the part of one process in a run has ended.
#[derive(Debug)]
pub enum NodeEnd {
    /// The run has ended, and this process was the coordinator.
    Conducted(Box<Outcome>),
    /// The run has ended.
    Over,
    /// This process was interrupted. Another can continue from its state.
    Interrupted,
}

/// The settings of the nodes of one process.
struct NodeConfig {
    coordinator: Address,
    state_dir: Option<StateDir>,
    model_keeper: Option<ModelKeeper>,
    interrupted: Interrupted,
    /// The workers that the worker of this process stands in for.
    stands_in_for: watched::Sender<BTreeSet<WorkerId>>,
}

/// How the part of one node in a run has ended.
enum Exit {
    Over,
    Interrupted,
}

/// The server's end of the channels to a worker in the same process.
struct NearWorker {
    worker: WorkerId,
    next_requests: watched::Receiver<NextRequests>,
    requests: Receiver<WorkerMessage>,
    replies: Sender<FromNear>,
}

/// The worker's end of the channels to a server in the same process.
struct NearServer {
    shard: ShardId,
    next_requests: watched::Sender<NextRequests>,
    requests: Sender<WorkerMessage>,
    replies: Receiver<FromNear>,
}

/// The next request of a worker to each server. `None` if the worker does not know it.
type NextRequests = Vec<Option<RequestSeq>>;

/// A message of a server to a worker in the same process.
enum FromNear {
    /// The first message: the due request.
    Joined(RequestSeq),
    /// The request that is due from a worker that starts again, and whether the server has guessed it.
    Due((RequestSeq, bool)),
    Rows(Arc<RowsRead>),
    /// The copy of the shard, for an evaluation.
    Copy {
        ticket: u64,
        values: Arc<[f32]>,
    },
}

/// The nodes of one process that are about to take part in a run: the data centers agree on their data.
pub struct Prepared<'p> {
    run_context: RunContext,
    blueprint: Blueprint<'p>,
    application: Arc<dyn Application>,
    /// The coordinator's, which is open since before the agreement.
    acceptor: Option<(NodeContext, Acceptor)>,
}

/// The nodes of one process, and the threads that they run on.
pub struct Node<'p> {
    runtime: Runtime,
    prepared: Prepared<'p>,
    options: &'p NodeOptions,
    parent: Parent,
}

/// How a process was prepared.
pub enum Preparation<'p> {
    /// The run can begin.
    Ready(Box<Node<'p>>),
    /// The process was interrupted before.
    Interrupted,
}

impl<'p> Node<'p> {
    /// Prepares the nodes of one process: waits until the data centers agree on their data, where each has its own, and
    /// until the coordinator has chosen the remote model, where the run leaves it to the program. The coordinator calls
    /// `choose` for it.
    ///
    /// # Errors
    /// If a node cannot take part, data centers do not agree, or there is no choice.
    pub fn prepare(
        plan: &'p Plan,
        data: RunData,
        options: &'p NodeOptions,
        choose: &Choose<'_>,
    ) -> Result<Preparation<'p>, RunError> {
        let runtime = runtime()?;
        let mut parent = Parent::watched(options.ends_with_stdin);
        let interrupted = Interrupted(options.interrupted.clone());
        let prepared = runtime.block_on(async {
            let preparing = prepare(plan, data, options, choose, Arc::new(Machine));
            tokio::select! {
                prepared = interrupted.run_until_set(preparing) => prepared.transpose(),
                () = parent.gone() => Err(RealError::ParentEnded),
            }
        })?;
        Ok(match prepared {
            Some(prepared) => {
                Preparation::Ready(Box::new(Self { runtime, prepared, options, parent }))
            }
            None => Preparation::Interrupted,
        })
    }

    /// The plan of the run, with its remote model.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.prepared.run_context.plan
    }

    /// The application of the run.
    pub fn application(&self) -> &Arc<dyn Application> {
        &self.prepared.application
    }

    /// Runs the nodes until the run has ended, or they are interrupted.
    ///
    /// # Errors
    /// If a node is lost, or fails.
    pub fn run(self, observer: &mut dyn Observer) -> Result<NodeEnd, RunError> {
        let Self { runtime, prepared, options, mut parent } = self;
        let ended = runtime.block_on(async {
            tokio::select! {
                ended = prepared.take_part(options, observer) => ended,
                () = parent.gone() => Err(RealError::ParentEnded),
            }
        });

        // A running iteration is not waited for.
        runtime.shutdown_background();
        Ok(ended?)
    }
}

/// As [`Node::prepare`] and [`Node::run`], on the current runtime and in any environment. Dropping the future has the
/// effect of killing the process. The plan has a remote model.
///
/// # Errors
/// As those.
pub async fn take_part(
    plan: &Plan,
    data: RunData,
    options: &NodeOptions,
    observer: &mut dyn Observer,
    environment: Arc<dyn Environment>,
) -> Result<NodeEnd, RealError> {
    let choose: &Choose<'_> = &|_, _, _| Err(RunError::Undecided.to_string());
    prepare(plan, data, options, choose, environment).await?.take_part(options, observer).await
}

async fn prepare<'p>(
    plan: &'p Plan,
    data: RunData,
    options: &NodeOptions,
    choose: &Choose<'_>,
    environment: Arc<dyn Environment>,
) -> Result<Prepared<'p>, RealError> {
    let mut run_context = RunContext::new(plan, &options.certificates);
    run_context.telemetry = options.telemetry.clone();
    run_context.environment = environment;

    let is_coordinator = options.nodes.contains(&NodeId::Coordinator);
    match data {
        RunData::Whole(application) if plan.decision != Decision::Open => {
            let blueprint = Blueprint::new(plan, &application);
            run_context.agree_on(&blueprint);
            let acceptor = match is_coordinator {
                true => Some(accept_nodes(&run_context, options, None).await?),
                false => None,
            };
            Ok(Prepared { run_context, blueprint, application, acceptor })
        }
        data if is_coordinator => conclude(plan, data, options, choose, run_context).await,
        data => ask(plan, data, options, run_context).await,
    }
}

/// Prepares the coordinator, which gathers the data of all data centers, chooses the remote model if the run leaves it to
/// the program, and tells all nodes.
async fn conclude<'p>(
    plan: &'p Plan,
    data: RunData,
    options: &NodeOptions,
    choose: &Choose<'_>,
    run_context: RunContext,
) -> Result<Prepared<'p>, RealError> {
    let agreement = Arc::new(Agreement::open(&run_context, options.state.as_deref())?);
    let (mut context, acceptor) =
        accept_nodes(&run_context, options, Some(agreement.clone())).await?;

    let (application, summaries) = match data {
        RunData::Whole(application) => (application, Vec::new()),
        RunData::Own(own) => {
            let summaries = agreement.gathered().await;
            match own.into_application(&summaries) {
                Ok(application) => (application, summaries),
                Err(reason) => {
                    agreement.fail(&reason).await;
                    return Err(RealError::Disagreement { reason });
                }
            }
        }
    };

    let chosen = match (&plan.decision, agreement.chosen()) {
        (Decision::Open, Some(chosen)) => Some(with_choice(plan, chosen)?),
        // Nodes wait, and are told meanwhile that this process is alive.
        (Decision::Open, None) => match in_place(|| choose(plan, &application, &summaries)) {
            Ok(chosen) => Some(chosen),
            Err(reason) => {
                agreement.fail(&reason).await;
                return Err(RealError::NoChoice { reason });
            }
        },
        (Decision::Given | Decision::Made(_), _) => None,
    };
    if let Some(chosen) = &chosen {
        context.run_context = run_context.with_plan(chosen);
    }
    let choice = chosen.as_ref().and_then(Chosen::of);
    let run_context = context.run_context.clone();
    let blueprint = blueprint_of(plan, chosen, &application);
    run_context.agree_on(&blueprint);
    // From now on nodes may join.
    agreement.conclude(choice)?;
    Ok(Prepared { run_context, blueprint, application, acceptor: Some((context, acceptor)) })
}

/// Prepares the nodes of another process, which asks the coordinator for what all agree on.
async fn ask<'p>(
    plan: &'p Plan,
    data: RunData,
    options: &NodeOptions,
    run_context: RunContext,
) -> Result<Prepared<'p>, RealError> {
    let summary = match &data {
        RunData::Whole(_) => None,
        RunData::Own(own) => own.summary(),
    };
    let (summaries, chosen) = ask_as_each(&run_context, summary.as_ref(), options).await?;
    let application = match data {
        RunData::Whole(application) => application,
        RunData::Own(own) => {
            own.into_application(&summaries).map_err(|reason| RealError::Disagreement { reason })?
        }
    };

    let chosen = chosen.map(|chosen| with_choice(plan, chosen)).transpose()?;
    let run_context = match &chosen {
        Some(chosen) => run_context.with_plan(chosen),
        None => run_context,
    };
    let blueprint = blueprint_of(plan, chosen, &application);
    run_context.agree_on(&blueprint);
    Ok(Prepared { run_context, blueprint, application, acceptor: None })
}

/// The plan with the remote model that the coordinator has chosen.
fn with_choice(plan: &Plan, Chosen { remote, reason }: Chosen) -> Result<Plan, RealError> {
    plan.clone().decided_elsewhere(&remote, reason).map_err(|error| RealError::Broken {
        from: "the coordinator".into(),
        reason: format!("its choice of a remote model is none: {}", error.render(false)),
    })
}

/// The nodes of the plan that was chosen, or of the one that has had its remote model.
fn blueprint_of<'p>(
    plan: &'p Plan,
    chosen: Option<Plan>,
    application: &Arc<dyn Application>,
) -> Blueprint<'p> {
    match chosen {
        Some(chosen) => Blueprint::keeping(chosen, application),
        None => Blueprint::new(plan, application),
    }
}

/// Reports the data of this process to the coordinator, and waits for what all nodes agree on. Each node asks, so that the
/// coordinator knows whom it has told.
async fn ask_as_each(
    run_context: &RunContext,
    summary: Option<&Summary>,
    options: &NodeOptions,
) -> Result<Told, RealError> {
    let coordinator = coordinator_of(&run_context.plan, options)
        .ok_or_else(|| no_address(run_context, NodeId::Coordinator))?;
    let ask = |node: Option<NodeId>| {
        let summary = summary.filter(|_| matches!(node, Some(NodeId::Worker(_))));
        async move {
            let Some(node) = node else { return Ok(None) };
            ask_as(run_context, node, coordinator, summary, options).await.map(Some)
        }
    };
    let (server, worker) = server_and_worker_of(&options.nodes);
    let (server, worker) =
        tokio::try_join!(ask(server.map(NodeId::Server)), ask(worker.map(NodeId::Worker)))?;
    Ok(worker.or(server).expect("a process has a node"))
}

/// Asks as one node. A node that has taken part in the run waits no longer than for any lost node, since the run may have
/// ended.
async fn ask_as(
    run_context: &RunContext,
    node: NodeId,
    coordinator: &Address,
    summary: Option<&Summary>,
    options: &NodeOptions,
) -> Result<Told, RealError> {
    let plan = &*run_context.plan;
    let context = run_context.node_context(node)?;
    let asking = agree(&context, coordinator, summary);
    let state = options.state.as_ref().map(|folder| folder.join(identity(plan, node).folder()));
    if !state.is_some_and(|state| NodeStore::has_checkpoint(&state)) {
        return asking.await;
    }
    let given_up = plan.failures.give_up_after.0;
    timeout(given_up, asking).await.unwrap_or_else(|_| Err(lost_for(given_up)))
}

/// Opens the port of the coordinator.
async fn accept_nodes(
    run_context: &RunContext,
    options: &NodeOptions,
    agreement: Option<Arc<Agreement>>,
) -> Result<(NodeContext, Acceptor), RealError> {
    let context = run_context.node_context(NodeId::Coordinator)?;
    let named = coordinator_of(&run_context.plan, options);
    let at = listening_address(run_context, NodeId::Coordinator, options, named).await?;
    let listener = listen(&*run_context.environment, at).await?;
    let callers = nodes(&context.run_context).collect();
    let acceptor = Acceptor::open(&context, listener, callers, agreement);
    Ok((context, acceptor))
}

impl Prepared<'_> {
    async fn take_part(
        self,
        options: &NodeOptions,
        observer: &mut dyn Observer,
    ) -> Result<NodeEnd, RealError> {
        let Self { run_context, blueprint, application, acceptor } = self;
        trained::check(&run_context.plan, application.as_ref())?;
        if let Some(acceptor) = acceptor {
            let conducted =
                run_coordinator(acceptor, &blueprint, &application, options, observer).await?;
            return Ok(NodeEnd::Conducted(Box::new(conducted)));
        }
        run_server_and_worker(&run_context, &blueprint, &application, options).await
    }
}

/// Runs the coordinator, which gathers the nodes and conducts the run.
async fn run_coordinator(
    (context, acceptor): (NodeContext, Acceptor),
    blueprint: &Blueprint<'_>,
    application: &Arc<dyn Application>,
    options: &NodeOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome, RealError> {
    let plan = &*context.run_context.plan;
    let wall = time::Instant::now();
    let file = options
        .state
        .as_deref()
        .map(|folder| StateFile::new(&folder.join(local::COORDINATOR), blueprint.plan_hash));
    let file = file.transpose()?;
    let mut observer = Measured { observer, meter: &context.meter, plan };
    // Another process of this coordinator continues the run.
    let interrupted = Interrupted(None);
    let conductor = Conductor::new(
        &context,
        blueprint,
        application,
        &mut observer,
        acceptor,
        file,
        interrupted,
    );
    conductor.gather().await?.conduct(wall).await
}

/// Runs the server and the worker of this process, of which there may be one or both, and stands in for lost workers.
async fn run_server_and_worker(
    run_context: &RunContext,
    blueprint: &Blueprint<'_>,
    application: &Arc<dyn Application>,
    options: &NodeOptions,
) -> Result<NodeEnd, RealError> {
    let plan = &*run_context.plan;
    let coordinator = coordinator_of(plan, options)
        .ok_or_else(|| no_address(run_context, NodeId::Coordinator))?;
    let (server, worker) = server_and_worker_of(&options.nodes);
    let together = server.zip(worker).filter(|(server, worker)| server.dc == worker.dc);
    let (near_worker, near_server) = together.map(|(server, worker)| near(server, worker)).unzip();

    let state_dir = options
        .state
        .clone()
        .map(|folder| StateDir::new(folder, blueprint.plan_hash, plan, application.as_ref()));
    let interrupted = Interrupted(options.interrupted.clone());
    let (stands_in_for, lost) = watched::channel(BTreeSet::new());
    let model_keeper = match server {
        Some(_) => {
            let (plan, folder) = (&run_context.plan, options.models.as_deref());
            ModelKeeper::of(plan, application.as_ref(), folder)?
        }
        None => None,
    };
    let node_config = NodeConfig {
        coordinator: coordinator.clone(),
        state_dir,
        model_keeper,
        interrupted,
        stands_in_for,
    };

    let context = worker.map(|id| run_context.node_context(NodeId::Worker(id))).transpose()?;
    let serving = async {
        let Some(id) = server else { return Ok(Exit::Over) };
        run_server(id, run_context, blueprint, options, &node_config, near_worker).await
    };
    let working = async {
        let (Some(id), Some(context)) = (worker, context.clone()) else { return Ok(Exit::Over) };
        let layouts = blueprint.layouts().to_vec();
        let mut machine = blueprint.worker(id);
        let is_alone = plan.topology.dc(id.dc).workers == 1 && layouts.len() == 1;
        // A state on disk is to have what the worker has changed.
        if is_alone
            && near_server.is_some()
            && node_config.state_dir.is_none()
            && !machine.repeats()
        {
            machine = machine.keeping_changes();
        }
        let evaluating = Evaluating::new(application.clone(), blueprint, id);
        work(context, (machine, evaluating), layouts, &node_config, cost_of(plan), near_server)
            .await
    };
    let mut standing_in = StandingIn::new(application.clone());
    let following = async {
        match &context {
            Some(context) => standing_in.follow(context, blueprint, coordinator, lost).await,
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

/// Runs the server of this process.
async fn run_server(
    id: ServerId,
    run_context: &RunContext,
    blueprint: &Blueprint<'_>,
    options: &NodeOptions,
    node_config: &NodeConfig,
    near_worker: Option<NearWorker>,
) -> Result<Exit, RealError> {
    let named = run_context.plan.deployment.server(id.dc, id.shard.index());
    let context = run_context.node_context(NodeId::Server(id))?;
    let listening = listening_address(run_context, NodeId::Server(id), options, named);
    let Some(at) = node_config.interrupted.run_until_set(listening).await else {
        return Ok(Exit::Interrupted);
    };
    let at = at?;

    let kept =
        node_config.state_dir.as_ref().is_some_and(|state_dir| state_dir.has_state(&context));
    let server = if kept { blueprint.server_without_values(id) } else { blueprint.server(id) };
    serve(context, id, server, node_config, at, near_worker).await
}

impl NodeConfig {
    /// Recovers a node from its state, if this process has a directory for states. Otherwise there is no log.
    ///
    /// # Errors
    /// As [`StateDir::recover`].
    fn recover<M: Recovering>(
        &self,
        context: &NodeContext,
        machine: M,
    ) -> Result<(Option<NodeLog>, M), RealError> {
        let Some(state_dir) = &self.state_dir else { return Ok((None, machine)) };
        let (node_log, machine) = state_dir.recover(context, machine)?;
        Ok((Some(node_log), machine))
    }
}

/// The server and the worker among the nodes of a process.
fn server_and_worker_of(nodes: &[NodeId]) -> (Option<ServerId>, Option<WorkerId>) {
    let server = nodes.iter().find_map(|node| match node {
        NodeId::Server(id) => Some(*id),
        _ => None,
    });
    let worker = nodes.iter().find_map(|node| match node {
        NodeId::Worker(id) => Some(*id),
        _ => None,
    });
    (server, worker)
}

/// Creates the channels between a server and a worker in the same process.
fn near(server: ServerId, worker: WorkerId) -> (NearWorker, NearServer) {
    let (to_server, from_worker) = channel(PARCELS_MAX);
    let (to_worker, from_server) = channel(PARCELS_MAX);
    let (next_sender, next_receiver) = watched::channel(NextRequests::new());
    let (requests, replies) = (from_worker, to_worker);
    let near_worker = NearWorker { worker, next_requests: next_receiver, requests, replies };
    let (requests, replies) = (to_server, from_server);
    let near_server =
        NearServer { shard: server.shard, next_requests: next_sender, requests, replies };
    (near_worker, near_server)
}

/// The address of the coordinator: that of the options, or else the topology's.
fn coordinator_of<'a>(plan: &'a Plan, options: &'a NodeOptions) -> Option<&'a Address> {
    options.coordinator.as_ref().or(plan.deployment.coordinator.as_ref())
}

fn no_address(run_context: &RunContext, node: NodeId) -> RealError {
    let (key, instead) = match node {
        NodeId::Coordinator => ("`coordinator_address`", "GAIA_COORDINATOR"),
        _ => ("`server_addresses`", "--listen"),
    };
    RealError::NoAddress { node: run_context.name(node), key, instead }
}

/// The process that has started this one, if it is watched.
struct Parent(Option<oneshot::Receiver<()>>);

impl Parent {
    /// Watches standard input, whose end is that of the parent, if `watched` is true.
    fn watched(watched: bool) -> Self {
        Self(watched.then(|| {
            let (gone, parent) = oneshot::channel();
            // A read of standard input cannot be cancelled. Its own thread ends with the process.
            std::thread::spawn(move || {
                let mut bytes = [0; 64];
                while matches!(std::io::stdin().read(&mut bytes), Ok(read) if read > 0) {}
                // The receiver is gone if the node has ended.
                let _ended = gone.send(());
            });
            parent
        }))
    }

    /// Waits for the end of the parent. Waits forever if it is not watched. Cancel safe.
    async fn gone(&mut self) {
        match &mut self.0 {
            Some(parent) => drop(parent.await),
            None => std::future::pending().await,
        }
    }
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

/// The longest interval between two messages of a node to the coordinator, or back.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// A peer that has sent nothing for this long is lost. Any part of a transfer counts, however slow it is.
const SILENCE_MAX: Duration = Duration::from_secs(10);
