//! `paper.json`: what a run of the paper's evaluation measured, beside what the paper printed.
//!
//! Scripts rely on the names of the fields.

use serde::{Deserialize, Serialize};

use gaia_telemetry::{BlockedSeconds, finite_or_null};

use super::rates::RateRow;

/// Everything that one run of the evaluation measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperFile {
    /// The version of the program.
    pub version: String,
    /// The seed of every run.
    pub seed: u64,
    /// Whether this is the short version, with fewer clocks and fewer rows.
    pub quick: bool,
    /// The fitted bandwidth scales, one for each application and WAN.
    pub scales: Vec<ScaleRow>,
    /// Applications × WANs × models, bandwidths fitted per application and WAN.
    pub cells: Vec<CellRow>,
    /// The same over other WANs and at one scale per application.
    pub elsewhere: Vec<CellRow>,
    /// The effect of each of ASP's settings.
    pub ablation: Vec<AblationRow>,
    /// Bytes and dollars per data center, with and without hubs.
    pub hubs: Vec<HubRow>,
    /// The paper's Figure 5: the share of updates below a significance.
    pub insignificant: Vec<InsignificantRow>,
    /// The paper's Figure 12: what happens without the two brakes.
    pub brakes: Vec<CurveRow>,
    /// Training over label-skewed data.
    pub skew: Vec<SkewRow>,
    /// Training over label-skewed data with each learning rate of a grid.
    #[serde(default)]
    pub rates: Vec<RateRow>,
    /// Claims of other systems.
    #[serde(default)]
    pub systems: Vec<SystemRow>,
    /// How fast the simulator was, per run.
    pub speed: Vec<SpeedRow>,
}

impl PaperFile {
    /// The run that took the most real time. `None` where none was timed.
    pub fn heaviest(&self) -> Option<&SpeedRow> {
        self.speed.iter().max_by(|a, b| a.wall_seconds.total_cmp(&b.wall_seconds))
    }
}

/// A fitted bandwidth scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleRow {
    /// The application.
    pub app: String,
    /// The topology.
    pub wan: String,
    /// Whether the scale is that of another WAN, as in `elsewhere`.
    #[serde(default)]
    pub elsewhere: bool,
    /// The factor applied to all bandwidths, LAN and WAN: the size of the model divided by that of the paper's.
    pub bandwidth_scale: f64,
    /// BSP's time per clock divided by that of BSP on the LAN, as fitted.
    pub bsp_over_lan: f64,
    /// The paper's LAN column: LAN's speed-up over BSP. `None` on WANs that the paper did not have.
    pub published: Option<f64>,
    /// Bytes of training data in all data centers, as "ship the data first" charges them, unscaled by `bandwidth_scale`.
    pub data_bytes: f64,
}

/// One cell: an application over a WAN with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRow {
    /// `mf`, `tm` or `ic`.
    pub app: String,
    /// `ec2-all`, `vc` or `ss`, and in `elsewhere` others.
    pub wan: String,
    /// `lan`, `bsp`, `bsp-bandwidth`, `ssp`, `asp-paper`, `asp`, `asp-async`, `local-steps` or `centralize`.
    pub model: String,
    /// Virtual seconds to the LAN run's converged objective. `None` where it was not reached.
    pub time_s: Option<f64>,
    /// Clocks until the target. `None` where it was not reached.
    pub clocks: Option<u64>,
    /// The time divided by that of BSP on the LAN. `None` where either did not reach the target.
    pub times_lan: Option<f64>,
    /// BSP's time on the same WAN divided by this one. `None` where either did not reach the target.
    pub speedup_vs_bsp: Option<f64>,
    /// WAN bytes to the target (of the whole run where it was not reached), of the scaled model.
    pub wan_bytes: u64,
    /// Machines, waiting included, and WAN traffic until the target, at the size of the paper's model.
    pub usd: f64,
    /// The machines' part of `usd`.
    pub usd_machines: f64,
    /// The WAN traffic's part of `usd`.
    pub usd_wan: f64,
    /// Of `centralize`, whose other dollars rent machines for training alone: the dollars where they are rented from
    /// the start, as every other model's are.
    #[serde(default)]
    pub usd_waiting: Option<f64>,
    /// Whether the target was reached.
    pub converged: bool,
    /// The speed-up over BSP that the paper printed for this cell.
    pub paper_speedup: Option<f64>,
    /// BSP's dollars divided by this model's, as the paper printed them.
    pub paper_cost_ratio: Option<f64>,
    /// The WAN's share of BSP's dollars, as the paper drew it.
    #[serde(default)]
    pub paper_wan_share: Option<f64>,
    /// The worst copy's objective when the run ended, after the drain.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// Its distance from that of BSP on the LAN after as many clocks, as a share of it.
    pub objective_off: Option<f64>,
    /// Whether all copies were equal after the drain.
    pub copies_equal: bool,
    /// Worker-seconds that reads were held back, by cause.
    pub blocked_s: BlockedSeconds,
    /// Time and objective of the worst copy at each evaluation.
    #[serde(with = "points")]
    pub curve: Vec<(f64, f64)>,
}

