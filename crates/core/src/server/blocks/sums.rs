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

/// Changes cut for one frame. They are copied only where they are not consecutive.
#[derive(Debug, Default)]
pub(in crate::server) struct Cutting {
    /// The place of consecutive changes in their source, and their first parameter.
    consecutive: Option<(Range<usize>, u32)>,
    indexes: Vec<u32>,
    values: Vec<f32>,
}

impl Changed {
    pub(in crate::server) fn none(parameters: usize) -> Self {
        Self { values: vec![0.0; parameters], touched: Touched::none(parameters) }
    }

    /// Forgets all changes. The memory stays.
    pub(in crate::server) fn clear(&mut self) {
        for run in self.touched.runs(0..self.values.len()) {
            self.values[run].fill(0.0);
        }
        self.touched.clear();
    }

    pub(in crate::server) fn part(&self, range: Range<usize>) -> Self {
        let mut part = Self::none(range.len());
        for run in self.touched.runs(range.clone()) {
            let own = run.start - range.start..run.end - range.start;
            part.values[own.clone()].copy_from_slice(&self.values[run]);
            part.touched.insert_range(own);
        }
        part
    }

    /// Adds changes to those here.
    pub(in crate::server) fn add(&mut self, other: &Self) {
        for run in other.touched.runs(0..self.values.len()) {
            self.add_run(run.clone(), &other.values[run]);
        }
    }

    /// Adds changes to the parameters of a range.
    pub(in crate::server) fn add_run(&mut self, run: Range<usize>, changes: &[f32]) {
        add_all(&mut self.values[run.clone()], changes);
        self.touched.insert_range(run);
    }

    /// Adds the changes of a frame, in which parameter `start` is the first one here. Zeros change nothing.
    pub(in crate::server) fn add_frame(&mut self, changes: Changes<'_>, start: usize) {
        match changes {
            // It was not checked where an empty frame begins.
            Changes::Dense { values: [], .. } => {}
            Changes::Dense { start: first, values } => {
                let at = first as usize - start;
                add_changes(&mut self.values[at..at + values.len()], values);
                self.touched.insert_nonzero(at, values);
            }
            Changes::Sparse { .. } => changes.for_each(|index, value| {
                if value != 0.0 {
                    self.values[index - start] += value;
                    self.touched.insert(index - start);
                }
            }),
        }
    }

