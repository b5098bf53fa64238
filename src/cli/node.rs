//! `gaia node`: one process of a run over many.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::deciding::{chosen_by_coordinator, tell};
use super::directory_lock::{DirectoryLock, check_is_of};
use super::log::name_node;
use super::node_data::data_of;
use super::out::Claim;
use super::train::{Before, show_again};
use super::training::{Shown, carry_out_with, show_result};
use super::{Done, Failure, LiveFlags, Resume, RunFlags, Terminal, signals};
use crate::applications::Applications;
use gaia_config::{Plan, Variables, coordinator_address, placed};
use gaia_core::types::{DcId, NodeId, ServerId, ShardId, WorkerId};
use gaia_driver::real::{Choose, Node, NodeEnd, NodeOptions, Preparation, labels, watch};
use gaia_report::RunDirectory;
use gaia_telemetry::{Telemetry, Unobserved};

#[derive(Debug, Args)]
pub(crate) struct NodeFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
    /// Serve /metrics for Prometheus, /healthz and /readyz over HTTP at this address, without authentication. A port
    /// alone is a port of 127.0.0.1. Port 0 is any free port, which the node reports [default: not served]
    #[arg(long, value_name = "[IP:]PORT", env = METRICS, hide_env = true, value_parser = watched_at)]
    pub(crate) metrics: Option<SocketAddr>,
    /// End when standard input ends; for a process that starts nodes
    #[arg(long)]
    pub(crate) ends_with_stdin: bool,
    #[command(flatten)]
    pub(crate) live: LiveFlags,
}

/// Which nodes a process is, and how others reach it. What is left out comes from the environment.
#[derive(Debug, Default, Args)]
pub(crate) struct PlaceFlags {
    /// The data center of the server and the worker
    #[arg(long, value_name = "NAME")]
    pub(crate) dc: Option<String>,
    /// Run this server of the data center
    #[arg(long, value_name = "N", requires = "dc")]
    pub(crate) server: Option<u16>,
    /// Run this worker of the data center; with --server, both run in this process
    #[arg(long, value_name = "N", requires = "dc")]
    pub(crate) worker: Option<u16>,
    /// Run the coordinator, which writes the run directory
    #[arg(long, conflicts_with_all = ["dc", "server", "worker"])]
    pub(crate) coordinator: bool,
    /// The directory of certificates that gaia certs has written, or the folder of this node in it
    /// [default: GAIA_CERTS, or certs]
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,
    /// The state directory. A node that crashed continues if it is started again with the same one
    /// [default: GAIA_STATE, or no state is kept]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Listen at this address instead of that in the topology; port 0 is any free port
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}

