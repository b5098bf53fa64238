//! Updates of workers whose norm is above the limit ([`OutlierConfig`]): they are scaled down to it or refused, and
//! counted for each worker.
//!
//! The limit applies to what a server receives from the workers of its own data center, before anything else sees it.
//! So the sums of what was changed, sent and drained count what was applied. Each table has a limit of its own: the
//! weights of one layer may be larger than those of another, and sums of squares are larger than weights. The median is
//! that of the norms that were applied, with those above the limit counted at the limit: a worker that sends ever
//! larger updates raises it slowly, and an honest growth of all workers is followed.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::store::ShardDeltas;
use crate::sync::{OutlierAction, OutlierConfig};
use crate::types::{ModelLayout, WorkerId};

/// The updates of one worker that were above the limit of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutlierStats {
    /// The number of updates that were clipped or refused.
    pub updates: u64,
    /// The largest of the L2 norms, of the changes to one table, that were above the limit.
    pub norm_max: f64,
}

/// Limits the updates of the workers of one data center.
#[derive(Debug)]
pub(super) struct Outliers {
    action: OutlierAction,
    tables: Vec<Norms>,
    /// By worker.
    stats: Vec<OutlierStats>,
}

/// The norms of the latest changes to one table.
#[derive(Debug)]
struct Norms {
    /// The largest norm that is admitted whatever the median is.
    fixed: f64,
    /// The largest norm that is admitted, divided by the median.
    median_times: Option<f64>,
    /// Each at most the limit of its time. None is 0. Empty where the median sets no limit.
    recent: VecDeque<f64>,
}

impl Outliers {
    pub(super) fn new(config: OutlierConfig, workers: usize, layout: &ModelLayout) -> Self {
        let norms = |table| {
            let fixed = config.norm_max.filter(|_| !layout.is_statistics(table));
            let fixed = fixed.unwrap_or(f64::INFINITY);
            Norms { fixed, median_times: config.median_times, recent: VecDeque::new() }
        };
        let tables = layout.table_ids().map(norms).collect();
        Self { action: config.action, tables, stats: vec![OutlierStats::default(); workers] }
    }

    /// What is applied of a worker's update: all of it, a scaled copy, or `None` where it is refused. All changes are
    /// finite.
    pub(super) fn admit<'d>(
        &mut self,
        worker: WorkerId,
        deltas: &'d ShardDeltas,
    ) -> Option<Cow<'d, ShardDeltas>> {
        let mut largest = 0.0_f64;
        let mut factors = Vec::with_capacity(self.tables.len());
        for (norm, table) in deltas.norms().zip(&mut self.tables) {
            let limit = table.limit();
            table.remember(norm.min(limit));
            if norm > limit {
                largest = largest.max(norm);
                factors.push((limit / norm) as f32);
            } else {
                factors.push(1.0);
            }
        }
        if largest == 0.0 {
            return Some(Cow::Borrowed(deltas));
        }

        let stats = &mut self.stats[usize::from(worker.index)];
        stats.updates += 1;
        stats.norm_max = stats.norm_max.max(largest);
        match self.action {
            OutlierAction::Clip => Some(Cow::Owned(deltas.scaled(factors))),
            OutlierAction::Refuse => None,
        }
    }

    /// The counts of each worker of the data center.
    pub(super) fn stats(&self) -> &[OutlierStats] {
        &self.stats
    }
}

impl Norms {
    /// The largest norm that is admitted unchanged. There is no median until enough norms are known.
    fn limit(&self) -> f64 {
        let times = self.median_times.filter(|_| self.recent.len() >= RECENT_MIN);
        times.map_or(self.fixed, |times| self.fixed.min(times * self.median()))
    }

    fn median(&self) -> f64 {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// Adds a norm to the recent ones. Workers that have changed nothing say nothing about the size of changes.
    fn remember(&mut self, norm: f64) {
        if self.median_times.is_none() || norm == 0.0 {
            return;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(norm);
    }
}

persist! {
    impl Persist<()> for Outliers {
        fn walk(Self { action: _, tables, stats }, walk, ()) {
            let workers = stats.len();
            for (table, norms) in (0..).zip(tables) {
                walk.part(format!("table.{table}"), norms, ())?;
            }
            walk.record_that("stats", stats, |found, _| found.len() == workers)
        }
    }
}

persist! {
    impl Persist<()> for Norms {
        fn walk(Self { fixed: _, median_times: _, recent }, walk, ()) {
            walk.record_that("recent", recent, |found, _| {
                let is_norm = |norm: &f64| norm.is_finite() && *norm > 0.0;
                found.len() <= RECENT_MAX && found.iter().all(is_norm)
            })
        }
    }
}

/// The number of norms that the median is taken over.
const RECENT_MAX: usize = 64;

/// The number of norms below which there is no median.
const RECENT_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DcId, Deltas, ShardId, ShardLayout, TableDeltas, TableId, TableLayout};
    use std::sync::Arc;

