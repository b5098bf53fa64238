//! All nodes of a run as processes of this machine, on 127.0.0.1: `gaia train --driver real`.
//!
//! This process is the coordinator; it starts the others with certificates made for the run. A child holds one end of
//! a pipe and ends when this process does, whatever ends it; children are killed where this process goes on without
//! them. So none is left behind.
//!
//! Certificates lie in a temporary folder that nobody else can enter, and go with the run, also where a signal ends it.
//! Where this process is killed they stay, but for the authority's key, which is never written.
//!
//! A child that something kills, or that crashes, is started again and goes on from what it has written down; one that
//! fails for a reason ends the run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{self, timeout};
use tracing::{info, warn};

use crate::cluster::{Blueprint, server_ids, worker_ids};
use crate::real::conductor::Conductor;
use crate::real::connections::acceptor::{Acceptor, listen};
use crate::real::error::RealError;
use crate::real::node::context::{RunContext, nodes};
use crate::real::{Interrupted, runtime};
use crate::{Outcome, RunError};
use gaia_certificates::Directory;
use gaia_config::{OnGiveUp, Plan};
use gaia_core::application::Application;
use gaia_core::topology::Deployment;
use gaia_core::types::{NodeId, ServerId, WorkerId};
use gaia_telemetry::Observer;

/// A process of the run.
struct Process {
    name: String,
    server: Option<ServerId>,
    worker: Option<WorkerId>,
}

/// What children are started with.
struct Supervisor {
    run_context: RunContext,
    /// Of the run file and the certificates.
    folder: PathBuf,
    states: PathBuf,
    files: Option<NodeFiles>,
    coordinator: String,
}

/// Where the nodes that a run starts write to.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    /// Where each keeps what it needs to go on after a crash, in a folder of its own, until the run is over.
    pub states: PathBuf,
    /// Where they log to. A node's file is called as its folder of certificates is, such as `tokyo/server-0.log`. A
    /// worker that shares a process with a server shares its log.
    pub logs: PathBuf,
    /// Whether a line is an object, and not text for people.
    pub json: bool,
    /// True once the run is to end before its time.
    pub interrupted: Option<Arc<AtomicBool>>,
}

/// A child that has ended, for good.
struct Exit {
    name: String,
    status: io::Result<ExitStatus>,
    /// The last that it said on standard error.
    said: String,
}

/// Runs a plan over processes of this machine.
///
/// The program that is started is the one that runs: it has to be `gaia`.
pub(crate) fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
    files: Option<&NodeFiles>,
) -> Result<Outcome, RunError> {
    if std::env::var_os(CHILD).is_some() {
        return Err(RealError::Nested.into());
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(conduct(plan, application, observer, files));
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome?)
}

