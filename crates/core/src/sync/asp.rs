//! Approximate synchronous parallel (Hsieh et al., NSDI 2017): only significant updates cross the
//! WAN, kept honest by selective barriers and mirror clocks.

use serde::{Deserialize, Serialize};

use super::{GuardConfig, ValueFormat};
use crate::types::{Clock, DurationSetting, Staleness};

/// Remote ASP.
///
/// The defaults were chosen for eleven regions at 15 to 212 Mbit/s and models of 10⁵ parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AspConfig {
    /// The hard threshold at clock 0: a residual above `threshold × max(|value|, floor)` must be shared.
    /// The paper advises 0.01 to 0.02. With the table's RMS as floor more is safe: the quickstart takes 145 clocks
    /// at 0.1 and 140 at 0.01, with a third of the bytes.
    pub threshold: f64,
    /// Where a link has room, what is below the hard threshold and above this one leaves as well, the most
    /// significant first; at most `threshold`, with which it falls. 0 leaves only dust at home.
    pub soft_threshold: f64,
    pub function: Function,
    pub floor: Floor,
    pub decay: Decay,
    pub policy: Policy,
    pub goal: Goal,
    /// The share of each link's measured rate that `policy = "link"` fills, above 0 and at most 1. What is above
    /// the hard threshold counts towards it and leaves even beyond it; what is below takes the rest.
    pub link_share: f64,
    pub overlay: OverlayKind,
    pub momentum: Correction,
    pub values: ValueFormat,
    pub selective_barrier: Brake,
    /// How long a read waits for announced parameters before it goes on without them.
    pub barrier_deadline: DurationSetting,
    pub mirror_clock: Brake,
    /// How many clocks a data center may be ahead of its slowest mirror, at least 1.
    /// Left out: ceil(largest RTT ÷ clock time) + 1, from the measured clock time.
    pub data_center_staleness: Option<Staleness>,
    /// How long reads wait for a silent mirror before it is left out until it is heard again.
    pub mirror_clock_deadline: DurationSetting,
    pub on_partition: OnPartition,
    /// Against skew: quarters both thresholds, and the clocks that data centers may be apart, as often as it takes.
    pub guard: Option<GuardConfig>,
}

/// What the size of a residual is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// |residual| ÷ max(|value|, floor), per parameter; the paper's, with a floor of 0.
    Relative,
    /// |residual|, per parameter.
    Absolute,
    /// ‖residual row‖ ÷ max(‖row‖, floor × √width), per row.
    RowNorm,
    /// |residual| ÷ the root mean square of what this data center has changed in the table so far, per parameter. It knows
    /// no unit: a network that hardly leaves its initial weights and factors that start at zero, two data centers and
    /// eleven, are held to the same part of their own progress.
    Progress,
}

/// The smallest denominator of a relative significance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Floor {
    /// None, as published: a value of 0 makes any residual significant.
    Zero,
    /// The root mean square of the parameter's table.
    TableRms,
}

/// How the hard threshold falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// With the learning rate, v₀·η_t ÷ η₀: the convergence proof wants both to fall together.
    LearningRate,
    /// v₀ ÷ √clock.
    Clock,
    /// v₀ ÷ √pass.
    Pass,
    None,
}

/// Who decides what leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// As published: one residual per server, filtered once per clock, the same updates to every mirror.
    Paper,
    /// One residual per link; whenever a link has drained, the most significant ones that fit leave.
    Link,
}

/// What the run should save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// As little time as possible: idle bandwidth carries updates below the hard threshold too.
    Speed,
    /// As few bytes as possible: nothing below the hard threshold is sent.
    Cost,
}

/// Which data centers send to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayKind {
    /// Everyone to everyone.
    Mesh,
    /// Members of a group to each other, hubs between groups: the topology's groups, or where it names none, groups
    /// chosen from bandwidth, RTT and price.
    Groups,
    /// Along the spanning tree of maximum bandwidth.
    Tree,
}

/// Whether residuals are corrected for the application's momentum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correction {
    /// Gradients are shared, and every data center gives them their momentum: each crosses a link once.
    On,
    /// As `On`, and what a gradient has come to while it was on its way is added when it arrives: only the rest of its
    /// momentum goes on, as at home. After the momentum factor masking of Lin et al. (ICLR 2018), which drops the
    /// momentum of what is delayed; here nothing is lost.
    Masked,
    /// Steps are shared, which already hold the momentum of all gradients before.
    Off,
}

/// Whether one of ASP's two brakes is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Brake {
    On,
    Off,
    /// On where it can help: a barrier only where workers read less than half of the model each clock.
    Auto,
}

/// What a data center does that a mirror cannot be reached from.
///
/// Where a third data center reaches both, one of the two pauses in either case: see `docs/src/partial-partitions.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnPartition {
    /// Goes on without it: neither brake waits for it until it is heard again. Residuals merge meanwhile.
    Continue,
    /// Holds back all reads until it is heard again, however long that takes.
    Pause,
}

impl Default for AspConfig {
    fn default() -> Self {
        Self {
            threshold: 0.1,
            soft_threshold: 0.0,
            function: Function::Relative,
            floor: Floor::TableRms,
            decay: Decay::LearningRate,
            policy: Policy::Link,
            goal: Goal::Speed,
            link_share: 0.2,
            overlay: OverlayKind::Mesh,
            momentum: Correction::On,
            values: ValueFormat::Bf16,
            selective_barrier: Brake::Auto,
            barrier_deadline: DurationSetting(std::time::Duration::from_secs(10)),
            mirror_clock: Brake::Auto,
            data_center_staleness: None,
            mirror_clock_deadline: DurationSetting(std::time::Duration::from_secs(60)),
            on_partition: OnPartition::Continue,
            guard: None,
        }
    }
}

impl Decay {
    /// What the hard threshold at clock 0 is multiplied by.
    ///
    /// `learning_rate_factor` is η_t ÷ η₀ at `clock`; `clocks_per_pass` is at least 1.
    pub fn factor(self, clock: Clock, learning_rate_factor: f64, clocks_per_pass: u64) -> f64 {
        match self {
            Self::LearningRate => learning_rate_factor,
            Self::Clock => 1.0 / ((clock.0 + 1) as f64).sqrt(),
            Self::Pass => 1.0 / ((clock.0 / clocks_per_pass + 1) as f64).sqrt(),
            Self::None => 1.0,
        }
    }
}
