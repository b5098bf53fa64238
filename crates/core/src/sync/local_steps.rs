//! Local steps between rounds: DiLoCo (Douillard et al., 2023) and its streaming form (Douillard et al., 2025), with a
//! parameter server in each data center.

use serde::{Deserialize, Serialize};

use super::{GuardConfig, ValueFormat};

/// Remote local-steps. Data centers train on their own copies and meet every so many clocks.
///
/// The defaults were chosen over eleven regions, where BSP takes 4 to 7 times a LAN's time: matrix factorisation with
/// users of their own in each data center takes 0.76 of it and a perceptron with momentum 1.02. An outer momentum of
/// 0.7 is faster still, but no longer converges at four times the perceptron's learning rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalStepsConfig {
    /// Clocks between two rounds of a fragment, at least 1.
    pub steps: u64,
    /// Parts that the shard is cut into, each with rounds of its own, evenly staggered; at most `steps`.
    pub fragments: u64,
    /// How many clocks training goes on while a round is under way, below `steps`. Left out: until the fragment's next
    /// round is due.
    pub overlap: Option<u64>,
    pub combine: Combine,
    pub outer: Outer,
    /// What a round's combined change is multiplied by, above 0.
    pub outer_learning_rate: f64,
    /// The share of the last outer step that goes into the next, below 1; with `outer = "nesterov"`.
    pub outer_momentum: f64,
    /// How changes cross the WAN, both ways; what rounding loses joins the next round.
    pub values: ValueFormat,
    /// Against skew: quarters the steps, and with them the overlap, as often as it takes; with one fragment.
    pub guard: Option<GuardConfig>,
}

/// What the data centers' changes are to each other between rounds. In a round they are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// In its own copy, too, a data center's changes are its workers' share of a step. With one step, one fragment and
    /// no overlap this is BSP, and counts stay counts. Many steps at a large learning rate overshoot: nobody sees
    /// what the others add.
    Sum,
    /// In its own copy a data center takes its workers' changes as if all workers who change a parameter made them,
    /// so that the round agrees on the mean of where they would have gone (local SGD).
    Mean,
}

/// How a round's combined change moves what the data centers agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outer {
    /// By itself, times the outer learning rate.
    Plain,
    /// With Nesterov's momentum, kept where the change is summed (Sutskever et al., ICML 2013).
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
    /// How many clocks training goes on while a round is under way.
    pub fn overlap(&self) -> u64 {
        self.overlap.unwrap_or(self.steps - 1)
    }

    /// Whether a round agrees on the sum of all changes as they are. Counts take nothing else.
    pub fn adds_up(&self) -> bool {
        self.combine == Combine::Sum
            && self.outer == Outer::Plain
            && self.outer_learning_rate == 1.0
    }
}