async fn conduct(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
    files: Option<&NodeFiles>,
) -> Result<Outcome, RealError> {
    let wall = time::Instant::now();
    let folder = private_folder()?;

    // Whatever addresses the topology has, here every port is one that is free.
    let deployment =
        Deployment { coordinator: None, servers: Vec::new(), ..plan.deployment.clone() };
    let plan = &Plan { deployment, ..plan.clone() };
    std::fs::write(folder.path().join(RUN_FILE), plan.to_toml())?;
    let certificates = folder.path().join(CERTIFICATES);
    let blueprint = Blueprint::new(plan, application);
    let run_context = RunContext::new(plan, blueprint.plan_hash, &certificates);
    issue(&run_context, &certificates)?;

    let context = run_context.node_context(NodeId::Coordinator)?;
    let listener = listen(&*run_context.environment, ([127, 0, 0, 1], 0).into()).await?;
    let address = listener.local_addr()?.to_string();
    let acceptor = Acceptor::open(&context, listener, nodes(&context.run_context).collect());
    let interrupted = Interrupted(files.and_then(|files| files.interrupted.clone()));
    let (ended, mut exits) = unbounded_channel();

    // Dropped last of all, and with it every child that still runs.
    let mut children = JoinSet::new();
    let states = files.map_or_else(|| folder.path().join(STATES), |files| files.states.clone());
    let supervisor = Arc::new(Supervisor {
        run_context: run_context.clone(),
        folder: folder.path().to_owned(),
        states: states.clone(),
        files: files.cloned(),
        coordinator: address,
    });

    for (server, worker) in processes(plan) {
        let process = Process::new(&run_context, server, worker);
        let first = supervisor.start(&process)?;
        let log = files.map(|files| files.open(&run_context, server, worker)).transpose()?;
        let (supervisor, ended) = (supervisor.clone(), ended.clone());
        children.spawn(async move {
            let exit = supervisor.keep(process, first, log).await;
            // Nobody asks any more once the run has failed.
            let _over = ended.send(exit);
        });
    }

    drop(ended);
    let conducted = {
        let goes_on = plan.failures.on_give_up == OnGiveUp::Leave;
        let conducting = async {
            let gathered =
                Conductor::gather(&context, &blueprint, application, observer, acceptor, None)
                    .await?;
            gathered.conduct(wall).await
        };
        tokio::select! {
            conducted = conducting => conducted,
            failed = failed(&mut exits, goes_on) => Err(failed),
            () = interrupted.set() => Err(RealError::Interrupted),
        }
    };

    match conducted {
        Ok(outcome) => {
            let _late =
                timeout(EXIT_MAX, async { while children.join_next().await.is_some() {} }).await;
            children.shutdown().await;
            // Of a run that is over nothing goes on.
            if let Err(error) = std::fs::remove_dir_all(&states) {
                info!("{} stays: {error}", states.display());
            }
            Ok(outcome)
        }
        // Nobody is to blame for a run that was ended from outside. The folder goes with this function.
        Err(error @ RealError::Interrupted) => {
            children.shutdown().await;
            Err(error)
        }
        Err(error) => Err(root_cause(error, &mut exits).await),
    }
}

/// What runs together: where the topology says that worker i and server i share a machine, they share a process.
fn processes(plan: &Plan) -> Vec<(Option<ServerId>, Option<WorkerId>)> {
    let topology = &plan.topology;
    let together = |server: ServerId| {
        let dc = topology.dc(server.dc);
        let index = server.shard.0;
        (dc.colocated && usize::from(index) < dc.workers)
            .then_some(WorkerId { dc: server.dc, index })
    };
    let servers = server_ids(topology).map(|server| (Some(server), together(server)));
    let alone = worker_ids(topology).filter(|worker| {
        let dc = topology.dc(worker.dc);
        !dc.colocated || usize::from(worker.index) >= dc.servers
    });
    servers.chain(alone.map(|worker| (None, Some(worker)))).collect()
}

/// Writes the certificates of all nodes. Nobody needs the authority's key after that, so no disk ever has it.
pub(super) fn issue(run_context: &RunContext, folder: &Path) -> Result<(), RealError> {
    let all = std::iter::once(NodeId::Coordinator).chain(nodes(run_context));
    let identities: Vec<_> = all.map(|node| run_context.identity(node)).collect();
    Directory::issue_once(folder, &run_context.plan.name, &identities, UnixTime::now(), LASTING)?;
    Ok(())
}

