//! How many bytes of parameters the processes of a run hold.

use gaia_config::Plan;
use gaia_core::sync::{Combine, Outer, Policy, RemoteSync};

/// Bytes of parameters that a run holds. Neither data nor what a task keeps is included, and every change is taken to be
/// dense.
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
        let shards = topology.data_centers.first().map_or(1, |dc| dc.servers.max(1));
        let server = BYTES * server_vectors(plan, momentum) * parameters as f64 / shards as f64;
        // The model, the changes, and under a guard the initial model.
        let worker =
            BYTES * (2 + usize::from(plan.remote.guard().is_some())) as f64 * parameters as f64;

        let (servers, workers) = (topology.servers() as f64, topology.workers() as f64);
        Self {
            server: server as u64,
            worker: worker as u64,
            all: (servers * server + workers * worker) as u64,
        }
    }

    /// Of the largest process, where servers and workers are processes of their own.
    pub(crate) fn largest_process(self) -> u64 {
        self.server.max(self.worker)
    }
}

/// Values for each parameter of a shard that its server holds.
fn server_vectors(plan: &Plan, momentum: f64) -> f64 {
    let data_centers = plan.topology.data_centers.len() as f64;
    if plan.topology.links.is_empty() {
        return 1.0;
    }
    let neighbours = plan.topology.dc_ids().map(|dc| plan.overlay().neighbours(dc).len()).max();
    let neighbours = neighbours.unwrap_or(0) as f64;

    // A guard holds a copy that leaves and one that arrives.
    let guard = if plan.remote.guard().is_some() { 2.0 } else { 0.0 };
    // The steps of this clock and of the one before, and what mirrors' gradients still add.
    let corrected = if momentum > 0.0 { 3.0 } else { 0.0 };
    1.0 + guard
        + match &plan.remote {
            // The totals; own changes and a total for each clock that may be open; parts of the home block.
            RemoteSync::Bsp(_) => 3.0 + 1.0,
            RemoteSync::Ssp(ssp) => 3.0 + 1.0 + ssp.staleness.0 as f64,
            // The sum of changes, and for each neighbour the sum that was sent.
            RemoteSync::Tap(_) => 1.0 + neighbours + corrected,
            RemoteSync::Asp(asp) => {
                let released = if asp.policy == Policy::Paper { 1.0 } else { 0.0 };
                // Each neighbour has a ranking beside the sum.
                1.0 + released + 2.0 * neighbours + corrected
            }
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

/// Of a parameter in single precision.
const BYTES: f64 = 4.0;
