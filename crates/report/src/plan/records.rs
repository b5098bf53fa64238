//! The records of a plan. Scripts rely on the names of their fields.

use serde::{Deserialize, Serialize};

use gaia_telemetry::finite_or_null;

/// What `gaia plan` has found: `plan.json`.
///
/// Nothing in it depends on the machine that made it, or on its number of processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    /// The name of the run.
    pub name: String,
    /// The kind of application.
    pub app: String,
    /// The topology's name.
    pub wan: String,
    /// The seed of every random number.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// The number of data centers.
    pub data_centers: usize,
    /// Workers of all data centers.
    pub workers: usize,
    /// Parameters of the model.
    pub parameters: usize,
    /// The share of the parameters that the workers of one data center change in a clock, 0 to 1.
    pub changed_share: f64,
    /// Seconds that a worker computes in a clock.
    pub compute_s: f64,
    /// The clocks for which each candidate was simulated, unless it reached the target or the end of its seconds before.
    pub budget_clocks: u64,
    /// The driver seconds for which each candidate was simulated at most: `stop.seconds` of the run file. `None` without.
    pub budget_s: Option<f64>,
    /// The objective that all candidates are compared at. Not a number (`null`) where no candidate trained.
    #[serde(with = "finite_or_null")]
    pub target_objective: f64,
    /// Where the target comes from.
    pub target_from: TargetFrom,
    /// One for each candidate, the run file's own first.
    pub rows: Vec<PlanRow>,
    /// The candidate to choose. `None` where none has trained.
    pub choice: Option<Choice>,
    /// How a data center of the run scales.
    pub scaling: ScalingTable,
}

/// Where a target comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetFrom {
    /// The flag `--target`.
    Flag,
    /// `stop.objective` of the run file.
    RunFile,
    /// What the best candidate holds at the end of its simulation.
    BestCandidate,
}

/// A candidate, and what it is predicted to cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    /// The name of the candidate.
    pub candidate: String,
    /// Whether it is what the run file has.
    pub is_own: bool,
    /// Its `[sync.remote]`, one `key = value` each. Empty of the run file's own.
    pub settings: Vec<String>,
    /// How sure the figures are.
    pub verdict: Verdict,
    /// Driver seconds until the target. `None` where it is not reached.
    pub time_to_target_s: Option<f64>,
    /// Clocks until the target.
    pub clocks_to_target: Option<u64>,
    /// WAN bytes of all data centers until the target.
    pub wan_bytes_to_target: Option<u64>,
    /// US dollars until the target, for WAN traffic and machines.
    pub cost_usd: Option<f64>,
    /// Bytes of parameters that the largest process holds, its data not included.
    pub memory_bytes: u64,
    /// The clocks that were simulated.
    pub simulated_clocks: u64,
    /// Driver seconds of the simulation.
    pub simulated_s: f64,
    /// WAN bytes of the simulation.
    pub simulated_wan_bytes: u64,
    /// The mean objective of the last three evaluations, or that of the model after the drain where it is much worse. Not finite
    /// (`null`) where it diverged.
    #[serde(with = "finite_or_null")]
    pub held_objective: f64,
}

/// How sure the figures of a candidate are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "because")]
pub enum Verdict {
    /// The simulation reached the target.
    Reached,
    /// The simulation ended before the target. The figures continue the course of its objective.
    Extrapolated,
    /// The target was not reached, and the course of the objective does not say when it would be.
    NotReached,
    /// Training diverged.
    Diverged,
    /// The run file cannot have this model, for the reason given.
    Impossible(String),
}

/// The candidate to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The name of the candidate.
    pub candidate: String,
    /// Why, in one or two sentences.
    pub reason: String,
    /// Its `[sync.remote]` block.
    pub toml: String,
}

/// How the time of a clock in one data center follows from its numbers of workers and servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingTable {
    /// Seconds that a worker computes in a clock.
    pub compute_s: f64,
    /// Bytes of the model.
    pub model_bytes: u64,
    /// Bytes that a worker reads in a clock.
    pub read_bytes: u64,
    /// Bytes that a worker sends in a clock.
    pub sent_bytes: u64,
    /// Bits a second of each machine's card.
    pub lan_bits_per_second: f64,
    /// The servers of a data center in the run file.
    pub servers: usize,
    /// The largest number of workers whose communication takes no longer than their computation, with the run file's servers.
    /// `None` where already one worker communicates longer.
    pub network_bound_beyond: Option<usize>,
    /// One for each number of workers.
    pub rows: Vec<ScalingRow>,
}

/// A number of workers in one data center.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingRow {
    /// The number of workers.
    pub workers: usize,
    /// Seconds of a clock with the run file's servers.
    pub clock_s: f64,
    /// Examples a second, relative to one worker without a network.
    pub speedup: f64,
    /// The smallest number of servers with which communication takes no longer than computation. `None` where no number does.
    pub hiding_servers: Option<usize>,
    /// Seconds of a clock with so many servers.
    pub hiding_clock_s: Option<f64>,
}
