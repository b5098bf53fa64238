//! Which processes a data center has, and which nodes each of them runs.

use gaia_certificates::{Identity, Role};
use gaia_config::{KeepModel, Plan};
use gaia_core::topology::Address;
use gaia_core::types::DcId;

use crate::{CERTIFICATES, DeployError};

/// What runs in one data center.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The name of the data center, and of its folder.
    pub name: String,
    /// Its processes: the coordinator in the first data center, then servers, then workers.
    pub processes: Vec<Process>,
}

/// One process: the coordinator, a server, a worker, or a server with the worker that shares its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The name of its first node within the data center, such as `server-0`.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<Identity>,
    /// Where the topology says that it listens.
    pub named: Option<Address>,
    /// The folder that it writes results into: of the coordinator that of the run, of a server that of the model, if data
    /// centers keep it.
    pub results: Option<&'static str>,
}

/// The data centers of a plan, in the order of the topology.
///
/// # Errors
/// [`DeployError::ReservedName`] where a data center is called as another folder of a deployment.
pub fn sites(plan: &Plan) -> Result<Vec<Site>, DeployError> {
    let sites: Vec<Site> = plan.topology.dc_ids().map(|dc| site(plan, dc)).collect();
    match sites.iter().find(|site| site.name == CERTIFICATES) {
        Some(site) => Err(DeployError::ReservedName { name: site.name.clone() }),
        None => Ok(sites),
    }
}

fn site(plan: &Plan, id: DcId) -> Site {
    let dc = plan.topology.dc(id);
    let (run, name) = (&plan.name, &dc.name);
    let mut processes = Vec::new();

    if id == DcId(0) {
        let nodes = vec![Identity::coordinator(run, name)];
        processes.push(Process::new(nodes, plan.deployment.coordinator.clone(), Some(RUN)));
    }
    for index in 0..dc.servers {
        let mut nodes = vec![Identity::server(run, name, index as u16)];
        if dc.colocated && index < dc.workers {
            nodes.push(Identity::worker(run, name, index as u16));
        }
        let model = (plan.model.keep == KeepModel::Home).then_some(MODEL);
        processes.push(Process::new(nodes, plan.deployment.server(id, index).cloned(), model));
    }
    let alone = if dc.colocated { dc.servers } else { 0 };
    for index in alone..dc.workers {
        processes.push(Process::new(vec![Identity::worker(run, name, index as u16)], None, None));
    }

    Site { name: name.clone(), processes }
}

impl Process {
    fn new(nodes: Vec<Identity>, named: Option<Address>, results: Option<&'static str>) -> Self {
        let first = nodes.first().expect("a process has a node");
        let name = match first.role {
            Role::Coordinator => "coordinator".to_owned(),
            role => format!("{role}-{}", first.index),
        };
        Self { name, nodes, named, results }
    }

    /// Whether it is the coordinator.
    pub fn is_coordinator(&self) -> bool {
        self.nodes.iter().any(|node| node.role == Role::Coordinator)
    }

    /// Whether other nodes connect to it.
    pub fn listens(&self) -> bool {
        self.nodes.iter().any(|node| node.role != Role::Worker)
    }

    /// The flags of `gaia node` that say which nodes it runs.
    pub(crate) fn place(&self) -> Vec<String> {
        if self.is_coordinator() {
            return vec!["--coordinator".into()];
        }
        let dc = &self.nodes[0].dc;
        let numbers =
            self.nodes.iter().flat_map(|node| [format!("--{}", node.role), node.index.to_string()]);
        ["--dc".to_owned(), dc.clone()].into_iter().chain(numbers).collect()
    }
}

/// The folders of results.
const RUN: &str = "out";
const MODEL: &str = "model";

#[cfg(test)]
mod tests {
    use gaia_config::RunFile;

    use super::*;

    fn plan(topology: &str) -> Plan {
        let text = format!(
            "name = \"r\"\n[app]\nkind = \"matrix-factorization\"\n[sync.remote]\nmodel = \"bsp\"\n[stop]\nclocks = 1\n\
             [topology]\nname = \"t\"\n{topology}"
        );
        RunFile::from_text("r.toml", &text, &[]).unwrap().plan().unwrap()
    }

    fn check(topology: &str, expect: &[(&str, &[&str])]) {
        let found: Vec<(String, Vec<String>)> = sites(&plan(topology))
            .unwrap()
            .into_iter()
            .map(|site| {
                let processes = site.processes.iter();
                (site.name, processes.map(|process| process.place().join(" ")).collect())
            })
            .collect();
        let expect: Vec<(String, Vec<String>)> = expect
            .iter()
            .map(|(name, places)| {
                ((*name).to_owned(), places.iter().map(|place| (*place).to_owned()).collect())
            })
            .collect();
        assert_eq!(found, expect, "{topology}");
    }

    const WAN: &str = "wan.bandwidth = \"10 Mbit/s\"\nwan.rtt = \"10 ms\"\n";

    #[test]
    fn every_node_is_in_one_process_of_its_data_center() {
        let apart = "[[topology.data_center]]\nname = \"north\"\nworkers = 2\n[[topology.data_center]]\nname = \"south\"\n";
        check(
            &format!("{WAN}{apart}"),
            &[
                (
                    "north",
                    &[
                        "--coordinator",
                        "--dc north --server 0",
                        "--dc north --worker 0",
                        "--dc north --worker 1",
                    ],
                ),
                ("south", &["--dc south --server 0", "--dc south --worker 0"]),
            ],
        );
    }

    #[test]
    fn a_worker_shares_the_process_of_the_server_on_its_machine() {
        let together = "[[topology.data_center]]\nname = \"north\"\nservers = 2\nworkers = 3\ncolocated = true\n";
        check(
            &format!("{WAN}{together}"),
            &[(
                "north",
                &[
                    "--coordinator",
                    "--dc north --server 0 --worker 0",
                    "--dc north --server 1 --worker 1",
                    "--dc north --worker 2",
                ],
            )],
        );
    }

    #[test]
    fn servers_write_the_model_where_data_centers_keep_it() {
        let topology = format!("{WAN}[[topology.data_center]]\nname = \"north\"\n");
        for (key, expect) in [("coordinator", None), ("home", Some("model"))] {
            let text = format!("{topology}[model]\nkeep = \"{key}\"\n");
            let results: Vec<Option<&str>> = sites(&plan(&text)).unwrap()[0]
                .processes
                .iter()
                .map(|process| process.results)
                .collect();
            assert_eq!(results, [Some("out"), expect, None]);
        }
    }

    #[test]
    fn a_data_center_may_not_be_called_as_the_folder_of_the_authority() {
        let error = sites(&plan(&format!("{WAN}[[topology.data_center]]\nname = \"certs\"\n")))
            .unwrap_err();
        assert_eq!(error, DeployError::ReservedName { name: "certs".into() });
    }
}
