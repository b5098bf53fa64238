//! The cost model: the time of an iteration by the run file instead of the machine.

use std::time::Duration;

use rand_distr::{Distribution, StandardNormal};

use gaia_config::{ComputeConfig, ComputeRate};
use gaia_core::application::Work;
use gaia_core::persist;
use gaia_core::types::{Random, Seed, WorkerId};

/// Computes the time of the iterations of all workers.
#[derive(Debug)]
pub struct CostModel {
    config: ComputeConfig,
    /// A generator for each worker, so that the times of one worker do not depend on another's.
    chance: Vec<Random>,
}

impl CostModel {
    /// The cost model of a run with this number of workers. The same seed leads to the same times.
    pub fn new(config: &ComputeConfig, workers: usize, seed: Seed) -> Self {
        let jitter = seed.child("jitter");
        let chance = (0..workers).map(|worker| jitter.nth(worker).random()).collect();
        Self { config: config.clone(), chance }
    }

    /// How long an iteration of the `number`-th worker of the run takes.
    pub fn time(&mut self, worker: WorkerId, number: usize, work: Work) -> Duration {
        let seconds = match self.config.rate {
            ComputeRate::ExamplesPerSecond(rate) => work.examples as f64 / rate,
            ComputeRate::FlopsPerSecond(rate) => work.flops / rate,
        };
        let seconds = (seconds + self.config.clock_overhead.0.as_secs_f64())
            * self.config.slowdown.of(worker)
            * self.jitter(number);
        Duration::from_secs_f64(seconds.clamp(0.0, SECONDS_MAX))
    }

    fn jitter(&mut self, number: usize) -> f64 {
        if self.config.jitter == 0.0 {
            return 1.0;
        }
        let normal: f64 = StandardNormal.sample(&mut self.chance[number]);
        (self.config.jitter * normal).exp()
    }
}

persist! {
    impl Persist<()> for CostModel {
        fn walk(Self { config: _, chance }, walk, ()) {
            walk.record_that("chance", chance, |found, made| found.len() == made.len())
        }
    }
}

/// The longest time of an iteration: a year.
const SECONDS_MAX: f64 = 3.2e7;
