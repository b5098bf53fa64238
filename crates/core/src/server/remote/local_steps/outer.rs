//! The outer step: what a round's combined change becomes before all data centers add it.

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
    /// `v`; empty without momentum.
    velocity: Vec<f32>,
    /// What rounding has kept of the steps before: it joins the next.
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

    /// The step after a round's change of the block that begins at `start`, as all will add it.
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

    /// What rounding has kept.
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
