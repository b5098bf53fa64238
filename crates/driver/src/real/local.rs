//! All nodes of a run as processes of this machine, on 127.0.0.1: `gaia train --driver real`.
//!
//! This process is the coordinator. It starts the others with certificates issued for the run. A child holds one end of
//! a pipe and ends when this process ends, for any reason. Children are killed if this process continues without them.
//! So no child outlives the run.
//!
//! Certificates are in a temporary folder with access for this user only. They are deleted at the end of the run, also
//! after a signal. If this process is killed they stay, except the authority's key, which is never written.
//!
//! A child that is killed or crashes is restarted and continues from its log. A child that fails with an error ends the
//! run.
//!
//! The state of the coordinator is kept beside those of the nodes. So if all processes are killed, another process of
//! this one continues the run: it issues other certificates, and listens at another port, which no state contains.
//!
//! An interrupted run ends in order: the coordinator stops it as by any rule.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
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
use crate::interrupted::Interrupted;
use crate::real::agreement::Agreement;
use crate::real::conductor::Conductor;
use crate::real::connections::acceptor::{Acceptor, listen};
use crate::real::error::RealError;
use crate::real::node::context::{RunContext, nodes};
use crate::real::runtime;
use crate::{Outcome, RunError, RunOptions};
use gaia_certificates::Directory;
use gaia_checkpoint::StateFile;
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

/// Starts and restarts children.
struct Supervisor {
    run_context: RunContext,
    /// The folder of the run file and the certificates.
    folder: PathBuf,
    states: PathBuf,
    files: Option<NodeFiles>,
    coordinator: String,
    /// The command with which nodes are started, up to `node`. `None`: the running program.
    program: Option<Vec<OsString>>,
}

/// The files of the nodes that a run starts.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    /// The folder of the durable state of each node and of the coordinator. A run that finds states here continues from
    /// them.
    pub states: PathBuf,
    /// The folder of log files. The name of a node's file is that of its folder of certificates, such as
    /// `tokyo/server-0.log`. A worker that shares a process with a server shares its log.
    pub logs: PathBuf,
    /// The folder of the models that data centers keep, with a folder for each.
    pub models: PathBuf,
    /// Whether log lines are JSON objects instead of text.
    pub json: bool,
}

/// A child that has ended and is not restarted.
struct Exit {
    name: String,
    status: io::Result<ExitStatus>,
    /// The last lines of its standard error.
    said: String,
}

/// Runs a plan as processes of this machine.
///
/// The started program is the running one, which must be `gaia`.
pub(crate) fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
    files: Option<&NodeFiles>,
) -> Result<Outcome, RunError> {
    if std::env::var_os(CHILD).is_some() {
        return Err(RealError::Nested.into());
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(conduct(plan, application, options, observer, files));
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome?)
}

async fn conduct(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
    files: Option<&NodeFiles>,
) -> Result<Outcome, RealError> {
    let interrupted = Interrupted(options.interrupted.clone());
    let wall = time::Instant::now();
    let folder = private_folder()?;
    let plan = &on_this_machine(plan);
    std::fs::write(folder.path().join(RUN_FILE), plan.to_toml())?;
    let certificates = folder.path().join(CERTIFICATES);
    let blueprint = Blueprint::new(plan, application);
    let run_context = RunContext::new(plan, &certificates);
    run_context.agree_on(&blueprint);
    issue(&run_context, &certificates)?;

    let context = run_context.node_context(NodeId::Coordinator)?;
    let listener = listen(&*run_context.environment, ([127, 0, 0, 1], 0).into()).await?;
    let address = listener.local_addr()?.to_string();
    let states = files.map_or_else(|| folder.path().join(STATES), |files| files.states.clone());
    let agreement = plan.has_own_data().then(|| Agreement::open(&run_context, Some(&states)));
    let agreement = agreement.transpose()?.map(Arc::new);
    let callers = nodes(&context.run_context).collect();
    let acceptor = Acceptor::open(&context, listener, callers, agreement.clone());

    let supervisor = Arc::new(Supervisor {
        run_context: run_context.clone(),
        folder: folder.path().to_owned(),
        states: states.clone(),
        files: files.cloned(),
        coordinator: address,
        program: options.program.clone(),
    });
    let file = StateFile::new(&states.join(COORDINATOR), blueprint.plan_hash)?;

    // Dropping the children kills those that still run.
    let (mut exits, mut children) = supervisor.start_all(plan)?;
    let goes_on = plan.failures.on_give_up == OnGiveUp::Leave;
    let conductor = Conductor::new(
        &context,
        &blueprint,
        application,
        observer,
        acceptor,
        Some(file),
        interrupted.clone(),
    );
    let gathering = async {
        if let Some(agreement) = &agreement {
            agreement.gathered().await;
            agreement.conclude(None)?;
        }
        conductor.gather().await
    };
    let conducting = async {
        // Before the nodes are here there is nothing to end in order.
        let gathered = interrupted.run_until_set(gathering).await;
        gathered.ok_or(RealError::Interrupted)??.conduct(wall).await
    };
    let conducted = tokio::select! {
        conducted = conducting => conducted,
        failed = failed(&mut exits, goes_on) => Err(failed),
    };

    conclude(conducted, &mut children, &mut exits).await
}

