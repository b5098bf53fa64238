//! The number of workers that change each parameter, which homes count from received parts.
//!
//! A parameter that all data centers change moves by the sum of their changes. A parameter that one data center changes
//! (a user's row, if each data center has its own users) moves by the change of that one. A copy that scales its own
//! changes as if all workers had made them needs a factor between 1 and the number of data centers, and training with a
//! wrong factor diverges. So homes count the workers. They send the counts each time the number of rounds has doubled,
//! if the counts have changed.
//!
//! Where deltas are shares of workers' own steps, nothing is counted: a copy moves by the steps of its own workers, as in
//! local SGD, and the factor is that of a parameter that all workers change.

use std::ops::Range;

use crate::codec::Changes;
use crate::persist;
use crate::server::blocks::Part;
use crate::server::blocks::sums::add_change;
use crate::server::config::ServerConfig;
use crate::store::Touched;
use crate::sync::{Combine, ValueFormat};
use crate::types::{Content, DcId};

/// The workers that have changed the parameters of one home block.
#[derive(Debug)]
pub(super) struct ContributorCounts {
    /// The number of workers of all data centers that have changed a parameter.
    workers: Vec<f32>,
    /// By data center: its number of workers, and the parameters that they have changed.
    changed: Vec<(f32, Touched)>,
    /// Whether the counts have changed since they were last sent.
    grown: bool,
}

/// The factors of own changes in the copy until a round includes them, per parameter.
#[derive(Debug)]
pub(super) struct Factors {
    own_workers: f32,
    all_workers: f32,
    /// The factor of all parameters, if they are not counted.
    common: f32,
    /// Empty if they are not counted.
    factors: Vec<f32>,
}

impl ContributorCounts {
    pub(super) fn new(workers: &[usize], parameters: usize) -> Self {
        let changed = workers.iter().map(|workers| (*workers as f32, Touched::none(parameters)));
        Self { workers: vec![0.0; parameters], changed: changed.collect(), grown: false }
    }

    /// Counts the changes of a part. The block begins at the parameter `start`.
    pub(super) fn on_part(&mut self, of: DcId, start: usize, changes: Changes<'_>) {
        let (workers, changed) = &mut self.changed[of.index()];
        changes.for_each(|index, value| {
            if value != 0.0 && changed.insert(index - start) {
                self.workers[index - start] += *workers;
                self.grown = true;
            }
        });
    }

    /// Counts a range of parameters that a data center has changed. The block begins at the parameter `start`.
    pub(super) fn on_changed(&mut self, of: DcId, start: usize, changed: Range<usize>) {
        let (workers, known) = &mut self.changed[of.index()];
        for place in changed.start - start..changed.end - start {
            if known.insert(place) {
                self.workers[place] += *workers;
                self.grown = true;
            }
        }
    }

    /// The counts of the block that begins at the parameter `start`, if they are due after this number of rounds.
    pub(super) fn take_due(&mut self, rounds: u64, start: usize) -> Option<Part> {
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
        let (own_workers, all_workers) =
            (config.workers as f32, config.all_workers.iter().sum::<usize>() as f32);
        let (common, factors) = match combine {
            Combine::Sum => (1.0, Vec::new()),
            Combine::Mean if config.deltas_are_shares => (all_workers / own_workers, Vec::new()),
            Combine::Mean => (1.0, vec![1.0; parameters]),
        };
        Self { own_workers, all_workers, common, factors }
    }

    /// Scales a change in the copy: adds the change times its factor minus 1 to values that include the change once.
    pub(super) fn on_change(&self, place: Range<usize>, change: &[f32], values: &mut [f32]) {
        if self.factors.is_empty() {
            if self.common != 1.0 {
                for (value, change) in values.iter_mut().zip(change) {
                    *value += (self.common - 1.0) * change;
                }
            }
            return;
        }
        for ((value, change), factor) in values.iter_mut().zip(change).zip(&self.factors[place]) {
            *value += (factor - 1.0) * change;
        }
    }

    /// Handles a home's counts. Parameters without a count keep their factor.
    pub(super) fn on_workers(&mut self, workers: Changes<'_>) {
        workers.for_each(|index, workers| {
            if workers > 0.0 {
                self.factors[index] = (workers.min(self.all_workers) / self.own_workers).max(1.0);
            }
        });
    }

    /// The factor of all parameters, if they are not counted.
    pub(super) fn common(&self) -> Option<f32> {
        self.factors.is_empty().then_some(self.common)
    }

    /// Sets the copy of a block to the agreed values plus the own changes times their factors.
    pub(super) fn write_copy(
        &self,
        block: Range<usize>,
        (agreed, own): (&[f32], &[f32]),
        copy: &mut [f32],
    ) {
        let places = copy.iter_mut().zip(agreed.iter().zip(own));
        let write = |copy: &mut f32, agreed: f32, change: f32| {
            *copy = agreed;
            add_change(copy, change);
        };
        match self.common() {
            Some(factor) => {
                places.for_each(|(copy, (agreed, own))| write(copy, *agreed, factor * own));
            }
            None => {
                let places = places.zip(&self.factors[block]);
                places
                    .for_each(|((copy, (agreed, own)), factor)| write(copy, *agreed, factor * own));
            }
        }
    }
}

persist! {
    impl Persist<()> for Factors {
        fn walk(Self { own_workers: _, all_workers: _, common: _, factors }, walk, ()) {
            walk.tensor("factors", Content::Optimizer, factors)
        }
    }
}
