//! A plan as a run file again, with every default and every matrix resolved.

use std::collections::BTreeMap;

use serde::Serialize;

use super::plan::Plan;
use crate::sections::{
    CheckpointConfig, ComputeConfig, ComputeModel, ComputeRate, CostConfig, Decision, DrainConfig,
    DriverKind, EvaluateConfig, FailuresConfig, LogConfig, ModelConfig, SlowdownKey,
};
use gaia_core::coordinator::StopRules;
use gaia_core::sync::{
    AspConfig, BspConfig, LocalStepsConfig, LocalSync, OutlierConfig, RemoteSync, SspConfig,
    TapConfig,
};
use gaia_core::topology::{Deployment, Topology, WanLink};
use gaia_core::types::limits::LINKS_LISTED_MAX;
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting, Seed, UsdPerGb};
use gaia_ml::apps::AppConfig;

#[derive(Serialize)]
struct Resolved<'p> {
    name: &'p str,
    seed: Seed,
    driver: DriverKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<&'p AppConfig>,
    sync: ResolvedSync<'p>,
    stop: StopRules,
    evaluate: &'p EvaluateConfig,
    drain: DrainConfig,
    compute: ResolvedCompute<'p>,
    cost: CostConfig,
    #[serde(skip_serializing_if = "ModelConfig::is_default")]
    model: &'p ModelConfig,
    checkpoint: CheckpointConfig,
    log: LogConfig,
    failures: &'p FailuresConfig,
    topology: ResolvedTopology<'p>,
}

#[derive(Serialize)]
struct ResolvedSync<'p> {
    local: LocalSync,
    remote: ResolvedRemote<'p>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outliers: Option<OutlierConfig>,
}

#[derive(Serialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
enum ResolvedRemote<'p> {
    Bsp(&'p BspConfig),
    Ssp(&'p SspConfig),
    Tap(&'p TapConfig),
    Asp(&'p AspConfig),
    LocalSteps(&'p LocalStepsConfig),
    Auto,
}

#[derive(Serialize)]
struct ResolvedCompute<'p> {
    model: ComputeModel,
    examples_per_second: Option<f64>,
    flops_per_second: Option<f64>,
    clock_overhead: DurationSetting,
    jitter: f64,
    slowdown: BTreeMap<&'p str, SlowdownKey>,
}

#[derive(Serialize)]
struct ResolvedTopology<'p> {
    name: &'p str,
    bandwidth_scale: f64,
    #[serde(skip_serializing_if = "is_true")]
    lan_tls: bool,
    #[serde(skip_serializing_if = "is_true")]
    detours: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator_address: Option<String>,
    data_center: Vec<ResolvedDataCenter<'p>>,
    /// The figures of links that are not listed. `None` if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    wan: Option<ResolvedWan>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    link: Vec<ResolvedLink<'p>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    group: Vec<ResolvedGroup<'p>>,
}

#[derive(Serialize)]
struct ResolvedDataCenter<'p> {
    name: &'p str,
    servers: usize,
    workers: usize,
    lan_bandwidth: Bandwidth,
    lan_rtt: DurationSetting,
    colocated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server_addresses: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stands_for: Vec<ResolvedDataHome<'p>>,
}

#[derive(Serialize)]
struct ResolvedDataHome<'p> {
    name: &'p str,
    workers: usize,
}

#[derive(Serialize)]
struct ResolvedGroup<'p> {
    hub: &'p str,
    members: Vec<&'p str>,
}

#[derive(Serialize)]
struct ResolvedLink<'p> {
    from: &'p str,
    to: &'p str,
    symmetric: bool,
    #[serde(flatten)]
    figures: ResolvedWan,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dedicated: bool,
}

/// The figures of a link, or of all links that are not listed.
#[derive(Serialize)]
struct ResolvedWan {
    bandwidth: Bandwidth,
    rtt: DurationSetting,
    price: UsdPerGb,
    loss: f64,
    queue: ByteSize,
}

