//! How many workers change each parameter, as homes learn it from the parts that come.
//!
//! A parameter that all data centers change moves by the sum of their changes, one that a single data center changes
//! (a user's row, where each data center has its own users) by that data center's alone. For a copy that takes its
//! own changes for everyone's, the difference is a factor from 1 to the number of data centers, and the wrong one
//! diverges. So homes count, and say so whenever the number of rounds has doubled and the count has changed.

use std::ops::Range;

use crate::codec::Changes;
use crate::persist;
use crate::server::blocks::Part;
use crate::server::config::ServerConfig;
use crate::store::Touched;
use crate::sync::{Combine, ValueFormat};
use crate::types::{Content, DcId};

/// Who has ever changed the parameters of one home block.
#[derive(Debug)]
pub(super) struct ContributorCounts {
    /// Workers of all data centers that have changed a parameter.
    workers: Vec<f32>,
    /// By data center: its workers, and what they have changed.
    changed: Vec<(f32, Touched)>,
    /// Something is new since it was last said.
    grown: bool,
}

/// What own changes count in the copy until a round has taken them, per parameter.
#[derive(Debug)]
pub(super) struct Factors {
    own_workers: f32,
    all_workers: f32,
    /// Empty where all are 1.
    factors: Vec<f32>,
}

impl ContributorCounts {
    pub(super) fn new(workers: &[usize], parameters: usize) -> Self {
        let changed = workers.iter().map(|workers| (*workers as f32, Touched::none(parameters)));
        Self { workers: vec![0.0; parameters], changed: changed.collect(), grown: false }
    }

    /// Counts what a part of the block that begins at `start` changes.
    pub(super) fn on_part(&mut self, of: DcId, start: usize, changes: Changes<'_>) {
        let (workers, changed) = &mut self.changed[of.index()];
        changes.for_each(|index, value| {
            if value != 0.0 && changed.insert(index - start) {
                self.workers[index - start] += *workers;
                self.grown = true;
            }
        });
    }

    /// The count of the block that begins at `start`, where it is time to say it after so many rounds.
    pub(super) fn news(&mut self, rounds: u64, start: usize) -> Option<Part> {
        let due = self.grown && rounds.is_power_of_two();
        due.then(|| {
            self.grown = false;
            Part::take(&mut self.workers.clone(), start, ValueFormat::Int8)
        })
    }
}

persist! {
    impl Persist<()> for ContributorCounts {
        fn walk(Self { workers, changed, grown }, walk, ()) {
            walk.tensor("workers", Content::Optimizer, workers)?;
            let parameters = workers.len();
            for (dc, (_, changed)) in (0..).zip(changed) {
                let name: &str = &format!("changed.{dc}");
                walk.flatten(changed, (name, parameters))?;
            }
            walk.record("grown", grown)
        }
    }
}

impl Factors {
    pub(super) fn new(combine: Combine, config: &ServerConfig, parameters: usize) -> Self {
        let factors = match combine {
            Combine::Sum => Vec::new(),
            Combine::Mean => vec![1.0; parameters],
        };
        let all_workers = config.all_workers.iter().sum::<usize>() as f32;
        Self { own_workers: config.workers as f32, all_workers, factors }
    }

    /// Adds to values that hold a change once what it counts more.
    pub(super) fn on_change(&self, place: Range<usize>, change: &[f32], values: &mut [f32]) {
        if self.factors.is_empty() {
            return;
        }
        for ((value, change), factor) in values.iter_mut().zip(change).zip(&self.factors[place]) {
            *value += (factor - 1.0) * change;
        }
    }

    /// Takes a home's count; parameters without any keep their factor.
    pub(super) fn on_workers(&mut self, workers: Changes<'_>) {
        workers.for_each(|index, workers| {
            if workers > 0.0 {
                self.factors[index] = (workers.min(self.all_workers) / self.own_workers).max(1.0);
            }
        });
    }

    pub(super) fn of(&self, place: usize) -> f32 {
        self.factors.get(place).copied().unwrap_or(1.0)
    }
}

persist! {
    impl Persist<()> for Factors {
        fn walk(Self { own_workers: _, all_workers: _, factors }, walk, ()) {
            walk.tensor("factors", Content::Optimizer, factors)
        }
    }
}
