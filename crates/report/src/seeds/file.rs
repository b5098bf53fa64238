//! The contents of `compare.json` over several seeds.

use serde::{Deserialize, Serialize};

use super::{SeedCell, SeededComparison, Spread};
use crate::comparison::CompareRow;
use crate::slowdown::Slowdown;

/// Every run, and the spread of its figures over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedsFile {
    /// The seeds, in ascending order.
    pub seeds: Vec<u64>,
    /// The objective that ends the runs. `None` where there is none, or seeds have different ones.
    pub target_objective: Option<f64>,
    /// The objectives that end the runs, over the seeds.
    pub target_objectives: Option<Spread>,
    /// Where the targets come from.
    pub definition: String,
    /// The bandwidth scale that was fitted before the runs, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// One for each model on each WAN, in the order of a comparison.
    pub spreads: Vec<SpreadRow>,
    /// One for each run, seed by seed; ratios are those to runs of the same seed.
    pub rows: Vec<CompareRow>,
}

/// The figures of one model on one WAN over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpreadRow {
    /// The WAN.
    pub wan: String,
    /// The remote model.
    pub remote_sync: String,
    /// How many runs have ended.
    pub runs: usize,
    /// How many of them met the target.
    pub reached: usize,
    /// Seconds until the target was met.
    pub time_to_target_s: Spread,
    /// Clocks until the target was met.
    pub clocks_to_target: Spread,
    /// Bytes that had entered WAN links when the target was met.
    pub wan_bytes_to_target: Spread,
    /// As in [`CompareRow::speedup_vs_bsp`], over the seeds that have it.
    pub speedup_vs_bsp: Option<Spread>,
    /// As in [`CompareRow::times_lan`], over the seeds that have it.
    pub times_lan: Option<Spread>,
    /// The objective of the worst copy at the end.
    pub objective: Spread,
    /// The held-out metric at the end.
    pub metric: Spread,
    /// Bytes that entered WAN links.
    pub wan_bytes: Spread,
    /// US dollars, as in [`CompareRow::cost_usd`].
    pub cost_usd: Spread,
    /// Worker-seconds that reads were held back.
    pub blocked_s: Spread,
}

impl SeededComparison {
    /// The contents of `compare.json`.
    pub fn file(&self) -> SeedsFile {
        let target_objectives = self.targets();
        let common = target_objectives.filter(Spread::is_one_value);
        let runs = self.comparisons().iter().flat_map(|(_, comparison)| &comparison.runs);
        SeedsFile {
            seeds: self.seeds(),
            target_objective: common.and_then(|target| target.median),
            target_objectives,
            definition: self.definition(),
            slowdown: self.slowdown(),
            spreads: self.cells().iter().map(SpreadRow::of).collect(),
            rows: runs.map(|run| run.row.clone()).collect(),
        }
    }
}

impl SpreadRow {
    pub(crate) fn of(cell: &SeedCell<'_>) -> Self {
        Self {
            wan: cell.wan().into(),
            remote_sync: cell.remote().into(),
            runs: cell.runs.len(),
            reached: cell.reached(),
            time_to_target_s: cell.spread_to_target(|summary| summary.time_to_target_s),
            clocks_to_target: cell
                .spread_to_target(|summary| summary.clocks_to_target.map(|clocks| clocks as f64)),
            wan_bytes_to_target: cell
                .spread_to_target(|summary| summary.wan_bytes_to_target.map(|bytes| bytes as f64)),
            speedup_vs_bsp: cell.spread_of_ratios(|row| row.speedup_vs_bsp),
            times_lan: cell.spread_of_ratios(|row| row.times_lan),
            objective: cell.spread(|row| row.summary.objective),
            metric: cell.spread(|row| row.summary.metric.value),
            wan_bytes: cell.spread(|row| row.summary.wan_bytes as f64),
            cost_usd: cell.spread(|row| row.cost_usd),
            blocked_s: cell.spread(|row| row.summary.blocked_s.total()),
        }
    }
}
