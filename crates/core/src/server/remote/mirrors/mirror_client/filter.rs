//! The significance filter of one server: the criteria of its tables at each clock.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::budget::Budget;
use super::rate::RateEstimate;
use crate::link::Train;
use crate::server::config::Schedule;
use crate::significance::{Measure, Significance, TableCriteria, Take, rms};
use crate::store::ShardStore;
use crate::sync::{AspConfig, Floor, Function, Goal, ValueFormat};
use crate::types::{
    Clock, Instant, ModelLayout, Persist, Restorer, Saved, Saver, ShardLayout, StateError, TableId,
    Tightness,
};
use crate::wire::BULK_HEADER_BYTES;

#[derive(Debug)]
pub(super) struct Filter {
    pub(super) config: AspConfig,
    measure: Measure,
    schedule: Arc<Schedule>,
    /// The reduction of the configured thresholds.
    pub(super) tightness: Tightness,
    /// Of the latest clock.
    criteria: Vec<TableCriteria<Measure>>,
}

impl Filter {
    /// A filter with the significance function `own`. `None` for the function that `config` names.
    pub(super) fn new(
        config: &AspConfig,
        own: Option<Arc<dyn Significance>>,
        schedule: Arc<Schedule>,
    ) -> Self {
        Self {
            config: config.clone(),
            measure: own.map_or(Measure::BuiltIn(config.function), Measure::Own),
            schedule,
            tightness: Tightness::NONE,
            criteria: Vec::new(),
        }
    }

    /// Updates the criteria of all tables at `clock`. A residual is `scale` times the change that it makes in the end.
    /// `progress` is the sum of this data center's changes, per parameter. `learning_rate_factor` is what workers
    /// report of their learning rate, if they do.
    pub(super) fn on_clock(
        &mut self,
        clock: Clock,
        learning_rate_factor: Option<f64>,
        scale: f32,
        progress: &[f32],
        store: &ShardStore,
    ) {
        let factor = self.schedule.threshold_factor(self.config.decay, clock, learning_rate_factor);
        let threshold =
            self.tightness.of_threshold(self.config.threshold * factor) * f64::from(scale);
        let model = store.layout().model();
        self.criteria = self.criteria_of(store.layout(), |table, range| {
            let floor = match (&self.measure, self.config.floor) {
                (Measure::BuiltIn(Function::Progress), _) => rms(&progress[range]),
                (Measure::BuiltIn(Function::Absolute), _) | (_, Floor::Zero) => 0.0,
                (_, Floor::TableRms) if has_scale(model, table) => rms(&store.values()[range]),
                (_, Floor::TableRms) => 0.0,
            };
            (floor, threshold as f32)
        });
    }

    /// The criteria of all tables, or of each of their rows. Empty before the first clock.
    pub(super) fn criteria(&self) -> &[TableCriteria<Measure>] {
        &self.criteria
    }

    /// The criteria of all tables, or of each of their rows. `bars` returns the floor and the threshold of a range of a
    /// table.
    fn criteria_of(
        &self,
        layout: &ShardLayout,
        mut bars: impl FnMut(TableId, Range<usize>) -> (f32, f32),
    ) -> Vec<TableCriteria<Measure>> {
        let of_range = |(table, range): (TableId, Range<usize>)| {
            let (floor, threshold) = bars(table, range.clone());
            let (width, function) = (layout.width_of(table), self.measure.clone());
            TableCriteria { range, width, function, floor, threshold }
        };
        judged_together(layout).map(of_range).collect()
    }

    /// Which residuals are selected at `now`: those for which the link's budget has tokens, or those above the hard
    /// threshold if the configuration sends no others. Of a shard that [`is_small`], the budget leaves out none.
    pub(super) fn take(
        &self,
        now: Instant,
        budget: &mut Budget,
        rate: RateEstimate,
        clock_time: Option<Duration>,
        parameters: usize,
    ) -> Take {
        match (self.config.goal, clock_time) {
            (Goal::Speed, Some(clock_time)) => {
                let share = rate.bytes_in(Duration::from_secs(1)) * self.config.link_share;
                budget.fill(now, share, clock_time);
                let least = (self.config.soft_threshold / self.config.threshold) as f32;
                let whole = is_small(parameters, self.config.values);
                Take::Above { most: if whole { parameters } else { budget.updates() }, least }
            }
            _ => Take::Hard,
        }
    }
}

/// By hand, since of the criteria only the bars are saved: the rest follows from the plan.
impl Persist<&ShardLayout> for Filter {
    fn save(&self, walk: &mut Saver<'_>, _layout: &ShardLayout) -> Saved {
        walk.record("tightness", &self.tightness)?;
        let criteria = self.criteria.iter();
        let bars: Vec<(f32, f32)> = criteria.map(|one| (one.floor, one.threshold)).collect();
        walk.record("criteria", &bars)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, layout: &ShardLayout) -> Result<(), StateError> {
        walk.record("tightness", &mut self.tightness)?;
        let count = judged_together(layout).count();
        let mut bars: Vec<(f32, f32)> = Vec::new();
        walk.record_that("criteria", &mut bars, |found, _| [0, count].contains(&found.len()))?;

        let mut bars = bars.into_iter();
        self.criteria = if bars.len() == 0 {
            Vec::new()
        } else {
            self.criteria_of(layout, |_, _| bars.next().unwrap_or_default())
        };
        Ok(())
    }
}

