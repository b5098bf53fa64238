//! The choice of synchronisation between data centers.

use super::{AspConfig, BspConfig, LocalStepsConfig, SspConfig, TapConfig};

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
}
