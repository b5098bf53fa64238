//! The records of a run. Scripts rely on the names of their fields.

use std::collections::BTreeMap;
use std::fmt;

use gaia_core::coordinator::StopReason;
use gaia_core::sync::Axes;
use gaia_model::ModelFile;
use serde::{Deserialize, Serialize};

/// One evaluation: a line of `progress.jsonl`.
///
/// Times are those of the driver: virtual seconds in simulation, so that two simulated runs of one seed write the same
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Driver seconds since the start.
    pub time_s: f64,
    /// The slowest data center's clock.
    pub clock: u64,
    /// The objective, as [`Summary::objective`] is. Not finite (`null`) where it diverged.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// The mean of the objective over copies. Not finite (`null`) where one diverged.
    #[serde(with = "finite_or_null")]
    pub objective_mean: f64,
    /// The held-out metric, as [`Summary::metric`] is.
    #[serde(with = "finite_or_null")]
    pub metric: f64,
    /// Bytes that have entered WAN links so far, transport overhead included.
    pub wan_bytes: u64,
    /// The data centers whose copies were evaluated, in the order of the topology.
    pub data_centers: Vec<DcProgress>,
}

/// One data center at an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DcProgress {
    /// Its name in the topology.
    pub name: String,
    /// The last clock that all its workers have finished.
    pub clock: u64,
    /// The objective of this data center's copy, on the data that [`Summary::evaluated`] says.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// The held-out metric of this copy.
    #[serde(with = "finite_or_null")]
    pub metric: f64,
    /// Bytes sent to other data centers so far.
    pub wan_sent_bytes: u64,
    /// Worker-seconds that this data center's reads were held back so far.
    pub blocked_s: f64,
    /// The same, by cause and by whom they waited for.
    #[serde(default)]
    pub waited: Vec<WaitedRecord>,
    /// Bytes sent so far over each of its links that has carried any, by the data center at the other end. Empty over more than
    /// 64 data centers.
    #[serde(default)]
    pub sent_bytes: BTreeMap<String, u64>,
}

/// How long reads of a data center were held back for one cause and one data center.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitedRecord {
    /// The cause, named as the field of [`BlockedSeconds`].
    pub cause: String,
    /// The data center that they waited for. `None` where it is workers of their own.
    pub from: Option<String>,
    /// Worker-seconds so far.
    pub seconds: f64,
}

/// On what data the copy of each data center is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluatedOn {
    /// On that of its own data center.
    Home,
    /// On that of all data centers.
    #[default]
    Everywhere,
}

/// The evaluation of a data center's copy on its own data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HomeEvaluation {
    /// The data center.
    pub name: String,
    /// The objective. Not finite (`null`) where the run diverged.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// The held-out metric.
    #[serde(with = "finite_or_null")]
    pub metric: f64,
}

/// A named figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// The name of the metric, such as `rmse`.
    pub name: String,
    /// Its value. Not finite (`null`) where the run diverged.
    #[serde(with = "finite_or_null")]
    pub value: f64,
}

/// Worker-seconds that reads were held back, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockedSeconds {
    /// Waiting for announced parameters.
    pub barrier: f64,
    /// Waiting for a mirror too many clocks behind.
    pub mirror_clock: f64,
    /// Waiting for updates that BSP or SSP needs before the next clock.
    pub bandwidth: f64,
    /// Waiting for slower workers of the same data center.
    pub local: f64,
    /// Waiting for a data center with which no updates are exchanged, while a third one exchanges updates with both.
    #[serde(default)]
    pub partial_partition: f64,
}

impl BlockedSeconds {
    /// The worker-seconds of a cause, by the name of its field.
    ///
    /// # Panics
    /// Where no field has that name.
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

/// What ASP's two brakes stopped waiting for when their deadlines passed. All are zero in an ordinary run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrakeRecord {
    /// Announced parameters that did not arrive in time.
    pub announcements_expired: u64,
    /// How often a silent mirror, or one whose data center pauses, was excluded.
    pub mirrors_lost: u64,
}

