//! `paper.json`: what a run of the paper's evaluation measured, beside what the paper printed.
//!
//! Field names are contracts that scripts rely on.

use serde::{Deserialize, Serialize};

use gaia_telemetry::{BlockedSeconds, finite_or_null};

/// Everything that one run of the evaluation measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperFile {
    pub version: String,
    pub seed: u64,
    /// Whether this was the short version: fewer clocks' worth of data, fewer rows.
    pub quick: bool,
    /// What was fitted before any ASP run, one per application and WAN.
    pub scales: Vec<ScaleRow>,
    /// Applications × WANs × models, bandwidths fitted per application and WAN.
    pub cells: Vec<CellRow>,
    /// The same over other WANs and at one scale per application.
    pub elsewhere: Vec<CellRow>,
    /// What each of ASP's settings buys.
    pub ablation: Vec<AblationRow>,
    /// Bytes and dollars per data center, with and without hubs.
    pub hubs: Vec<HubRow>,
    /// The paper's Figure 5: the share of updates below a significance.
    pub insignificant: Vec<InsignificantRow>,
    /// The paper's Figure 12: what happens without the two brakes.
    pub brakes: Vec<CurveRow>,
    /// Training over label-skewed data.
    pub skew: Vec<SkewRow>,
    /// How fast the simulator was, per run.
    pub speed: Vec<SpeedRow>,
}

impl PaperFile {
    /// The run that took longest to simulate.
    pub fn heaviest(&self) -> Option<&SpeedRow> {
        self.speed.iter().max_by(|a, b| a.wall_seconds.total_cmp(&b.wall_seconds))
    }
}

/// A fitted bandwidth scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleRow {
    pub app: String,
    pub wan: String,
    /// Whether the scale is that of another WAN, as in `elsewhere`.
    #[serde(default)]
    pub elsewhere: bool,
    /// What all bandwidths, LAN and WAN, were multiplied by: the model's own size over that of the paper's.
    pub bandwidth_scale: f64,
    /// BSP's time per clock over that of BSP on the LAN, as fitted.
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
    /// `lan`, `bsp`, `ssp`, `asp-paper`, `asp`, `asp-async`, `local-steps` or `centralize`.
    pub model: String,
    /// Virtual seconds to the LAN run's converged objective. `None` where it was not reached.
    pub time_s: Option<f64>,
    pub clocks: Option<u64>,
    pub times_lan: Option<f64>,
    pub speedup_vs_bsp: Option<f64>,
    /// WAN bytes to the target (of the whole run where it was not reached), of the scaled model.
    pub wan_bytes: u64,
    /// Machines, waiting included, and WAN traffic until the target, at the size of the paper's model.
    pub usd: f64,
    pub usd_machines: f64,
    pub usd_wan: f64,
    /// Of `centralize`, whose other dollars rent machines for training alone: the dollars where they are rented from
    /// the start, as every other model's are.
    #[serde(default)]
    pub usd_waiting: Option<f64>,
    pub converged: bool,
    /// The speed-up over BSP that the paper printed for this cell.
    pub paper_speedup: Option<f64>,
    /// BSP's dollars over this model's, as the paper printed them.
    pub paper_cost_ratio: Option<f64>,
    /// The WAN's share of BSP's dollars, as the paper drew it.
    #[serde(default)]
    pub paper_wan_share: Option<f64>,
    /// The worst copy's objective when the run ended, after the drain.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// Its distance from that of BSP on the LAN after as many clocks, as a share of it.
    pub objective_off: Option<f64>,
    pub copies_equal: bool,
    pub blocked_s: BlockedSeconds,
    /// Time and objective of the worst copy at each evaluation.
    #[serde(with = "points")]
    pub curve: Vec<(f64, f64)>,
}

/// ASP with one of its settings changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    pub app: String,
    pub wan: String,
    /// The setting that differs from ours, as a run file writes it; "ours" and "as published" for the two ends.
    pub change: String,
    /// What the setting is for, in few words.
    pub what: String,
    pub times_lan: Option<f64>,
    pub clocks: Option<u64>,
    pub wan_bytes: u64,
    pub usd: f64,
    #[serde(with = "finite_or_null")]
    pub objective: f64,
}

/// What one data center sent and paid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HubRow {
    pub app: String,
    /// `mesh`, `groups` or `tree`.
    pub overlay: String,
    pub data_center: String,
    /// Whether it forwards other data centers' updates.
    pub is_hub: bool,
    pub sent_bytes: u64,
    /// Of those, what it forwarded for others.
    pub relayed_bytes: u64,
    pub usd: f64,
}

/// The share of updates below some significance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InsignificantRow {
    pub app: String,
    pub wan: String,
    /// Change relative to the value (0.01 is 1 %), share of updates below it (0 to 1), the paper's share.
    pub points: Vec<(f64, f64, Option<f64>)>,
}

/// One curve of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveRow {
    pub app: String,
    pub wan: String,
    pub model: String,
    /// Seconds and objective of the worst copy.
    #[serde(with = "points")]
    pub points: Vec<(f64, f64)>,
    pub target: f64,
}

/// Training over label-skewed data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkewRow {
    /// `cnn`, `cnn-group-norm` or `perceptron`.
    pub app: String,
    /// The share of examples that labels decide, 0 to 1.
    pub skew: f64,
    pub model: String,
    pub guard: bool,
    /// Of the worst copy on held-out data of all data centers, and of the drained one, 0 to 1.
    pub accuracy_worst: f64,
    pub accuracy: f64,
    pub clocks: u64,
    pub time_s: f64,
    pub wan_bytes: u64,
}

/// How fast one simulation was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedRow {
    pub run: String,
    pub virtual_seconds: f64,
    pub wall_seconds: f64,
    pub frames: u64,
}

/// A curve whose run diverged: what is not finite travels as `null`.
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
