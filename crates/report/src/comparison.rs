//! Runs of one model side by side: what each remote model costs on each WAN, in time, bytes and dollars.

use serde::{Deserialize, Serialize};

use gaia_core::sync::RemoteSync;
use gaia_telemetry::{Progress, Summary};

/// Runs that differ in their WAN and their remote sync.
///
/// Runs on `lan` come first, then the other WANs in the order given; within a WAN BSP leads, as what the others
/// are measured by, then SSP, TAP and ASP.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The objective that ends every run, where all of them agree on it.
    pub target_objective: Option<f64>,
    pub runs: Vec<ComparedRun>,
}

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRun {
    pub row: CompareRow,
    pub progress: Vec<Progress>,
}

/// A summary with what a comparison is made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    #[serde(flatten)]
    pub summary: Summary,
    /// BSP's time to target on the same WAN over this run's. `None` where either did not get there.
    pub speedup_vs_bsp: Option<f64>,
    /// This run's time to target over that of BSP on `lan`. `None` where either did not get there.
    pub times_lan: Option<f64>,
    /// Machines, where the run file says what they cost, and WAN traffic.
    #[serde(default)]
    pub cost_usd: f64,
}

/// `compare.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonFile {
    pub target_objective: Option<f64>,
    /// How the target came about, in words.
    pub definition: String,
    pub rows: Vec<CompareRow>,
}

impl Comparison {
    pub fn new(runs: Vec<(Summary, Vec<Progress>)>) -> Self {
        let wans = wans(&runs);
        let place = |summary: &Summary| {
            let wan = wans.iter().position(|wan| *wan == summary.wan);
            let remote = RemoteSync::NAMES.iter().position(|name| *name == summary.remote_sync);
            (wan, remote.unwrap_or(RemoteSync::NAMES.len()))
        };
        let mut runs = runs;
        runs.sort_by_key(|(summary, _)| place(summary));

        let lan = time_of_bsp(&runs, LAN);
        let rows: Vec<CompareRow> = runs
            .iter()
            .map(|(summary, _)| {
                let time = summary.time_to_target_s;
                CompareRow {
                    summary: summary.clone(),
                    speedup_vs_bsp: ratio(time_of_bsp(&runs, &summary.wan), time),
                    times_lan: ratio(time, lan),
                    cost_usd: summary.cost_usd(),
                }
            })
            .collect();
        let target_objective = common_target(&runs);
        let progress = runs.into_iter().map(|(_, progress)| progress);
        let runs = rows
            .into_iter()
            .zip(progress)
            .map(|(row, progress)| ComparedRun { row, progress })
            .collect();
        Self { target_objective, runs }
    }

    /// What `compare.json` holds.
    pub fn file(&self) -> ComparisonFile {
        ComparisonFile {
            target_objective: self.target_objective,
            definition: self.definition(),
            rows: self.runs.iter().map(|run| run.row.clone()).collect(),
        }
    }

    /// The WANs, in the order of the rows.
    pub fn wans(&self) -> Vec<&str> {
        let mut wans: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !wans.contains(&run.row.summary.wan.as_str()) {
                wans.push(&run.row.summary.wan);
            }
        }
        wans
    }

    /// The runs on one WAN.
    pub fn on<'a>(&'a self, wan: &'a str) -> impl Iterator<Item = &'a ComparedRun> + 'a {
        self.runs.iter().filter(move |run| run.row.summary.wan == wan)
    }

    /// Whether machines have a price in any run.
    pub fn has_machine_costs(&self) -> bool {
        self.runs.iter().any(|run| run.row.summary.machine_cost_usd > 0.0)
    }

    /// BSP on the LAN: the run that the others are multiples of.
    pub fn lan_baseline(&self) -> Option<&ComparedRun> {
        self.on(LAN).find(|run| run.row.summary.remote_sync == BSP)
    }

    /// Where the target comes from, in a sentence without a full stop.
    pub fn definition(&self) -> String {
        let from_lan =
            self.lan_baseline().is_some_and(|run| run.row.summary.stopped_by == "converged");
        match (self.target_objective, from_lan) {
            (Some(_), true) => "the objective that BSP on the LAN had when it converged".into(),
            (Some(_), false) => "the objective that the run file sets".into(),
            (None, _) => "each run's own stop rule".into(),
        }
    }
}

/// `lan` first, then each WAN where it first appears.
fn wans(runs: &[(Summary, Vec<Progress>)]) -> Vec<String> {
    let mut wans: Vec<String> = Vec::new();
    for (summary, _) in runs {
        if !wans.contains(&summary.wan) {
            wans.push(summary.wan.clone());
        }
    }
    wans.sort_by_key(|wan| wan != LAN);
    wans
}

fn time_of_bsp(runs: &[(Summary, Vec<Progress>)], wan: &str) -> Option<f64> {
    let (summary, _) =
        runs.iter().find(|(summary, _)| summary.wan == wan && summary.remote_sync == BSP)?;
    summary.time_to_target_s
}

fn ratio(numerator: Option<f64>, denominator: Option<f64>) -> Option<f64> {
    let (numerator, denominator) = (numerator?, denominator?);
    (denominator > 0.0).then(|| numerator / denominator)
}

/// The target of all runs that have one, where it is the same.
fn common_target(runs: &[(Summary, Vec<Progress>)]) -> Option<f64> {
    let mut targets = runs.iter().filter_map(|(summary, _)| summary.target_objective);
    let first = targets.next()?;
    targets.all(|target| target == first).then_some(first)
}

/// The name of the topology that joins all machines in one data center.
pub(super) const LAN: &str = "lan";
const BSP: &str = "bsp";