/// A worker of which servers have limited updates (`[sync.outliers]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutlierRecord {
    /// The worker.
    pub worker: String,
    /// How many of its updates were clipped or refused, over the servers of its data center.
    pub updates: u64,
    /// The largest L2 norm above the limit, of the changes to one table on one server.
    pub norm_max: f64,
}

/// What the guard against skew measured and changed, over all data centers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardRecord {
    /// Copies that were measured in another data center.
    pub probes: u64,
    /// How many of those asked for more tightness.
    pub alarms: u64,
    /// The largest loss of a copy in another data center, as a share of the loss before training.
    #[serde(with = "finite_or_null")]
    pub loss_max: f64,
    /// The tightness at the end: 0 is as configured, and each step is a quarter of the one before.
    pub tightness: u8,
    /// Bytes of copies that crossed the WAN, transport overhead not included.
    pub bytes: u64,
}

/// Copies that parted under ASP without a guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartedRecord {
    /// The clock at which that was found.
    pub clock: u64,
    /// What copies lost on the examples of other data centers: their loss minus that of the copy at home there, as a share of the
    /// initial model's loss, in the mean of all copies.
    pub loss: f64,
    /// The line to add to `[sync.remote]`.
    pub add: String,
}

/// A data center that joined a run under way, or left it for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MembershipRecord {
    /// Its name in the topology.
    pub data_center: String,
    /// Whether it joined or left.
    pub change: MembershipChange,
    /// Driver seconds since the start.
    pub time_s: f64,
}

/// A change of which data centers are members of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MembershipChange {
    /// The data center became a member after the start.
    Joined,
    /// The data center was a member and cannot join again.
    Left,
}

/// A comparison of the data frames that both ends of every link have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConservationRecord {
    /// Directed links whose ends were compared, once for each shard.
    pub links: usize,
    /// Data frames that were applied.
    pub frames: u64,
    /// Links on which not every frame was applied, once and in order.
    pub broken: Vec<BrokenLink>,
}

/// A link whose ends have counted different frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenLink {
    /// The data center that sent.
    pub from: String,
    /// The data center that received.
    pub to: String,
    /// The shard whose servers the link joins.
    pub shard: u16,
    /// Data frames that the sender cut.
    pub cut_frames: u64,
    /// Data frames that the receiver applied.
    pub applied_frames: u64,
}

/// What one directed link carried, and what waited for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// The data center that sends.
    pub from: String,
    /// The data center that receives.
    pub to: String,
    /// The bandwidth, with the scale applied.
    pub bandwidth_bits_per_second: f64,
    /// The round-trip time in milliseconds.
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
    /// The share of the sender's own parameter changes that did not cross this link as updates of their own, because they
    /// were merged with others or held back; 0 to 1.
    pub held_back_fraction: f64,
    /// Share of the time the link was busy, 0 to 1.
    pub utilisation: f64,
    /// Worker-seconds the receiver waited for this sender, by cause.
    pub blocked_s: BlockedSeconds,
    /// US dollars for the bytes that entered the link.
    pub cost_usd: f64,
}

/// A predictor that has learnt nothing about examples, beside the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrivialRecord {
    /// What it predicts, such as `majority class`.
    pub name: String,
    /// Its objective, without regularisation.
    pub objective: f64,
    /// Its held-out metric.
    pub metric: f64,
    /// The share of its held-out error that the model removes: 1 of a perfect model, and negative of a worse one. Errors
    /// are what an accuracy lacks to 1, and metrics of which lower values are better.
    pub error_removed: f64,
}

/// The evaluation of the model before training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitialRecord {
    /// The objective. Not finite (`null`) where the initial values make it so.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// The held-out metric.
    #[serde(with = "finite_or_null")]
    pub metric: f64,
}

/// Where the final model is right and where it is wrong, over the held-out examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BreakdownRecord {
    /// Of examples with classes.
    Classes {
        /// The names of the classes.
        names: Vec<String>,
        /// For each class, how many of its examples the model gives each class. Empty where there are too many classes.
        counts: Vec<Vec<u64>>,
        /// The mean of −ln of the probability of an example's class.
        #[serde(with = "finite_or_null")]
        log_loss: f64,
        /// The area under the ROC curve: of the second of two classes, or the mean over more. `None` where it has no meaning.
        auc: Option<f64>,
    },
    /// Of ratings.
    Ratings {
        /// Groups of ratings, from the lowest to the highest.
        groups: Vec<RatingRecord>,
    },
}

