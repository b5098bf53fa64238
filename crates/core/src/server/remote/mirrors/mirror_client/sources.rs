//! The sources of links: for each clique of the overlay, the sum of all updates for its members.
//!
//! Each clique receives the changes of this data center's workers. A hub also forwards to each clique the updates of
//! its other cliques, but never of the clique itself. On an overlay without cycles each update reaches each copy once.

use std::ops::Range;

use crate::codec::Changes;
use crate::persist;
use crate::types::{Content, Paged};

/// The sums of changes, per parameter.
#[derive(Debug)]
pub(super) struct Sources {
    /// The sum of all updates of this data center's workers.
    local: Vec<f32>,
    /// The sum of the updates for each clique. Empty if it is `local` for all.
    cliques: Vec<Vec<f32>>,
    gradients: Option<Gradients>,
}

/// Computes gradients from the steps of workers with momentum.
///
/// With momentum `m` a step is `u = m·u' + g`, and most of it follows from the step before. If steps are sent, each
/// gradient crosses a link many times, and each time with delay. If gradients `g = u − m·u'` are sent, each crosses
/// once, and the mirror applies the momentum ([`crate::server::remote::mirrors::momentum_correction`]). This is the
/// momentum correction of Lin et al. (ICLR 2018) for additive copies.
#[derive(Debug)]
struct Gradients {
    momentum: f32,
    /// The changes of the data center's workers in this clock, and in the one before.
    step: Vec<f32>,
    last: Vec<f32>,
}

impl Sources {
    /// Sums over `parameters` parameters for `cliques` cliques. `momentum` is that of the correction, 0 for none.
    pub(super) fn new(parameters: usize, cliques: usize, momentum: f64) -> Self {
        let gradients = (momentum > 0.0).then(|| Gradients {
            momentum: momentum as f32,
            step: vec![0.0; parameters],
            last: vec![0.0; parameters],
        });
        let own = if cliques > 1 || gradients.is_some() { cliques } else { 0 };
        Self { local: vec![0.0; parameters], cliques: vec![vec![0.0; parameters]; own], gradients }
    }

    /// The number of parameters of the shard.
    pub(super) fn parameters(&self) -> usize {
        self.local.len()
    }

    /// Adds a change of this data center's workers.
    pub(super) fn on_change(&mut self, place: Range<usize>, change: &[f32]) {
        add(&mut self.local[place.clone()], change);
        match &mut self.gradients {
            Some(gradients) => add(&mut gradients.step[place], change),
            None => {
                self.cliques.iter_mut().for_each(|source| add(&mut source[place.clone()], change));
            }
        }
    }

    /// Adds updates of a member of a clique to the sums of the other cliques.
    pub(super) fn on_received(&mut self, from: usize, changes: Changes<'_>) {
        let others = self.cliques.iter_mut().enumerate().filter(|(clique, _)| *clique != from);
        for (_, source) in others {
            changes.add_to(source);
        }
    }

    /// Computes the gradients of a clock that the data center has finished.
    pub(super) fn on_clock(&mut self) {
        let Some(Gradients { momentum, step, last }) = &mut self.gradients else { return };
        // The gradient replaces the last step. Then the step of this clock becomes the last step.
        for (step, last) in step.iter().zip(last.iter_mut()) {
            *last = step - *momentum * *last;
        }
        self.cliques.iter_mut().for_each(|source| add(source, last));
        std::mem::swap(step, last);
        step.fill(0.0);
    }

    /// If gradients are sent: the changes of workers in the current clock, and in the one before. `None` otherwise.
    pub(super) fn steps(&self) -> Option<[&[f32]; 2]> {
        self.gradients.as_ref().map(|gradients| [&gradients.step[..], &gradients.last[..]])
    }

    /// The sum of the updates for a clique.
    pub(super) fn of(&self, clique: usize) -> &[f32] {
        self.cliques.get(clique).unwrap_or(&self.local)
    }

    /// The sum of all updates of this data center's workers.
    pub(super) fn local(&self) -> &[f32] {
        &self.local
    }

    /// The residual of a link on which `shared` was sent, as the change that it makes in the end.
    ///
    /// Of a clock that is not finished there are no gradients yet. What workers have changed in it counts as it is.
    pub(super) fn residual(&self, clique: usize, shared: &Paged, range: Range<usize>) -> Vec<f32> {
        let mut memory = Vec::new();
        let shared = shared.range(range.clone(), &mut memory);
        let source = &self.of(clique)[range.clone()];
        let effect = 1.0 / self.scale();
        let residual = source.iter().zip(shared).map(|(own, sent)| effect * (own - sent));
        let mut residual: Vec<f32> = residual.collect();
        if let Some(gradients) = &self.gradients {
            add(&mut residual, &gradients.step[range]);
        }
        residual
    }

    /// The ratio of what is sent to the change that it makes in the end: `1 − m` if gradients are sent, 1 otherwise.
    pub(super) fn scale(&self) -> f32 {
        self.gradients.as_ref().map_or(1.0, |gradients| 1.0 - gradients.momentum)
    }
}

persist! {
    impl Persist<()> for Sources {
        fn walk(Self { local, cliques, gradients }, walk, ()) {
            walk.tensor("local", Content::Changes, local)?;
            for (clique, source) in (0..).zip(cliques) {
                walk.tensor(&format!("clique.{clique}"), Content::Changes, source)?;
            }
            if let Some(Gradients { step, last, .. }) = gradients {
                walk.tensor("step", Content::Optimizer, step)?;
                walk.tensor("last_step", Content::Optimizer, last)?;
            }
            Ok(())
        }
    }
}

fn add(sum: &mut [f32], change: &[f32]) {
    for (sum, change) in sum.iter_mut().zip(change) {
        *sum += change;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cliques_are_told_of_each_other_and_of_home_and_not_of_themselves() {
        let mut sources = Sources::new(3, 2, 0.0);
        sources.on_change(0..2, &[1.0, 2.0]);
        sources.on_received(0, Changes::Sparse { indexes: &[2], values: &[4.0] });
        sources.on_received(1, Changes::Dense { start: 0, values: &[8.0] });
        assert_eq!(sources.of(0), [9.0, 2.0, 0.0]);
        assert_eq!(sources.of(1), [1.0, 2.0, 4.0]);
        assert_eq!(sources.local(), [1.0, 2.0, 0.0]);
    }

    #[test]
    fn of_steps_with_momentum_the_gradients_are_shared() {
        let momentum = 0.5;
        let mut sources = Sources::new(1, 1, f64::from(momentum));
        let (mut velocity, mut sum) = (0.0, 0.0);
        for gradient in [1.0, 0.0, 0.0, -4.0, 2.0] {
            velocity = momentum * velocity + gradient;
            sum += gradient;
            sources.on_change(0..1, &[velocity]);
            sources.on_clock();
            assert_eq!(sources.of(0), [sum]);
        }
        assert_eq!(sources.residual(0, &Paged::zeros(1), 0..1), [sum / (1.0 - momentum)]);
    }
}
