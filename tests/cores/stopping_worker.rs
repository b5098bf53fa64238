//! What the task of a worker is told of its worker's stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::types::{
    Clock, DcId, Deltas, Model, ModelLayout, RowSet, ShardLayout, TableLayout, WorkerId,
};
use gaia_core::worker::Worker;

/// Changes nothing, and counts how often its worker has stopped.
struct Counting {
    layout: Arc<ModelLayout>,
    stops: Arc<AtomicUsize>,
}

impl Task for Counting {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(&mut self, _: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        Ok((Deltas::none(&self.layout), Work::default()))
    }

    fn on_stopped(&mut self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_task_is_told_that_its_worker_rests_in_the_middle_of_a_read() {
    let table = TableLayout { name: "a".into(), rows: 2, width: 1 };
    let layout = Arc::new(ModelLayout::new(vec![table]));
    let stops = Arc::new(AtomicUsize::new(0));
    let task = Box::new(Counting { layout: layout.clone(), stops: stops.clone() });
    let id = WorkerId { dc: DcId(0), index: 0 };
    let mut worker = Worker::new(id, layout.clone(), ShardLayout::all(&layout, 1), task, None);

    worker.handle_start();
    assert_eq!(stops.load(Ordering::Relaxed), 0);
    worker.handle_stop(Clock(0));
    assert_eq!(stops.load(Ordering::Relaxed), 1);

    // It reads on, up to a later clock.
    worker.handle_stop(Clock(1));
    assert_eq!(stops.load(Ordering::Relaxed), 1);
}