/// The error of predictions for ratings around one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatingRecord {
    /// The middle of the ratings.
    pub rating: f64,
    /// How many held-out ratings there are.
    pub count: u64,
    /// The root mean square error.
    #[serde(with = "finite_or_null")]
    pub rmse: f64,
    /// The mean of prediction minus rating.
    #[serde(with = "finite_or_null")]
    pub bias: f64,
}

/// The results of a run: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The name of the run.
    pub name: String,
    /// The kind of application.
    pub app: String,
    /// What the application has trained on: its files, or `synthetic data`, with sizes. Empty in runs of older versions.
    #[serde(default)]
    pub trained_on: String,
    /// A digest of its examples, those that are held out among them, and of which worker has which. `None` of scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_digest: Option<String>,
    /// The name of the driver.
    pub driver: String,
    /// The seed of every random number.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The synchronisation model within data centers.
    pub local_sync: String,
    /// The synchronisation model between data centers.
    pub remote_sync: String,
    /// Where that model stands on the axes of the taxonomy. `None` in the files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axes: Option<Axes>,
    /// Why the run has chosen it. `None` where the run file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_sync_reason: Option<String>,
    /// The topology's name.
    pub wan: String,
    /// The factor applied to WAN bandwidths.
    pub bandwidth_scale: f64,
    /// The names of all data centers, in the order of the topology.
    pub data_centers: Vec<String>,
    /// The data centers that joined or left during the run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub membership: Vec<MembershipRecord>,
    /// Parameter servers of all data centers.
    pub servers: usize,
    /// Workers of all data centers.
    pub workers: usize,
    /// Parameters of the model.
    pub parameters: usize,
    /// Whether the run met its target objective and the model after the drain holds it, or its objective settled.
    pub converged: bool,
    /// Why the run stopped: `objective`, `converged`, `clocks`, `seconds`, `interrupted`, `ended` or `diverged`.
    pub stopped_by: String,
    /// How training has diverged, and whose changes showed it. Left out where it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<String>,
    /// The objective that ends the run. `None` where it has none.
    pub target_objective: Option<f64>,
    /// Driver seconds from the start to the first evaluation that met the target, or the stop rule. `None` where none did, or
    /// where the model after the drain does not hold it.
    pub time_to_target_s: Option<f64>,
    /// The clock of that evaluation.
    pub clocks_to_target: Option<u64>,
    /// WAN bytes sent until then.
    pub wan_bytes_to_target: Option<u64>,
    /// Driver seconds at the end of training, the drain not included.
    pub time_s: f64,
    /// The clock that every data center has finished at the end of training.
    pub clocks: u64,
    /// Clocks that each data center has finished, in the order of `data_centers`.
    #[serde(default)]
    pub data_center_clocks: Vec<u64>,
    /// On what data copies were evaluated.
    #[serde(default)]
    pub evaluated: EvaluatedOn,
    /// The objective after the drain: of the worst copy over all data, or over all data with each part judged by the copy
    /// of its data center. Not finite (`null`) where it diverged.
    #[serde(with = "finite_or_null")]
    pub objective: f64,
    /// The held-out metric of the same.
    pub metric: MetricRecord,
    /// The initial model on all data, where every curve begins. Left out where it was not evaluated: by the real driver, in
    /// which no process has all data, and of sparse tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<InitialRecord>,
    /// The predictor that the model must beat to have learnt anything. Left out where the application has none, and where
    /// the process that writes this has not all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trivial: Option<TrivialRecord>,
    /// Where the model is right and where it is wrong. Left out where the application has no such view, and where the process
    /// that writes this has not all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakdown: Option<BreakdownRecord>,
    /// The evaluation of each data center's copy on its own data, in the order of the topology. Empty where copies were
    /// evaluated on all data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_home: Vec<HomeEvaluation>,
    /// Bytes that entered WAN links, transport overhead included.
    pub wan_bytes: u64,
    /// US dollars for those bytes.
    pub wan_cost_usd: f64,
    /// US dollars for all servers and workers until training ended, at `cost.usd_per_machine_hour`.
    #[serde(default)]
    pub machine_cost_usd: f64,
    /// Bytes between workers and servers of one data center.
    pub lan_bytes: u64,
    /// The share of parameter changes that crossed a link, of those that could; 0 to 1.
    pub significant_fraction: f64,
    /// Worker-seconds that reads were held back, by cause.
    pub blocked_s: BlockedSeconds,
    /// The largest difference of finished clocks seen between two data centers.
    pub clock_lag_max: u64,
    /// What ASP's brakes stopped waiting for.
    #[serde(default)]
    pub brakes: BrakeRecord,
    /// Workers of which updates were above the limits. Empty without limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<OutlierRecord>,
    /// `None` without a guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardRecord>,
    /// How copies parted. `None` where they did not, where there is a guard, and where nobody looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parted: Option<PartedRecord>,
    /// `None` where servers keep no ledgers. Those of the real driver keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservation: Option<ConservationRecord>,
    /// Whether all copies were equal to the bit after the drain.
    pub copies_equal: bool,
    /// Every directed WAN link. Over more than 64 data centers, those that carried updates or that somebody waited for.
    pub links: Vec<LinkRecord>,
    /// Real seconds that the run took on this machine.
    pub wall_s: f64,
}