/// Whether all values of a shard together weigh at most twice what a clock sends without any: the packet of a frame and
/// that of a mirror clock. What a filter saves there is little beside what the copies differ by for it.
fn is_small(parameters: usize, format: ValueFormat) -> bool {
    let headers = Train::of(BULK_HEADER_BYTES as u64).bytes + Train::of(REPORT_BYTES).bytes;
    parameters as f64 * format.bytes_per_value() <= 2.0 * headers as f64
}

/// The size of the frame of a mirror clock, about.
const REPORT_BYTES: u64 = 24;

/// The ranges of a shard whose values have one scale: tables, or each row where rows differ and are long enough to tell.
fn judged_together(layout: &ShardLayout) -> impl Iterator<Item = (TableId, Range<usize>)> {
    layout.model().table_ids().flat_map(|table| {
        let (all, width) = (layout.table_range(table), layout.width_of(table));
        let length = if has_scaled_rows(layout.model(), table) { width } else { all.len().max(1) };
        all.clone().step_by(length).map(move |start| (table, start..all.end.min(start + length)))
    })
}

/// Whether the values of a table, or of one of its rows, say how large a change of one of them is.
fn has_scale(model: &ModelLayout, table: TableId) -> bool {
    model.has_one_scale(table) || has_scaled_rows(model, table)
}

/// Whether each row of a table has a scale of its own, and enough values to tell it.
fn has_scaled_rows(model: &ModelLayout, table: TableId) -> bool {
    model.has_unlike_rows_in(table) && model.tables()[table.index()].width >= ROW_VALUES_MIN
}

/// Values of a row from which its root mean square is known within a fifth or so.
const ROW_VALUES_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Decay;
    use crate::types::{Bandwidth, Model, ModelLayout, TableLayout};

    /// A filter for an application whose learning rate has this factor at every clock.
    fn filter(config: &AspConfig, factor: f64) -> Filter {
        let learning_rate_factor = Box::new(move |_| factor);
        let schedule = Schedule { learning_rate_factor, clocks_per_pass: 1, momentum: 0.0 };
        Filter::new(config, None, Arc::new(schedule))
    }

    #[test]
    fn a_reported_learning_rate_replaces_that_of_the_application() {
        let table = TableLayout { name: "a".into(), rows: 2, width: 2 };
        let layout = Arc::new(ModelLayout::new(vec![table]));
        let shard = ShardLayout::all(&layout, 1).remove(0);
        let store = ShardStore::new(shard, &Model::zeros(layout));
        let config = AspConfig { decay: Decay::LearningRate, ..AspConfig::default() };
        let mut filter = filter(&config, 0.5);

        for (reported, expected) in [(None, 0.5), (Some(0.125), 0.125), (Some(1.0), 1.0)] {
            filter.on_clock(Clock(3), reported, 1.0, &[0.0; 4], &store);
            let threshold = (config.threshold * expected) as f32;
            assert_eq!(filter.criteria()[0].threshold, threshold, "{reported:?}");
        }
    }

    #[test]
    fn of_a_shard_of_few_values_nothing_waits_for_the_budget() {
        let take = |parameters, config: AspConfig| {
            let filter = filter(&config, 1.0);
            let rate = RateEstimate::new(Bandwidth::from_bits_per_second(8e3));
            let clock_time = Some(Duration::from_millis(500));
            let mut budget = Budget::new(3.0);
            filter.take(Instant::from_nanos(500_000_000), &mut budget, rate, clock_time, parameters)
        };
        // A fifth of the 500 bytes that the link carries in a clock.
        let budget = Take::Above { most: 33, least: 0.0 };
        let default = AspConfig::default();
        assert_eq!(take(196, default.clone()), Take::Above { most: 196, least: 0.0 });
        assert_eq!(take(250, default.clone()), budget);
        assert_eq!(take(196, AspConfig { values: ValueFormat::F32, ..default.clone() }), budget);
        assert_eq!(take(196, AspConfig { goal: Goal::Cost, ..default }), Take::Hard);
    }

    #[test]
    fn values_without_a_scale_in_common_are_not_measured_against_each_other() {
        let table = |name: &str, width| TableLayout { name: name.into(), rows: 2, width };
        let tables = [("alike", 2), ("unlike", 2), ("statistics", 2), ("long unlike", 16)];
        let layout = ModelLayout::new(tables.map(|(name, width)| table(name, width)).to_vec());
        let layout = layout.with_unlike_rows([TableId(1), TableId(3)]);
        let layout = Arc::new(layout.with_statistics([TableId(2)]));
        let mut model = Model::zeros(layout.clone());
        for table in layout.table_ids() {
            model.table_mut(table).fill(3.0);
        }
        model.table_mut(TableId(3))[16..].fill(0.5);
        let store = ShardStore::new(ShardLayout::all(&layout, 1).remove(0), &model);
        let floors = |floor, function| {
            let config = AspConfig { floor, function, ..AspConfig::default() };
            let mut filter = filter(&config, 1.0);
            filter.on_clock(Clock(0), None, 1.0, &[2.0; 44], &store);
            filter.criteria().iter().map(|one| one.floor).collect::<Vec<_>>()
        };
        assert_eq!(floors(Floor::TableRms, Function::Relative), [3.0, 0.0, 0.0, 3.0, 0.5]);
        assert_eq!(floors(Floor::Zero, Function::Relative), [0.0; 5]);
        assert_eq!(floors(Floor::TableRms, Function::Progress), [2.0; 5]);
    }
}
