//! Runs of one application side by side: what each remote model costs on each WAN, in time, bytes and dollars.

use serde::{Deserialize, Serialize};

use crate::slowdown::Slowdown;
use gaia_core::coordinator::{Held, StopRules, target_of};
use gaia_core::sync::RemoteSync;
use gaia_telemetry::{Progress, Summary};

/// Runs that differ in their WAN and their remote sync.
///
/// Runs on `lan` come first, then the other WANs in the order given. Within a WAN BSP comes first, since the others
/// are measured against it, then the other models in the order of [`RemoteSync::VARIANTS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The objective that ends every run. `None` where there is none, or runs have different ones.
    pub target_objective: Option<f64>,
    /// The bandwidth scale that was fitted before the runs, if one was.
    pub slowdown: Option<Slowdown>,
    /// The runs, in the order described above.
    pub runs: Vec<ComparedRun>,
}

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRun {
    /// What the run came to, and its ratios to other runs.
    pub row: CompareRow,
    /// Its evaluations, in order.
    pub progress: Vec<Progress>,
}

/// A summary with its ratios to other runs of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// What the run came to.
    #[serde(flatten)]
    pub summary: Summary,
    /// BSP's time to target on the same WAN divided by this run's. `None` where either did not reach the target.
    pub speedup_vs_bsp: Option<f64>,
    /// This run's time to target divided by that of BSP on `lan`. `None` where either did not reach the target.
    pub times_lan: Option<f64>,
    /// US dollars for WAN traffic, and for machines where the run file gives their price.
    #[serde(default)]
    pub cost_usd: f64,
}

/// The contents of `compare.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonFile {
    /// As in [`Comparison::target_objective`].
    pub target_objective: Option<f64>,
    /// Where the target comes from, as [`Comparison::definition`] words it.
    pub definition: String,
    /// As in [`Comparison::slowdown`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// One for each run, in the comparison's order.
    pub rows: Vec<CompareRow>,
}

