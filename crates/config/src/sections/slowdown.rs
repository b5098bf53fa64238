//! `compute.slowdown`: stragglers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::{Fault, Problem};
use crate::range::{self, Checks};
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, WorkerId};

/// The factors on the times of workers' iterations, each above 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowdown {
    /// By data center and worker, of all of them or of none, who have 1.
    factors: Vec<Vec<f64>>,
}

/// The factors of one data center, as run files write them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a factor of all workers of the data center, or a list of one for each worker"
)]
pub(crate) enum SlowdownKey {
    /// That of all workers.
    All(f64),
    /// One for each worker.
    Each(Vec<f64>),
}

impl Slowdown {
    /// The factor of a worker.
    pub fn of(&self, worker: WorkerId) -> f64 {
        let of_dc = self.factors.get(worker.dc.index());
        of_dc.and_then(|of_dc| of_dc.get(usize::from(worker.index))).copied().unwrap_or(1.0)
    }

    /// Sets the factor of all workers of a data center.
    pub fn set(&mut self, topology: &Topology, dc: DcId, factor: f64) {
        if self.factors.is_empty() {
            *self = Self::none(topology);
        }
        self.factors[dc.index()].fill(factor);
    }

    /// The factors of the same workers in one data center.
    #[must_use]
    pub(crate) fn on_lan(&self) -> Self {
        Self { factors: vec![self.factors.concat()] }
    }

    fn none(topology: &Topology) -> Self {
        let factors = topology.data_centers.iter().map(|dc| vec![1.0; dc.workers]);
        Self { factors: factors.collect() }
    }

    /// Checks the factors of a run file.
    pub(crate) fn check(
        checks: &Checks<'_>,
        keys: BTreeMap<String, SlowdownKey>,
        topology: &Topology,
    ) -> Result<Self, Problem> {
        let mut slowdown = Self::none(topology);
        for (name, key) in keys {
            let path = format!("compute.slowdown.{name}");
            let Some(at) = topology.data_centers.iter().position(|dc| dc.name == name) else {
                let expected = topology.data_centers.iter().map(|dc| dc.name.clone()).collect();
                return Err(checks.root.problem(&path, Fault::UnknownKey { expected }));
            };
            let workers = topology.data_centers[at].workers;
            let of_dc = match key {
                SlowdownKey::All(factor) => vec![factor; workers],
                SlowdownKey::Each(list) if list.len() != workers => {
                    let expected =
                        format!("a factor for each of its workers, of which {name} has {workers}");
                    return Err(checks.found(&path, format!("{} factors", list.len()), expected));
                }
                SlowdownKey::Each(list) => list,
            };
            of_dc.iter().try_for_each(|factor| checks.number(&path, *factor, range::SLOWDOWN))?;
            slowdown.factors[at] = of_dc;
        }
        Ok(slowdown)
    }

    /// The factors of each data center of a topology, by name.
    pub(crate) fn resolved<'t>(&self, topology: &'t Topology) -> BTreeMap<&'t str, SlowdownKey> {
        let of_dc = |dc: DcId| {
            let workers = 0..topology.dc(dc).workers as u16;
            let list: Vec<f64> = workers.map(|index| self.of(WorkerId { dc, index })).collect();
            match list.first() {
                Some(first) if list.iter().any(|factor| factor != first) => SlowdownKey::Each(list),
                first => SlowdownKey::All(first.copied().unwrap_or(1.0)),
            }
        };
        topology.dc_ids().map(|dc| (topology.dc(dc).name.as_str(), of_dc(dc))).collect()
    }
}
