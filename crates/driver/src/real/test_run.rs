//! The runs for the tests of this room.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::watch;

use crate::cluster::Blueprint;
use crate::interrupted::Interrupted;
use crate::real::NodeConfig;
use crate::real::connections::acceptor::{Acceptor, listen};
use crate::real::local::issue;
use crate::real::node::context::{NodeContext, RunContext, nodes};
use gaia_config::{Plan, RunFile};
use gaia_core::application::{Application, Names};
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, WorkerId};
use gaia_ml::apps::{AppConfig, MatrixFactorization, RatingTotals};
use gaia_ml::divided::Divided;
use gaia_ml::examples::Ratings;

/// A run whose nodes have certificates, and whose coordinator listens.
pub(super) struct Stage {
    pub(super) plan: Plan,
    pub(super) application: Arc<dyn Application>,
    pub(super) run_context: RunContext,
    /// The coordinator's address.
    pub(super) coordinator: Address,
    /// Accepts the nodes of the run.
    pub(super) acceptor: Option<Acceptor>,
    _certificates: TempDir,
}

impl Stage {
    pub(super) async fn new(plan: Plan) -> Self {
        let application = application(&plan);
        let folder = tempfile::tempdir().unwrap();
        let certificates = folder.path().join("certs");
        let run_context = RunContext::new(&plan, &certificates);
        run_context.agree_on(&Blueprint::new(&plan, &application));
        issue(&run_context, &certificates).unwrap();

        let listener = listen(&*run_context.environment, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let coordinator = listener.local_addr().unwrap().to_string().parse().unwrap();
        let context = run_context.node_context(NodeId::Coordinator).unwrap();
        let acceptor =
            Some(Acceptor::open(&context, listener, nodes(&run_context).collect(), None));

        Self { plan, application, run_context, coordinator, acceptor, _certificates: folder }
    }

    pub(super) fn worker(&self, worker: WorkerId) -> NodeContext {
        self.run_context.node_context(NodeId::Worker(worker)).unwrap()
    }

    /// The configuration of a node without a state.
    pub(super) fn node_config(&self) -> NodeConfig {
        NodeConfig {
            model_keeper: None,
            coordinator: self.coordinator.clone(),
            state_dir: None,
            interrupted: Interrupted(None),
            stands_in_for: watch::Sender::default(),
        }
    }
}

/// One data center with a server and two workers, under BSP.
pub(super) fn plan() -> Plan {
    plan_of("[sync.remote]\nmodel = \"bsp\"", 2, &["a"])
}

/// Data centers with a server each, and so many workers.
pub(super) fn plan_of(remote: &str, workers: usize, data_centers: &[&str]) -> Plan {
    let names =
        data_centers.iter().map(|name| format!("[[topology.data_center]]\nname = \"{name}\"\n"));
    let text = format!(
        "name = \"r\"\ndriver = \"real\"\n[app]\nkind = \"matrix-factorization\"\n{remote}\n[stop]\nclocks = 1\n\
         [topology]\nname = \"t\"\ndefaults.workers = {workers}\nwan.bandwidth = \"1 Mbit/s\"\nwan.rtt = \"1 ms\"\n{}",
        names.collect::<String>()
    );
    RunFile::from_text("r", &text, &[]).unwrap().plan().unwrap()
}

/// The application of a run, with one example, which the first worker has.
pub(super) fn application(plan: &Plan) -> Arc<dyn Application> {
    let Some(AppConfig::MatrixFactorization(config)) = plan.app.clone() else { unreachable!() };
    let ratings = || Ratings { users: 1, items: 1, user: vec![0], item: vec![0], value: vec![1.0] };
    let part = |worker| if worker == 0 { Arc::from([0]) } else { Arc::from([]) };
    let parts = (0..plan.topology.workers()).map(part).collect();
    Arc::new(MatrixFactorization::new(
        config,
        Divided::new(ratings(), ratings(), parts),
        &RatingTotals::of(&ratings()),
        [Names::Numbers(vec![7]), Names::Numbers(vec![8])],
        "one rating",
    ))
}
