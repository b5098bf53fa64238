//! `gaia check`: whether a run file is right, and what it would run.

use serde::Serialize;

use super::check_data::{PlaceFindings, check_data};
use super::memory::check_memory;
use super::node::PlaceFlags;
use super::{CheckFlags, Failure, Terminal};
use crate::applications::Applications;
use gaia_config::{ComputeModel, ComputeRate, Decision, DriverKind, Plan};
use gaia_core::application::Application;
use gaia_core::coordinator::{ChangeBy, ChangeRule, StopRules};
use gaia_core::server::ExchangeRoute;
use gaia_core::sync::{AspConfig, LocalSync, Overlap, RemoteSync};
use gaia_core::topology::Topology;
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting};
use gaia_driver::check_model;
use gaia_driver::real::{LinkCheck, check_links};
use gaia_planner::Memory;
use gaia_report::figures;

/// What a run file would run.
#[derive(Debug, Serialize)]
struct Findings {
    name: String,
    driver: &'static str,
    seed: u64,
    app: &'static str,
    /// What is trained on. Unknown where this machine has not the data of all data centers.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<usize>,
    /// What `--data` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    places: Option<Vec<PlaceFindings>>,
    local_sync: String,
    remote_sync: String,
    wan: String,
    bandwidth_scale: f64,
    data_centers: Vec<String>,
    servers: usize,
    workers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<LinkFindings>,
    /// What the run holds, without its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryFindings>,
    compute: String,
    stop: String,
    /// What `--connect` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<Vec<ConnectionFindings>>,
}

/// Bytes of parameters that servers and workers hold once all parameters in use have changed.
#[derive(Debug, Serialize)]
struct MemoryFindings {
    server: ByteSize,
    worker: ByteSize,
    all: ByteSize,
    /// What this process may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<ByteSize>,
}

/// One link of this node, as it was tried.
#[derive(Debug, Serialize)]
struct ConnectionFindings {
    from: String,
    to: String,
    protocol: &'static str,
    address: Option<String>,
    /// What is wrong; nothing where the link works.
    fault: Option<String>,
}

/// The WAN in a few figures.
#[derive(Debug, Serialize)]
struct LinkFindings {
    count: usize,
    bandwidth_min: Bandwidth,
    bandwidth_mean: Bandwidth,
    bandwidth_max: Bandwidth,
    rtt_max: DurationSetting,
    /// The whole model once, in single precision: what a clock of BSP sends over each link at most.
    dense_update: ByteSize,
    /// How long the slowest link takes for that.
    dense_update_slowest: DurationSetting,
}

/// Checks a run file, its topology and its data, and shows what would run.
pub(super) fn check(
    flags: &CheckFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<(), Failure> {
    // Links are those of a node.
    let file = match flags.connect {
        true => flags.run.read_for_nodes(applications)?,
        false => flags.run.read(applications)?,
    };
    let plan = file.plan()?;
    let own = flags.place.data_center(&plan)?;
    check_place(flags)?;
    let checked = check_data(&plan, own, flags.data, &file, applications)?;
    let application = checked.application.as_ref();
    if let Some(application) = application {
        check_model(&plan, application.as_ref()).map_err(Failure::usage)?;
    }
    let mut findings = Findings::new(&plan, application.map(AsRef::as_ref));
    findings.places = flags.data.then_some(checked.places);
    let mut broken = 0;

    if flags.connect {
        let options = flags.place.options(&plan, false)?;
        let checks = check_links(&plan, application, &options).map_err(Failure::run)?;
        broken = checks.iter().filter(|check| check.fault.is_some()).count();
        findings.connections = Some(checks.iter().map(ConnectionFindings::new).collect());
    }

    for line in findings.lines() {
        terminal.line(&line);
    }
    terminal.result(&findings);

    if let Some(unread) = checked.unread {
        return Err(unread);
    }
    // Nodes of the real driver may be on machines of their own.
    if let Some(application) = application.filter(|_| plan.driver != DriverKind::Real) {
        check_memory(&[&plan], application.as_ref(), &flags.run, terminal)?;
    }
    match broken {
        0 => Ok(()),
        1 => Err(Failure::run("a link does not work")),
        broken => Err(Failure::run(format!("{broken} links do not work"))),
    }
}

/// Refuses flags that say which node this is, where nothing is checked for one node.
fn check_place(flags: &CheckFlags) -> Result<(), Failure> {
    if flags.connect {
        return Ok(());
    }
    let PlaceFlags { dc, server, worker, coordinator, certs, state, listen } = &flags.place;
    let of_a_node = [
        ("--server", server.is_some()),
        ("--worker", worker.is_some()),
        ("--coordinator", *coordinator),
        ("--certs", certs.is_some()),
        ("--state", state.is_some()),
        ("--listen", listen.is_some()),
    ];
    if let Some((flag, _)) = of_a_node.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "{flag} is for the links of one node, expected --connect beside it"
        )));
    }
    if dc.is_some() && !flags.data {
        return Err(Failure::usage(
            "--dc is for the data or the links of one data center, expected --data or --connect beside it",
        ));
    }
    Ok(())
}

