//! How many bytes of parameters the processes of a run hold.

use std::cell::LazyCell;
use std::ops::Range;

use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::sync::{Combine, Correction, Outer, Policy, RemoteSync};
use gaia_core::types::DcId;

/// Bytes of parameters that a run holds once every parameter that its data use has been changed and sent. A run that changes
/// few of them holds less: sums and rankings take memory for what was changed alone. Data, what a task keeps, rows of sparse
/// tables and frames on their way are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Of the largest server.
    pub server: u64,
    /// Of a worker.
    pub worker: u64,
    /// Of all servers and workers, and of copies that are evaluated where all of them are in one process.
    pub all: u64,
}

impl Memory {
    /// What a run of this plan holds with this application.
    pub fn of(plan: &Plan, application: &dyn Application) -> Self {
        let topology = &plan.topology;
        let overlay = plan.overlay();
        let whole = BYTES * application.layout().dense_parameters() as f64;
        let used = |workers: Range<usize>| BYTES * application.parameters_in_use(workers) as f64;
        // It takes a pass over the data, and not every model asks for it.
        let used_by_any = LazyCell::new(|| used(0..topology.workers()));
        // The model, the changes, and under a guard the initial model.
        let of_worker = (2 + usize::from(plan.remote.guard().is_some())) as f64;

        let (mut server, mut worker, mut all) = (0.0_f64, 0.0_f64, 0.0);
        for (dc, id) in topology.data_centers.iter().zip(topology.dc_ids()) {
            let first = topology.first_worker(id);
            let workers = first..first + dc.workers;
            let by_each: Vec<f64> = workers.clone().map(|at| used(at..at + 1)).collect();
            let used_by_workers: f64 = by_each.iter().sum();
            let links = Links::of(&overlay.neighbours(id));
            let changed =
                if holds_own_changes_alone(plan, links) { used(workers) } else { *used_by_any };
            let vectors = server_vectors(plan, links, application.momentum());
            // Each worker is given an answer to its read.
            let servers = whole * VALUES + changed * vectors + used_by_workers;
            server = server.max(servers / dc.servers.max(1) as f64);
            worker = by_each.iter().fold(worker, |most, used| most.max(of_worker * used));
            all += servers + of_worker * used_by_workers;
        }
        all += whole * topology.data_centers.len().min(EVALUATED_AT_ONCE) as f64;
        Self { server: server as u64, worker: worker as u64, all: all as u64 }
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

/// Whether a server's sums are of changes by the workers of its own data center. Hubs forward those of others, and a guard
/// holds copies of all.
fn holds_own_changes_alone(plan: &Plan, links: Links) -> bool {
    let sends_updates = matches!(plan.remote, RemoteSync::Tap(_) | RemoteSync::Asp(_));
    sends_updates && links.cliques <= 1.0 && plan.remote.guard().is_none()
}

/// For each parameter of a shard that changes, how many numbers its server holds beside its value.
fn server_vectors(plan: &Plan, links: Links, momentum: f64) -> f64 {
    let data_centers = plan.topology.data_centers.len() as f64;
    if plan.topology.links.is_empty() {
        return 0.0;
    }

    // A guard holds a copy that leaves and one that arrives.
    let guard = if plan.remote.guard().is_some() { 2.0 } else { 0.0 };
    guard
        + match &plan.remote {
            // The totals; own changes and a total for each clock that may be open; parts of the home block.
            RemoteSync::Bsp(_) => 3.0 + 1.0,
            RemoteSync::Ssp(ssp) => 3.0 + 1.0 + ssp.staleness.0 as f64,
            // For each link the sum that was sent.
            RemoteSync::Tap(_) => sources(links, false) + links.mirrors,
            RemoteSync::Asp(asp) => match asp.policy {
                // What was released to all, and what is selected; for each link the sum that was sent.
                Policy::Paper => sources(links, false) + 1.0 + SELECTION + links.mirrors,
                // For each link the sum that was sent, and its ranking.
                Policy::Link => {
                    let is_corrected = momentum > 0.0 && asp.momentum != Correction::Off;
                    // Indexes are put in order in memory that links share.
                    sources(links, is_corrected) + 1.0 + (1.0 + SELECTION) * links.mirrors
                }
            },
            RemoteSync::LocalSteps(config) => {
                let mean = config.combine == Combine::Mean;
                let velocity = if config.outer == Outer::Nesterov { 1.0 } else { 0.0 };
                // Parts that no total includes, here and at their homes.
                let late = if config.has_quorum() { 2.0 } else { 0.0 };
                // What sparse parts owe to later rounds.
                let owed = if config.is_sparse() { 1.0 } else { 0.0 };
                // What is expected of others.
                let expected = if config.drift_correction > 0.0 { 1.0 } else { 0.0 };
                // Agreed values, own changes, factors, a part that leaves and totals that arrive.
                4.0 + late
                    + owed
                    + expected
                    + if mean { 1.0 } else { 0.0 }
                    // Of the home block: the velocity, what steps owe to later ones, which is their rounding error at least,
                    // counts, and the parts of all.
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

/// Numbers that a server holds of every parameter: its value, and the copy that it is sent when the run ends.
const VALUES: f64 = 2.0;

/// Copies of data centers that are assembled at the same time.
const EVALUATED_AT_ONCE: usize = 2;

/// Of each parameter that is selected: its index of four bytes and its bucket of two.
const SELECTION: f64 = 1.5;

/// Of a parameter in single precision.
const BYTES: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;

    #[test]
    fn what_rounds_hold_of_every_parameter_follows_from_their_settings() {
        let vectors = |settings: &[&str]| {
            let links = Links { cliques: 1.0, mirrors: 2.0 };
            server_vectors(&facts::tests::plan(settings), links, 0.0)
        };
        let (density, totals) = ("sync.remote.density=0.1", "sync.remote.total_density=0.1");
        assert_eq!(vectors(&[]), 7.0);
        assert_eq!([vectors(&[density]), vectors(&[totals])], [8.0, 7.0]);
        assert_eq!(vectors(&[density, totals]), 8.0);
        assert_eq!(vectors(&["sync.remote.drift_correction=0.5"]), 8.0);
    }
}