/// Waits for the end of the children, or finds the root cause of a failure.
async fn conclude(
    conducted: Result<Outcome, RealError>,
    children: &mut JoinSet<()>,
    exits: &mut UnboundedReceiver<Exit>,
) -> Result<Outcome, RealError> {
    match conducted {
        Ok(outcome) => {
            all_ended(children).await;
            Ok(outcome)
        }
        // An interrupted run has no root cause.
        Err(error @ RealError::Interrupted) => {
            children.shutdown().await;
            Err(error)
        }
        Err(error) => Err(root_cause(error, exits).await),
    }
}

/// The plan with free ports of this machine instead of the addresses of the topology.
fn on_this_machine(plan: &Plan) -> Plan {
    let deployment =
        Deployment { coordinator: None, servers: Vec::new(), ..plan.deployment.clone() };
    Plan { deployment, ..plan.clone() }
}

/// Waits until all children have ended. Kills those that have not in time.
async fn all_ended(children: &mut JoinSet<()>) {
    let ended = async { while children.join_next().await.is_some() {} };
    let _late = timeout(EXIT_MAX, ended).await;
    children.shutdown().await;
}

/// The nodes of each process: worker i and server i share one if they share a machine in the topology.
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

/// Issues and writes the certificates of all nodes. The authority's key is not needed after that, so it is never
/// written.
pub(super) fn issue(run_context: &RunContext, folder: &Path) -> Result<(), RealError> {
    let all = std::iter::once(NodeId::Coordinator).chain(nodes(run_context));
    let identities: Vec<_> = all.map(|node| run_context.identity(node)).collect();
    Directory::issue_once(folder, &run_context.plan.name, &identities, UnixTime::now(), LASTING)?;
    Ok(())
}

