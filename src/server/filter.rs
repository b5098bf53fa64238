//! The significance filter of one server: what its residuals are measured against, clock by clock.

use std::sync::Arc;
use std::time::Duration;

use super::Schedule;
use super::budget::Budget;
use super::rate::RateEstimate;
use crate::significance::{TableCriteria, Take, rms};
use crate::store::ShardStore;
use crate::sync::{AspConfig, Floor, Function, Goal};
use crate::types::{Clock, Instant, Tightness};

#[derive(Debug)]
pub(super) struct Filter {
    pub(super) config: AspConfig,
    schedule: Arc<Schedule>,
    /// How much tighter than configured.
    pub(super) tightness: Tightness,
    /// Of the latest clock.
    criteria: Vec<TableCriteria>,
}

impl Filter {
    pub(super) fn new(config: &AspConfig, schedule: Arc<Schedule>) -> Self {
        Self { config: config.clone(), schedule, tightness: Tightness::NONE, criteria: Vec::new() }
    }

    /// Measures anew what each table's residuals are held against, at `clock`. Residuals are `scale` of the change
    /// that they will come to.
    /// `progress` is the sum of what this data center has changed, per parameter.
    pub(super) fn on_clock(
        &mut self,
        clock: Clock,
        scale: f32,
        progress: &[f32],
        store: &ShardStore,
    ) {
        let factor = self.schedule.threshold_factor(self.config.decay, clock);
        let threshold =
            self.tightness.of_threshold(self.config.threshold * factor) * f64::from(scale);
        let layout = store.layout();
        let tables = layout.model().table_ids();
        self.criteria = tables
            .map(|table| {
                let range = layout.table_range(table);
                let floor = match (self.config.function, self.config.floor) {
                    (Function::Progress, _) => rms(&progress[range.clone()]),
                    (Function::Absolute, _) | (_, Floor::Zero) => 0.0,
                    (_, Floor::TableRms) => rms(&store.values()[range.clone()]),
                };
                TableCriteria {
                    range,
                    width: layout.width_of(table),
                    function: self.config.function,
                    floor,
                    threshold: threshold as f32,
                }
            })
            .collect();
    }

    /// What each table's residuals are held against; none before the first clock.
    pub(super) fn criteria(&self) -> &[TableCriteria] {
        &self.criteria
    }

    /// What is taken at `now`: what the link's share pays for, or where only the hard threshold counts, that.
    pub(super) fn take(
        &self,
        now: Instant,
        budget: &mut Budget,
        rate: RateEstimate,
        clock_time: Option<Duration>,
    ) -> Take {
        match (self.config.goal, clock_time) {
            (Goal::Speed, Some(clock_time)) => {
                let share = rate.bytes_in(Duration::from_secs(1)) * self.config.link_share;
                budget.fill(now, share, clock_time);
                let least = (self.config.soft_threshold / self.config.threshold) as f32;
                Take::Above { most: budget.updates(), least }
            }
            _ => Take::Hard,
        }
    }
}
