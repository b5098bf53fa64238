//! All nodes of a run as processes of this machine, on 127.0.0.1: `gaia train --driver real`.
//!
//! This process is the coordinator; it starts the others with certificates made for the run. A child holds one end of
//! a pipe and ends when this process does, whatever ends it; children are killed where this process goes on without
//! them. So none is left behind.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant as Moment, timeout};
use tracing::info;

use super::conductor::{Conductor, nodes};
use super::door::{Door, listen};
use super::error::RealError;
use super::runtime;
use super::site::Site;
use crate::certificates::Directory;
use crate::config::Plan;
use crate::driver::cluster::{Blueprint, server_ids, worker_ids};
use crate::driver::{Outcome, RunError};
use crate::ml::Application;
use crate::telemetry::Observer;
use crate::topology::Deployment;
use crate::types::{NodeId, ServerId, WorkerId};

/// A child that has ended.
struct Exit {
    name: String,
    status: std::io::Result<ExitStatus>,
    /// The last that it said on standard error.
    said: String,
}

/// Runs a plan over processes of this machine.
///
/// The program that is started is the one that runs: it has to be `gaia`.
pub(in crate::driver) fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    if std::env::var_os(CHILD).is_some() {
        return Err(RealError::Nested.into());
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(conduct(plan, application, observer));
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome?)
}

async fn conduct(
    plan: &Plan,
    application: &Arc<dyn Application>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RealError> {
    let wall = Moment::now();
    let folder = tempfile::Builder::new().prefix("gaia-").tempdir()?;
    // Whatever addresses the topology has, here every port is one that is free.
    let deployment =
        Deployment { coordinator: None, servers: Vec::new(), ..plan.deployment.clone() };
    let plan = &Plan { deployment, ..plan.clone() };
    std::fs::write(folder.path().join(RUN_FILE), plan.to_toml())?;
    let certificates = folder.path().join(CERTIFICATES);
    let blueprint = Blueprint::new(plan, application);
    let site = Site::new(plan, blueprint.plan_hash, &certificates);
    issue(&site, &certificates)?;
    let seat = site.seat(NodeId::Coordinator)?;
    let listener = listen(([127, 0, 0, 1], 0).into()).await?;
    let address = listener.local_addr()?.to_string();
    let door = Door::open(&seat, listener, nodes(&seat).collect());
    let (ended, mut exits) = unbounded_channel();
    // Dropped last of all, and with it every child that still runs.
    let mut children = JoinSet::new();
    for (server, worker) in processes(plan) {
        let (name, child) = start(&site, folder.path(), &address, server, worker)?;
        let ended = ended.clone();
        children.spawn(async move {
            let exit = watch(name, child).await;
            // Nobody asks any more once the run has failed.
            let _over = ended.send(exit);
        });
    }
    drop(ended);
    let conducted = {
        let conducting = async {
            let gathered =
                Conductor::gather(&seat, &blueprint, application, observer, door).await?;
            gathered.conduct(wall).await
        };
        tokio::select! {
            conducted = conducting => conducted,
            failed = failed(&mut exits) => Err(failed),
        }
    };
    match conducted {
        Ok(outcome) => {
            let _late =
                timeout(EXIT_MAX, async { while children.join_next().await.is_some() {} }).await;
            Ok(outcome)
        }
        Err(error) => Err(blame(error, &mut exits).await),
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

fn issue(site: &Site, folder: &Path) -> Result<(), RealError> {
    let topology = &site.plan.topology;
    let servers = server_ids(topology).map(NodeId::Server);
    let workers = worker_ids(topology).map(NodeId::Worker);
    let all = std::iter::once(NodeId::Coordinator).chain(servers).chain(workers);
    let identities: Vec<_> = all.map(|node| site.identity(node)).collect();
    let now = UnixTime::now();
    Directory::create(folder, &site.plan.name, now)?.issue(&identities, now, LASTING)?;
    Ok(())
}

fn start(
    site: &Site,
    folder: &Path,
    coordinator: &str,
    server: Option<ServerId>,
    worker: Option<WorkerId>,
) -> Result<(String, Child), RealError> {
    let topology = &site.plan.topology;
    let names = [server.map(NodeId::Server), worker.map(NodeId::Worker)];
    let names: Vec<String> = names.into_iter().flatten().map(|node| site.name(node)).collect();
    let name = names.join(" with ");
    let dc = server.map(|server| server.dc).or_else(|| worker.map(|worker| worker.dc));
    let dc = dc.expect("a process has a node");
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.arg("node").arg(folder.join(RUN_FILE)).args(["--dc", &topology.dc(dc).name]);
        if let Some(server) = server {
            command.args(["--server", &server.shard.0.to_string(), "--listen", "127.0.0.1:0"]);
        }
        if let Some(worker) = worker {
            command.args(["--worker", &worker.index.to_string()]);
        }
        command.arg("--certs").arg(folder.join(CERTIFICATES));
        command.args(["--quiet", "--ends-with-stdin"]);
        command.env("GAIA_COORDINATOR", coordinator).env(CHILD, "1").env("NO_COLOR", "1");
        // All would listen at the same address.
        command.env_remove("GAIA_METRICS");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.kill_on_drop(true).spawn()
    });
    match started {
        Ok(child) => Ok((name, child)),
        Err(error) => Err(RealError::NotStarted { node: name, reason: error.to_string() }),
    }
}

/// Hears what a child says until it ends. Its standard input stays open for as long as this is not dropped.
async fn watch(name: String, mut child: Child) -> Exit {
    let _open = child.stdin.take();
    let mut said = VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            info!(node = name, "{line}");
            said.push_back(line);
            if said.len() > LINES_KEPT {
                said.pop_front();
            }
        }
    }
    let status = child.wait().await;
    Exit { name, status, said: Vec::from(said).join("; ") }
}

/// Waits for the first child that fails; for ever where none does.
async fn failed(exits: &mut UnboundedReceiver<Exit>) -> RealError {
    while let Some(exit) = exits.recv().await {
        if let Some(error) = exit.failure() {
            return error;
        }
    }
    std::future::pending().await
}

/// Who is to blame: where one failed others fail of that, so a child that something killed comes first.
async fn blame(error: RealError, exits: &mut UnboundedReceiver<Exit>) -> RealError {
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
    fn failure(&self) -> Option<RealError> {
        let reason = match &self.status {
            Ok(status) if status.success() => return None,
            Ok(status) if self.said.is_empty() || status.code().is_none() => status.to_string(),
            Ok(_) => self.said.trim_start_matches("error: ").to_owned(),
            Err(error) => error.to_string(),
        };
        Some(RealError::Failed { node: self.name.clone(), reason })
    }
}

const RUN_FILE: &str = "run.toml";
const CERTIFICATES: &str = "certificates";

/// Set for children, so that none starts nodes of its own.
const CHILD: &str = "GAIA_CHILD";

const LASTING: Duration = Duration::from_secs(366 * 86_400);
const EXIT_MAX: Duration = Duration::from_secs(10);
const BLAME_MAX: Duration = Duration::from_millis(500);
const LINES_KEPT: usize = 8;