impl Plan {
    /// A run file that repeats this run: every setting resolved and inline, data paths absolute. What was handed in
    /// from code is not part of it.
    ///
    /// # Panics
    /// Never: a plan holds only values that TOML can represent.
    pub fn to_toml(&self) -> String {
        let resolved = Resolved {
            name: &self.name,
            seed: self.seed,
            driver: self.driver,
            app: self.app.as_ref(),
            sync: ResolvedSync {
                local: self.local,
                remote: ResolvedRemote::of(self),
                outliers: self.outliers,
            },
            stop: self.stop,
            evaluate: &self.evaluate,
            drain: self.drain,
            compute: ResolvedCompute::new(&self.compute, &self.topology),
            cost: self.cost,
            model: &self.model,
            checkpoint: self.checkpoint,
            log: self.log,
            failures: &self.failures,
            topology: ResolvedTopology::new(&self.topology, &self.deployment),
        };

        let body =
            toml::to_string(&resolved).expect("a plan holds only values that TOML can represent");
        let header = if self.app.is_some() { HEADER } else { HEADER_WITHOUT_APP };
        let chosen = match &self.decision {
            Decision::Made(reason) => {
                format!("# [sync.remote] was chosen by model = \"auto\". {reason}\n\n")
            }
            Decision::Given | Decision::Open => String::new(),
        };
        format!("{header}{chosen}{body}")
    }

    /// The settings between data centers as the `[sync.remote]` of a run file, every default resolved.
    ///
    /// # Panics
    /// Never: as [`Self::to_toml`].
    pub fn remote_toml(&self) -> String {
        let remote = ResolvedRemote::of(self);
        let text =
            toml::to_string(&BTreeMap::from([("sync", BTreeMap::from([("remote", remote)]))]));
        text.expect("a plan holds only values that TOML can represent")
    }
}

impl<'p> ResolvedRemote<'p> {
    fn of(plan: &'p Plan) -> Self {
        if plan.decision == Decision::Open {
            return Self::Auto;
        }
        match &plan.remote {
            RemoteSync::Bsp(config) => Self::Bsp(config),
            RemoteSync::Ssp(config) => Self::Ssp(config),
            RemoteSync::Tap(config) => Self::Tap(config),
            RemoteSync::Asp(config) => Self::Asp(config),
            RemoteSync::LocalSteps(config) => Self::LocalSteps(config),
        }
    }
}

impl<'p> ResolvedCompute<'p> {
    fn new(compute: &ComputeConfig, topology: &'p Topology) -> Self {
        let (examples_per_second, flops_per_second) = match compute.rate {
            ComputeRate::ExamplesPerSecond(rate) => (Some(rate), None),
            ComputeRate::FlopsPerSecond(rate) => (None, Some(rate)),
        };
        Self {
            model: compute.model,
            examples_per_second,
            flops_per_second,
            clock_overhead: compute.clock_overhead,
            jitter: compute.jitter,
            slowdown: compute.slowdown.resolved(topology),
        }
    }
}

impl<'p> ResolvedTopology<'p> {
    fn new(topology: &'p Topology, deployment: &Deployment) -> Self {
        let scale = topology.bandwidth_scale;
        let data_center = topology
            .dc_ids()
            .map(|id| (topology.dc(id), deployment.servers.get(id.index())))
            .map(|(dc, addresses)| ResolvedDataCenter {
                name: &dc.name,
                servers: dc.servers,
                workers: dc.workers,
                lan_bandwidth: dc.lan_bandwidth,
                lan_rtt: dc.lan_rtt,
                colocated: dc.colocated,
                server_addresses: addresses
                    .into_iter()
                    .flatten()
                    .map(ToString::to_string)
                    .collect(),
                stands_for: dc
                    .stands_for
                    .iter()
                    .map(|home| ResolvedDataHome { name: &home.name, workers: home.workers })
                    .collect(),
            })
            .collect();
        // Of very many links most are as the first one where the file gave one figure for all.
        let usual = topology.links.first().filter(|_| topology.links.len() > LINKS_LISTED_MAX);
        let is_dedicated = |link: &WanLink| deployment.dedicated.contains(&(link.from, link.to));
        let is_usual = |link: &WanLink| {
            usual.is_some_and(|usual| {
                let (from, to) = (link.from, link.to);
                !is_dedicated(link) && *link == WanLink { from, to, ..usual.clone() }
            })
        };
        let link = topology
            .links
            .iter()
            .filter(|link| !is_usual(link))
            .map(|link| ResolvedLink {
                from: &topology.dc(link.from).name,
                to: &topology.dc(link.to).name,
                symmetric: false,
                figures: ResolvedWan::of(link, scale),
                dedicated: is_dedicated(link),
            })
            .collect();
        let name_of = |dc: &DcId| topology.dc(*dc).name.as_str();
        let group = topology
            .groups
            .iter()
            .map(|group| ResolvedGroup {
                hub: name_of(&group.hub),
                members: group.members.iter().map(name_of).collect(),
            })
            .collect();

        Self {
            name: &topology.name,
            bandwidth_scale: scale,
            lan_tls: deployment.lan_tls,
            detours: deployment.detours,
            coordinator_address: deployment.coordinator.as_ref().map(ToString::to_string),
            data_center,
            wan: usual.map(|usual| ResolvedWan::of(usual, scale)),
            link,
            group,
        }
    }
}