/// A folder for keys, which nobody else can enter from the moment that it is there.
fn private_folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("gaia-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

impl Process {
    fn new(run_context: &RunContext, server: Option<ServerId>, worker: Option<WorkerId>) -> Self {
        let names = [server.map(NodeId::Server), worker.map(NodeId::Worker)];
        let names: Vec<String> =
            names.into_iter().flatten().map(|node| run_context.name(node)).collect();
        Self { name: names.join(" with "), server, worker }
    }
}

impl Supervisor {
    fn start(&self, process: &Process) -> Result<Child, RealError> {
        let topology = &self.run_context.plan.topology;
        let Process { name, server, worker } = process;
        let dc = server.map(|server| server.dc).or_else(|| worker.map(|worker| worker.dc));
        let dc = dc.expect("a process has a node");
        let started = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("node").arg(self.folder.join(RUN_FILE));
            command.args(["--dc", &topology.dc(dc).name]);
            if let Some(server) = server {
                command.args(["--server", &server.shard.0.to_string(), "--listen", "127.0.0.1:0"]);
            }
            if let Some(worker) = worker {
                command.args(["--worker", &worker.index.to_string()]);
            }
            command.arg("--certs").arg(self.folder.join(CERTIFICATES));
            command.arg("--state").arg(&self.states);
            command.args(["--quiet", "--ends-with-stdin"]);
            let json = self.files.as_ref().is_some_and(|files| files.json);
            command.args(["--log", if json { "json" } else { "text" }]);
            if self.files.is_some() && std::env::var_os(LOG).is_none() {
                command.env(LOG, LOGGED);
            }
            command.env("GAIA_COORDINATOR", &self.coordinator);
            command.env(CHILD, "1").env("NO_COLOR", "1");
            // All would listen at the same address.
            command.env_remove("GAIA_METRICS");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.kill_on_drop(true).spawn()
        });

        started.map_err(|error| RealError::NotStarted {
            node: name.clone(),
            reason: error.to_string(),
        })
    }

    /// Watches a child, and starts it again where it did not end by itself, unless that comes too often.
    async fn keep(&self, process: Process, mut child: Child, log: Option<File>) -> Exit {
        let mut starts = VecDeque::new();
        loop {
            // One that is started again goes on with the log.
            let log = log.as_ref().and_then(|log| log.try_clone().ok());
            let exit = watch(process.name.clone(), child, log).await;
            starts.retain(|at: &time::Instant| at.elapsed() < RESTARTS_WITHIN);
            let waits = !self.run_context.plan.failures.give_up_after.0.is_zero();
            if !exit.was_killed() || !waits || starts.len() >= RESTARTS_MAX {
                return exit;
            }
            if let Ok(status) = &exit.status {
                warn!("{} ended ({status}) and is started again", process.name);
            }
            starts.push_back(time::Instant::now());
            child = match self.start(&process) {
                Ok(child) => child,
                Err(error) => {
                    let (name, said) = (process.name, String::new());
                    return Exit { name, status: Err(io::Error::other(error)), said };
                }
            };
        }
    }
}

/// Hears what a child says until it ends. Its standard input stays open for as long as this is not dropped.
async fn watch(name: String, mut child: Child, mut log: Option<File>) -> Exit {
    let _open = child.stdin.take();
    let mut said = VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            info!(node = name, "{line}");
            if let Some(file) = &mut log
                && let Err(error) = writeln!(file, "{line}")
            {
                warn!("the log of {name} ends here: {error}");
                log = None;
            }
            let line = match failure_in(&line) {
                Some(failure) => {
                    said.clear();
                    failure
                }
                None => line,
            };
            said.push_back(line);
            if said.len() > LINES_KEPT {
                said.pop_front();
            }
        }
    }

    let status = child.wait().await;
    Exit { name, status, said: Vec::from(said).join("; ") }
}

/// Why a child failed, where a line of its log says that: as text, or as JSON.
fn failure_in(line: &str) -> Option<String> {
    if let Some(reason) = line.strip_prefix(ERROR) {
        return Some(reason.into());
    }
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    let message = event["fields"]["message"].as_str().filter(|_| event["level"] == "ERROR")?;
    Some(message.strip_prefix(ERROR).unwrap_or(message).into())
}

impl NodeFiles {
    /// Opens the log of a process that is these nodes; one that is started again goes on with it.
    fn open(
        &self,
        run_context: &RunContext,
        server: Option<ServerId>,
        worker: Option<WorkerId>,
    ) -> Result<File, RealError> {
        let nodes = [server.map(NodeId::Server), worker.map(NodeId::Worker)];
        let labels: Vec<String> =
            nodes.into_iter().flatten().map(|node| run_context.label(node)).collect();
        let path = self.logs.join(format!("{}.log", labels[0]));
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| File::options().create(true).append(true).open(&path)).map_err(|error| {
            RealError::NoLog { path: path.display().to_string(), reason: error.to_string() }
        })
    }
}

