//! The choice of the synchronisation model between data centers.

use super::{
    AspConfig, BlockShares, BspConfig, CopiesDue, ExchangeKind, GuardConfig, LocalStepsConfig,
    SspConfig, TapConfig, TravelingConfig,
};
use crate::types::Tightness;

/// How data centers share updates and wait for each other.
#[derive(Clone, Debug, PartialEq)]
pub enum RemoteSync {
    /// Bulk synchronous parallel.
    Bsp(BspConfig),
    /// Stale synchronous parallel.
    Ssp(SspConfig),
    /// Totally asynchronous parallel.
    Tap(TapConfig),
    /// Approximate synchronous parallel, the paper's model.
    Asp(AspConfig),
    /// Periodic rounds between local steps.
    LocalSteps(LocalStepsConfig),
}

impl RemoteSync {
    /// The names of all models in configuration files.
    pub const NAMES: [&str; 5] = ["bsp", "ssp", "tap", "asp", "local-steps"];

    /// The names of all models in reports and comparisons. BSP has one for each way of its exchange.
    pub const VARIANTS: [&str; 7] =
        ["bsp", "bsp-ring", "bsp-tree", "ssp", "tap", "asp", "local-steps"];

    /// The model's name in reports, one of [`Self::VARIANTS`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bsp(bsp) => match bsp.exchange {
                ExchangeKind::Homes => "bsp",
                ExchangeKind::Ring => "bsp-ring",
                ExchangeKind::Tree => "bsp-tree",
            },
            Self::Ssp(_) => "ssp",
            Self::Tap(_) => "tap",
            Self::Asp(_) => "asp",
            Self::LocalSteps(_) => "local-steps",
        }
    }

    /// The largest tightness that a guard may request. Beyond it no setting changes.
    pub fn tightness_max(&self) -> Tightness {
        match self {
            Self::LocalSteps(local_steps) => Tightness::most_of_clocks(local_steps.steps),
            _ => Tightness::MOST,
        }
    }

    /// The most clocks from an update until all data centers read it. `None` where the settings set no bound.
    ///
    /// Of local steps it bounds what a round includes. Parts that a quorum did not wait for come later, and so do changes that
    /// sparse rounds owe, some of them with the drain alone.
    pub fn delay_max(&self) -> Option<u64> {
        match self {
            Self::Bsp(_) => Some(1),
            Self::Ssp(ssp) => Some(ssp.staleness.0 + 1),
            Self::Tap(_) => None,
            Self::Asp(asp) => asp.data_center_staleness.map(|staleness| staleness.0 + 1),
            Self::LocalSteps(rounds) => Some(rounds.steps + rounds.most_overlap()),
        }
    }

    /// Whether a data center reads its own changes at once, and adds those of others clocks later, as they come: as in the
    /// asynchronous and the stale synchronous models. With the others a read has the changes of all up to the same clock, or
    /// those of its own data center alone until a round.
    pub fn adds_as_they_come(&self) -> bool {
        match self {
            Self::Ssp(_) | Self::Tap(_) | Self::Asp(_) => true,
            Self::Bsp(_) | Self::LocalSteps(_) => false,
        }
    }

    /// The sizes of the blocks of exchanges, rounds and drains.
    pub fn blocks(&self) -> BlockShares {
        match self {
            Self::Bsp(bsp) => bsp.blocks,
            Self::Ssp(ssp) => ssp.blocks,
            Self::Tap(tap) => tap.blocks,
            Self::Asp(asp) => asp.blocks,
            Self::LocalSteps(local_steps) => local_steps.blocks,
        }
    }

    /// How copies travel: for the guard, or where a run `looks` whether copies part without one. `None` if they do not.
    pub fn traveling(&self, looks: bool) -> Option<TravelingConfig> {
        match self.guard() {
            Some(GuardConfig { every, examples, .. }) => {
                Some(TravelingConfig { due: CopiesDue::Every(*every), examples: *examples })
            }
            None => looks.then_some(TravelingConfig {
                due: CopiesDue::Doubling,
                examples: GuardConfig::default().examples,
            }),
        }
    }

    /// The settings of the guard against skew, if the model has one.
    pub fn guard(&self) -> Option<&GuardConfig> {
        match self {
            Self::Bsp(_) | Self::Ssp(_) | Self::Tap(_) => None,
            Self::Asp(asp) => asp.guard.as_ref(),
            Self::LocalSteps(local_steps) => local_steps.guard.as_ref(),
        }
    }
}
