//! The changes of one clock or round, their sum over data centers, and their frames.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::codec::Changes;
use crate::persist;
use crate::store::Touched;
use crate::sync::ValueFormat;
use crate::types::{Content, DcId, Tightness};

/// The changes of one clock.
#[derive(Debug)]
pub(in crate::server) struct Changed {
    pub(in crate::server) values: Vec<f32>,
    pub(in crate::server) touched: Touched,
}

/// An unfinished total.
#[derive(Debug)]
pub(in crate::server) struct Sum {
    total: Changed,
    /// Parts that arrived before those of earlier data centers. The sum is computed in the order of data centers.
    early: BTreeMap<DcId, Changed>,
    /// Data centers whose part is complete.
    complete: Vec<bool>,
    /// The first data center whose part is not in the total.
    next: usize,
    /// The largest tightness that a data center requested with its part.
    tightness: Tightness,
}

/// Changes cut for one frame.
#[derive(Debug, Default)]
pub(in crate::server) struct Cutting {
    indexes: Vec<u32>,
    values: Vec<f32>,
}

impl Changed {
    pub(in crate::server) fn none(parameters: usize) -> Self {
        Self { values: vec![0.0; parameters], touched: Touched::none(parameters) }
    }

    pub(in crate::server) fn part(&self, range: Range<usize>) -> Self {
        let mut part = Self::none(range.len());
        part.values.copy_from_slice(&self.values[range.clone()]);
        for place in self.touched.iter_range(range.clone()) {
            part.touched.insert(place - range.start);
        }
        part
    }

    pub(in crate::server) fn add(&mut self, other: &Self) {
        for (place, value) in other.touched_values() {
            self.values[place] += value;
            self.touched.insert(place);
        }
    }

    pub(in crate::server) fn touched_values(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        self.touched.iter_range(0..self.values.len()).map(|place| (place, self.values[place]))
    }
}

persist! {
    impl Persist<()> for Changed {
        fn walk(Self { values, touched }, walk, ()) {
            walk.tensor("values", Content::Changes, values)?;
            walk.flatten(touched, ("touched", values.len()))
        }
    }
}

impl Sum {
    /// An empty sum over `size` parameters.
    pub(in crate::server) fn new(size: usize, data_centers: usize) -> Self {
        Self {
            total: Changed::none(size),
            early: BTreeMap::new(),
            complete: vec![false; data_centers],
            next: 0,
            tightness: Tightness::NONE,
        }
    }

    /// The received part of a data center.
    pub(in crate::server) fn part(&mut self, of: DcId) -> &mut Changed {
        let size = self.total.values.len();
        self.early.entry(of).or_insert_with(|| Changed::none(size))
    }

    /// Marks a data center's part as complete, and adds the parts that are next in order. Returns whether all are
    /// added.
    pub(in crate::server) fn complete(&mut self, of: DcId) -> bool {
        self.complete[of.index()] = true;
        while self.complete.get(self.next) == Some(&true) {
            if let Some(part) = self.early.remove(&DcId(self.next as u16)) {
                self.total.add(&part);
            }
            self.next += 1;
        }
        self.next == self.complete.len()
    }

    /// The first data center whose part is not complete.
    pub(in crate::server) fn missing(&self) -> Option<DcId> {
        self.complete.iter().position(|complete| !complete).map(|index| DcId(index as u16))
    }

    /// Records the tightness that a data center requests.
    pub(in crate::server) fn wish(&mut self, tightness: Tightness) {
        self.tightness = self.tightness.max(tightness);
    }

    pub(in crate::server) fn tightness(&self) -> Tightness {
        self.tightness
    }

    pub(in crate::server) fn total(self) -> Changed {
        self.total
    }
}

persist! {
    impl Persist<()> for Sum {
        fn walk(Self { total, early, complete, next, tightness }, walk, ()) {
            let (size, data_centers) = (total.values.len(), complete.len());
            walk.part("total", total, ())?;
            let fresh = |of: &DcId| (of.index() < data_centers).then(|| Changed::none(size));
            walk.entries("early", early, fresh, |changed, walk| walk.flatten(changed, ()))?;
            walk.record_that("complete", complete, |found, _| found.len() == data_centers)?;
            walk.record_that("next", next, |found, _| *found <= data_centers)?;
            walk.record("tightness", tightness)
        }
    }
}

impl Cutting {
    /// Takes changes of the parameters in `range` until about `room` bytes are full. `source` has the changes of the
    /// parameters from `offset` on. Returns the parameter at which the next frame begins.
    pub(in crate::server) fn fill(
        &mut self,
        source: &Changed,
        range: Range<usize>,
        offset: usize,
        format: ValueFormat,
        room: usize,
    ) -> usize {
        self.indexes.clear();
        self.values.clear();
        let most = ((room as f64 / format.bytes_per_value()) as usize).max(64);
        let end = range.end;

        for place in source.touched.iter_range(range.start - offset..range.end - offset) {
            if self.indexes.len() == most {
                return place + offset;
            }
            self.indexes.push((place + offset) as u32);
            self.values.push(source.values[place]);
        }

        end
    }

    pub(in crate::server) fn changes(&self) -> Changes<'_> {
        Changes::Sparse { indexes: &self.indexes, values: &self.values }
    }
}

/// Adds a change of a total. Dense frames have zeros that sparse ones omit. Adding 0 to -0 would give 0 in one data
/// center, and -0 would stay in another.
pub(in crate::server) fn add_change(value: &mut f32, change: f32) {
    if change != 0.0 {
        *value += change;
    }
}
