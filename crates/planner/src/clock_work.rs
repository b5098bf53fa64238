//! What one clock of a data center computes, reads and changes, from a few iterations of its workers.

use std::time::Duration;

use super::SECONDS_MAX;
use gaia_config::{ComputeRate, Plan};
use gaia_core::application::{Application, ApplicationError};
use gaia_core::types::{Clock, Deltas, ModelLayout, TableRows};

/// The work of a clock in the first data center: the mean of the first clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockWork {
    /// The time that a worker computes, by the run's cost model without its jitter and its slow data centers. The
    /// longest of the workers.
    pub compute: Duration,
    /// Parameters that a worker reads. The most of the workers.
    pub read: usize,
    /// Parameters that a worker changes. The most of the workers.
    pub sent: usize,
    /// Parameters that the workers of the data center change together.
    pub changed: usize,
    /// Parameters that they change in any of the first clocks.
    pub ever_changed: usize,
}

impl ClockWork {
    /// Runs the first iterations of each worker of the first data center, all on the initial model. Mini-batches differ
    /// in size, so that one iteration does not say it.
    ///
    /// # Errors
    /// Where an iteration fails.
    pub fn measure(plan: &Plan, application: &dyn Application) -> Result<Self, ApplicationError> {
        let model = application.initial_model(plan.seed.child("model"));
        let layout = application.layout();
        let clocks = application.clocks_per_pass().clamp(1, CLOCKS_MAX);
        let mut changed = vec![vec![false; layout.parameters()]; clocks as usize];
        let mut work =
            Self { compute: Duration::ZERO, read: 0, sent: 0, changed: 0, ever_changed: 0 };

        for worker in 0..plan.topology.data_centers[0].workers {
            let mut task = application.task(worker, plan.seed.child("tasks").nth(worker));
            let (mut seconds, mut read, mut sent) = (0.0, 0, 0);
            for clock in 0..clocks {
                let rows = task.rows(Clock(clock));
                let rows = layout.tables().iter().zip(&rows.tables);
                read += rows.map(|(table, rows)| rows.len(table.rows) * table.width).sum::<usize>();
                let (deltas, done) = task.iterate(Clock(clock), &model)?;

                seconds += match plan.compute.rate {
                    ComputeRate::ExamplesPerSecond(rate) => done.examples as f64 / rate,
                    ComputeRate::FlopsPerSecond(rate) => done.flops / rate,
                };
                sent += deltas.tables.iter().map(|table| table.values.len()).sum::<usize>();
                mark(layout, &deltas, &mut changed[clock as usize]);
            }

            let mean = seconds / clocks as f64 + plan.compute.clock_overhead.0.as_secs_f64();
            let compute = Duration::from_secs_f64(mean.clamp(0.0, SECONDS_MAX));
            work.compute = work.compute.max(compute);
            work.read = work.read.max(read / clocks as usize);
            work.sent = work.sent.max(sent / clocks as usize);
        }

        let all = changed.iter().flatten().filter(|changed| **changed).count();
        work.changed = all / clocks as usize;
        let is_ever_changed = |place: &usize| changed.iter().any(|changed| changed[*place]);
        work.ever_changed = (0..layout.parameters()).filter(is_ever_changed).count();
        Ok(work)
    }

    /// The share of the parameters that the workers of the data center change together, 0 to 1.
    pub fn changed_share(&self, parameters: usize) -> f64 {
        self.changed as f64 / parameters.max(1) as f64
    }

    /// Whether nearly all parameters change in every clock, or most do and they are the same in every clock: the weights of
    /// pixels that are black in all images never change.
    pub fn is_dense(&self, parameters: usize) -> bool {
        let share = self.changed_share(parameters);
        let ever = self.ever_changed as f64 / parameters.max(1) as f64;
        share > DENSE || (share > DENSE_WITH_CONSTANTS && share > DENSE * ever)
    }
}

/// Marks the parameters that change.
fn mark(layout: &ModelLayout, deltas: &Deltas, changed: &mut [bool]) {
    for ((id, shape), table) in layout.table_ids().zip(layout.tables()).zip(&deltas.tables) {
        let mut values = table.values.iter();
        let mut mark_row = |row: usize| {
            let start = layout.row_offset(id, row);
            for place in &mut changed[start..start + shape.width] {
                *place |= values.next().is_some_and(|value| *value != 0.0);
            }
        };
        match &table.rows {
            TableRows::All => (0..shape.rows).for_each(mark_row),
            TableRows::Listed(rows) => rows.iter().for_each(|row| mark_row(*row as usize)),
        }
    }
}

/// The clocks whose mean is taken, at most.
const CLOCKS_MAX: u64 = 10;
/// The share of the parameters, or of those that ever change, from which on a model counts as dense.
const DENSE: f64 = 0.9;
/// The share of the parameters from which on those that never change do not count.
const DENSE_WITH_CONSTANTS: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_dense_if_every_clock_changes_the_same_most_of_it() {
        let work = |changed, ever_changed| ClockWork {
            compute: Duration::ZERO,
            read: 100,
            sent: 100,
            changed,
            ever_changed,
        };
        assert!(work(95, 100).is_dense(100));
        assert!(work(73, 76).is_dense(100), "a network over images with a black border");
        assert!(!work(60, 100).is_dense(100), "other features in each batch");
        assert!(!work(10, 10).is_dense(100), "rows of its own users");
    }
}