impl ResolvedWan {
    /// The figures of a link whose bandwidth was multiplied by `scale`.
    fn of(link: &WanLink, scale: f64) -> Self {
        Self {
            bandwidth: unscaled(link.bandwidth, scale),
            rtt: link.rtt,
            price: link.price,
            loss: link.loss,
            queue: link.queue,
        }
    }
}

fn is_true(value: &bool) -> bool {
    *value
}

/// The bandwidth that, multiplied by `scale`, is `scaled` to the bit.
///
/// The quotient may be wrong by a rounding. The factor is then one of its neighbours.
fn unscaled(scaled: Bandwidth, scale: f64) -> Bandwidth {
    let target = scaled.bits_per_second();
    let near = target / scale;
    let neighbours = [
        near,
        near.next_up(),
        near.next_down(),
        near.next_up().next_up(),
        near.next_down().next_down(),
    ];
    let hit = neighbours.into_iter().find(|bits| bits * scale == target);
    Bandwidth::from_bits_per_second(hit.unwrap_or(near))
}

const HEADER: &str =
    "# Everything that determined this run; `gaia train` on this file repeats it.\n\n";

const HEADER_WITHOUT_APP: &str =
    "# Everything that determined this run but its application, which was handed in from code.\n\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::RunFile;

    #[test]
    fn of_very_many_links_those_that_are_unlike_the_first_are_listed() {
        let names: Vec<String> = (0..70).map(|dc| format!("dc{dc}")).collect();
        let data_centers =
            names.iter().map(|name| format!("[[topology.data_center]]\nname = {name:?}\n"));
        let text = format!(
            "name = \"r\"\ndriver = \"simulated\"\n[app]\nkind = \"matrix-factorization\"\n\
             data.synthetic = {{ users = 70, items = 10, ratings = 700, rank = 2 }}\n\
             [sync.local]\nmodel = \"bsp\"\n[sync.remote]\nmodel = \"bsp\"\n\
             [compute]\nexamples_per_second = 1.0\n[stop]\nclocks = 1\n\
             [topology]\nname = \"t\"\nbandwidth_scale = 0.3\n\
             wan.bandwidth = \"10 Mbit/s\"\nwan.rtt = \"7 ms\"\n{}\
             [[topology.link]]\nfrom = \"dc1\"\nto = \"dc2\"\nrtt = \"9 ms\"\n\
             [[topology.link]]\nfrom = \"dc3\"\nto = \"dc4\"\nsymmetric = false\ndedicated = true\n",
            data_centers.collect::<String>()
        );
        let plan = RunFile::from_text("r", &text, &[]).unwrap().plan().unwrap();
        let resolved = plan.to_toml();
        assert_eq!(resolved.matches("[[topology.link]]").count(), 3);
        let again = RunFile::from_text("again", &resolved, &[]).unwrap().plan().unwrap();
        assert!(again.topology == plan.topology && again.deployment == plan.deployment);
        assert_eq!(again.to_toml(), resolved);
    }

    proptest! {
        #[test]
        fn a_scaled_bandwidth_comes_back_to_the_bit(bits in 1e3..1e11_f64, scale in 1e-6..1e3_f64) {
            let scaled = Bandwidth::from_bits_per_second(bits).scaled(scale);
            let written = toml::Value::try_from(unscaled(scaled, scale)).unwrap();
            let read: Bandwidth = written.try_into().unwrap();
            prop_assert_eq!(read.scaled(scale), scaled);
        }
    }
}