impl Summary {
    /// US dollars for machines and WAN traffic together.
    pub fn cost_usd(&self) -> f64 {
        self.machine_cost_usd + self.wan_cost_usd
    }

    /// Whether this is why the run has stopped. `stopped_by` is text, since a run under way has no reason yet.
    pub fn was_stopped_by(&self, reason: StopReason) -> bool {
        self.stopped_by == reason.name()
    }
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, shard, cut_frames: cut, applied_frames: applied } = self;
        write!(f, "{from} → {to}, shard {shard}: ")?;
        if cut == applied {
            write!(f, "{cut} frames were sent and as many applied, but not the same ones")
        } else {
            write!(f, "{cut} frames were sent and {applied} applied")
        }
    }
}

impl BlockedSeconds {
    /// The worker-seconds of all causes together.
    pub fn total(self) -> f64 {
        self.barrier + self.mirror_clock + self.bandwidth + self.local + self.partial_partition
    }
}

/// The model that a run has reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSnapshot {
    /// The clock of its evaluation.
    pub clock: u64,
    /// Whether its metric is the best of all snapshots so far.
    pub is_best: bool,
    /// Its files in the directory of the run: one, or those of the data centers that keep it.
    pub files: Vec<ModelFile>,
}

/// Receives the progress of a run.
pub trait Observer {
    /// An evaluation is complete. Called in the order of evaluations.
    fn on_progress(&mut self, progress: &Progress);

    /// The model that has just been evaluated, if it is to be written. Called after [`Self::on_progress`].
    fn on_model(&mut self, _snapshot: &ModelSnapshot) {}

    /// Called between evaluations, at no fixed interval.
    ///
    /// `time_s` is driver seconds. `clocks` and `wan_sent_bytes` have one entry for each data center: its clock, or `None`
    /// where it is no member, and the WAN bytes that it has sent so far.
    fn on_tick(&mut self, _time_s: f64, _clocks: &[Option<u64>], _wan_sent_bytes: &[u64]) {}

    /// The worker `by` does the work of the lost worker `lost`. Both are named like their folders of certificates, such as
    /// `tokyo/worker-0`.
    fn on_taken_over(&mut self, _lost: &str, _by: &str) {}

    /// The worker `by` no longer does the work of `lost`.
    fn on_given_back(&mut self, _lost: &str, _by: &str) {}
}

/// Watches nothing: for a run whose outcome is enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn on_progress(&mut self, _: &Progress) {}
}

/// Serde for figures of a run that may diverge. JSON has no infinity and no NaN, so both are written as `null`.
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
