//! An application of a given size that computes nothing: each worker changes every parameter in each clock. What its runs
//! measure is the time of communication.

use std::ops::Range;
use std::sync::Arc;

use super::{Context, EvaluationError};
use crate::bench::Finished;
use crate::suite::SELF;
use gaia_config::{Override, RunFile};
use gaia_core::application::{
    Aggregation, Application, ApplicationError, Direction, EvaluationSums, Metric, Task,
    WeightedSum, Work,
};
use gaia_core::types::{Clock, Deltas, Model, ModelLayout, RowSet, Seed, TableDeltas, TableLayout};

/// A run of this application: what is between machines, and how long each of them computes in a clock.
pub(super) struct SizedRun<'r> {
    pub(super) name: String,
    pub(super) parameters: usize,
    /// The value of `topology` in a run file.
    pub(super) topology: &'r str,
    /// The content of `[sync.remote]`, as an inline table.
    pub(super) remote: &'r str,
    pub(super) compute_s: f64,
}

impl SizedRun<'_> {
    /// The seconds of a clock in which all machines are as busy as in any other.
    pub(super) fn clock_s(&self, context: &Context<'_, '_>) -> Result<f64, EvaluationError> {
        let progress = self.run(context)?.progress;
        let at =
            |clock| progress.iter().find(|at| at.clock == clock).map_or(f64::NAN, |at| at.time_s);
        Ok(at(CLOCKS) - at(CLOCKS - 1))
    }

    fn run(&self, context: &Context<'_, '_>) -> Result<Finished, EvaluationError> {
        let Self { name, parameters, topology, remote, compute_s } = self;
        let seed = context.changes.seed.unwrap_or(crate::SEED);
        let text = format!(
            "name = \"{name}\"\nseed = {seed}\ntopology = {topology}\nsync.remote = {{ {remote} }}\n\
             compute = {{ examples_per_second = {:e}, clock_overhead = \"0 s\", jitter = 0.0 }}\n\
             evaluate.every = 1\nstop.clocks = {CLOCKS}",
            1.0 / compute_s
        );
        let none: [Override; 0] = [];
        let plan = RunFile::from_text(SELF, &text, &none)?.plan()?;
        let workers = plan.topology.workers();
        let application: Arc<dyn Application> =
            Arc::new(SizedApplication::new(*parameters, workers));
        context.bench.expect(1);
        context.bench.run_of(&plan, &application)
    }
}

struct SizedApplication {
    layout: Arc<ModelLayout>,
    workers: usize,
}

struct SizedTask {
    layout: Arc<ModelLayout>,
}

impl SizedApplication {
    fn new(parameters: usize, workers: usize) -> Self {
        let table = TableLayout { name: "sized".into(), rows: parameters, width: 1 };
        Self { layout: Arc::new(ModelLayout::new(vec![table])), workers }
    }
}

impl Application for SizedApplication {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn task(&self, _: usize, _: Seed) -> Box<dyn Task> {
        Box::new(SizedTask { layout: self.layout.clone() })
    }

    fn sums(&self, _: &Model, workers: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        let sum = WeightedSum { sum: 1.0, weight: workers.len() as f64 };
        Ok(EvaluationSums { objective: sum, metric: sum })
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::Mean, Direction::Lower);
        Metric { name: "nothing".into(), aggregation, direction }
    }
}

impl Task for SizedTask {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(&mut self, _: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let values = vec![1.0; self.layout.parameters()];
        let work = Work { examples: 1, flops: 1.0 };
        Ok((Deltas { tables: vec![TableDeltas::all(values)] }, work))
    }
}

/// The first clocks do not wait for a clock before.
const CLOCKS: u64 = 3;