impl Comparison {
    /// Sorts runs and computes their ratios. Each run is given with its evaluations.
    pub fn new(runs: Vec<(Summary, Vec<Progress>)>) -> Self {
        let wans = wans(&runs);
        let place = |summary: &Summary| {
            let wan = wans.iter().position(|wan| *wan == summary.wan);
            let remote = RemoteSync::VARIANTS.iter().position(|name| *name == summary.remote_sync);
            (wan, remote.unwrap_or(RemoteSync::VARIANTS.len()))
        };

        let mut runs = runs;
        judge_baseline(&mut runs);
        runs.sort_by_key(|(summary, _)| place(summary));

        let lan = runs.iter().find(|(summary, _)| is_bsp_on(summary, LAN));
        let lan = lan.map(|(summary, _)| (summary.time_to_target_s, summary.workers));
        let rows: Vec<CompareRow> = runs
            .iter()
            .map(|(summary, _)| {
                let time = summary.time_to_target_s;
                CompareRow {
                    summary: summary.clone(),
                    speedup_vs_bsp: ratio(time_of_bsp(&runs, &summary.wan), time),
                    times_lan: lan
                        .filter(|(_, workers)| *workers == summary.workers)
                        .and_then(|(lan, _)| ratio(time, lan)),
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

        Self { target_objective, slowdown: None, runs }
    }

    /// The contents of `compare.json`.
    pub fn file(&self) -> ComparisonFile {
        ComparisonFile {
            target_objective: self.target_objective,
            definition: self.definition(),
            slowdown: self.slowdown,
            rows: self.runs.iter().map(|run| run.row.clone()).collect(),
        }
    }

    /// The names of the WANs, each once, in the order of the runs.
    pub fn wans(&self) -> Vec<&str> {
        let mut wans: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !wans.contains(&run.row.summary.wan.as_str()) {
                wans.push(&run.row.summary.wan);
            }
        }
        wans
    }

    /// The runs on one WAN, in the comparison's order.
    pub fn on<'a>(&'a self, wan: &'a str) -> impl Iterator<Item = &'a ComparedRun> + 'a {
        self.runs.iter().filter(move |run| run.row.summary.wan == wan)
    }

    /// Whether any run has machines with a price.
    pub fn has_machine_costs(&self) -> bool {
        self.runs.iter().any(|run| run.row.summary.machine_cost_usd > 0.0)
    }

    /// The longest time to the target, in seconds; 0 where no run has reached it.
    pub(crate) fn longest_s(&self) -> f64 {
        let times = self.runs.iter().filter_map(|run| run.row.summary.time_to_target_s);
        times.fold(0.0, f64::max)
    }

    /// BSP on the LAN, which [`CompareRow::times_lan`] is relative to. `None` where it was not run.
    pub fn lan_baseline(&self) -> Option<&ComparedRun> {
        self.on(LAN).find(|run| run.row.summary.remote_sync == BSP)
    }

    /// Where the target comes from, in a sentence without a full stop.
    pub fn definition(&self) -> String {
        let Some(target) = self.target_objective else { return "each run's own stop rule".into() };
        let Some(lan) = self.lan_baseline() else {
            return "the objective that the run file sets".into();
        };
        if held_at_the_end(&lan.progress).map(target_of) != Some(target) {
            return "the objective that the run file sets".into();
        }
        match lan.row.summary.stopped_by.as_str() {
            "converged" => "what BSP on the LAN held when it had settled".into(),
            "objective" => "what BSP on the LAN held at the objective of the run file".into(),
            _ => "what BSP on the LAN held at its end, not settled".into(),
        }
    }
}

/// The evaluations whose mean must meet the target of a comparison, so that one low value among noise does not: three, or as
/// many as BSP on the LAN has.
pub fn held(baseline: &[Progress]) -> Held {
    Held(HELD_MAX.min(baseline.len() as u64))
}

/// The mean of the last evaluations of BSP on the LAN. `None` without an evaluation.
pub fn held_at_the_end(baseline: &[Progress]) -> Option<f64> {
    held(baseline).mean(baseline.iter().rev().map(|progress| progress.objective))
}

/// Says when BSP on the LAN, which has set the target, met it first: by the rule that holds for all other runs.
fn judge_baseline(runs: &mut [(Summary, Vec<Progress>)]) {
    let Some(objective) = common_target(runs) else { return };
    let is_baseline = |(summary, _): &&mut (Summary, Vec<Progress>)| is_bsp_on(summary, LAN);
    let Some((summary, progress)) = runs.iter_mut().find(is_baseline) else { return };
    if held_at_the_end(progress).map(target_of) != Some(objective) {
        return;
    }

    let rules =
        StopRules { objective: Some(objective), held: held(progress), ..StopRules::default() };
    let objectives: Vec<f64> = progress.iter().map(|progress| progress.objective).collect();
    let first = rules.first_reached(&objectives).map(|at| &progress[at]);
    summary.time_to_target_s = first.map(|at| at.time_s);
    summary.clocks_to_target = first.map(|at| at.clock);
    summary.wan_bytes_to_target = first.map(|at| at.wan_bytes);
}

/// `lan` first, then the other WANs in the order of their first runs.
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
    let (summary, _) = runs.iter().find(|(summary, _)| is_bsp_on(summary, wan))?;
    summary.time_to_target_s
}

fn is_bsp_on(summary: &Summary, wan: &str) -> bool {
    summary.wan == wan && summary.remote_sync == BSP
}

fn ratio(numerator: Option<f64>, denominator: Option<f64>) -> Option<f64> {
    let (numerator, denominator) = (numerator?, denominator?);
    (denominator > 0.0).then(|| numerator / denominator)
}

/// The target of the runs that have one. `None` where they differ. BSP on the LAN sets the target of the others, whatever
/// objective has ended it.
fn common_target(runs: &[(Summary, Vec<Progress>)]) -> Option<f64> {
    let is_other = |(summary, _): &&(Summary, Vec<Progress>)| !is_bsp_on(summary, LAN);
    let others =
        runs.iter().filter(is_other).any(|(summary, _)| summary.target_objective.is_some());
    let runs = runs.iter().filter(|run| !others || is_other(run));
    let mut targets = runs.filter_map(|(summary, _)| summary.target_objective);
    let first = targets.next()?;
    targets.all(|target| target == first).then_some(first)
}

/// The name of the topology that joins all machines in one data center.
pub(super) const LAN: &str = "lan";
const BSP: &str = "bsp";
const HELD_MAX: u64 = 3;
