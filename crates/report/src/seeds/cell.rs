//! The runs of one model on one WAN, one for each seed.

use super::Spread;
use crate::comparison::{CompareRow, ComparedRun};
use gaia_telemetry::Summary;

/// The runs of one model on one WAN, each with its seed. There is at least one.
#[derive(Clone, Debug)]
pub(crate) struct SeedCell<'a> {
    pub(crate) runs: Vec<(u64, &'a ComparedRun)>,
}

/// The name of the held-out metric of all cells.
pub(crate) fn metric<'a>(cells: &[SeedCell<'a>]) -> &'a str {
    cells.first().map_or("metric", |cell| &cell.first().metric.name)
}

impl<'a> SeedCell<'a> {
    /// What the runs have in common: the run of the first seed.
    pub(crate) fn first(&self) -> &'a Summary {
        &self.runs[0].1.row.summary
    }

    pub(crate) fn wan(&self) -> &'a str {
        &self.first().wan
    }

    pub(crate) fn remote(&self) -> &'a str {
        &self.first().remote_sync
    }

    /// How many of the runs have met the target.
    pub(crate) fn reached(&self) -> usize {
        let times = self.runs.iter().map(|(_, run)| run.row.summary.time_to_target_s);
        times.flatten().count()
    }

    /// A figure that every run has.
    pub(crate) fn spread(&self, figure: impl Fn(&CompareRow) -> f64) -> Spread {
        let values = self.runs.iter().map(|(_, run)| Some(figure(&run.row)));
        Spread::of(values).expect("a cell has a run")
    }

    /// A figure of reaching the target: where a run has not, it counts as higher than any.
    pub(crate) fn spread_to_target(&self, figure: impl Fn(&Summary) -> Option<f64>) -> Spread {
        let values = self.runs.iter().map(|(_, run)| figure(&run.row.summary));
        Spread::of(values).expect("a cell has a run")
    }

    /// A ratio between runs of one seed, over the seeds that have it. `None` where none has.
    pub(crate) fn spread_of_ratios(
        &self,
        ratio: impl Fn(&CompareRow) -> Option<f64>,
    ) -> Option<Spread> {
        let values = self.runs.iter().filter_map(|(_, run)| ratio(&run.row));
        Spread::of(values.map(Some))
    }

    /// The runs of this cell and of another with the same seed.
    pub(crate) fn paired<'b>(
        &'b self,
        other: &'b Self,
    ) -> impl Iterator<Item = (&'a CompareRow, &'a CompareRow)> + 'b {
        self.runs.iter().filter_map(|(seed, run)| {
            let (_, there) = other.runs.iter().find(|(there, _)| there == seed)?;
            Some((&run.row, &there.row))
        })
    }
}
