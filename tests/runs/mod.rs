//! Whole runs in virtual time, from the text of a run file to its outcome.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use gaia_config::{Override, Plan, RunFile};
use gaia_core::application::Application;
use gaia_driver::Outcome;
use gaia_telemetry::{Observer, Progress};

/// Three regions, two workers each, and a model small enough for a test.
const BASE: &str = r#"
name = "test"
seed = 7

[app]
kind = "logistic-regression"
optimizer = "sgd"
batch = 32
learning_rate = 5.0

[app.data.synthetic]
examples = 3000

[topology]
file = "three-regions"
bandwidth_scale = 0.01

[sync.remote]
model = "asp"

[compute]
examples_per_second = 1000.0

[evaluate]
every = 5

[stop]
clocks = 60
"#;

/// What these settings make of the run file above, each a `key.path=value`.
#[track_caller]
pub fn plan(settings: &[&str]) -> Plan {
    let overrides: Vec<Override> =
        settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
    RunFile::from_text("test.toml", BASE, &overrides)
        .and_then(|run_file| run_file.plan())
        .unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// The application of a run, on its data.
#[track_caller]
pub fn application(plan: &Plan) -> Arc<dyn Application> {
    let homes = plan.topology.data_homes();
    gaia_data::build(plan.app.as_ref(), &homes, plan.seed.child("data")).unwrap()
}

/// Runs to its end what these settings make of the run file above.
#[track_caller]
pub fn run(settings: &[&str]) -> Outcome {
    let plan = plan(settings);
    let application = application(&plan);
    gaia_driver::run(&plan, &application, &mut Nobody)
        .unwrap_or_else(|error| panic!("{error}, after `gaia train` of\n{}", plan.to_toml()))
}

struct Nobody;

impl Observer for Nobody {
    fn on_progress(&mut self, _: &Progress) {}
}
