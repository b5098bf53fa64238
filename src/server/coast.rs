//! Momentum of what mirrors send: where they share gradients, this data center keeps them going.

use crate::codec::Changes;

/// The steps that mirrors' gradients have come to, per parameter: `u = m·u' + g`, clock by clock of this data center.
#[derive(Debug)]
pub(super) struct Coast {
    momentum: f32,
    step: Vec<f32>,
}

impl Coast {
    /// For `parameters` under momentum, above 0 and below 1.
    pub(super) fn new(parameters: usize, momentum: f64) -> Self {
        Self { momentum: momentum as f32, step: vec![0.0; parameters] }
    }

    /// Takes gradients that have been added to the values.
    pub(super) fn on_received(&mut self, gradients: Changes<'_>) {
        gradients.add_to(&mut self.step);
    }

    /// A clock has passed: moves the values on.
    pub(super) fn on_clock(&mut self, values: &mut [f32]) {
        for (step, value) in self.step.iter_mut().zip(values) {
            *step *= self.momentum;
            *value += *step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gradient_ends_where_its_own_data_center_ends() {
        let (mut value, mut coast) = ([0.0], Coast::new(1, 0.75));
        let gradient = Changes::Dense { start: 0, values: &[1.0] };
        gradient.add_to(&mut value);
        coast.on_received(gradient);
        (0..100).for_each(|_| coast.on_clock(&mut value));
        assert!((value[0] - 4.0).abs() < 1e-5, "{value:?}");
    }
}