/// ASP with one of its settings changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// The application.
    pub app: String,
    /// The topology.
    pub wan: String,
    /// The setting that differs from ours, as a run file writes it; "ours" and "as published" for the two ends.
    pub change: String,
    /// The purpose of the setting.
    pub what: String,
    /// The time divided by that of BSP on the LAN. `None` where either did not reach the target.
    pub times_lan: Option<f64>,
    /// Clocks until the target. `None` where it was not reached.
    pub clocks: Option<u64>,
    /// WAN bytes, as in [`CellRow::wan_bytes`].
    pub wan_bytes: u64,
    /// US dollars, as in [`CellRow::usd`].
    pub usd: f64,
    /// As in [`CellRow::objective`].
    #[serde(with = "finite_or_null")]
    pub objective: f64,
}

/// What one data center sent and paid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HubRow {
    /// The application.
    pub app: String,
    /// `mesh`, `groups` or `tree`.
    pub overlay: String,
    /// Its name in the topology.
    pub data_center: String,
    /// Whether it forwards other data centers' updates.
    pub is_hub: bool,
    /// Bytes that it put on the WAN.
    pub sent_bytes: u64,
    /// Of those, what it forwarded for others.
    pub relayed_bytes: u64,
    /// US dollars, as in [`CellRow::usd`].
    pub usd: f64,
}

/// The share of updates below some significance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InsignificantRow {
    /// The application.
    pub app: String,
    /// The topology.
    pub wan: String,
    /// Change relative to the value (0.01 is 1 %), share of updates below it (0 to 1), the paper's share.
    pub points: Vec<(f64, f64, Option<f64>)>,
}

/// One curve of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveRow {
    /// The application.
    pub app: String,
    /// The topology.
    pub wan: String,
    /// The remote model, as in [`CellRow::model`], or `sparse-rounds`.
    pub model: String,
    /// Seconds and objective of the worst copy.
    #[serde(with = "points")]
    pub points: Vec<(f64, f64)>,
    /// The objective that ends the run.
    pub target: f64,
}

/// Training over label-skewed data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkewRow {
    /// `cnn`, `cnn-group-norm` or `perceptron`.
    pub app: String,
    /// The share of examples that labels decide, 0 to 1.
    pub skew: f64,
    /// The remote model, as in [`CellRow::model`], or `sparse-rounds`.
    pub model: String,
    /// Whether the guard against skew was on.
    pub guard: bool,
    /// The accuracy of the worst copy on held-out data of all data centers, 0 to 1.
    pub accuracy_worst: f64,
    /// The accuracy of the copy after the drain on held-out data of all data centers, 0 to 1.
    pub accuracy: f64,
    /// Clocks until the target. `None` where it was not reached.
    pub clocks: u64,
    /// Virtual seconds of the run.
    pub time_s: f64,
    /// WAN bytes, as in [`CellRow::wan_bytes`].
    pub wan_bytes: u64,
}

/// A claim of another system, beside what was measured here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemRow {
    /// The system.
    pub system: String,
    /// What it printed, and where.
    pub claim: String,
    /// How it was checked. Empty where it cannot be.
    pub check: String,
    /// What was measured. Empty where it cannot be checked.
    pub figures: Vec<SystemFigure>,
    /// Whether the claim holds here.
    pub verdict: SystemVerdict,
    /// What decides the verdict, or why the claim cannot be checked here.
    pub reason: String,
}

/// A figure of a [`SystemRow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemFigure {
    /// What is measured.
    pub what: String,
    /// The unit of all values.
    pub unit: SystemUnit,
    /// What the system printed. `None` where it printed nothing.
    pub printed: Option<f64>,
    /// What follows from a formula. `None` where there is none.
    pub computed: Option<f64>,
    /// What was measured here. Not finite (`null`) where a run did not reach its target.
    #[serde(with = "finite_or_null")]
    pub measured: f64,
}

/// The unit of a [`SystemFigure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemUnit {
    /// A ratio.
    Times,
    /// A share, 0 to 1.
    Share,
    /// A number of machines.
    Machines,
}

/// Whether a claim of another system holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemVerdict {
    /// It holds.
    Holds,
    /// It does not hold.
    Fails,
    /// It cannot be checked here.
    CannotBeChecked,
}

impl SystemVerdict {
    /// The verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::CannotBeChecked => "cannot be checked here",
        }
    }
}

/// How fast one simulation was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedRow {
    /// The name of the run.
    pub run: String,
    /// How long the run took in virtual time.
    pub virtual_seconds: f64,
    /// How long the run took in real time.
    pub wall_seconds: f64,
    /// Frames that were delivered.
    pub frames: u64,
}

/// The points of a curve. A value that is not finite, of a run that diverged, is written as `null`.
mod points {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        points: &[(f64, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let finite = |value: f64| value.is_finite().then_some(value);
        serializer.collect_seq(points.iter().map(|(x, y)| (x, finite(*y))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(f64, f64)>, D::Error> {
        let points: Vec<(f64, Option<f64>)> = Deserialize::deserialize(deserializer)?;
        Ok(points.into_iter().map(|(x, y)| (x, y.unwrap_or(f64::NAN))).collect())
    }
}
