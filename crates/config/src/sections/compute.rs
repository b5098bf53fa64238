//! `[compute]`: how long one iteration of a worker takes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DriverKind, Slowdown, SlowdownKey};
use crate::document::Problem;
use crate::range::{self, Checks};
use gaia_core::topology::Topology;
use gaia_core::types::DurationSetting;

/// How long a worker's iterations take.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeConfig {
    /// Where the time comes from.
    pub model: ComputeModel,
    /// How fast one worker computes under [`ComputeModel::Cost`].
    pub rate: ComputeRate,
    /// Added to every clock of every worker.
    pub clock_overhead: DurationSetting,
    /// Sigma of the lognormal factor, of median 1, that each clock's time is multiplied by; 0 for none.
    pub jitter: f64,
    /// What the times of each worker's iterations are multiplied by.
    pub slowdown: Slowdown,
}

/// Where the time of an iteration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeModel {
    /// The time that the arithmetic takes on this machine. Not with the simulated driver.
    Measured,
    /// `clock_overhead` plus work ÷ rate. In the simulated driver this much virtual time passes; in the emulated
    /// driver an iteration that finishes sooner waits until then.
    Cost,
}

/// The speed of one worker, above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComputeRate {
    /// Training examples in each second.
    ExamplesPerSecond(f64),
    /// Floating-point operations in each second.
    FlopsPerSecond(f64),
}

/// The keys of `[compute]`, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ComputeKeys {
    model: Option<ComputeModel>,
    examples_per_second: Option<f64>,
    flops_per_second: Option<f64>,
    clock_overhead: Option<DurationSetting>,
    jitter: Option<f64>,
    slowdown: BTreeMap<String, SlowdownKey>,
}

impl ComputeConfig {
    /// The defaults under a driver: computed costs in virtual time, measured ones elsewhere.
    pub fn default_for(driver: DriverKind) -> Self {
        let model = match driver {
            DriverKind::Simulated => ComputeModel::Cost,
            DriverKind::Emulated | DriverKind::Real => ComputeModel::Measured,
        };
        Self {
            model,
            rate: ComputeRate::FlopsPerSecond(FLOPS_PER_SECOND),
            clock_overhead: DurationSetting(Duration::ZERO),
            jitter: JITTER,
            slowdown: Slowdown::default(),
        }
    }
}

impl ComputeKeys {
    pub(crate) fn check(
        self,
        checks: &Checks<'_>,
        driver: DriverKind,
        topology: &Topology,
    ) -> Result<ComputeConfig, Problem> {
        let default = ComputeConfig::default_for(driver);
        let model = self.model.unwrap_or(default.model);
        if driver == DriverKind::Simulated && model == ComputeModel::Measured {
            let expected = "`cost`: the simulated driver has no machine's time to measure";
            return Err(checks.wrong("compute.model", "measured", expected));
        }

        let rate = match (self.examples_per_second, self.flops_per_second) {
            (None, None) => default.rate,
            (Some(rate), None) => {
                checks.number("compute.examples_per_second", rate, range::RATE)?;
                ComputeRate::ExamplesPerSecond(rate)
            }
            (None, Some(rate)) => {
                checks.number("compute.flops_per_second", rate, range::RATE)?;
                ComputeRate::FlopsPerSecond(rate)
            }
            (Some(_), Some(rate)) => {
                let expected = "either this or `examples_per_second`, not both";
                return Err(checks.wrong("compute.flops_per_second", rate, expected));
            }
        };

        let clock_overhead = self.clock_overhead.unwrap_or(default.clock_overhead);
        checks.time("compute.clock_overhead", clock_overhead, range::OVERHEAD_MAX)?;

        let jitter = self.jitter.unwrap_or(default.jitter);
        checks.number("compute.jitter", jitter, range::JITTER)?;

        let slowdown = Slowdown::check(checks, self.slowdown, topology)?;
        Ok(ComputeConfig { model, rate, clock_overhead, jitter, slowdown })
    }
}

/// One core of a cloud machine on loops that do not fit a vector unit well.
const FLOPS_PER_SECOND: f64 = 2e9;
/// One clock in three takes 5 % more or less than the median.
const JITTER: f64 = 0.05;