/// Waits for the first child that fails; for ever where none does. `goes_on` says that the coordinator can do without one
/// that is gone, and gives it up itself.
async fn failed(exits: &mut UnboundedReceiver<Exit>, goes_on: bool) -> RealError {
    while let Some(exit) = exits.recv().await {
        let is_gone = exit.said.starts_with(DISMISSED) || (goes_on && exit.was_killed());
        match exit.failure() {
            Some(error) if !is_gone => return error,
            Some(error) => info!("{error}"),
            None => {}
        }
    }
    std::future::pending().await
}

/// The failure behind the others: where one failed others fail of that, so a child that something killed comes first.
async fn root_cause(error: RealError, exits: &mut UnboundedReceiver<Exit>) -> RealError {
    let killed = async {
        while let Some(exit) = exits.recv().await {
            if exit.status.as_ref().is_ok_and(|status| status.code().is_none()) {
                return exit.failure();
            }
        }
        None
    };
    timeout(BLAME_MAX, killed).await.ok().flatten().unwrap_or(error)
}

impl Exit {
    /// Whether something else than the node itself ended it: a signal, which it may have obeyed, or a crash.
    fn was_killed(&self) -> bool {
        let code = self.status.as_ref().map(ExitStatus::code);
        matches!(code, Ok(None | Some(PANICKED | INTERRUPTED)))
    }

    fn failure(&self) -> Option<RealError> {
        let reason = match &self.status {
            Ok(status) if status.success() => return None,
            Ok(status) if self.said.is_empty() || status.code().is_none() => status.to_string(),
            Ok(_) => self.said.clone(),
            Err(error) => error.to_string(),
        };
        Some(RealError::Failed { node: self.name.clone(), reason })
    }
}

/// What a process of Rust ends with that has panicked.
const PANICKED: i32 = 101;

/// What a node ends with that was told to leave.
const INTERRUPTED: i32 = 75;

/// A child that ends more often is not started again.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

const STATES: &str = "states";
const RUN_FILE: &str = "run.toml";
const CERTIFICATES: &str = "certificates";

/// What begins a line that says why a process failed.
const ERROR: &str = "error: ";

/// How [`RealError::Dismissed`] begins.
const DISMISSED: &str = "this node takes no part";

/// What is logged, and what of nodes that keep a log, unless the environment says otherwise.
const LOG: &str = "GAIA_LOG";
const LOGGED: &str = "warn,gaia=info";

/// Set for children, so that none starts nodes of its own.
const CHILD: &str = "GAIA_CHILD";

const LASTING: Duration = Duration::from_secs(366 * 86_400);
const EXIT_MAX: Duration = Duration::from_secs(10);
const BLAME_MAX: Duration = Duration::from_millis(500);
const LINES_KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_dismissed_says_so() {
        let said = RealError::Dismissed { reason: "it was given up".into() }.to_string();
        assert!(said.starts_with(DISMISSED), "{said}");
    }

    #[test]
    fn the_reason_of_a_failure_is_found_among_what_a_node_says() {
        let check = |line: &str, expect: Option<&str>| {
            assert_eq!(failure_in(line).as_deref(), expect, "{line}");
        };
        check("error: server 0 of tokyo is lost", Some("server 0 of tokyo is lost"));
        check("2026-11-21T00:00:00Z  INFO gaia: error: no", None);
        let json = r#"{"level":"ERROR","fields":{"message":"error: it is lost\n  because x"}}"#;
        check(json, Some("it is lost\n  because x"));
        check(r#"{"level":"WARN","fields":{"message":"error: no"}}"#, None);
        check(r#"{"level":"ERROR"}"#, None);
    }
}
