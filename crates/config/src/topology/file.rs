//! `[topology]`, or a topology file: data centers and the WAN between them, checked into a [`Topology`] and the
//! [`Deployment`] of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::wan::{LinkOverride, Queue, WanKeys, WanSection, scaled};
use crate::document::{Fault, Node, Problem, Sources, nearest, one_of};
use crate::range::{self, Checks};
use gaia_core::topology::{ADDRESS, Address, DataCenter, DataHome, Deployment, Group, Topology};
use gaia_core::types::limits::{DATA_CENTERS_MAX, NODES_PER_DC_MAX};
use gaia_core::types::{Bandwidth, DcId, DurationSetting, UsdPerGb};

/// The keys of a topology, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopologyKeys {
    name: String,
    #[serde(default = "one")]
    bandwidth_scale: f64,
    /// Whether nodes of one data center use TLS.
    #[serde(default = "yes")]
    lan_tls: bool,
    /// Whether a third data center passes on datagrams around a dead link.
    #[serde(default = "yes")]
    detours: bool,
    coordinator_address: Option<String>,
    #[serde(default)]
    defaults: DefaultKeys,
    data_center: Vec<DataCenterKeys>,
    #[serde(default)]
    wan: WanKeys,
    #[serde(default)]
    link: Vec<LinkKeys>,
    #[serde(default)]
    group: Vec<GroupKeys>,
}

