//! Runs that were repeated with several seeds: which figures depend on chance, and how much.
//!
//! A seed decides the initial model, the generated data and how data is split, so each seed is an experiment of its
//! own, with a target of its own. Its runs are compared with each other before anything is said over all seeds: a
//! ratio is one between runs of one seed. This room knows neither the terminal nor a page.

mod band;
mod cell;
mod file;
mod spread;
mod verdicts;

use std::cmp::Reverse;

pub(crate) use band::band;
pub(crate) use cell::{SeedCell, metric};
pub use file::{SeedsFile, SpreadRow};
pub use spread::Spread;
pub(crate) use verdicts::seed_verdicts;

use crate::comparison::{ComparedRun, Comparison};
use crate::slowdown::Slowdown;
use gaia_core::coordinator::StopReason;

/// The same runs with several seeds: a comparison for each seed, in the order of the seeds.
///
/// Runs that were interrupted are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededComparison {
    comparisons: Vec<(u64, Comparison)>,
}

impl SeededComparison {
    /// The runs of each seed side by side. A seed without a run that has ended is left out.
    pub fn new(comparisons: Vec<(u64, Comparison)>) -> Self {
        let ended = |(seed, mut comparison): (u64, Comparison)| {
            comparison.runs.retain(|run| !run.row.summary.was_stopped_by(StopReason::Interrupted));
            (!comparison.runs.is_empty()).then_some((seed, comparison))
        };
        let mut comparisons: Vec<_> = comparisons.into_iter().filter_map(ended).collect();
        comparisons.sort_by_key(|(seed, _)| *seed);
        Self { comparisons }
    }

    /// The seeds, in ascending order.
    pub fn seeds(&self) -> Vec<u64> {
        self.comparisons.iter().map(|(seed, _)| *seed).collect()
    }

    /// The number of runs that have ended.
    pub fn runs(&self) -> usize {
        self.comparisons.iter().map(|(_, comparison)| comparison.runs.len()).sum()
    }

    /// The comparison of each seed.
    pub(crate) fn comparisons(&self) -> &[(u64, Comparison)] {
        &self.comparisons
    }

    /// The runs of each model on each WAN over all seeds, in the order of the comparison with the most runs; what that
    /// lacks comes after it.
    pub(crate) fn cells(&self) -> Vec<SeedCell<'_>> {
        let mut longest_first: Vec<&Comparison> =
            self.comparisons.iter().map(|(_, comparison)| comparison).collect();
        longest_first.sort_by_key(|comparison| Reverse(comparison.runs.len()));
        let mut places = Vec::new();
        for comparison in longest_first {
            for place in (0..comparison.runs.len()).map(|at| place(comparison, at)) {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }

        let cell = |place: (&str, &str, usize)| {
            let runs = self.comparisons.iter().filter_map(|(seed, comparison)| {
                let at =
                    (0..comparison.runs.len()).find(|at| self::place(comparison, *at) == place)?;
                Some((*seed, &comparison.runs[at]))
            });
            SeedCell { runs: runs.collect() }
        };
        places.into_iter().map(cell).collect()
    }

    /// The names of the WANs, each once, in the order of the cells.
    pub(crate) fn wans(&self) -> Vec<&str> {
        let mut wans: Vec<&str> = Vec::new();
        for cell in self.cells() {
            if !wans.contains(&cell.wan()) {
                wans.push(cell.wan());
            }
        }
        wans
    }

    /// The target of the seeds that have one.
    pub(crate) fn targets(&self) -> Option<Spread> {
        let targets = self.comparisons.iter().filter_map(|(_, one)| one.target_objective);
        Spread::of(targets.map(Some))
    }

    /// The bandwidth scale that was fitted before the runs, if one was.
    pub(crate) fn slowdown(&self) -> Option<Slowdown> {
        self.comparisons.iter().find_map(|(_, comparison)| comparison.slowdown)
    }

    /// Where the targets come from, in a sentence without a full stop.
    pub(crate) fn definition(&self) -> String {
        let mut definitions: Vec<String> = Vec::new();
        for (_, comparison) in &self.comparisons {
            let definition = comparison.definition();
            if !definitions.contains(&definition) {
                definitions.push(definition);
            }
        }
        definitions.join(", or ")
    }
}

/// What a run is, and how many of the same are before it: runs of two seeds with the same place belong together.
fn place(comparison: &Comparison, at: usize) -> (&str, &str, usize) {
    let name = |run: &'_ ComparedRun| -> (String, String) {
        (run.row.summary.wan.clone(), run.row.summary.remote_sync.clone())
    };
    let own = &comparison.runs[at].row.summary;
    let before = &comparison.runs[..at];
    let same = before.iter().filter(|run| name(run) == name(&comparison.runs[at])).count();
    (&own.wan, &own.remote_sync, same)
}