impl MemoryFindings {
    fn new(plan: &Plan, application: &dyn Application) -> Self {
        let Memory { server, worker, all } = Memory::of(plan, application);
        let free = gaia_data::free_memory().map(ByteSize);
        Self { server: ByteSize(server), worker: ByteSize(worker), all: ByteSize(all), free }
    }
}

impl ConnectionFindings {
    fn new(check: &LinkCheck) -> Self {
        Self {
            from: check.from.clone(),
            to: check.to.clone(),
            protocol: check.protocol,
            address: check.address.as_ref().map(ToString::to_string),
            fault: check.fault.as_ref().map(ToString::to_string),
        }
    }
}

impl Findings {
    fn new(plan: &Plan, application: Option<&dyn Application>) -> Self {
        let topology = &plan.topology;
        let parameters = application.map(|application| application.layout().parameters());
        Self {
            name: plan.name.clone(),
            driver: plan.driver.name(),
            seed: plan.seed.0,
            app: plan.app_name(),
            data: application.map(Application::describe),
            parameters,
            places: None,
            local_sync: local(plan.local),
            remote_sync: match plan.decision {
                Decision::Open => "auto".into(),
                Decision::Given | Decision::Made(_) => remote(plan),
            },
            wan: topology.name.clone(),
            bandwidth_scale: topology.bandwidth_scale,
            data_centers: topology.data_centers.iter().map(|dc| dc.name.clone()).collect(),
            servers: topology.servers(),
            workers: topology.workers(),
            links: parameters.and_then(|parameters| LinkFindings::new(topology, parameters)),
            memory: application.map(|application| MemoryFindings::new(plan, application)),
            compute: compute(plan),
            stop: stop(&plan.stop),
            connections: None,
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "{}: {} on the {} driver, seed {}",
                self.name, self.app, self.driver, self.seed
            ),
            format!("  sync      local {}; remote {}", self.local_sync, self.remote_sync),
            format!(
                "  topology  {}: {} data center{}, {} servers, {} workers",
                self.wan,
                self.data_centers.len(),
                if self.data_centers.len() == 1 { "" } else { "s" },
                self.servers,
                self.workers
            ),
            format!("            {}", self.data_centers.join(", ")),
        ];
        if let Some(data) = &self.data {
            lines.insert(1, format!("  data      {data}"));
        }

        if let Some(links) = &self.links {
            let scale = match self.bandwidth_scale {
                1.0 => String::new(),
                scale => format!(" (bandwidths scaled by {scale})"),
            };
            lines.push(format!(
                "  links     {}, {} to {}, mean {}, RTT up to {}{scale}",
                links.count,
                links.bandwidth_min,
                links.bandwidth_max,
                links.bandwidth_mean,
                links.rtt_max
            ));
            lines.push(format!(
                "            the whole model is {}, {} over the slowest link",
                figures::bytes(links.dense_update.0),
                figures::seconds(links.dense_update_slowest.0.as_secs_f64())
            ));
        }

        if let Some(MemoryFindings { server, worker, all, free }) = &self.memory {
            let [server, worker, all] = [server, worker, all].map(|held| figures::bytes(held.0));
            let free = free.map(|free| format!("; {} are free here", figures::bytes(free.0)));
            let free = free.unwrap_or_default();
            lines.push(format!(
                "  memory    up to {server} a server, {worker} a worker, {all} in all once all parameters in use have \
                 changed, without data{free}"
            ));
        }

        lines.push(format!("  compute   {}", self.compute));
        lines.push(format!("  stop      {}", self.stop));
        lines.extend(self.places.iter().flatten().map(PlaceFindings::line));
        for link in self.connections.iter().flatten() {
            let ConnectionFindings { from, to, protocol, address, fault } = link;
            let at = address.as_deref().unwrap_or("no address");
            let found = fault.as_deref().unwrap_or("works");
            lines.push(format!("  {from} to {to} ({protocol}, {at}): {found}"));
        }

        lines
    }
}

impl LinkFindings {
    fn new(topology: &Topology, parameters: usize) -> Option<Self> {
        let (bandwidth_min, bandwidth_mean, bandwidth_max) = topology.bandwidth_range()?;
        let dense = 4 * parameters as u64;
        Some(Self {
            count: topology.links.len(),
            bandwidth_min,
            bandwidth_mean,
            bandwidth_max,
            rtt_max: topology.rtt_max(),
            dense_update: ByteSize(dense),
            dense_update_slowest: DurationSetting(bandwidth_min.time_for(dense)),
        })
    }
}

