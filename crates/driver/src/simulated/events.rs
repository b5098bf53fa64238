//! The heap of scheduled events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use gaia_core::types::{Instant, Persist, Restorer, Saved, Saver, StateError};

/// Events ordered by time, and by the order of scheduling at the same time.
pub struct Events<E> {
    heap: BinaryHeap<Scheduled<E>>,
    scheduled: u64,
}

#[derive(Serialize, Deserialize)]
struct Scheduled<E> {
    at: Instant,
    order: u64,
    event: E,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0 }
    }
}

impl<E> Events<E> {
    /// An empty heap.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, at: Instant, event: E) {
        self.scheduled += 1;
        self.heap.push(Scheduled { at, order: self.scheduled, event });
    }

    pub fn pop(&mut self) -> Option<(Instant, E)> {
        self.heap.pop().map(|scheduled| (scheduled.at, scheduled.event))
    }
}

/// All that is to happen, as one record, with whether an event can be one of this run.
///
/// By hand, since it is saved in the order of time and not in that of the heap.
impl<E> Persist<&dyn Fn(&E) -> bool> for Events<E>
where
    E: Serialize + DeserializeOwned,
{
    fn save(&self, walk: &mut Saver<'_>, _fits: &dyn Fn(&E) -> bool) -> Saved {
        let mut scheduled: Vec<&Scheduled<E>> = self.heap.iter().collect();
        scheduled.sort_unstable();
        walk.record("events", &scheduled)?;
        walk.record("scheduled", &self.scheduled)
    }

    fn restore(
        &mut self,
        walk: &mut Restorer<'_>,
        fits: &dyn Fn(&E) -> bool,
    ) -> Result<(), StateError> {
        let mut scheduled: Vec<Scheduled<E>> = Vec::new();
        walk.record_that("events", &mut scheduled, |found, _| {
            found.iter().all(|scheduled| fits(&scheduled.event))
        })?;
        self.heap = scheduled.into();
        walk.record("scheduled", &mut self.scheduled)
    }
}

impl<E> Ord for Scheduled<E> {
    /// The earliest event is the greatest, because the heap returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_order_of_scheduling() {
        let mut events = Events::new();
        for (at, name) in [(5, "c"), (1, "a"), (5, "d"), (2, "b")] {
            events.push(Instant::from_nanos(at), name);
        }
        let order: Vec<_> = std::iter::from_fn(|| events.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
