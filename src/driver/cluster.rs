//! The nodes of a run, made from a plan: what every driver starts from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Plan;
use crate::coordinator::{Coordinator, CoordinatorConfig};
use crate::ml::Application;
use crate::server::{LinkFacts, LongestWay, Schedule, Server, ServerConfig};
use crate::sync::RemoteSync;
use crate::topology::Topology;
use crate::types::{DcId, ServerId, ShardId, ShardLayout, WorkerId};
use crate::worker::Worker;

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

impl Cluster {
    pub fn new(plan: &Plan, application: &Arc<dyn Application>) -> Self {
        let topology = &plan.topology;
        let shards = topology.data_centers[0].servers;
        let layout = application.layout();
        let layouts = ShardLayout::all(layout, shards);
        let initial = application.initial_model(plan.seed.child("model"));
        let schedule = schedule(application);
        let agreed = (&plan.local, &plan.remote, topology, layout.tables(), plan.drain);
        let plan_hash = plan.seed.child(&format!("{agreed:?}")).0;
        let overlay = plan.overlay();
        let way = LongestWay {
            rtt: overlay.rtt_max(topology).0,
            hops: overlay.hops(topology).max(1) as u64,
        };
        let servers: Vec<Server> = server_ids(topology)
            .map(|id| {
                let config = ServerConfig {
                    id,
                    workers: topology.dc(id.dc).workers,
                    all_workers: topology.workers_per_dc(),
                    shards,
                    local: plan.local,
                    remote: plan.remote.clone(),
                    layout: layouts[id.shard.index()].clone(),
                    links: links_of(topology, id.dc, shards),
                    neighbours: overlay.neighbours(id.dc),
                    first_hops: overlay.first_hops(id.dc),
                    way,
                    schedule: schedule.clone(),
                    drain: plan.drain.method,
                    plan_hash,
                };
                Server::new(config, &initial)
            })
            .collect();
        let tasks = plan.seed.child("tasks");
        let workers: Vec<Worker> = worker_ids(topology)
            .enumerate()
            .map(|(number, id)| {
                let task = application.task(number, tasks.nth(number));
                let guard = plan.remote.guard().map(|guard| (guard, &initial));
                Worker::new(id, layout.clone(), layouts.clone(), task, guard)
            })
            .collect();
        let coordinator = Coordinator::new(CoordinatorConfig {
            servers: server_ids(topology).collect(),
            workers: worker_ids(topology).collect(),
            stop: plan.stop,
            evaluate_every: plan.evaluate.every,
            lockstep: match &plan.remote {
                RemoteSync::Bsp(_) | RemoteSync::Ssp(_) | RemoteSync::LocalSteps(_) => {
                    Some(plan.local.staleness())
                }
                RemoteSync::Tap(_) | RemoteSync::Asp(_) => None,
            },
        });
        let first_workers = topology.dc_ids().map(|dc| topology.first_worker(dc)).collect();
        Self { servers, workers, coordinator, shards, first_workers }
    }

    pub fn server_index(&self, id: ServerId) -> usize {
        id.dc.index() * self.shards + id.shard.index()
    }

    pub fn worker_index(&self, id: WorkerId) -> usize {
        self.first_workers[id.dc.index()] + usize::from(id.index)
    }

    /// The servers of one data center, by shard.
    pub fn servers_of(&self, dc: DcId) -> &[Server] {
        &self.servers[dc.index() * self.shards..(dc.index() + 1) * self.shards]
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

fn links_of(topology: &Topology, from: DcId, shards: usize) -> BTreeMap<DcId, LinkFacts> {
    let peers = topology.dc_ids().filter(|to| *to != from);
    peers
        .map(|to| {
            let link = topology.link(from, to);
            let bandwidth = link.bandwidth.scaled(1.0 / shards as f64);
            (to, LinkFacts { bandwidth, rtt: link.rtt.0 })
        })
        .collect()
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
