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
        let seconds = match seconds + self.config.clock_overhead.0.as_secs_f64() {
            0.0 => NO_WORK_SECONDS,
            seconds => seconds,
        };
        let seconds = seconds * self.config.slowdown.of(worker) * self.jitter(number);
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

/// The time of an iteration of a worker without data: about what it takes a process to ask another one of its machine for
/// values. Where a worker shares the machine of its server nothing else takes time, and iterations that took none would
/// follow each other for ever before the rest of the run goes on.
const NO_WORK_SECONDS: f64 = 1e-4;

/// The longest time of an iteration: a year.
const SECONDS_MAX: f64 = 3.2e7;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::DriverKind;
    use gaia_core::types::DcId;

    /// Without it a worker without data repeats its iterations at one point in virtual time for ever, where it shares the
    /// machine of its server.
    #[test]
    fn an_iteration_without_work_takes_time() {
        let config = ComputeConfig::default_for(DriverKind::Simulated);
        let mut cost = CostModel::new(&config, 1, Seed(7));
        let worker = WorkerId { dc: DcId(0), index: 0 };
        let none = Work { examples: 0, flops: 0.0 };
        assert!(cost.time(worker, 0, none) > Duration::from_micros(50));

        let some = Work { examples: 1, flops: 2.0 };
        assert!(cost.time(worker, 0, some) < Duration::from_nanos(2));
    }
}
