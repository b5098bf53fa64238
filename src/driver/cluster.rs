//! The nodes of a run, made from a plan: what every driver starts from.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::config::Plan;
use crate::coordinator::{Coordinator, CoordinatorConfig};
use crate::ml::Application;
use crate::server::{LinkFacts, LongestWay, Schedule, Server, ServerConfig};
use crate::sync::RemoteSync;
use crate::topology::{Overlay, Topology};
use crate::types::{DcId, Model, ServerId, ShardId, ShardLayout, StateError, Walk, WorkerId};
use crate::worker::Worker;

/// Makes the nodes of a run: all of them in one process, or one in each.
pub(crate) struct Blueprint<'p> {
    plan: &'p Plan,
    application: Arc<dyn Application>,
    layouts: Vec<ShardLayout>,
    /// Made once a node needs it.
    initial: OnceLock<Model>,
    schedule: Arc<Schedule>,
    overlay: Overlay,
    pub(crate) plan_hash: u64,
}

/// Every node of a run, in one process.
pub struct Cluster {
    /// By data center, then shard.
    pub servers: Vec<Server>,
    /// By data center, then index.
    pub workers: Vec<Worker>,
    pub coordinator: Coordinator,
    pub shards: usize,
    first_workers: Vec<usize>,
}

impl<'p> Blueprint<'p> {
    pub(crate) fn new(plan: &'p Plan, application: &Arc<dyn Application>) -> Self {
        let topology = &plan.topology;
        let layout = application.layout();
        let parts = (&plan.local, &plan.remote, topology, plan.late());
        let agreed = (parts, layout.tables(), plan.drain);
        Self {
            plan,
            application: application.clone(),
            layouts: ShardLayout::all(layout, topology.data_centers[0].servers),
            initial: OnceLock::new(),
            schedule: schedule(application),
            overlay: plan.overlay(),
            plan_hash: plan.seed.child(&format!("{agreed:?}")).0,
        }
    }

    pub(crate) fn server(&self, id: ServerId) -> Server {
        self.server_of(id, self.initial())
    }

    /// A server that is to have its values from elsewhere.
    pub(crate) fn server_without_values(&self, id: ServerId) -> Server {
        self.server_of(id, &Model::zeros(self.application.layout().clone()))
    }

    fn server_of(&self, id: ServerId, model: &Model) -> Server {
        let (plan, topology) = (self.plan, &self.plan.topology);
        let shards = self.layouts.len();
        let config = ServerConfig {
            id,
            workers: topology.dc(id.dc).workers,
            all_workers: topology.workers_per_dc(),
            shards,
            local: plan.local,
            remote: plan.remote.clone(),
            layout: self.layouts[id.shard.index()].clone(),
            links: links_of(topology, id.dc),
            neighbours: self.overlay.neighbours(id.dc),
            first_hops: self.overlay.first_hops(id.dc),
            way: LongestWay {
                rtt: self.overlay.rtt_max(topology).0,
                hops: self.overlay.hops(topology).max(1) as u64,
            },
            schedule: self.schedule.clone(),
            drain: plan.drain.method,
            absent: plan.late(),
            plan_hash: self.plan_hash,
        };
        Server::new(config, model)
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Worker {
        let plan = self.plan;
        let number = plan.topology.first_worker(id.dc) + usize::from(id.index);
        let task = self.application.task(number, plan.seed.child("tasks").nth(number));
        let guard = plan.remote.guard().map(|guard| (guard, self.initial()));
        Worker::new(id, self.application.layout().clone(), self.layouts.clone(), task, guard)
    }

    pub(crate) fn coordinator(&self) -> Coordinator {
        let plan = self.plan;
        Coordinator::new(CoordinatorConfig {
            servers: server_ids(&plan.topology).collect(),
            workers: worker_ids(&plan.topology).collect(),
            stop: plan.stop,
            evaluate_every: plan.evaluate.every,
            lockstep: match &plan.remote {
                RemoteSync::Bsp(_) | RemoteSync::Ssp(_) | RemoteSync::LocalSteps(_) => {
                    Some(plan.local.staleness())
                }
                RemoteSync::Tap(_) | RemoteSync::Asp(_) => None,
            },
            absent: plan.late(),
        })
    }

    /// What training begins with. Where a shard has hundreds of millions of parameters, that takes seconds.
    fn initial(&self) -> &Model {
        let seed = self.plan.seed.child("model");
        self.initial.get_or_init(|| self.application.initial_model(seed))
    }

    /// The layout of each shard.
    pub(crate) fn layouts(&self) -> &[ShardLayout] {
        &self.layouts
    }
}

impl Cluster {
    pub fn new(plan: &Plan, application: &Arc<dyn Application>) -> Self {
        let topology = &plan.topology;
        let blueprint = Blueprint::new(plan, application);
        Self {
            servers: server_ids(topology).map(|id| blueprint.server(id)).collect(),
            workers: worker_ids(topology).map(|id| blueprint.worker(id)).collect(),
            coordinator: blueprint.coordinator(),
            shards: blueprint.layouts.len(),
            first_workers: topology.dc_ids().map(|dc| topology.first_worker(dc)).collect(),
        }
    }

    pub fn server_index(&self, id: ServerId) -> usize {
        id.dc.index() * self.shards + id.shard.index()
    }

    pub fn worker_index(&self, id: WorkerId) -> usize {
        self.first_workers[id.dc.index()] + usize::from(id.index)
    }

    /// Walks over what changes of every node as time goes on, once all outputs are polled.
    pub(crate) fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        for server in &mut self.servers {
            let id = server.id();
            server.state(&mut walk.at(id))?;
        }
        for worker in &mut self.workers {
            let id = worker.id();
            worker.state(&mut walk.at(id))?;
        }
        self.coordinator.state(&mut walk.at("coordinator"))
    }
}

pub fn server_ids(topology: &Topology) -> impl Iterator<Item = ServerId> + '_ {
    topology.dc_ids().flat_map(|dc| {
        (0..topology.dc(dc).servers as u16).map(move |shard| ServerId { dc, shard: ShardId(shard) })
    })
}

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