/// Creates a folder for keys with access for this user only.
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
    /// Starts all processes of a run, and watches them. Returns the exits of those that are not restarted, and the
    /// tasks that hold the children.
    fn start_all(
        self: &Arc<Self>,
        plan: &Plan,
    ) -> Result<(UnboundedReceiver<Exit>, JoinSet<()>), RealError> {
        let (ended, exits) = unbounded_channel();
        let mut children = JoinSet::new();

        for (server, worker) in processes(plan) {
            let process = Process::new(&self.run_context, server, worker);
            let first = self.start(&process)?;
            let log = self.files.as_ref();
            let log = log.map(|files| files.open(&self.run_context, server, worker)).transpose()?;
            let (supervisor, ended) = (self.clone(), ended.clone());
            children.spawn(async move {
                let exit = supervisor.keep(process, first, log).await;
                // The receiver is gone if the run has failed.
                let _over = ended.send(exit);
            });
        }

        Ok((exits, children))
    }

    fn start(&self, process: &Process) -> Result<Child, RealError> {
        let topology = &self.run_context.plan.topology;
        let Process { name, server, worker } = process;
        let dc = server.map(|server| server.dc).or_else(|| worker.map(|worker| worker.dc));
        let dc = dc.expect("a process has a node");
        let program = match &self.program {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe().map(|program| vec![program.into()]),
        };
        let started = program.and_then(|program| {
            let (name, arguments) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
            let mut command = Command::new(name);
            command.args(arguments).arg("node").arg(self.folder.join(RUN_FILE));
            command.args(["--dc", &topology.dc(dc).name]);
            if let Some(server) = server {
                command.args(["--server", &server.shard.0.to_string(), "--listen", "127.0.0.1:0"]);
            }
            if let (Some(_), Some(files)) = (server, &self.files) {
                command.arg("--out").arg(files.models.join(&topology.dc(dc).name));
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
            // All children would listen at the same address.
            command.env_remove("GAIA_METRICS");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
            // Ctrl-C on a terminal is for this process, which ends the run in order.
            #[cfg(unix)]
            command.process_group(0);
            command.kill_on_drop(true).spawn()
        });

        started.map_err(|error| RealError::NotStarted {
            node: name.clone(),
            reason: error.to_string(),
        })
    }

    /// Watches a child, and restarts it if it was killed or crashed, unless that occurs too often.
    async fn keep(&self, process: Process, mut child: Child, log: Option<File>) -> Exit {
        let mut starts = VecDeque::new();
        loop {
            // A restarted child appends to the same log.
            let log = log.as_ref().and_then(|log| log.try_clone().ok());
            let exit = watch(process.name.clone(), child, log).await;
            starts.retain(|at: &time::Instant| at.elapsed() < RESTARTS_WITHIN);
            let waits = !self.run_context.plan.failures.give_up_after.0.is_zero();
            if !exit.was_killed() || !waits || starts.len() >= RESTARTS_MAX {
                return exit;
            }
            if let Ok(status) = &exit.status {
                warn!("{} ended ({status}) and is restarted", process.name);
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

/// Reads the output of a child until it ends. Its standard input stays open until this is dropped.
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
                warn!("cannot write to the log of {name}, which ends here: {error}");
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

/// The error of a child, if a line of its log has one, as text or JSON.
fn failure_in(line: &str) -> Option<String> {
    if let Some(reason) = line.strip_prefix(ERROR) {
        return Some(reason.into());
    }
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    let message = event["fields"]["message"].as_str().filter(|_| event["level"] == "ERROR")?;
    Some(message.strip_prefix(ERROR).unwrap_or(message).into())
}

impl NodeFiles {
    /// Opens the log of a process with these nodes, to append to it.
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
        let unopened =
            |reason: String| RealError::NoLog { path: path.display().to_string(), reason };
        if path.is_symlink() {
            return Err(unopened("it is a symbolic link, expected a file".into()));
        }

        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| File::options().create(true).append(true).open(&path))
            .map_err(|error| unopened(error.to_string()))
    }
}

/// Waits for the first child that fails. Never returns if none does. `goes_on` is whether the coordinator can continue
/// without a lost child, and gives it up itself.
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

/// The root cause of a failure. A failed child makes others fail, so a child that was killed comes first.
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
    /// Whether it was ended by a signal, which it may have handled, or by a crash.
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

/// The exit code of a Rust process that has panicked.
const PANICKED: i32 = 101;

/// The exit code of an interrupted node.
const INTERRUPTED: i32 = 75;

/// The largest number of restarts of a child.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

const STATES: &str = "states";
/// The file of the coordinator's state, beside the folders of the nodes.
pub(super) const COORDINATOR: &str = "coordinator";
const RUN_FILE: &str = "run.toml";
const CERTIFICATES: &str = "certificates";

/// The beginning of a line with the error of a process.
const ERROR: &str = "error: ";

/// The beginning of the text of [`RealError::Dismissed`].
const DISMISSED: &str = "this node takes no part in the run";

/// The environment variable with the log filter.
const LOG: &str = "GAIA_LOG";
/// Of quinn only errors: any host can cause its warnings about packets, one by each packet.
const LOGGED: &str = "warn,quinn_proto=error,gaia=info";

/// The environment variable that is set for children, so that none starts nodes of its own.
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
        let json = r#"{"level":"ERROR","fields":{"message":"error: it is lost\n  cause: x"}}"#;
        check(json, Some("it is lost\n  cause: x"));
        check(r#"{"level":"WARN","fields":{"message":"error: no"}}"#, None);
        check(r#"{"level":"ERROR"}"#, None);
    }
}