    /// Weights, and statistics beside them.
    fn layout() -> ModelLayout {
        let table = |name: &str| TableLayout { name: name.into(), rows: 1, width: 2 };
        ModelLayout::new(vec![table("weights"), table("squares")]).with_statistics([TableId(1)])
    }

    fn both(weights: [f32; 2], squares: [f32; 2]) -> ShardDeltas {
        let table = |values: [f32; 2]| TableDeltas::listed(vec![0], values.to_vec());
        let deltas = Deltas { tables: vec![table(weights), table(squares)] };
        ShardDeltas::checked(deltas, &ShardLayout::new(Arc::new(layout()), ShardId(0), 1)).unwrap()
    }

    fn deltas(weights: [f32; 2]) -> ShardDeltas {
        both(weights, [0.0; 2])
    }

    fn worker(index: u16) -> WorkerId {
        WorkerId { dc: DcId(0), index }
    }

    fn outliers(
        norm_max: Option<f64>,
        median_times: Option<f64>,
        action: OutlierAction,
    ) -> Outliers {
        Outliers::new(OutlierConfig { norm_max, median_times, action }, 2, &layout())
    }

    #[test]
    fn an_update_above_the_largest_norm_is_scaled_to_it() {
        let mut outliers = outliers(Some(10.0), None, OutlierAction::Clip);
        let (within, beyond) = (deltas([6.0, 8.0]), deltas([30.0, 40.0]));
        assert_eq!(outliers.admit(worker(0), &within).as_deref(), Some(&within));
        assert_eq!(outliers.admit(worker(1), &beyond).as_deref(), Some(&deltas([6.0, 8.0])));
        let found = OutlierStats { updates: 1, norm_max: 50.0 };
        assert_eq!(outliers.stats(), [OutlierStats::default(), found]);
    }

    #[test]
    fn an_update_far_above_the_median_is_refused_and_hardly_moves_the_median() {
        let mut outliers = outliers(None, Some(4.0), OutlierAction::Refuse);
        for _ in 0..RECENT_MIN {
            assert!(outliers.admit(worker(0), &deltas([3.0, 4.0])).is_some());
        }
        assert!(outliers.admit(worker(1), &deltas([12.0, 16.0])).is_some(), "exactly at the limit");
        for norm in [21.0, 1e6, 1e12] {
            assert_eq!(outliers.admit(worker(1), &deltas([norm, 0.0])), None);
        }
        assert_eq!((outliers.stats()[1].updates, outliers.tables[0].median()), (3, 5.0));
    }

    #[test]
    fn each_table_has_a_limit_of_its_own_and_statistics_none_but_the_median() {
        let mut outliers = outliers(Some(10.0), Some(4.0), OutlierAction::Clip);
        for _ in 0..RECENT_MIN {
            let usual = both([3.0, 4.0], [300.0, 400.0]);
            assert_eq!(outliers.admit(worker(0), &usual).as_deref(), Some(&usual));
        }
        let beyond = both([6.0, 8.0], [3000.0, 4000.0]);
        let found = outliers.admit(worker(0), &beyond);
        assert_eq!(found.as_deref(), Some(&both([6.0, 8.0], [1200.0, 1600.0])));
        assert_eq!(outliers.stats()[0], OutlierStats { updates: 1, norm_max: 5000.0 });
    }

    #[test]
    fn a_growth_of_all_workers_is_followed() {
        let mut outliers = outliers(None, Some(4.0), OutlierAction::Refuse);
        for _ in 0..RECENT_MAX {
            outliers.admit(worker(0), &deltas([1.0, 0.0]));
        }
        let refused =
            (0..).take_while(|_| outliers.admit(worker(0), &deltas([6.0, 0.0])).is_none());
        assert!((1..RECENT_MAX).contains(&refused.count()));
    }

    #[test]
    fn updates_without_changes_are_no_measure_of_the_others() {
        let mut outliers = outliers(None, Some(4.0), OutlierAction::Refuse);
        for _ in 0..10 * RECENT_MAX {
            outliers.admit(worker(0), &deltas([0.0, 0.0]));
        }
        assert!(outliers.admit(worker(0), &deltas([3.0, 4.0])).is_some());
    }
}
