//! How many bytes of parameters the processes of a run hold.

use gaia_config::Plan;
use gaia_core::sync::{Combine, Correction, Outer, Policy, RemoteSync};
use gaia_core::types::DcId;

/// Bytes of parameters that a run holds once every parameter has been changed and sent. A run that changes few of many
/// parameters holds less: sums and rankings take memory for what was changed alone. Data, what a task keeps and frames
/// on their way are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Of the largest server.
    pub server: u64,
    /// Of a worker.
    pub worker: u64,
    /// Of all servers and workers.
    pub all: u64,
}

impl Memory {
    /// What a run of this plan holds with a model of so many parameters, under this momentum coefficient of its
    /// application.
    pub fn of(plan: &Plan, parameters: usize, momentum: f64) -> Self {
        let topology = &plan.topology;
        let overlay = plan.overlay();
        let vectors = topology.data_centers.iter().zip(topology.dc_ids()).map(|(dc, id)| {
            let links = Links::of(&overlay.neighbours(id));
            // Each worker is given an answer to its read.
            (dc.servers as f64, server_vectors(plan, links, momentum) + dc.workers as f64)
        });
        let vectors: Vec<(f64, f64)> = vectors.collect();

        let shards = topology.data_centers.first().map_or(1, |dc| dc.servers.max(1));
        let vector = BYTES * parameters as f64 / shards as f64;
        let server = vector * vectors.iter().map(|(_, held)| *held).fold(0.0, f64::max);
        let servers = vector * vectors.iter().map(|(servers, held)| servers * held).sum::<f64>();
        // The model, the changes, and under a guard the initial model.
        let worker =
            BYTES * (2 + usize::from(plan.remote.guard().is_some())) as f64 * parameters as f64;

        Self {
            server: server as u64,
            worker: worker as u64,
            all: (servers + topology.workers() as f64 * worker) as u64,
        }
    }

    /// Of the largest process, where servers and workers are processes of their own.
    pub(crate) fn largest_process(self) -> u64 {
        self.server.max(self.worker)
    }
}

/// How many links a server sends updates on, and in how many cliques of the overlay.
#[derive(Clone, Copy)]
struct Links {
    cliques: f64,
    mirrors: f64,
}

impl Links {
    fn of(cliques: &[Vec<DcId>]) -> Self {
        let mirrors: usize = cliques.iter().map(Vec::len).sum();
        Self { cliques: cliques.len() as f64, mirrors: mirrors as f64 }
    }
}

/// Values for each parameter of a shard that its server holds.
fn server_vectors(plan: &Plan, links: Links, momentum: f64) -> f64 {
    let data_centers = plan.topology.data_centers.len() as f64;
    if plan.topology.links.is_empty() {
        return 1.0;
    }

    // A guard holds a copy that leaves and one that arrives.
    let guard = if plan.remote.guard().is_some() { 2.0 } else { 0.0 };
    1.0 + guard
        + match &plan.remote {
            // The totals; own changes and a total for each clock that may be open; parts of the home block.
            RemoteSync::Bsp(_) => 3.0 + 1.0,
            RemoteSync::Ssp(ssp) => 3.0 + 1.0 + ssp.staleness.0 as f64,
            // For each link the sum that was sent.
            RemoteSync::Tap(_) => sources(links, false) + links.mirrors,
            RemoteSync::Asp(asp) => match asp.policy {
                // What was released to all, and its ranking; for each link the sum that was sent.
                Policy::Paper => sources(links, false) + 2.0 + SELECTION + links.mirrors,
                // For each link the sum that was sent, and its ranking.
                Policy::Link => {
                    let is_corrected = momentum > 0.0 && asp.momentum != Correction::Off;
                    sources(links, is_corrected) + SELECTION + 2.0 * links.mirrors
                }
            },
            RemoteSync::LocalSteps(config) => {
                let mean = config.combine == Combine::Mean;
                let velocity = if config.outer == Outer::Nesterov { 1.0 } else { 0.0 };
                // Parts that no total includes, here and at their homes.
                let late = if config.has_quorum() { 2.0 } else { 0.0 };
                // Agreed values, own changes, factors, a part that leaves and totals that arrive.
                4.0 + late
                    + if mean { 1.0 } else { 0.0 }
                    // Of the home block: the outer step, counts, and the parts of all.
                    + (velocity + 2.0 + data_centers) / data_centers
            }
        }
}

/// The sums of changes: of the data center's workers, and where hubs forward or gradients are sent, for each clique.
/// With gradients also the steps of this clock and of the one before, and what mirrors' gradients still add.
fn sources(links: Links, has_gradients: bool) -> f64 {
    let cliques = if links.cliques > 1.0 || has_gradients { links.cliques } else { 0.0 };
    1.0 + cliques + if has_gradients { 3.0 } else { 0.0 }
}

/// While parameters are selected: of each its index of four bytes and its bucket of two.
const SELECTION: f64 = 1.5;

/// Of a parameter in single precision.
const BYTES: f64 = 4.0;