/// Runs the nodes of this process until the run is over.
pub(super) fn node(
    flags: &NodeFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let file = flags.run.read_for_nodes(applications)?;
    let plan = file.plan()?;
    let mut options = flags.place.options(&plan, flags.ends_with_stdin)?;
    options.models.clone_from(&flags.run.output.out);
    name_node(&labels(&plan, &options.nodes).join("+"));

    if let Some(address) = flags.metrics {
        let address = watch(address, &options.telemetry).map_err(Failure::run)?;
        terminal.note(&format!("metrics at http://{address}/metrics"));
    }

    let is_coordinator = options.nodes.contains(&NodeId::Coordinator);
    // What a coordinator that comes back has written stays.
    let resume = if options.state.is_some() { Resume::Auto } else { Resume::Never };
    let out = flags.run.output.out.as_deref().filter(|_| is_coordinator);
    let _claim = Claim::of(out, &resume)?;

    let data = data_of(&plan, &options.nodes, &file, applications)?;
    if flags.live.live.is_some() && !is_coordinator {
        return Err(Failure::usage(NOT_SHOWN));
    }
    let page = flags.live.serve(terminal)?;
    if options.state.is_some() && !is_coordinator {
        // A node without a state directory cannot continue later. There the signal keeps its default effect.
        options.interrupted = Some(signals::interrupted().map_err(Failure::run)?);
    }
    let choose: &Choose<'_> = &|plan, application, summaries| {
        chosen_by_coordinator(plan, application, summaries, applications)
    };
    let node = match Node::prepare(&plan, data, &options, choose).map_err(Failure::run)? {
        Preparation::Ready(node) => node,
        Preparation::Interrupted => return Ok(Done::Interrupted),
    };
    let plan = node.plan().clone();
    tell(&plan, terminal);
    if !is_coordinator {
        // Only the coordinator receives the progress of the run.
        return Ok(match node.run(&mut Unobserved).map_err(Failure::run)? {
            NodeEnd::Interrupted => {
                terminal.note("interrupted: the same command continues from the state");
                Done::Interrupted
            }
            NodeEnd::Conducted(_) | NodeEnd::Over => {
                terminal.note("the run is over");
                Done::Whole
            }
        });
    }

    let output = &flags.run.output;
    if let Some(out) = &output.out
        && options.has_conducted()
        && let Before::Finished(directory, record) = Before::of(out, &plan)?
    {
        return show_again(&directory, &record, terminal);
    }
    let directory = match &output.out {
        // A coordinator that comes back writes on where it was.
        Some(out) if options.state.is_some() => RunDirectory::reopen(out),
        out => RunDirectory::create(out.as_deref(), &plan.name),
    };
    let directory = directory.map_err(Failure::out)?;
    let _lock = DirectoryLock::acquire(&directory)?;
    check_is_of(&directory, &plan)?;
    let application = node.application().clone();
    terminal.note(&application.describe());
    let shown = Shown { page: page.as_ref(), ..Shown::alone(output) };
    let outcome = carry_out_with(&plan, &application, &directory, shown, |observer| {
        match node.run(observer)? {
            NodeEnd::Conducted(outcome) => Ok(*outcome),
            NodeEnd::Over | NodeEnd::Interrupted => {
                unreachable!("the coordinator conducts to the end")
            }
        }
    })?;

    show_result(&outcome.summary, &outcome.highlights, &directory, terminal);
    outcome.check_sound().map_err(Failure::run)?;

    Ok(Done::Whole)
}

impl PlaceFlags {
    /// The options of this process. Flags take precedence over environment variables.
    ///
    /// # Errors
    /// If neither names a node, or a value is wrong.
    pub(super) fn options(
        &self,
        plan: &Plan,
        ends_with_stdin: bool,
    ) -> Result<NodeOptions, Failure> {
        let variables: Variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let mut nodes = self.nodes(plan)?;

        if nodes.is_empty() {
            nodes.extend(placed(&variables, &plan.topology).map_err(Failure::usage)?);
        }
        if nodes.is_empty() {
            return Err(Failure::usage(NO_PLACE));
        }
        let certificates = self.certs.clone().or_else(|| variables.get(CERTS).map(PathBuf::from));

        Ok(NodeOptions {
            nodes,
            certificates: certificates.unwrap_or_else(|| "certs".into()),
            listen: self.listen,
            state: self.state.clone().or_else(|| variables.get(STATE).map(PathBuf::from)),
            coordinator: coordinator_address(&variables).map_err(Failure::usage)?,
            models: None,
            interrupted: None,
            ends_with_stdin,
            telemetry: Telemetry::new(),
        })
    }

    /// The data center that `--dc` names.
    ///
    /// # Errors
    /// If the topology has none of that name.
    pub(super) fn data_center(&self, plan: &Plan) -> Result<Option<DcId>, Failure> {
        let Some(name) = &self.dc else { return Ok(None) };
        let topology = &plan.topology;
        let found = topology.dc_named(name);
        if found.is_none() {
            let names: Vec<&str> =
                topology.data_centers.iter().map(|dc| dc.name.as_str()).collect();
            let names = names.join(", ");
            return Err(Failure::usage(format!("--dc is `{name}`, expected one of {names}")));
        }
        Ok(found)
    }

