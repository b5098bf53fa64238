//! The outer step of the program's defaults.

/// Nesterov's momentum in the form of DiLoCo.
pub(super) struct Outer {
    velocity: Vec<f32>,
}

impl Outer {
    pub(super) fn new(parameters: usize) -> Self {
        Self { velocity: vec![0.0; parameters] }
    }

    /// Adds the step for a round's change to `step`.
    pub(super) fn add_step(&mut self, change: &[f32], step: &mut [f32]) {
        let places = self.velocity.iter_mut().zip(change).zip(step);
        for ((velocity, change), step) in places {
            *velocity = MOMENTUM * *velocity + change;
            *step += RATE * (change + MOMENTUM * *velocity);
        }
    }
}

const RATE: f32 = 0.7;
const MOMENTUM: f32 = 0.5;