/// The values of data centers that do not set their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DefaultKeys {
    servers: usize,
    workers: usize,
    lan_bandwidth: Bandwidth,
    lan_rtt: DurationSetting,
    colocated: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataCenterKeys {
    name: String,
    servers: Option<usize>,
    workers: Option<usize>,
    lan_bandwidth: Option<Bandwidth>,
    lan_rtt: Option<DurationSetting>,
    colocated: Option<bool>,
    server_addresses: Option<Vec<String>>,
    /// The data centers whose data and workers it has, where it stands for several.
    #[serde(default)]
    stands_for: Vec<DataHomeKeys>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataHomeKeys {
    name: String,
    workers: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupKeys {
    hub: String,
    members: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkKeys {
    from: String,
    to: String,
    /// Whether the link in the other direction has the same figures.
    #[serde(default = "yes")]
    symmetric: bool,
    bandwidth: Option<Bandwidth>,
    rtt: Option<DurationSetting>,
    price: Option<UsdPerGb>,
    loss: Option<f64>,
    queue: Option<Queue>,
    /// Whether no other traffic uses the link.
    #[serde(default)]
    dedicated: bool,
}

impl LinkKeys {
    /// The directions that have these figures.
    fn directions(&self, from: DcId, to: DcId) -> impl Iterator<Item = (DcId, DcId)> + use<> {
        [(from, to), (to, from)].into_iter().take(1 + usize::from(self.symmetric))
    }
}

/// Reads and checks the table at `topology` of `root`, with the matrices it names.
pub(crate) fn read(sources: &mut Sources, root: &Node) -> Result<Topology, Problem> {
    let node = root.child("topology").unwrap_or(root);
    let keys: TopologyKeys =
        node.read().map_err(|problem: Problem| problem.in_table(root, "topology"))?;
    let mut checks = Checks { root };

    checks.name("topology.name", &keys.name)?;
    checks.number("topology.bandwidth_scale", keys.bandwidth_scale, range::SCALE)?;

    let data_centers = data_centers(&mut checks, &keys)?;
    let overrides = link_overrides(&mut checks, &keys, &data_centers)?;
    let groups = groups(&checks, &keys.group, &data_centers)?;
    let wan = WanSection::read(sources, &mut checks, &keys.wan, keys.bandwidth_scale)?;

    let mut links = Vec::new();
    for (from, from_dc) in data_centers.iter().enumerate() {
        for (to, to_dc) in data_centers.iter().enumerate() {
            if from == to {
                continue;
            }
            let pair = (DcId(from as u16), DcId(to as u16));
            let own = overrides.get(&pair).copied().unwrap_or_default();
            links.push(wan.link(sources, &checks, pair, (&from_dc.name, &to_dc.name), own)?);
        }
    }

    let bandwidth_scale = keys.bandwidth_scale;
    Ok(Topology { name: keys.name, data_centers, links, groups, bandwidth_scale })
}

/// Reads and checks the addresses of the nodes. `topology` is the result of [`read`] on the same tree.
pub(crate) fn deployment(root: &Node, topology: &Topology) -> Result<Deployment, Problem> {
    let node = root.child("topology").unwrap_or(root);
    let keys: TopologyKeys =
        node.read().map_err(|problem: Problem| problem.in_table(root, "topology"))?;
    let checks = Checks { root };
    let address = |path: &str, text: &str| {
        text.parse::<Address>().map_err(|_| checks.wrong(path, text, ADDRESS))
    };

    let coordinator = match &keys.coordinator_address {
        Some(text) => Some(address("topology.coordinator_address", text)?),
        None => None,
    };

    let mut servers: Vec<Vec<Address>> = Vec::new();
    for (index, dc) in keys.data_center.iter().enumerate() {
        let path = format!("topology.data_center.{index}.server_addresses");
        let named = dc.server_addresses.as_deref().unwrap_or_default();
        let due = topology.data_centers[index].servers;

        if dc.server_addresses.is_some() && named.len() != due {
            let expected = format!("one for each server, {due}");
            return Err(checks.found(&path, format!("{} addresses", named.len()), expected));
        }

        let mut own: Vec<Address> = Vec::new();
        for text in named {
            let address = address(&path, text)?;
            let taken = servers.iter().flatten().chain(&own).chain(&coordinator);
            if taken.into_iter().any(|taken| *taken == address) {
                return Err(checks.wrong(&path, text, "an address that no other node has"));
            }
            own.push(address);
        }

        servers.push(own);
    }

    let id = |name: &str| topology.dc_named(name);
    let mut dedicated = BTreeSet::new();
    for link in &keys.link {
        let (Some(from), Some(to)) = (id(&link.from), id(&link.to)) else { continue };
        if link.dedicated {
            dedicated.extend(link.directions(from, to));
        }
    }

    let TopologyKeys { lan_tls, detours, .. } = keys;
    Ok(Deployment { lan_tls, detours, coordinator, servers, dedicated })
}

fn data_centers(checks: &mut Checks<'_>, keys: &TopologyKeys) -> Result<Vec<DataCenter>, Problem> {
    let defaults = &keys.defaults;
    let count = keys.data_center.len();
    if count == 0 || count > DATA_CENTERS_MAX {
        let expected = format!("1 to {DATA_CENTERS_MAX} [[data_center]] entries");
        return Err(checks.found("topology.data_center", format!("{count} entries"), expected));
    }

    let mut all: Vec<DataCenter> = Vec::new();
    for (index, keys) in keys.data_center.iter().enumerate() {
        let path = |key: &str| {
            let own = format!("topology.data_center.{index}.{key}");
            if checks.root.at(&own).is_some() { own } else { format!("topology.defaults.{key}") }
        };

        checks.name(&path("name"), &keys.name)?;

        if all.iter().any(|dc| dc.name == keys.name) {
            let expected = "a name that no other data center has".to_owned();
            return Err(checks.wrong(&path("name"), &keys.name, expected));
        }

        let dc = DataCenter {
            name: keys.name.clone(),
            servers: keys.servers.unwrap_or(defaults.servers),
            workers: keys.workers.unwrap_or(defaults.workers),
            lan_bandwidth: keys.lan_bandwidth.unwrap_or(defaults.lan_bandwidth),
            lan_rtt: keys.lan_rtt.unwrap_or(defaults.lan_rtt),
            colocated: keys.colocated.unwrap_or(defaults.colocated),
            stands_for: keys
                .stands_for
                .iter()
                .map(|home| DataHome { name: home.name.clone(), workers: home.workers })
                .collect(),
        };

        checks.count(&path("servers"), dc.servers, NODES_PER_DC_MAX)?;
        checks.count(&path("workers"), dc.workers, NODES_PER_DC_MAX)?;
        checks.bandwidth(&path("lan_bandwidth"), dc.lan_bandwidth)?;
        checks.time(&path("lan_rtt"), dc.lan_rtt, range::RTT_MAX)?;

        let path_of_homes = path("stands_for");
        for home in &dc.stands_for {
            checks.name(&path_of_homes, &home.name)?;
        }
        let homes = dc.stands_for.iter().map(|home| home.workers).fold(0, usize::saturating_add);
        if !dc.stands_for.is_empty() && homes != dc.workers {
            let expected = format!("as many workers as `{}` has, {}", dc.name, dc.workers);
            return Err(checks.found(&path_of_homes, format!("{homes} workers"), expected));
        }

        if let Some(first) = all.first().filter(|first| first.servers != dc.servers) {
            let expected = format!(
                "{}, as many servers as `{}` has: every data center holds one copy of the model, \
                 split over its servers in the same way",
                first.servers, first.name
            );
            return Err(checks.wrong(&path("servers"), dc.servers, expected));
        }

        all.push(dc);
    }

    Ok(all)
}

/// Checks `[[group]]` entries: every data center is in exactly one, and its hub is among the members.
fn groups(
    checks: &Checks<'_>,
    keys: &[GroupKeys],
    data_centers: &[DataCenter],
) -> Result<Vec<Group>, Problem> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, group) in keys.iter().enumerate() {
        let hub_path = format!("topology.group.{index}.hub");
        let members_path = format!("topology.group.{index}.members");
        let hub = find(checks, &hub_path, &group.hub, data_centers)?;
        let mut members = vec![hub];

        for name in group.members.iter().filter(|name| **name != group.hub) {
            members.push(find(checks, &members_path, name, data_centers)?);
        }

        members.sort_unstable();

        let twice = |dc: &DcId| groups.iter().any(|other| other.members.contains(dc));
        let again = members.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        if let Some(dc) = again.or_else(|| members.iter().copied().find(twice)) {
            let expected = "each data center in one group, once".to_owned();
            return Err(checks.wrong(&members_path, &data_centers[dc.index()].name, expected));
        }

        groups.push(Group { hub, members });
    }

    let grouped = |dc: usize| groups.iter().any(|group| group.members.contains(&DcId(dc as u16)));
    match (0..data_centers.len()).find(|dc| !groups.is_empty() && !grouped(*dc)) {
        None => Ok(groups),
        Some(dc) => {
            let found = format!("no group with `{}`", data_centers[dc].name);
            Err(checks.found("topology.group", found, "each data center in one group".to_owned()))
        }
    }
}

/// The data center of that name.
fn find(
    checks: &Checks<'_>,
    path: &str,
    name: &str,
    data_centers: &[DataCenter],
) -> Result<DcId, Problem> {
    let names: Vec<&str> = data_centers.iter().map(|dc| dc.name.as_str()).collect();
    match names.iter().position(|&known| known == name) {
        Some(at) => Ok(DcId(at as u16)),
        None => {
            let fault = Fault::Wrong {
                found: name.to_owned(),
                expected: format!("a data center: {}", one_of(&names)),
                help: nearest(name, &names).map(|name| format!("did you mean `{name}`?")),
            };
            Err(checks.root.problem(path, fault))
        }
    }
}

fn link_overrides(
    checks: &mut Checks<'_>,
    keys: &TopologyKeys,
    data_centers: &[DataCenter],
) -> Result<BTreeMap<(DcId, DcId), LinkOverride>, Problem> {
    let mut overrides: BTreeMap<(DcId, DcId), (usize, LinkOverride)> = BTreeMap::new();
    for (index, link) in keys.link.iter().enumerate() {
        let path = |key: &str| format!("topology.link.{index}.{key}");
        let dc = |key: &str, name: &str| find(checks, &path(key), name, data_centers);
        let (from, to) = (dc("from", &link.from)?, dc("to", &link.to)?);

        if from == to {
            let expected = "another data center than `from`".to_owned();
            return Err(checks.wrong(&path("to"), &link.to, expected));
        }

        if let Some(loss) = link.loss {
            checks.number(&path("loss"), loss, range::LOSS)?;
        }

        if let Some(rtt) = link.rtt {
            checks.time(&path("rtt"), rtt, range::RTT_MAX)?;
        }

        if let Some(bandwidth) = link.bandwidth {
            checks.bandwidth(&path("bandwidth"), scaled(bandwidth, keys.bandwidth_scale))?;
        }

        if let Some(queue) = link.queue {
            queue.check(checks, &path("queue"))?;
        }

        let own = LinkOverride {
            bandwidth: link.bandwidth,
            rtt: link.rtt,
            price: link.price,
            loss: link.loss,
            queue: link.queue,
        };

        for pair in link.directions(from, to) {
            if let Some((other, _)) = overrides.insert(pair, (index, own)) {
                let [from, to] = [pair.0, pair.1].map(|dc| &data_centers[dc.index()].name);
                let expected = format!(
                    "one entry for each direction: link.{other} has the one from `{from}` to `{to}`, too; \
                     symmetric = false limits an entry to one direction"
                );
                return Err(checks.wrong(&path("to"), &link.to, expected));
            }
        }
    }

    Ok(overrides.into_iter().map(|(pair, (_, own))| (pair, own)).collect())
}

impl Default for DefaultKeys {
    fn default() -> Self {
        Self {
            servers: 1,
            workers: 1,
            lan_bandwidth: Bandwidth::from_mbit(1000.0),
            lan_rtt: DurationSetting(std::time::Duration::from_micros(500)),
            colocated: false,
        }
    }
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}
