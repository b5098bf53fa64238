//! A copy that is being sent to a mirror that has lost its own.

use bytes::Bytes;

use crate::codec::Changes;
use crate::persist;
use crate::sync::ValueFormat;
use crate::types::{Clock, Content, ServerId, Tightness};
use crate::wire::{BulkHeader, BulkKind, encode_bulk};

/// The copy at the time of the request, and the part of it that was sent.
///
/// The copy is what the mirror would have if it had received the same updates as this server: the values and, if
/// mirrors send gradients, the steps that momentum has yet to add to them.
#[derive(Debug)]
pub(super) struct Copying {
    clock: Clock,
    values: Vec<f32>,
    /// As many as values, or none.
    steps: Vec<f32>,
    /// The number of values and then steps that were sent.
    sent: usize,
}

impl Copying {
    pub(super) fn new(clock: Clock, values: Vec<f32>, steps: Vec<f32>) -> Self {
        Self { clock, values, steps, sent: 0 }
    }

    /// An empty copy of a shard of `parameters`, into which state is restored.
    pub(super) fn none(parameters: usize) -> Self {
        Self::new(Clock::ZERO, vec![0.0; parameters], Vec::new())
    }

    /// The next frame, of at most about `room` bytes, and whether it is the last.
    pub(super) fn next_frame(
        &mut self,
        from: ServerId,
        sequence: u64,
        room: usize,
    ) -> (Bytes, bool) {
        let parameters = self.values.len();
        let (kind, numbers, start) = match self.sent.checked_sub(parameters) {
            None => (BulkKind::Copy, &self.values, self.sent),
            Some(start) if start < self.steps.len() => (BulkKind::CopyStep, &self.steps, start),
            // The copy of a shard without parameters is an empty frame.
            Some(_) => (BulkKind::Copy, &self.values, parameters),
        };
        let end = (start + (room / 4).max(NUMBERS_MIN)).min(numbers.len());
        self.sent += end - start;

        let last = self.sent == parameters + self.steps.len();
        let header = BulkHeader {
            kind,
            origin: from.dc,
            shard: from.shard,
            sequence,
            clock: self.clock,
            last,
            relayed: false,
            tightness: Tightness::NONE,
        };

        let changes = Changes::Dense { start: start as u32, values: &numbers[start..end] };
        let mut frame = Vec::with_capacity(4 * (end - start) + 64);
        encode_bulk(&header, changes, ValueFormat::F32, &mut frame);
        (Bytes::from(frame), last)
    }
}

persist! {
    impl Persist<()> for Copying {
        fn walk(Self { clock, values, steps, sent }, walk, ()) {
            walk.record("clock", clock)?;
            walk.tensor("values", Content::Values, values)?;
            let parameters = values.len();
            walk.numbers("steps", Content::Optimizer, steps, |found| {
                found == 0 || found == parameters
            })?;
            let most = parameters + steps.len();
            walk.record_that("sent", sent, |found, _| *found <= most)
        }
    }
}

/// The smallest number of values in a frame that is not the last.
const NUMBERS_MIN: usize = 64;
