//! The outer step: the change that all data centers add after a round.

use crate::persist;
use crate::server::blocks::Part;
use crate::sync::{LocalStepsConfig, Outer, ValueFormat};
use crate::types::Content;

/// The outer optimiser of one home block.
///
/// With Nesterov's momentum (Sutskever et al., ICML 2013, in the form of DiLoCo, Douillard et al., 2023), for a change
/// `g` of a round: `v ← m·v + g`, and the step is `rate · (g + m·v)`. Without, it is `rate · g`.
#[derive(Debug)]
pub(super) struct OuterStep {
    rate: f32,
    momentum: f32,
    /// `v`. Empty without momentum.
    velocity: Vec<f32>,
    /// The rounding error of the steps before, which is added to the next.
    lost: Vec<f32>,
    format: ValueFormat,
}

impl OuterStep {
    pub(super) fn new(config: &LocalStepsConfig, parameters: usize) -> Self {
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
        }
    }

    /// The rounded step for a round's change. The block begins at the parameter `start`.
    pub(super) fn step(&mut self, change: &[f32], start: usize) -> Part {
        if self.velocity.is_empty() {
            for (lost, change) in self.lost.iter_mut().zip(change) {
                *lost += self.rate * change;
            }
        } else {
            let places = self.lost.iter_mut().zip(&mut self.velocity);
            for ((lost, velocity), change) in places.zip(change) {
                *velocity = self.momentum * *velocity + change;
                *lost += self.rate * (change + self.momentum * *velocity);
            }
        }
        Part::take(&mut self.lost, start, self.format)
    }

    /// The rounding error of the steps so far.
    pub(super) fn lost(&self) -> &[f32] {
        &self.lost
    }
}

persist! {
    impl Persist<()> for OuterStep {
        fn walk(Self { rate: _, momentum: _, velocity, lost, format: _ }, walk, ()) {
            walk.tensor("velocity", Content::Optimizer, velocity)?;
            walk.tensor("lost", Content::Changes, lost)
        }
    }
}
