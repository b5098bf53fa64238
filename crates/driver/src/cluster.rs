//! The construction of a run's nodes from its plan, for all drivers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::digest::digest;
use crate::table_digests::TableDigests;
use gaia_config::{OnGiveUp, Plan};
use gaia_core::application::Application;
use gaia_core::coordinator::{
    ChangeBy, ClusterCoordinator, Coordinator, CoordinatorConfig, FailureRules, Lockstep, Scale,
};
use gaia_core::persist;
use gaia_core::server::{
    Blocks, ExchangeRoute, LinkFacts, LongestWay, Schedule, Server, ServerConfig,
};
use gaia_core::significance::Significance;
use gaia_core::sync::RemoteSync;
use gaia_core::topology::{Overlay, Topology};
use gaia_core::types::{DcId, Model, ServerId, ShardId, ShardLayout, TableLayout, WorkerId};
use gaia_core::worker::Worker;

/// Creates the nodes of a run: all of them in one process, or single ones.
pub struct Blueprint<'p> {
    plan: Cow<'p, Plan>,
    application: Arc<dyn Application>,
    layouts: Vec<ShardLayout>,
    /// Created when a node needs it.
    initial: OnceLock<Model>,
    schedule: Arc<Schedule>,
    significance: Option<Arc<dyn Significance>>,
    overlay: Overlay,
    way: LongestWay,
    blocks: Blocks,
    route: ExchangeRoute,
    /// The hash of what all nodes must share. Nodes of different hashes refuse each other.
    pub plan_hash: u64,
}

/// All nodes of a run, in one process.
pub struct Cluster {
    /// By data center, then shard.
    pub servers: Vec<Server>,
    /// By data center, then index.
    pub workers: Vec<Worker>,
    /// The coordinator.
    pub coordinator: Coordinator,
    /// The number of servers of each data center, which is the number of shards.
    pub shards: usize,
    first_workers: Vec<usize>,
}

impl<'p> Blueprint<'p> {
    /// The blueprint of a run. Creates the initial model if it is small enough to be hashed.
    pub fn new(plan: &'p Plan, application: &Arc<dyn Application>) -> Self {
        Self::of(Cow::Borrowed(plan), application)
    }

    /// As [`Self::new`], of a plan that it keeps.
    pub(crate) fn keeping(plan: Plan, application: &Arc<dyn Application>) -> Self {
        Self::of(Cow::Owned(plan), application)
    }

    fn of(plan: Cow<'p, Plan>, application: &Arc<dyn Application>) -> Self {
        let layout = application.layout();
        let (overlay, topology) = (plan.overlay(), &plan.topology);
        let mut blueprint = Self {
            application: application.clone(),
            layouts: ShardLayout::all(layout, plan.topology.data_centers[0].servers),
            initial: OnceLock::new(),
            schedule: schedule(application),
            significance: None,
            way: LongestWay {
                rtt: overlay.rtt_max(topology).0,
                hops: overlay.hops(topology).max(1) as u64,
            },
            overlay,
            blocks: plan.blocks(),
            route: plan.exchange_route(),
            plan_hash: 0,
            plan,
        };
        blueprint.plan_hash = blueprint.hash();
        blueprint
    }

    /// Digests of the tables, and of their initial values if those are part of the hash.
    pub(crate) fn table_digests(&self) -> TableDigests {
        let compared = self.compares_values().then(|| self.initial());
        TableDigests::new(self.application.layout(), compared)
    }

    /// Whether initial values are part of the hash.
    fn compares_values(&self) -> bool {
        let is_given = self.plan.model.init.is_some() || self.plan.external().is_some();
        self.application.layout().parameters() <= COMPARED_PARAMETERS_MAX || is_given
    }

    /// A hash of what all nodes must share: the resolved plan, the model's tables, its momentum, and the initial values. If
    /// there are too many initial values to create them for the hash, their settings and the seed are hashed instead, unless
    /// they were read from a file or are those of an application that a program hands in, of which neither says much. Of
    /// sparse tables it has the rules.
    fn hash(&self) -> u64 {
        let layout = self.application.layout();
        let mut agreed = self.plan.agreement();
        for (id, table) in layout.table_ids().zip(layout.tables()) {
            let role = if layout.is_statistics(id) { " statistics" } else { "" };
            let TableLayout { name, rows, width } = table;
            agreed += &format!("{name:?} {rows} {width} {:?}{role}\n", layout.shape(id));
            if let Some(rule) = layout.sparse(id) {
                agreed += &format!("{rule:?}\n");
            }
        }
        agreed += &format!("momentum {}\n", self.application.momentum());
        agreed += &format!("shares {}\n", self.application.deltas_are_shares());
        if self.compares_values() {
            agreed += &format!("{:016x}", digest(&self.initial().values));
        }
        self.plan.seed.child(&agreed).0
    }

