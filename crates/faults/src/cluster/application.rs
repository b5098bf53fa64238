//! A test application without learning: workers add small integers to random rows.
//!
//! Sums of small integers are exact in single precision, in any order. So a lost or duplicated update changes the
//! result.

use std::ops::Range;
use std::sync::Arc;

use rand_core::Rng;

use gaia_core::application::{
    Aggregation, Application, ApplicationError, Direction, EvaluationSums, Metric, Task, Work,
};
use gaia_core::types::{
    Clock, Deltas, Model, ModelLayout, Random, Restorer, RowSet, Saved, Saver, Seed, StateError,
    TableDeltas, TableLayout, TableRows,
};

#[derive(Debug)]
pub(crate) struct Counting {
    layout: Arc<ModelLayout>,
    /// Whether a worker reads all rows in each clock, or about half of them.
    reads_all: bool,
}

#[derive(Debug)]
struct Counter {
    layout: Arc<ModelLayout>,
    reads_all: bool,
    chance: Random,
    /// The rows of the current iteration.
    rows: Vec<u32>,
}

impl Counting {
    pub(crate) fn new(rows: usize, width: usize, reads_all: bool) -> Self {
        let table = TableLayout { name: "numbers".into(), rows, width };
        Self { layout: Arc::new(ModelLayout::new(vec![table])), reads_all }
    }
}

impl Application for Counting {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn initial_model(&self, seed: Seed) -> Model {
        let mut chance = seed.random();
        let mut model = Model::zeros(self.layout.clone());
        model.values.fill_with(|| (chance.next_u64() % 20) as f32);
        model
    }

    fn task(&self, _worker: usize, seed: Seed) -> Box<dyn Task> {
        let (layout, reads_all) = (self.layout.clone(), self.reads_all);
        Box::new(Counter { layout, reads_all, chance: seed.random(), rows: Vec::new() })
    }

    /// Any number: the data is not divided.
    fn workers(&self) -> usize {
        0
    }

    fn sums(
        &self,
        _model: &Model,
        _workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        Ok(EvaluationSums::default())
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::Mean, Direction::Lower);
        Metric { name: "nothing".into(), aggregation, direction }
    }

    fn clocks_per_pass(&self) -> u64 {
        4
    }

    fn describe(&self) -> String {
        format!("{} whole numbers", self.layout.parameters())
    }
}

impl Task for Counter {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        let all = 0..self.layout.tables()[0].rows as u32;
        if self.reads_all {
            self.rows = all.collect();
            return RowSet::all(&self.layout);
        }
        let chance = &mut self.chance;
        self.rows = all.filter(|_| chance.next_u64().is_multiple_of(2)).collect();
        RowSet { tables: vec![TableRows::listed(self.rows.clone())] }
    }

    fn iterate(
        &mut self,
        _clock: Clock,
        _model: &Model,
    ) -> Result<(Deltas, Work), ApplicationError> {
        let width = self.layout.tables()[0].width;
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for row in &self.rows {
            if self.chance.next_u64().is_multiple_of(2) {
                rows.push(*row);
                let chance = &mut self.chance;
                values.extend((0..width).map(|_| (chance.next_u64() % 7) as f32 - 3.0));
            }
        }
        let deltas = Deltas { tables: vec![TableDeltas::listed(rows, values)] };
        Ok((deltas, Work { examples: 1, flops: 1.0 }))
    }

    /// The mean distance from zero, which differs between copies, so that a guard tightens and relaxes.
    fn probe(&self, model: &Model, _examples: usize) -> (f64, Work) {
        let sum: f64 = model.values.iter().map(|value| f64::from(value.abs())).sum();
        (sum / model.values.len() as f64, Work { examples: 1, flops: 1.0 })
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        walk.record("chance", &self.chance)?;
        walk.record("rows", &self.rows)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        walk.record("chance", &mut self.chance)?;
        let rows = self.layout.tables()[0].rows;
        walk.record_that("rows", &mut self.rows, |found, _| {
            found.iter().all(|row| (*row as usize) < rows)
        })
    }
}
