//! The records themselves. Their field names are contracts that scripts rely on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One evaluation: a line of `progress.jsonl`.
///
/// Times are the driver's (virtual seconds in simulation), so that two simulated runs of one seed write the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub time_s: f64,
    /// The slowest data center's clock.
    pub clock: u64,
    /// The objective of the worst data center's copy over all data. Not finite (`null`) where it diverged.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// The mean over copies.
    #[serde(with = "finite_or_null")]
    pub objective_mean: f64,
    /// The held-out metric of the copy with the worst objective.
    #[serde(with = "finite_or_null")]
    pub metric: f64,
    /// Bytes that have entered WAN links so far, transport overhead included.
    pub wan_bytes: u64,
    pub data_centers: Vec<DcProgress>,
}

/// How one data center stands at an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DcProgress {
    pub name: String,
    pub clock: u64,
    /// The objective of this data center's copy over all data.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    #[serde(with = "finite_or_null")]
    pub metric: f64,
    /// Bytes sent to other data centers so far.
    pub wan_sent_bytes: u64,
    /// Seconds that this data center's reads were held back so far, over its workers.
    pub blocked_s: f64,
}

/// A named figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRecord {
    pub name: String,
    #[serde(with = "finite_or_null")]
    pub value: f64,
}

/// Worker-seconds that reads were held back, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockedSeconds {
    /// Announced parameters that had not arrived.
    pub barrier: f64,
    /// A mirror too many clocks behind.
    pub mirror_clock: f64,
    /// Updates that BSP or SSP must see before the next clock.
    pub bandwidth: f64,
    /// Slower workers of the same data center.
    pub local: f64,
    /// A data center that trains on and that no updates pass to or from, while a third one hears both.
    #[serde(default)]
    pub partial_partition: f64,
}

impl BlockedSeconds {
    /// The time of a cause, by its name in reports.
    ///
    /// # Panics
    /// Where the name is none of the fields'.
    pub fn cause_mut(&mut self, cause: &str) -> &mut f64 {
        match cause {
            "barrier" => &mut self.barrier,
            "mirror_clock" => &mut self.mirror_clock,
            "bandwidth" => &mut self.bandwidth,
            "local" => &mut self.local,
            "partial_partition" => &mut self.partial_partition,
            _ => panic!("{cause} is no cause of waiting"),
        }
    }
}

/// What ASP's two brakes gave up when their deadlines passed. All zeros is the ordinary case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrakeRecord {
    /// Announced parameters that had not come in time.
    pub announcements_expired: u64,
    /// Times that a silent mirror was left out.
    pub mirrors_lost: u64,
}

/// What the guard against skew found and did, over all data centers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardRecord {
    /// Copies measured away from home.
    pub probes: u64,
    /// Of those, how many called for more tightness.
    pub alarms: u64,
    /// The most that a copy lost away from home, as a share of what the model lost before training.
    #[serde(with = "finite_or_null")]
    pub loss_max: f64,
    /// How tight data centers were in the end: 0 as configured, each step a quarter of that.
    pub tightness: u8,
    /// Bytes of copies that crossed the WAN, transport overhead not included.
    pub bytes: u64,
}

/// A data center that joined a run under way, or left it for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MembershipRecord {
    pub data_center: String,
    pub change: MembershipChange,
    /// When, in driver seconds.
    pub time_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MembershipChange {
    Joined,
    Left,
}

/// What both ends of all links say of the data frames between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConservationRecord {
    /// Directed links whose ends were compared, once for each shard.
    pub links: usize,
    /// Data frames that were applied.
    pub frames: u64,
    /// Links on which not all that was cut was applied, once and in order.
    pub broken: Vec<BrokenLink>,
}

/// A link whose ends do not agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenLink {
    pub from: String,
    pub to: String,
    pub shard: u16,
    pub cut_frames: u64,
    pub applied_frames: u64,
}

/// What one directed link carried and caused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub from: String,
    pub to: String,
    pub bandwidth_bits_per_second: f64,
    pub rtt_ms: f64,
    /// Bytes that entered the link, transport overhead included.
    pub bytes: u64,
    /// Bytes of frames that a hub forwarded for others, transport overhead not included.
    #[serde(default)]
    pub relayed_bytes: u64,
    /// Of those, bytes in the control lane.
    pub control_bytes: u64,
    /// Frames sent in both lanes.
    #[serde(default)]
    pub frames: u64,
    /// Parameters updated by what was sent.
    pub updates: u64,
    /// Of the parameter changes made at home, the share that this link had not carried as updates of their own:
    /// merged with others or held back. 0 to 1.
    pub held_back_fraction: f64,
    /// Share of the time the link was busy, 0 to 1.
    pub utilisation: f64,
    /// Worker-seconds the receiver waited for this sender, by cause.
    pub blocked_s: BlockedSeconds,
    pub cost_usd: f64,
}