    /// The same nodes, with another significance function of servers.
    #[must_use]
    pub fn with_significance(self, significance: Option<Arc<dyn Significance>>) -> Self {
        Self { significance, ..self }
    }

    /// A server with the initial model.
    pub fn server(&self, id: ServerId) -> Server {
        self.server_of(id, self.initial())
    }

    /// A server whose values are set later.
    pub fn server_without_values(&self, id: ServerId) -> Server {
        self.server_of(id, &Model::zeros(self.application.layout().clone()))
    }

    fn server_of(&self, id: ServerId, model: &Model) -> Server {
        let (plan, topology) = (&*self.plan, &self.plan.topology);
        let shards = self.layouts.len();
        let config = ServerConfig {
            id,
            workers: topology.dc(id.dc).workers,
            all_workers: topology.workers_per_dc(),
            shards,
            local: plan.local,
            remote: plan.remote.clone(),
            outliers: plan.outliers,
            layout: self.layouts[id.shard.index()].clone(),
            links: links_of(topology, id.dc),
            neighbours: self.overlay.neighbours(id.dc),
            first_hops: self.overlay.first_hops(id.dc),
            way: self.way,
            schedule: self.schedule.clone(),
            significance: self.significance.clone(),
            route: self.route.clone(),
            blocks: self.blocks.clone(),
            drain: plan.drain.method,
            deltas_are_shares: self.application.deltas_are_shares(),
            inactive: plan.late(),
            give_up_after: plan.failures.give_up_after.0,
            looks_at_copies: plan.sends_copies_to_look(),
            plan_hash: self.plan_hash,
        };

        Server::new(config, model)
    }

    /// A worker, with its share of the data.
    pub fn worker(&self, id: WorkerId) -> Worker {
        let plan = &*self.plan;
        let number = self.number_of(id);
        let mut task = self.application.task(number, plan.seed.child("tasks").nth(number));
        if let Some(clocks) = plan.remote.delay_max() {
            task.expect_delay(clocks);
        }
        if plan.topology.data_centers.len() > 1 && plan.remote.adds_as_they_come() {
            task.expect_late_changes();
        }
        let traveling = plan.remote.traveling(plan.sends_copies_to_look());
        let traveling = traveling.map(|traveling| (traveling, self.initial()));
        Worker::new(id, self.application.layout().clone(), self.layouts.clone(), task, traveling)
    }

    /// The number of a worker in the whole run.
    pub fn number_of(&self, id: WorkerId) -> usize {
        self.plan.topology.first_worker(id.dc) + usize::from(id.index)
    }

    /// The coordinator of the protocol.
    pub fn coordinator(&self) -> Coordinator {
        let plan = &*self.plan;
        Coordinator::new(CoordinatorConfig {
            servers: server_ids(&plan.topology).collect(),
            workers: worker_ids(&plan.topology).collect(),
            stop: plan.stop,
            scale: Scale {
                clocks: self.application.clocks_per_pass(),
                time: ROUND_TRIPS * plan.topology.rtt_max().0,
                trivial: self.trivial_objective(),
            },
            evaluate_every: plan.evaluate.every,
            lockstep: match &plan.remote {
                RemoteSync::LocalSteps(config) if config.has_quorum() => None,
                RemoteSync::Bsp(_) | RemoteSync::Ssp(_) | RemoteSync::LocalSteps(_) => {
                    let within = plan.local.staleness();
                    plan.remote.delay_max().map(|between| Lockstep { within, between })
                }
                RemoteSync::Tap(_) | RemoteSync::Asp(_) => None,
            },
            inactive: plan.late(),
        })
    }

    /// What the objective of a run that ends once that has settled is compared with. `None` where the application has no such
    /// predictor, or this process has not the data for it.
    fn trivial_objective(&self) -> Option<f64> {
        self.plan.stop.change.filter(|change| change.by == ChangeBy::Trend)?;
        let predictor = self.application.trivial_predictor().ok().flatten()?;
        Some(predictor.evaluation.objective)
    }

