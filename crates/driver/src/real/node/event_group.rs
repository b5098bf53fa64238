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

/// The largest number of events in a group.
const GROUP_MAX: usize = 64;
