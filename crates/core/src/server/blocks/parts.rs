//! Rounded changes that are being sent, in frames of any size.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{
    Changes, decode_indexes, decode_values, encode_indexes, encode_values, fills_holes, quantise,
};
use crate::significance::largest;
use crate::sync::ValueFormat;
use crate::types::{Clock, Content, Persist, Restorer, Saved, Saver, StateError, Tightness};
use crate::wire::{BulkHeader, BulkKind, encode_bulk};

use super::TablePart;

/// Changes to consecutive parameters, rounded to what receivers decode.
///
/// They are rounded once, as one sequence, and frames are cut between blocks that share a scale. So all receivers
/// decode the same bits, however much room each link has.
#[derive(Clone, Debug)]
pub(in crate::server) struct Part {
    indexes: Vec<u32>,
    values: Vec<f32>,
    format: ValueFormat,
}

/// A part that is being sent to a peer.
#[derive(Debug)]
pub(in crate::server) struct Job {
    pub(in crate::server) kind: BulkKind,
    pub(in crate::server) clock: Clock,
    /// The tightness that the sender requests.
    pub(in crate::server) tightness: Tightness,
    part: Arc<Part>,
    /// The number of changes that were sent.
    cursor: usize,
}

impl Part {
    /// Takes the changes of `source`, which are those of the parameters from `start` on. The rounding error stays in
    /// `source`.
    pub(in crate::server) fn take(source: &mut [f32], start: usize, format: ValueFormat) -> Self {
        let changed = (start as u32..).zip(source.iter()).filter(|(_, value)| **value != 0.0);
        // To count takes less than to grow.
        let mut indexes = Vec::with_capacity(changed.clone().count());
        indexes.extend(changed.map(|(index, _)| index));
        Self::take_those(source, start, indexes, format)
    }

    /// As [`Self::take`], but only the `count` largest changes. The others stay in `source`. `tables` are those that `source` has
    /// parts of; those that a round of this `number` takes whole have all of their changes taken beside these.
    pub(in crate::server) fn take_largest(
        source: &mut [f32],
        start: usize,
        count: usize,
        (tables, number): (&[TablePart], u64),
        format: ValueFormat,
    ) -> Self {
        let ranges_of = |is_whole: bool| {
            let those = tables.iter().filter(move |table| table.is_taken_whole(number) == is_whole);
            those.map(|table| table.range.clone())
        };
        let weights: Vec<Range<usize>> = ranges_of(false).collect();
        let mut indexes = largest(source, &weights, count);
        let changed = ranges_of(true).flatten().filter(|place| source[*place] != 0.0);
        indexes.extend(changed.map(|place| place as u32));
        // Two ascending pieces, which a stable sort merges.
        indexes.sort();
        indexes.iter_mut().for_each(|index| *index += start as u32);

        Self::take_those(source, start, indexes, format)
    }

    /// Takes the changes of the parameters `indexes`, and of those between them where that needs fewer bytes.
    fn take_those(
        source: &mut [f32],
        start: usize,
        mut indexes: Vec<u32>,
        format: ValueFormat,
    ) -> Self {
        if fills_holes(&indexes, format) {
            indexes = (indexes[0]..=indexes[indexes.len() - 1]).collect();
        }
        let places = indexes.iter().map(|index| *index as usize - start);
        let mut values: Vec<f32> = places.clone().map(|place| source[place]).collect();
        quantise(&mut values, format);

        for (place, sent) in places.zip(&values) {
            source[place] = match format {
                ValueFormat::F32 => 0.0,
                _ => source[place] - sent,
            };
        }

        Self { indexes, values, format }
    }

    /// Values that are sent as they are, for ascending indexes.
    pub(in crate::server) fn exact(indexes: Vec<u32>, values: Vec<f32>) -> Self {
        Self { indexes, values, format: ValueFormat::F32 }
    }

    pub(in crate::server) fn changes(&self) -> Changes<'_> {
        Changes::Sparse { indexes: &self.indexes, values: &self.values }
    }

    /// The changes from `cursor` on that fill about `room` bytes, and the cursor of the next frame. `None` instead of
    /// the cursor if no changes are left.
    fn cut(&self, cursor: usize, room: usize) -> (Changes<'_>, Option<usize>) {
        let fitting = (room as f64 / self.format.bytes_per_value()) as usize;
        let most = (fitting / ValueFormat::BLOCK).max(2) * ValueFormat::BLOCK;
        let end = (cursor + most).min(self.values.len());
        let changes = Changes::Sparse {
            indexes: &self.indexes[cursor..end],
            values: &self.values[cursor..end],
        };
        (changes, (end < self.values.len()).then_some(end))
    }
}

impl Job {
    pub(in crate::server) fn new(kind: BulkKind, clock: Clock, part: Arc<Part>) -> Self {
        Self { kind, clock, tightness: Tightness::NONE, part, cursor: 0 }
    }

