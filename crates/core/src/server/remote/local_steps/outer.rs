//! The outer step: the change that all data centers add after a round.

use std::ops::Range;

use crate::persist;
use crate::server::blocks::Part;
use crate::sync::{LocalStepsConfig, Outer, ValueFormat};
use crate::types::{Content, ShardLayout};

/// The outer optimiser of one home block.
///
/// With Nesterov's momentum (Sutskever et al., ICML 2013, in the form of DiLoCo, Douillard et al., 2023), for a change
/// `g` of a round: `v ← m·v + g`, and the step is `rate · (g + m·v)`. Without, it is `rate · g`. The step of statistics is
/// `g` in either case: copies take their mean, which lies between them. An extrapolated variance can be negative.
#[derive(Debug)]
pub(super) struct OuterStep {
    rate: f32,
    momentum: f32,
    /// `v`. Empty without momentum.
    velocity: Vec<f32>,
    /// The rounding error of the steps before, which is added to the next.
    lost: Vec<f32>,
    format: ValueFormat,
    /// The parameters of each table in the block, from its first on, and whether they are statistics.
    tables: Vec<(Range<usize>, bool)>,
}

impl OuterStep {
    /// The outer optimiser of a block of a shard.
    pub(super) fn new(
        config: &LocalStepsConfig,
        layout: &ShardLayout,
        block: &Range<usize>,
    ) -> Self {
        let parameters = block.len();
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
            tables: tables_in(layout, block),
        }
    }

    /// The rounded step for a round's change. The block begins at the parameter `start`.
    pub(super) fn step(&mut self, change: &[f32], start: usize) -> Part {
        for (range, is_statistics) in &self.tables {
            let lost = &mut self.lost[range.clone()];
            let places = lost.iter_mut().zip(&change[range.clone()]);
            if *is_statistics {
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
        Part::take(&mut self.lost, start, self.format)
    }

    /// The rounding error of the steps so far.
    pub(super) fn lost(&self) -> &[f32] {
        &self.lost
    }
}

/// The parameters of each table in a block of a shard, from its first on, and whether they are statistics.
fn tables_in(layout: &ShardLayout, block: &Range<usize>) -> Vec<(Range<usize>, bool)> {
    let model = layout.model();
    let within = model.table_ids().map(|table| {
        let own = layout.table_range(table);
        let (start, end) = (own.start.max(block.start), own.end.min(block.end));
        (start.saturating_sub(block.start)..end.saturating_sub(block.start), table)
    });
    let found = within.filter(|(range, _)| !range.is_empty());
    found.map(|(range, table)| (range, model.is_statistics(table))).collect()
}

persist! {
    impl Persist<()> for OuterStep {
        fn walk(
            Self { rate: _, momentum: _, velocity, lost, format: _, tables: _ },
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
    use crate::types::{ModelLayout, ShardId, TableId, TableLayout};

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
            ..LocalStepsConfig::default()
        };

        // The block has the last of the weights, and all statistics.
        let mut outer = OuterStep::new(&config, &layout, &(1..4));
        let mut stepped = |change: [f32; 3]| {
            let mut values = [0.0; 4];
            outer.step(&change, 1).changes().for_each(|index, value| values[index] = value);
            values
        };
        assert_eq!(stepped([1.0, 1.0, -2.0]), [0.0, 0.75, 1.0, -2.0]);
        assert_eq!(stepped([0.0, 0.0, 0.0]), [0.0, 0.125, 0.0, 0.0]);
        assert_eq!(stepped([0.0, 4.0, 0.0]), [0.0, 0.0625, 4.0, 0.0]);
    }
}
