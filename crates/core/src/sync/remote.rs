//! The choice of synchronisation between data centers.

use super::{AspConfig, BspConfig, GuardConfig, LocalStepsConfig, SspConfig, TapConfig};
use crate::types::Tightness;

/// How data centers share updates and wait for each other.
#[derive(Clone, Debug, PartialEq)]
pub enum RemoteSync {
    Bsp(BspConfig),
    Ssp(SspConfig),
    Tap(TapConfig),
    Asp(AspConfig),
    LocalSteps(LocalStepsConfig),
}

impl RemoteSync {
    /// Every model's name, as configuration files and reports write it.
    pub const NAMES: [&str; 5] = ["bsp", "ssp", "tap", "asp", "local-steps"];

    pub fn name(&self) -> &'static str {
        match self {
            Self::Bsp(_) => "bsp",
            Self::Ssp(_) => "ssp",
            Self::Tap(_) => "tap",
            Self::Asp(_) => "asp",
            Self::LocalSteps(_) => "local-steps",
        }
    }

    /// The most that a guard may ask for: beyond it nothing becomes tighter.
    pub fn tightness_max(&self) -> Tightness {
        match self {
            Self::LocalSteps(local_steps) => Tightness::most_of_clocks(local_steps.steps),
            _ => Tightness::MOST,
        }
    }

    /// The guard against skew, where there is one.
    pub fn guard(&self) -> Option<&GuardConfig> {
        match self {
            Self::Bsp(_) | Self::Ssp(_) | Self::Tap(_) => None,
            Self::Asp(asp) => asp.guard.as_ref(),
            Self::LocalSteps(local_steps) => local_steps.guard.as_ref(),
        }
    }
}
