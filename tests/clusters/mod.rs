//! Plans for small clusters whose time goes into waiting, not into computing, so that a busy machine can hold the
//! pace that a plan charges.

#[path = "../mesh/mod.rs"]
mod mesh;

use std::sync::Arc;
use std::time::Duration;

use gaia_config::{
    ComputeConfig, ComputeModel, ComputeRate, Decision, DrainConfig, DriverKind, EvaluateConfig,
    Plan, Slowdown,
};
use gaia_core::application::Application;
use gaia_core::coordinator::StopRules;
use gaia_core::sync::{LocalSync, RemoteSync};
use gaia_core::topology::{Deployment, Group, Topology};
use gaia_core::types::{DcId, DurationSetting, Seed};
use gaia_ml::apps::{AppConfig, SoftmaxRegressionConfig};
use gaia_ml::optimizer::Optimizer;
use mesh::mesh;

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
    let mut topology = mesh(names, mbit, Duration::from_millis(rtt_ms), 0.0);
    topology.name = name.into();
    for data_center in &mut topology.data_centers {
        data_center.workers = 2;
        data_center.lan_rtt = DurationSetting(Duration::from_micros(500));
    }
    topology
}

/// The plan's application, its data split as the plan's topology says.
pub(crate) fn app_of(plan: &Plan) -> Arc<dyn Application> {
    let homes = plan.topology.data_homes();
    gaia_data::build(plan.app.as_ref(), &homes, plan.seed).expect("made-up data")
}
