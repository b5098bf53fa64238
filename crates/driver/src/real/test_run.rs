//! The run for the tests of this room.

use std::sync::Arc;

use gaia_config::{Plan, RunFile};
use gaia_core::application::{Application, Names};
use gaia_ml::apps::{AppConfig, MatrixFactorization, RatingTotals};
use gaia_ml::divided::Divided;
use gaia_ml::examples::Ratings;

/// One data center with a server and two workers.
pub(super) fn plan() -> Plan {
    RunFile::from_text("r", RUN, &[]).unwrap().plan().unwrap()
}

/// The application of the run, with one example.
pub(super) fn application(plan: &Plan) -> Arc<dyn Application> {
    let Some(AppConfig::MatrixFactorization(config)) = plan.app.clone() else { unreachable!() };
    let ratings = || Ratings { users: 1, items: 1, user: vec![0], item: vec![0], value: vec![1.0] };
    let parts = vec![Arc::from([0]), Arc::from([])];
    Arc::new(MatrixFactorization::new(
        config,
        Divided::new(ratings(), ratings(), parts),
        &RatingTotals::of(&ratings()),
        [Names::Numbers(vec![7]), Names::Numbers(vec![8])],
        "one rating",
    ))
}

const RUN: &str = "name = \"r\"\ndriver = \"real\"\n[app]\nkind = \"matrix-factorization\"\n\
    [sync.remote]\nmodel = \"bsp\"\n[stop]\nclocks = 1\n[topology]\nname = \"t\"\n\
    defaults.workers = 2\nwan.bandwidth = \"1 Mbit/s\"\nwan.rtt = \"1 ms\"\n\
    [[topology.data_center]]\nname = \"a\"\n";