fn local(local: LocalSync) -> String {
    match local {
        LocalSync::Bsp(bsp) if local.has_quorum() => {
            format!("bsp, {} % of the updates", 100.0 * bsp.quorum)
        }
        LocalSync::Bsp(_) => "bsp".into(),
        LocalSync::Ssp { staleness } => format!("ssp, staleness {}", staleness.0),
    }
}

fn remote(plan: &Plan) -> String {
    match &plan.remote {
        RemoteSync::Bsp(_) => bsp(plan),
        RemoteSync::Tap(_) => "tap".into(),
        RemoteSync::Ssp(ssp) => format!("ssp, staleness {}", ssp.staleness.0),
        RemoteSync::Asp(AspConfig { threshold, data_center_staleness, .. }) => {
            let staleness = match data_center_staleness {
                Some(staleness) => format!("{} clocks", staleness.0),
                None => "derived from the RTT and the rate of the links".into(),
            };
            format!("asp, threshold {threshold}, data center staleness {staleness}")
        }
        RemoteSync::LocalSteps(config) => {
            let (steps, values) = (config.steps, config.values.name());
            let overlap = match config.overlap {
                Overlap::Auto => "as many of them overlapped as measured".to_owned(),
                Overlap::Clocks(clocks) => format!("{clocks} of them overlapped"),
            };
            let density = 100.0 * config.density;
            let totals = match config.total_density {
                1.0 => String::new(),
                share => format!(" and {} % of the totals", 100.0 * share),
            };
            let quorum = if config.has_quorum() {
                format!(", {} % of the parts", 100.0 * config.quorum)
            } else {
                String::new()
            };
            let drift = match config.drift_correction {
                0.0 => String::new(),
                share => format!(", drift correction {share}"),
            };
            format!(
                "local-steps, {steps} clocks per round, {overlap}, {density} % of the changes{totals}, {values}{quorum}{drift}"
            )
        }
    }
}

/// BSP, with the links of a ring or a tree.
fn bsp(plan: &Plan) -> String {
    let (what, links): (&str, Vec<(DcId, DcId)>) = match plan.exchange_route() {
        ExchangeRoute::Homes => return "bsp".into(),
        ExchangeRoute::Ring(order) => {
            let next = order.iter().copied().cycle().skip(1);
            ("ring", order.iter().copied().zip(next).filter(|(from, to)| from != to).collect())
        }
        ExchangeRoute::Tree(parents) => {
            let children = (0..).map(DcId).zip(parents);
            ("tree", children.filter_map(|(child, parent)| Some((child, parent?))).collect())
        }
    };

    let topology = &plan.topology;
    let name = |dc: DcId| &topology.dc(dc).name;
    let named: Vec<String> =
        links.iter().map(|(from, to)| format!("{}-{}", name(*from), name(*to))).collect();
    let speeds = links.iter().map(|(from, to)| topology.link(*from, *to).bandwidth);
    match speeds.min_by(|a, b| a.bits_per_second().total_cmp(&b.bits_per_second())) {
        Some(slowest) => format!("bsp, {what} {}, slowest link {slowest}", named.join(" ")),
        None => format!("bsp, {what}"),
    }
}

fn compute(plan: &Plan) -> String {
    if plan.compute.model == ComputeModel::Measured {
        return "measured on this machine".into();
    }
    match plan.compute.rate {
        ComputeRate::ExamplesPerSecond(rate) => format!("{rate} examples/s per worker"),
        ComputeRate::FlopsPerSecond(rate) => format!("{rate:e} flop/s per worker"),
    }
}

fn stop(stop: &StopRules) -> String {
    let mut rules = Vec::new();
    if let Some(objective) = stop.objective {
        rules.push(format!("at an objective of at most {objective}"));
    }
    if let Some(change) = stop.change {
        let percent = change.percent;
        let within = match (change.clocks, change.by) {
            (Some(clocks), _) => format!("{clocks} clocks"),
            (None, ChangeBy::Trend) => {
                format!("a pass over the data, at least {} clocks", ChangeRule::CLOCKS)
            }
            (None, ChangeBy::Endpoints) => format!("{} clocks", ChangeRule::CLOCKS),
        };
        let by = match change.by {
            ChangeBy::Trend => "by its trend over twice as many",
            ChangeBy::Endpoints => "between two evaluations",
        };
        rules
            .push(format!("once the objective changes by less than {percent} % in {within}, {by}"));
    }
    if let Some(clocks) = stop.clocks {
        rules.push(format!("after {clocks} clocks"));
    }
    if let Some(seconds) = stop.seconds {
        rules.push(format!("after {seconds} s"));
    }
    rules.join(", or ")
}

pub(super) const CHECK_HELP: &str = "\
Examples:
  gaia check config/run/quickstart.toml
  gaia check config/run/quickstart.toml --json --set topology.file=gaia-2016-ss
  gaia check run.toml --data --dc tokyo
  gaia check run.toml --connect --dc tokyo --server 0 --certs certs

With --data the exit code is 2 if data cannot be read. With --connect the exit code is 1 if a link does not work.";
