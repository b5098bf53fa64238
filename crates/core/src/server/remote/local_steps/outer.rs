//! The outer step: the change that all data centers add after a round.

use super::error_feedback::count_of;
use crate::persist;
use crate::server::blocks::{Part, TablePart};
use crate::sync::{LocalStepsConfig, Outer, ValueFormat};
use crate::types::Content;

/// The outer optimiser of one home block.
///
/// With Nesterov's momentum (Sutskever et al., ICML 2013, in the form of DiLoCo, Douillard et al., 2023), for a change
/// `g` of a round: `v ← m·v + g`, and the step is `rate · (g + m·v)`. Without, it is `rate · g`. The step of statistics is
/// `g` in either case: copies take their mean, which lies between them. An extrapolated variance can be negative. Nor does
/// it extrapolate the first round of tables to which workers add initial values, since these are no gradients
/// ([`TablePart::is_taken_whole`]).
#[derive(Debug)]
pub(super) struct OuterStep {
    rate: f32,
    momentum: f32,
    /// `v`. Empty without momentum.
    velocity: Vec<f32>,
    /// What the steps before have not sent, such as their rounding error. It is added to the next.
    lost: Vec<f32>,
    format: ValueFormat,
    tables: Vec<TablePart>,
    /// The most weights of a step, if it has at most as many as the changes of its round.
    most: Option<usize>,
}

impl OuterStep {
    /// The outer optimiser of a block of this many parameters, whose tables these are.
    pub(super) fn new(
        config: &LocalStepsConfig,
        parameters: usize,
        tables: Vec<TablePart>,
    ) -> Self {
        let velocity = match config.outer {
            Outer::Plain => Vec::new(),
            Outer::Nesterov => vec![0.0; parameters],
        };
        Self {
            rate: config.outer_learning_rate as f32,
            momentum: config.outer_momentum as f32,
            velocity,
            lost: vec![0.0; parameters],
            format: config.values,
            tables,
            most: config.has_sparse_totals().then(|| count_of(config.total_density, parameters)),
        }
    }

    /// The rounded step for the change of a round, the first of which has the `number` 1. The block begins at the parameter
    /// `start`.
    ///
    /// If totals are sparse, the step has at most as many weights as the change: those that are owed the most. The rest
    /// is owed to later rounds, since momentum moves weights that a round does not change, too.
    pub(super) fn step(&mut self, change: &[f32], start: usize, number: u64) -> Part {
        for table in &self.tables {
            let range = &table.range;
            let lost = &mut self.lost[range.clone()];
            let places = lost.iter_mut().zip(&change[range.clone()]);
            if table.is_taken_whole(number) {
                places.for_each(|(lost, change)| *lost += change);
            } else if self.velocity.is_empty() {
                places.for_each(|(lost, change)| *lost += self.rate * change);
            } else {
                for ((lost, change), velocity) in places.zip(&mut self.velocity[range.clone()]) {
                    *velocity = self.momentum * *velocity + change;
                    *lost += self.rate * (change + self.momentum * *velocity);
                }
            }
        }
        if let Some(most) = self.most {
            let weights = self.tables.iter().filter(|table| !table.is_taken_whole(number));
            let changed_of = |table: &TablePart| {
                change[table.range.clone()].iter().filter(|change| **change != 0.0).count()
            };
            let count = weights.map(changed_of).sum::<usize>().min(most);
            let tables = (self.tables.as_slice(), number);
            return Part::take_largest(&mut self.lost, start, count, tables, self.format);
        }
        Part::take(&mut self.lost, start, self.format)
    }

    /// Whether a step leaves weights to later rounds.
    pub(super) fn is_sparse(&self) -> bool {
        self.most.is_some()
    }

    /// What the steps so far have not sent.
    pub(super) fn lost(&self) -> &[f32] {
        &self.lost
    }
}

