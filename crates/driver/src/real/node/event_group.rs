//! How servers and workers take their events: in groups, so that one write to the log is for many events.
//!
//! After each group a node writes its log, and then sends what follows from it. An event that has been taken is
//! always handled.

use std::future::ready;
use std::ops::ControlFlow;

use crate::real::Exit;
use crate::real::error::RealError;
use crate::real::node::coordinator_client::CoordinatorClient;

/// A node that handles events.
pub(in crate::real) trait EventHandler {
    type Event;

    /// Waits for the next event. Cancel safe.
    async fn next(&mut self, coordinator: &mut CoordinatorClient)
    -> Result<Self::Event, RealError>;

    /// Handles an event. Returns `Break` if it ends the node's part in the run.
    async fn handle(
        &mut self,
        event: Self::Event,
        coordinator: &CoordinatorClient,
    ) -> Result<ControlFlow<Exit>, RealError>;
}

/// Waits for one event, and handles it and all that have arrived by then, at most [`GROUP_MAX`]. Returns `Break` after
/// an event that ends the node's part in the run.
///
/// # Errors
/// The first error of the node.
pub(in crate::real) async fn handle_group<N: EventHandler>(
    node: &mut N,
    coordinator: &mut CoordinatorClient,
) -> Result<ControlFlow<Exit>, RealError> {
    let mut event = node.next(coordinator).await?;
    for _ in 1..GROUP_MAX {
        let handled = node.handle(event, coordinator).await?;
        if handled.is_break() {
            return Ok(handled);
        }
        event = tokio::select! {
            biased;
            next = node.next(coordinator) => next?,
            () = ready(()) => return Ok(handled),
        };
    }

    // The group is full. Another event would have no room in it, and would be lost.
    node.handle(event, coordinator).await
}

/// Takes from two sources in turn where both have something: peers may send without end, and those of the other source
/// would never be heard.
#[derive(Default)]
pub(in crate::real) struct Turns {
    other_first: bool,
}

impl Turns {
    /// The result of whichever future is ready, or of the one whose turn it is. Cancel safe if both futures are.
    pub(in crate::real) async fn next<T>(
        &mut self,
        one: impl Future<Output = T>,
        other: impl Future<Output = T>,
    ) -> T {
        self.other_first = !self.other_first;
        if self.other_first {
            tokio::select! { biased; taken = other => taken, taken = one => taken }
        } else {
            tokio::select! { biased; taken = one => taken, taken = other => taken }
        }
    }
}

/// The largest number of events in a group.
const GROUP_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_source_without_end_leaves_the_other_its_turn() {
        let mut turns = Turns::default();
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.push(turns.next(ready("worker"), ready("mirror")).await);
        }
        assert_eq!(taken.iter().filter(|one| **one == "mirror").count(), 3, "{taken:?}");

        for _ in 0..3 {
            assert_eq!(turns.next(ready("worker"), pending()).await, "worker");
        }
    }
}
