//! Local steps of two data centers in one process, and their bytes and clocks to a target.

use std::path::PathBuf;
use std::sync::Arc;

use gaia::{Application, Clock, Model, ModelLayout, Plan, RunFile, Task};

use super::Exchange;

/// An application and the plan that it follows.
pub(super) struct Training {
    application: Arc<dyn Application>,
    plan: Plan,
}

/// When the target was reached, as the mean of three evaluations.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    pub(super) clocks: u64,
    /// Sent by a data center until then.
    pub(super) megabytes: f64,
}

impl Training {
    pub(super) fn new(rate: f64) -> Self {
        let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
        let folder = std::env::var("GAIA_DATA_DIR").map_or(beside, PathBuf::from).join("mnist");
        let data = match folder.exists() {
            true => format!("source = \"idx\"\npath = {folder:?}"),
            false => {
                "synthetic = { classes = 10, features = 784, hidden = 32, examples = 30000 }".into()
            }
        };
        let text = RUN.replace("RATE", &rate.to_string()).replace("DATA", &data);
        let run_file = RunFile::from_text("low_rank.toml", &text, &[]);
        let plan = run_file.and_then(|file| file.plan()).expect("the run file is valid");
        let application = gaia::build(&plan).expect("the data can be read");
        Self { application, plan }
    }

    pub(super) fn layout(&self) -> &Arc<ModelLayout> {
        self.application.layout()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{}, by label over {DATA_CENTERS} data centers, rounds every {STEPS} clocks, seed {}",
            self.application.describe(),
            self.plan.seed.0
        )
    }

    /// Trains until the last of the ascending targets, or to the last clock.
    pub(super) fn run<const N: usize>(
        &self,
        mut exchange: Box<dyn Exchange>,
        targets: &[f64; N],
    ) -> [Option<Reached>; N] {
        let seed = self.plan.seed;
        let mut agreed = self.application.initial_model(seed);
        let mut sites: Vec<Site> = (0..DATA_CENTERS)
            .map(|worker| Site::new(self.application.task(worker, seed), &agreed))
            .collect();

        let mut reached = [None; N];
        let (mut sent, mut metrics) = (0.0, Vec::new());
        for clock in 0..CLOCKS {
            sites.iter_mut().for_each(|site| site.iterate(Clock(clock)));
            let finished = clock + 1;

            if finished.is_multiple_of(STEPS) {
                let mut own: Vec<Vec<f32>> =
                    sites.iter_mut().map(|site| std::mem::take(&mut site.own)).collect();
                let (step, bytes) = exchange.exchange(&mut own);
                sent += bytes;
                agreed.values.iter_mut().zip(&step).for_each(|(agreed, step)| *agreed += step);
                for (site, mut own) in sites.iter_mut().zip(own) {
                    own.fill(0.0);
                    site.own = own;
                    site.copy.values.copy_from_slice(&agreed.values);
                }
            }

            if finished.is_multiple_of(EVERY) {
                let evaluation = self.application.evaluate(&agreed);
                metrics.push(evaluation.expect("examples are in memory").metric);
                let latest = &metrics[metrics.len().saturating_sub(3)..];
                let mean = latest.iter().sum::<f64>() / latest.len() as f64;
                for (reached, target) in reached.iter_mut().zip(targets) {
                    if reached.is_none() && latest.len() == 3 && mean >= *target {
                        *reached = Some(Reached { clocks: finished, megabytes: sent / 1e6 });
                    }
                }
                let has_diverged =
                    !mean.is_finite() || agreed.values.iter().any(|value| !value.is_finite());
                if reached[N - 1].is_some() || has_diverged {
                    break;
                }
            }
        }
        reached
    }
}

/// A data center with one worker.
struct Site {
    task: Box<dyn Task>,
    /// The agreed values and the changes of its worker since, times the number of data centers: as if the others' workers
    /// made the same.
    copy: Model,
    own: Vec<f32>,
}

impl Site {
    fn new(mut task: Box<dyn Task>, agreed: &Model) -> Self {
        task.rows(Clock(0));
        Self { task, copy: agreed.clone(), own: vec![0.0; agreed.values.len()] }
    }

    fn iterate(&mut self, clock: Clock) {
        self.task.rows(clock);
        let (deltas, _) = self.task.iterate(clock, &self.copy).expect("built-in tasks do not fail");

        let mut start = 0;
        for table in &deltas.tables {
            let place = start..start + table.values.len();
            let places = self.own[place.clone()].iter_mut().zip(&mut self.copy.values[place]);
            for ((own, copy), change) in places.zip(&*table.values) {
                *own += change;
                *copy += DATA_CENTERS as f32 * change;
            }
            start += table.values.len();
        }
        assert_eq!(start, self.own.len(), "the deltas of a network are of all parameters");
    }
}

pub(super) const DATA_CENTERS: usize = 2;
/// Clocks between two evaluations.
pub(super) const EVERY: u64 = 10;
const STEPS: u64 = 5;
const CLOCKS: u64 = 300;

const RUN: &str = r#"
    name = "low-rank"
    seed = 42
    driver = "simulated"
    stop.clocks = 300

    [app]
    kind = "perceptron"
    hidden = [1024, 512]
    batch = 128
    learning_rate = RATE
    learning_rate_decay = "none"
    momentum = 0.9
    evaluate_examples = 100

    [app.data]
    split = "by-label"
    DATA

    [sync.remote]
    model = "local-steps"

    [topology]
    name = "two"
    data_center = [{ name = "a" }, { name = "b" }]

    [topology.defaults]
    servers = 1
    workers = 1

    [topology.wan]
    bandwidth = "50 Mbit/s"
    rtt = "10 ms"
"#;
