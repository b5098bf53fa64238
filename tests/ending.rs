//! An application that ends a run by itself, and that takes the final model.

#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use gaia::{
    Aggregation, Application, ApplicationError, Clock, Deltas, Direction, EvaluationSums, Metric,
    Model, ModelLayout, Outcome, RowSet, RunFile, Seed, TableDeltas, TableLayout, Task, Unobserved,
    WeightedSum, Work,
};

/// Each iteration adds 1 to the only parameter. The task of worker 1 ends after some iterations.
struct Counting {
    layout: Arc<ModelLayout>,
    last: u64,
    finished: Mutex<Vec<(Range<usize>, Vec<f32>)>>,
}

struct CountingTask {
    layout: Arc<ModelLayout>,
    left: Option<u64>,
}

impl Application for Counting {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        6
    }

    fn task(&self, worker: usize, _: Seed) -> Box<dyn Task> {
        let left = (worker == 1).then_some(self.last);
        Box::new(CountingTask { layout: self.layout.clone(), left })
    }

    fn sums(&self, _: &Model, workers: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        let sum = WeightedSum { sum: 1.0, weight: workers.len() as f64 };
        Ok(EvaluationSums { objective: sum, metric: sum })
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::Mean, Direction::Lower);
        Metric { name: "nothing".into(), aggregation, direction }
    }

    fn finish(&self, model: &Model, workers: Range<usize>) {
        let mut finished = self.finished.lock().expect("no test panics with the lock");
        finished.push((workers, model.values.to_vec()));
    }
}

impl Task for CountingTask {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(&mut self, _: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let work = Work { examples: 1, flops: 1.0 };
        if self.left == Some(0) {
            return Ok((Deltas::none(&self.layout), work));
        }
        self.left = self.left.map(|left| left - 1);
        let one = TableDeltas::listed(vec![0], vec![1.0]);
        Ok((Deltas { tables: vec![one] }, work))
    }

    fn has_ended(&self) -> bool {
        self.left == Some(0)
    }
}

/// Trains until worker 1 has made 6 changes, and returns the application, too.
fn train(driver: &str, remote: &str) -> (Arc<Counting>, Outcome) {
    let staleness = if remote == "ssp" { ", staleness = 2" } else { "" };
    let text = format!(
        "name = \"counting\"\ndriver = \"{driver}\"\ntopology.file = \"three-regions\"\nsync.remote = {{ model = \"{remote}\"{staleness} }}\n\
         topology.bandwidth_scale = 0.1\ncompute.examples_per_second = 100.0\nstop.seconds = 60"
    );
    let plan = RunFile::from_text("run.toml", &text, &[]).unwrap().plan();
    let layout = TableLayout { name: "count".into(), rows: 1, width: 1 };
    let layout = Arc::new(ModelLayout::new(vec![layout]));
    let application = Arc::new(Counting { layout, last: 6, finished: Mutex::default() });
    let handed: Arc<dyn Application> = application.clone();
    let outcome = gaia::run(&plan.unwrap(), &handed, &mut Unobserved).unwrap();
    (application, outcome)
}

#[test]
fn a_task_that_has_no_more_to_do_ends_the_run_in_order() {
    for driver in ["simulated", "emulated"] {
        for remote in ["bsp", "ssp", "asp", "tap", "local-steps"] {
            let (_, outcome) = train(driver, remote);
            let summary = outcome.summary;
            assert_eq!(summary.stopped_by, "ended", "{driver} {remote}");
            assert!(summary.copies_equal && !summary.converged, "{driver} {remote}");
        }
    }
}

#[test]
fn the_final_model_is_handed_to_the_application() {
    for driver in ["simulated", "emulated"] {
        let (application, outcome) = train(driver, "bsp");
        let values = outcome.model.unwrap().values;
        let finished = application.finished.lock().unwrap();
        assert_eq!(*finished, [(0..6, values.to_vec())], "{driver}");
        // The others go on to the clock at which all stop, and worker 1 changes nothing there.
        let others = f64::from(values[0]) - 6.0;
        assert!(others >= 30.0 && others % 5.0 == 0.0, "{driver}: {values:?}");
    }
}