    /// The coordinator of a cluster whose nodes fail and come back.
    pub fn cluster_coordinator(&self) -> ClusterCoordinator {
        let failures = &self.plan.failures;
        let rules = FailureRules {
            give_up_after: failures.give_up_after.0,
            may_leave: failures.on_give_up == OnGiveUp::Leave,
            take_over_after: failures.take_over_after.map(|after| after.0),
            deltas_are_counts: self.plan.deltas_are_counts(),
        };
        ClusterCoordinator::new(self.coordinator(), rules)
    }

    /// The initial model. For hundreds of millions of parameters its creation takes seconds.
    fn initial(&self) -> &Model {
        let seed = self.plan.seed.child("model");
        self.initial.get_or_init(|| self.application.initial_model(seed))
    }

    /// The layout of each shard.
    pub fn layouts(&self) -> &[ShardLayout] {
        &self.layouts
    }
}

impl Cluster {
    /// Creates all nodes of a run.
    pub fn new(blueprint: &Blueprint<'_>) -> Self {
        let topology = &blueprint.plan.topology;
        Self {
            servers: server_ids(topology).map(|id| blueprint.server(id)).collect(),
            workers: worker_ids(topology).map(|id| blueprint.worker(id)).collect(),
            coordinator: blueprint.coordinator(),
            shards: blueprint.layouts.len(),
            first_workers: topology.dc_ids().map(|dc| topology.first_worker(dc)).collect(),
        }
    }

    /// The index of a server in [`Self::servers`].
    pub fn server_index(&self, id: ServerId) -> usize {
        id.dc.index() * self.shards + id.shard.index()
    }

    /// The index of a worker in [`Self::workers`].
    pub fn worker_index(&self, id: WorkerId) -> usize {
        self.first_workers[id.dc.index()] + usize::from(id.index)
    }
}

persist! {
    impl Persist<()> for Cluster {
        fn walk(Self { servers, workers, coordinator, shards: _, first_workers: _ }, walk, ()) {
            for server in servers {
                walk.part(server.id(), server, ())?;
            }
            for worker in workers {
                walk.part(worker.id(), worker, ())?;
            }
            walk.part("coordinator", coordinator, ())
        }
    }
}

/// All servers of a topology, by data center, then shard.
pub fn server_ids(topology: &Topology) -> impl Iterator<Item = ServerId> + '_ {
    topology.dc_ids().flat_map(|dc| {
        (0..topology.dc(dc).servers as u16).map(move |shard| ServerId { dc, shard: ShardId(shard) })
    })
}

/// All workers of a topology, by data center, then index.
pub fn worker_ids(topology: &Topology) -> impl Iterator<Item = WorkerId> + '_ {
    topology
        .dc_ids()
        .flat_map(|dc| (0..topology.dc(dc).workers as u16).map(move |index| WorkerId { dc, index }))
}

fn links_of(topology: &Topology, from: DcId) -> BTreeMap<DcId, LinkFacts> {
    let facts = |to| {
        let (bandwidth, rtt) = (topology.server_bandwidth(from, to), topology.link(from, to).rtt.0);
        (to, LinkFacts { bandwidth, rtt })
    };
    topology.dc_ids().filter(|to| *to != from).map(facts).collect()
}

fn schedule(application: &Arc<dyn Application>) -> Arc<Schedule> {
    let (clocks_per_pass, momentum) = (application.clocks_per_pass(), application.momentum());
    let application = application.clone();
    Arc::new(Schedule {
        learning_rate_factor: Box::new(move |clock| application.learning_rate_factor(clock)),
        clocks_per_pass,
        momentum,
    })
}

/// Round trips over the slowest link before an objective can be called settled: some for updates, and some for what they
/// change elsewhere.
const ROUND_TRIPS: u32 = 5;

