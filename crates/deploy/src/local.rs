//! Plain hosts: a script that starts the nodes of a data center in the background, and one that stops them.

use serde::Serialize;

use gaia_config::Plan;
use gaia_core::topology::{Address, Deployment};

use crate::reach::check_hosts_unless_here;
use crate::template::fill;
use crate::{DeployError, DeployedFile, Process, Site, sites};

/// What the scripts of a data center say.
#[derive(Serialize)]
pub(crate) struct SiteView<'p> {
    run: &'p str,
    dc: &'p str,
    /// Whether the coordinator runs here.
    conducts: bool,
    /// Whether the topology names the coordinator's address.
    named: bool,
    processes: Vec<ProcessView<'p>>,
}

/// What a script says of one process.
#[derive(Serialize)]
pub(crate) struct ProcessView<'p> {
    name: &'p str,
    /// The flags that say which nodes it runs.
    place: String,
    /// The folder of its results, if it has any.
    results: Option<&'static str>,
    listens: bool,
    /// The address in the topology, and its port; absent where the topology names none.
    address: Option<String>,
    port: Option<u16>,
}

/// What a README over all data centers says.
#[derive(Serialize)]
pub(crate) struct RunView<'p> {
    pub(crate) run: &'p str,
    pub(crate) sites: Vec<&'p str>,
    /// Whether the topology names the coordinator's address.
    pub(crate) named: bool,
}

/// The files of a deployment on hosts without a scheduler. A coordinator that the topology does not place listens on
/// this machine's loopback interface, and so do servers: the run is then one of processes of one machine.
///
/// # Errors
/// As [`sites`], and where only some of the addresses in the topology are those of other hosts.
pub fn local(plan: &Plan) -> Result<Vec<DeployedFile>, DeployError> {
    let sites = sites(plan)?;
    check_hosts_unless_here(&sites)?;
    let run = RunView::new(plan, &sites);
    let views: Vec<_> = sites.iter().map(|site| SiteView::new(plan, site)).collect();
    let here = Address { host: "127.0.0.1".into(), port: COORDINATOR_PORT };
    let coordinator = plan.deployment.coordinator.clone().or(Some(here));
    let deployment = Deployment { coordinator, ..plan.deployment.clone() };
    let plan = &Plan { deployment, ..plan.clone() };

    let mut files = vec![DeployedFile::new("", "README.md", fill(README, &run))];
    for view in &views {
        let folder = view.dc;
        files.extend([
            DeployedFile::new(folder, "README.md", fill(SITE_README, view)),
            DeployedFile::new(folder, "run.toml", plan.to_toml()),
            DeployedFile::program(folder, "keep", KEEP.into()),
            DeployedFile::program(folder, "node", fill(NODE, view)),
            DeployedFile::program(folder, "start", fill(START, view)),
            DeployedFile::program(folder, "stop", fill(STOP, view)),
        ]);
    }
    Ok(files)
}

impl<'p> SiteView<'p> {
    pub(crate) fn new(plan: &'p Plan, site: &'p Site) -> Self {
        Self {
            run: &plan.name,
            dc: &site.name,
            conducts: site.processes.iter().any(Process::is_coordinator),
            named: plan.deployment.coordinator.is_some(),
            processes: site.processes.iter().map(ProcessView::new).collect(),
        }
    }
}

impl<'p> ProcessView<'p> {
    fn new(process: &'p Process) -> Self {
        Self {
            name: &process.name,
            place: process.place().join(" "),
            results: process.results,
            listens: process.listens(),
            address: process.named.as_ref().map(ToString::to_string),
            port: process.named.as_ref().map(|address| address.port),
        }
    }
}

impl<'p> RunView<'p> {
    pub(crate) fn new(plan: &'p Plan, sites: &'p [Site]) -> Self {
        Self {
            run: &plan.name,
            sites: sites.iter().map(|site| site.name.as_str()).collect(),
            named: plan.deployment.coordinator.is_some(),
        }
    }
}

/// Where the coordinator listens if the topology does not say.
pub(crate) const COORDINATOR_PORT: u16 = 4432;

/// Runs a command, and again if it was killed.
pub(crate) const KEEP: &str = include_str!("../templates/keep");
const NODE: &str = include_str!("../templates/local/node");
const START: &str = include_str!("../templates/local/start");
const STOP: &str = include_str!("../templates/local/stop");
const README: &str = include_str!("../templates/local/README.md");
const SITE_README: &str = include_str!("../templates/local/site.md");
