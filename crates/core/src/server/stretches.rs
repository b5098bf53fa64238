//! Which values a worker that keeps its changes still has.

use super::remote::RemoteStretch;

/// The stretches of iterations of a data center's only worker.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    /// Whether the worker has what the last answer gave it, and has kept its changes since.
    holds: bool,
    /// How often others had changed the copy when its values were last given.
    given: Option<u64>,
}

impl Stretches {
    /// A read was received.
    pub(super) fn on_read(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Whether the answer to the last read needs no values: nobody else has changed the copy since the worker has received
    /// what it holds.
    pub(super) fn answers_without_values(&mut self, found: Option<RemoteStretch>) -> bool {
        let others = found.map(|found| found.changes_of_others);
        let is_known = self.holds && others.is_some() && others == self.given;
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
        let mut answer = |holds, found| {
            stretches.on_read(holds);
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
