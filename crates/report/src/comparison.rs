//! Runs of one application side by side: what each remote model costs on each WAN, in time, bytes and dollars.

use std::collections::BTreeMap;

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
    /// The objective that ends every run. `None` where a run has none, or runs have different ones.
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
    /// BSP's time to target on the same WAN divided by this run's. `None` where either did not reach the target, and where
    /// the runs of the comparison have no common target or do not train the same.
    pub speedup_vs_bsp: Option<f64>,
    /// This run's time to target divided by that of BSP on `lan`. `None` as in [`Self::speedup_vs_bsp`].
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

        let target_objective = common_target(&runs);
        let summaries = runs.iter().map(|(summary, _)| summary);
        let has_ratios = target_objective.is_some()
            && is_one_training(summaries.clone())
            && is_one_machinery(summaries);
        let lan = runs.iter().find(|(summary, _)| is_bsp_on(summary, LAN));
        let lan = lan.map(|(summary, _)| (summary.time_to_target_s, summary.workers));
        let rows: Vec<CompareRow> = runs
            .iter()
            .map(|(summary, _)| {
                let time = summary.time_to_target_s;
                CompareRow {
                    summary: summary.clone(),
                    speedup_vs_bsp: ratio(time_of_bsp(&runs, &summary.wan), time)
                        .filter(|_| has_ratios),
                    times_lan: lan
                        .filter(|(_, workers)| has_ratios && *workers == summary.workers)
                        .and_then(|(lan, _)| ratio(time, lan)),
                    cost_usd: summary.cost_usd(),
                }
            })
            .collect();
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

    /// Why the times of the runs are not compared, in a sentence. `None` where they are, and of a single run.
    pub(crate) fn why_not_compared(&self) -> Option<&'static str> {
        if self.runs.len() < 2 {
            return None;
        }
        if !is_one_training(self.runs.iter().map(|run| &run.row.summary)) {
            return Some(OTHER_TRAINING);
        }
        if !is_one_machinery(self.runs.iter().map(|run| &run.row.summary)) {
            return Some(OTHER_MACHINERY);
        }
        self.target_objective.is_none().then_some(NO_COMMON_TARGET)
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
        // BSP on the LAN may have set it, and not be among these runs.
        let Some(lan) = self.lan_baseline() else {
            return "the objective at which each run stops".into();
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
    let Some(baseline) = runs.iter_mut().find(is_baseline) else { return };
    if !has_set(baseline, objective) {
        return;
    }
    let (summary, progress) = baseline;

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

/// The target that every run has. `None` where one has another, or none: its time is then that of another event. BSP on the
/// LAN may have set the target of the others, whatever has ended it.
fn common_target(runs: &[(Summary, Vec<Progress>)]) -> Option<f64> {
    let is_other = |(summary, _): &&(Summary, Vec<Progress>)| !is_bsp_on(summary, LAN);
    let (first, _) = runs.iter().find(is_other).or_else(|| runs.first())?;
    let target = first.target_objective?;
    let has_it = |run: &(Summary, Vec<Progress>)| {
        run.0.target_objective == Some(target) || has_set(run, target)
    };
    runs.iter().all(has_it).then_some(target)
}

/// Whether the run is BSP on the LAN, and what it held at its end is the target.
fn has_set((summary, progress): &(Summary, Vec<Progress>), target: f64) -> bool {
    is_bsp_on(summary, LAN) && held_at_the_end(progress).map(target_of) == Some(target)
}

/// Whether all runs train the same model on the same data. Runs of older versions do not say on what data.
fn is_one_training<'a>(summaries: impl Iterator<Item = &'a Summary> + Clone) -> bool {
    let mut apps = summaries.clone().map(|summary| summary.app.as_str());
    let trained_on = summaries.clone().map(|summary| summary.trained_on.as_str());
    let mut trained_on = trained_on.filter(|described| !described.is_empty());
    let (app, described) = (apps.next(), trained_on.next());
    apps.all(|other| Some(other) == app)
        && trained_on.all(|other| Some(other) == described)
        && has_one_digest_each(summaries)
}

/// Whether all runs have the same driver, and those on a WAN the same bandwidths.
fn is_one_machinery<'a>(summaries: impl Iterator<Item = &'a Summary> + Clone) -> bool {
    let mut drivers = summaries.clone().map(|summary| summary.driver.as_str());
    let driver = drivers.next();
    let mut scales = BTreeMap::new();
    drivers.all(|other| Some(other) == driver)
        && summaries.into_iter().all(|summary| {
            let scale = summary.bandwidth_scale;
            *scales.entry(summary.wan.as_str()).or_insert(scale) == scale
        })
}

/// Whether runs that divide their data alike have the same data.
fn has_one_digest_each<'a>(summaries: impl Iterator<Item = &'a Summary>) -> bool {
    let mut digests = BTreeMap::new();
    summaries.filter_map(|summary| Some((summary, summary.data_digest.as_deref()?))).all(
        |(summary, digest)| {
            let division = (summary.seed, summary.workers, &summary.data_centers);
            *digests.entry(division).or_insert(digest) == digest
        },
    )
}

/// The name of the topology that joins all machines in one data center.
pub(super) const LAN: &str = "lan";
const BSP: &str = "bsp";
const HELD_MAX: u64 = 3;
const NO_COMMON_TARGET: &str =
    "The runs have no common target objective: their times are not compared.";
const OTHER_MACHINERY: &str =
    "The runs have different drivers or bandwidths of the same WAN: their times are not compared.";
const OTHER_TRAINING: &str =
    "The runs do not train the same model on the same data: their times are not compared.";
