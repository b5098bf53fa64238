//! How long data centers take to exchange a model, in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::ops::Range;
use std::sync::Arc;

use gaia::{
    Aggregation, Application, ApplicationError, Clock, Deltas, Direction, EvaluationSums, Metric,
    Model, ModelLayout, Outcome, Override, RowSet, RunFile, Seed, TableDeltas, TableLayout, Task,
    Unobserved, WeightedSum, Work,
};

/// Each worker changes every parameter in each clock, and takes no time for it.
struct Dense {
    layout: Arc<ModelLayout>,
    workers: usize,
}

struct DenseTask {
    layout: Arc<ModelLayout>,
    worker: usize,
}

impl Application for Dense {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn task(&self, worker: usize, _: Seed) -> Box<dyn Task> {
        Box::new(DenseTask { layout: self.layout.clone(), worker })
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

impl Task for DenseTask {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(&mut self, clock: Clock, _: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let mixed = |at: usize| (at * 31 + self.worker * 17 + clock.0 as usize * 7) % 23;
        let values: Vec<f32> =
            (0..self.layout.parameters()).map(|at| 0.1 + 0.01 * mixed(at) as f32).collect();
        let work = Work { examples: 1, flops: 1.0 };
        Ok((Deltas { tables: vec![TableDeltas::all(values)] }, work))
    }
}

/// Runs some clocks of `remote` over a shipped topology or a table of one, in which only the WAN takes time.
fn run(topology: &str, remote: &str, parameters: usize, settings: &[&str]) -> Outcome {
    let text = format!(
        "name = \"exchange\"\ntopology = {topology}\nsync.remote = {{ {remote} }}\n\
         compute = {{ examples_per_second = 1e12, clock_overhead = \"0 s\", jitter = 0.0 }}\n\
         evaluate.every = 1\nstop.clocks = {CLOCKS}"
    );
    let overrides: Vec<Override> =
        settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
    let plan = RunFile::from_text("run.toml", &text, &overrides)
        .and_then(|file| file.plan())
        .unwrap_or_else(|error| panic!("{}", error.render(false)));

    let table = TableLayout { name: "dense".into(), rows: parameters, width: 1 };
    let layout = Arc::new(ModelLayout::new(vec![table]));
    let workers = plan.topology.workers();
    let application: Arc<dyn Application> = Arc::new(Dense { layout, workers });
    let outcome = gaia::run(&plan, &application, &mut Unobserved).unwrap();
    assert!(outcome.summary.copies_equal, "{remote} over {topology}");
    outcome
}

/// The seconds between two of the clocks: one exchange.
fn exchange_s(outcome: &Outcome) -> f64 {
    let at = |clock: u64| {
        outcome.progress.iter().find(|progress| progress.clock == clock).unwrap().time_s
    };
    at(CLOCKS) - at(CLOCKS - 1)
}

/// A shipped topology whose links are so slow that round trips hardly count.
fn slow(name: &str, servers: usize) -> String {
    format!(
        "{{ file = \"{name}\", bandwidth_scale = 0.002, defaults = {{ servers = {servers}, workers = {servers}, \
         lan_bandwidth = \"1 Gbit/s\", lan_rtt = \"0 s\", colocated = true }} }}"
    )
}

fn blocks_ratio(name: &str, servers: usize, model: &str) -> f64 {
    let of = |blocks: &str| {
        let remote = format!("{model}, blocks = '{blocks}'");
        exchange_s(&run(&slow(name, servers), &remote, 400_000, &[]))
    };
    of("bandwidth") / of("equal")
}

#[test]
fn blocks_by_bandwidth_are_nowhere_slower_than_equal_ones() {
    for name in SHIPPED {
        let ratio = blocks_ratio(name, 1, "model = 'bsp'");
        assert!(ratio < 1.001, "{ratio} over {name}");
    }
}

/// The sum over data centers is computed in the same order, wherever it is.
#[test]
fn the_sizes_of_blocks_change_no_value() {
    let of = |blocks: &str| {
        let remote = format!("model = 'bsp', blocks = '{blocks}'");
        run(&slow("gaia-2016-ec2-all", 2), &remote, 1_000, &[]).model.unwrap().values
    };
    assert_eq!(of("bandwidth"), of("equal"));
}

const SHIPPED: [&str; 6] = [
    "gaia-2016-ec2-all",
    "gaia-2016-vc",
    "gaia-2016-ss",
    "aws-2022-ec2-all",
    "aws-2022-single-flow",
    "three-regions",
];
const CLOCKS: u64 = 3;
