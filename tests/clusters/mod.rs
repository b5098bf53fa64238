//! Plans for small clusters whose time goes into waiting, not into computing, so that a busy machine can hold the
//! pace that a plan charges.

use std::sync::Arc;
use std::time::Duration;

use gaia_config::{
    ComputeConfig, ComputeModel, ComputeRate, Decision, DrainConfig, DriverKind, EvaluateConfig,
    Plan, Slowdown,
};
use gaia_core::application::Application;
use gaia_core::coordinator::StopRules;
use gaia_core::sync::{LocalSync, RemoteSync};
use gaia_core::topology::{DataCenter, Deployment, Group, Topology, WanLink};
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting, Seed, UsdPerGb};
use gaia_ml::apps::{AppConfig, SoftmaxRegressionConfig};
use gaia_ml::optimizer::Optimizer;

/// An emulated run of softmax regression over made-up data: 10 ms a clock, 50 clocks.
pub(crate) fn plan(topology: Topology, remote: RemoteSync) -> Plan {
    let mut app = SoftmaxRegressionConfig { optimizer: Some(Optimizer::Sgd), ..Default::default() };
    app.data.synthetic.examples = 3_000;
    Plan {
        name: "test".into(),
        seed: Seed(42),
        driver: DriverKind::Emulated,
        app: Some(AppConfig::SoftmaxRegression(app)),
        topology,
        local: LocalSync::BSP,
        remote,
        decision: Decision::Given,
        outliers: None,
        compute: ComputeConfig {
            model: ComputeModel::Cost,
            rate: ComputeRate::ExamplesPerSecond(1e6),
            clock_overhead: DurationSetting(Duration::from_millis(10)),
            jitter: 0.0,
            slowdown: Slowdown::default(),
        },
        evaluate: EvaluateConfig { every: 5, ..EvaluateConfig::default() },
        drain: DrainConfig::default(),
        stop: StopRules { clocks: Some(50), ..StopRules::default() },
        deployment: Deployment::default(),
        cost: Default::default(),
        model: Default::default(),
        checkpoint: Default::default(),
        log: Default::default(),
        failures: Default::default(),
    }
}

/// Three data centers, two workers each, all links alike.
pub(crate) fn triangle(mbit: f64, rtt_ms: u64) -> Topology {
    alike("triangle", &["oregon", "ireland", "tokyo"], mbit, rtt_ms)
}

/// Four data centers in two groups, two workers each, all links alike.
pub(crate) fn two_groups(mbit: f64, rtt_ms: u64) -> Topology {
    let group = |hub, member| Group { hub: DcId(hub), members: vec![DcId(hub), DcId(member)] };
    let names = ["oregon", "california", "ireland", "frankfurt"];
    let groups = vec![group(0, 1), group(2, 3)];
    Topology { groups, ..alike("two-groups", &names, mbit, rtt_ms) }
}

fn alike(name: &str, names: &[&str], mbit: f64, rtt_ms: u64) -> Topology {
    let bandwidth = Bandwidth::from_mbit(mbit);
    let link = |from, to| WanLink {
        from,
        to,
        bandwidth,
        rtt: DurationSetting(Duration::from_millis(rtt_ms)),
        price: UsdPerGb(0.02),
        loss: 0.0,
        queue: ByteSize((bandwidth.bytes_in(Duration::from_millis(100)) as u64).max(16 << 10)),
    };
    let ids = || (0..names.len() as u16).map(DcId);
    let pairs = ids().flat_map(|from| ids().map(move |to| (from, to)));
    Topology {
        name: name.into(),
        data_centers: names
            .iter()
            .map(|name| DataCenter {
                name: (*name).into(),
                servers: 1,
                workers: 2,
                lan_bandwidth: Bandwidth::from_mbit(1_000.0),
                lan_rtt: DurationSetting(Duration::from_micros(500)),
                colocated: false,
                stands_for: Vec::new(),
            })
            .collect(),
        links: pairs.filter(|(from, to)| from != to).map(|(from, to)| link(from, to)).collect(),
        groups: Vec::new(),
        bandwidth_scale: 1.0,
    }
}

/// The plan's application, its data split as the plan's topology says.
pub(crate) fn app_of(plan: &Plan) -> Arc<dyn Application> {
    let homes = plan.topology.data_homes();
    gaia_data::build(plan.app.as_ref(), &homes, plan.seed).expect("made-up data")
}
