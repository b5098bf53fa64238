//! Which changes a worker keeps, and which values it still has.

use super::remote::RemoteStretch;

/// The stretches of iterations of a data center's only worker.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    /// Whether the worker keeps changes, and has the values of the last answer.
    keeps: bool,
    /// The clocks whose changes the worker has kept.
    clocks: u64,
    /// How often others had changed the copy when its values were last given.
    given: Option<u64>,
}

impl Stretches {
    /// The worker has finished an iteration, or has handed over what it kept. `keeps` is whether it keeps changes.
    pub(super) fn on_update(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// Of how many clocks the last changes were: none if the worker has kept them.
    pub(super) fn take_clocks(&mut self) -> u64 {
        self.clocks += 1;
        if self.keeps { 0 } else { std::mem::take(&mut self.clocks) }
    }

    /// Whether the worker keeps changes that this server lacks.
    pub(super) fn worker_keeps(&self) -> bool {
        self.keeps
    }

    /// Whether the answer to a read needs no values: nobody else has changed the copy since the worker has received what it
    /// has.
    pub(super) fn answers_without_values(&mut self, found: Option<RemoteStretch>) -> bool {
        let others = found.map(|found| found.changes_of_others);
        let is_known = self.keeps && others.is_some() && others == self.given;
        self.given = others;
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Stretch;
    use crate::types::Clock;

    #[test]
    fn values_are_given_again_once_others_have_changed_them_or_the_worker_lacks_them() {
        let found = |changes_of_others| {
            let stretch = Stretch { hands_over_at: Clock(9), factor: 1.0 };
            Some(RemoteStretch { stretch, changes_of_others })
        };
        let mut stretches = Stretches::default();
        let mut answer = |keeps, found| {
            stretches.on_update(keeps);
            stretches.answers_without_values(found)
        };
        assert!(!answer(true, found(0)), "nothing was given");
        assert!(answer(true, found(0)));
        assert!(!answer(false, found(0)), "the worker has handed over its changes");
        assert!(!answer(true, found(1)), "a step has changed the copy");
        assert!(answer(true, found(1)));
        assert!(!answer(true, None) && !answer(true, None), "each iteration is needed");
    }
}