    /// Adds all changes to values, the first of which is that of parameter 0 here. Zeros change nothing.
    pub(in crate::server) fn add_to(&self, values: &mut [f32]) {
        for run in self.touched.runs(0..self.values.len()) {
            add_changes(&mut values[run.clone()], &self.values[run]);
        }
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

    /// Adds changes of a data center's part. `start` is the first parameter of the sum.
    ///
    /// A part that is next in order goes into the total as it arrives.
    pub(in crate::server) fn receive(&mut self, of: DcId, changes: Changes<'_>, start: usize) {
        if of.index() == self.next && !self.early.contains_key(&of) {
            self.total.add_frame(changes, start);
            return;
        }
        let size = self.total.values.len();
        let part = self.early.entry(of).or_insert_with(|| Changed::none(size));
        part.add_frame(changes, start);
    }

    /// Takes the whole part of a data center, of which nothing was received.
    pub(in crate::server) fn take(&mut self, of: DcId, part: Changed) {
        self.early.insert(of, part);
    }

    /// Marks a data center's part as complete, and adds the parts that are next in order. Returns whether all are
    /// added.
    pub(in crate::server) fn complete(&mut self, of: DcId) -> bool {
        self.complete[of.index()] = true;
        while self.complete.get(self.next) == Some(&true) {
            match self.early.remove(&DcId(self.next as u16)) {
                Some(part) if self.total.touched.is_empty() => self.total = part,
                Some(part) => self.total.add(&part),
                None => {}
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
        self.consecutive = None;
        self.indexes.clear();
        self.values.clear();
        let most = ((room as f64 / format.bytes_per_value()) as usize).max(64);

        let mut runs = source.touched.runs(range.start - offset..range.end - offset).peekable();
        let mut taken = 0;
        while let Some(run) = runs.next() {
            let part = run.start..run.end.min(run.start + most - taken);
            let is_only = taken == 0 && (part.len() == most || runs.peek().is_none());
            if is_only {
                self.consecutive = Some((part.clone(), (part.start + offset) as u32));
            } else {
                self.indexes.extend((part.start + offset) as u32..(part.end + offset) as u32);
                self.values.extend_from_slice(&source.values[part.clone()]);
            }

            taken += part.len();
            if part.end < run.end {
                return part.end + offset;
            }
            if taken == most {
                return runs.peek().map_or(range.end, |next| next.start + offset);
            }
        }

        range.end
    }

    /// The changes that were taken from `source`.
    pub(in crate::server) fn changes<'a>(&'a self, source: &'a Changed) -> Changes<'a> {
        match &self.consecutive {
            Some((place, start)) => {
                Changes::Dense { start: *start, values: &source.values[place.clone()] }
            }
            None => Changes::Sparse { indexes: &self.indexes, values: &self.values },
        }
    }
}

/// Adds a change of a total. Dense frames have zeros that sparse ones omit. Adding 0 to -0 would give 0 in one data
/// center, and -0 would stay in another.
pub(in crate::server) fn add_change(value: &mut f32, change: f32) {
    *value = if change == 0.0 { *value } else { *value + change };
}

/// As [`add_change`], for a change to each value.
fn add_changes(values: &mut [f32], changes: &[f32]) {
    values.iter_mut().zip(changes).for_each(|(value, change)| add_change(value, *change));
}

/// As [`add_change`], for the changes of a frame to a whole shard.
pub(in crate::server) fn add_frame(values: &mut [f32], changes: Changes<'_>) {
    match changes {
        Changes::Dense { values: [], .. } => {}
        Changes::Dense { start, values: changes } => {
            let start = start as usize;
            add_changes(&mut values[start..start + changes.len()], changes);
        }
        Changes::Sparse { .. } => {
            changes.for_each(|index, change| add_change(&mut values[index], change));
        }
    }
}

fn add_all(values: &mut [f32], changes: &[f32]) {
    values.iter_mut().zip(changes).for_each(|(value, change)| *value += change);
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 400;

    fn changes() -> impl Strategy<Value = Changed> {
        vec((btree_set(0..SIZE, 0..40), -4_i8..4), 0..4).prop_map(|parts| {
            let mut changed = Changed::none(SIZE);
            for (places, value) in parts {
                let change = 0.1 * f32::from(value);
                places.into_iter().for_each(|at| changed.add_run(at..at + 1, &[change]));
            }
            changed
        })
    }

    proptest! {
        #[test]
        fn frames_of_any_room_carry_every_change_once(
            places in btree_set(0..SIZE, 0..SIZE),
            offset in 0_usize..100,
            room in 1_usize..1_000,
        ) {
            let mut source = Changed::none(SIZE);
            places.iter().for_each(|at| source.add_run(*at..at + 1, &[*at as f32 + 1.0]));

            let (mut cutting, mut cursor, mut carried) = (Cutting::default(), offset, Vec::new());
            while cursor < SIZE + offset {
                let rest = cursor..SIZE + offset;
                let end = cutting.fill(&source, rest, offset, ValueFormat::F32, room);
                let changes = cutting.changes(&source);
                changes.for_each(|at, value| carried.push((at - offset, value)));
                prop_assert!(end > cursor);
                cursor = end;
            }
            let expected: Vec<_> = places.iter().map(|at| (*at, *at as f32 + 1.0)).collect();
            prop_assert_eq!(carried, expected);
        }

        /// Frames of three parts arrive in any order between parts, and in order within each.
        #[test]
        fn a_total_is_the_sum_in_the_order_of_data_centers(
            parts in vec(changes(), 3),
            cuts in vec(btree_set(1..SIZE, 0..5), 3),
            turns in vec(0_usize..3, 60),
            start in 0_usize..100,
        ) {
            let mut expected = vec![0.0; SIZE];
            parts.iter().for_each(|part| part.add_to(&mut expected));

            let mut sum = Sum::new(SIZE, 3);
            let ends = cuts.iter().map(|cuts| cuts.iter().copied().chain([SIZE]).collect());
            let mut ends: Vec<VecDeque<usize>> = ends.collect();
            let mut starts = [0; 3];
            let mut is_done = false;
            for of in turns.into_iter().chain([0, 1, 2].into_iter().cycle().take(30)) {
                let Some(end) = ends[of].pop_front() else { continue };
                let first = std::mem::replace(&mut starts[of], end);
                let values = &parts[of].values[first..end];
                let frame = Changes::Dense { start: (first + start) as u32, values };
                sum.receive(DcId(of as u16), frame, start);
                if ends[of].is_empty() {
                    is_done = sum.complete(DcId(of as u16));
                }
            }
            prop_assert!(is_done);
            prop_assert_eq!(sum.total().values, expected);
        }
    }

    #[test]
    fn memory_that_is_used_again_has_nothing_of_the_clock_before() {
        let mut changed = Changed::none(SIZE);
        changed.add_run(3..130, &[2.0; 127]);
        changed.clear();
        assert!(changed.touched.is_empty() && changed.values == [0.0; SIZE]);
    }

    #[test]
    fn an_empty_frame_changes_nothing_wherever_it_begins() {
        for first in [0, 5, 99] {
            let empty = Changes::Dense { start: first, values: &[] };
            let (mut changed, mut values) = (Changed::none(4), [0.0; 4]);
            changed.add_frame(empty, 2);
            add_frame(&mut values, empty);
            assert!(changed.touched.is_empty() && values == [0.0; 4]);
        }
    }
}