    /// An empty job, into which state is restored.
    pub(in crate::server) fn none() -> Self {
        let part = Part { indexes: Vec::new(), values: Vec::new(), format: ValueFormat::F32 };
        Self::new(BulkKind::Partial, Clock::ZERO, Arc::new(part))
    }

    /// All changes of the part.
    pub(in crate::server) fn changes(&self) -> Changes<'_> {
        self.part.changes()
    }

    /// The next frame of about `room` bytes, the number of parameters that it changes, and whether it is the last.
    pub(in crate::server) fn next_frame(
        &mut self,
        header: BulkHeader,
        room: usize,
    ) -> (Bytes, u64, bool) {
        let (changes, next) = self.part.cut(self.cursor, room);
        let last = next.is_none();
        let mut frame = Vec::with_capacity(room.min(1 << 16));
        encode_bulk(&BulkHeader { last, ..header }, changes, self.part.format, &mut frame);
        self.cursor = next.unwrap_or(self.cursor);
        let updates = changes.values().iter().filter(|value| **value != 0.0).count();
        (Bytes::from(frame), updates as u64, last)
    }
}

/// By hand, since the part is shared with other jobs until it is restored, and what it was rounded to takes a fraction of the
/// memory of its numbers.
impl Persist<usize> for Job {
    fn save(&self, walk: &mut Saver<'_>, _parameters: usize) -> Saved {
        walk.record("kind", &self.kind)?;
        walk.record("clock", &self.clock)?;
        walk.record("tightness", &self.tightness)?;
        let mut indexes = Vec::new();
        encode_indexes(&self.part.indexes, &mut indexes);
        walk.record("indexes", &Bytes::from(indexes))?;
        walk.record("format", &self.part.format)?;
        if self.part.format.shares_scales() {
            let mut rounded = Vec::new();
            encode_values(&self.part.values, self.part.format, &mut rounded);
            walk.record("values", &Bytes::from(rounded))?;
        } else {
            walk.tensor("values", Content::Changes, &self.part.values)?;
        }
        walk.record("cursor", &self.cursor)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>, parameters: usize) -> Result<(), StateError> {
        walk.record("kind", &mut self.kind)?;
        walk.record("clock", &mut self.clock)?;
        walk.record("tightness", &mut self.tightness)?;

        let Part { mut indexes, mut values, mut format } = (*self.part).clone();
        walk.record_that("indexes", &mut Bytes::new(), |found, _| {
            decode_indexes(found, parameters, &mut indexes).is_ok()
        })?;
        walk.record("format", &mut format)?;
        if format.shares_scales() {
            walk.record_that("values", &mut Bytes::new(), |found, _| {
                decode_values(found, indexes.len(), format, &mut values).is_ok()
            })?;
        } else {
            walk.numbers("values", Content::Changes, &mut values, |found| found == indexes.len())?;
        }
        walk.record_that("cursor", &mut self.cursor, |found, _| *found <= indexes.len())?;

        self.part = Arc::new(Part { indexes, values, format });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DcId, ShardId, State, messagepack};

    const PARAMETERS: usize = 1_000;

    /// A part of these changes, of which a frame has left.
    fn begun(format: ValueFormat) -> Job {
        let numbers = (0..PARAMETERS).map(|at| (at % 7) as f32 * 0.37 - 1.0);
        let part = Part::take(&mut numbers.collect::<Vec<f32>>(), 0, format);
        let mut job = Job::new(BulkKind::Partial, Clock(3), Arc::new(part));
        job.next_frame(header(), 200);
        job
    }

    fn header() -> BulkHeader {
        BulkHeader {
            kind: BulkKind::Partial,
            origin: DcId(0),
            shard: ShardId(0),
            sequence: 1,
            clock: Clock(3),
            last: false,
            relayed: false,
            tightness: Tightness::NONE,
        }
    }

    #[test]
    fn a_job_that_is_restored_sends_the_same_frames() {
        for format in ValueFormat::ALL {
            let mut job = begun(format);
            let state = State::of(|walk| job.save(walk, PARAMETERS));
            let numbers = state.tensors.values().map(|tensor| tensor.values.len()).sum::<usize>();
            assert_eq!(numbers > 0, !format.shares_scales(), "{format:?}");

            let mut restored = Job::none();
            state.restore(|walk| restored.restore(walk, PARAMETERS)).unwrap();
            loop {
                let (frame, _, is_last) = job.next_frame(header(), 300);
                assert_eq!(restored.next_frame(header(), 300).0, frame, "{format:?}");
                if is_last {
                    break;
                }
            }
        }
    }

    #[test]
    fn values_that_are_not_as_many_as_their_indexes_do_not_fit() {
        let mut state = State::of(|walk| begun(ValueFormat::Int4).save(walk, PARAMETERS));
        state
            .records
            .insert("values".into(), messagepack::encode(&Bytes::from_static(b"four")).into());
        let found = state.restore(|walk| Job::none().restore(walk, PARAMETERS));
        assert_eq!(found, Err(StateError::Unfit { name: "values".into() }));
    }
}
