//! Local steps between rounds: DiLoCo (Douillard et al., 2023) and its streaming form (Douillard et al., 2025), with a
//! parameter server in each data center.

use serde::{Deserialize, Serialize};

use super::{GuardConfig, ValueFormat};

/// The settings of remote local steps. Data centers train on their own copies and combine their changes periodically.
///
/// The defaults were chosen for eleven regions. There BSP takes 4 to 7 times the time that it takes on a LAN. With
/// these defaults matrix factorisation with disjoint users in each data center takes 0.76 times the LAN's time, and a
/// perceptron with momentum 1.02 times. An outer momentum of 0.7 is faster, but does not converge at four times the
/// perceptron's learning rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalStepsConfig {
    /// Clocks between two rounds of a fragment, at least 1.
    pub steps: u64,
    /// The number of parts of the shard, at most `steps`. Each has its own rounds, evenly staggered.
    pub fragments: u64,
    /// How many clocks training continues while a round is in progress, below `steps`. `None` means until the
    /// fragment's next round is due.
    pub overlap: Option<u64>,
    /// How the data centers' changes combine.
    pub combine: Combine,
    /// The outer optimiser, which applies a round's combined change.
    pub outer: Outer,
    /// The factor of a round's combined change, above 0.
    pub outer_learning_rate: f64,
    /// The share of the last outer step that is added to the next one, below 1. Used by `outer = "nesterov"`.
    pub outer_momentum: f64,
    /// The format of changes on the WAN, in both directions. The rounding error is added to the next round.
    pub values: ValueFormat,
    /// The guard against skew. Each of its steps divides `steps`, and with it the overlap, by four. It requires one
    /// fragment. `None` for no guard.
    pub guard: Option<GuardConfig>,
}

/// How the changes of data centers combine. A round adds them up in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// A data center applies its workers' changes to its own copy as they are. With one step, one fragment and no
    /// overlap this is BSP, and counts stay counts. Many steps at a large learning rate overshoot, because no data
    /// center sees the changes of the others between rounds.
    Sum,
    /// A data center scales its workers' changes in its own copy, as if all workers that change a parameter had made
    /// them. So the round agrees on the mean of the copies (local SGD).
    Mean,
}

/// How a round's combined change is applied to the agreed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outer {
    /// The change times the outer learning rate.
    Plain,
    /// With Nesterov momentum (Sutskever et al., ICML 2013). The home of each block keeps the momentum.
    Nesterov,
}

impl Default for LocalStepsConfig {
    fn default() -> Self {
        Self {
            steps: 10,
            fragments: 1,
            overlap: None,
            combine: Combine::Mean,
            outer: Outer::Nesterov,
            outer_learning_rate: 0.7,
            outer_momentum: 0.5,
            values: ValueFormat::Int4,
            guard: None,
        }
    }
}

impl LocalStepsConfig {
    /// How many clocks training continues while a round is in progress, with the default filled in.
    pub fn overlap(&self) -> u64 {
        self.overlap.unwrap_or(self.steps - 1)
    }

    /// Whether a round adds the sum of all changes unscaled. An application whose deltas are counts requires it.
    pub fn adds_up(&self) -> bool {
        self.combine == Combine::Sum
            && self.outer == Outer::Plain
            && self.outer_learning_rate == 1.0
    }
}
