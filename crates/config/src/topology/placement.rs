//! Which node a process is, from the environment that a scheduler gives it.
//!
//! The program's own variables come first: `GAIA_ROLE` (`coordinator`, `server` or `worker`), `GAIA_DC` and
//! `GAIA_INDEX`. Without a role, a rank decides: the first that is set of `RANK` (torchrun), `SLURM_PROCID` (Slurm) and
//! `JOB_COMPLETION_INDEX` (a Kubernetes JobSet). Rank 0 is the coordinator; the servers and the workers of each data
//! center follow, data center by data center. With `GAIA_DC`, ranks count the servers and workers of that data center
//! alone, for schedulers that run a job in each data center. The coordinator's address is `GAIA_COORDINATOR`, or
//! torchrun's `MASTER_ADDR` and `MASTER_PORT`.

use std::collections::BTreeMap;

use gaia_core::topology::{Address, Topology};
use gaia_core::types::{DcId, NodeId, ServerId, ShardId, WorkerId};

/// The variables of an environment, by name.
pub type Variables = BTreeMap<String, String>;

/// A variable that names no node, or no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is `{found}`, expected {expected}")]
pub struct PlacementError {
    /// The name of the variable.
    pub variable: String,
    /// Its value.
    pub found: String,
    /// What the value should be.
    pub expected: String,
}

/// The node that this process is, by the environment. `None` where neither a role nor a rank is set.
///
/// # Errors
/// [`PlacementError`] where a variable names no node of the topology.
pub fn placed(
    variables: &Variables,
    topology: &Topology,
) -> Result<Option<NodeId>, PlacementError> {
    let dc = match variables.get(DC) {
        Some(name) => Some(topology.dc_named(name).ok_or_else(|| {
            let names: Vec<&str> =
                topology.data_centers.iter().map(|dc| dc.name.as_str()).collect();
            wrong(DC, name, format!("a data center: {}", names.join(", ")))
        })?),
        None => None,
    };

    match variables.get(ROLE) {
        Some(role) => placed_by_role(role, dc, variables, topology).map(Some),
        None => placed_by_rank(dc, variables, topology),
    }
}

/// The node of a role; one of `dc`, unless it is the coordinator.
fn placed_by_role(
    role: &str,
    dc: Option<DcId>,
    variables: &Variables,
    topology: &Topology,
) -> Result<NodeId, PlacementError> {
    if role == "coordinator" {
        return Ok(NodeId::Coordinator);
    }
    let Some(dc) = dc else {
        return Err(wrong(ROLE, role, format!("{DC} to be set to the name of its data center")));
    };
    let index = match variables.get(INDEX) {
        Some(text) => whole(INDEX, text)?,
        None => 0,
    };

    let own = topology.dc(dc);
    let (most, node) = match role {
        "server" => (own.servers, server(dc, index)),
        "worker" => (own.workers, worker(dc, index)),
        _ => return Err(wrong(ROLE, role, "coordinator, server or worker".into())),
    };
    if index >= most {
        let expected = format!("a {role} of {}, 0 to {}", own.name, most - 1);
        return Err(wrong(INDEX, &index.to_string(), expected));
    }
    Ok(node)
}

/// The node of the first rank that is set: of all nodes, or of those of `dc`. `None` where no rank is set.
fn placed_by_rank(
    dc: Option<DcId>,
    variables: &Variables,
    topology: &Topology,
) -> Result<Option<NodeId>, PlacementError> {
    let Some((variable, text)) =
        RANKS.iter().find_map(|rank| variables.get(*rank).map(|text| (*rank, text)))
    else {
        return Ok(None);
    };

    let rank = whole(variable, text)?;
    let nodes: Vec<NodeId> = match dc {
        Some(dc) => nodes_of(topology, dc).collect(),
        None => {
            let all = topology.dc_ids().flat_map(|dc| nodes_of(topology, dc));
            std::iter::once(NodeId::Coordinator).chain(all).collect()
        }
    };

    let node = nodes.get(rank).copied();
    node.map(Some).ok_or_else(|| {
        let expected = format!("a rank below {}, the number of nodes", nodes.len());
        wrong(variable, text, expected)
    })
}

/// The coordinator's address, by the environment. `None` where none is set.
///
/// # Errors
/// [`PlacementError`] where the value is no address.
pub fn coordinator_address(variables: &Variables) -> Result<Option<Address>, PlacementError> {
    let parsed = |variable: &str, text: &str| {
        text.parse()
            .map(Some)
            .map_err(|_| wrong(variable, text, gaia_core::topology::ADDRESS.into()))
    };
    if let Some(text) = variables.get(COORDINATOR) {
        return parsed(COORDINATOR, text);
    }
    match (variables.get("MASTER_ADDR"), variables.get("MASTER_PORT")) {
        (Some(host), Some(port)) if host.contains(':') => {
            parsed("MASTER_ADDR:MASTER_PORT", &format!("[{host}]:{port}"))
        }
        (Some(host), Some(port)) => parsed("MASTER_ADDR:MASTER_PORT", &format!("{host}:{port}")),
        _ => Ok(None),
    }
}