    fn nodes(&self, plan: &Plan) -> Result<Vec<NodeId>, Failure> {
        if self.coordinator {
            return Ok(vec![NodeId::Coordinator]);
        }
        let (Some(name), Some(dc)) = (&self.dc, self.data_center(plan)?) else {
            return Ok(Vec::new());
        };

        let mut nodes = Vec::new();
        nodes.extend(self.server.map(|number| server(dc, number)));
        nodes.extend(self.worker.map(|number| worker(dc, number)));
        let own = plan.topology.dc(dc);
        let within = |flag: &str, number: Option<u16>, count: usize| match number {
            Some(number) if usize::from(number) >= count => {
                let most = count - 1;
                let said = format!("{flag} is `{number}`, expected 0 to {most} for {name}");
                Err(Failure::usage(said))
            }
            _ => Ok(()),
        };

        within("--server", self.server, own.servers)?;
        within("--worker", self.worker, own.workers)?;
        if nodes.is_empty() {
            return Err(Failure::usage(
                "--dc names a data center without a node, expected also --server N, --worker N or both",
            ));
        }

        Ok(nodes)
    }
}

/// Where to answer who watches.
fn watched_at(text: &str) -> Result<SocketAddr, String> {
    let port = || Some(SocketAddr::from(([127, 0, 0, 1], text.parse().ok()?)));
    text.parse().ok().or_else(port).ok_or_else(|| {
        format!("expected PORT or IP:PORT, such as 9464 or 0.0.0.0:9464, in --metrics or {METRICS}")
    })
}

fn server(dc: DcId, number: u16) -> NodeId {
    NodeId::Server(ServerId { dc, shard: ShardId(number) })
}

fn worker(dc: DcId, index: u16) -> NodeId {
    NodeId::Worker(WorkerId { dc, index })
}

const METRICS: &str = "GAIA_METRICS";
const CERTS: &str = "GAIA_CERTS";
const STATE: &str = "GAIA_STATE";
const NOT_SHOWN: &str = "--live: only the coordinator receives the progress of the run, expected --live with --coordinator";
const NO_PLACE: &str = "no flag or variable names the node, expected --dc NAME --server N, --dc NAME --worker N or \
                        --coordinator, or GAIA_ROLE to be set";

pub(super) const NODE_HELP: &str = "\
Examples:
  gaia node run.toml --coordinator --certs certs --out runs/first
  gaia node run.toml --dc tokyo --server 0 --certs certs
  gaia node run.toml --dc tokyo --server 0 --worker 0 --certs certs
  gaia train run.toml --driver real      (all nodes on this machine)

The topology sets where nodes listen: `coordinator_address`, and `server_addresses` in each data center. Workers \
open connections and do not listen. Nodes start in any order and wait for each other. Every node needs the same run \
file and settings, and a certificate of the run. A node that fails ends the run, and every other node names it.

Environment, used if no flag names the node:
  GAIA_ROLE         coordinator, server or worker, with GAIA_DC and GAIA_INDEX
                    [default: 0]
  RANK, SLURM_PROCID, JOB_COMPLETION_INDEX
                    of torchrun, Slurm and JobSet, the first that is set: 0 is
                    the coordinator; then come, data center by data center, its
                    servers and its workers; with GAIA_DC, ranks count from 0 in
                    that data center
  GAIA_COORDINATOR  where the coordinator listens, HOST:PORT; otherwise
                    MASTER_ADDR and MASTER_PORT of torchrun
  GAIA_CERTS        the certificates, as --certs
  GAIA_STATE        the state directory, as --state
  GAIA_METRICS      the address for metrics and health, as --metrics

With --metrics the node serves HTTP. /metrics has its metrics in the format of Prometheus. /healthz is 200 while the \
node's event loop runs, and 503 with a reason after it has not run for 10 s. /readyz is 200 while the run has started \
and all peers are connected, and 503 with the reason otherwise. The endpoint is unauthenticated: keep it on 127.0.0.1 \
or on a private network.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let check = |text: &str, expect: Option<&str>| {
            let found = watched_at(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expect, "{text}");
        };
        check("9464", Some("127.0.0.1:9464"));
        check("0", Some("127.0.0.1:0"));
        check("0.0.0.0:9464", Some("0.0.0.0:9464"));
        check("[::1]:9464", Some("[::1]:9464"));
        for wrong in ["", "65536", "-1", "localhost", ":9464", "127.0.0.1"] {
            check(wrong, None);
        }
    }
}
