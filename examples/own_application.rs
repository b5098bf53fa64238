//! An application that Gaia does not know: least squares, trained over three simulated regions with each remote model.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use gaia::{
    Aggregation, Application, ApplicationError, Clock, ComparisonPlan, Deltas, Direction,
    EvaluationSums, Metric, Model, ModelLayout, RowSet, RunFile, Seed, Summary, TableLayout, Task,
    Unobserved, WeightedSum, Work,
};
use rand_distr::{Distribution, StandardNormal};

/// There is no `[app]` table: the application is handed in.
const RUN: &str = r#"
    name = "least-squares"
    topology = { file = "three-regions", bandwidth_scale = 0.001 }
    sync.remote = { model = "asp", threshold = 0.02 }
    compute.examples_per_second = 1000.0
    stop.clocks = 30
"#;
const FEATURES: usize = 200;
const EXAMPLES_PER_WORKER: usize = 100;
const LEARNING_RATE: f32 = 0.0003;

/// Examples, each its features and the value to predict: all of them as the application, its own as a worker's task.
pub(crate) struct LeastSquares {
    layout: Arc<ModelLayout>,
    examples: Arc<[(Vec<f32>, f32)]>,
    per_worker: usize,
}

impl LeastSquares {
    /// With as many examples for each worker.
    pub(crate) fn over(workers: usize, per_worker: usize) -> Arc<dyn Application> {
        let table = TableLayout { name: "weights".into(), rows: FEATURES, width: 1 };
        let mut draws = StandardNormal.sample_iter(Seed(7).random());
        let mut example = || {
            let features: Vec<f32> = draws.by_ref().take(FEATURES).collect();
            let value = features.iter().sum();
            (features, value)
        };
        let examples = (0..workers * per_worker).map(|_| example()).collect();
        Arc::new(Self { layout: Arc::new(ModelLayout::new(vec![table])), examples, per_worker })
    }

    /// By how much the model misses the value of each example.
    fn errors(examples: &[(Vec<f32>, f32)], model: &Model) -> impl Iterator<Item = f32> {
        examples.iter().map(|(features, value)| {
            features.iter().zip(&model.values).map(|(x, weight)| x * weight).sum::<f32>() - value
        })
    }
}

impl Application for LeastSquares {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn task(&self, worker: usize, _seed: Seed) -> Box<dyn Task> {
        let own = self.examples.chunks(self.per_worker).nth(worker).unwrap_or_default();
        Box::new(Self { examples: own.into(), layout: self.layout.clone(), ..*self })
    }

    fn workers(&self) -> usize {
        self.examples.len() / self.per_worker
    }

    /// Nothing is held out: the metric is over the same examples as the objective.
    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        let (start, end) = (workers.start * self.per_worker, workers.end * self.per_worker);
        let examples = &self.examples[start..end];
        let squares: f32 = Self::errors(examples, model).map(|error| error * error).sum();
        let sum = WeightedSum { sum: f64::from(squares), weight: examples.len() as f64 };
        Ok(EvaluationSums { objective: sum, metric: sum })
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::RootMean, Direction::Lower);
        Metric { name: "rmse".into(), aggregation, direction }
    }
}

impl Task for LeastSquares {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(
        &mut self,
        _clock: Clock,
        model: &Model,
    ) -> Result<(Deltas, Work), ApplicationError> {
        let mut deltas = Deltas::dense(&self.layout);
        for (error, (features, _)) in Self::errors(&self.examples, model).zip(self.examples.iter())
        {
            for (delta, x) in deltas.tables[0].values.iter_mut().zip(features) {
                *delta -= LEARNING_RATE * error * x;
            }
        }
        Ok((deltas, Work { examples: self.examples.len() as u64, flops: 0.0 }))
    }
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let file = RunFile::from_text("least-squares.toml", RUN, &[])?;
    let plan = ComparisonPlan::new(&file, &["bsp", "tap", "asp"], &["three-regions"])?;
    let workers = plan.reference.plan.topology.workers();
    let application = LeastSquares::over(workers, EXAMPLES_PER_WORKER);

    for run in plan.run(|it| gaia::run(&it.plan, &application, &mut Unobserved))?.runs {
        let Summary { wan, remote_sync, time_s, wan_bytes, .. } = run.row.summary;
        println!("{wan:13} {remote_sync:3} {time_s:5.1} s {wan_bytes:7} bytes");
    }
    Ok(())
}
