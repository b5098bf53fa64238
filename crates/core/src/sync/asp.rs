//! Approximate synchronous parallel (Hsieh et al., NSDI 2017): only significant updates cross the WAN. Selective
//! barriers and mirror clocks bound how far copies differ.

use serde::{Deserialize, Serialize};

use super::{BlockShares, GuardConfig, ValueFormat};
use crate::types::{Clock, DurationSetting, Staleness};

/// The settings of remote ASP.
///
/// The defaults were chosen for eleven regions at 15 to 212 Mbit/s and models of 10⁵ parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AspConfig {
    /// The hard threshold at clock 0. A residual above `threshold × max(|value|, floor)` must be sent.
    ///
    /// The paper advises 0.01 to 0.02. With the table's RMS as floor a larger threshold is safe: the quickstart takes
    /// 145 clocks at 0.1 and 140 at 0.01, with a third of the bytes.
    pub threshold: f64,
    /// Residuals below the hard threshold and above this one are sent when a link has room, the most significant first.
    /// At most `threshold`, with which it decays. At 0 only residuals below
    /// [`DUST`](crate::significance::DUST) times the hard threshold are never sent.
    pub soft_threshold: f64,
    /// The significance function (section 3 of the paper).
    pub function: Function,
    /// The smallest denominator of the significance function.
    pub floor: Floor,
    /// How the hard threshold decreases during training.
    pub decay: Decay,
    /// The unit of filtering: all mirrors together, or each link.
    pub policy: Policy,
    /// Whether idle bandwidth carries updates below the hard threshold.
    pub goal: Goal,
    /// The share of each link's measured rate that `policy = "link"` uses, above 0 and at most 1. Residuals above the
    /// hard threshold count towards the share and are sent even beyond it. Residuals below it use the rest. Of a server
    /// with up to about 200 values they are all sent, since frames weigh about as much without them.
    pub link_share: f64,
    /// Which data centers send updates to which.
    pub overlay: OverlayKind,
    /// Whether residuals are corrected for the application's momentum.
    pub momentum: Correction,
    /// The format of values on the WAN. The rounding error stays in the residual.
    pub values: ValueFormat,
    /// The sizes of the blocks of the drain at the end.
    pub blocks: BlockShares,
    /// Whether the selective barrier is applied (section 3 of the paper).
    pub selective_barrier: Brake,
    /// How long a read waits for announced parameters in total before it continues without them, even if others are
    /// announced meanwhile.
    pub barrier_deadline: DurationSetting,
    /// Whether mirror clocks are applied (section 3 of the paper).
    pub mirror_clock: Brake,
    /// How many clocks a data center may be ahead of its slowest mirror, at least 1. `None` means
    /// ceil(largest RTT ÷ clock time) + 1, from the measured clock time. Where a frame takes more than a tenth of a clock,
    /// two frames at the measured rate of the slowest link are added to the RTT.
    pub data_center_staleness: Option<Staleness>,
    /// How long reads wait for a silent mirror. After that the mirror is excluded until a frame of it is received. For one
    /// that is heard and reports no clock they wait for as long as the run waits for a lost node, if that is longer.
    pub mirror_clock_deadline: DurationSetting,
    /// The reaction to a mirror that cannot be reached.
    pub on_partition: OnPartition,
    /// The guard against skew. Each of its steps divides both thresholds, and the allowed difference of data centers'
    /// clocks, by four. `None` for no guard.
    pub guard: Option<GuardConfig>,
}

/// The significance function: what the size of a residual is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// |residual| ÷ max(|value|, floor), per parameter. With a floor of 0 it is the paper's function.
    Relative,
    /// |residual|, per parameter.
    Absolute,
    /// ‖residual row‖ ÷ max(‖row‖, floor × √width), per row.
    RowNorm,
    /// |residual| ÷ the root mean square of the changes that this data center has made to the table so far, per parameter.
    ///
    /// It has no unit. The same threshold means the same share of progress for a network that stays close to its
    /// initial weights and for factors that start at zero, with two data centers and with eleven.
    Progress,
}

/// The smallest denominator of a relative significance function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Floor {
    /// 0, as in the paper: where the value is 0, every residual other than 0 is significant.
    Zero,
    /// The root mean square of the parameter's table. 0 in tables whose values have no scale in common: the weights of
    /// features that are moved in coordinates of their own, and statistics.
    TableRms,
}

/// How the hard threshold v₀ decreases during training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// v₀·η_t ÷ η₀, with the learning rate η. The paper's convergence proof requires that both decrease together.
    LearningRate,
    /// v₀ ÷ √clock.
    Clock,
    /// v₀ ÷ √pass.
    Pass,
    /// v₀: the threshold is constant.
    None,
}

/// The unit in which updates are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// As in the paper: one residual per server, filtered once per clock. Every mirror receives the same updates.
    Paper,
    /// One residual per link. Each time a link is idle, the most significant residuals that fit are sent.
    Link,
}

/// The resource that a run saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Time: idle bandwidth carries updates below the hard threshold, too.
    Speed,
    /// Bytes: no update below the hard threshold is sent.
    Cost,
}

/// Which data centers send updates to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayKind {
    /// Each data center sends to every other.
    Mesh,
    /// Members of a group send to each other, and hubs connect the groups. The groups are those of the topology. If it
    /// names none, they are chosen from bandwidth, RTT and price.
    Groups,
    /// Data centers send along the spanning tree of maximum bandwidth.
    Tree,
}

/// How residuals are corrected for the application's momentum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correction {
    /// Gradients are sent, and every data center applies the momentum to them. Each gradient crosses a link once.
    On,
    /// As `On`. In addition, a delayed gradient first receives the momentum that it has gained at its origin while it
    /// was delayed. After the momentum factor masking of Lin et al. (ICLR 2018), which drops the momentum of delayed
    /// gradients. Here none is dropped.
    Masked,
    /// Steps are sent, which include the momentum of all earlier gradients.
    Off,
}

/// Whether one of ASP's two brakes is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Brake {
    /// The brake is applied.
    On,
    /// The brake is not applied.
    Off,
    /// The brake is applied where it can help. The selective barrier can only where workers read less than half of the
    /// model in each clock.
    Auto,
}

/// The reaction of a data center to a mirror that it cannot reach.
///
/// Under a partial partition that no detour gets around, one of the two data centers pauses with either setting: see
/// `docs/src/partial-partitions.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnPartition {
    /// Continue. Neither brake waits for the mirror until a frame of it is received, nor for the parameters that it has
    /// announced before. Until then residuals merge.
    Continue,
    /// Hold back all reads until a frame of the mirror is received, without a deadline.
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
            blocks: BlockShares::default(),
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
    /// The hard threshold at `clock`, divided by the hard threshold at clock 0.
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