fn nodes_of(topology: &Topology, dc: DcId) -> impl Iterator<Item = NodeId> + use<> {
    let (servers, workers) = (topology.dc(dc).servers, topology.dc(dc).workers);
    let servers = (0..servers).map(move |index| server(dc, index));
    servers.chain((0..workers).map(move |index| worker(dc, index)))
}

fn server(dc: DcId, index: usize) -> NodeId {
    NodeId::Server(ServerId { dc, shard: ShardId(index as u16) })
}

fn worker(dc: DcId, index: usize) -> NodeId {
    NodeId::Worker(WorkerId { dc, index: index as u16 })
}

fn whole(variable: &str, text: &str) -> Result<usize, PlacementError> {
    text.parse().map_err(|_| wrong(variable, text, "a whole number".into()))
}

fn wrong(variable: &str, found: &str, expected: String) -> PlacementError {
    PlacementError { variable: variable.into(), found: found.into(), expected }
}

const ROLE: &str = "GAIA_ROLE";
const DC: &str = "GAIA_DC";
const INDEX: &str = "GAIA_INDEX";
const COORDINATOR: &str = "GAIA_COORDINATOR";
const RANKS: [&str; 3] = ["RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology_from_text;

    fn topology() -> Topology {
        let text = "name = \"t\"\ndefaults.workers = 2\nwan.bandwidth = \"10 Mbit/s\"\nwan.rtt = \"10 ms\"\n\
                    [[data_center]]\nname = \"north\"\n[[data_center]]\nname = \"south\"\n";
        topology_from_text("t.toml", text).unwrap()
    }

    fn variables(set: &[(&str, &str)]) -> Variables {
        set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn own_variables_come_before_those_of_schedulers() {
        let check = |set: &[(&str, &str)], expect: Option<&str>| {
            let placed = placed(&variables(set), &topology()).unwrap();
            assert_eq!(placed.map(|node| node.to_string()).as_deref(), expect, "{set:?}");
        };
        check(&[], None);
        check(&[("GAIA_ROLE", "coordinator"), ("RANK", "3")], Some("coordinator"));
        let own = [("GAIA_ROLE", "worker"), ("GAIA_DC", "south"), ("GAIA_INDEX", "1")];
        check(&own, Some("dc1/worker1"));
        check(&[("GAIA_ROLE", "server"), ("GAIA_DC", "north")], Some("dc0/server0"));
        check(&[("RANK", "0")], Some("coordinator"));
        check(&[("RANK", "1"), ("SLURM_PROCID", "5")], Some("dc0/server0"));
        check(&[("SLURM_PROCID", "3")], Some("dc0/worker1"));
        check(&[("JOB_COMPLETION_INDEX", "6")], Some("dc1/worker1"));
        check(&[("JOB_COMPLETION_INDEX", "0"), ("GAIA_DC", "south")], Some("dc1/server0"));
        check(&[("JOB_COMPLETION_INDEX", "2"), ("GAIA_DC", "south")], Some("dc1/worker1"));
    }

    #[test]
    fn what_names_no_node_is_refused() {
        let check = |set: &[(&str, &str)], variable: &str, expected: &str| {
            let error = placed(&variables(set), &topology()).unwrap_err();
            assert_eq!(error.variable, variable, "{error}");
            assert!(error.expected.contains(expected), "{error}");
        };
        check(&[("GAIA_DC", "west")], "GAIA_DC", "north, south");
        check(&[("GAIA_ROLE", "server")], "GAIA_ROLE", "GAIA_DC");
        check(&[("GAIA_ROLE", "king"), ("GAIA_DC", "north")], "GAIA_ROLE", "coordinator, server");
        let own = [("GAIA_ROLE", "server"), ("GAIA_DC", "north"), ("GAIA_INDEX", "1")];
        check(&own, "GAIA_INDEX", "0 to 0");
        check(&[("RANK", "7")], "RANK", "below 7");
        check(&[("SLURM_PROCID", "x")], "SLURM_PROCID", "whole number");
        check(&[("RANK", "3"), ("GAIA_DC", "north")], "RANK", "below 3");
    }

    #[test]
    fn the_coordinator_is_where_the_environment_says() {
        let check = |set: &[(&str, &str)], expect: Option<&str>| {
            let found = coordinator_address(&variables(set)).unwrap();
            assert_eq!(found.map(|address| address.to_string()).as_deref(), expect);
        };
        let torch = [("MASTER_ADDR", "host-0"), ("MASTER_PORT", "29500")];
        check(&[], None);
        check(&torch, Some("host-0:29500"));
        check(&[("MASTER_ADDR", "::1"), ("MASTER_PORT", "1")], Some("[::1]:1"));
        check(&[torch[0], torch[1], ("GAIA_COORDINATOR", "a:2")], Some("a:2"));
        assert!(coordinator_address(&variables(&[("GAIA_COORDINATOR", "a")])).is_err());
    }
}