/// How a run went: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub name: String,
    pub app: String,
    pub driver: String,
    pub seed: u64,
    pub version: String,
    pub local_sync: String,
    pub remote_sync: String,
    /// The topology's name.
    pub wan: String,
    /// What WAN bandwidths were multiplied by.
    pub bandwidth_scale: f64,
    pub data_centers: Vec<String>,
    /// What changed of which take part, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub membership: Vec<MembershipRecord>,
    pub servers: usize,
    pub workers: usize,
    pub parameters: usize,
    pub converged: bool,
    /// Why the run stopped: `objective`, `converged`, `clocks`, `seconds` or `diverged`.
    pub stopped_by: String,
    /// How training has diverged, and whose changes showed it. Left out where it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<String>,
    pub target_objective: Option<f64>,
    /// Driver seconds from the start to the first evaluation that met the target, or the stop rule.
    pub time_to_target_s: Option<f64>,
    pub clocks_to_target: Option<u64>,
    pub wan_bytes_to_target: Option<u64>,
    /// Driver seconds at the end of training, the drain not included.
    pub time_s: f64,
    pub clocks: u64,
    /// Clocks that each data center has finished, in the order of `data_centers`.
    #[serde(default)]
    pub data_center_clocks: Vec<u64>,
    /// The worst data center's copy over all data at the end, after the drain.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    pub metric: MetricRecord,
    pub wan_bytes: u64,
    pub wan_cost_usd: f64,
    /// What all servers and workers cost until training ended, at `cost.usd_per_machine_hour`.
    #[serde(default)]
    pub machine_cost_usd: f64,
    pub lan_bytes: u64,
    /// Of the parameter changes that could have crossed a link, the share that did, 0 to 1.
    pub significant_fraction: f64,
    pub blocked_s: BlockedSeconds,
    /// The largest difference of finished clocks seen between two data centers.
    pub clock_lag_max: u64,
    /// What ASP's brakes had to give up so that no wait was for ever.
    #[serde(default)]
    pub brakes: BrakeRecord,
    /// Left out where there was no guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardRecord>,
    /// Left out where servers keep no ledgers, which those of the real driver do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservation: Option<ConservationRecord>,
    /// Whether all copies were equal to the bit after the drain.
    pub copies_equal: bool,
    pub links: Vec<LinkRecord>,
    /// Real seconds that the run took on this machine.
    pub wall_s: f64,
}

impl Summary {
    /// Machines and WAN traffic together.
    pub fn cost_usd(&self) -> f64 {
        self.machine_cost_usd + self.wan_cost_usd
    }
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, shard, cut_frames: cut, applied_frames: applied } = self;
        write!(f, "{from} → {to}, shard {shard}: ")?;
        if cut == applied {
            write!(f, "the {cut} frames that were cut are not those that were applied")
        } else {
            write!(f, "{cut} frames were cut and {applied} applied")
        }
    }
}

impl BlockedSeconds {
    pub fn total(self) -> f64 {
        self.barrier + self.mirror_clock + self.bandwidth + self.local + self.partial_partition
    }
}

/// Who watches a run as it goes.
pub trait Observer {
    /// Called once per evaluation, in order.
    fn on_progress(&mut self, progress: &Progress);

    /// Called now and then between evaluations, with driver seconds, each data center's clock, or nothing where it takes no
    /// part, and WAN bytes sent so far.
    fn on_tick(&mut self, _time_s: f64, _clocks: &[Option<u64>], _wan_sent_bytes: &[u64]) {}

    /// Called where a worker that is lost is taken over by another, each called as its folder of certificates is.
    fn on_taken_over(&mut self, _lost: &str, _by: &str) {}

    /// Called where that worker no longer does the lost one's work.
    fn on_given_back(&mut self, _lost: &str, _by: &str) {}
}

/// JSON knows no infinity and no NaN, and a training run that diverges has both: they travel as `null`.
pub mod finite_or_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a finite value as itself, and any other as `null`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    /// Reads `null` as NaN.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diverged_figure_survives_json() {
        let metric = MetricRecord { name: "rmse".into(), value: f64::INFINITY };
        let text = serde_json::to_string(&metric).unwrap();
        assert_eq!(text, r#"{"name":"rmse","value":null}"#);
        assert!(serde_json::from_str::<MetricRecord>(&text).unwrap().value.is_nan());
    }
}