persist! {
    impl Persist<()> for OuterStep {
        fn walk(
            Self { rate: _, momentum: _, velocity, lost, format: _, tables: _, most: _ },
            walk,
            (),
        ) {
            walk.tensor("velocity", Content::Optimizer, velocity)?;
            walk.tensor("lost", Content::Changes, lost)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{ModelLayout, ShardId, ShardLayout, TableId, TableLayout};

    #[test]
    fn what_workers_start_with_is_no_gradient() {
        let table = |name: &str| TableLayout { name: name.into(), rows: 1, width: 1 };
        let model = ModelLayout::new(vec![table("started"), table("drawn")]);
        let model = Arc::new(model.with_initialized_by_workers([TableId(0)]));
        let layout = ShardLayout::new(model, ShardId(0), 1);
        let config = LocalStepsConfig {
            outer_learning_rate: 0.5,
            outer_momentum: 0.5,
            values: ValueFormat::F32,
            ..LocalStepsConfig::default()
        };

        let mut outer = OuterStep::new(&config, 2, TablePart::all_in(&layout, &(0..2)));
        let mut stepped = |number| {
            let mut values = [0.0; 2];
            let part = outer.step(&[8.0, 8.0], 0, number);
            part.changes().for_each(|index, value| values[index] = value);
            values
        };
        assert_eq!(stepped(1), [8.0, 6.0]);
        assert_eq!(stepped(2), [6.0, 7.0]);
    }

    #[test]
    fn what_workers_start_with_is_in_the_first_total_however_sparse() {
        let table = |name: &str| TableLayout { name: name.into(), rows: 4, width: 1 };
        let model = ModelLayout::new(vec![table("started"), table("drawn")]);
        let model = Arc::new(model.with_initialized_by_workers([TableId(0)]));
        let layout = ShardLayout::new(model, ShardId(0), 1);
        let config = LocalStepsConfig {
            total_density: 0.125,
            values: ValueFormat::F32,
            ..LocalStepsConfig::default()
        };

        let mut outer = OuterStep::new(&config, 8, TablePart::all_in(&layout, &(0..8)));
        let mut stepped = |change: [f32; 8], number| {
            let mut values = [0.0; 8];
            let part = outer.step(&change, 0, number);
            part.changes().for_each(|index, value| values[index] = value);
            values
        };
        let first = stepped([0.5, -0.25, 0.125, 3.0, 1.0, 2.0, 1.0, 1.0], 1);
        assert_eq!(first[..4], [0.5, -0.25, 0.125, 3.0], "as workers have added them");
        assert_eq!(first[4..].iter().filter(|value| **value != 0.0).count(), 1);
        // Nothing of them is left that momentum could move.
        let second = stepped([0.0; 8], 2);
        assert_eq!(second[..4], [0.0; 4]);
    }

    #[test]
    fn weights_have_momentum_and_statistics_have_none() {
        let table = |name: &str| TableLayout { name: name.into(), rows: 2, width: 1 };
        let tables = vec![table("weights"), table("variance")];
        let model = Arc::new(ModelLayout::new(tables).with_statistics([TableId(1)]));
        let layout = ShardLayout::new(model, ShardId(0), 1);
        let config = LocalStepsConfig {
            outer_learning_rate: 0.5,
            outer_momentum: 0.5,
            values: ValueFormat::F32,
            density: 1.0,
            ..LocalStepsConfig::default()
        };

        // The block has the last of the weights, and all statistics.
        let mut outer = OuterStep::new(&config, 3, TablePart::all_in(&layout, &(1..4)));
        let mut stepped = |change: [f32; 3]| {
            let mut values = [0.0; 4];
            outer.step(&change, 1, 2).changes().for_each(|index, value| values[index] = value);
            values
        };
        assert_eq!(stepped([1.0, 1.0, -2.0]), [0.0, 0.75, 1.0, -2.0]);
        assert_eq!(stepped([0.0, 0.0, 0.0]), [0.0, 0.125, 0.0, 0.0]);
        assert_eq!(stepped([0.0, 4.0, 0.0]), [0.0, 0.0625, 4.0, 0.0]);
    }

    /// `v ← v/2 + g`, and what is owed grows by `g + v/2` in each round.
    #[test]
    fn a_sparse_step_is_as_sparse_as_its_change_and_owes_the_rest() {
        let model = Arc::new(ModelLayout::new(vec![TableLayout {
            name: "weights".into(),
            rows: 3,
            width: 1,
        }]));
        let layout = ShardLayout::new(model, ShardId(0), 1);
        let config = LocalStepsConfig {
            outer_learning_rate: 1.0,
            outer_momentum: 0.5,
            values: ValueFormat::F32,
            density: 0.5,
            ..LocalStepsConfig::default()
        };

        let mut outer = OuterStep::new(&config, 3, TablePart::all_in(&layout, &(0..3)));
        let mut stepped = |change: [f32; 3]| {
            let mut values = [0.0; 3];
            outer.step(&change, 0, 2).changes().for_each(|index, value| values[index] = value);
            values
        };
        assert_eq!(stepped([4.0, 0.0, 0.0]), [6.0, 0.0, 0.0]);
        assert_eq!(stepped([0.0, 0.5, 0.0]), [1.0, 0.0, 0.0], "momentum moves it further");
        assert_eq!(stepped([0.0, 0.0, 0.0]), [0.0, 0.0, 0.0]);
        assert_eq!(outer.lost(), [0.5, 0.75 + 0.125, 0.0]);
    }
}