/// The largest number of initial values that are hashed. Their creation takes some ten milliseconds.
const COMPARED_PARAMETERS_MAX: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use gaia_config::{Override, RunFile};
    use gaia_core::application::{ApplicationError, EvaluationSums, Metric, Task};
    use gaia_core::types::{ModelLayout, Seed};

    const RUN: &str = "name = \"r\"\nseed = 3\n\
        [app]\nkind = \"matrix-factorization\"\n\
        data.synthetic = { users = 20, items = 10, ratings = 100, rank = 2 }\n\
        [sync.remote]\nmodel = \"asp\"\n[stop]\nclocks = 1\n\
        [topology]\nname = \"t\"\nwan.bandwidth = \"1 Mbit/s\"\nwan.rtt = \"1 ms\"\n\
        [[topology.data_center]]\nname = \"a\"\n[[topology.data_center]]\nname = \"b\"\n";

    fn plan(settings: &[&str]) -> Plan {
        let overrides: Vec<Override> =
            settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
        RunFile::from_text("r", RUN, &overrides).unwrap().plan().unwrap()
    }

    fn hash(plan: &Plan) -> u64 {
        let homes = plan.topology.data_homes();
        let application = gaia_data::build(plan.app.as_ref(), &homes, plan.seed).unwrap();
        Blueprint::new(plan, &application).plan_hash
    }

    #[test]
    fn nodes_that_would_not_train_the_same_model_have_other_hashes() {
        let own = hash(&plan(&[]));
        for setting in [
            "app.regularization=0.2",
            "app.initial_scale=0.5",
            "app.learning_rate=0.01",
            "app.data.held_out=0.2",
            "app.rank=3",
            "seed=4",
            "sync.remote.threshold=0.02",
            "topology.wan.rtt='2 ms'",
        ] {
            assert_ne!(hash(&plan(&[setting])), own, "{setting}");
        }
        assert_ne!(hash(&plan(&["driver='real'", "failures.late=['b']"])), own);
    }

    #[test]
    fn what_a_node_may_have_of_its_own_changes_no_hash() {
        let own = hash(&plan(&[]));
        for setting in [
            "driver='real'",
            "stop.clocks=7",
            "evaluate.every=3",
            "log.sync='never'",
            "compute.jitter=0.5",
            "failures.give_up_after='1 min'",
            "topology.detours=false",
        ] {
            assert_eq!(hash(&plan(&[setting])), own, "{setting}");
        }
        let [here, there] = ["/here/ratings.csv", "/there/ratings.csv"].map(|path| {
            let path = format!("app.data.path='{path}'");
            plan(&["app.data.source='movielens'", &path]).agreement()
        });
        assert_eq!(here, there);
    }

    /// An application that a program hands in, with one value in the place of all others.
    struct Given {
        layout: Arc<ModelLayout>,
        value: f32,
        momentum: f64,
        deltas_are_shares: bool,
    }

    impl Application for Given {
        fn layout(&self) -> &Arc<ModelLayout> {
            &self.layout
        }

        fn workers(&self) -> usize {
            2
        }

        fn initial_model(&self, _: Seed) -> Model {
            let mut model = Model::zeros(self.layout.clone());
            model.values.fill(self.value);
            model
        }

        fn task(&self, _: usize, _: Seed) -> Box<dyn Task> {
            unreachable!("nothing is trained")
        }

        fn sums(&self, _: &Model, _: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
            unreachable!("nothing is evaluated")
        }

        fn metric(&self) -> Metric {
            unreachable!("nothing is evaluated")
        }

        fn momentum(&self) -> f64 {
            self.momentum
        }

        fn deltas_are_shares(&self) -> bool {
            self.deltas_are_shares
        }
    }

    #[test]
    fn the_values_of_an_application_that_is_handed_in_are_compared_however_many() {
        let text = RUN.replace("kind = \"matrix-factorization\"", "kind = \"external\"");
        let text = text.replace("data.synthetic", "settings");
        let plan = RunFile::from_text("r", &text, &[]).unwrap().plan().unwrap();
        let hash_of = |rows, shape: &[usize], value, momentum, deltas_are_shares| {
            let table = TableLayout { name: "w".into(), rows, width: 2 };
            let layout = ModelLayout::new(vec![table]).with_shapes(vec![shape.into()]);
            let given: Arc<dyn Application> =
                Arc::new(Given { layout: Arc::new(layout), value, momentum, deltas_are_shares });
            Blueprint::new(&plan, &given).plan_hash
        };
        let hash =
            |rows, shape: &[usize], value, momentum| hash_of(rows, shape, value, momentum, false);

        let large = COMPARED_PARAMETERS_MAX;
        assert_eq!(hash(large, &[large, 2], 0.5, 0.0), hash(large, &[large, 2], 0.5, 0.0));
        assert_ne!(hash(large, &[large, 2], 0.5, 0.0), hash(large, &[large, 2], 0.25, 0.0));
        let own = hash(3, &[3, 2], 0.5, 0.0);
        for other in [hash(3, &[3, 1, 2], 0.5, 0.0), hash(3, &[3, 2], 0.5, 0.9)] {
            assert_ne!(own, other);
        }
        assert_ne!(own, hash_of(3, &[3, 2], 0.5, 0.0, true));
    }
}
